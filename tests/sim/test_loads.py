"""Loads of matrices in a loop are done at once, with the same results, counts and errors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.recording import results_of
from tilewright import T
from tilewright.errors import SimulationError
from tilewright.sim.fast.copies import Loads

WARPS, CTAS, TURNS = 8, 3, 4
THREADS = WARPS * 32
ROWS = 128  # of 16 bytes, in shared memory
REGISTERS = 4 * TURNS
CHECKS = ["none", "all"]


@pytest.fixture
def one_by_one(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Turn off loads at once from this call on."""
    return lambda: monkeypatch.setattr(Loads, "_at_once", lambda *_: False)


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each loop that was tried at once: was it done?"""
    return results_of(monkeypatch, Loads, "_at_once")


def loads(
    *, first: Callable[[Any], Any], trans: bool = False, step: int = 4, filled: int = ROWS, warps: Any = None
) -> Any:
    """Warp ``w`` loads from row ``first(w)`` on, 8 rows further each turn, to registers ``step`` further."""
    some = warps or (lambda warp: warp >= 0)

    @T.prim_func
    def kernel(A_ptr: T.handle, D_ptr: T.handle):
        A = T.match_buffer(A_ptr, (ROWS * 8,), "uint16")
        D = T.match_buffer(D_ptr, (CTAS * THREADS * REGISTERS,), "uint32")
        T.device_entry()
        bx = T.cta_id([CTAS])
        warp = T.warp_id([WARPS])
        lane = T.lane_id([32])
        smem = T.alloc_shared((ROWS, 8), "uint16")
        r = T.alloc_local((REGISTERS,), "uint32")
        thread: T.let = warp * 32 + lane
        if thread < filled:
            for i in range(8):
                smem[thread, i] = A[thread * 8 + i] + T.cast(bx, "uint16")
        for i in T.unroll(REGISTERS):
            r[i] = T.uint32(7)
        T.cuda.cta_sync()
        if some(warp):
            for i in T.unroll(TURNS):
                T.ptx.ldmatrix(
                    trans, 4, ".b16", smem.ptr_to([first(warp) + 8 * i + lane, 0]), r[step * i : step * i + 4]
                )
        for i in T.unroll(REGISTERS):
            D[(bx * THREADS + thread) * REGISTERS + i] = r[i]

    return kernel


def run(kernel: Any, check: str) -> tuple[np.ndarray[Any, Any], str]:
    """The kernel's results, and all its counts."""
    given = np.random.default_rng(0).integers(0, 1 << 15, ROWS * 8, np.uint16)
    found = np.zeros(CTAS * THREADS * REGISTERS, np.uint32)
    counts = tw.compile(kernel, target="sm_90a").simulate(given, found, check=check).counts
    return found, str(asdict(counts))


FIRST: dict[str, Callable[[Any], Any]] = {
    "of its own": lambda warp: warp * 9,
    "shared by all": lambda warp: warp * 0 + 5,
    "shared by neighbours": lambda warp: warp // 4 * 20,
    "shared across": lambda warp: warp % 4 * 20,
}
SOME: dict[str, Callable[[Any], Any]] = {
    "all": lambda warp: warp >= 0,
    "half": lambda warp: warp < 4,
    "with holes": lambda warp: warp % 3 == 0,
}


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("some", SOME)
@pytest.mark.parametrize("first", FIRST)
def test_a_loop_at_once_is_the_loop_turn_by_turn(
    first: str, some: str, check: str, done: list[bool], one_by_one: Callable[[], None]
) -> None:
    kernel = loads(first=FIRST[first], warps=SOME[some])
    at_once = run(kernel, check)
    assert set(done) == {some == "all"}

    one_by_one()
    expected = run(kernel, check)

    np.testing.assert_array_equal(at_once[0], expected[0])
    assert at_once[1] == expected[1]
    assert len(np.unique(at_once[0])) > TURNS


@pytest.mark.parametrize("step", [0, 1, 2, 3])
@pytest.mark.parametrize("trans", [False, True])
def test_of_turns_that_load_one_register_the_last_wins(
    trans: bool, step: int, done: list[bool], one_by_one: Callable[[], None]
) -> None:
    kernel = loads(first=FIRST["shared across"], trans=trans, step=step)
    at_once = run(kernel, "all")
    assert set(done) == {True}

    one_by_one()

    np.testing.assert_array_equal(at_once[0], run(kernel, "all")[0])


def test_rows_that_nobody_wrote_are_found_in_the_registers(done: list[bool], one_by_one: Callable[[], None]) -> None:
    """Moving them is fine; it is the store to an argument that is reported, as it is turn by turn."""
    last = ROWS - 8 * TURNS - 24  # from which on a warp loads up to the last row
    run(loads(first=lambda warp: warp * 0 + last - 8, filled=ROWS - 8), "all")
    assert done == [True]
    kernel = loads(first=lambda warp: warp * 0 + last - 7, filled=ROWS - 8)
    with pytest.raises(SimulationError, match="uninitialised") as at_once:
        run(kernel, "all")
    assert done[:2] == [True, False]  # and once more in the run that looks for a late writer

    one_by_one()
    with pytest.raises(SimulationError) as expected:
        run(kernel, "all")

    assert str(at_once.value) == str(expected.value)


@pytest.mark.parametrize("check", ["default", "all"])
def test_rows_outside_are_reported_as_they_are_turn_by_turn(check: str, one_by_one: Callable[[], None]) -> None:
    kernel = loads(first=lambda warp: warp * 12)
    with pytest.raises(SimulationError, match=r"reads outside of smem") as at_once:
        run(kernel, check)

    one_by_one()
    with pytest.raises(SimulationError) as expected:
        run(kernel, check)

    assert str(at_once.value) == str(expected.value)
