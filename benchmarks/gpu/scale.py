"""The kernel of the launch and of the cold start, in tilewright."""

from tilewright import T


@T.prim_func
def kernel(A_ptr: T.handle, B_ptr: T.handle, s: T.float32):
    n = T.int32()
    A = T.match_buffer(A_ptr, (n,), "float32")
    B = T.match_buffer(B_ptr, (n,), "float32")
    bx = T.cta_id([(n + 127) // 128])
    tid = T.thread_id([128])
    if bx * 128 + tid < n:
        B[bx * 128 + tid] = A[bx * 128 + tid] * s
