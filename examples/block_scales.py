"""Scale factors of a block-scaled product on their way to the tensor cores: four 32 x 16 tiles, one call.

128 rows of a matrix have 16 scales each, one byte per block of the row. A tensor core that multiplies a row finds its
scales in 32-bit columns of lane ``r % 32``, in each quarter of tensor memory: column ``r // 32`` of a tile has those of
four neighbouring blocks. So shared memory holds 32 x 16 tiles, 512 bytes each: scale ``4t + k`` of row ``r`` is byte
``16 * (r % 32) + 4 * (r // 32) + k`` of tile ``t``, and each tile is one ``tcgen05.cp`` with the multicast ``warpx4``.

    tilewright run examples/block_scales.py
    tilewright explain examples/block_scales.py
    tilewright lower examples/block_scales.py --stage lowered --arch sm_100a
"""

import numpy as np

import tilewright as tw
from tilewright import T, Tx
from tilewright.layout import R, S, TCol, TileLayout, TLane, laneid

ROWS, SCALES = 128, 16
SPLIT = (4, 32, 4, 4)  # row = 32 * part + lane, scale = 4 * tile + k
IN_SHARED = TileLayout(S[SPLIT : (4, 16, 512, 1)])
IN_TENSOR = TileLayout(S[SPLIT : (4 @ TCol, 1 @ TLane, 16 @ TCol, 1 @ TCol)] + R[4 : 32 @ TLane])
IN_REGISTERS = TileLayout(S[SPLIT : (4, 1 @ laneid, 16, 1)])


@T.prim_func
def block_scales(A_ptr: T.handle, B_ptr: T.handle):
    A = T.match_buffer(A_ptr, (ROWS, SCALES), "uint8")
    B = T.match_buffer(B_ptr, (4, ROWS, SCALES), "uint8")  # what each warp finds in its quarter
    T.device_entry()
    T.cta_id([1])
    warp_id = T.warp_id([4])
    lane_id = T.lane_id([32])
    A_smem = T.alloc_buffer((ROWS, SCALES), "uint8", scope="shared", layout=IN_SHARED, align=128)
    tmem_addr = T.alloc_shared([1], "uint32")
    copied = T.alloc_shared([1], "uint64")
    found = T.alloc_buffer((ROWS, SCALES), "uint8", scope="local", layout=IN_REGISTERS)

    if warp_id == 0:
        T.ptx.tcgen05.alloc(T.address_of(tmem_addr), n_cols=32, cta_group=1)
        if T.ptx.elect_sync():
            T.ptx.mbarrier.init(copied.ptr_to([0]), 1)
    T.ptx.fence.mbarrier_init()
    Tx.cta.copy(A_smem[:, :], A[:, :])
    T.ptx.fence.proxy_async("shared::cta")
    T.ptx.tcgen05.fence.before_thread_sync()
    T.cuda.cta_sync()
    T.ptx.tcgen05.fence.after_thread_sync()
    scales = T.decl_buffer((ROWS, SCALES), "uint8", scope="tmem", allocated_addr=tmem_addr[0], layout=IN_TENSOR)

    if warp_id == 0 and T.ptx.elect_sync():
        Tx.copy_async(scales[:, :], A_smem[:, :], cta_group=1)
        T.ptx.tcgen05.commit(copied.ptr_to([0]), cta_group=1)
    T.ptx.mbarrier.try_wait(copied.ptr_to([0]), 0)
    T.ptx.tcgen05.fence.after_thread_sync()

    Tx.wg.copy_async(found[:, :], scales[:, :])
    T.ptx.tcgen05.wait.ld()
    for part in range(4):
        for s in range(SCALES):
            B[warp_id, 32 * part + lane_id, s] = found[32 * part + lane_id, s]

    T.ptx.tcgen05.fence.before_thread_sync()
    T.cuda.cta_sync()
    T.ptx.tcgen05.fence.after_thread_sync()
    if warp_id == 0:
        T.ptx.tcgen05.relinquish_alloc_permit(cta_group=1)
        T.ptx.tcgen05.dealloc(tmem_addr[0], n_cols=32, cta_group=1)


def main() -> None:
    a = np.random.default_rng(0).integers(0, 256, (ROWS, SCALES), np.uint8)
    b = np.zeros((4, ROWS, SCALES), np.uint8)
    exe = tw.compile(block_scales, target="sm_100a")
    exe.simulate(a, b, check="all")
    assert all(np.array_equal(quarter, a) for quarter in b)
    print(exe.report)


if __name__ == "__main__":
    main()
