"""Copies and loads of a loop are done, judged and recorded at once, with the results and reports of each alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright as tw
from tests.recording import results_of
from tilewright import T, Tx
from tilewright.errors import SimulationError
from tilewright.layout import S, TileLayout, laneid, mma_shared_layout
from tilewright.sim.fast.copies import Copies, Loads
from tilewright.sim.machine.address import Address, Part, are_apart
from tilewright.sim.order.races.detector import RaceDetector

CTAS, TURNS, TILE, STEP = 3, 3, 64, 32
ROWS = mma_shared_layout("float16", 2, (TILE, STEP))
FRAGMENT = TileLayout(S[(2, 2, 8, 2, 2, 4, 2) : (16, 2, 4 @ laneid, 8, 4, 1 @ laneid, 1)])


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each group of accesses that was to be recorded at once: was it?"""
    return results_of(monkeypatch, RaceDetector, "at_once")


@pytest.fixture
def one_by_one(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Do and record each access by itself from this call on."""

    def turn_off() -> None:
        monkeypatch.setattr(RaceDetector, "at_once", lambda *_: False)
        monkeypatch.setattr(Copies, "_plan", lambda *_: None)
        monkeypatch.setattr(Loads, "_at_once", lambda *_: False)

    return turn_off


def copying(*, before: bool = True, behind: bool = True) -> Any:
    """Tiles go to shared memory and fragments, turn by turn. before, behind: is there a barrier before and behind the
    loads?
    """

    @T.prim_func
    def kernel(A_ptr: T.handle, D_ptr: T.handle):
        A = T.match_buffer(A_ptr, (CTAS * TILE, TURNS * STEP), "float16")
        D = T.match_buffer(D_ptr, (CTAS * 2 * 32, TURNS * STEP), "float16")
        T.device_entry()
        bx = T.cta_id([CTAS])
        warp = T.warp_id([2])
        T.lane_id([32])
        tile = T.alloc_buffer((TILE, STEP), "float16", scope="shared", layout=ROWS)
        a = T.alloc_buffer((32, STEP), "float16", scope="local", layout=FRAGMENT)
        row: T.let = warp * 32
        for step in range(TURNS):
            Tx.cta.copy(tile[:, :], A[bx * TILE : (bx + 1) * TILE, step * STEP : (step + 1) * STEP])
            if before:
                T.cuda.cta_sync()
            Tx.warp.copy(a[:, :], tile[row : row + 32, :])
            if behind:
                T.cuda.cta_sync()
            down: T.let = bx * TILE + row
            Tx.warp.copy(D[down : down + 32, step * STEP : (step + 1) * STEP], a[:, :])

    return kernel


def run(kernel: Any, check: str) -> tuple[np.ndarray[Any, Any], str]:
    """The kernel's results, and all its counts."""
    values = np.arange(CTAS * TILE * TURNS * STEP).astype(np.float16).reshape(CTAS * TILE, -1)
    found = np.zeros_like(values)
    counts = tw.compile(kernel, target="sm_90a").simulate(values, found, check=check).counts
    np.testing.assert_array_equal(found, values)
    return found, str(asdict(counts))


@pytest.mark.parametrize("check", ["none", "all"])
def test_copies_and_loads_at_once_count_as_those_turn_by_turn(
    check: str, at_once: list[bool], one_by_one: Callable[[], None]
) -> None:
    together = run(copying(), check)
    assert at_once == [True] * (2 * TURNS if check == "all" else 0)

    one_by_one()

    assert run(copying(), check)[1] == together[1]


@pytest.mark.parametrize("missing", ["before", "behind"])
def test_a_missing_barrier_is_reported_of_accesses_at_once_as_turn_by_turn(
    missing: str, one_by_one: Callable[[], None]
) -> None:
    kernel = copying(**{missing: False})
    with pytest.raises(SimulationError, match="tile") as together:
        run(kernel, "all")

    one_by_one()
    with pytest.raises(SimulationError) as alone:
        run(kernel, "all")

    assert str(together.value) == str(alone.value)


offsets = st.lists(st.integers(0, 63), min_size=1, max_size=4, unique=True)


@settings(max_examples=50, deadline=None)
@given(st.lists(offsets, max_size=2), st.lists(st.integers(-8, 64), min_size=1, max_size=3), st.sampled_from([1, 2, 4]))
def test_accesses_that_are_said_to_be_apart_share_no_byte(
    parts: list[list[int]], starts: list[int], width: int
) -> None:
    kept = [Part(np.array(part).reshape(1, 1, -1) << 2 * k) for k, part in enumerate(parts)]
    touched = [
        {start + sum(numbers) + byte for numbers in product(*(part.values.ravel().tolist() for part in kept))
         for byte in range(width)}
        for start in starts
    ]  # fmt: skip

    said = are_apart(width, *(Address(start, *kept) for start in starts))

    assert not said or sum(map(len, touched)) == len(set().union(*touched))


def test_accesses_in_even_steps_between_those_of_the_lanes_are_apart() -> None:
    lanes = Part(np.arange(0, 64, 8).reshape(1, 1, -1))

    assert are_apart(4, *(Address(start, lanes) for start in (0, 4, 64, 68)))
    assert not are_apart(4, Address(0, lanes), Address(8, lanes))
