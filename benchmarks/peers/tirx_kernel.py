"""The demonstration on TIRx's documentation page for ldmatrix copies: two row-major 8x8 float16 matrices."""

from tvm.script import tirx as T
from tvm.tirx.layout import S, TileLayout, laneid

FRAGMENT = TileLayout(S[(8, 4, 2, 2) : (4 @ laneid, 1 @ laneid, 2, 1)])
ROWS = TileLayout(S[(8, 4, 2, 2) : (16, 2, 8, 1)])
FULL = (slice(0, 8), slice(0, 4), slice(0, 2), slice(0, 2))


def build():
    """Parse the kernel; TIRx reads its source each time."""

    @T.prim_func
    def kernel(A_ptr: T.handle, B_ptr: T.handle):
        A = T.match_buffer(A_ptr, (8, 16), "float16")
        B = T.match_buffer(B_ptr, (8, 16), "float16")
        T.device_entry()
        T.cta_id([1])
        T.lane_id([32])
        tid = T.thread_id([32])
        A_smem = T.alloc_buffer((8, 4, 2, 2), "float16", scope="shared", layout=ROWS)
        for i in T.serial(2):
            for j in T.serial(2):
                A_smem[tid // 4, tid % 4, i, j] = A[tid // 4, i * 8 + tid % 4 * 2 + j]
        T.cuda.cta_sync()
        R = T.alloc_buffer((8, 4, 2, 2), "float16", scope="local", layout=FRAGMENT)
        T.warp.copy(R[FULL], A_smem[FULL])
        r = R.local(4)
        for i in T.serial(2):
            for j in T.serial(2):
                B[tid // 4, i * 8 + tid % 4 * 2 + j] = r[i * 2 + j]

    return kernel
