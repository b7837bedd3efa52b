"""A float16 matrix product in tiles of 128 x 128 x 32: 8 warps, ldmatrix and mma.m16n8k16, sums in float32."""

from tilewright import T, Tx
from tilewright.layout import S, TileLayout, laneid, mma_shared_layout

M_TILE, N_TILE, K_TILE = 128, 128, 32
WARP_M, WARP_N = 64, 32  # of the tile's 128 x 128, for each of 2 x 4 warps

# The layout of a warp's part, in the order of the mma's registers. Both operands are rows along K.
A_FRAGMENT = TileLayout(S[(4, 2, 8, 2, 2, 4, 2) : (16, 2, 4 @ laneid, 8, 4, 1 @ laneid, 1)])
B_FRAGMENT = TileLayout(S[(4, 8, 2, 2, 4, 2) : (8, 4 @ laneid, 4, 2, 1 @ laneid, 1)])
D_FRAGMENT = TileLayout(S[(4, 2, 8, 4, 4, 2) : (16, 2, 4 @ laneid, 4, 1 @ laneid, 1)])
ROWS = mma_shared_layout("float16", 2, (M_TILE, K_TILE))


def gemm(m: int, n: int, k: int):
    """D = A * B transposed, for A of (m, k) and B of (n, k)."""

    @T.prim_func
    def product(A_ptr: T.handle, B_ptr: T.handle, D_ptr: T.handle):
        A = T.match_buffer(A_ptr, (m, k), "float16")
        B = T.match_buffer(B_ptr, (n, k), "float16")
        D = T.match_buffer(D_ptr, (m, n), "float16")
        T.device_entry()
        bx, by = T.cta_id([n // N_TILE, m // M_TILE])
        warp = T.warp_id([8])
        T.lane_id([32])
        A_smem = T.alloc_buffer((M_TILE, K_TILE), "float16", scope="shared", layout=ROWS)
        B_smem = T.alloc_buffer((N_TILE, K_TILE), "float16", scope="shared", layout=ROWS)
        a = T.alloc_buffer((WARP_M, K_TILE), "float16", scope="local", layout=A_FRAGMENT)
        b = T.alloc_buffer((WARP_N, K_TILE), "float16", scope="local", layout=B_FRAGMENT)
        d = T.alloc_buffer((WARP_M, WARP_N), "float32", scope="local", layout=D_FRAGMENT)
        result = T.alloc_buffer((WARP_M, WARP_N), "float16", scope="local", layout=D_FRAGMENT)
        a_at, b_at, d_at, result_at = a.local(), b.local(), d.local(), result.local()
        row: T.let = warp // 4 * WARP_M
        column: T.let = warp % 4 * WARP_N

        for i in T.unroll(64):
            d_at[i] = T.float32(0)
        for step in range(k // K_TILE):
            Tx.cta.copy(A_smem[:, :], A[by * M_TILE : (by + 1) * M_TILE, step * K_TILE : (step + 1) * K_TILE])
            Tx.cta.copy(B_smem[:, :], B[bx * N_TILE : (bx + 1) * N_TILE, step * K_TILE : (step + 1) * K_TILE])
            T.cuda.cta_sync()
            Tx.warp.copy(a[:, :], A_smem[row : row + WARP_M, :])
            Tx.warp.copy(b[:, :], B_smem[column : column + WARP_N, :])
            for i, j, half in T.grid(4, 4, 2):
                sums = d_at[16 * i + 4 * j : 16 * i + 4 * j + 4]
                left = a_at[16 * i + 8 * half : 16 * i + 8 * half + 8]
                right = b_at[8 * j + 4 * half : 8 * j + 4 * half + 4]
                T.ptx.mma("m16n8k16", "f32.f16.f16.f32", sums, left, right, sums)
            T.cuda.cta_sync()
        for i in T.unroll(64):
            result_at[i] = T.cast(d_at[i], "float16")
        across: T.let = bx * N_TILE + column
        down: T.let = by * M_TILE + row
        Tx.warp.copy(D[down : down + WARP_M, across : across + WARP_N], result[:, :])

    return product
