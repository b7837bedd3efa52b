"""Scalars in registers that become variables before tile calls are resolved."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright import T, Tx
from tilewright.errors import DispatchError


def test_a_loop_over_a_scalar_of_the_warp_keeps_warps_whole() -> None:
    @T.prim_func
    def kernel(A: T.Buffer((8, 64), "float32"), B: T.Buffer((8, 64), "float32")):
        T.cta_id([1])
        warp = T.warp_id([2])
        T.lane_id([32])
        row = T.local_scalar("int32")
        row = warp
        while row < 8:
            Tx.warp.copy(B[row, :], A[row, :])
            row = row + 2

    a, b = np.arange(512, dtype=np.float32).reshape(8, 64), np.zeros((8, 64), np.float32)
    tw.simulate(kernel, a, b)
    assert (a == b).all()
    assert "int row = " in tw.compile(kernel, target="sm_90a").source("cuda")


def test_a_scalar_of_each_lane_does_not() -> None:
    @T.prim_func
    def kernel(A: T.Buffer((8, 64), "float32"), B: T.Buffer((8, 64), "float32")):
        T.cta_id([1])
        lane = T.lane_id([32])
        row = T.local_scalar("int32")
        row = lane
        while row < 8:
            Tx.warp.copy(B[row, :], A[row, :])
            row = row + 2

    with pytest.raises(DispatchError, match="needs all threads of its warp"):
        tw.compile(kernel, target="sm_90a")


@pytest.mark.parametrize("how", ["a tile", "read first"])
def test_a_scalar_of_which_more_is_used_than_its_value_stays_memory(how: str) -> None:
    @T.prim_func
    def kernel(A: T.Buffer((32,), "int32")):
        T.cta_id([1])
        lane = T.lane_id([32])
        kept = T.local_scalar("int32")
        if how == "read first":
            for i in range(2):
                if i == 1:
                    A[lane] = kept
                kept = lane
        else:
            kept = lane
            Tx.fill(kept.buffer[0:1], 3)
            A[lane] = kept

    text = tw.compile(kernel, target="sm_90a").source("lowered")
    assert "kept = T.alloc_buffer" in text
