"""Rows of a table by their numbers: a warp copies each row, 16 bytes a lane."""

import numpy as np

import tilewright as tw
from tilewright import T, Tx

WARPS = 4


@T.prim_func
def gather(table: T.handle, ids: T.handle, out: T.handle):
    words, width, n = T.int32(), T.int32(), T.int32()
    TABLE = T.match_buffer(table, (words, width), "float16")
    ID, OUT = T.match_buffer(ids, (n,), "int32"), T.match_buffer(out, (n, width), "float16")
    T.assume(width % 8 == 0)  # rows begin at multiples of 16 bytes
    i = T.cta_id([T.ceildiv(n, WARPS)]) * WARPS + T.warp_id([WARPS])
    T.lane_id([32])
    if i < n:
        Tx.warp.copy(OUT[i, :], TABLE[ID[i], :])


def main(run=tw.simulate) -> None:
    random = np.random.default_rng(0)
    table, ids = random.standard_normal((50, 264)).astype(np.float16), random.integers(0, 50, 31).astype(np.int32)
    out = np.zeros((31, 264), np.float16)
    run(gather, table, ids, out)
    assert np.array_equal(out, table[ids])
    print(tw.compile(gather).report)


if __name__ == "__main__":
    main()
