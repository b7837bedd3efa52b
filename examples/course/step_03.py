"""Step 3: the copy engine brings the operands. One thread asks for boxes of A and B; an m-barrier counts their bytes.

The engine writes by the async proxy, as the tensor cores read, so that no fence stands between them. The thread that
asks announces how many bytes will come, in the same arrival.
"""

import numpy as np

from examples.blackwell.parts import begin, end, store_rows
from tilewright import T, Tx
from tilewright.layout import S, TCol, TLane, mma_shared_layout

M, N, K, STEP = 128, 64, 256, 64
TURNS = K // STEP


@T.prim_func
def kernel(A: T.Buffer((M, K), "bfloat16"), B: T.Buffer((N, K), "bfloat16"), C: T.Buffer((M, N), "float32")):
    T.cta_id([1])
    warp_id, tid = T.warp_id([4]), T.thread_id([128])
    a = T.alloc_shared((M, STEP), "bfloat16", align=1024, layout=mma_shared_layout("bfloat16", 3, (M, STEP)))
    b = T.alloc_shared((N, STEP), "bfloat16", align=1024, layout=mma_shared_layout("bfloat16", 3, (N, STEP)))
    addr, done, full = T.alloc_shared([1], "uint32"), T.alloc_shared([1], "uint64"), T.alloc_shared([1], "uint64")
    begin(addr, N, warp_id, tid, done, full)
    acc = T.decl_buffer((M, N), "float32", scope="tmem", allocated_addr=addr[0],
                        layout=S[(M, N) : (1 @ TLane, 1 @ TCol)])  # fmt: skip
    if warp_id == 0 and T.ptx.elect_sync():
        for k in T.serial(TURNS):
            T.ptx.mbarrier.arrive.expect_tx(full.ptr_to([0]), 2 * STEP * (M + N))  # exercise
            Tx.copy_async(a[:, :], A[:, k * STEP : k * STEP + STEP], mbar=full.ptr_to([0]))
            Tx.copy_async(b[:, :], B[:, k * STEP : k * STEP + STEP], mbar=full.ptr_to([0]))
            T.ptx.mbarrier.try_wait(full.ptr_to([0]), k % 2)
            Tx.gemm_async(acc[:, :], a[:, :], b[:, :], k != 0)
            T.ptx.tcgen05.commit(done.ptr_to([0]), cta_group=1)
            T.ptx.mbarrier.try_wait(done.ptr_to([0]), k % 2)
    T.cuda.cta_sync()
    store_rows(C, 0, acc, done.ptr_to([0]), (TURNS - 1) % 2)
    end(addr, N, warp_id)


def arguments() -> list[np.ndarray]:
    rng = np.random.default_rng(3)
    return [rng.integers(-2, 3, shape).astype("bfloat16") for shape in ((M, K), (N, K))]
