"""The matrix copies by hand print what they should: two of them line for line, the others as the lane maps say."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

from tests.texts import imported
from tilewright import compile
from tilewright.isa import matrix_fragment

EXAMPLE = Path(__file__).parents[2] / "examples" / "ldmatrix_by_hand.py"
ONE_MATRIX = "".join(f"{lane} -> {2 * lane}  {2 * lane}   {2 * lane + 1}   \n" for lane in range(32))


@cache
def example() -> ModuleType:
    return imported(EXAMPLE)


def printed(name: str) -> str:
    run = compile(getattr(example(), name)).simulate()
    assert run.warnings == []
    return run.output


@pytest.mark.parametrize("name", ["load_x1", "store_x1"])
def test_one_matrix_prints_the_numbers_in_order(name: str) -> None:
    output = printed(name)

    assert output.splitlines()[0] == "0 -> 0  0   1   "
    assert output.splitlines()[31] == "31 -> 62  62   63   "
    assert output == ONE_MATRIX


@pytest.mark.parametrize("num", [2, 4])
@pytest.mark.parametrize("way", ["load", "store"])
def test_more_matrices_print_what_the_lane_maps_say(way: str, num: int) -> None:
    table = matrix_fragment("m8n8", num, trans=False).table((num, 8, 8))
    held = {
        (int(lane), int(slot)): number
        for number, (lane, slot) in enumerate(zip(table["laneid"].flat, table["m"].flat, strict=True))
    }
    lines = [
        f"{lane} -> {2 * lane + 64 * m}  {held[lane, 2 * m]}   {held[lane, 2 * m + 1]}   "
        for m in range(num)
        for lane in range(32)
    ]

    assert printed(f"{way}_x{num}").splitlines() == lines


@pytest.mark.parametrize("num", [1, 2, 4])
def test_each_kernel_is_one_instruction(num: int) -> None:
    for way, first in (("load", "ldmatrix"), ("store", "stmatrix")):
        made = compile(getattr(example(), f"{way}_x{num}"))

        assert made.source("cuda").count(f"{first}.sync.aligned.m8n8.x{num}.shared.b16") == 1


def test_the_three_ways_to_a_shared_address_are_all_used() -> None:
    text = "".join(compile(getattr(example(), f"load_x{num}")).source("lowered") for num in (1, 2, 4))

    for way in ("T.cuda.cvta_generic_to_shared", "T.ptx.cvta.to.shared.u64", "T.cuda.cast_smem_ptr_to_uint"):
        assert way in text
