"""Step 7: two accumulators. While the warps load the one, the tensor cores work on the other.

It is step 6 with two of each: tile n has accumulator n % 2, and its m-barriers are waited for in the phase n // 2 % 2.
Tensor memory has 512 columns; two accumulators of 64 take 128 of them.
"""

import numpy as np

from examples.blackwell.parts import begin, end
from tilewright import T, Tx
from tilewright.layout import S, TCol, TileLayout, TLane, mma_shared_layout, tid_in_wg

M, N, K, ROWS, COLUMNS, STEP, STAGES, CTAS = 256, 192, 128, 128, 64, 64, 2, 2
TURNS, TILES = K // STEP, (M // ROWS) * (N // COLUMNS)
IN_LANES = TileLayout(S[(ROWS, COLUMNS) : (1 @ TLane, 1 @ TCol)])


def accumulator(address):
    return T.decl_buffer((ROWS, COLUMNS), "float32", scope="tmem", allocated_addr=address, layout=IN_LANES)


@T.prim_func
def kernel(A: T.Buffer((M, K), "bfloat16"), B: T.Buffer((N, K), "bfloat16"), C: T.Buffer((M, N), "float32")):
    cta = T.cta_id([CTAS])
    warp_id, tid = T.warp_id([8]), T.thread_id([256])
    a = T.alloc_shared((STAGES, ROWS, STEP), "bfloat16", layout=mma_shared_layout("bfloat16", 3, (STAGES, ROWS, STEP)))
    b = T.alloc_shared((STAGES, COLUMNS, STEP), "bfloat16",
                       layout=mma_shared_layout("bfloat16", 3, (STAGES, COLUMNS, STEP)))  # fmt: skip
    addr = T.alloc_shared([1], "uint32")
    full, empty = T.alloc_shared([STAGES], "uint64"), T.alloc_shared([STAGES], "uint64")
    done, free = T.alloc_shared([2], "uint64"), T.alloc_shared([2], "uint64")
    begin(addr, 2 * COLUMNS, warp_id, tid, done, full, empty, (free, 128))
    if warp_id < 4:
        mine = T.alloc_local((ROWS, COLUMNS), "float32", layout=S[(ROWS, COLUMNS) : (1 @ tid_in_wg, 1)])
        for n in T.serial(TILES // CTAS):
            tile = cta + n * CTAS
            row, column = tile % (M // ROWS) * ROWS, tile // (M // ROWS) * COLUMNS
            acc = accumulator(addr[0] + n % 2 * COLUMNS)
            T.ptx.mbarrier.try_wait(done.ptr_to([n % 2]), n // 2 % 2)
            T.ptx.tcgen05.fence.after_thread_sync()
            Tx.wg.copy_async(mine[:, :], acc[:, :])
            T.ptx.tcgen05.wait.ld()
            T.ptx.tcgen05.fence.before_thread_sync()
            T.ptx.mbarrier.arrive(free.ptr_to([n % 2]))  # exercise
            Tx.wg.copy(C[row : row + ROWS, column : column + COLUMNS], mine[:, :])
    elif warp_id == 4 and T.ptx.elect_sync():
        for n in T.serial(TILES // CTAS):
            tile = cta + n * CTAS
            row, column = tile % (M // ROWS) * ROWS, tile // (M // ROWS) * COLUMNS
            for k in T.serial(TURNS):
                turn = n * TURNS + k
                stage, bar = turn % STAGES, full.ptr_to([turn % STAGES])
                T.ptx.mbarrier.try_wait(empty.ptr_to([stage]), 1 - turn // STAGES % 2)
                T.ptx.mbarrier.arrive.expect_tx(bar, 2 * STEP * (ROWS + COLUMNS))
                Tx.copy_async(a[stage, :, :], A[row : row + ROWS, k * STEP : k * STEP + STEP], mbar=bar)
                Tx.copy_async(b[stage, :, :], B[column : column + COLUMNS, k * STEP : k * STEP + STEP], mbar=bar)
    elif warp_id == 5 and T.ptx.elect_sync():
        for n in T.serial(TILES // CTAS):
            acc = accumulator(addr[0] + n % 2 * COLUMNS)
            T.ptx.mbarrier.try_wait(free.ptr_to([n % 2]), 1 - n // 2 % 2)
            T.ptx.tcgen05.fence.after_thread_sync()
            for k in T.serial(TURNS):
                turn = n * TURNS + k
                T.ptx.mbarrier.try_wait(full.ptr_to([turn % STAGES]), turn // STAGES % 2)
                Tx.gemm_async(acc[:, :], a[turn % STAGES, :, :], b[turn % STAGES, :, :], k != 0)
                T.ptx.tcgen05.commit(empty.ptr_to([turn % STAGES]), cta_group=1)
            T.ptx.tcgen05.commit(done.ptr_to([n % 2]), cta_group=1)
    end(addr, 2 * COLUMNS, warp_id)


def arguments() -> list[np.ndarray]:
    rng = np.random.default_rng(7)
    return [rng.integers(-2, 3, shape).astype("bfloat16") for shape in ((M, K), (N, K))]
