"""The fragment of an operand of any size: each 16 x 8 x K piece of it is the instruction's, in each warp."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.errors import LayoutError
from tilewright.isa import mma_fragment
from tilewright.layout import mma_fragment_layout, wid_in_wg

PIECES = {"A": (16, 16), "B": (16, 8), "C": (16, 8), "D": (16, 8)}
WARP = {"A": lambda m, n: (m, None), "B": lambda m, n: (None, n), "C": lambda m, n: (m, n), "D": lambda m, n: (m, n)}


@pytest.mark.parametrize("operand", PIECES)
def test_each_piece_is_a_fragment_of_the_instruction_with_slots_side_by_side(operand: str) -> None:
    rows, columns = PIECES[operand]
    shape = (3 * rows, 2 * columns)
    whole = mma_fragment_layout(operand, shape, "float16").table(shape)
    one = mma_fragment("m16n8k16", operand, "float16").table((rows, columns))

    slots = set()
    for i in range(3):
        for j in range(2):
            lane, slot = (
                whole[axis][i * rows : (i + 1) * rows, j * columns : (j + 1) * columns] for axis in ("laneid", "m")
            )
            assert (lane == one["laneid"]).all()
            assert (slot - slot.min() == one["m"]).all()
            slots |= set(np.unique(slot).tolist())
    assert slots == set(range(6 * (one["m"].max() + 1)))


@pytest.mark.parametrize("operand", PIECES)
def test_warps_share_out_d_and_hold_all_that_they_need_of_a_and_b(operand: str) -> None:
    share = (2, 4)
    shape = {"A": (64, 32), "B": (32, 64)}.get(operand, (64, 64))
    warps = mma_fragment_layout(operand, shape, "float16", share).table(shape)["warpid"]
    step = {"A": (32, 32), "B": (32, 16)}.get(operand, (32, 16))

    for index in np.ndindex(*shape):
        m, n = WARP[operand](index[0] // step[0], index[1] // step[1])
        wanted = [4 * a + b for a in range(2) for b in range(4) if m in (None, a) and n in (None, b)]
        assert sorted(np.unique(warps[index]).tolist()) == wanted


def test_the_axis_of_the_warps_is_asked_for() -> None:
    assert "wid_in_wg" in str(mma_fragment_layout("D", (64, 8), "float32", (4, 1), wid_in_wg))


@pytest.mark.parametrize(("operand", "shape", "element", "warps", "message"), [
    ("E", (16, 8), "float16", (1, 1), "mma has no operand 'E'"),
    ("D", (20, 8), "float32", (1, 1), "D of .* is no fragment"),
    ("D", (16, 8), "float32", (2, 1), "D of .* is no fragment"),
    ("A", (16, 12), "float16", (1, 1), "A of .* is no fragment"),
    ("A", (16, 16, 2), "float16", (1, 1), "no fragment of mma"),
    ("A", (16, 16), "void", (1, 1), "void in"),
])  # fmt: skip
def test_what_is_no_fragment_is_refused(operand, shape, element, warps, message):
    with pytest.raises(LayoutError, match=message):
        mma_fragment_layout(operand, shape, element, warps)
