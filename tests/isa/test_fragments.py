"""Fragments as layouts agree with the manual's formulas, and with what the matrix copies do."""

from __future__ import annotations

import numpy as np
import pytest

from tests.isa.forms import executed
from tests.isa.machines import PlainMachine
from tests.isa.matrix_oracles import place_in_a, width_of
from tests.tile.kernels import whole_number
from tilewright import isa
from tilewright.errors import InstructionError
from tilewright.isa.forms import ELEMENTS
from tilewright.isa.ldmatrix import LDMATRIX, STMATRIX
from tilewright.isa.mma import MMA
from tilewright.layout import TileLayout

SHAPES = sorted({(str(m["shape"]), *str(m["types"]).split(".")) for f in MMA.forms for m in f.all_mods()})


def places(layout: TileLayout, shape: tuple[int, ...]) -> dict[tuple[int, int], tuple[int, ...]]:
    """(lane, slot) -> logical coordinate."""
    table = layout.table(shape)
    return {(int(table["laneid"][at][0]), int(table["m"][at][0])): at for at in np.ndindex(*shape)}


@pytest.mark.parametrize("case", SHAPES, ids="-".join)
def test_the_operands_of_an_mma_lie_where_the_manual_says(case: tuple[str, ...]) -> None:
    shape, _, a, b, c = case
    k = int(shape.split("k")[1])

    held_a = places(isa.mma_fragment(shape, "A", ELEMENTS[a]), (16, k))
    held_b = places(isa.mma_fragment(shape, "B", ELEMENTS[b]), (k, 8))
    held_c = places(isa.mma_fragment(shape, "C", ELEMENTS[c]), (16, 8))

    assert held_a == {(lane, i): place_in_a(lane, i, 16, width_of(a)) for lane in range(32) for i in range(k // 2)}
    assert held_b == {(lane, i): place_in_a(lane, i, 8, width_of(b))[::-1] for lane in range(32) for i in range(k // 4)}
    assert held_c == {
        (lane, i): (lane // 4 + 8 * (i // 2), 2 * (lane % 4) + i % 2) for lane in range(32) for i in range(4)
    }


def matrix_forms() -> list[tuple[str, int, bool]]:
    return sorted(
        {
            (str(m["shape"]), whole_number(m["num"]), bool(m["trans"]))
            for row in (LDMATRIX, STMATRIX)
            for f in row.forms
            for m in f.all_mods()
        }
    )


@pytest.mark.parametrize(("shape", "num", "trans"), matrix_forms())
def test_a_matrix_copy_moves_each_element_where_its_fragment_says(shape: str, num: int, trans: bool) -> None:
    bits = 16 if shape == "m8n8" else 8
    rows = 16 if shape == "m16n16" else 8
    columns = 128 // bits
    unsigned = np.dtype(f"u{bits // 8}")
    elements = np.arange(num * rows * columns).astype(unsigned).reshape(num, rows, columns)
    table = isa.matrix_fragment(shape, num, trans=trans).table(elements.shape)
    lane, slot = table["laneid"][..., 0], table["m"][..., 0]
    held = np.zeros((32, elements.size // 32), unsigned)
    held[lane, slot] = elements
    registers = np.ascontiguousarray(held).view(np.uint32).T[None]
    address = np.arange(32)[None] * 16

    if shape in ("m8n8", "m16n8"):
        machine = PlainMachine(np.zeros((1, 512), np.uint8), np.ones((1, 32), bool))
        store = next(f for f in STMATRIX.forms if shape in f.wording.modifiers["shape"])
        executed(store, {"num": num, "trans": trans}, machine.shared, address, registers)
        stored = machine.shared.data[0, : elements.nbytes].view(unsigned)
        assert np.array_equal(stored, elements.reshape(-1))
    if shape in ("m8n8", "m16n16"):
        data = np.zeros((1, 512), np.uint8)
        data[0, : elements.nbytes] = elements.reshape(-1).view(np.uint8)
        machine = PlainMachine(data, np.ones((1, 32), bool))
        load = next(f for f in LDMATRIX.forms if shape in f.wording.modifiers["shape"])
        loaded = executed(load, {"num": num, "trans": trans, "type": ".b8"}, machine.shared, address)
        assert np.array_equal(loaded, registers)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("m16n8k16", "E", "float16"), "no operand 'E'"),
        (("m16n8k16", "A", "float32"), "m16n8k16 has no float32"),
        (("m8n8k4", "A", "float16"), "unknown mma shape"),
    ],
)
def test_a_fragment_that_no_mma_has_is_refused(args: tuple[str, str, str], message: str) -> None:
    with pytest.raises(InstructionError, match=message):
        isa.mma_fragment(*args)


def test_a_matrix_copy_that_does_not_exist_has_no_fragment() -> None:
    with pytest.raises(InstructionError, match="no matrix copy is m16n16"):
        isa.matrix_fragment("m16n16", 1, trans=False)
