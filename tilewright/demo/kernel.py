"""The kernel of the demo: transpose a float16 matrix, tile by tile, through shared memory and registers."""

from __future__ import annotations

from tilewright.ir import Kernel
from tilewright.lang import T, Tx
from tilewright.layout import S, TileLayout, laneid, mma_shared_layout, warpid

TILE = 64

# The layout of registers between the two copies. Warp w has rows 16w..16w+15 of the transposed tile; in each 8 x 8
# matrix, lane 4g+t holds columns 2t and 2t+1 of row g: the fragment of ldmatrix and of the tensor cores.
FRAGMENT = TileLayout(S[(4, 2, 8, 8, 4, 2) : (1 @ warpid, 16, 4 @ laneid, 2, 1 @ laneid, 1)])


def make(n: int, *, swizzled: bool) -> Kernel:
    """The kernel for an n x n matrix, n a multiple of 64; tiles in shared memory are plain rows, or swizzled."""
    tile_layout = mma_shared_layout("float16", 3, (TILE, TILE)) if swizzled else S[(TILE, TILE)]
    tiles = n // TILE

    @T.prim_func
    def transpose(A_ptr: T.handle, B_ptr: T.handle):
        A = T.match_buffer(A_ptr, (n, n), "float16")
        B = T.match_buffer(B_ptr, (n, n), "float16")
        T.device_entry()
        bx, by = T.cta_id([tiles, tiles])
        T.warp_id([4])
        T.lane_id([32])
        A_smem = T.alloc_buffer((TILE, TILE), "float16", scope="shared", layout=tile_layout)
        B_smem = T.alloc_buffer((TILE, TILE), "float16", scope="shared", layout=tile_layout)
        R = T.alloc_buffer((TILE, TILE), "float16", scope="local", layout=FRAGMENT)

        Tx.cta.copy(A_smem[:, :], A[by * TILE : (by + 1) * TILE, bx * TILE : (bx + 1) * TILE])
        T.cuda.cta_sync()
        A_columns = A_smem.permute(1, 0)
        Tx.cta.copy(R[:, :], A_columns[:, :])
        Tx.cta.copy(B_smem[:, :], R[:, :])
        T.cuda.cta_sync()
        Tx.cta.copy(B[bx * TILE : (bx + 1) * TILE, by * TILE : (by + 1) * TILE], B_smem[:, :])

    return transpose
