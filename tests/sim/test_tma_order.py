"""The rows of the memory model that need the copy engine, with its own instructions: each order with and without its
steps.

O: all is in order. R: a race, or an access while an operation is under way. P: a proxy fence is missing.
"""

# ruff: noqa: C901  # kernels with a branch for each way, which Python takes while it parses
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import T, Tx
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


def storing(fence: str, *, meets: bool = True) -> Any:
    """px-store, px-none: W s; FPA; bar ||c bar; TMA store s."""

    @T.prim_func
    def k(out: T.Buffer(SHAPE, "float32")):
        T.cta_id([1])
        warp = T.warp_id([2])
        lane = T.lane_id([32])
        s = T.alloc_shared(SHAPE, "float32", align=128)
        if warp == 0:
            if fence == "too early":
                T.ptx.fence.proxy_async("shared::cta")
            for i in range(8):
                s[i, lane] = T.float32(1)
            if fence in ("before", "global"):
                T.ptx.fence.proxy_async("global" if fence == "global" else "shared::cta")
        if meets:
            T.cuda.cta_sync()
        if warp == 1:
            if fence == "after":
                T.ptx.fence.proxy_async("shared::cta")
            if lane == 0:
                Tx.copy_async(out, s)
                T.ptx.cp_async.bulk.commit_group()
                T.ptx.cp_async.bulk.wait_group(0)

    return k


@pytest.mark.parametrize(
    ("fence", "says"), [("before", "O"), ("after", "O"), ("none", "P"), ("too early", "P"), ("global", "P")]
)
def test_what_threads_store_needs_a_proxy_fence_before_it_is_fetched(fence: str, says: str) -> None:
    assert verdict(storing(fence), floats()) == says


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


def storing_first(fence: str) -> Any:
    """The first access of the kernel is the store, or the first after a barrier; who fences is told by ``fence``."""

    @T.prim_func
    def k(out: T.Buffer((128,), "int32")):
        T.cta_id([1])
        tid = T.thread_id([128])
        s = T.alloc_shared((128,), "int32", align=16)
        s[tid] = tid
        if fence == "all":
            T.ptx.fence.proxy_async("shared::cta")
        T.cuda.cta_sync()
        if fence == "another warp" and tid == 96:
            T.ptx.fence.proxy_async("shared::cta")
        if fence == "another lane" and tid == 1:
            T.ptx.fence.proxy_async("shared::cta")
        if fence == "another warp, met":
            if tid == 96:
                T.ptx.fence.proxy_async("shared::cta")
            T.cuda.cta_sync()
        if tid == 0:
            T.ptx.cp_async.bulk.s2g(out.ptr_to([0]), s.ptr_to([0]), 512)
            T.ptx.cp_async.bulk.commit_group()
            T.ptx.cp_async.bulk.wait_group(0)

    return k


@pytest.mark.parametrize(
    ("fence", "says"),
    [
        ("all", "O"),
        ("none", "P"),
        ("another warp", "P"),
        ("another lane", "P"),
        ("another warp, met", "O"),
    ],
)
def test_a_proxy_fence_counts_if_the_operation_comes_after_it(fence: str, says: str) -> None:
    assert verdict(storing_first(fence), np.zeros(128, np.int32)) == says


@pytest.mark.parametrize(("again", "says"), [(False, "O"), (True, "P")])
def test_a_store_right_after_the_proxy_fence_needs_another_one(again: bool, says: str) -> None:
    @T.prim_func
    def k(a: T.Buffer((32,), "int32"), out: T.Buffer((32,), "int32")):
        T.cta_id([1])
        tid = T.thread_id([32])
        s = T.alloc_shared((32,), "int32", align=16)
        bar = T.alloc_shared((1,), "uint64")
        a[tid] = tid
        T.ptx.fence.proxy_async()
        if again:
            a[tid] = tid + 1
        if tid == 0:
            T.ptx.mbarrier.init(bar.ptr_to([0]), 1)
            T.ptx.fence.mbarrier_init()
            T.ptx.mbarrier.arrive.expect_tx(bar.ptr_to([0]), 128)
        T.cuda.cta_sync()
        if tid == 0:
            T.ptx.cp_async.bulk.g2s_cta(s.ptr_to([0]), a.ptr_to([0]), 128, bar.ptr_to([0]))
        T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)
        out[tid] = s[tid]

    assert verdict(k, np.zeros(32, np.int32), np.zeros(32, np.int32)) == says


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


