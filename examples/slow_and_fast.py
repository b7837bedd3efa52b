"""Five kernels as they are written at first, and what became of them by following `tilewright advise --time`."""

import numpy as np

import tilewright as tw
from tilewright import T, Tx

SIDE, STEP = 64, 16  # of a tile of the product, and along K
COLUMNS = 1024  # of a row of softmax
PARTS = 256  # CTAs of a sum


@T.prim_func
def product_by_element(a: T.handle, b: T.handle, c: T.handle):
    """Each thread has one element of C, and reads a row of A and a column of B."""
    m, n, k = T.int32(), T.int32(), T.int32()
    A, B = T.match_buffer(a, (m, k), "float32"), T.match_buffer(b, (k, n), "float32")
    C = T.match_buffer(c, (m, n), "float32")
    T.assume(m % 16 == 0)
    T.assume(n % 16 == 0)
    bx, by = T.cta_id([m // 16, n // 16])
    thread = T.thread_id([256])
    row: T.let = bx * 16 + thread % 16  # neighbouring threads have neighbouring rows
    column: T.let = by * 16 + thread // 16
    total = T.local_scalar("float32")
    total = 0.0
    for e in range(k):
        total = total + A[row, e] * B[e, column]
    C[row, column] = total


@T.prim_func
def product_by_tile(a: T.handle, b: T.handle, c: T.handle):
    """A CTA has a tile of C, and brings tiles of A and B to shared memory; each thread has 4 x 4 elements."""
    m, n, k = T.int32(), T.int32(), T.int32()
    A, B = T.match_buffer(a, (m, k), "float32"), T.match_buffer(b, (k, n), "float32")
    C = T.match_buffer(c, (m, n), "float32")
    T.assume(m % SIDE == 0)
    T.assume(n % SIDE == 0)
    T.assume(k % STEP == 0)
    bx, by = T.cta_id([m // SIDE, n // SIDE])
    thread = T.thread_id([256])
    left = T.alloc_shared((STEP, SIDE + 4), "float32")
    right = T.alloc_shared((STEP, SIDE), "float32")
    x, y = T.alloc_local((4,), "float32"), T.alloc_local((4,), "float32")
    total = T.alloc_local((4, 4), "float32")
    for i in T.unroll(4):
        for j in T.unroll(4):
            total[i, j] = 0.0
    for e in range(k // STEP):
        for i in T.unroll(SIDE * STEP // 256):
            row: T.let = i * 16 + thread // STEP
            left[thread % STEP, row] = A[bx * SIDE + row, e * STEP + thread % STEP]
        Tx.cta.copy(right[:, :], B[e * STEP : e * STEP + STEP, by * SIDE : by * SIDE + SIDE])
        T.cuda.cta_sync()
        for d in T.unroll(STEP):
            Tx.copy(x[:], left[d, thread // 16 * 4 : thread // 16 * 4 + 4])
            Tx.copy(y[:], right[d, thread % 16 * 4 : thread % 16 * 4 + 4])
            for i in T.unroll(4):
                for j in T.unroll(4):
                    total[i, j] = total[i, j] + x[i] * y[j]
        T.cuda.cta_sync()
    for i in T.unroll(4):
        row_of_c: T.let = bx * SIDE + thread // 16 * 4 + i
        column_of_c: T.let = by * SIDE + thread % 16 * 4
        Tx.copy(C[row_of_c, column_of_c : column_of_c + 4], total[i, :])


@T.prim_func
def transpose_by_element(x: T.handle, y: T.handle):
    """Each thread moves one element: reads are in order, writes are a row apart."""
    m, n = T.int32(), T.int32()
    X, Y = T.match_buffer(x, (m, n), "float32"), T.match_buffer(y, (n, m), "float32")
    T.assume(n % 256 == 0)
    part, row = T.cta_id([n // 256, m])
    column: T.let = part * 256 + T.thread_id([256])
    Y[column, row] = X[row, column]


@T.prim_func
def transpose_by_tile(x: T.handle, y: T.handle):
    """A tile goes through shared memory, whose rows are longer by one: both sides of global memory are in order."""
    m, n = T.int32(), T.int32()
    X, Y = T.match_buffer(x, (m, n), "float32"), T.match_buffer(y, (n, m), "float32")
    T.assume(m % 32 == 0)
    T.assume(n % 32 == 0)
    right, down = T.cta_id([n // 32, m // 32])
    warp, lane = T.warp_id([8]), T.lane_id([32])
    tile = T.alloc_shared((32, 33), "float32")
    for k in T.unroll(4):
        tile[warp * 4 + k, lane] = X[down * 32 + warp * 4 + k, right * 32 + lane]
    T.cuda.cta_sync()
    for k in T.unroll(4):
        Y[right * 32 + warp * 4 + k, down * 32 + lane] = tile[lane, warp * 4 + k]


@T.prim_func
def softmax_by_thread(x: T.handle, y: T.handle):
    """Each thread has a row."""
    m = T.int32()
    X, Y = T.match_buffer(x, (m, COLUMNS), "float32"), T.match_buffer(y, (m, COLUMNS), "float32")
    T.assume(m % 128 == 0)
    row: T.let = T.cta_id([m // 128]) * 128 + T.thread_id([128])
    most, total = T.local_scalar("float32"), T.local_scalar("float32")
    most, total = -T.infinity("float32"), 0.0
    for j in range(COLUMNS):
        most = T.max(most, X[row, j])
    for j in range(COLUMNS):
        total = total + T.exp(X[row, j] - most)
    for j in range(COLUMNS):
        Y[row, j] = T.exp(X[row, j] - most) / total


@T.prim_func
def softmax_by_warp(x: T.handle, y: T.handle):
    """Each warp has a row, in its registers; its lanes read neighbouring elements."""
    m = T.int32()
    X, Y = T.match_buffer(x, (m, COLUMNS), "float32"), T.match_buffer(y, (m, COLUMNS), "float32")
    T.assume(m % 4 == 0)
    cta, warp, lane = T.cta_id([m // 4]), T.warp_id([4]), T.lane_id([32])
    row: T.let = cta * 4 + warp
    held = T.alloc_local((COLUMNS // 32,), "float32")
    most, total = T.local_scalar("float32"), T.local_scalar("float32")
    for k in T.unroll(COLUMNS // 128):
        Tx.copy(held[k * 4 : k * 4 + 4], X[row, k * 128 + lane * 4 : k * 128 + lane * 4 + 4])
    most, total = -T.infinity("float32"), 0.0
    for k in T.unroll(COLUMNS // 32):
        most = T.max(most, held[k])
    for step in T.unroll(5):
        most = T.max(most, T.cuda.shfl_xor_sync(0xFFFFFFFF, most, 1 << step))
    for k in T.unroll(COLUMNS // 32):
        held[k] = T.exp(held[k] - most)
        total = total + held[k]
    for step in T.unroll(5):
        total = total + T.cuda.shfl_xor_sync(0xFFFFFFFF, total, 1 << step)
    for k in T.unroll(COLUMNS // 32):
        held[k] = held[k] / total
    for k in T.unroll(COLUMNS // 128):
        Tx.copy(Y[row, k * 128 + lane * 4 : k * 128 + lane * 4 + 4], held[k * 4 : k * 4 + 4])


@T.prim_func
def sums_by_stride(x: T.handle, y: T.handle):
    """Each thread adds up a run of its own: neighbouring threads are a run apart."""
    n = T.int32()
    X, Y = T.match_buffer(x, (n,), "float32"), T.match_buffer(y, (PARTS * 256,), "float32")
    T.assume(n % (PARTS * 256) == 0)
    thread: T.let = T.cta_id([PARTS]) * 256 + T.thread_id([256])
    total = T.local_scalar("float32")
    total = 0.0
    for e in range(n // (PARTS * 256)):
        total = total + X[thread * (n // (PARTS * 256)) + e]
    Y[thread] = total


@T.prim_func
def sums_in_order(x: T.handle, y: T.handle):
    """Threads go through the array together, by accesses of 16 bytes, four at a time."""
    n = T.int32()
    X, Y = T.match_buffer(x, (n,), "float32"), T.match_buffer(y, (PARTS * 256,), "float32")
    T.assume(n % (PARTS * 256 * 16) == 0)
    thread: T.let = T.cta_id([PARTS]) * 256 + T.thread_id([256])
    four = T.alloc_local((16,), "float32")
    total = T.local_scalar("float32")
    total = 0.0
    for e in range(n // (PARTS * 256 * 16)):
        for u in T.unroll(4):
            begin: T.let = ((e * 4 + u) * PARTS * 256 + thread) * 4
            Tx.copy(four[u * 4 : u * 4 + 4], X[begin : begin + 4])
        for u in T.unroll(16):
            total = total + four[u]
    Y[thread] = total


@T.prim_func
def count_in_one_place(x: T.handle, count: T.Buffer((1,), "int32")):
    """How many are positive: each thread adds to one number."""
    n = T.int32()
    X = T.match_buffer(x, (n,), "float32")
    T.assume(n % 256 == 0)
    i: T.let = T.cta_id([n // 256]) * 256 + T.thread_id([256])
    T.cuda.atomic_add(count.ptr_to([0]), T.cast(X[i] > 0.0, "int32"))


@T.prim_func
def count_by_cta(x: T.handle, count: T.Buffer((1,), "int32")):
    """Each thread counts 64 elements, a warp adds its lanes up, and one lane of it adds to the number."""
    n = T.int32()
    X = T.match_buffer(x, (n,), "float32")
    T.assume(n % 16384 == 0)
    cta, lane = T.cta_id([n // 16384]), T.lane_id([32])
    thread: T.let = T.thread_id([256])
    four = T.alloc_local((16,), "float32")
    own = T.local_scalar("int32")
    own = 0
    for e in range(4):
        for u in T.unroll(4):
            begin: T.let = cta * 16384 + (e * 4 + u) * 1024 + thread * 4
            Tx.copy(four[u * 4 : u * 4 + 4], X[begin : begin + 4])
        for u in T.unroll(16):
            own = own + T.cast(four[u] > 0.0, "int32")
    for step in T.unroll(5):
        own = own + T.cuda.shfl_xor_sync(0xFFFFFFFF, own, 1 << step)
    if lane == 0:
        T.cuda.atomic_add(count.ptr_to([0]), own)


PAIRS = {
    "product": (product_by_element, product_by_tile),
    "transposition": (transpose_by_element, transpose_by_tile),
    "softmax": (softmax_by_thread, softmax_by_warp),
    "sums": (sums_by_stride, sums_in_order),
    "count": (count_in_one_place, count_by_cta),
}


def arguments(name, size, array):
    """What both kernels of a pair take. size: of a side, rows or elements; array: makes one, of a shape and a dtype."""
    shapes = {
        "product": [(size, size)] * 3, "transposition": [(size, size)] * 2, "softmax": [(size, COLUMNS)] * 2,
        "sums": [(size,), (PARTS * 256,)], "count": [(size,), (1,)],
    }  # fmt: skip
    kinds = ["float32"] * len(shapes[name])
    kinds[-1] = "int32" if name == "count" else "float32"
    return [array(shape, kind) for shape, kind in zip(shapes[name], kinds, strict=True)]


def main(run=tw.simulate) -> None:
    rng = np.random.default_rng(0)
    sizes = {"product": 64, "transposition": 256, "softmax": 128, "sums": PARTS * 256 * 16, "count": 16384}
    for name, kernels in PAIRS.items():
        given = arguments(name, sizes[name], lambda shape, kind: rng.standard_normal(shape).astype(kind))
        given[-1][...] = 0
        results = []
        for kernel in kernels:
            args = [array.copy() for array in given]
            run(kernel, *args)
            results.append(args[-1].sum() if name == "sums" else args[-1])
        assert np.allclose(*results, rtol=1e-4, atol=1e-4), name
        print(f"{name}: both kernels give the same")


if __name__ == "__main__":
    main()
