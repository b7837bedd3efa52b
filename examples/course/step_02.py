"""Step 2: many steps along K. The accumulator stays where it is, and the next product adds to it.

Shared memory is filled again at every step, so the product that reads it must be over by then: a commit tells an
m-barrier, and everybody waits for its phase. Phase 0 is over after the first product, phase 1 after the second.
"""

import numpy as np

from examples.blackwell.parts import begin, end, meet, store_rows
from tilewright import T, Tx
from tilewright.layout import S, TCol, TLane, mma_shared_layout

M, N, K, STEP = 128, 64, 256, 64
TURNS = K // STEP


@T.prim_func
def kernel(A: T.Buffer((M, K), "bfloat16"), B: T.Buffer((N, K), "bfloat16"), C: T.Buffer((M, N), "float32")):
    T.cta_id([1])
    warp_id, tid = T.warp_id([4]), T.thread_id([128])
    a = T.alloc_shared((M, STEP), "bfloat16", layout=mma_shared_layout("bfloat16", 3, (M, STEP)))
    b = T.alloc_shared((N, STEP), "bfloat16", layout=mma_shared_layout("bfloat16", 3, (N, STEP)))
    addr, done = T.alloc_shared([1], "uint32"), T.alloc_shared([1], "uint64")
    begin(addr, N, warp_id, tid, done)
    acc = T.decl_buffer((M, N), "float32", scope="tmem", allocated_addr=addr[0],
                        layout=S[(M, N) : (1 @ TLane, 1 @ TCol)])  # fmt: skip
    for k in T.serial(TURNS):
        Tx.cta.copy(a, A[:, k * STEP : k * STEP + STEP])
        Tx.cta.copy(b, B[:, k * STEP : k * STEP + STEP])
        T.ptx.fence.proxy_async("shared::cta")
        T.cuda.cta_sync()
        if warp_id == 0 and T.ptx.elect_sync():
            Tx.gemm_async(acc[:, :], a[:, :], b[:, :], k != 0)
            T.ptx.tcgen05.commit(done.ptr_to([0]), cta_group=1)
        T.ptx.mbarrier.try_wait(done.ptr_to([0]), k % 2)  # exercise
    meet()
    store_rows(C, 0, acc, done.ptr_to([0]), (TURNS - 1) % 2)
    end(addr, N, warp_id)


def arguments() -> list[np.ndarray]:
    rng = np.random.default_rng(2)
    return [rng.integers(-2, 3, shape).astype("bfloat16") for shape in ((M, K), (N, K))]
