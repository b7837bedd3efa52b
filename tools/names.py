"""The reference page of `T`: every name of the language that is no instruction, made from its functions."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator

from tilewright.dtypes import NAMES
from tilewright.ir import ELEMENT, SPECIALS
from tilewright.isa import INSTRUCTIONS
from tilewright.lang.builder import ALIASES
from tilewright.lang.instructions import FORMS
from tilewright.lang.public import EXPORTED
from tools.size import ROOT

__all__ = ["NAMES_PAGE", "names_page"]

NAMES_PAGE = ROOT / "docs" / "names.md"
HEADINGS = (
    "Functions that are kernels", "Where a thread stands", "Memory", "Loops and branches", "Values", "Tiles", "Types",
    "Facts and settings", "Shared and tensor memory, dealt out", "Barriers, pipelines, roles of warps", "Tensor maps",
    "Several GPUs", "Names of kernels written elsewhere",
)  # fmt: skip
FUNCTIONS = {name: value for name, value in FORMS.items() if "." not in name and name not in INSTRUCTIONS}
"""Functions of tiles and numbers that are several instructions, such as ``T.relu``."""
_HEAD = """\
# Names of T

Every name of `T` that is no instruction, with its arguments and what it is; `help(T.match_buffer)` says more.
[The language](language.md) shows them at work. [Instructions](instructions.md) has `T.ptx`, `T.cuda` and the functions
of numbers, such as `T.exp`, and [Layouts](layouts.md) has `T.S`, `T.R`, `T.TileLayout` and their kin. `make docs` makes
this page from `tilewright/lang/`.
"""


def names_page() -> str:
    """The whole page."""
    lines = [_HEAD]
    told: set[str] = set()
    for heading in HEADINGS:
        lines += [f"## {heading}", "", "| name | is |", "| --- | --- |"]
        names = {**EXPORTED[heading], **(FUNCTIONS if heading == "Tiles" else {})}
        new = {name: value for name, value in names.items() if name not in told}
        told |= new.keys()
        lines += [_row(name, value) for name, value in new.items()]
        lines += [*(_dtypes() if heading == "Types" else ()), ""]
    return "\n".join([*lines, *_specials()])


def _row(name: str, value: object) -> str:
    doc = inspect.getdoc(value) or ""
    said = " ".join(doc.partition("\n\n")[0].split()).replace("|", "\\|")
    return f"| `T.{name}{_arguments(value)}` | {said} |"


def _arguments(value: object) -> str:
    """The parameters, without types, as far as Python knows them."""
    if not callable(value) or getattr(value, "__name__", "") in ("let",):
        return ""
    try:
        known = inspect.signature(value).parameters.values()
    except ValueError:
        return ""
    plain = [each.replace(annotation=inspect.Parameter.empty) for each in known]
    return str(inspect.Signature([each for each in plain if not _is_hidden(each)]))


def _is_hidden(parameter: inspect.Parameter) -> bool:
    """Is its default an object that stands for nothing?"""
    return type(parameter.default) is object


def _dtypes() -> Iterator[str]:
    uses = "`T.float16(x)` converts, `T.float16[8]` is an array, `T.int32()` a symbol"
    yield f"| {_listed(NAMES)} | a dtype: {uses} |"
    yield f"| {_listed(name for name, full in ALIASES.items() if name != full)} | the same in short |"


def _specials() -> Iterator[str]:
    yield from ("## Special registers", "", "What `T.cta_id` and its kin become in the lowered stage; kernels may read")
    yield from (f"them, too: {_listed((*SPECIALS, *ELEMENT))}.", "")


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`T.{name}`" for name in names)
