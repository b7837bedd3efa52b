"""y = (A * SFA) @ (x * SFX), an nvfp4 matrix by an nvfp4 vector: a product whose B has one column that counts.

The least N of a product is 8, so the vector stands in the first of eight rows; the others are zero. Nearly all of the
time goes into bringing A, 4.5 bits an element, which is what the ring of stages is for: the kernel is that of
blackwell_scaled.py.
"""

from __future__ import annotations

import numpy as np

import tilewright as tw
from examples.blackwell.parts import scaled_inputs
from examples.blackwell_scaled import FORMATS, scaled

M, K, LEAST = 256, 1024, 8


def main() -> None:
    made = FORMATS["nvfp4"]
    (a, x, sfa, sfx), every = scaled_inputs(made, (M, 1), K)
    rows = np.zeros((LEAST, x.shape[1]), np.uint8)
    rows[0] = x[0]
    y = np.zeros((M, LEAST), np.float32)
    exe = tw.compile(scaled(made, M, LEAST, K), target="sm_100a")
    run = exe.simulate(a, rows, sfa, sfx, np.zeros(M // 128, np.int32), y, check="all")
    assert np.array_equal(y[:, 0], every[:, 0])
    assert not y[:, 1:].any()
    print(f"{M} x {K} by a vector, exact; {len(run.warnings)} warnings")


if __name__ == "__main__":
    main()
