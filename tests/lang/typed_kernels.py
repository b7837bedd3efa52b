"""What a type checker sees of kernels: `make lint` has mypy read this file, `make test-editors` pyright.

A line that has to be refused carries the error's name, and an ignore that nothing needs is an error itself.
"""
# mypy: disable-error-code="valid-type"
# pyright: reportInvalidTypeForm=false

from __future__ import annotations

from typing import Any

import numpy as np

import tilewright as tw
from tilewright import T, Tx
from tilewright.ir import Kernel
from tilewright.layout import S, TileLayout, laneid


@T.inline
def scaled(x: Any, factor: Any) -> Any:
    return x * factor


@T.prim_func
def right(A: T.Buffer((8, 16), "float16"), B: T.Buffer((8, 16), "float16"), n: T.int32) -> None:
    T.cta_id([1])
    lane = T.lane_id([32])
    warp: T.let = T.ceildiv(lane, 32)
    total: T.float32 = 0.0
    pair: T.float16x2 = T.float16x2(1.0, 2.0)
    tile = T.alloc_shared((8, 16), "float16")
    R = T.alloc_local((4,), "uint32")
    part = T.alloc_buffer(
        (8, 16), "float16", scope="local", layout=TileLayout(S[(8, 2, 4, 2) : (4 @ laneid, 2, 1 @ laneid, 1)])
    )
    Tx.warp.copy(tile[:, :], A[:, :])
    T.cuda.cta_sync()
    T.ptx.ldmatrix(False, 2, ".b16", tile.ptr_to([lane % 8, lane // 8 % 2 * 8]), R[0], R[1])
    for i in T.unroll(4):
        total = scaled(T.max(total, T.float32(i) + T.cast(pair.x, "float32")), 2)
    bars = T.alloc_shared((1,), "uint64")
    if lane + warp == n:
        T.ptx.mbarrier.init(bars.ptr_to([0]), 1)
        T.ptx.mbarrier.arrive(bars.ptr_to([0]))
    part[:, :] = T.exp(A[:, :])
    Tx.warp.copy(B[:, :], part[:, :])


kernel: Kernel = right
run = tw.simulate(right, np.ones((8, 16), np.float16), np.zeros((8, 16), np.float16), 0)


def refused() -> None:
    T.lanes_id([32])  # type: ignore[attr-defined]
    T.ptx.ldmatricks()  # type: ignore[attr-defined]
    T.ptx.mbarrier.arrive.expects_tx(0, 128)  # type: ignore[attr-defined]
    T.ptx.ldmatrix(False)  # type: ignore[call-arg]
    T.ptx.mbarrier.init(0, count=1, parity=0)  # type: ignore[call-arg]
    T.cuda.cta_sync(1)  # type: ignore[call-arg]
    Tx.warp.copied(0, 0)  # type: ignore[attr-defined]
