"""Each lane of a warp takes a row of a 32 x 8 tile into its own registers, and puts it back, 16 bytes at a time.

No instruction shuffles anything here: the register layout alone says that lane i owns row i, so the copy becomes vector
loads and stores of each lane's own row.

    tilewright run examples/row_per_lane.py
"""

import numpy as np

import tilewright as tw
from tilewright import T, Tx
from tilewright.layout import S, TileLayout, laneid


def make(columns: int = 8, dtype: str = "float32"):
    """The kernel for a 32 x ``columns`` tile."""
    rows = TileLayout(S[(32, columns) : (1 @ laneid, 1)])

    @T.prim_func
    def row_per_lane(A_ptr: T.handle, B_ptr: T.handle):
        A = T.match_buffer(A_ptr, (32, columns), dtype)
        B = T.match_buffer(B_ptr, (32, columns), dtype)
        T.device_entry()
        T.cta_id([1])
        lane = T.lane_id([32])
        tile = T.alloc_shared((32, columns), dtype)
        R = T.alloc_buffer((32, columns), dtype, scope="local", layout=rows)

        Tx.warp.copy(tile[:, :], A[:, :])
        T.cuda.cta_sync()
        Tx.warp.copy(R[:, :], tile[:, :])
        T.cuda.cta_sync()
        for column in range(columns):
            tile[31 - lane, column] = R[lane, column]
        T.cuda.cta_sync()
        Tx.warp.copy(B[:, :], tile[:, :])

    return row_per_lane


row_per_lane = make()


def main() -> None:
    a = np.random.default_rng(0).standard_normal((32, 8)).astype(np.float32)
    b = np.zeros_like(a)
    tw.simulate(row_per_lane, a, b)
    assert np.array_equal(a[::-1], b)
    print(tw.compile(row_per_lane).source("lowered"))


if __name__ == "__main__":
    main()
