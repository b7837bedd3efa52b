"""A ring of two stages: one thread has rows copied into shared memory, another warp adds them up.

Two m-barriers stand for each stage: ``full`` tells that its bytes have come, ``empty`` that they have been read.
"""

import numpy as np

import tilewright as tw
from tilewright import T

STAGES, ROWS, WIDTH = 2, 5, 128
BYTES = 4 * WIDTH


@T.prim_func
def ring(a: T.handle, b: T.handle):
    A, B = T.match_buffer(a, (ROWS, WIDTH), "float32"), T.match_buffer(b, (WIDTH,), "float32")
    warp, lane = T.warp_id([2]), T.lane_id([32])
    stages = T.alloc_buffer((STAGES, WIDTH), "float32", scope="shared", align=128)
    full = T.alloc_buffer((STAGES,), "uint64", scope="shared")
    empty = T.alloc_buffer((STAGES,), "uint64", scope="shared")
    if warp == 0 and lane == 0:
        for n in T.unroll(STAGES):
            T.ptx.mbarrier.init(full.ptr_to([n]), 1)
            T.ptx.mbarrier.init(empty.ptr_to([n]), 32)
        T.ptx.fence.mbarrier_init()
    T.cuda.cta_sync()
    if warp == 0:
        if lane == 0:
            for i in range(ROWS):
                stage, turn = i % STAGES, i // STAGES
                T.ptx.mbarrier.try_wait(empty.ptr_to([stage]), 1 - turn % 2)
                T.trace("free")
                T.ptx.mbarrier.arrive.expect_tx(full.ptr_to([stage]), BYTES)
                T.ptx.cp_async.bulk.g2s_cta(stages.ptr_to([stage, 0]), A.ptr_to([i, 0]), BYTES, full.ptr_to([stage]))
    else:
        total = T.alloc_local((WIDTH // 32,), "float32")
        for j in T.unroll(WIDTH // 32):
            total[j] = T.float32(0)
        for i in range(ROWS):
            stage, turn = i % STAGES, i // STAGES
            T.ptx.mbarrier.try_wait(full.ptr_to([stage]), turn % 2)
            T.trace("arrived")
            for j in T.unroll(WIDTH // 32):
                total[j] = total[j] + stages[stage, j * 32 + lane]
            T.ptx.fence.proxy_async()
            T.ptx.mbarrier.arrive(empty.ptr_to([stage]))
        for j in T.unroll(WIDTH // 32):
            B[j * 32 + lane] = total[j]


def main(run=tw.simulate) -> None:
    a, b = np.arange(ROWS * WIDTH, dtype=np.float32).reshape(ROWS, WIDTH), np.zeros(WIDTH, np.float32)
    run(ring, a, b)
    assert np.array_equal(b, a.sum(0))
    print(f"the sum of {ROWS} rows, brought by a ring of {STAGES} stages, is right")


if __name__ == "__main__":
    main()
