"""LayerNorm: a row is read once, and stays in the registers of a CTA. `layer_norm_backward.py` goes back."""

import numpy as np

import tilewright as tw
from tilewright import T, Tx
from tilewright.layout import S, TileLayout, tx

N, THREADS, EPS = 1024, 256, 1e-5
HELD = TileLayout(S[(THREADS, 4) : (1 @ tx, 1)])


@T.prim_func
def layer_norm(x: T.handle, W: T.Buffer((N,)), B: T.Buffer((N,)), y: T.handle, mean: T.handle, rstd: T.handle):
    rows = T.int32()
    X, Y = T.match_buffer(x, (rows, N)), T.match_buffer(y, (rows, N))
    MEAN, RSTD = T.match_buffer(mean, (rows,)), T.match_buffer(rstd, (rows,))
    row = T.cta_id([rows])
    T.thread_id([THREADS])
    t = T.alloc_buffer((N,), scope="local", layout=HELD)
    t[:] = X[row]
    m = T.sum(t) / N
    t[:] -= m
    r = T.rsqrt(T.sum(t * t) / N + EPS)
    Y[row] = t * r * W + B
    with Tx.cta:  # m and r alone do not say which threads store them
        MEAN[row], RSTD[row] = m, r


def main(run=tw.simulate) -> None:
    random = np.random.default_rng(0)
    x, w, b = (random.standard_normal(shape).astype(np.float32) for shape in ((7, N), N, N))
    y, mean, rstd = np.zeros_like(x), np.zeros(7, np.float32), np.zeros(7, np.float32)
    run(layer_norm, x, w, b, y, mean, rstd)
    r = 1 / np.sqrt(x.var(1, dtype=np.float64, keepdims=True) + EPS)
    assert np.allclose(y, (x - x.mean(1, keepdims=True)) * r * w + b, atol=1e-4)
    assert np.allclose(mean, x.mean(1), atol=1e-6)
    assert np.allclose(rstd, r[:, 0], rtol=1e-5)
    print(tw.compile(layer_norm).report)


if __name__ == "__main__":
    main()
