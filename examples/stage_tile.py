"""A warp loads two 8 x 8 matrices from shared memory into its fragment with one ldmatrix, and writes them out.

The register layout is the fragment of ldmatrix and of mma: in each matrix, lane 4g+t holds columns 2t, 2t+1 of row g.

    tilewright run examples/stage_tile.py
    tilewright explain examples/stage_tile.py
"""

import numpy as np

import tilewright as tw
from tilewright import T, Tx
from tilewright.layout import S, TileLayout, laneid


def make(num: int, row_major: bool = True, dtype: str = "float16"):
    """The kernel for ``num`` matrices side by side; stored by rows, or by columns so that ldmatrix must transpose."""
    rows, columns = 8, 8 * num
    fragment = TileLayout(S[(8, num, 4, 2) : (4 @ laneid, 2, 1 @ laneid, 1)])
    stored = TileLayout(S[(rows, columns) : (columns, 1)] if row_major else S[(rows, columns) : (1, rows)])

    @T.prim_func
    def stage_tile(A_ptr: T.handle, B_ptr: T.handle):
        A = T.match_buffer(A_ptr, (rows, columns), dtype)
        B = T.match_buffer(B_ptr, (rows, columns), dtype)
        T.device_entry()
        T.cta_id([1])
        lane = T.lane_id([32])
        A_smem = T.alloc_buffer((rows, columns), dtype, scope="shared", layout=stored)
        R = T.alloc_buffer((rows, columns), dtype, scope="local", layout=fragment)

        for i in range(2 * num):
            A_smem[lane // 4, i * 4 + lane % 4] = A[lane // 4, i * 4 + lane % 4]
        T.cuda.cta_sync()
        Tx.warp.copy(R[:, :], A_smem[:, :])
        Tx.warp.copy(B[:, :], R[:, :])

    return stage_tile


stage_tile = make(2)


def main() -> None:
    a = np.random.default_rng(0).standard_normal((8, 16)).astype(np.float16)
    b = np.zeros_like(a)
    tw.simulate(stage_tile, a, b)
    assert np.array_equal(a, b)
    print(tw.compile(stage_tile).report)


if __name__ == "__main__":
    main()
