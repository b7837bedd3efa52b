"""Over a million numbers: one sum for each element, and one for each 1,024 of them."""

from tilewright import T

N = 1 << 20


@T.prim_func
def added(A: T.Buffer((N,), "float32"), B: T.Buffer((N,), "float32"), C: T.Buffer((N,), "float32")):
    at = T.cta_id([N // 256]) * 256 + T.thread_id([256])
    C[at] = A[at] + B[at]


@T.prim_func
def summed(A: T.Buffer((N,), "float32"), B: T.Buffer((N // 1024,), "float32")):
    cta = T.cta_id([N // 1024])
    tid = T.thread_id([256])
    part = T.alloc_shared((256,), "float32")
    own: T.float32 = 0.0
    for k in range(4):
        own += A[cta * 1024 + k * 256 + tid]
    part[tid] = own
    T.cuda.cta_sync()
    for k in T.unroll(8):
        if tid < (128 >> k):
            part[tid] += part[tid + (128 >> k)]
        T.cuda.cta_sync()
    if tid == 0:
        B[cta] = part[0]
