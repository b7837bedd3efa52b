"""Rows to int8 and to float8 with a scale for each row: the largest magnitude becomes the largest number there is."""

import numpy as np
from ml_dtypes import float8_e4m3fn

import tilewright as tw
from tilewright import T, Tx
from tilewright.layout import S, TileLayout, tx

N, THREADS = 2048, 128
HELD = TileLayout(S[(THREADS, 16) : (1 @ tx, 1)])  # 16 bytes of int8 for each thread


def make(kind: str, largest: float):
    @T.prim_func
    def quantize(x: T.handle, q: T.handle, scale: T.handle):
        rows = T.int32()
        X, Q = T.match_buffer(x, (rows, N), "float16"), T.match_buffer(q, (rows, N), kind)
        SCALE = T.match_buffer(scale, (rows,))
        row = T.cta_id([rows])
        T.thread_id([THREADS])
        t = T.alloc_buffer((N,), scope="local", layout=HELD)
        t[:] = X[row]
        s = T.max(T.max(abs(t)) / largest, 1e-12)
        Q[row] = T.cast(T.rint(t / s), "int8") if kind == "int8" else t / s
        with Tx.cta:
            SCALE[row] = s

    return quantize


to_int8, to_float8 = make("int8", 127), make("float8_e4m3fn", 448)


def main(run=tw.simulate) -> None:
    x = np.random.default_rng(0).standard_normal((5, N)).astype(np.float16)
    scale = np.zeros(5, np.float32)
    for kernel, kind, largest, error in ((to_int8, np.int8, 127, 0.5), (to_float8, float8_e4m3fn, 448, 16)):
        q = np.zeros((5, N), kind)
        run(kernel, x, q, scale)
        assert np.allclose(scale, abs(x.astype(np.float32)).max(1) / largest)
        assert (abs(q.astype(np.float32) - x / scale[:, None]) <= error * 1.001).all()
    print(tw.compile(to_int8).report)


if __name__ == "__main__":
    main()
