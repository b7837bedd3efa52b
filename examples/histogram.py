"""How often each byte occurs: every CTA counts in shared memory, and adds its counts to the result once."""

import numpy as np

import tilewright as tw
from tilewright import T, Tx

BINS, PART, THREADS = 256, 2048, 256


@T.prim_func
def histogram(x: T.handle, COUNT: T.Buffer((BINS,), "int32")):
    n = T.int32()
    X = T.match_buffer(x, (n,), "uint8")
    part = T.cta_id([T.ceildiv(n, PART)])
    thread = T.thread_id([THREADS])
    bins = T.alloc_shared((BINS,), "int32")
    with Tx.cta:
        bins[:] = 0
    T.cuda.cta_sync()
    for k in range(PART // THREADS):
        i = part * PART + k * THREADS + thread
        if i < n:
            T.cuda.atomic_add(bins.ptr_to([T.int32(X[i])]), 1)
    T.cuda.cta_sync()
    T.cuda.atomic_add(COUNT.ptr_to([thread]), bins[thread])


def main(run=tw.simulate) -> None:
    x = np.random.default_rng(0).integers(0, 256, 5_000).astype(np.uint8)
    count = np.zeros(BINS, np.int32)
    run(histogram, x, count)
    assert np.array_equal(count, np.bincount(x, minlength=BINS))
    print(tw.compile(histogram).report)


if __name__ == "__main__":
    main()
