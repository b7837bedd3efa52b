"""Shared addresses in clusters contain the rank of their CTA, as on an H200; a descriptor must leave that out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import T, Tx
from tilewright.errors import SimulationError
from tilewright.layout import mma_shared_layout, wgmma_fragment

FIELDS = 512 // 16 << 16 | 256 // 16 << 32 | 3 << 62  # leading and stride of B, in units of 16 bytes; 32-byte swizzle


def multiplied(*, masked: bool, ctas: int) -> Any:
    """D = A * B, with a descriptor of B that is put together by hand: MN-major, so that its leading offset counts."""
    a_tile, b_tile = mma_shared_layout("bfloat16", 3, (64, 64)), mma_shared_layout("bfloat16", 1, (16, 64))

    @T.prim_func
    def kernel(
        A: T.Buffer((ctas, 64, 64), "bfloat16"),
        B: T.Buffer((ctas, 16, 64), "bfloat16"),
        D: T.Buffer((ctas, 64, 64), "float32"),
    ):
        rank = T.cta_id_in_cluster([ctas])
        T.cta_id([ctas])
        T.thread_id([128])
        a = T.alloc_shared((64, 64), "bfloat16", layout=a_tile, align=1024)
        b = T.alloc_shared((16, 64), "bfloat16", layout=b_tile, align=1024)
        sums = T.alloc_local((64, 64), "float32", layout=wgmma_fragment(64, 64))
        left = T.alloc_local((1,), "uint64")
        Tx.cta.copy(a, A[rank])
        Tx.cta.copy(b, B[rank])
        T.ptx.fence.proxy_async("shared::cta")
        T.cuda.cta_sync()
        T.ptx.wgmma.encode_matrix_descriptor(left.ptr_to([0]), a.ptr_to([0, 0]), 1, 64, 3)
        start: T.let = T.cuda.cast_smem_ptr_to_uint(b.ptr_to([0, 0]))
        low: T.let = (start & 0x3FFFF) if masked else start
        right: T.let = T.cast(low >> 4, "uint64") | T.uint64(FIELDS)
        T.ptx.wgmma.fence()
        T.ptx.wgmma.mma_async.ss(
            left[0], right, *[sums.local()[i] for i in range(32)], N=64, K=16, in_dtype="bfloat16", transB=True,
            scaleD=False,
        )  # fmt: skip
        T.ptx.wgmma.commit_group()
        T.ptx.wgmma.wait_group(0)
        Tx.wg.copy(D[rank], sums)
        T.cuda.cluster_sync()

    return kernel


def is_right(kernel: Any, ctas: int) -> bool:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-2, 3, (ctas, rows, 64)).astype(np.float32) for rows in (64, 16))
    d = np.zeros((ctas, 64, 64), np.float32)
    tw.simulate(kernel, a.astype("bfloat16"), b.astype("bfloat16"), d, target="sm_90a", check="all")
    return np.array_equal(d, a[..., :16] @ b)


@pytest.mark.parametrize(("masked", "ctas"), [(True, 1), (False, 1), (True, 2)])
def test_a_descriptor_of_an_offset_is_right(masked: bool, ctas: int) -> None:
    assert is_right(multiplied(masked=masked, ctas=ctas), ctas)


def test_a_descriptor_of_an_address_with_its_rank_is_wrong_in_a_cluster() -> None:
    try:
        right = is_right(multiplied(masked=False, ctas=2), 2)
    except SimulationError:
        right = False

    assert not right
