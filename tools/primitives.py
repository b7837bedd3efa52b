"""Files that are made from the declarations of tile primitives: their reference page, and the stub of ``Tx``."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from textwrap import dedent
from typing import Literal, get_args, get_origin

import tilewright.tile  # noqa: F401  registers the variants
from tilewright.lang.tile_assignments import SCOPES
from tilewright.primitives import COMMON, PRIMITIVES, Primitive
from tilewright.primitives.table import DISPATCH
from tilewright.tile.dispatch import VARIANTS, Variant, one_of_its_scopes
from tools.size import ROOT

__all__ = ["PRIMITIVES_PAGE", "STUB", "primitives_page", "stub"]

PRIMITIVES_PAGE = ROOT / "docs" / "primitives.md"
STUB = ROOT / "tilewright" / "lang" / "tx.pyi"

_HEAD = """\
# Tile primitives

Every primitive as kernels call it, with its operands, its keywords and the variants that carry it out, in the order in
which they are tried; primitives that the same variants carry out stand together. This page is made by `make docs` from
`tilewright/primitives/` and `tilewright/tile/`.

Every call takes:

{common}

A `vec_len=` that is no vector is an error, and a variant whose layouts do not allow it declines.
"""
_STUB = '''\
"""What type checkers and editors see of ``Tx``. Made by `make docs` from `tilewright/primitives/`."""

from typing import Any, Literal

__all__ = ["Tx"]

Tile = Any  # a buffer, or a region of one
Value = Any  # a number, a scalar, an element of a buffer

class TileFunctions:
{functions}

class Scope(TileFunctions):
    def __enter__(self) -> None: ...
    def __exit__(self, *_: object) -> None: ...

class TileNamespace(TileFunctions):
{scopes}

Tx: TileNamespace
'''


def primitives_page() -> str:
    """The whole page."""
    groups: dict[tuple[object, ...], list[Primitive]] = {}
    for _, row in sorted(PRIMITIVES.items()):
        if row.formula is None:
            groups.setdefault(tuple(each.planner for each in VARIANTS[row.name].variants), []).append(row)
    head = _HEAD.format(common="\n".join(f"- `{each.name}=`: {each.meaning}" for each in (DISPATCH, *COMMON)))
    return "\n".join([head, *(line for rows in groups.values() for line in _section(rows)), *_elementwise()])


_ELEMENTWISE = """\
## Elementwise

Of each element of `dst` the formula is computed in the type of arithmetic and converted to the dtype of `dst`:
[elementwise.md](elementwise.md). `src` left out is `dst`. Types: *float* refuses integers, of *number* a bool counts as
0 or 1.

