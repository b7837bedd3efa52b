"""What the copy engine's operations need beyond the rows of `tests.model.litmus`: parts of one tile by several threads,
the ends of CTAs, and tensor maps.

O: all is in order. R: a race, or an access while an operation is under way. P: a proxy fence is missing.
"""

# ruff: noqa: C901  # kernels with a branch for each way, which Python takes while it parses
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import T
from tilewright.errors import SimulationError
from tilewright.ir.tensor_map import MapFields

SHAPE = (8, 32)


def verdict(kernel: Any, *arrays: Any) -> str:
    try:
        warnings = tw.simulate(kernel, *arrays, target="sm_90a", check="all").warnings
    except SimulationError as error:
        if "without a proxy fence" in error.what:
            return "P"
        is_race = any(word in error.what for word in ("race:", "may still be", "may still not have"))
        return "R" if is_race else error.what
    assert all("without a proxy fence" in warning for warning in warnings), warnings
    return "P" if warnings else "O"


def floats() -> Any:
    return np.arange(256, dtype=np.float32).reshape(SHAPE)


def stored_by_all(fence: str) -> Any:
    """W s by each of two warps; FPA by some; bar; TMA store s, or the same by a bulk copy."""

    @T.prim_func
    def k(out: T.Buffer((64,), "float32")):
        T.cta_id([1])
        warp = T.warp_id([2])
        tid = T.thread_id([64])
        s = T.alloc_shared((64,), "float32", align=128)
        s[tid] = T.float32(1)
        if fence == "both" or (fence == "the first" and warp == 0) or (fence == "the second" and warp == 1):
            T.ptx.fence.proxy_async("shared::cta")
        T.cuda.cta_sync()
        if fence == "the issuer" and tid == 0:
            T.ptx.fence.proxy_async("shared::cta")
        if tid == 0:
            T.ptx.cp_async.bulk.s2g(out.ptr_to([0]), s.ptr_to([0]), 256)
            T.ptx.cp_async.bulk.commit_group()
            T.ptx.cp_async.bulk.wait_group(0)

    return k


@pytest.mark.parametrize(
    ("fence", "says"), [("both", "O"), ("the issuer", "O"), ("the first", "P"), ("the second", "P"), ("none", "P")]
)
def test_a_proxy_fence_of_one_warp_does_not_cover_the_stores_of_another(fence: str, says: str) -> None:
    assert verdict(stored_by_all(fence), np.zeros(64, np.float32)) == says


def sending(end: str, *, both: bool) -> Any:
    """A CTA sends bytes to the other one of its cluster, which waits for them; or both do. end: how the kernel ends."""

    @T.prim_func
    def k(out: T.Buffer((64,), "int32")):
        rank = T.cta_id_in_cluster([2])
        T.cta_id([2])
        tid = T.thread_id([32])
        s = T.alloc_shared((32,), "int32", align=16)
        d = T.alloc_shared((32,), "int32", align=16)
        bar = T.alloc_shared((1,), "uint64")
        if tid == 0:
            T.ptx.mbarrier.init(bar.ptr_to([0]), 1)
            T.ptx.fence.mbarrier_init()
            T.ptx.mbarrier.arrive.expect_tx(bar.ptr_to([0]), 128)
        s[tid] = tid
        T.ptx.fence.proxy_async("shared::cta")
        T.cuda.cluster_sync()
        if (both or rank == 0) and tid == 0:
            there = T.ptx.mapa(d.ptr_to([0]), 1 - rank)
            T.ptx.cp_async.bulk.s2c(there, s.ptr_to([0]), 128, T.ptx.mapa(bar.ptr_to([0]), 1 - rank))
        if both or rank == 1:
            T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)
            out[rank * 32 + tid] = d[tid]
        if end == "met":
            T.cuda.cluster_sync()
        if end == "met, relaxed":
            T.ptx.barrier.cluster.arrive(sem="relaxed")
            T.ptx.barrier.cluster.wait()

    return k


@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("end", ["at once", "met", "met, relaxed"])
def test_a_cta_ends_after_its_own_operations_on_other_ctas(end: str, both: bool) -> None:
    may = "the CTA may end" if both else "the CTA ends"
    says = f"{may} while cp_async.bulk.s2c is under way" if end == "at once" else "O"

    assert verdict(sending(end, both=both), np.zeros(64, np.int32)) == says


