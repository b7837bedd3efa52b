"""Step 4: a ring of stages. While the tensor cores work on one stage, the copy engine fills the other.

Warp 0 copies, warp 1 multiplies, and two m-barriers for each stage pass it to and fro: `full` when its bytes are there,
`empty` when the product that read it is over. A stage is empty at first: the wait for the phase before the first one
is over at once.
"""

import numpy as np

from examples.blackwell.parts import begin, end, store_rows
from tilewright import T, Tx
from tilewright.layout import S, TCol, TLane, mma_shared_layout

M, N, K, STEP, STAGES = 128, 64, 320, 64, 2
TURNS = K // STEP


@T.prim_func
def kernel(A: T.Buffer((M, K), "bfloat16"), B: T.Buffer((N, K), "bfloat16"), C: T.Buffer((M, N), "float32")):
    T.cta_id([1])
    warp_id, tid = T.warp_id([4]), T.thread_id([128])
    a = T.alloc_shared((STAGES, M, STEP), "bfloat16", align=1024,
                       layout=mma_shared_layout("bfloat16", 3, (STAGES, M, STEP)))  # fmt: skip
    b = T.alloc_shared((STAGES, N, STEP), "bfloat16", align=1024,
                       layout=mma_shared_layout("bfloat16", 3, (STAGES, N, STEP)))  # fmt: skip
    addr, done = T.alloc_shared([1], "uint32"), T.alloc_shared([1], "uint64")
    full, empty = T.alloc_shared([STAGES], "uint64"), T.alloc_shared([STAGES], "uint64")
    begin(addr, N, warp_id, tid, done, full, empty)
    acc = T.decl_buffer((M, N), "float32", scope="tmem", allocated_addr=addr[0],
                        layout=S[(M, N) : (1 @ TLane, 1 @ TCol)])  # fmt: skip
    if warp_id == 0 and T.ptx.elect_sync():
        for k in T.serial(TURNS):
            stage, bar = k % STAGES, full.ptr_to([k % STAGES])
            T.ptx.mbarrier.try_wait(empty.ptr_to([stage]), 1 - k // STAGES % 2)
            T.ptx.mbarrier.arrive.expect_tx(bar, 2 * STEP * (M + N))
            Tx.copy_async(a[stage, :, :], A[:, k * STEP : k * STEP + STEP], mbar=bar)
            Tx.copy_async(b[stage, :, :], B[:, k * STEP : k * STEP + STEP], mbar=bar)
    elif warp_id == 1 and T.ptx.elect_sync():
        for k in T.serial(TURNS):
            T.ptx.mbarrier.try_wait(full.ptr_to([k % STAGES]), k // STAGES % 2)
            Tx.gemm_async(acc[:, :], a[k % STAGES, :, :], b[k % STAGES, :, :], k != 0)
            T.ptx.tcgen05.commit(empty.ptr_to([k % STAGES]), cta_group=1)  # exercise
        T.ptx.tcgen05.commit(done.ptr_to([0]), cta_group=1)
    store_rows(C, 0, acc, done.ptr_to([0]), 0)
    end(addr, N, warp_id)


def arguments() -> list[np.ndarray]:
    rng = np.random.default_rng(4)
    return [rng.integers(-2, 3, shape).astype("bfloat16") for shape in ((M, K), (N, K))]