| call | element | types | |
| --- | --- | --- | --- |
"""


def _elementwise() -> Iterator[str]:
    """The primitives that compute each element by itself: a table, and the variants that they share."""
    rows = [row for _, row in sorted(PRIMITIVES.items()) if row.formula is not None]
    yield _ELEMENTWISE.rstrip()
    for row in rows:
        assert row.formula is not None, "asked above"
        keywords = [f"{each.name}={each.default!r}" for each in row.keywords if each.name != "vec_len"]
        names = [f"{each.name}=None" if each.optional else each.name for each in row.operands]
        shown = f"`Tx.{row.name}({', '.join([*names, *keywords])})`"
        others = [f"`{text}` for {key!r}" for key, text in (row.formula.chosen or {}).items()]
        formula = "; ".join([f"`{row.formula.text}`", *others])
        yield f"| {shown} | {formula} | {row.formula.takes} | {row.doc} |"
    used = {each.name: each for row in rows for each in row.keywords}
    yield from ("", "`affine` is `src * scale + bias`, rounded twice. Keywords:", "")
    yield from (f"- `{each.name}=`: {each.meaning}" for each in used.values())
    yield ""
    for each in VARIANTS[rows[0].name].variants:
        yield from _variant(each)
    yield ""


def _section(rows: list[Primitive]) -> Iterator[str]:
    """The primitives that the same variants carry out."""
    first = rows[0]
    yield from (f"## {', '.join(f'Tx.{row.name}' for row in rows)}", "")
    for row in rows:
        yield from (f"`Tx.{row.name}{_called(row)}`: {row.doc}", "")
        if not re.search(r"\b_\w", body := _body(row)):  # a function of its own is no formula for readers
            yield from ("```text", body, "```", "")
    roles = ", ".join(f"`{each.name}` {each.role.name}" for each in first.operands)
    yield from (f"Scopes: {', '.join(first.scopes)}. Operands: {roles}.", "")
    yield from _keywords(rows)
    yield from ("The variants, in the order in which they are tried:", "")
    for each in VARIANTS[first.name].variants:
        yield from _variant(each)
    yield ""


def _keywords(rows: list[Primitive]) -> Iterator[str]:
    """The keywords of primitives that stand together; what takes more than a sentence stands below the table."""
    keywords = {each.name: each for row in rows for each in row.keywords}
    if not keywords:
        return
    yield from ("| keyword | default | means | read by |", "| --- | --- | --- | --- |")
    more = []
    for name, keyword in keywords.items():
        own = {row.name: row.keyword(name) for row in rows}
        meanings: dict[str, list[str]] = {}
        for owner, found in own.items():
            if found is not None:
                meanings.setdefault(found.meaning.partition(". ")[0], []).append(owner)
        alike = len(meanings) == 1 and sum(map(len, meanings.values())) == len(rows)
        means = "; ".join(
            meaning if alike else f"{', '.join(owners)}: {meaning}" for meaning, owners in meanings.items()
        )
        first = next(owner for owner, found in own.items() if found is not None)
        readers = [f"`{each.name}`" for each in VARIANTS[first].variants if name in each.keywords]
        shown = f"`{name}: {_shown(keyword.type).replace(' | ', ' or ')}`"
        yield f"| {shown} | `{keyword.default!r}` | {_cell(means)} | {', '.join(readers)} |"
        if rest := keyword.meaning.partition(". ")[2]:
            more += [f"`{name}`: {rest}{'' if rest.endswith('.') else '.'}", ""]
    yield from ("", *more)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _called(row: Primitive) -> str:
    """Its parameters, without types."""
    empty = inspect.Parameter.empty
    return str(inspect.Signature([each.replace(annotation=empty) for each in row.signature.parameters.values()]))


def _positional(row: Primitive) -> list[inspect.Parameter]:
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return [each for each in row.signature.parameters.values() if each.kind is kind]


def _is_optional(parameter: inspect.Parameter) -> bool:
    return parameter.default is not inspect.Parameter.empty


def _body(row: Primitive) -> str:
    """The statements of the meaning, without the docstring."""
    return dedent(inspect.getsource(row.meaning).rpartition('"""')[2].strip("\n")).rstrip()


def _variant(row: Variant) -> Iterator[str]:
    asked = "; ".join(each.sentence for each in row.when if each is not one_of_its_scopes)
    yield f"- `{row.name}`: {row.doc}" + (f" Where {asked}." if asked else "")


def _shown(kind: object) -> str:
    if get_origin(kind) is Literal:
        return f"Literal[{', '.join(map(_literal, get_args(kind)))}]"
    return kind.__name__ if isinstance(kind, type) else str(kind)


def _literal(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


def stub() -> str:
    """The text of `tx.pyi`."""
    scopes = "\n".join(f"    {name}: Scope" for name in SCOPES)
    functions = "\n".join(line for name in sorted(PRIMITIVES) for line in _function(PRIMITIVES[name]))
    return _STUB.format(functions=functions, scopes=scopes)


def _function(row: Primitive) -> Iterator[str]:
    tiles = {each.name for each in row.operands if each.role.tile}
    operands = [
        f"{each.name}: {'Tile' if each.name in tiles else _shown(each.annotation)}"
        + (f" = {each.default!r}" if _is_optional(each) else "")
        for each in _positional(row)
    ]
    keywords = [
        f"{each.name}: {_shown(each.annotation)} = {_literal(each.default)}"
        for each in row.signature.parameters.values()
        if each.kind is inspect.Parameter.KEYWORD_ONLY
    ]
    yield from ("    @staticmethod", f"    def {row.name}(")
    yield from (f"        {each}," for each in (*operands, "*", *keywords))
    yield from ("    ) -> None:", f'        """{row.doc}"""')
