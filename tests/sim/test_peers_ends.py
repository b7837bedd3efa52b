"""A CTA does not end before what others do at its m-barriers: whichever instruction signals them."""

# ruff: noqa: C901, SIM102  # kernels with a branch for each way, which Python takes while it parses
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.sim.tmem_kernels import meet
from tilewright import T, Tx
from tilewright.errors import SimulationError

THREADS = ("arrive", "arrive.expect_tx", "expect_tx", "complete_tx", "store")
UNITS = ("st_async", "red_async", "s2c", "multicast load", "commit")
WAYS = (*THREADS, *UNITS)
ENDS = {
    "at once": False,
    "peer waits": True,  # for the phase that is signalled
    "met": True,
    "met, relaxed": True,
    "met by the sender first": False,
}


def signalling(way: str, end: str) -> Any:
    """CTA 0 of two signals an m-barrier of CTA 1. end: how both end."""
    target = 1024 if way == "multicast load" else 128 if way == "s2c" else 4

    @T.prim_func
    def kernel(a: T.Buffer((8, 32), "float32")):
        rank = T.cta_id_in_cluster([2])
        T.cta_id([2])
        warp = T.warp_id([4])
        tid = T.thread_id([128])
        tile = T.alloc_shared((8, 32), "float32", align=1024)
        word = T.alloc_shared((32,), "uint32", align=16)
        bar = T.alloc_shared((1,), "uint64")
        addr = T.alloc_shared((1,), "uint32")
        if tid == 0:
            T.ptx.mbarrier.init(bar.ptr_to([0]), 1)
            T.ptx.fence.mbarrier_init()
            if way in ("st_async", "red_async", "s2c", "multicast load", "complete_tx"):
                T.ptx.mbarrier.arrive.expect_tx(bar.ptr_to([0]), target)
        if warp == 1:
            word[tid % 32] = 0
            T.ptx.fence.proxy_async("shared::cta")
        if way == "commit":
            if warp == 0:
                T.ptx.tcgen05.alloc(T.address_of(addr), n_cols=32, cta_group=1)
            meet()
        T.cuda.cluster_sync()
        if tid == 0:
            if rank == 0:
                there = T.ptx.mapa(bar.ptr_to([0]), 1)
                far = T.ptx.mapa(word.ptr_to([0]), 1)
                if way == "arrive":
                    T.ptx.mbarrier.arrive(there, space="shared::cluster")
                elif way == "arrive.expect_tx":
                    T.ptx.mbarrier.arrive.expect_tx(there, 0, space="shared::cluster")
                elif way == "expect_tx":
                    T.ptx.mbarrier.expect_tx(there, 16, space="shared::cluster")
                elif way == "complete_tx":
                    T.ptx.mbarrier.complete_tx(there, 4, space="shared::cluster")
                elif way == "store":
                    T.ptx.st(far, T.uint32(7), space="shared::cluster")
                elif way == "st_async":
                    T.ptx.st_async(far, T.uint32(7), there)
                elif way == "red_async":
                    T.ptx.red_async.add(far, T.uint32(7), there)
                elif way == "s2c":
                    T.ptx.cp_async.bulk.s2c(far, word.ptr_to([0]), 128, there)
                elif way == "multicast load":
                    Tx.copy_async(tile, a, mbar=bar.ptr_to([0]), cta_mask=2)
                elif way == "commit":
                    T.ptx.tcgen05.commit(bar.ptr_to([0]), cta_group=1, cta_mask=2)
        if end == "peer waits":
            if rank == 1:
                T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)
                if way == "commit":
                    T.ptx.tcgen05.fence.after_thread_sync()
        if way == "commit":
            meet()
            if warp == 0:
                T.ptx.tcgen05.dealloc(addr[0], n_cols=32, cta_group=1)
        if end == "met":
            T.cuda.cluster_sync()
        if end == "met, relaxed":
            T.ptx.barrier.cluster.arrive(sem="relaxed")
            T.ptx.barrier.cluster.wait()

    return kernel


def said(way: str, end: str) -> str:
    target = "sm_100a" if way == "commit" else "sm_90a"
    try:
        run = tw.simulate(signalling(way, end), np.zeros((8, 32), np.float32), target=target, check="all")
    except SimulationError as error:
        return f"{error.what} // {error.hint}"
    return "".join(run.warnings)
