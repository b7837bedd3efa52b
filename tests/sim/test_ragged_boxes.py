"""Boxes of tensor maps that end inside of arrays of any width, beside wide accesses of threads, under all checks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import T
from tilewright.dtypes import dtype
from tilewright.errors import SimulationError

KINDS = ["uint8", "float8_e4m3fn", "float16", "bfloat16", "float32", "float64"]
ADDED = ["float16", "bfloat16", "float32"]  # which tensor maps can add
SHAPES = [(1, 1), (3, 7), (5, 33), (33, 37), (2, 16), (9, 41)]
PITCH = 96  # elements


def changed(shape: tuple[int, int], kind: str, *, reduces: bool, waits: bool = True) -> Any:
    """Boxes of A come to shared memory, go to B or are added there; then threads write rows of B, 16 bytes each."""
    each = 16 // (dtype(kind).bits // 8)
    wide, boxes = 2 * each, -(-shape[1] // (2 * each))

    @T.prim_func
    def kernel(a: T.TensorMap, b: T.TensorMap, B: T.Buffer(shape, kind, strides=(PITCH, 1))):
        bx, by = T.cta_id([boxes, -(-shape[0] // 8)])
        tid = T.thread_id([32])
        tile = T.alloc_shared((8, wide), kind, align=128)
        bar = T.alloc_shared((1,), "uint64")
        if tid == 0:
            T.ptx.mbarrier.init(bar.ptr_to([0]), 1)
            T.ptx.fence.mbarrier_init()
        T.cuda.cta_sync()
        if tid == 0:
            T.ptx.mbarrier.arrive.expect_tx(bar.ptr_to([0]), 256)
            T.ptx.cp_async.bulk.tensor.g2c(2, tile.ptr_to([0, 0]), bar.ptr_to([0]), a, 0, -1, "", bx * wide, by * 8)
        T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)
        if tid == 0:
            if reduces:
                T.ptx.cp_async.bulk.tensor.s2g_reduce(2, tile.ptr_to([0, 0]), b, "", "add", bx * wide, by * 8)
            else:
                T.ptx.cp_async.bulk.tensor.s2g(2, tile.ptr_to([0, 0]), b, "", bx * wide, by * 8)
            T.ptx.cp_async.bulk.commit_group()
            if waits:
                T.ptx.cp_async.bulk.wait_group(0, read=False)
        T.cuda.warp_sync()
        if (bx * wide + wide <= shape[1] or not waits) and by * 8 + tid < shape[0] and tid < 8:
            T.ptx.st.v4(B.ptr_to([by * 8 + tid, bx * wide]), T.uint32(0), T.uint32(0), T.uint32(0), T.uint32(0))

    return kernel


def arrays(shape: tuple[int, int], kind: str) -> list[np.ndarray[Any, Any]]:
    made = np.random.default_rng(0).integers(0, 3, (2, shape[0], PITCH)).astype(dtype(kind).numpy)
    return [one[:, : shape[1]] for one in made]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("kind", "reduces"), [*((k, False) for k in KINDS), *((k, True) for k in ADDED)])
def test_boxes_of_odd_arrays_are_moved_and_judged(shape: tuple[int, int], kind: str, reduces: bool) -> None:
    a, b = arrays(shape, kind)
    wanted = (b + a if reduces else a.copy()).astype(b.dtype)
    each = 16 // b.itemsize
    for left in range(0, shape[1] - 2 * each + 1, 2 * each):
        wanted[:, left : left + each] = 0

    run(changed(shape, kind, reduces=reduces), a, b, check="all")

    assert np.array_equal(b.astype("f8"), wanted.astype("f8"))


def run(kernel: Any, a: np.ndarray[Any, Any], b: np.ndarray[Any, Any], *, check: str) -> None:
    maps = [tw.TensorMap(one, (8, 32 // one.itemsize)) for one in (a, b)]
    tw.compile(kernel, target="sm_90a").simulate(*maps, b, check=check)


@pytest.mark.parametrize("shape", SHAPES[1:])
@pytest.mark.parametrize("kind", ["float16", "float32"])
def test_a_store_to_what_a_ragged_box_still_writes_is_told(shape: tuple[int, int], kind: str) -> None:
    with pytest.raises(SimulationError, match="B"):
        run(changed(shape, kind, reduces=False, waits=False), *arrays(shape, kind), check="races")
