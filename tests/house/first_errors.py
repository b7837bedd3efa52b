"""The errors that people meet first, each by a function that causes it: for the gallery."""

# ruff: noqa: F821  names of other languages
from __future__ import annotations

import numpy as np

import tilewright as tw
from tilewright import T, Tx
from tilewright.layout import S, TileLayout, laneid

ROWS = TileLayout(S[(8, 4, 2) : (4 @ laneid, 1 @ laneid, 1)])
F32 = np.float32


def a_region_past_the_end() -> object:
    @T.prim_func
    def kernel(X: T.Buffer((1000,), "float32")):
        T.thread_id([128])
        tile = T.alloc_shared((1024,), "float32")
        Tx.cta.copy(tile, X[0:1024])

    return kernel


def two_coordinates_under_one_name() -> object:
    @T.prim_func
    def kernel(X: T.Buffer((256,), "float32")):
        t = T.thread_id([32, 8])
        X[t * 2] = 1.0

    return kernel


def a_list_at_run_time() -> object:
    @T.prim_func
    def kernel(X: T.Buffer((4, 32), "float32")):
        t = T.thread_id([32])
        acc = [0.0, 0.0, 0.0, 0.0]
        for j in range(4):
            acc[j] += X[j, t]

    return kernel


def a_scalar_as_a_register() -> object:
    @T.prim_func
    def kernel(X: T.Buffer((8,), "float16")):
        T.lane_id([32])
        tile = T.alloc_shared((8, 8), "float16")
        r = T.uint32(0)
        T.ptx.ldmatrix(False, 1, ".b16", tile.ptr_to([0, 0]), r)

    return kernel


def a_mask() -> object:
    @T.prim_func
    def kernel(X: T.Buffer((32,), "float32")):
        t = T.thread_id([32])
        tile = T.alloc_shared((32,), "float32")
        Tx.cta.copy(tile, X, mask=t < 20)

    return kernel


def a_name_of_triton() -> object:
    @T.prim_func
    def kernel(X: T.Buffer((32,), "float32")):
        x = tl.load(X)  # noqa: F841

    return kernel


def a_floored_tile() -> object:
    @T.prim_func
    def kernel(X: T.Buffer((32,), "float32")):
        T.thread_id([32])
        with Tx.cta:
            X[:] = X // 2

    return kernel


@T.prim_func
def reads_another_lane(Y: T.Buffer((32,), "float32")):
    lane = T.lane_id([32])
    tile = T.alloc_buffer((8, 8), "float32", scope="local", layout=ROWS)
    Tx.warp.fill(tile, 1.0)
    Y[lane] = tile[0, lane % 8]


@T.prim_func
def overruns(A_ptr: T.handle, Y: T.Buffer((32,), "float32")):
    n = T.int32()
    A = T.match_buffer(A_ptr, (n,), "float32")
    t = T.thread_id([8])
    T.cuda.copy_bytes(Y.ptr_to([t * 4]), A.ptr_to([t * 4]), 16)


@T.prim_func
def leaves_rows(A_ptr: T.handle):
    m, n = T.int32(), T.int32()
    A = T.match_buffer(A_ptr, (m, n), "float32")
    T.thread_id([128])
    tile = T.alloc_shared((8, 64), "float32")
    Tx.cta.copy(tile, A[0:8, 0:64])


@T.prim_func
def multiplies_nothing(Y: T.Buffer((32,), "float32")):
    lane = T.lane_id([32])
    a, b = T.alloc_local((4,), "uint32"), T.alloc_local((2,), "uint32")
    d = T.alloc_local((4,), "float32")
    for i in range(3):
        a[i] = 0
    for i in range(2):
        b[i] = 0
    T.ptx.mma("m16n8k16", "row", "col", "float32", "float16", "float16", "float32",
              [d.ptr_to([i]) for i in range(4)], [a.ptr_to([i]) for i in range(4)],
              [b.ptr_to([i]) for i in range(2)])  # fmt: skip
    Y[lane] = d[0]


@T.prim_func
def adds_to_nothing(X: T.Buffer((4, 32), "float32")):
    t = T.thread_id([32])
    acc = T.alloc_local((1,), "float32")
    for i in range(4):
        acc[0] += X[i, t]
    X[0, t] = acc[0]


@T.prim_func
def meets_in_two_places(X: T.Buffer((64,), "float32")):
    t = T.thread_id([64])
    if t < 16:
        T.cuda.cta_sync()
    else:
        T.cuda.cta_sync()
    X[t] = 1.0


@T.prim_func
def waits_for_one_more(X: T.Buffer((64,), "float32")):
    t = T.thread_id([64])
    bar = T.alloc_shared((1,), "uint64")
    if t == 0:
        T.ptx.mbarrier.init(bar.ptr_to([0]), 64)
    T.cuda.cta_sync()
    if t > 0:
        T.ptx.mbarrier.arrive(bar.ptr_to([0]))
    T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)
    X[t] = 1.0


PARSED = [a_region_past_the_end, two_coordinates_under_one_name, a_list_at_run_time, a_scalar_as_a_register, a_mask,
          a_name_of_triton, a_floored_tile]  # fmt: skip
RUN = {
    "reads_another_lane": lambda: tw.simulate(reads_another_lane, np.zeros(32, F32)),
    "overruns": lambda: tw.simulate(overruns, np.zeros(30, F32), np.zeros(32, F32)),
    "leaves_rows": lambda: tw.simulate(leaves_rows, np.zeros((8, 50), F32)),
    "multiplies_nothing": lambda: tw.simulate(multiplies_nothing, np.zeros(32, F32)),
    "adds_to_nothing": lambda: tw.simulate(adds_to_nothing, np.zeros((4, 32), F32)),
    "meets_in_two_places": lambda: tw.simulate(meets_in_two_places, np.zeros(64, F32)),
    "waits_for_one_more": lambda: tw.simulate(waits_for_one_more, np.zeros(64, F32)),
}
