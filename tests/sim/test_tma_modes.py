"""The copy engine's other modes: four rows at once, and bytes by a mask; oracles take an element at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.isa.tma_oracles import swizzled
from tests.sim.tmem_kernels import refusal
from tilewright import T
from tilewright.errors import SimulationError

TARGET = "sm_100a"


def gather(columns: int, rows: tuple[int, ...], x: int = 0, *, told: bool = True) -> Any:
    """The four rows, as shared memory has them, 4-byte words one after the other."""
    nbytes = 16 * columns

    @T.prim_func
    def kernel(m: T.TensorMap(), out: T.Buffer((4 * columns,), "float32")):
        T.cta_id([1])
        tid = T.thread_id([32])
        tile, bar = T.alloc_shared((4 * columns,), "float32", align=1024), T.alloc_shared([1], "uint64")
        if tid == 0:
            T.ptx.mbarrier.init(bar.ptr_to([0]), 1)
        T.ptx.fence.mbarrier_init()
        T.cuda.cta_sync()
        if tid == 0:
            T.ptx.mbarrier.arrive.expect_tx(bar.ptr_to([0]), nbytes)
            T.ptx.cp_async.bulk.tensor.g2c_tile_gather4(
                tile.ptr_to([0]), bar.ptr_to([0]), T.address_of(m), 0, -1, "", x, *rows
            )
        if told:
            T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)
        for i in T.serial(columns // 8):
            out[32 * i + tid] = tile[32 * i + tid]

    return kernel


@pytest.mark.parametrize("swizzle", [0, 1, 3])
@pytest.mark.parametrize("rows", [(3, 0, 7, 3), (9, -1, 2, 40)])
def test_four_rows_come_one_after_the_other_each_outside_alone(rows: tuple[int, ...], swizzle: int) -> None:
    columns = 32 if swizzle == 3 else 8
    a = np.arange(10 * 64, dtype=np.float32).reshape(10, 64) + 1
    out = np.full(4 * columns, -1, np.float32)

    run = tw.compile(gather(columns, rows, 8), TARGET).simulate(
        tw.TensorMap(a, (1, columns), swizzle), out, check="all"
    )

    assert run.warnings == []
    for number, row in enumerate(rows):
        for column in range(columns):
            byte = swizzled(4 * (number * columns + column), swizzle)
            wanted = a[row, 8 + column] if 0 <= row < 10 else 0
            assert out[byte // 4] == wanted


def test_boxes_of_several_rows_gather_nothing() -> None:
    a, out = np.zeros((8, 64), np.float32), np.zeros(32, np.float32)

    error = refusal(gather(8, (0, 1, 2, 3)), tw.TensorMap(a, (2, 8)), out)

    assert "the boxes of the tensor map have 2 rows; four rows are taken by boxes of one" in error.what


def test_rows_that_nobody_waits_for_are_not_there() -> None:
    a, out = np.zeros((8, 64), np.float32), np.zeros(32, np.float32)

    with pytest.raises(SimulationError, match="may still be writing"):
        tw.compile(gather(8, (0, 1, 2, 3), told=False), TARGET).simulate(tw.TensorMap(a, (1, 8)), out, check="all")


@pytest.mark.parametrize("rows", [(3, 0, 7, 5), (1, 12, 0, 2)])
def test_four_rows_are_stored_where_they_are_inside(rows: tuple[int, ...]) -> None:
    @T.prim_func
    def kernel(m: T.TensorMap()):
        T.cta_id([1])
        tid = T.thread_id([32])
        tile = T.alloc_shared((32,), "float32", align=128)
        tile[tid] = T.cast(tid + 1, "float32")
        T.ptx.fence.proxy_async("shared::cta")
        T.cuda.cta_sync()
        if tid == 0:
            T.ptx.cp_async.bulk.tensor.s2g_tile_scatter4(tile.ptr_to([0]), T.address_of(m), "", 16, *rows)
            T.ptx.cp_async.bulk.commit_group()
            T.ptx.cp_async.bulk.wait_group(0)

    a = np.zeros((10, 64), np.float32)
    assert tw.compile(kernel, TARGET).simulate(tw.TensorMap(a, (1, 8)), check="all").warnings == []

    wanted = np.zeros_like(a)
    for number, row in enumerate(rows):
        if row < 10:
            wanted[row, 16:24] = 8 * number + 1 + np.arange(8)
    assert np.array_equal(a, wanted)


@pytest.mark.parametrize("mask", [0, 1, 0b1000000000000101, 0xFFFF])
def test_a_mask_chooses_the_bytes_of_each_16(mask: int) -> None:
    @T.prim_func
    def kernel(out: T.Buffer((64,), "uint8"), chosen: T.uint32):
        T.cta_id([1])
        tid = T.thread_id([64])
        tile = T.alloc_shared((64,), "uint8", align=128)
        tile[tid] = tid
        T.ptx.fence.proxy_async("shared::cta")
        T.cuda.cta_sync()
        if tid == 0:
            T.ptx.cp_async.bulk.s2g(out.ptr_to([0]), tile.ptr_to([0]), 48, byte_mask=T.cast(chosen, "uint16"))
            T.ptx.cp_async.bulk.commit_group()
            T.ptx.cp_async.bulk.wait_group(0)

    out = np.full(64, 255, np.uint8)
    assert tw.compile(kernel, "sm_100").simulate(out, mask, check="all").warnings == []

    wanted = [byte if byte < 48 and mask >> byte % 16 & 1 else 255 for byte in range(64)]
    assert out.tolist() == wanted
