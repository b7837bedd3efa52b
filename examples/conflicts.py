"""Tiles of shared memory with bank conflicts; docs/advice.md has the output of `tilewright advise` for each.

tilewright advise examples/conflicts.py:interleaved
tilewright advise examples/conflicts.py:bytes_by_columns
"""

import tilewright as tw
from tilewright import T, Tx
from tilewright.layout import SwizzleLayout


@T.prim_func
def by_rows_of_k(A: T.Buffer((16, 128), "float16"), B: T.Buffer((4, 8, 32), "float16")):
    """ldmatrix.x4.trans of an M-major tile: 128 of M by twice 8 of K, in the order of K."""
    T.cta_id([1])
    warp = T.warp_id([4])
    lane = T.lane_id([32])
    tile = T.alloc_shared((16, 128), "float16", layout=SwizzleLayout(3, 3, 4))
    r = T.alloc_local((8,), "float16")
    Tx.cta.copy(tile[:, :], A[:, :])
    T.cuda.cta_sync()
    row = tile.ptr_to([lane % 16, warp * 32 + lane // 16 * 8])
    T.ptx.ldmatrix(True, 4, ".b16", row, *[T.address_of(r[2 * i]) for i in range(4)])
    for i in range(8):
        B[warp, i, lane] = r[i]


@T.prim_func
def interleaved(A: T.Buffer((16, 128), "float16"), B: T.Buffer((4, 8, 32), "float16")):
    """The same tile, even rows of K first, so that a thread's values of two products are neighbours in K."""
    T.cta_id([1])
    warp = T.warp_id([4])
    lane = T.lane_id([32])
    tile = T.alloc_shared((16, 128), "float16", layout=SwizzleLayout(3, 3, 4))
    r = T.alloc_local((8,), "float16")
    Tx.cta.copy(tile[:, :], A[:, :])
    T.cuda.cta_sync()
    row = tile.ptr_to([lane % 8 * 2 + lane // 8 % 2, warp * 32 + lane // 16 * 8])
    T.ptx.ldmatrix(True, 4, ".b16", row, *[T.address_of(r[2 * i]) for i in range(4)])
    for i in range(8):
        B[warp, i, lane] = r[i]


@T.prim_func
def bytes_by_columns(A: T.Buffer((64, 64), "uint8"), B: T.Buffer((64, 64), "uint8")):
    """8-bit operands are transposed a byte at a time: there is no ldmatrix.trans of bytes before Blackwell."""
    T.cta_id([1])
    tid = T.thread_id([64])
    tile = T.alloc_shared((64, 64), "uint8")
    Tx.cta.copy(tile[:, :], A[:, :])
    T.cuda.cta_sync()
    for i in range(64):
        B[i, tid] = tile[tid, i]


@T.prim_func
def halves_by_columns(A: T.Buffer((64, 64), "float16"), B: T.Buffer((64, 64), "float16")):
    """A transposition of 2-byte elements, one element at a time."""
    T.cta_id([1])
    tid = T.thread_id([64])
    tile = T.alloc_shared((64, 64), "float16")
    for i in range(64):
        tile[i, tid] = A[i, tid]
    T.cuda.cta_sync()
    for i in range(64):
        B[i, tid] = tile[tid, i]


@T.prim_func
def epilogue(A: T.Buffer((32, 32), "float32"), B: T.Buffer((16, 64), "float32")):
    """Each thread stores its accumulators of eight m16n8 products, two neighbours at a time, and rows go out."""
    T.cta_id([1])
    lane = T.lane_id([32])
    tile = T.alloc_shared((16, 64), "float32")
    acc = T.alloc_local((32,), "float32")
    for i in range(32):
        acc[i] = A[i, lane]
    for i in T.unroll(16):
        pair = T.float32x2(acc[2 * i], acc[2 * i + 1])
        tile.vstore((lane // 4 + i % 2 * 8, i // 2 * 8 + lane % 4 * 2), pair)
    T.cuda.cta_sync()
    Tx.cta.copy(B[:, :], tile[:, :])


@T.prim_func
def brought_by_tma(A: T.Buffer((64, 64), "float16"), B: T.Buffer((4, 4, 8, 32), "float16")):
    """The copy engine writes the tile and ldmatrix reads it: its swizzle must be one that both know."""
    T.cta_id([1])
    warp = T.warp_id([4])
    lane = T.lane_id([32])
    tile = T.alloc_shared((64, 64), "float16", align=1024)
    bar = T.alloc_shared((1,), "uint64")
    r = T.alloc_local((8,), "float16")
    if warp == 0 and T.ptx.elect_sync():
        T.ptx.mbarrier.init(bar.ptr_to([0]), 1)
        T.ptx.fence.mbarrier_init()
        T.ptx.mbarrier.arrive.expect_tx(bar.ptr_to([0]), 64 * 64 * 2)
        Tx.copy_async(tile, A[:, :], mbar=bar.ptr_to([0]))
    T.cuda.cta_sync()
    T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)
    for k in T.unroll(4):
        row = tile.ptr_to([warp * 16 + lane % 16, k * 16 + lane // 16 * 8])
        T.ptx.ldmatrix(False, 4, ".b16", row, *[T.address_of(r[2 * i]) for i in range(4)])
        for i in T.unroll(8):
            B[warp, k, i, lane] = r[i]


def main() -> None:
    for kernel in (by_rows_of_k, interleaved, bytes_by_columns, halves_by_columns, epilogue, brought_by_tma):
        advice = tw.compile(kernel, target="sm_90a").advise()
        print("\n".join([f"{advice.name}: {advice.bank_conflicts} conflicts", *map(str, advice.changes)]))


if __name__ == "__main__":
    main()
