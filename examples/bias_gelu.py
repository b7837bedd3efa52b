"""GELU of rows to which a bias is added, in one pass: the end of a linear layer."""

import math

import numpy as np

import tilewright as tw
from tilewright import T, Tx

PART = 2048


@T.prim_func
def bias_gelu(x: T.handle, bias: T.handle, y: T.handle):
    rows, columns = T.int32(), T.int32()
    X = T.match_buffer(x, (rows, columns), "float16")
    B = T.match_buffer(bias, (columns,), "float16")
    Y = T.match_buffer(y, (rows, columns), "float16")
    row, part = T.cta_id([rows, T.ceildiv(columns, PART)])
    T.thread_id([256])
    T.assume(columns % 8 == 0)  # rows begin at multiples of 16 bytes
    begin, end = T.meta_var(part * PART), T.meta_var(part * PART + PART)
    with Tx.cta:
        Y[row, begin:end] = T.gelu(X[row, begin:end] + B[begin:end])


def main(run=tw.simulate) -> None:
    random = np.random.default_rng(0)
    x, bias = random.standard_normal((5, 2600)).astype(np.float16), random.standard_normal(2600).astype(np.float16)
    y = np.zeros_like(x)
    run(bias_gelu, x, bias, y)
    z = x.astype(np.float64) + bias
    wanted = z * 0.5 * (1 + np.vectorize(math.erf)(z / math.sqrt(2)))
    assert np.allclose(y.astype(np.float64), wanted, rtol=1e-3, atol=1e-5)
    print(tw.compile(bias_gelu).report)


if __name__ == "__main__":
    main()