def test_a_fence_without_a_meeting_orders_nothing_of_another_warp() -> None:
    assert verdict(storing("before", meets=False), floats()) == "R"


def loading(waits: str, past: bool = False) -> Any:
    """px-load: TMA load s, mb ||c wait; R s. tma-past: W y; TMA load s, mb (armed by another) ||c wait; R y."""

    @T.prim_func
    def k(a: T.Buffer(SHAPE, "float32"), out: T.Buffer(SHAPE, "float32")):
        T.cta_id([1])
        warp = T.warp_id([2])
        lane = T.lane_id([32])
        s = T.alloc_shared(SHAPE, "float32", align=128)
        y = T.alloc_shared((32,), "float32")
        bar = T.alloc_shared((1,), "uint64")
        if warp == 1 and lane == 0:
            T.ptx.mbarrier.init(bar.ptr_to([0]), 1)
            T.ptx.fence.mbarrier_init()
            T.ptx.mbarrier.arrive.expect_tx(bar.ptr_to([0]), 1024)
        T.cuda.cta_sync()
        if warp == 0 and lane == 0:
            if past:
                y[0] = T.float32(7)
            Tx.copy_async(s, a, mbar=bar.ptr_to([0]))
        if warp == 1:
            if waits == "all lanes" or (waits != "nobody" and lane == 0):
                T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)
            if waits == "a lane, and bar.warp.sync":
                T.cuda.warp_sync()
            for i in range(8):
                out[i, lane] = y[0] if past else s[i, lane]
        T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)

    return k


@pytest.mark.parametrize(
    ("waits", "says"), [("all lanes", "O"), ("a lane, and bar.warp.sync", "O"), ("a lane", "R"), ("nobody", "R")]
)
def test_who_waits_may_read_what_a_load_has_brought(waits: str, says: str) -> None:
    assert verdict(loading(waits), floats(), np.zeros(SHAPE, np.float32)) == says


def test_a_load_does_not_hand_on_what_its_issuer_did_before() -> None:
    assert verdict(loading("all lanes", past=True), floats(), np.zeros(SHAPE, np.float32)) == "R"


def overwriting(first: str, fence: str) -> Any:
    """px-war: R s (or W s); FPA; arrive ||c wait; TMA load s."""

    @T.prim_func
    def k(a: T.Buffer(SHAPE, "float32"), out: T.Buffer(SHAPE, "float32")):
        T.cta_id([1])
        warp = T.warp_id([2])
        lane = T.lane_id([32])
        s = T.alloc_shared(SHAPE, "float32", align=128)
        full = T.alloc_shared((1,), "uint64")
        free = T.alloc_shared((1,), "uint64")
        if warp == 1:
            for i in range(8):
                s[i, lane] = T.float32(1)
            if lane == 0:
                T.ptx.mbarrier.init(full.ptr_to([0]), 1)
                T.ptx.mbarrier.init(free.ptr_to([0]), 1)
                T.ptx.fence.mbarrier_init()
                T.ptx.mbarrier.arrive.expect_tx(full.ptr_to([0]), 1024)
        T.ptx.fence.proxy_async("shared::cta")
        T.cuda.cta_sync()
        if warp == 0:
            if fence == "too early":
                T.ptx.fence.proxy_async("shared::cta")
            for i in range(8):
                if first == "store":
                    s[i, lane] = T.float32(2)
                else:
                    out[i, lane] = s[i, lane]
            if fence == "before":
                T.ptx.fence.proxy_async("shared::cta")
            T.cuda.warp_sync()
            if lane == 0:
                T.ptx.mbarrier.arrive(free.ptr_to([0]))
        if warp == 1 and lane == 0:
            if fence != "no wait":
                T.ptx.mbarrier.try_wait(free.ptr_to([0]), 0)
            if fence == "after":
                T.ptx.fence.proxy_async("shared::cta")
            Tx.copy_async(s, a, mbar=full.ptr_to([0]))
        T.ptx.mbarrier.try_wait(full.ptr_to([0]), 0)

    return k


