"""Kernels with loads between stores, of n elements, for `benchmarks.gpu.restrict` and `.bounds`."""

from tilewright import T

N = 1 << 24
STEPS = 64  # of the inner loops


def scale(n):
    """Each element once."""

    @T.prim_func
    def scale(X: T.Buffer((n,), "float32"), Y: T.Buffer((n,), "float32")):
        bx = T.cta_id([n // 256])
        i = bx * 256 + T.thread_id([256])
        Y[i] = X[i] * 2.0

    return scale


def stencil(n):
    """Stores between loads of the same elements: without the word each store may change what is loaded next."""

    @T.prim_func
    def stencil(X: T.Buffer((n,), "float32"), Y: T.Buffer((n,), "float32")):
        bx = T.cta_id([n // 1024])
        first = bx * 1024 + T.thread_id([256]) * 4
        for k in T.unroll(4):
            i = first + k
            before = T.select(i > 0, X[T.max(i - 1, 0)], 0.0)
            after = T.select(i < n - 1, X[T.min(i + 1, n - 1)], 0.0)
            Y[i] = before + X[i] * 2.0 + after

    return stencil


def table(n):
    """Weights that all threads read again after each store."""

    @T.prim_func
    def table(X: T.Buffer((n,), "float32"), W: T.Buffer((64,), "float32"), Y: T.Buffer((n,), "float32")):
        bx = T.cta_id([n // (256 * STEPS)])
        first = bx * 256 * STEPS + T.thread_id([256])
        for k in T.serial(STEPS, unroll=8):
            Y[first + k * 256] = X[first + k * 256] * W[0] + W[1]

    return table


def products(n):
    """A loop of matrix products whose operands come from global memory."""

    @T.prim_func
    def products(X: T.Buffer((n,), "uint32"), W: T.Buffer((n,), "uint32"), Y: T.Buffer((n,), "float32")):
        bx = T.cta_id([n // (256 * STEPS)])
        lane = T.lane_id([32])
        a = T.alloc_local((4,), "uint32")
        b = T.alloc_local((2,), "uint32")
        d = T.alloc_local((4,), "float32")
        for k in T.unroll(4):
            d[k] = 0.0
        for step in T.serial(STEPS, unroll=4):
            for k in T.unroll(4):
                a[k] = X[(bx * STEPS + step) * 128 + k * 32 + lane] & 0x3FFF3FFF
            for k in T.unroll(2):
                b[k] = W[step * 64 + k * 32 + lane] & 0x3FFF3FFF
            registers = [d[0], d[1], d[2], d[3]]
            T.ptx.mma("m16n8k16", "f32.f16.f16.f32", registers, [a[0], a[1], a[2], a[3]], [b[0], b[1]], registers)
            Y[(bx * STEPS + step) * 32 + lane] = d[0]

    return products
