"""One step of heat on a grid: each point goes towards the mean of its neighbours. Outside of the grid it is cold."""

import numpy as np

import tilewright as tw
from tilewright import T, Tx

H, W = 16, 64  # a tile of the grid for each CTA


@T.prim_func
def heat(a: T.handle, b: T.handle, rate: T.float32):
    m, n = T.int32(), T.int32()
    A, B = T.match_buffer(a, (m, n)), T.match_buffer(b, (m, n))
    y, x = T.cta_id([T.ceildiv(m, H), T.ceildiv(n, W)])
    T.thread_id([128])
    tile = T.alloc_shared((H + 2, W + 2))
    with Tx.cta:
        Tx.cta.copy(tile, A[y * H - 1 : y * H + H + 1, x * W - 1 : x * W + W + 1], fill=0)
        T.cuda.cta_sync()
        here, above, below = tile[1 : H + 1, 1 : W + 1], tile[0:H, 1 : W + 1], tile[2 : H + 2, 1 : W + 1]
        left, right = tile[1 : H + 1, 0:W], tile[1 : H + 1, 2 : W + 2]
        B[y * H : y * H + H, x * W : x * W + W] = here + rate * (above + below + left + right - 4 * here)


def main(run=tw.simulate) -> None:
    a = np.random.default_rng(0).standard_normal((37, 150)).astype(np.float32)
    b = np.zeros_like(a)
    run(heat, a, b, 0.1)
    p = np.pad(a, 1)
    wanted = a + 0.1 * (p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:] - 4 * a)
    assert np.allclose(b, wanted, atol=1e-5)
    print(tw.compile(heat).report)


if __name__ == "__main__":
    main()