@pytest.mark.parametrize("first", ["load", "store"])
@pytest.mark.parametrize(
    ("fence", "says"), [("before", "O"), ("after", "O"), ("none", "P"), ("too early", "P"), ("no wait", "R")]
)
def test_what_threads_have_used_needs_a_proxy_fence_before_a_load_overwrites_it(
    first: str, fence: str, says: str
) -> None:
    assert verdict(overwriting(first, fence), floats(), np.zeros(SHAPE, np.float32)) == says


def reusing(waits: str, who: int) -> Any:
    """px-read: TMA store s; wait_group.read 0; W s, by the same thread or another."""

    @T.prim_func
    def k(out: T.Buffer(SHAPE, "float32")):
        T.cta_id([1])
        lane = T.lane_id([32])
        s = T.alloc_shared(SHAPE, "float32", align=128)
        for i in range(8):
            s[i, lane] = T.float32(1)
        T.ptx.fence.proxy_async("shared::cta")
        T.cuda.warp_sync()
        if lane == 0:
            Tx.copy_async(out, s)
            T.ptx.cp_async.bulk.commit_group()
            if waits != "not":
                T.ptx.cp_async.bulk.wait_group(0, read=waits == "read")
        if waits == "and meet":
            T.cuda.warp_sync()
        if lane == who:
            s[0, 0] = T.float32(2)

    return k


@pytest.mark.parametrize(
    ("waits", "who", "says"),
    [("read", 0, "O"), ("written", 0, "O"), ("not", 0, "R"), ("read", 1, "R"), ("and meet", 1, "O")],
)
def test_a_source_is_free_for_the_thread_that_has_waited(waits: str, who: int, says: str) -> None:
    assert verdict(reusing(waits, who), floats()) == says


def handed_on(waits: str) -> Any:
    """px-dst: TMA store g; wait_group 0; F.gpu; W.rlx f || R.acq f; R g."""

    @T.prim_func
    def k(g: T.Buffer(SHAPE, "float32"), f: T.Buffer((1,), "uint32"), out: T.Buffer(SHAPE, "float32")):
        bx = T.cta_id([2])
        lane = T.lane_id([32])
        s = T.alloc_shared(SHAPE, "float32", align=128)
        if bx == 0:
            for i in range(8):
                s[i, lane] = T.float32(1)
            T.ptx.fence.proxy_async("shared::cta")
            T.cuda.warp_sync()
            if lane == 0:
                Tx.copy_async(g, s)
                T.ptx.cp_async.bulk.commit_group()
                T.ptx.cp_async.bulk.wait_group(0, read=waits == "read")
                T.ptx.fence(sem="acq_rel", scope="gpu")
                T.ptx.st(f.ptr_to([0]), T.uint32(1), sem="relaxed", scope="gpu")
        else:
            while T.ptx.ld(f.ptr_to([0]), sem="acquire", scope="gpu") == 0:
                pass
            for i in range(8):
                out[i, lane] = g[i, lane]

    return k


@pytest.mark.parametrize(("waits", "says"), [("written", "O"), ("read", "R")])
def test_what_was_stored_is_handed_on_once_it_is_written(waits: str, says: str) -> None:
    arrays = (np.zeros(SHAPE, np.float32), np.zeros(1, np.uint32), np.zeros(SHAPE, np.float32))

    assert verdict(handed_on(waits), *arrays) == says