@pytest.mark.parametrize(("fenced", "says"), [(4, "O"), (3, "P")])
def test_each_thread_that_has_stored_a_part_of_a_chunk_needs_its_proxy_fence(fenced: int, says: str) -> None:
    @T.prim_func
    def k(a: T.Buffer((4,), "int32"), out: T.Buffer((4,), "int32")):
        T.cta_id([1])
        tid = T.thread_id([32])
        s = T.alloc_shared((4,), "int32", align=16)
        bar = T.alloc_shared((1,), "uint64")
        if tid < 4:
            a[tid] = tid
            if tid >= 4 - fenced:
                T.ptx.fence.proxy_async("global")
        if tid == 0:
            T.ptx.mbarrier.init(bar.ptr_to([0]), 1)
            T.ptx.mbarrier.arrive.expect_tx(bar.ptr_to([0]), 16)
        T.cuda.cta_sync()
        if tid == 0:
            T.ptx.cp_async.bulk.g2s_cta(s.ptr_to([0]), a.ptr_to([0]), 16, bar.ptr_to([0]))
        T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)
        out[tid % 4] = s[tid % 4]

    assert verdict(k, np.zeros(4, np.int32), np.zeros(4, np.int32)) == says


def edited(release: str, acquire: str, *, orders: str = "barrier", of: int = 0, ctas: int = 1) -> Any:
    """px-map: W map; release; bar ||c bar; acquire [map]; TMA load by the map. The map is written as it was. ctas: of a
    cluster, of which the first writes the map and the last loads by it.
    """

    @T.prim_func
    def k(maps: T.Buffer((2, 128), "uint8"), given: T.Buffer((128,), "uint8"), a: T.Buffer(SHAPE, "float32"),
          out: T.Buffer(SHAPE, "float32")):  # fmt: skip
        rank = T.cta_id_in_cluster([ctas])
        T.cluster_id([1])
        warp = T.warp_id([2])
        lane = T.lane_id([32])
        s = T.alloc_shared(SHAPE, "float32", align=128)
        bar = T.alloc_shared((1,), "uint64")
        if warp == 1 and lane == 0:
            T.ptx.mbarrier.init(bar.ptr_to([0]), 1)
        if warp == 0 and rank == 0:
            for i in range(4):
                maps[0, 4 * lane + i] = given[4 * lane + i]
            T.cuda.warp_sync()
            if release and lane == 0:
                T.ptx.fence.proxy_tensormap.release(release)
        if orders == "barrier":
            if ctas > 1:
                T.cuda.cluster_sync()
            else:
                T.cuda.cta_sync()
        if warp == 1 and rank == ctas - 1:
            if lane == 0:
                if acquire:
                    T.ptx.fence.proxy_tensormap.acquire(maps.ptr_to([of, 0]), acquire)
                T.ptx.mbarrier.arrive.expect_tx(bar.ptr_to([0]), 1024)
                T.ptx.cp_async.bulk.tensor.g2c(
                    2, s.ptr_to([0, 0]), bar.ptr_to([0]), maps.ptr_to([0, 0]), 0, -1, "", 0, 0
                )
            T.cuda.warp_sync()
            T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)
            for i in range(8):
                out[i, lane] = s[i, lane]

    return k


def mapped(kernel: Any) -> str:
    """The verdict on a kernel that uses a map in global memory, of the array ``a`` where the simulator has it."""
    made = tw.compile(kernel, target="sm_90a")
    base = made.program("all").compiled.places.by_name["a"].base
    fields = MapFields("float32", SHAPE[::-1], (128,), SHAPE[::-1], address=base)
    bytes_ = np.frombuffer(fields.encode(), np.uint8)
    maps, a, out = np.stack([bytes_, bytes_]), floats(), np.zeros(SHAPE, np.float32)
    found = verdict(made, maps, bytes_, a, out)
    assert found == "R" or np.array_equal(a, out)
    return found


@pytest.mark.parametrize(
    ("release", "acquire", "of", "expected"),
    [
        ("gpu", "gpu", 0, "O"),
        ("cta", "cta", 0, "O"),
        ("", "gpu", 0, "P"),
        ("gpu", "", 0, "P"),
        ("", "", 0, "P"),
        ("gpu", "gpu", 1, "P"),  # of another map
    ],
)
def test_a_map_that_threads_have_changed_is_released_and_acquired(
    release: str, acquire: str, of: int, expected: str
) -> None:
    assert mapped(edited(release, acquire, of=of)) == expected


@pytest.mark.parametrize(
    ("release", "acquire", "expected"),
    [("gpu", "gpu", "O"), ("cluster", "cluster", "O"), ("cta", "gpu", "P"), ("gpu", "cta", "P")],
)
def test_a_map_that_another_cta_has_changed_is_handed_on_by_scopes_that_hold_both(
    release: str, acquire: str, expected: str
) -> None:
    assert mapped(edited(release, acquire, ctas=2)) == expected


def test_a_map_that_is_changed_by_another_warp_without_a_meeting_is_a_race() -> None:
    assert mapped(edited("gpu", "gpu", orders="")) == "R"
