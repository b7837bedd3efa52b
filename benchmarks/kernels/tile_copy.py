"""An 8x16 float16 tile from global to shared memory, by ldmatrix to registers, and back to global memory."""

from tilewright import T, Tx
from tilewright.ir import Kernel
from tilewright.layout import S, TileLayout, laneid

FRAGMENT = TileLayout(S[(8, 4, 2, 2) : (4 @ laneid, 1 @ laneid, 2, 1)])
ROWS = TileLayout(S[(8, 4, 2, 2) : (16, 2, 8, 1)])
FULL = (slice(0, 8), slice(0, 4), slice(0, 2), slice(0, 2))


def build() -> Kernel:
    """Parse the kernel again, from its source."""

    @T.prim_func
    def kernel(A_ptr: T.handle, B_ptr: T.handle):
        A = T.match_buffer(A_ptr, (8, 16), "float16")
        B = T.match_buffer(B_ptr, (8, 16), "float16")
        T.device_entry()
        T.cta_id([1])
        T.lane_id([32])
        tid = T.thread_id([32])
        A_smem = T.alloc_buffer((8, 4, 2, 2), "float16", scope="shared", layout=ROWS)
        row = tid // 4
        cp = tid % 4
        for j in range(2):
            for e in range(2):
                A_smem[row, cp, j, e] = A[row, j * 8 + cp * 2 + e]
        T.cuda.cta_sync()
        R = T.alloc_buffer((8, 4, 2, 2), "float16", scope="local", layout=FRAGMENT)
        Tx.warp.copy(R[FULL], A_smem[FULL])
        for j in range(2):
            for e in range(2):
                B[row, j * 8 + cp * 2 + e] = R[row, cp, j, e]

    return kernel
