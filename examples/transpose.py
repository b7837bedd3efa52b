"""Transpose a matrix of float16, tile by tile, with ldmatrix.trans and stmatrix.

A CTA of four warps stages a 64 x 64 tile in shared memory, reads it with columns for rows (`ldmatrix` does the exchange
between lanes), and writes it back out row by row. `tilewright.demo.kernel` has the kernel: with ``swizzled=False``
every matrix row starts in the same banks, and the counts show it.

    tilewright run examples/transpose.py
    tilewright run examples/transpose.py:plain
"""

import numpy as np

import tilewright as tw
from tilewright.demo.kernel import make

transpose = make(256, swizzled=True)
plain = make(256, swizzled=False)


def main() -> None:
    a = np.random.default_rng(0).standard_normal((256, 256)).astype(np.float16)
    b = np.zeros_like(a)
    run = tw.simulate(transpose, a, b)
    assert np.array_equal(a.T, b)
    print(run.counts)


if __name__ == "__main__":
    main()
