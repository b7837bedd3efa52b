"""One thread copies a 32 x 16 tile of bytes to tensor memory, into the lanes of all four warps, and they read it back.

The layout says it all: row r, byte c of the tile is in lane r, byte c of the columns, and again 32, 64 and 96 lanes
further (``R[4 : 32 @ TLane]``). That is what ``tcgen05.cp`` with the multicast ``warpx4`` does, in one instruction.
Everything around it is what an asynchronous copy asks for: docs/tensor_memory.md goes through it line by line.

    tilewright run examples/tensor_copy.py        # no Blackwell needed
    tilewright explain examples/tensor_copy.py
    tilewright lower examples/tensor_copy.py --stage cuda --arch sm_100a
"""

import warnings

import numpy as np

import tilewright as tw
from tilewright import T, Tx
from tilewright.errors import TilewrightWarning
from tilewright.layout import R, S, TCol, TileLayout, TLane, laneid

ROWS, COLUMNS = 32, 16
IN_EVERY_QUARTER = TileLayout(S[(ROWS, COLUMNS) : (1 @ TLane, 1 @ TCol)] + R[4 : 32 @ TLane])
ROW_PER_LANE = TileLayout(S[(ROWS, COLUMNS) : (1 @ laneid, 1)])


@T.prim_func
def tensor_copy(A_ptr: T.handle, B_ptr: T.handle):
    A = T.match_buffer(A_ptr, (ROWS, COLUMNS), "uint8")
    B = T.match_buffer(B_ptr, (4, ROWS, COLUMNS), "uint8")  # what each warp finds
    T.device_entry()
    T.cta_id([1])
    warp_id = T.warp_id([4])
    lane_id = T.lane_id([32])
    tid_in_wg = T.thread_id_in_wg([128])
    A_smem = T.alloc_buffer([ROWS, COLUMNS], "uint8", scope="shared", align=1024)
    tmem_addr = T.alloc_shared([1], "uint32")
    cp_mbar = T.alloc_shared([1], "uint64")
    copied = T.alloc_buffer([ROWS, COLUMNS], "uint8", scope="local", layout=ROW_PER_LANE)

    # Tensor memory is taken by a warp, which finds its address in shared memory; hardware gives at least 32 columns.
    if warp_id == 0:
        T.ptx.tcgen05.alloc(T.address_of(tmem_addr), n_cols=16, cta_group=1)
    if tid_in_wg == 0:
        T.ptx.mbarrier.init(cp_mbar.ptr_to([0]), 1)
    T.ptx.fence.mbarrier_init()
    Tx.wg.copy(A_smem[:, :], A[:, :])
    # The copy will read shared memory through another proxy: each thread that wrote there fences.
    T.ptx.fence.proxy_async("shared::cta")
    T.ptx.tcgen05.fence.before_thread_sync()
    T.cuda.cta_sync()
    T.ptx.tcgen05.fence.after_thread_sync()
    tmem = T.decl_buffer([ROWS, COLUMNS], "uint8", scope="tmem", allocated_addr=tmem_addr[0], layout=IN_EVERY_QUARTER)

    # One thread issues the copy, and a commit that arrives at the m-barrier once it is complete.
    if tid_in_wg == 0:
        Tx.copy_async(tmem[0:32, 0:16], A_smem[0:32, 0:16], cta_group=1)
        T.ptx.tcgen05.commit(cp_mbar.ptr_to([0]), cta_group=1)
    T.ptx.mbarrier.try_wait(cp_mbar.ptr_to([0]), 0)
    T.ptx.tcgen05.fence.after_thread_sync()

    # Each warp reads the copy in the lanes that it reaches; the registers hold it after the wait.
    Tx.wg.copy_async(copied[:, :], tmem[:, :])
    T.ptx.tcgen05.wait.ld()
    for c in range(COLUMNS):
        B[warp_id, lane_id, c] = copied[lane_id, c]

    T.ptx.tcgen05.fence.before_thread_sync()
    T.cuda.cta_sync()
    T.ptx.tcgen05.fence.after_thread_sync()
    if warp_id == 0:
        T.ptx.tcgen05.relinquish_alloc_permit(cta_group=1)
        T.ptx.tcgen05.dealloc(tmem_addr[0], n_cols=16, cta_group=1)


def main() -> None:
    a = np.arange(ROWS * COLUMNS).reshape(ROWS, COLUMNS).astype(np.uint8)
    b = np.zeros((4, ROWS, COLUMNS), np.uint8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TilewrightWarning)  # 16 columns are rounded up to 32, and it says so
        exe = tw.compile(tensor_copy, target="sm_100a")
    exe.simulate(a, b, check="all")
    assert all(np.array_equal(found, a) for found in b)
    print(exe.report)


if __name__ == "__main__":
    main()
