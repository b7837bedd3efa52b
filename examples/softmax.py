"""Softmax of rows. A row that fits is read once and stays in registers; one that does not is read twice."""

import numpy as np

import tilewright as tw
from tilewright import T, Tx
from tilewright.layout import S, TileLayout, tx

MOST, PART, THREADS = 4096, 2048, 256


def spread(columns: int) -> TileLayout:
    """A row over a CTA: each thread has runs of 4 elements, 128 bits of memory."""
    return TileLayout(S[(columns // (4 * THREADS), THREADS, 4) : (4, 1 @ tx, 1)])


@T.prim_func
def softmax(x: T.handle, y: T.handle):
    rows, columns = T.int32(), T.int32()
    X, Y = T.match_buffer(x, (rows, columns), "float32"), T.match_buffer(y, (rows, columns), "float32")
    row = T.cta_id([rows])
    T.thread_id([THREADS])
    T.assume(columns <= MOST)
    t = T.alloc_buffer((MOST,), "float32", scope="local", layout=spread(MOST))
    Tx.cta.copy(t, X[row, 0:MOST], fill=-T.infinity("float32"))
    t[:] = T.exp(t - T.max(t))
    Y[row, 0:MOST] = t / T.sum(t)


@T.prim_func
def long_softmax(x: T.handle, y: T.handle):
    rows, columns = T.int32(), T.int32()
    X, Y = T.match_buffer(x, (rows, columns), "float32"), T.match_buffer(y, (rows, columns), "float32")
    row = T.cta_id([rows])
    T.thread_id([THREADS])
    t = T.alloc_buffer((PART,), "float32", scope="local", layout=spread(PART))
    with Tx.cta:
        most, total = T.alloc_local((1,)), T.alloc_local((1,))
        most[:], total[:] = -T.infinity("float32"), 0
        for k in range(T.ceildiv(columns, PART)):
            Tx.cta.copy(t, X[row, k * PART : k * PART + PART], fill=-T.infinity("float32"))
            larger = T.max(most, T.max(t))
            total[:] = total * T.exp(most - larger) + T.sum(T.exp(t - larger))
            most[:] = larger
        Y[row, 0:columns] = T.exp(X[row, 0:columns] - most) / total


def main(run=tw.simulate) -> None:
    for kernel, columns in ((softmax, 1000), (softmax, MOST), (long_softmax, 9001)):
        x = np.random.default_rng(0).standard_normal((3, columns)).astype(np.float32) * 4
        y = np.zeros_like(x)
        run(kernel, x, y)
        wanted = np.exp(x - x.max(1, keepdims=True).astype(np.float64))
        assert np.allclose(y, wanted / wanted.sum(1, keepdims=True), rtol=1e-4, atol=1e-7)
    print(tw.compile(softmax).report)


if __name__ == "__main__":
    main()
