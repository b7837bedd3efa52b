"""The declarations of tile primitives, and their readers."""

from __future__ import annotations

import inspect
import pydoc
import re
from typing import Any

import numpy as np
import pytest

from tests.tile.checking import resolved
from tests.tile.kernels import buffer, copy, tile_call
from tilewright.errors import DispatchError
from tilewright.isa import INSTRUCTIONS
from tilewright.lang import T, Tx
from tilewright.lang.instructions import instructions
from tilewright.lang.tile_assignments import SCOPES
from tilewright.layout.axes import INTS
from tilewright.primitives import PRIMITIVES, Mismatch
from tilewright.primitives.elements import equal_extents
from tilewright.tile.call import Side
from tilewright.tile.dispatch import VARIANTS
from tools.primitives import primitives_page, stub

PLAIN: pydoc.TextDoc = pydoc.plaintext  # type: ignore[attr-defined]  # typeshed lacks it


def test_a_primitive_says_what_it_is() -> None:
    for name, row in PRIMITIVES.items():
        assert row.doc.endswith((".", ")")), name
        assert row.operands[0].role.written, name
        assert VARIANTS[name].variants, name
        assert set(row.scopes) <= set(SCOPES.values()), name


def test_every_keyword_is_read_by_a_variant_and_every_one_that_is_read_is_declared() -> None:
    declared = {name: {each.name for each in row.keywords} for name, row in PRIMITIVES.items()}

    assert declared == {name: set(VARIANTS[name].keywords) for name in PRIMITIVES}


@pytest.mark.parametrize("name", PRIMITIVES)
def test_inspect_and_help_show_operands_and_keywords(name: str) -> None:
    row = PRIMITIVES[name]
    named = [each.name for each in row.keywords if each.name not in row.positional]
    assert {each.name for each in row.operands} <= set(row.positional)

    for scope in (Tx, Tx.warp, Tx.wg, Tx.cta):
        function = getattr(scope, name)
        shown = inspect.signature(function).parameters
        assert list(shown) == [*row.positional, "dispatch", *named, "workspace"]
        assert all(shown[each.name].default == each.default for each in row.keywords)
        assert (function.__name__, function.__doc__) == (name, row.help)


def test_a_type_checker_sees_every_primitive_and_scope() -> None:
    text = stub()

    assert all(f"def {name}(" in text for name in PRIMITIVES)
    assert all(f"    {scope}: Scope" in text for scope in SCOPES)


def test_the_page_has_every_variant_of_every_primitive() -> None:
    text = primitives_page()

    for name, row in VARIANTS.items():
        assert f"Tx.{name}(" in text
        sections = [part for part in text.split("\n## ") if f"`Tx.{name}(" in part]
        section = sections[0]
        assert all(f"- `{each.name}`: {each.doc}" in section for each in row.variants)


def test_the_meaning_of_a_copy_ignores_extents_of_one() -> None:
    dst, src = np.zeros((4, 1, 2)), np.arange(8).reshape(4, 2)

    PRIMITIVES["copy"].meaning(dst, src)

    assert (dst[:, 0] == src).all()


def test_the_meaning_of_zero_is_to_fill_with_0() -> None:
    one, other = np.ones(4), np.ones(4)

    PRIMITIVES["zero"].meaning(one)
    PRIMITIVES["fill"].meaning(other, 0)

    assert (one == other).all()
    assert not one.any()


def side(name: str, *extents: object) -> Side:
    return Side(buffer(name, "shared", (8,) * len(extents)).region(), extents)  # type: ignore[arg-type]


def test_equal_extents_fill_in_what_one_tile_knows() -> None:
    found = equal_extents({"dst": side("A", 4, 1, 8), "src": side("B", 4, 8)}, INTS, {})

    assert found == {"dst": (4, 1, 8), "src": (4, 8)}


def test_extents_that_differ_are_told_with_both_shapes() -> None:
    found = equal_extents({"a": side("A", 4, 8), "b": side("B", 4, 8), "c": side("C", 8, 4)}, INTS, {})

    assert isinstance(found, Mismatch)
    assert found.given == "A (4, 8), B (4, 8), C (8, 4)"


def test_a_keyword_that_the_chosen_variant_does_not_read_is_refused() -> None:
    registers, memory = buffer("R", "local", (8,)), buffer("A", "shared", (8,))

    with pytest.raises(DispatchError, match="does not fit") as refused:
        resolved(copy(registers, memory, dispatch="ldstmatrix", vec_len=8))
    assert "R" in str(refused.value)


@pytest.mark.parametrize(
    ("primitive", "keyword", "value", "allowed"),
    [
        ("copy", "vec_len", "8", "vec_len= of type int"),
        ("copy", "workspace", 3, 'workspace= a dict of buffers: {"scratch": buffer}'),
        ("copy", "workspace", (("scratch", 3),), 'workspace= a dict of buffers: {"scratch": buffer}'),
        ("copy_async", "cta_group", 3, "cta_group= 1, 2"),
        ("copy_async", "fmt", "b5", "fmt= '', 'b4x16_p64', 'b6x16_p32'"),
    ],
)
def test_a_value_that_a_keyword_cannot_have_is_refused(primitive: str, keyword: str, value: Any, allowed: str) -> None:
    pair = buffer("A", "shared", (8,)), buffer("B", "shared", (8,))

    with pytest.raises(DispatchError, match=f"unknown {keyword}") as refused:
        resolved(tile_call(primitive, "warp", pair, **{keyword: value}))
    assert refused.value.allowed == allowed


def test_every_keyword_says_what_it_means() -> None:
    silent = [f"{row.name}: {each.name}" for row in PRIMITIVES.values() for each in row.keywords if not each.meaning]

    assert silent == []


@pytest.mark.parametrize("keyword", ["dispatch", "vec_len", "clip", "fill", "workspace"])
def test_help_of_a_primitive_tells_of_each_keyword(keyword: str) -> None:
    shown = PLAIN.document(Tx.warp.copy)

    call = re.sub(r"\(\s+", "(", " ".join(shown.split()))  # Python 3.13 shows a long one in several lines
    assert call.startswith("copy(dst: 'Tile', src: 'Tile', *,")
    assert f"\n    {keyword}: " in shown


def test_help_of_an_instruction_begins_with_its_call() -> None:
    assert "T.ptx.mma(shape, types, d, a, b, c, saturate=False)" in PLAIN.document(T.ptx.mma)
    assert "arrive" in (T.ptx.mbarrier.__doc__ or "")
    for name in INSTRUCTIONS:
        assert (instructions(name).__doc__ or "").startswith(f"T.{name}("), name
