"""A bfloat16 matrix product by the copy engine and wgmma: one warp loads a ring of stages, two warpgroups multiply."""

from tilewright import T, Tx
from tilewright.layout import mma_shared_layout, wgmma_fragment

M_TILE, N_TILE, K_TILE, STAGES = 128, 128, 64, 4
BYTES = 2 * (M_TILE + N_TILE) * K_TILE
A_TILES = mma_shared_layout("bfloat16", 3, (STAGES, M_TILE, K_TILE))
B_TILES = mma_shared_layout("bfloat16", 3, (STAGES, N_TILE, K_TILE))
SUMS = wgmma_fragment(64, N_TILE)


def gemm_wgmma(m: int, n: int, k: int):
    """D = A * B transposed, for A of (m, k) and B of (n, k)."""

    @T.prim_func
    def product(A_ptr: T.handle, B_ptr: T.handle, D_ptr: T.handle):
        A = T.match_buffer(A_ptr, (m, k), "bfloat16")
        B = T.match_buffer(B_ptr, (n, k), "bfloat16")
        D = T.match_buffer(D_ptr, (m, n), "float32")
        bx, by = T.cta_id([n // N_TILE, m // M_TILE])
        tid = T.thread_id([384])
        warp = T.warp_id([12])
        group = T.warpgroup_id([3])
        a = T.alloc_shared((STAGES, M_TILE, K_TILE), "bfloat16", layout=A_TILES, align=1024)
        b = T.alloc_shared((STAGES, N_TILE, K_TILE), "bfloat16", layout=B_TILES, align=1024)
        full = T.alloc_shared((STAGES,), "uint64")
        empty = T.alloc_shared((STAGES,), "uint64")
        sums = T.alloc_local((64, N_TILE), "float32", layout=SUMS)
        if tid == 0:
            for s in range(STAGES):
                T.ptx.mbarrier.init(full.ptr_to([s]), 1)
                T.ptx.mbarrier.init(empty.ptr_to([s]), 8)  # a lane of each warp that multiplies
            T.ptx.fence.mbarrier_init()
        T.cuda.cta_sync()
        row: T.let = by * M_TILE
        column: T.let = bx * N_TILE
        if group == 0:
            if warp == 0 and T.ptx.elect_sync():
                for i in range(k // K_TILE):
                    T.ptx.mbarrier.try_wait(empty.ptr_to([i % STAGES]), 1 - i // STAGES % 2)
                    T.ptx.mbarrier.arrive.expect_tx(full.ptr_to([i % STAGES]), BYTES)
                    at: T.let = i * K_TILE
                    told: T.let = full.ptr_to([i % STAGES])
                    Tx.copy_async(a[i % STAGES], A[row : row + M_TILE, at : at + K_TILE], mbar=told)
                    Tx.copy_async(b[i % STAGES], B[column : column + N_TILE, at : at + K_TILE], mbar=told)
        else:
            first: T.let = (group - 1) * 64
            for i in range(k // K_TILE):
                T.ptx.mbarrier.try_wait(full.ptr_to([i % STAGES]), i // STAGES % 2)
                T.ptx.wgmma.fence()
                Tx.wg.gemm_async(sums, a[i % STAGES, first : first + 64, :], b[i % STAGES], i != 0)
                T.ptx.wgmma.commit_group()
                T.ptx.wgmma.wait_group(0)
                if tid % 32 == 0:
                    T.ptx.mbarrier.arrive(empty.ptr_to([i % STAGES]))
            Tx.wg.copy(D[row + first : row + first + 64, column : column + N_TILE], sums)

    return product
