"""cp.async on hardware: every guard, size, hint and prefetch, groups, and m-barriers that count copies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from examples.async_ring import COLUMNS, async_ring
from tests.gpu.hardware import Array, Bench
from tests.isa.assembling import combinations
from tests.sim.build import Lowered, at, cta, get, tid
from tilewright import isa
from tilewright.isa.forms import Mods

pytestmark = pytest.mark.gpu

FORMS = [mods for _, mods in combinations(isa.INSTRUCTIONS["ptx.cp_async"])]
THREADS = 128


def named(mods: Mods) -> str:
    return "-".join(f"{name}={value}" for name, value in mods.items() if value not in (None, "", -1))


def copying(mods: Mods) -> Lowered:
    """Each thread copies 4, 8 or 16 bytes over 0x55, waits, and stores its 16."""
    k = Lowered("copying", threads=THREADS, grid=2)
    source, size, out = k.array("source", "uint8", 4096), k.array("size", "uint32", 256), k.array("out", "uint8", 4096)
    tile = k.shared("tile", "uint8", 16 * THREADS)
    me = cta * THREADS + tid
    with k.loop("i", 0, 16) as i:
        k.store(tile, tid * 16 + i, 0x55)
    given: dict[str, Any] = {name: mods[name] for name in ("cache", "cache_hint", "prefetch_size", "fill_mode")}
    amount = get(size, me)
    guards = {"src_size": amount, "ignore_src": amount % 2 != 0, "predicate": amount % 2 != 0}
    given |= {name: value for name, value in guards.items() if mods[name]}
    if mods["cache_policy"]:
        given["cache_policy"] = 0x12F0000000000000
    k.do("ptx.cp_async", at(tile, tid * 16), at(source, me * 16), mods["n"], **given)
    k.do("ptx.cp_async.wait_all")
    with k.loop("j", 0, 16) as j:
        k.store(out, me * 16 + j, get(tile, tid * 16 + j))
    return k


@pytest.mark.parametrize("mods", FORMS, ids=named)
def test_a_copy_brings_the_same_bytes(mods: Mods, bench: Bench) -> None:
    rng = np.random.default_rng(5)
    arrays: dict[str, Array] = {
        "source": rng.integers(0, 256, 4096, dtype=np.uint8),
        "size": rng.integers(0, int(str(mods["n"])) + 1, 256, dtype=np.uint32),
        "out": np.zeros(4096, np.uint8),
    }

    bench.run(copying(mods).kernel(), arrays, check="all")


def handed_on(how: str) -> Lowered:
    """Values go to another thread, by groups and a barrier, or by an m-barrier that counts copies."""
    k = Lowered("handed_on", threads=THREADS, grid=2)
    source, out = k.array("source", "uint32", 512), k.array("out", "uint32", 512)
    tile, bar = k.shared("tile", "uint32", 2 * THREADS), k.shared("bar", "uint64", 1)
    with k.when(tid == 0):
        k.do("ptx.mbarrier.init", at(bar, 0), THREADS if how == "noinc" else 1)
    k.do("cuda.cta_sync")
    for group in range(2):
        k.do("ptx.cp_async", at(tile, group * THREADS + tid), at(source, (cta * 2 + group) * THREADS + tid), 4)
        k.do("ptx.cp_async.commit_group")
    if how == "groups":
        for group in range(2):
            k.do("ptx.cp_async.wait_group", 1 - group)
            k.do("cuda.cta_sync")
    else:
        k.do("ptx.cp_async.mbarrier.arrive", at(bar, 0), noinc=how == "noinc")
        if how == "inc":
            with k.when(tid == 0):
                k.do("ptx.mbarrier.arrive", at(bar, 0))
        k.do("ptx.mbarrier.try_wait", at(bar, 0), 0)
    for group in range(2):
        k.store(out, (cta * 2 + group) * THREADS + tid, get(tile, group * THREADS + (tid * 5 + 3) % THREADS))
    return k


@pytest.mark.parametrize("how", ["groups", "inc", "noinc"])
def test_copies_are_handed_to_other_threads(how: str, bench: Bench) -> None:
    arrays = {"source": np.arange(512, dtype=np.uint32), "out": np.zeros(512, np.uint32)}

    bench.run(handed_on(how).kernel(), arrays, check="all")


@pytest.mark.parametrize("n", [1, 15, 16, 17, 75, 160])
def test_ragged_tiles_arrive_in_a_ring(n: int) -> None:
    a = np.random.default_rng(n).integers(0, 9, (n, COLUMNS)).astype(np.float32)
    b = np.zeros(COLUMNS, np.float32)

    tw.compile(async_ring, target="sm_90a")(a, b, on="gpu")

    assert np.array_equal(b, a.sum(axis=0))
