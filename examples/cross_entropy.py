"""Cross entropy of logits against labels, and its gradient, in one pass over a row that stays in registers."""

import numpy as np

import tilewright as tw
from tilewright import T, Tx
from tilewright.layout import S, TileLayout, tx

MOST, THREADS = 4096, 256
HELD = TileLayout(S[(4, THREADS, 4) : (4, 1 @ tx, 1)])


@T.prim_func
def cross_entropy(x: T.handle, labels: T.handle, loss: T.handle, dx: T.handle):
    rows, classes = T.int32(), T.int32()
    X, DX = T.match_buffer(x, (rows, classes)), T.match_buffer(dx, (rows, classes))
    LABEL, LOSS = T.match_buffer(labels, (rows,), "int32"), T.match_buffer(loss, (rows,))
    T.assume(classes <= MOST)
    row = T.cta_id([rows])
    T.thread_id([THREADS])
    label = LABEL[row]
    t = T.alloc_buffer((MOST,), scope="local", layout=HELD)
    with Tx.cta:
        Tx.cta.copy(t, X[row, 0:MOST], fill=-T.infinity("float32"))
        most = T.max(t)
        t[:] = T.exp(t - most)
        total = T.sum(t)
        LOSS[row] = T.log(total) + most - X[row, label]
        t[:] /= total
        DX[row, 0:MOST] = T.select(lambda k: k == label, t - 1, t)


def main(run=tw.simulate) -> None:
    random = np.random.default_rng(0)
    x, labels = random.standard_normal((5, 3001)).astype(np.float32), random.integers(0, 3001, 5).astype(np.int32)
    loss, dx = np.zeros(5, np.float32), np.zeros_like(x)
    run(cross_entropy, x, labels, loss, dx)
    p = np.exp(x.astype(np.float64))
    p /= p.sum(1, keepdims=True)
    assert np.allclose(loss, -np.log(p[range(5), labels]), atol=1e-5)
    p[range(5), labels] -= 1
    assert np.allclose(dx, p, atol=1e-6)
    print(tw.compile(cross_entropy).report)


if __name__ == "__main__":
    main()
