"""The sum of each row: a warp for short rows, a CTA for long ones. The call is the same, the scope says who adds."""

import numpy as np

import tilewright as tw
from tilewright import T, Tx


@T.prim_func
def warp_row_sum(x: T.handle, s: T.handle):
    rows, columns = T.int32(), T.int32()
    X = T.match_buffer(x, (rows, columns), "float32")
    SUM = T.match_buffer(s, (rows,), "float32")
    row = T.cta_id([T.ceildiv(rows, 8)]) * 8 + T.warp_id([8])
    T.lane_id([32])
    with Tx.warp:
        if row < rows:
            SUM[row] = T.sum(X[row])


@T.prim_func
def cta_row_sum(x: T.handle, s: T.handle):
    rows, columns = T.int32(), T.int32()
    X = T.match_buffer(x, (rows, columns), "float32")
    SUM = T.match_buffer(s, (rows,), "float32")
    row = T.cta_id([rows])
    T.thread_id([256])
    with Tx.cta:
        SUM[row] = T.sum(X[row])


def main(run=tw.simulate) -> None:
    random = np.random.default_rng(0)
    for kernel, shape in ((warp_row_sum, (13, 200)), (cta_row_sum, (3, 5001))):
        x, s = random.standard_normal(shape).astype(np.float32), np.zeros(shape[0], np.float32)
        run(kernel, x, s)
        assert np.allclose(s, x.sum(1, dtype=np.float64), rtol=1e-5, atol=1e-4)
    print(tw.compile(cta_row_sum).report)


if __name__ == "__main__":
    main()
