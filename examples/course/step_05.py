"""Step 5: a grid. Each CTA has a tile of C of its own, and the warps that store it are not those that copy or multiply.

Warps 0 to 3 are the warpgroup that loads the accumulator, a row for each thread; warp 4 copies, warp 5 multiplies. The
wait for the last product orders nothing in tensor memory by itself: the fence after it does.
"""

import numpy as np

from examples.blackwell.parts import begin, end
from tilewright import T, Tx
from tilewright.layout import S, TCol, TileLayout, TLane, mma_shared_layout, tid_in_wg

M, N, K, ROWS, COLUMNS, STEP, STAGES = 256, 128, 192, 128, 64, 64, 2
TURNS = K // STEP
IN_LANES = TileLayout(S[(ROWS, COLUMNS) : (1 @ TLane, 1 @ TCol)])


@T.prim_func
def kernel(A: T.Buffer((M, K), "bfloat16"), B: T.Buffer((N, K), "bfloat16"), C: T.Buffer((M, N), "float32")):
    bx, by = T.cta_id([M // ROWS, N // COLUMNS])
    row, column = bx * ROWS, by * COLUMNS
    warp_id, tid = T.warp_id([8]), T.thread_id([256])
    a = T.alloc_shared((STAGES, ROWS, STEP), "bfloat16", layout=mma_shared_layout("bfloat16", 3, (STAGES, ROWS, STEP)))
    b = T.alloc_shared((STAGES, COLUMNS, STEP), "bfloat16",
                       layout=mma_shared_layout("bfloat16", 3, (STAGES, COLUMNS, STEP)))  # fmt: skip
    addr, done = T.alloc_shared([1], "uint32"), T.alloc_shared([1], "uint64")
    full, empty = T.alloc_shared([STAGES], "uint64"), T.alloc_shared([STAGES], "uint64")
    begin(addr, COLUMNS, warp_id, tid, done, full, empty)
    acc = T.decl_buffer((ROWS, COLUMNS), "float32", scope="tmem", allocated_addr=addr[0], layout=IN_LANES)
    if warp_id < 4:
        mine = T.alloc_local((ROWS, COLUMNS), "float32", layout=S[(ROWS, COLUMNS) : (1 @ tid_in_wg, 1)])
        T.ptx.mbarrier.try_wait(done.ptr_to([0]), 0)
        T.ptx.tcgen05.fence.after_thread_sync()  # exercise
        Tx.wg.copy_async(mine[:, :], acc[:, :])
        T.ptx.tcgen05.wait.ld()
        Tx.wg.copy(C[row : row + ROWS, column : column + COLUMNS], mine[:, :])
    elif warp_id == 4 and T.ptx.elect_sync():
        for k in T.serial(TURNS):
            stage, bar = k % STAGES, full.ptr_to([k % STAGES])
            T.ptx.mbarrier.try_wait(empty.ptr_to([stage]), 1 - k // STAGES % 2)
            T.ptx.mbarrier.arrive.expect_tx(bar, 2 * STEP * (ROWS + COLUMNS))
            Tx.copy_async(a[stage, :, :], A[row : row + ROWS, k * STEP : k * STEP + STEP], mbar=bar)
            Tx.copy_async(b[stage, :, :], B[column : column + COLUMNS, k * STEP : k * STEP + STEP], mbar=bar)
    elif warp_id == 5 and T.ptx.elect_sync():
        for k in T.serial(TURNS):
            T.ptx.mbarrier.try_wait(full.ptr_to([k % STAGES]), k // STAGES % 2)
            Tx.gemm_async(acc[:, :], a[k % STAGES, :, :], b[k % STAGES, :, :], k != 0)
            T.ptx.tcgen05.commit(empty.ptr_to([k % STAGES]), cta_group=1)
        T.ptx.tcgen05.commit(done.ptr_to([0]), cta_group=1)
    end(addr, COLUMNS, warp_id)


def arguments() -> list[np.ndarray]:
    rng = np.random.default_rng(5)
    return [rng.integers(-2, 3, shape).astype("bfloat16") for shape in ((M, K), (N, K))]
