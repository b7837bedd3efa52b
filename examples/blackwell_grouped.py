"""A grouped nvfp4 product: the rows of A belong to groups of different sizes, and each group has a B of its own.

So the experts of a model multiply the tokens that were sent to them: A has the tokens group after group, each group
padded to whole tiles of 128 rows, and a table says which group a tile is of. The kernel is that of blackwell_scaled.py.
"""

from __future__ import annotations

import numpy as np

import tilewright as tw
from examples.blackwell.parts import scaled_inputs
from examples.blackwell_scaled import FORMATS, scaled

TOKENS, N, K = (100, 200, 40), 64, 256


def main() -> None:
    made, groups = FORMATS["nvfp4"], len(TOKENS)
    tiles = [-(-count // 128) for count in TOKENS]
    owner = np.repeat(np.arange(groups, dtype=np.int32), tiles)
    m = 128 * len(owner)
    (a, b, sfa, sfb), every = scaled_inputs(made, (m, groups * 128), K)
    b, c = b.reshape(groups, 128, -1)[:, :N].reshape(groups * N, -1), np.zeros((m, N), np.float32)
    exe = tw.compile(scaled(made, m, N, K, groups), target="sm_100a")
    run = exe.simulate(a, np.ascontiguousarray(b), sfa, sfb, owner, c, check="all")
    first = 0
    for group, (count, tile) in enumerate(zip(TOKENS, tiles, strict=True)):
        here = slice(first, first + count)
        assert np.array_equal(c[here], every[here, 128 * group : 128 * group + N])
        first += 128 * tile
    print(f"{groups} groups of {TOKENS} rows, {N} x {K} each, exact; {len(run.warnings)} warnings")


if __name__ == "__main__":
    main()
