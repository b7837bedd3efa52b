"""A matrix product by mma.sync, in tiles of 128 x 128: eight warps divide a tile, 64 x 32 each.

The layout of the sums says who computes what. A and B wait in shared memory, where each warp finds its rows of A and
its columns of B by ldmatrix: B has N contiguous, so that it is transposed on the way.

    tilewright explain examples/matmul_mma.py
"""

import numpy as np

import tilewright as tw
from tilewright import T, Tx
from tilewright.layout import mma_fragment_layout, mma_shared_layout

TILE, DEPTH = 128, 64
SUMS = mma_fragment_layout("D", (TILE, TILE), "float32", warps=(2, 4))


def make(m: int, n: int, k: int, dtype: str = "float16"):
    """The kernel for D = A @ B, of (m, k) and (k, n)."""

    @T.prim_func
    def matmul(A_ptr: T.handle, B_ptr: T.handle, D_ptr: T.handle):
        A = T.match_buffer(A_ptr, (m, k), dtype)
        B = T.match_buffer(B_ptr, (k, n), dtype)
        D = T.match_buffer(D_ptr, (m, n), dtype)
        T.device_entry()
        by, bx = T.cta_id([m // TILE, n // TILE])
        T.thread_id([256])
        a = T.alloc_buffer((TILE, DEPTH), dtype, scope="shared", layout=mma_shared_layout(dtype, 3, (TILE, DEPTH)))
        b = T.alloc_buffer((DEPTH, TILE), dtype, scope="shared", layout=mma_shared_layout(dtype, 3, (DEPTH, TILE)))
        sums = T.alloc_buffer((TILE, TILE), "float32", scope="local", layout=SUMS)
        rounded = T.alloc_buffer((TILE, TILE), dtype, scope="local", layout=SUMS)

        Tx.cta.zero(sums)
        for step in range(k // DEPTH):
            Tx.cta.copy(a, A[by * TILE : (by + 1) * TILE, step * DEPTH : (step + 1) * DEPTH])
            Tx.cta.copy(b, B[step * DEPTH : (step + 1) * DEPTH, bx * TILE : (bx + 1) * TILE])
            T.cuda.cta_sync()
            Tx.cta.gemm(sums, a, b, sums, beta=1.0)
            T.cuda.cta_sync()
        Tx.cta.cast(rounded, sums)
        Tx.cta.copy(D[by * TILE : (by + 1) * TILE, bx * TILE : (bx + 1) * TILE], rounded)

    return matmul


matmul = make(256, 128, 128)


def main() -> None:
    a, b = (np.random.default_rng(n).standard_normal((n, 128)).astype(np.float16) for n in (256, 128))
    tw.simulate(matmul, a, b, d := np.zeros((256, 128), np.float16), check="all")
    assert np.allclose(d, a.astype(np.float32) @ b.astype(np.float32), rtol=1e-3, atol=1e-3)
    print(tw.compile(matmul).report)


if __name__ == "__main__":
    main()
