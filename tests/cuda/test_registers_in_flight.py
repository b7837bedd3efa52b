"""After a wait for products: what says that nothing may read their registers before it stands where it must."""

from __future__ import annotations

from typing import Any

import pytest

import tilewright as tw
from tilewright import T, Tx
from tilewright.layout import mma_shared_layout, wgmma_fragment

TILE = mma_shared_layout("bfloat16", 3, (64, 64))
FRAGMENT = wgmma_fragment(64, 64)
SETTLED = 'asm volatile(""'


def summed(between: str) -> Any:
    """Products in a loop with a wait in each turn; between: what uses their registers there."""

    @T.prim_func
    def multiply(c: T.Buffer((64, 64), "float32"), k: T.int32):
        T.cta_id([1])
        T.thread_id([128])
        A = T.alloc_shared((64, 64), "bfloat16", layout=TILE)
        D = T.alloc_local((64, 64), "float32", layout=FRAGMENT)
        seen = T.alloc_local((1,), "float32")
        for i in T.serial(k):
            if between == "before":
                seen[0] = D.local()[3]
            T.ptx.wgmma.fence()
            Tx.wg.gemm_async(D, A, A, accum=i > 0)
            T.ptx.wgmma.commit_group()
            T.ptx.wgmma.wait_group(1)
            if between == "after":
                seen[0] = D.local()[3]
            if between == "in a branch" and i > 3:
                seen[0] = D.local()[3]
            if between == "leaves" and i > 3:
                break
        if between != "never":
            T.ptx.wgmma.wait_group(0)
        Tx.wg.copy(c[:, :], D)
        c[0, 0] = seen[0]

    return multiply


@pytest.mark.parametrize(
    ("between", "count"),
    [("nothing", 1), ("before", 2), ("after", 2), ("in a branch", 2), ("leaves", 2), ("never", 1)],
)
def test_registers_are_settled_where_something_may_use_them_before_the_next_wait(between: str, count: int) -> None:
    source = tw.compile(summed(between), target="sm_90a").source("cuda")

    assert source.count(SETTLED) == count, source


def test_an_operation_that_reads_the_registers_is_a_use() -> None:
    """As st.async does, which begins an operation, too."""

    @T.prim_func
    def handed(c: T.Buffer((1,), "float32")):
        T.cluster_id([1])
        rank = T.cta_id_in_cluster([2])
        T.thread_id([128])
        A = T.alloc_shared((64, 64), "bfloat16", layout=TILE)
        there = T.alloc_shared((4,), "float32")
        bar = T.alloc_shared((1,), "uint64")
        D = T.alloc_local((64, 64), "float32", layout=FRAGMENT)
        T.ptx.wgmma.fence()
        Tx.wg.gemm_async(D, A, A)
        T.ptx.wgmma.commit_group()
        T.ptx.wgmma.wait_group(0)
        T.ptx.st_async(T.ptx.mapa(there.ptr_to([0]), rank), D.local()[0], T.ptx.mapa(bar.ptr_to([0]), rank))

    assert tw.compile(handed, target="sm_90a").source("cuda").count(SETTLED) == 1


def test_the_registers_of_a_product_are_one_pointer() -> None:
    source = tw.compile(summed("nothing"), target="sm_90a").source("cuda")

    assert "float* acc)" in source
    assert '"+f"(acc[31])' in source
    assert ", D);" in source
