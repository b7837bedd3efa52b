"""Arguments that share memory: results are exact, and checks go by memory, not by the names of parameters."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tests.sim.build import Lowered, at, cta, get, tid
from tilewright import T
from tilewright.errors import SimulationError


@T.prim_func
def reverse(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32")):
    T.device_entry()
    T.cta_id([1])
    tid = T.thread_id([64])
    B[tid] = A[63 - tid]


def test_one_array_passed_twice_hides_no_race() -> None:
    array = np.arange(64, dtype=np.int32)

    tw.simulate(reverse, array, array.copy())
    with pytest.raises(SimulationError, match=r"race: store writes B\[\d+\], which another thread has read"):
        tw.simulate(reverse, array, array)


def pair(check: str, array: np.ndarray, distance: int) -> None:
    """CTA 0 writes A, CTA 1 writes B, which begins ``distance`` elements later."""
    k = Lowered(threads=16, grid=2)
    a, b = k.array("a", "int32", 32), k.array("b", "int32", 32)
    with k.when(cta == 0):
        k.store(a, tid, tid)
    with k.when(cta == 1):
        k.store(b, tid, tid + 1)
    k.run(check, a=array[:32], b=array[distance : distance + 32])


def test_views_that_overlap_race_where_they_do() -> None:
    with pytest.raises(SimulationError, match=r"race: store writes b\[0\], which another thread has written"):
        pair("races", np.zeros(64, np.int32), 4)

    pair("races", np.zeros(64, np.int32), 16)  # what the CTAs write lies apart


@pytest.mark.parametrize("check", ["none", "all"])
def test_what_one_argument_writes_the_other_reads(check: str) -> None:
    k = Lowered(threads=32)
    a, b = k.array("a", "int32", 32), k.array("b", "int32", 16)
    with k.when(tid < 16):
        k.store(b, tid, 100 + tid)
        k.store(a, 4 + tid, get(a, 4 + tid) + 1)
    array = np.zeros(32, np.int32)

    k.run(check, a=array, b=array[4:20])

    assert array[4:20].tolist() == list(range(101, 117))


def test_pointers_into_memory_that_is_shared_meet() -> None:
    k = Lowered(threads=32)
    a, b = k.array("a", "int32", 32), k.array("b", "int32", 32)
    k.do("cuda.atomic_add", at(a, 4), 1)
    k.do("cuda.atomic_add", at(b, 0), 1)
    k.do("cuda.atomic_add", at(b, 31), 1)
    array = np.zeros(36, np.int32)

    k.run(a=array[:32], b=array[4:])

    assert (array[4], array[35]) == (64, 32)


def test_bounds_stay_those_of_the_argument() -> None:
    k = Lowered(threads=32)
    a, b = k.array("a", "int32", 32), k.array("b", "int32", 32)
    k.store(a, tid + 2, get(b, tid))
    array = np.zeros(36, np.int32)

    with pytest.raises(SimulationError, match="store writes outside of a"):
        k.run(a=array[:32], b=array[4:])
