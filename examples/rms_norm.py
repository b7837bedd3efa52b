"""RMSNorm forward and backward, in bfloat16 with arithmetic in float32."""

import numpy as np
from ml_dtypes import bfloat16

import tilewright as tw
from tilewright import T
from tilewright.layout import S, TileLayout, tx

N, THREADS, EPS = 2048, 256, 1e-6
HELD, KIND = TileLayout(S[(THREADS, 8) : (1 @ tx, 1)]), "bfloat16"


@T.prim_func
def rms_norm(x: T.handle, W: T.Buffer((N,), KIND), y: T.handle):
    rows = T.int32()
    X, Y = T.match_buffer(x, (rows, N), KIND), T.match_buffer(y, (rows, N), KIND)
    row, _ = T.cta_id([rows]), T.thread_id([THREADS])
    t = T.alloc_buffer((N,), scope="local", layout=HELD)
    t[:] = X[row]
    Y[row] = t * T.rsqrt(T.sum(t * t) / N + EPS) * W


@T.prim_func
def backward(x: T.handle, W: T.Buffer((N,), KIND), dy: T.handle, dx: T.handle, DW: T.Buffer((N,))):
    rows = T.int32()
    X, DY = T.match_buffer(x, (rows, N), KIND), T.match_buffer(dy, (rows, N), KIND)
    DX = T.match_buffer(dx, (rows, N), KIND)
    T.cta_id([1])  # one CTA keeps the sums over rows; layer_norm_backward.py shares them out
    T.thread_id([THREADS])
    t, d, dw = [T.alloc_buffer((N,), scope="local", layout=HELD) for _ in range(3)]
    dw[:] = 0
    for row in range(rows):
        t[:] = X[row]
        r = T.rsqrt(T.sum(t * t) / N + EPS)
        t[:] *= r
        d[:] = DY[row]
        dw[:] += d * t
        d[:] *= W
        DX[row] = (d - t * (T.sum(d * t) / N)) * r
    DW[:] = dw


def main(run=tw.simulate) -> None:
    x, dy = np.random.default_rng(0).standard_normal((2, 5, N)).astype(bfloat16)
    w, y, dx, dw = np.full(N, 0.5, bfloat16), np.zeros_like(x), np.zeros_like(x), np.zeros(N, np.float32)
    run(rms_norm, x, w, y)
    run(backward, x, w, dy, dx, dw)
    x, d = x.astype(np.float64), dy.astype(np.float64)
    r = 1 / np.sqrt((x * x).mean(1, keepdims=True) + EPS)
    h, g = x * r, d * 0.5
    for got, wanted in ((y, h * 0.5), (dx, (g - h * (g * h).mean(1, keepdims=True)) * r)):
        assert np.allclose(got.astype(np.float64), wanted, rtol=8e-3, atol=1e-4)
    assert np.allclose(dw, (d * h).sum(0), atol=1e-4)
    print(tw.compile(rms_norm).report)


if __name__ == "__main__":
    main()
