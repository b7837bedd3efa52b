"""Kernels with one mistake each, or one question; docs/howto/questions.md has what is said of each.

tilewright run examples/questions/kernels.py:late_commit
"""

from tilewright import T, Tx
from tilewright.layout import S, TileLayout, laneid, mma_shared_layout, wgmma_fragment

FRAGMENT = TileLayout(S[(8, 4, 2) : (4 @ laneid, 1 @ laneid, 1)])


@T.prim_func
def turned(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")):
    """A transposed operand of 32 bits."""
    T.cta_id([1])
    T.lane_id([32])
    tile = T.alloc_shared((8, 8), "float32")
    r = T.alloc_buffer((8, 8), "float32", scope="local", layout=FRAGMENT)
    Tx.warp.copy(tile[:, :], A[:, :])
    T.cuda.warp_sync()
    Tx.warp.copy(r, tile.permute(1, 0))
    Tx.warp.copy(B[:, :], r)


@T.prim_func
def wide_store(A: T.Buffer((4, 32), "uint32"), B: T.Buffer((32, 4), "uint32")):
    """Four loads of a word each, and one store of four words."""
    T.cta_id([1])
    lane = T.lane_id([32])
    tile = T.alloc_shared((128,), "uint32")
    for i in T.unroll(4):
        tile[i * 32 + lane] = A[i, lane]
    T.cuda.warp_sync()
    four = T.uint32x4(tile[lane], tile[32 + lane], tile[64 + lane], tile[96 + lane])
    T.cuda.warp_sync()
    tile.vstore((lane * 4,), four)
    T.cuda.warp_sync()
    for i in T.unroll(4):
        B[i * 8 + lane // 4, lane % 4] = tile[i * 32 + lane]


@T.prim_func
def late_commit(A: T.Buffer((8, 128), "float32"), B: T.Buffer((8, 128), "float32")):
    """A ring of three stages whose copies are committed behind the wait."""
    T.cta_id([1])
    thread = T.thread_id([128])
    ring = T.alloc_shared((3, 128), "float32")
    for i in T.unroll(2):
        T.ptx.cp_async(ring.ptr_to([i, thread]), A.ptr_to([i, thread]), 4)
        T.ptx.cp_async.commit_group()
    T.ptx.cp_async.wait_group(1)
    for i in T.unroll(8):
        if i < 6:
            T.ptx.cp_async(ring.ptr_to([(i + 2) % 3, thread]), A.ptr_to([i + 2, thread]), 4)
        B[i, thread] = ring[i % 3, thread]
        T.ptx.cp_async.wait_group(1)
        T.ptx.cp_async.commit_group()


@T.prim_func
def arrivals(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32")):
    """An m-barrier of one arrival, at which 32 lanes arrive."""
    T.cta_id([1])
    lane = T.lane_id([32])
    bar = T.alloc_shared((1,), "uint64")
    if lane == 0:
        T.ptx.mbarrier.init(bar.ptr_to([0]), 1)
    T.cuda.warp_sync()
    T.ptx.mbarrier.arrive(bar.ptr_to([0]))
    T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)
    B[lane] = A[lane]


@T.prim_func
def too_many_bytes(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    """A barrier that waits for more bytes than the copy brings."""
    T.cta_id([1])
    lane = T.lane_id([32])
    tile = T.alloc_shared((64,), "float32")
    bar = T.alloc_shared((1,), "uint64")
    if lane == 0:
        T.ptx.mbarrier.init(bar.ptr_to([0]), 1)
        T.ptx.fence.mbarrier_init()
        T.ptx.mbarrier.arrive.expect_tx(bar.ptr_to([0]), 512)
        T.ptx.cp_async.bulk.g2s_cluster(tile.ptr_to([0]), A.ptr_to([0]), 256, bar.ptr_to([0]))
    T.cuda.warp_sync()
    T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)
    B[lane] = tile[lane]


@T.prim_func
def unfenced(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    """The copy engine stores what threads have written, without a proxy fence."""
    T.cta_id([1])
    thread = T.thread_id([64])
    tile = T.alloc_shared((64,), "float32")
    tile[thread] = A[thread]
    T.cuda.cta_sync()
    if thread == 0:
        T.ptx.cp_async.bulk.s2g(B.ptr_to([0]), tile.ptr_to([0]), 256)
        T.ptx.cp_async.bulk.commit_group()
        T.ptx.cp_async.bulk.wait_group(0)


@T.prim_func
def unread(A: T.Buffer((64, 64), "float16"), B: T.Buffer((64, 64), "float16"), D: T.Buffer((64, 64), "float32")):
    """The sums of a wgmma are used before a wait has said that they are there."""
    T.cta_id([1])
    T.thread_id([128])
    left, right = [T.alloc_shared((64, 64), "float16", layout=mma_shared_layout("float16", 3, (64, 64))) for _ in "AB"]
    sums = T.alloc_local((64, 64), "float32", layout=wgmma_fragment(64, 64))
    Tx.cta.copy(left, A[:, :])
    Tx.cta.copy(right, B[:, :])
    T.ptx.fence.proxy_async("shared::cta")
    T.cuda.cta_sync()
    T.ptx.wgmma.fence()
    Tx.wg.gemm_async(sums, left, right, False)
    T.ptx.wgmma.commit_group()
    Tx.wg.copy(D[:, :], sums)


@T.prim_func
def odd_rows(A: T.Buffer((8, 8), "float16"), B: T.Buffer((8, 8), "float16")):
    """Rows of shared memory that begin 20 bytes apart."""
    T.cta_id([1])
    T.lane_id([32])
    tile = T.alloc_shared((8, 8), "float16", layout=S[(8, 8) : (10, 1)])
    r = T.alloc_buffer((8, 8), "float16", scope="local", layout=FRAGMENT)
    Tx.warp.copy(tile[:, :], A[:, :])
    T.cuda.warp_sync()
    Tx.warp.copy(r, tile[:, :])
    Tx.warp.copy(B[:, :], r)
