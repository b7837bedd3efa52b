"""A matrix product by mma.sync with a ring of stages, which cp.async fills while the tensor cores work.

At each step a stage is waited for, the one that was read last is filled anew, and the product goes on. One barrier does
for both: behind it the stage has arrived for all threads, and all have read the last one.
"""

import numpy as np

import tilewright as tw
from tilewright import T, Tx
from tilewright.layout import mma_fragment_layout, mma_shared_layout

TILE, DEPTH, STAGES, THREADS, RUN = 64, 32, 3, 128, 8  # RUN: elements of 16 bytes
SUMS = mma_fragment_layout("D", (TILE, TILE), "float32", warps=(2, 2))
RING = mma_shared_layout("float16", 2, (STAGES, TILE, DEPTH))


@T.prim_func
def matmul(a: T.handle, b: T.handle, d: T.handle):
    m, n, k = T.int32(), T.int32(), T.int32()
    A, B = T.match_buffer(a, (m, k), "float16"), T.match_buffer(b, (n, k), "float16")  # both with K contiguous
    D = T.match_buffer(d, (m, n), "float16")
    for extent, tile in ((m, TILE), (n, TILE), (k, DEPTH)):
        T.assume(extent % tile == 0)
    by, bx = T.cta_id([m // TILE, n // TILE])
    thread = T.thread_id([THREADS])
    ring = [T.alloc_buffer((STAGES, TILE, DEPTH), "float16", scope="shared", layout=RING) for _ in "AB"]
    sums = T.alloc_buffer((TILE, TILE), "float32", scope="local", layout=SUMS)

    @T.inline
    def load(step):
        if step * DEPTH < k:
            for i in T.unroll(TILE * DEPTH // RUN // THREADS):
                row, column = (i * THREADS + thread) // (DEPTH // RUN), (i * THREADS + thread) % (DEPTH // RUN) * RUN
                for tile, X, at in ((ring[0], A, by), (ring[1], B, bx)):
                    source = X.ptr_to([at * TILE + row, step * DEPTH + column])
                    T.ptx.cp_async(tile.ptr_to([step % STAGES, row, column]), source, 16)
        T.ptx.cp_async.commit_group()

    sums[:] = 0
    for stage in T.unroll(STAGES - 1):
        load(stage)
    for step in range(k // DEPTH):
        T.ptx.cp_async.wait_group(STAGES - 2)
        T.cuda.cta_sync()
        load(step + STAGES - 1)
        Tx.cta.gemm(sums, ring[0][step % STAGES], ring[1][step % STAGES], sums, transpose_B=True, beta=1.0)
    D[by * TILE : by * TILE + TILE, bx * TILE : bx * TILE + TILE] = sums


def main(run=tw.simulate) -> None:
    a, b = (np.random.default_rng(n).standard_normal((n, 160)).astype(np.float16) for n in (128, 64))
    run(matmul, a, b, d := np.zeros((128, 64), np.float16))
    assert np.allclose(d, a.astype(np.float32) @ b.astype(np.float32).T, rtol=1e-3, atol=1e-3)
    print(tw.compile(matmul).report)


if __name__ == "__main__":
    main()
