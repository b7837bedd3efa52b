"""The kernel of the launch and of the cold start, in tilewright; and one whose input comes by a tensor map."""

from tilewright import T, Tx


@T.prim_func
def kernel(A_ptr: T.handle, B_ptr: T.handle, s: T.float32):
    n = T.int32()
    A = T.match_buffer(A_ptr, (n,), "float32")
    B = T.match_buffer(B_ptr, (n,), "float32")
    bx = T.cta_id([(n + 127) // 128])
    tid = T.thread_id([128])
    if bx * 128 + tid < n:
        B[bx * 128 + tid] = A[bx * 128 + tid] * s


@T.prim_func
def by_map(A_ptr: T.handle, B_ptr: T.handle, s: T.float32):
    n = T.int32()
    A = T.match_buffer(A_ptr, (n,), "float32")
    B = T.match_buffer(B_ptr, (n,), "float32")
    T.assume(n % 128 == 0)
    bx = T.cta_id([n // 128])
    tid = T.thread_id([128])
    tile = T.alloc_shared((128,), "float32", align=128)
    bar = T.alloc_shared((1,), "uint64")
    if tid == 0:
        T.ptx.mbarrier.init(bar.ptr_to([0]), 1)
        T.ptx.fence.mbarrier_init()
        T.ptx.mbarrier.arrive.expect_tx(bar.ptr_to([0]), 512)
        Tx.copy_async(tile, A[bx * 128 : bx * 128 + 128], dispatch="tma", mbar=bar.ptr_to([0]))
    T.cuda.cta_sync()
    T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)
    B[bx * 128 + tid] = tile[tid] * s
