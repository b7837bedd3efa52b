"""max(a * x + y, 0) of arrays of any length: one pass, 128 bits at a time, the tail left alone where it ends.

tilewright explain examples/elementwise.py:scaled_sum
"""

import numpy as np

import tilewright as tw
from tilewright import T, Tx

PART = 4096


@T.prim_func
def scaled_sum(x: T.handle, y: T.handle, out: T.handle, a: T.float32):
    n = T.int32()
    X = T.match_buffer(x, (n,), "float16")
    Y = T.match_buffer(y, (n,), "float16")
    OUT = T.match_buffer(out, (n,), "float16")
    begin = T.cta_id([T.ceildiv(n, PART)]) * PART
    T.thread_id([256])
    end = T.meta_var(begin + PART)  # may be behind the last element
    with Tx.cta:
        OUT[begin:end] = T.max(a * X[begin:end] + Y[begin:end], 0)


def main(run=tw.simulate) -> None:
    random = np.random.default_rng(0)
    x, y = (random.standard_normal(10_001).astype(np.float16) for _ in range(2))
    out = np.zeros_like(x)
    run(scaled_sum, x, y, out, 0.5)
    wanted = np.maximum(np.float32(0.5) * x.astype(np.float32) + y, 0)
    assert np.array_equal(out, wanted.astype(np.float16))
    print(tw.compile(scaled_sum).report)


if __name__ == "__main__":
    main()
