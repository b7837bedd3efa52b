"""One row stands for all CTAs until two of them differ."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

import tilewright as tw
from tilewright.errors import SimulationError
from tilewright.sim.machine.address import Address, Part
from tilewright.sim.machine.memory import MemoryRows
from tilewright.sim.machine.registers import Registers
from tilewright.sim.machine.team import Look, Team

CTAS = 4
WAVE = cast(Any, SimpleNamespace(ctas=CTAS))
ALL = Look(WAVE, slice(0, CTAS, 1), slice(0, 1, 1), (CTAS, 1, 32))
TWO = Look(WAVE, slice(1, 3, 1), slice(0, 1, 1), (2, 1, 32))
EVERYONE = Team(ALL)
LANES = Part(4 * np.arange(32, dtype=np.int64).reshape(1, 1, 32))
BY_CTA = Part(4 * np.arange(CTAS, dtype=np.int64).reshape(CTAS, 1, 1))
SAME = np.arange(32, dtype=np.uint32).reshape(1, 1, 32)
APART = SAME + np.arange(CTAS, dtype=np.uint32).reshape(CTAS, 1, 1)


def memory() -> MemoryRows:
    return MemoryRows.zeros(1, 256, CTAS)


def test_a_store_of_all_ctas_alike_keeps_one_row() -> None:
    block = memory()

    block.store(EVERYONE, Address(0, LANES), 4, SAME.repeat(CTAS, 0))

    assert block.is_one
    np.testing.assert_array_equal(block.load(ALL, Address(0, LANES), 4), SAME)


@pytest.mark.parametrize(
    ("look", "at", "bits"),
    [
        (ALL, Address(0, LANES), APART),
        (ALL, Address(0, LANES, BY_CTA), SAME),
        (TWO, Address(0, LANES), SAME),
    ],
    ids=["other values", "other places", "some CTAs"],
)
def test_a_store_that_differs_parts_the_rows(look: Look, at: Address, bits: Any) -> None:
    block, each = memory(), MemoryRows.zeros(CTAS, 256)

    for target in (block, each):
        target.store(Team(look), at, 4, bits)

    assert block.rows == CTAS
    np.testing.assert_array_equal(block.data, each.data)


def test_ctas_with_other_lanes_part_the_rows() -> None:
    block, lanes = memory(), np.ones((CTAS, 1, 32), np.bool_)
    lanes[2, 0, 7] = False

    block.store(Team(ALL, lanes), Address(0, LANES), 4, SAME + 1)

    assert block.view(4)[:, 7].tolist() == [8, 8, 0, 8]


def test_a_load_parts_nothing() -> None:
    block = memory()
    block.store(EVERYONE, Address(0, LANES), 4, SAME)

    loaded = np.broadcast_to(block.load(ALL, Address(0, LANES, BY_CTA), 4), ALL.shape)

    assert block.is_one
    assert loaded[:, 0, 5].tolist() == [5, 6, 7, 8]
    np.testing.assert_array_equal(np.broadcast_to(block.load(TWO, Address(0, LANES), 4), TWO.shape)[1], SAME[0])


def test_a_block_of_one_row_is_that_of_all_who_share_it() -> None:
    block = MemoryRows.zeros(1, 256)

    block.store(EVERYONE, Address(0, LANES), 4, APART)

    assert block.rows == 1


def test_registers_part_at_the_first_cta_that_differs() -> None:
    registers, places = Registers(1, 1, 16, 4, ctas=CTAS), Address(0, BY_CTA)

    registers.store(EVERYONE, Address(4), 4, SAME.repeat(CTAS, 0))
    assert registers.is_one
    loaded = registers.load(ALL, places, 4)
    registers.store(EVERYONE, places, 4, APART)

    assert registers.rows == CTAS
    assert loaded[:, 0, 9].tolist() == [0, 9, 0, 0]
    np.testing.assert_array_equal(registers.load(ALL, places, 4), APART)


HANDED_OVER = """
extern "C" __global__ void handed_over(int* flags, const int* own, const int* awaited, int* out) {
    __shared__ int x[32];
    if (threadIdx.x >= 32) {
        x[threadIdx.x - 32] = own[blockIdx.x];
        __threadfence();
        atomicExch(&flags[own[blockIdx.x]], 1);
    } else {
        if (atomicAdd(&flags[awaited[blockIdx.x]], 0) == 0) return;
        __threadfence();
        out[32 * blockIdx.x + threadIdx.x] = x[threadIdx.x];
    }
}
"""


def handed_over(*awaited: int) -> None:
    """Each CTA of two waits for a flag, of its own or of the other's first warp."""
    kernel = tw.load_cu(HANDED_OVER, "sm_90a")["handed_over"]
    flags, own, out = np.zeros(2, np.int32), np.arange(2, dtype=np.int32), np.zeros(64, np.int32)
    kernel.simulate(flags, own, np.array(awaited, np.int32), out, grid=2, block=64, check=("races",), replay="forwards")


def test_ctas_that_wait_for_their_own_warps_are_clean() -> None:
    handed_over(0, 1)


@pytest.mark.parametrize("cta", [0, 1])
def test_a_race_in_one_cta_is_told_where_the_other_one_knows_more(cta: int) -> None:
    with pytest.raises(SimulationError, match=rf"race: load reads x(.|\n)*CTA \({cta}, 0, 0\), warp 0"):
        handed_over(1 - cta, 1 - cta)
