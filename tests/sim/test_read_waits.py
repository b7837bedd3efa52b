"""Who waits until the sources of copies were read, and hands these on, may wait for the results later."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import T, Tx
from tilewright.errors import TilewrightError

LENGTH, TURNS = 512, 3


def summed(*, waits: bool) -> Any:  # noqa: C901  # two roles
    """A warp has the copy engine add two parts that a warpgroup writes again and again; waits: until one is read?"""

    @T.prim_func
    def kernel(sums: T.Buffer((LENGTH,), "float32")):  # noqa: C901
        T.cta_id([1])
        group, thread = T.warpgroup_id([2]), T.thread_id_in_wg([128])
        parts = T.alloc_shared((2, LENGTH), "float32", align=128)
        if (group == 0) & (thread < 32):
            for _ in T.serial(TURNS):
                for k in T.unroll(2):
                    T.ptx.bar.sync(1 + k, 160)
                    if thread == 0:
                        Tx.copy_async(sums[:], parts[k], use_tma_reduce="add")
                        T.ptx.cp_async.bulk.commit_group()
                        if waits:
                            T.ptx.cp_async.bulk.wait_group(0, read=True)
                    T.cuda.warp_sync()
                    T.ptx.bar.arrive(3 + k, 160)
            if thread == 0:
                T.ptx.cp_async.bulk.wait_group(0)
        if group == 1:
            for i in T.serial(TURNS):
                for k in T.unroll(2):
                    if i != 0:
                        T.ptx.bar.sync(3 + k, 160)
                    for x in T.vectorized(4):
                        parts[k, thread * 4 + x] = 1.0
                    T.ptx.fence.proxy_async("shared::cta")
                    T.ptx.bar.arrive(1 + k, 160)

    return kernel


def test_a_source_is_handed_on_once_it_has_been_read() -> None:
    sums = np.zeros(LENGTH, np.float32)
    assert not tw.simulate(summed(waits=True), sums, target="sm_90a", check="all").warnings
    assert (sums == 2 * TURNS).all()


def test_without_that_wait_the_next_writes_race() -> None:
    with pytest.raises(TilewrightError, match="parts"):
        tw.simulate(summed(waits=False), np.zeros(LENGTH, np.float32), target="sm_90a", check="all")
