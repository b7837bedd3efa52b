"""Tensor maps that a kernel or its caller makes: their swizzles and the tiles', elements that lie packed."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from tilewright import T, Tx
from tilewright.errors import ArgumentError, KernelError
from tilewright.layout import mma_shared_layout

TARGET = "sm_90a"


@pytest.mark.parametrize("layout", ["swizzled otherwise", "plain, and a tile call keeps to it"])
def test_a_map_and_the_tile_of_its_boxes_have_one_swizzle(layout: str) -> None:
    mode = 2 if layout == "swizzled otherwise" else 0
    tiles = mma_shared_layout("float16", mode, (64, 64))

    def made(swizzle: int | None) -> Any:
        @T.prim_func
        def of_argument(A: T.Buffer((64, 64), "float16"), m: T.TensorMap, B: T.Buffer((64, 64), "float16")):
            own = T.tensor_map(A, box=(32, 64), swizzle=swizzle) if swizzle is not None else m
            T.cta_id([1])
            tid = T.thread_id([128])
            tile = T.alloc_buffer((64, 64), "float16", scope="shared", layout=tiles, align=1024)
            bar = T.alloc_shared([1], "uint64")
            if tid == 0:
                T.ptx.cp_async.bulk.tensor.g2c(2, tile.ptr_to([0, 0]), bar.ptr_to([0]), own.data, None, -1, "", 0, 0)
            Tx.cta.copy(B, tile)

        return of_argument

    a, b = np.zeros((2, 64, 64), np.float16)
    with pytest.raises(KernelError, match="have different swizzles") as error:
        tw.compile(made(3), TARGET)
    assert f"swizzle={mode}" in str(error.value.allowed)
    tw.compile(made(mode), TARGET)
    exe = tw.compile(made(None), TARGET)
    with pytest.raises(ArgumentError, match="argument m of of_argument and the layout of tile have different swizzles"):
        exe.simulate(a, tw.TensorMap(a, (64, 32), 3), b)
    exe.bind(a, tw.TensorMap(a, (64, 32), mode), b)


def test_elements_of_four_bits_need_a_type_of_the_map() -> None:
    values = np.zeros((8, 256), np.uint8).view(ml_dtypes.float4_e2m1fn)
    with pytest.raises(ArgumentError, match="elements of 4 bits have no type of their own"):
        tw.TensorMap(values, (8, 64))
    with pytest.raises(ArgumentError, match="is of bytes in which elements lie packed"):
        tw.TensorMap(values, (8, 128), dtype="16U4_ALIGN16B")
    with pytest.raises(ArgumentError) as error:
        tw.TensorMap(values.view(np.uint8), (8, 48), dtype="16U4_ALIGN8B")
    assert error.value.allowed == "a multiple of 16 bytes, 32 elements"
    with pytest.raises(KernelError, match="no elements of 4 bits by themselves"):

        @T.prim_func
        def kernel(A: T.Buffer((8, 256), "float4_e2m1fn")):
            T.tensor_map(A, box=(128, 8))


@pytest.mark.parametrize("kind", ["float4_e2m1fn", "uint8"])
@pytest.mark.parametrize("dtype", ["16U4_ALIGN8B", "16U4_ALIGN16B"])
def test_a_map_of_packed_elements_counts_them_one_by_one(kind: str, dtype: str) -> None:
    there = 64 if dtype == "16U4_ALIGN8B" else 128

    @T.prim_func
    def kernel(A: T.Buffer((8, 256 if kind != "uint8" else 128), kind), B: T.Buffer((8, there), "uint8")):
        own = T.tensor_map(A, box=(128, 8), dtype=dtype)
        T.cta_id([1])
        tid = T.thread_id([32])
        tile, bar = T.alloc_shared((8, there), "uint8", align=128), T.alloc_shared([1], "uint64")
        if tid == 0:
            T.ptx.mbarrier.init(bar.ptr_to([0]), 1)
        T.ptx.fence.mbarrier_init()
        T.cuda.cta_sync()
        if tid == 0:
            T.ptx.mbarrier.arrive.expect_tx(bar.ptr_to([0]), 8 * there)
            T.ptx.cp_async.bulk.tensor.g2c(2, tile.ptr_to([0, 0]), bar.ptr_to([0]), own.data, None, -1, "", 128, 0)
        T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)
        Tx.cta.copy(B, tile)

    packed, b = np.arange(1024, dtype=np.uint8).reshape(8, 128) + 1, np.zeros((8, there), np.uint8)
    a = packed if kind == "uint8" else np.stack((packed & 15, packed >> 4), -1).reshape(8, 256).view(kind)
    tw.compile(kernel, "sm_100a").simulate(a, b, check="default")
    groups = b.reshape(8, 8, -1)
    assert np.array_equal(groups[..., :8].reshape(8, 64), packed[:, 64:])
