"""bulk and dsmem: tiles move as stretches of bytes, to and from global memory and to another CTA's shared memory."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tilewright as tw
from tests.keywords import TmaReduction
from tests.samples import sampled
from tests.tile.strategies import KINDS
from tilewright import T, Tx
from tilewright.errors import DispatchError
from tilewright.layout import S, TileLayout, mma_shared_layout

SHAPE = (16, 64)
LAYOUTS: dict[str, TileLayout | Any] = {
    "rows": S[SHAPE],
    "padded": S[SHAPE : (80, 1)],
    "columns of 32": S[(16, 2, 32) : (32, 512, 1)],
    "swizzled": mma_shared_layout("bfloat16", 3, SHAPE),
}


@cache
def through(
    layout: str, kind: str = "bfloat16", start: int = 0, reduced: TmaReduction = "", dispatch: str | None = "bulk"
) -> Any:
    """A tile there and back by one thread."""
    held = LAYOUTS[layout]
    nbytes = 16 * 64 * tw.dtypes.dtype(kind).bits // 8

    @T.prim_func
    def moved(a: T.Buffer((32, 128), kind), b: T.Buffer(SHAPE, kind)):
        T.cta_id([1])
        tid = T.thread_id([32])
        tile = T.alloc_shared(SHAPE, kind, layout=held, align=1024)
        bar = T.alloc_shared((1,), "uint64")
        if tid == 0:
            T.ptx.mbarrier.init(bar.ptr_to([0]), 1)
            T.ptx.fence.mbarrier_init()
        T.cuda.cta_sync()
        if T.ptx.elect_sync():
            T.ptx.mbarrier.arrive.expect_tx(bar.ptr_to([0]), nbytes)
            Tx.copy_async(tile, a[start : start + 16, 64:128], mbar=bar.ptr_to([0]), dispatch=dispatch)
            T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)
            Tx.copy_async(b, tile, use_tma_reduce=reduced, dispatch=dispatch)
            T.ptx.cp_async.bulk.commit_group()
            T.ptx.cp_async.bulk.wait_group(0)

    return tw.compile(moved, target="sm_90a")


@sampled(8, of=20)
@given(st.sampled_from(list(LAYOUTS)), st.sampled_from([kind for kind in KINDS if tw.dtypes.dtype(kind).bits >= 8]))
def test_stretches_bring_every_element_there_and_back(layout: str, kind: str) -> None:
    if layout == "swizzled":
        kind = "bfloat16"
    a = np.random.default_rng(1).integers(0, 100, (32, 128)).astype(tw.dtypes.dtype(kind).numpy)
    b = np.zeros(SHAPE, a.dtype)

    run = through(layout, kind, 3).simulate(a, b, check="all")

    assert run.warnings == []
    assert np.array_equal(b, a[3:19, 64:128])


@pytest.mark.parametrize(
    ("layout", "loaded", "stored"),
    [
        ("rows", "16 stretches of 128 bytes", "a stretch of 2048 bytes"),
        ("padded", "16 stretches of 128 bytes", "16 stretches of 128 bytes"),
        ("columns of 32", "32 stretches of 64 bytes", "32 stretches of 64 bytes"),
        ("swizzled", "128 stretches of 16 bytes", "128 stretches of 16 bytes"),
    ],
)
def test_a_stretch_is_as_long_as_both_memories_are_contiguous(layout: str, loaded: str, stored: str) -> None:
    load, store = through(layout).report.entries

    assert load.plan == f"g2s_cta: {loaded}"
    assert store.plan == f"s2g: {stored}"


def test_stretches_are_combined_with_what_is_there() -> None:
    a = np.arange(32 * 128).reshape(32, 128).astype(np.float32)
    b = np.ones(SHAPE, np.float32)

    through("rows", "float32", reduced="add").simulate(a, b, check="all")

    assert np.array_equal(b, a[:16, 64:] + 1)


@cache
def sent(layout: str, reduced: TmaReduction = "", kind: str = "bfloat16") -> Any:
    """Each of two CTAs sends its tile to the other."""
    held = LAYOUTS[layout]
    nbytes = 16 * 64 * tw.dtypes.dtype(kind).bits // 8

    @T.prim_func
    def exchanged(a: T.Buffer((2, *SHAPE), kind), b: T.Buffer((2, *SHAPE), kind)):
        rank = T.cta_id_in_cluster([2])
        T.cta_id([2])
        tid = T.thread_id([32])
        mine = T.alloc_shared(SHAPE, kind, layout=held, align=1024)
        theirs = T.alloc_shared(SHAPE, kind, layout=held, align=1024)
        bar = T.alloc_shared((1,), "uint64")
        Tx.cta.copy(mine, a[rank])
        Tx.cta.copy(theirs, a[rank])
        if tid == 0:
            T.ptx.mbarrier.init(bar.ptr_to([0]), 1)
            T.ptx.fence.mbarrier_init()
            T.ptx.mbarrier.arrive.expect_tx(bar.ptr_to([0]), nbytes)
        T.ptx.fence.proxy_async.sync_restrict("release")
        T.ptx.fence.proxy_async("shared::cta")
        T.cuda.cluster_sync()
        T.ptx.fence.proxy_async.sync_restrict("acquire")
        if T.ptx.elect_sync():
            Tx.copy_async(theirs, mine, mbar=bar.ptr_to([0]), remote_cta_id=1 - rank, use_tma_reduce=reduced)
        T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)
        Tx.cta.copy(b[rank], theirs)
        T.cuda.cluster_sync()

    return tw.compile(exchanged, target="sm_90a")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_tile_comes_to_the_other_cta(layout: str) -> None:
    a = np.random.default_rng(2).integers(0, 100, (2, *SHAPE)).astype("bfloat16")
    b = np.zeros_like(a)

    run = sent(layout).simulate(a, b, check="all")

    assert run.warnings == []
    assert np.array_equal(b, a[::-1])


def test_a_tile_is_combined_with_that_of_the_other_cta() -> None:
    a = np.arange(2 * 16 * 64, dtype=np.int32).reshape(2, *SHAPE)
    b = np.zeros_like(a)

    sent("rows", "add", "int32").simulate(a, b, check="all")

    assert np.array_equal(b, a + a[::-1])


def call_of(where: str, **keywords: Any) -> Any:
    """One copy_async in one thread of a cluster, or by all of a CTA; where: "load", "store", "send" or "all send"."""
    layout = keywords.pop("layout", None)
    kind, align = keywords.pop("kind", "float32"), keywords.pop("align", 16)

    @T.prim_func
    def k(a: T.Buffer((16, 64), kind)):
        T.cta_id_in_cluster([2])
        T.cta_id([2])
        T.thread_id([32])
        s = T.alloc_shared((16, 64), kind, layout=layout, align=align)
        d = T.alloc_shared((16, 64), kind)
        bar = T.alloc_shared((1,), "uint64")
        told = {"mbar": bar.ptr_to([0])} if keywords.pop("told", True) else {}
        if where == "all send":
            Tx.cta.copy_async(d, s, **told, **keywords)
        elif T.ptx.elect_sync():
            if where == "load":
                Tx.copy_async(s, a, **told, **keywords)
            elif where == "store":
                Tx.copy_async(a, s, **keywords)
            else:
                Tx.copy_async(d, s, **told, **keywords)

    return k


@pytest.mark.parametrize(
    ("where", "keywords", "said"),
    [
        ("load", {"told": False, "dispatch": "bulk"}, "a load tells an m-barrier when it is complete"),
        ("load", {"use_tma_reduce": "add", "dispatch": "bulk"}, "use_tma_reduce= is not for loads"),
        ("load", {"layout": S[(16, 64) : (65, 1)], "dispatch": "bulk"}, "S[(16, 64):(68, 1)] for s, which makes"),
        ("load", {"layout": S[(16, 64) : (1, 16)], "dispatch": "bulk"}, "4 neighbours are not contiguous in"),
        ("store", {"use_tma_reduce": "min", "dispatch": "bulk"}, "no bulk copy combines float32 by min there"),
        ("store", {"use_tma_reduce": "add", "cache_hint": "evict_last", "dispatch": "bulk"}, "has no cache_hint"),
        ("load", {"oob": "nan", "dispatch": "bulk"}, "oob=nan is nothing that it reads"),
        ("send", {"dispatch": "dsmem"}, "a copy to another CTA says remote_cta_id="),
        ("send", {"remote_cta_id": 1, "told": False, "dispatch": "dsmem"}, "a copy to another CTA says mbar="),
        ("send", {"remote_cta_id": 1, "use_tma_reduce": "add"}, "no bulk copy combines float32 by add there"),
        ("all send", {"remote_cta_id": 1}, "if T.ptx.elect_sync():"),
        ("store", {"dispatch": "dsmem"}, "not in shared"),
    ],
)
def test_a_copy_that_no_stretches_make_says_why(where: str, keywords: dict[str, Any], said: str) -> None:
    with pytest.raises(DispatchError) as error:
        tw.compile(call_of(where, **keywords), target="sm_90a")

    assert said in str(error.value)


def test_boxes_go_first_where_both_fit() -> None:
    for align, variant in ((128, "tma"), (16, "bulk")):
        (entry,) = tw.compile(call_of("load", align=align), target="sm_90a").report.entries

        assert entry.variant == variant
    assert any("align=128 on s" in hint for hint in entry.hints)


def test_what_is_no_argument_with_strides_of_16_bytes_goes_by_stretches() -> None:
    @T.prim_func
    def k(a: T.Buffer((7, 50), "float32")):
        T.cta_id([1])
        T.thread_id([32])
        s = T.alloc_shared((16,), "float32")
        bar = T.alloc_shared((1,), "uint64")
        if T.ptx.elect_sync():
            Tx.copy_async(s, a[4, 0:16], mbar=bar.ptr_to([0]))

    (entry,) = tw.compile(k, target="sm_90a").report.entries

    assert entry.variant == "bulk"
