"""C = A @ B.T on a Blackwell's tensor cores, with every check on, on a machine that has none.

Warp 0 has tiles of A and B brought to a ring of stages by TMA, warp 1 has them multiplied into tensor memory, and a
commit hands each stage back. In the end four warps load their rows of the accumulator and store them. What each line is
for: docs/tensor_memory.md, "A product".
"""

from __future__ import annotations

import numpy as np

import tilewright as tw
from tilewright import T, Tx
from tilewright.layout import S, TCol, TLane, mma_shared_layout, tid_in_wg

M, N, K = 256, 128, 256
ROWS, COLUMNS, STEP, STAGES = 128, 64, 64, 2
TURNS = K // STEP


@T.prim_func
def blackwell_matmul(A: T.Buffer((M, K), "bfloat16"), B: T.Buffer((N, K), "bfloat16"), C: T.Buffer((M, N), "float32")):
    T.device_entry()
    bx, by = T.cta_id([M // ROWS, N // COLUMNS])
    row, column = bx * ROWS, by * COLUMNS
    warp_id, tid = T.warp_id([4]), T.thread_id([128])
    a = T.alloc_buffer((STAGES, ROWS, STEP), "bfloat16", scope="shared", align=1024,
                       layout=mma_shared_layout("bfloat16", 3, (STAGES, ROWS, STEP)))  # fmt: skip
    b = T.alloc_buffer((STAGES, COLUMNS, STEP), "bfloat16", scope="shared", align=1024,
                       layout=mma_shared_layout("bfloat16", 3, (STAGES, COLUMNS, STEP)))  # fmt: skip
    addr = T.alloc_shared([1], "uint32")
    full, empty = T.alloc_shared([STAGES], "uint64"), T.alloc_shared([STAGES], "uint64")
    done = T.alloc_shared([1], "uint64")
    if warp_id == 0:
        T.ptx.tcgen05.alloc(T.address_of(addr), n_cols=64, cta_group=1)
    if tid == 0:
        for stage in T.unroll(STAGES):
            T.ptx.mbarrier.init(full.ptr_to([stage]), 1)
            T.ptx.mbarrier.init(empty.ptr_to([stage]), 1)
        T.ptx.mbarrier.init(done.ptr_to([0]), 1)
    T.ptx.fence.mbarrier_init()
    T.ptx.tcgen05.fence.before_thread_sync()
    T.cuda.cta_sync()
    T.ptx.tcgen05.fence.after_thread_sync()
    acc = T.decl_buffer((ROWS, COLUMNS), "float32", scope="tmem", allocated_addr=addr[0],
                        layout=S[(ROWS, COLUMNS) : (1 @ TLane, 1 @ TCol)])  # fmt: skip

    if warp_id == 0 and T.ptx.elect_sync():  # 1: TMA fills a stage once its last product is over
        for turn in T.serial(TURNS):
            stage, k = turn % STAGES, turn * STEP
            T.ptx.mbarrier.try_wait(empty.ptr_to([stage]), 1 - turn // STAGES % 2)
            T.ptx.mbarrier.arrive.expect_tx(full.ptr_to([stage]), 2 * STEP * (ROWS + COLUMNS))
            Tx.copy_async(a[stage, :, :], A[row : row + ROWS, k : k + STEP], mbar=full.ptr_to([stage]))
            Tx.copy_async(b[stage, :, :], B[column : column + COLUMNS, k : k + STEP], mbar=full.ptr_to([stage]))
    elif warp_id == 1 and T.ptx.elect_sync():  # 2: one thread multiplies, and hands the stage back
        for turn in T.serial(TURNS):
            stage = turn % STAGES
            T.ptx.mbarrier.try_wait(full.ptr_to([stage]), turn // STAGES % 2)
            Tx.gemm_async(acc[:, :], a[stage, :, :], b[stage, :, :], turn != 0)
            T.ptx.tcgen05.commit(empty.ptr_to([stage]), cta_group=1)
        T.ptx.tcgen05.commit(done.ptr_to([0]), cta_group=1)
    T.ptx.mbarrier.try_wait(done.ptr_to([0]), 0)  # 3: all wait for the last product
    T.ptx.tcgen05.fence.after_thread_sync()

    mine = T.alloc_buffer((ROWS, COLUMNS), "float32", scope="local", layout=S[(ROWS, COLUMNS) : (1 @ tid_in_wg, 1)])
    Tx.wg.copy_async(mine[:, :], acc[:, :])  # 4: each thread a row
    T.ptx.tcgen05.wait.ld()
    Tx.wg.copy(C[row : row + ROWS, column : column + COLUMNS], mine[:, :])
    T.ptx.tcgen05.fence.before_thread_sync()
    T.cuda.cta_sync()
    T.ptx.tcgen05.fence.after_thread_sync()
    if warp_id == 0:
        T.ptx.tcgen05.dealloc(addr[0], n_cols=64, cta_group=1)


def main() -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-2, 3, (rows, K)).astype(np.float32) for rows in (M, N))
    c = np.zeros((M, N), np.float32)
    exe = tw.compile(blackwell_matmul, target="sm_100a")
    run = exe.simulate(a.astype("bfloat16"), b.astype("bfloat16"), c, check="all")
    assert np.array_equal(c, a @ b.T)
    print(exe.report.entries[-3])
    print(f"{M} x {N} x {K}, exact; {len(run.warnings)} warnings")


if __name__ == "__main__":
    main()
