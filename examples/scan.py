"""Running sums of rows of any length, and the places that a filter keeps: an exclusive scan of its answers."""

import numpy as np

import tilewright as tw
from tilewright import T, Tx


@T.prim_func
def cumulative_sum(x: T.handle, y: T.handle):
    rows, columns = T.int32(), T.int32()
    X, Y = T.match_buffer(x, (rows, columns)), T.match_buffer(y, (rows, columns))
    row = T.cta_id([rows])
    T.thread_id([256])
    Tx.cta.scan(Y[row, 0:columns], X[row, 0:columns])


@T.prim_func
def positive_places(X: T.Buffer((1024,)), PLACE: T.Buffer((1024,), "int32")):
    T.cta_id([1])
    T.thread_id([256])
    keeps = T.alloc_shared((1024,), "int32")
    with Tx.cta:
        keeps[:] = X[:] > 0
        T.cuda.cta_sync()
        Tx.cta.scan(PLACE, keeps, exclusive=True)


def main(run=tw.simulate) -> None:
    x = np.random.default_rng(0).standard_normal((3, 5001)).astype(np.float32)
    y, place = np.zeros_like(x), np.zeros(1024, np.int32)
    run(cumulative_sum, x, y)
    run(positive_places, x[0, :1024].copy(), place)
    assert np.allclose(y, np.cumsum(x, 1, dtype=np.float64), atol=1e-3)
    keeps = x[0, :1024] > 0
    assert np.array_equal(place, np.cumsum(keeps) - keeps)
    print(tw.compile(cumulative_sum).report)


if __name__ == "__main__":
    main()
