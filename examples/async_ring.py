"""A column sum over tiles that arrive by cp.async in a ring of two: one is summed while the next one is on its way.

The tiles are ragged: rows beyond the end of the array come as zeros.

    tilewright run examples/async_ring.py
    tilewright explain examples/async_ring.py
"""

import numpy as np

import tilewright as tw
from tilewright import T, Tx

ROWS, COLUMNS, STAGES = 16, 128, 2


@T.prim_func
def async_ring(a: T.handle, b: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n, COLUMNS), "float32")
    B = T.match_buffer(b, (COLUMNS,), "float32")
    T.cta_id([1])
    column = T.thread_id([COLUMNS])
    ring = T.alloc_shared((STAGES, ROWS, COLUMNS), "float32")
    total: T.float32 = 0
    Tx.cta.copy_async(ring[0], A[0:ROWS, :], fill=0)
    T.ptx.cp_async.commit_group()
    for i in range(T.ceildiv(n, ROWS)):
        Tx.cta.copy_async(ring[(i + 1) % STAGES], A[(i + 1) * ROWS : (i + 2) * ROWS, :], fill=0)
        T.ptx.cp_async.commit_group()
        T.ptx.cp_async.wait_group(1)  # all but the newest: tile i
        T.cuda.cta_sync()
        for row in range(ROWS):
            total += ring[i % STAGES, row, column]
        T.cuda.cta_sync()  # before the next copy into this stage
    T.ptx.cp_async.wait_group(0)
    B[column] = total


def main() -> None:
    a = np.random.default_rng(0).integers(0, 9, (75, COLUMNS)).astype(np.float32)
    b = np.zeros(COLUMNS, np.float32)
    tw.simulate(async_ring, a, b, check="all")
    assert np.array_equal(b, a.sum(axis=0))
    print(tw.compile(async_ring).report)


if __name__ == "__main__":
    main()
