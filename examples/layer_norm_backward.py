"""LayerNorm, backward. The gradients of weight and bias are sums over rows: first a part for each CTA, then the whole.

Nothing is added by atomics, so that the bits are the same every run.
"""

import numpy as np

import tilewright as tw
from tilewright import T, Tx
from tilewright.layout import S, TileLayout, tx

N, THREADS, CTAS, EPS = 1024, 256, 4, 1e-5
HELD = TileLayout(S[(THREADS, 4) : (1 @ tx, 1)])


@T.prim_func
def backward(x: T.handle, W: T.Buffer((N,)), mean: T.handle, rstd: T.handle, dy: T.handle, dx: T.handle,
             P: T.Buffer((2, CTAS, N))):  # fmt: skip
    rows = T.int32()
    X, DY, DX = T.match_buffer(x, (rows, N)), T.match_buffer(dy, (rows, N)), T.match_buffer(dx, (rows, N))
    MEAN, RSTD = T.match_buffer(mean, (rows,)), T.match_buffer(rstd, (rows,))
    cta, _ = T.cta_id([CTAS]), T.thread_id([THREADS])
    h, d, dw, db = [T.alloc_buffer((N,), scope="local", layout=HELD) for _ in range(4)]
    dw[:], db[:] = 0, 0
    for k in range((rows - cta + CTAS - 1) // CTAS):
        row = cta + k * CTAS
        d[:] = DY[row]
        h[:] = (X[row] - MEAN[row]) * RSTD[row]
        dw[:] += d * h
        db[:] += d
        d[:] *= W
        DX[row] = (d - T.sum(d) / N - h * (T.sum(d * h) / N)) * RSTD[row]
    P[0, cta], P[1, cta] = dw, db


@T.prim_func
def sum_parts(P: T.Buffer((2, CTAS, N)), D: T.Buffer((2, N))):
    which, _ = T.cta_id([2]), T.thread_id([THREADS])
    with Tx.cta:
        D[which] = T.sum(P[which], axis=1)


def main(run=tw.simulate) -> None:
    x, dy = np.random.default_rng(0).standard_normal((2, 7, N)).astype(np.float32)
    w, dx, parts, d = (np.ones(shape, np.float32) * 0.5 for shape in (N, (7, N), (2, CTAS, N), (2, N)))
    mean, r = x.mean(1), 1 / np.sqrt(x.var(1) + EPS)
    run(backward, x, w, mean, r, dy, dx, parts)
    run(sum_parts, parts, d)
    h, g = (x - mean[:, None]) * r[:, None], dy * w
    assert np.allclose(dx, (g - g.mean(1)[:, None] - h * (g * h).mean(1)[:, None]) * r[:, None], atol=1e-5)
    assert np.allclose(d, [(dy * h).sum(0), dy.sum(0)], atol=1e-4)
    print(tw.compile(backward).report)


if __name__ == "__main__":
    main()