def fetched(fence: str) -> Any:
    """px-global: W g; W.rel.gpu f || R.acq.gpu f; TMA load g."""

    @T.prim_func
    def k(g: T.Buffer(SHAPE, "float32"), f: T.Buffer((1,), "uint32"), out: T.Buffer(SHAPE, "float32")):
        bx = T.cta_id([2])
        lane = T.lane_id([32])
        s = T.alloc_shared(SHAPE, "float32", align=128)
        bar = T.alloc_shared((1,), "uint64")
        if bx == 0:
            for i in range(8):
                g[i, lane] = T.float32(1)
            if fence == "by the writer":
                T.ptx.fence.proxy_async("global")
            T.cuda.warp_sync()
            if lane == 0:
                T.ptx.st(f.ptr_to([0]), T.uint32(1), sem="release", scope="gpu")
        else:
            if lane == 0:
                T.ptx.mbarrier.init(bar.ptr_to([0]), 1)
                T.ptx.fence.mbarrier_init()
                T.ptx.mbarrier.arrive.expect_tx(bar.ptr_to([0]), 1024)
                while T.ptx.ld(f.ptr_to([0]), sem="acquire", scope="gpu") == 0:
                    pass
                if fence == "there":
                    T.ptx.fence.proxy_async("global")
                Tx.copy_async(s, g, mbar=bar.ptr_to([0]))
            T.cuda.warp_sync()
            T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)
            for i in range(8):
                out[i, lane] = s[i, lane]

    return k


@pytest.mark.parametrize(("fence", "says"), [("there", "O"), ("none", "P"), ("by the writer", "P")])
def test_global_data_of_another_cta_needs_a_proxy_fence_before_it_is_fetched(fence: str, says: str) -> None:
    arrays = (np.zeros(SHAPE, np.float32), np.zeros(1, np.uint32), np.zeros(SHAPE, np.float32))

    assert verdict(fetched(fence), *arrays) == says


def passed_on(fence: str, *, adds: bool = False, from_one: bool = False) -> Any:
    """TMA store g; wait_group 0; W.rel.gpu f || R.acq.gpu f; FPA; TMA load g. from_one: both in one CTA."""

    @T.prim_func
    def k(g: T.Buffer((32,), "float32"), f: T.Buffer((1,), "uint32"), out: T.Buffer((32,), "float32")):
        bx = T.cta_id([1 if from_one else 2])
        warp = T.warp_id([2])
        lane = T.lane_id([32])
        s = T.alloc_shared((32,), "float32", align=128)
        t = T.alloc_shared((32,), "float32", align=128)
        bar = T.alloc_shared((1,), "uint64")
        if bx == 0 and warp == 0:
            s[lane] = T.float32(1)
            T.ptx.fence.proxy_async("shared::cta")
            T.cuda.warp_sync()
            if lane == 0:
                if adds:
                    T.ptx.cp_reduce_async.bulk.s2g(g.ptr_to([0]), s.ptr_to([0]), 128, "add", "float32")
                else:
                    T.ptx.cp_async.bulk.s2g(g.ptr_to([0]), s.ptr_to([0]), 128)
                T.ptx.cp_async.bulk.commit_group()
                T.ptx.cp_async.bulk.wait_group(0, read=False)
                if fence == "by the writer":
                    T.ptx.fence.proxy_async("global")
                T.ptx.st(f.ptr_to([0]), T.uint32(1), sem="release", scope="gpu")
        if (bx == 1 or from_one) and warp == 1:
            if lane == 0:
                T.ptx.mbarrier.init(bar.ptr_to([0]), 1)
                T.ptx.fence.mbarrier_init()
                T.ptx.mbarrier.arrive.expect_tx(bar.ptr_to([0]), 128)
                while T.ptx.ld(f.ptr_to([0]), sem="acquire", scope="gpu") == 0:
                    pass
                if fence == "there":
                    T.ptx.fence.proxy_async("global")
                T.ptx.cp_async.bulk.g2s_cta(t.ptr_to([0]), g.ptr_to([0]), 128, bar.ptr_to([0]))
            T.cuda.warp_sync()
            T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)
            out[lane] = t[lane]

    return k


@pytest.mark.parametrize("adds", [False, True])
@pytest.mark.parametrize(
    ("fence", "from_one", "says"),
    [("there", False, "O"), ("none", False, "P"), ("by the writer", False, "P"), ("none", True, "O")],
)
def test_what_a_unit_of_another_cta_stored_needs_a_proxy_fence_where_it_is_fetched(
    fence: str, from_one: bool, says: str, adds: bool
) -> None:
    arrays = (np.zeros(32, np.float32), np.zeros(1, np.uint32), np.zeros(32, np.float32))

    assert verdict(passed_on(fence, adds=adds, from_one=from_one), *arrays) == says


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
