"""A whole kernel: tiles are staged through shared memory and come back as fragments of a warp."""

from __future__ import annotations

import numpy as np

import tilewright as tw
from tests.lang.kernels import reads_back, text
from tilewright.ir import Kernel
from tilewright.lang import T, Tx
from tilewright.layout import S, TileLayout, laneid


def stage(num: int, rows: int = 8) -> Kernel:
    """``num`` matrices of 8 columns go from ``A`` to ``B``, by way of shared memory and registers."""
    shape = (rows, 4, num, 2)
    fragment = TileLayout(S[shape : (4 @ laneid, 1 @ laneid, 2, 1)])
    padded = TileLayout(S[shape : (8 * num + 8, 2, 8, 1)])
    whole = tuple(slice(0, extent) for extent in shape)

    @T.inline
    def place(row, pair, matrix, half):
        return row, matrix * 8 + pair * 2 + half

    @T.prim_func
    def kernel(A: T.Buffer((rows, 8 * num), "float16"), B_ptr: T.handle):
        B = T.match_buffer(B_ptr, (rows, 8 * num), "float16")
        T.device_entry()
        T.cta_id([1])
        lane = T.lane_id([32])
        row, pair = T.meta_var((lane // 4, lane % 4))
        tile = T.alloc_buffer(shape, "float16", scope="shared", layout=padded)
        for matrix, half in T.grid(num, 2):
            tile[row, pair, matrix, half] = A[place(row, pair, matrix, half)]
        T.cuda.cta_sync()
        r = T.alloc_buffer(shape, "float16", scope="local", layout=fragment)
        Tx.warp.copy(r[whole], tile[whole])
        registers = r.local(num, 2)
        for matrix in T.unroll(num):
            for half in (0, 1):
                B[place(row, pair, matrix, half)] = registers[matrix, half]

    return kernel


def test_its_script() -> None:
    assert str(stage(2)) == text("""
    # from tilewright import T, Tx
    # from tilewright.layout import *
    @T.prim_func
    def kernel(A_ptr: T.handle, B_ptr: T.handle):
        A = T.match_buffer(A_ptr, (8, 16), "float16")
        B = T.match_buffer(B_ptr, (8, 16), "float16")
        T.device_entry()
        cta_id = T.cta_id([1])
        lane = T.lane_id([32])
        tile = T.alloc_buffer((8, 4, 2, 2), "float16", scope="shared", layout=S[(8, 4, 2, 2):(24, 2, 8, 1)])
        for matrix in range(2):
            for half in range(2):
                tile[lane // 4, lane % 4, matrix, half] = A[lane // 4, matrix * 8 + lane % 4 * 2 + half]
        T.cuda.cta_sync()
        r = T.alloc_buffer((8, 4, 2, 2), "float16", scope="local", layout=S[(8, 4, 2, 2):(4@laneid, 1@laneid, 2, 1)])
        Tx.warp.copy(r[0:8, 0:4, 0:2, 0:2], tile[0:8, 0:4, 0:2, 0:2])
        registers = T.decl_buffer((2, 2), "float16", data=r.data, scope="local")
        for matrix_1 in T.unroll(2):
            B[lane // 4, matrix_1 * 8 + lane % 4 * 2] = registers[matrix_1, 0]
            B[lane // 4, matrix_1 * 8 + lane % 4 * 2 + 1] = registers[matrix_1, 1]
    """)


def test_every_width_reads_back() -> None:
    assert all(reads_back(stage(num)) for num in (1, 2, 4))


def test_two_parses_are_one_kernel() -> None:
    assert stage(4) == stage(4)
    assert stage(4) != stage(2)


def test_a_numpy_scalar_is_a_number_not_an_array() -> None:
    @T.prim_func
    def scale(A: T.Buffer((32,), "float32"), factor: T.float32) -> None:
        T.device_entry()
        t = T.thread_id([32])
        A[t] = A[t] * factor

    a = np.ones(32, np.float32)
    tw.simulate(scale, a, np.float32(2.5))
    assert (a == 2.5).all()


def test_the_distance_of_two_pointers_is_a_number_everywhere() -> None:
    @T.prim_func
    def distances(D: T.Buffer((32,), "float32"), E: T.Buffer((32,), "int32")) -> None:
        T.device_entry()
        t = T.thread_id([32])
        D[t] = D.ptr_to([t]) - D.ptr_to([0])
        E[t] = T.cast((D.ptr_to([t]) - D.data) // 4, "int32")

    d, e = np.zeros(32, np.float32), np.zeros(32, np.int32)
    tw.simulate(distances, d, e)
    assert (d == np.arange(32) * 4).all()
    assert (e == np.arange(32)).all()
    assert tw.compile(distances, target="sm_90a").cubin
