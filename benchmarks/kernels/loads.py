"""A kernel whose warps do nothing but load matrices, again and again."""

from tilewright import T

WARPS_OF_A_CTA = 8


def loads(warps: int, trans: bool, loops: int):
    """``loops`` times ldmatrix.x4 in each of ``warps`` warps."""

    @T.prim_func
    def load_again():
        T.device_entry()
        T.cta_id([warps // WARPS_OF_A_CTA])
        warp = T.warp_id([WARPS_OF_A_CTA])
        lane = T.lane_id([32])
        smem = T.alloc_shared((WARPS_OF_A_CTA, 32, 8), "uint16")
        registers = T.alloc_local((4,), "uint32")
        for i in range(8):
            smem[warp, lane, i] = T.uint16(1)
        T.cuda.cta_sync()
        for _ in range(loops):
            T.ptx.ldmatrix(trans, 4, ".b16", smem.ptr_to([warp, lane, 0]), registers)

    return load_again
