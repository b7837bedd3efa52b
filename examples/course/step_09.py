"""Step 9: a ring for two. A commit with a mask hands the stage back to both CTAs of the pair.

The thread that multiplies is the leader's, but the stage that it has read is in both CTAs: without the mask the other
CTA's copying warp would wait for ever, and without the commit both.
"""

import numpy as np

from tilewright import T, Tx
from tilewright.layout import S, TCol, TileLayout, TLane, mma_shared_layout, tid_in_wg

M, N, K = 256, 128, 256
ROWS, COLUMNS, STEP, STAGES = 256, 128, 64, 2  # of a pair's tile
TURNS, TILES, PAIRS = K // STEP, (M // ROWS) * (N // COLUMNS), 1
HALF, NBYTES = COLUMNS // 2, 2 * STEP * (128 + COLUMNS // 2)  # NBYTES: what a CTA brings for each stage
IN_LANES = TileLayout(S[(128, COLUMNS) : (1 @ TLane, 1 @ TCol)])


def accumulator(address):
    """128 rows of D in tensor memory."""
    return T.decl_buffer((128, COLUMNS), "float32", scope="tmem", allocated_addr=address, layout=IN_LANES)


@T.inline
def bring(A, B, a, b, full, empty, pair, rank):
    """Each CTA brings its halves, and tells the leader."""
    for n in T.serial(TILES // PAIRS):
        tile = pair + n * PAIRS
        row, column = tile % (M // ROWS) * ROWS + rank * 128, tile // (M // ROWS) * COLUMNS + rank * HALF
        for k in T.serial(TURNS):
            turn = n * TURNS + k
            stage = turn % STAGES
            T.ptx.mbarrier.try_wait(empty.ptr_to([stage]), 1 - turn // STAGES % 2)
            if rank == 0:
                T.ptx.mbarrier.arrive.expect_tx(full.ptr_to([stage]), 2 * NBYTES)
            told = T.ptx.mapa(full.ptr_to([stage]), 0)
            Tx.copy_async(a[stage, :, :], A[row : row + 128, k * STEP : k * STEP + STEP], mbar=told, cta_group=2)
            Tx.copy_async(b[stage, :, :], B[column : column + HALF, k * STEP : k * STEP + STEP], mbar=told, cta_group=2)


@T.inline
def multiply(a, b, full, empty, done, free, addr):
    """The leader multiplies for both, into one accumulator and the other in turn."""
    for n in T.serial(TILES // PAIRS):
        acc = accumulator(addr[0] + n % 2 * COLUMNS)
        T.ptx.mbarrier.try_wait(free.ptr_to([n % 2]), 1 - n // 2 % 2)
        T.ptx.tcgen05.fence.after_thread_sync()
        for k in T.serial(TURNS):
            turn = n * TURNS + k
            stage = turn % STAGES
            T.ptx.mbarrier.try_wait(full.ptr_to([stage]), turn // STAGES % 2)
            Tx.gemm_async(acc[:, :], a[stage, :, :], b[stage, :, :], k != 0, cta_group=2)
            T.ptx.tcgen05.commit(empty.ptr_to([stage]), cta_group=2, cta_mask=3)  # exercise
        T.ptx.tcgen05.commit(done.ptr_to([n % 2]), cta_group=2, cta_mask=3)


@T.inline
def store(C, done, free, addr, pair, rank, tid):
    """Four warps of each CTA store its rows; an accumulator that is in registers is free again."""
    mine = T.alloc_buffer((128, COLUMNS), "float32", scope="local", layout=S[(128, COLUMNS) : (1 @ tid_in_wg, 1)])
    for n in T.serial(TILES // PAIRS):
        tile = pair + n * PAIRS
        row, column = tile % (M // ROWS) * ROWS + rank * 128, tile // (M // ROWS) * COLUMNS
        acc = accumulator(addr[0] + n % 2 * COLUMNS)
        T.ptx.mbarrier.try_wait(done.ptr_to([n % 2]), n // 2 % 2)
        T.ptx.tcgen05.fence.after_thread_sync()
        Tx.wg.copy_async(mine[:, :], acc[:, :])
        T.ptx.tcgen05.wait.ld()
        T.ptx.tcgen05.fence.before_thread_sync()
        T.ptx.bar.sync(1, 128)
        if tid == 0:
            T.ptx.mbarrier.arrive(free.ptr_to([n % 2]), 0)
        Tx.wg.copy(C[row : row + 128, column : column + COLUMNS], mine[:, :])


@T.prim_func
def kernel(A: T.Buffer((M, K), "bfloat16"), B: T.Buffer((N, K), "bfloat16"), C: T.Buffer((M, N), "float32")):
    T.device_entry()
    cta, rank = T.cta_id([2 * PAIRS]), T.cta_id_in_cluster([2])
    warp_id, tid = T.warp_id([8]), T.thread_id([256])
    a = T.alloc_shared((STAGES, 128, STEP), "bfloat16", layout=mma_shared_layout("bfloat16", 3, (STAGES, 128, STEP)))
    b = T.alloc_shared((STAGES, HALF, STEP), "bfloat16", layout=mma_shared_layout("bfloat16", 3, (STAGES, HALF, STEP)))
    addr = T.alloc_shared([1], "uint32")
    full, empty, done, free = [T.alloc_shared([2], "uint64") for _ in range(4)]
    if warp_id == 0:
        T.ptx.tcgen05.alloc(T.address_of(addr), n_cols=2 * COLUMNS, cta_group=2)
    if tid < 2:
        for bar, count in ((full, 1), (empty, 1), (done, 1), (free, 2)):
            T.ptx.mbarrier.init(bar.ptr_to([tid]), count)
    T.ptx.fence.mbarrier_init()
    T.ptx.tcgen05.fence.before_thread_sync()
    T.cuda.cluster_sync()
    T.ptx.tcgen05.fence.after_thread_sync()
    if warp_id < 4:
        store(C, done, free, addr, cta // 2, rank, tid)
    elif warp_id == 4 and T.ptx.elect_sync():
        bring(A, B, a, b, full, empty, cta // 2, rank)
    elif warp_id == 5 and rank == 0 and T.ptx.elect_sync():
        multiply(a, b, full, empty, done, free, addr)
    T.ptx.tcgen05.fence.before_thread_sync()
    T.cuda.cluster_sync()
    T.ptx.tcgen05.fence.after_thread_sync()
    if warp_id == 0:
        T.ptx.tcgen05.dealloc(addr[0], n_cols=2 * COLUMNS, cta_group=2)


def arguments() -> list[np.ndarray]:
    rng = np.random.default_rng(9)
    return [rng.integers(-2, 3, shape).astype("bfloat16") for shape in ((M, K), (N, K))]
