"""Programs of TIRx's documents: places, memory, statements, classes with state, kernels for some values.

Each is run under every check against NumPy, its script reads back, and its CUDA text is assembled for its target.
"""

# ruff: noqa: B007, B009, B023, C901, E741, F821, F841, RET507, RUF059, SIM202
# Kernels are parsed, not run: they are programs of others, as others write them.
from __future__ import annotations

import numpy as np

from tests.lang.programs import close, eq, rng, run
from tilewright import T, Tx


def test_places_are_named_in_any_order() -> None:

    @T.prim_func
    def k(A: T.Buffer((2, 2, 8, 32), "int32")):
        T.device_entry()
        lane = T.lane_id([32])
        wg = T.warpgroup_id([2])
        wi = T.warp_id_in_wg([4])
        bx, by = T.cta_id([2, 2])
        w = T.warp_id([8])
        tid = T.thread_id([256])
        tw_ = T.thread_id_in_wg([128])
        A[bx, by, w, lane] = tid + 1000 * wg + 10000 * wi + 100000 * tw_

    a = np.zeros((2, 2, 8, 32), "i4")
    run(k, a)
    t = np.arange(256)
    eq(a[1, 0].ravel(), t + 1000 * (t // 128) + 10000 * (t // 32 % 4) + 100000 * (t % 128))


def test_extents_that_follow_are_left_out() -> None:
    n = 3

    @T.prim_func
    def k(A: T.Buffer((n * 2, 64), "int32")):
        T.device_entry()
        bx = T.cta_id([n * 2])
        warp = T.warp_id([4 - 2])
        lane = T.lane_id()
        tid = T.thread_id()
        A[bx, tid] = warp * 32 + lane

    a = np.zeros((6, 64), "i4")
    run(k, a)
    eq(a[3], np.arange(64))


def test_a_cluster_of_two_dimensions_has_a_preferred_one() -> None:

    @T.prim_func
    def k(A: T.Buffer((4, 2), "int32")):
        T.device_entry()
        cbx, cby = T.cta_id_in_cluster([2, 1], preferred=[2, 1])
        bx, by = T.cta_id([4, 2])
        cl = T.cluster_id()
        t = T.thread_id([1])
        A[bx, by] = cbx

    a = np.zeros((4, 2), "i4")
    run(k, a)
    eq(a, np.array([0, 1, 0, 1])[:, None])


def test_loops_bind_threads_by_their_old_names() -> None:

    @T.prim_func
    def kernel(a: T.handle, b: T.handle):
        m = T.int32()
        n = T.int32()
        A = T.match_buffer(a, (m, n), "float32")
        B = T.match_buffer(b, [m, n], dtype="float32")
        T.func_attr({"global_symbol": "main", "tir.noalias": True})
        T.device_entry()
        for bx in T.thread_binding(T.ceildiv(m, 4), thread="blockIdx.x"):
            for by in T.thread_binding(1, thread="blockIdx.y"):
                for txx in T.thread_binding(0, 32, "threadIdx.x"):
                    for i in range(4):
                        for j in range(T.ceildiv(n, 32)):
                            if bx * 4 + i < m and j * 32 + txx < n:
                                B[bx * 4 + i, j * 32 + txx] = A[bx * 4 + i, j * 32 + txx] * T.float32(2)

    a = rng.random((6, 40)).astype("f4")
    b = np.zeros_like(a)
    run(kernel, a, b)
    eq(b, a * 2)


def test_memory_of_every_scope_says_what_it_is() -> None:

    @T.prim_func
    def k(A: T.Buffer((32,), "float32")):
        T.device_entry()
        T.cta_id([1])
        t = T.lane_id([32])
        s = T.alloc_buffer([32], "float32", scope="shared", align=128)
        d = T.alloc_buffer([64], "uint8", scope="shared.dyn", align=16)
        v = T.decl_buffer((16,), "float32", data=d.data, scope="shared.dyn")
        v2 = T.decl_buffer((8,), "float32", d.data, byte_offset=32, scope="shared.dyn")
        l = T.alloc_local((2,), "float32")
        ss = T.shared_scalar("float32")
        ls = T.local_scalar("float32")
        assert s.scope() == "shared"
        assert d.scope() == "shared.dyn"
        assert str(s.dtype) == "float32"
        assert s.dtype == "float32"
        assert s.shape[0] == 32
        s[t] = A[t]
        if t < 16:
            v[t] = s[t]
        T.cuda.cta_sync()
        if t < 8:
            v2[t] = v2[t] + 1.0
        T.cuda.cta_sync()
        l[0] = v[t % 16]
        l[1] = s[31 - t]
        ls = l[0] + l[1]
        if t == 0:
            ss = 5.0
        T.cuda.cta_sync()
        A[t] = ls + ss

    a = rng.integers(0, 9, 32).astype("f4")
    a0 = a.copy()
    run(k, a)
    v = a0[:16].copy()
    v[8:] += 1
    eq(a, np.r_[v, v] + a0[::-1] + 5)


def test_views_change_type_shape_and_order() -> None:

    @T.prim_func
    def k(A: T.Buffer((4, 8), "float32"), B: T.Buffer((64,), "uint16"), C: T.Buffer((8, 4), "float32")):
        T.device_entry()
        T.cta_id([1])
        t = T.thread_id([32])
        s = T.alloc_shared((4, 8), "float32")
        Tx.cta.copy(s, A)
        T.cuda.cta_sync()
        u = s.view("uint16")
        f = u.view(64)
        B[2 * t] = f[2 * t]
        B[2 * t + 1] = u[t // 8, (2 * t + 1) % 16]
        p = s.permute(1, 0)
        assert tuple(p.shape) == (8, 4)
        C[t // 4, t % 4] = p[t // 4, t % 4]

    a = rng.random((4, 8)).astype("f4")
    b = np.zeros(64, "u2")
    c = np.zeros((8, 4), "f4")
    run(k, a, b, c)
    eq(b, a.view("u2").ravel())
    eq(c, a.T)


def test_pointers_lead_to_elements_by_offset_and_by_index() -> None:

    @T.prim_func
    def k(A: T.Buffer((4, 8), "float32"), B: T.Buffer((32,), "float32")):
        T.device_entry()
        T.cta_id([1])
        t = T.thread_id([8])
        s = T.alloc_shared((32,), "float32", align=16)
        T.cuda.copy_bytes(
            s.access_ptr("w", offset=t * 4), A.access_ptr("r", offset=A.elem_offset_of([t // 2, t % 2 * 4])), 16
        )
        T.cuda.cta_sync()
        T.cuda.copy_bytes(B.ptr_to([t * 4]), T.address_of(s[t * 4]), 16)

    a = rng.random((4, 8)).astype("f4")
    b = np.zeros(32, "f4")
    run(k, a, b)
    eq(b, a.ravel())


def test_a_helper_cuts_regions_of_regions() -> None:

    def half(r):
        return r[0:4]

    @T.prim_func
    def k(A: T.Buffer((8, 16), "float32"), B: T.Buffer((8, 16), "float32")):
        T.device_entry()
        T.cta_id([1])
        T.thread_id([32])
        r = A[0:8, 4:12]
        s = T.alloc_shared((4, 8), "float32")
        Tx.cta.copy(s, half(r))
        T.cuda.cta_sync()
        Tx.cta.copy(B[2:6][0:4, 8:16], s[0:4][:, :])
        b2 = r.buffer
        assert b2.shape[0] == 8
        row = A[3]
        Tx.cta.copy(B[0], row)
        Tx.cta.copy(B[1, 0:4], A[2, 4:8][:])

    a = rng.random((8, 16)).astype("f4")
    b = np.zeros_like(a)
    run(k, a, b)
    eq(b[2:6, 8:], a[:4, 4:12])
    eq(b[0], a[3])
    eq(b[1, :4], a[2, 4:8])


def test_scalars_arrays_and_python_values_side_by_side() -> None:

    def pair(i):
        return (i * 2, i + 1)

    @T.prim_func
    def k(A: T.Buffer((16,), "int32"), B: T.Buffer((8,), "float32")):
        T.device_entry()
        T.cta_id([1])
        t = T.thread_id([1])
        x: T.int32 = 5
        y: T.let = x + 1
        v: T.float32[8]
        w: T.int32
        x += 2
        x *= 3
        x -= 1
        x //= 2
        w = x % 7
        p, q = pair(t)
        A[0] = x
        A[1] = y
        A[2] = w
        A[3] = p
        A[4] = q
        for i in range(8):
            v[i] = T.float32(i) * 0.5
        for i in range(8):
            B[i] = v[i]
        vals = T.meta_var([3, 1, 2])
        for q in vals:
            A[5 + q] = q
        A[9] = sum([q for q in vals])
        z = T.meta_var({"a": 4})
        A[10] = z["a"]
        A[11] = getattr(T, "int32")(7)
        A[12] = -x if x > 3 else x
        A[13] = T.Select(x > 3, 1, 2)
        A[14] = x > 3 and w < 100
        A[15] = not x > 3

    a = np.zeros(16, "i4")
    b = np.zeros(8, "f4")
    run(k, a, b)
    eq(a, [10, 6, 3, 0, 1, 0, 1, 2, 3, 6, 4, 7, -10, 1, 1, 0])
    eq(b, np.arange(8) * 0.5)


def test_values_of_every_kind() -> None:

    @T.prim_func
    def k(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "uint8"), C: T.Buffer((8,), "int32")):
        T.device_entry()
        T.cta_id([1])
        t = T.thread_id([1])
        A[0] = T.float32(1.5)
        A[1] = T.float16(2.0)
        A[2] = T.int32(3)
        A[3] = T.cast(T.int32(7), "float32")
        A[4] = T.FloatImm("float32", 0.25)
        A[5] = T.IntImm("int32", 4)
        A[6] = T.max(A[0], A[1])
        A[7] = T.min(A[0], 1.0)
        A[8] = T.exp2(T.float32(3))
        A[9] = T.sqrt(T.float32(16))
        A[10] = T.floor(2.7)
        A[11] = T.ceil(T.float32(2.2))
        A[12] = T.abs(T.float32(-3))
        A[13] = T.fabs(T.float32(-4))
        A[14] = T.infinity("float32")
        A[15] = T.min_value("float32")
        B[0] = T.cast(300, "uint8")
        B[1] = T.uint8(255) + T.uint8(1)
        B[2] = T.max_value("uint8")
        C[0] = T.reinterpret("int32", T.float32(1.0))
        C[1] = T.bitwise_not(5)
        C[2] = T.cast(T.float32(2.9), "int32")
        C[3] = T.truncmod(-7, 3)
        C[4] = T.floormod(T.int32(-7), 3)
        C[5] = T.shift_left(T.int32(1), 4)
        C[6] = T.ceildiv(7, 2)
        C[7] = T.max_value("int32")

    a = np.zeros(16, "f4")
    b = np.zeros(16, "u1")
    c = np.zeros(8, "i4")
    run(k, a, b, c)
    eq(a, np.array([1.5, 2, 3, 7, 0.25, 4, 2, 1, 8, 4, 2, 3, 3, 4, np.inf, np.finfo("f4").min], "f4"))
    eq(b[:3], [44, 0, 255])
    eq(c, [1065353216, -6, 2, -1, 2, 16, 4, 2**31 - 1])


def test_every_dtype_is_stored_and_read_back() -> None:
    for dt in (
        "int8",
        "uint8",
        "int16",
        "uint16",
        "int32",
        "uint32",
        "int64",
        "uint64",
        "float16",
        "float32",
        "float64",
        "bool",
    ):

        @T.prim_func
        def kernel(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), dt), C: T.Buffer((32,), "float32")):
            T.device_entry()
            T.cta_id([1])
            tid = T.lane_id([32])
            B[tid] = T.Cast(dt, A[tid])
            C[tid] = T.cast(B[tid], "float32")

        a = np.arange(32).astype("f4")
        b = np.zeros(32, dt)
        c = np.zeros(32, "f4")
        run(kernel, a, b, c)
        eq(c, a.astype(dt).astype("f4"))
    for dt in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):

        @T.prim_func
        def kernel(A: T.Buffer((32,), "float32"), C: T.Buffer((32,), "float32")):
            T.device_entry()
            T.cta_id([1])
            tid = T.lane_id([32])
            b = T.alloc_shared((32,), dt)
            b[tid] = T.cast(A[tid], dt)
            C[tid] = T.cast(b[tid], "float32")

        a = np.arange(32).astype("f4") / 4
        c = np.zeros(32, "f4")
        run(kernel, a, c)
        close(c, a, 0.13)


def test_every_form_of_a_loop() -> None:

    @T.prim_func
    def kernel(A: T.Buffer((64,), "int32")):
        T.device_entry()
        T.cta_id([1])
        T.thread_id([1])
        for i in T.serial(4):
            A[i] = i
        for i in T.serial(4, 8):
            A[i] = i
        for i in T.serial(0, 4, annotations={"disable_unroll": True}):
            A[8 + i] = i
        for i in T.unroll(4):
            A[12 + i] = i
        for i in T.unroll(2, 6):
            A[14 + i] = i
        for i in T.vectorized(4):
            A[20 + i] = i
        for i in T.vectorized(0, 4):
            A[24 + i] = i
        for i, j in T.grid(2, 2):
            A[28 + i * 2 + j] = i * 10 + j
        for i, j, k in T.grid(2, 2, 2):
            A[32 + i * 4 + j * 2 + k] = i + j + k
        for i in range(40, 48, 2):
            A[i] = i
        for i in T.serial(0, 8, step=2):
            A[48 + i] = i
        for i in T.serial(4, unroll=False):
            A[56 + i] = i
        for i in T.serial(0, 4, unroll=True):
            A[60 + i] = i

    a = np.full(64, -1, "i4")
    w = a.copy()
    w[:8] = range(8)
    w[8:12] = range(4)
    w[12:16] = range(4)
    w[16:20] = range(2, 6)
    w[20:24] = range(4)
    w[24:28] = range(4)
    w[28:32] = [0, 1, 10, 11]
    w[32:40] = [0, 1, 1, 2, 1, 2, 2, 3]
    w[40:48:2] = range(40, 48, 2)
    w[48:56:2] = range(0, 8, 2)
    w[56:60] = range(4)
    w[60:64] = range(4)
    run(kernel, a)
    eq(a, w)


def test_grids_begin_anywhere() -> None:

    @T.prim_func
    def k(A: T.Buffer((8, 8, 8), "int32"), n: T.int32):
        T.device_entry()
        T.cta_id([1])
        T.thread_id([1])
        for i, j, l in T.grid((1, n), 4, (2, 4)):
            A[i, j, l] = i * 100 + j * 10 + l
        for i, j in T.grid([6, 8], (0, 2)):
            A[i, j, 7] = 1
        for i in T.grid(2):
            A[0, i, 0] = 5

    a = np.full((8, 8, 8), -1, "i4")
    run(k, a, 5)
    w = np.full_like(a, -1)
    for i in range(1, 5):
        for j in range(4):
            for l in range(2, 4):
                w[i, j, l] = i * 100 + j * 10 + l
    w[6:8, :2, 7] = 1
    w[0, :2, 0] = 5
    eq(a, w)


def test_annotations_of_other_compilers_leave_loops_alone() -> None:

    @T.prim_func
    def kernel(A: T.Buffer((16,), "int32")):
        T.device_entry()
        T.cta_id([1])
        T.thread_id([1])
        for i in T.serial(4, annotations={"pragma_unroll_explicit": False}):
            A[i] = i
        for i in T.serial(4, annotations={"pragma_unroll_factor": 3}):
            A[4 + i] = i
        for i in T.unroll(4, annotations={"pragma_unroll_factor": 2}):
            A[8 + i] = i
        for i in T.serial(4, annotations={"software_pipeline_stage": [0, 1]}):
            A[12 + i] = i

    a = np.full(16, -1, "i4")
    run(kernel, a)
    eq(a, np.arange(16) % 4)


def test_loops_end_early_and_branches_nest() -> None:

    @T.prim_func
    def kernel(A: T.Buffer((16,), "int32")):
        T.device_entry()
        T.cta_id([1])
        T.thread_id([1])
        i: T.int32
        i = 0
        while i < 16:
            if i == 3:
                i += 1
                continue
            elif i == 10:
                break
            else:
                A[i] = i if i % 2 == 0 else -i
            i += 1
        j: T.int32 = 0
        while T.bool(True):
            if j >= 4:
                break
            A[12 + j] = T.if_then_else(j > 1, 7, 8)
            j = j + 1
        for k in range(4):
            if k == 2:
                break
            A[10 + k] = 5

    a = np.full(16, -99, "i4")
    run(kernel, a)
    w = np.full(16, -99)
    for i in range(10):
        if i != 3:
            w[i] = i if i % 2 == 0 else -i
    w[12:] = [8, 8, 7, 7]
    w[10:12] = 5
    eq(a, w)


def test_branches_by_with_and_conditions_with_three_parts() -> None:

    @T.prim_func
    def k(A: T.Buffer((8,), "int32")):
        T.device_entry()
        T.cta_id([1])
        t = T.thread_id([8])
        with T.If(t < 4):
            with T.Then():
                A[t] = 1
            with T.Else():
                A[t] = 2
        if t < 2 and (t > 0 or A[t] == 9):
            A[t] = 5
        if not t != 7:
            A[t] = 6
        A[t] = A[t] if T.likely(t < 8) else 0

    a = np.zeros(8, "i4")
    run(k, a)
    eq(a, [1, 5, 1, 1, 2, 2, 2, 6])


def test_inline_functions_nest_take_functions_and_any_arguments() -> None:
    K = 3

    @T.inline
    def scale(buf, i, f=2.0):
        buf[i] = buf[i] * f
        for j in range(2):
            buf[i] = buf[i] + T.float32(K)

    @T.inline
    def nested(buf, i):
        scale(buf, i)
        scale(buf, i, f=0.5)

    @T.inline
    def with_lambda(buf, i, fn):
        buf[i] = fn(buf[i])

    @T.prim_func
    def k(A: T.Buffer((64,), "float32")):

        @T.inline
        def local_macro(i, *args, **kw):
            A[i] += args[0] + kw["z"]

        T.device_entry()
        T.cta_id([1])
        t = T.thread_id([64])
        nested(A, t)
        with_lambda(A, t, lambda x: x - 1.0)
        local_macro(t, 1.0, z=2.0)

    a = rng.integers(0, 9, 64).astype("f4")
    w = (a * 2 + 6) / 2 + 6 - 1 + 3
    run(k, a)
    eq(a, w)


def test_classes_with_state_inherit() -> None:

    @T.meta_class
    class Base:
        def __init__(self, prefix, n):
            self.n = n
            self.prefix = prefix
            self.idx = T.local_scalar("int32")
            self.buf = T.alloc_shared((n,), "float32")

        @T.inline
        def init(self, v):
            self.idx = v

        @T.inline
        def push(self, x):
            self.buf[self.idx] = x
            self.idx = self.idx + 1

        def full(self):
            return self.idx >= self.n

    @T.meta_class
    class Sub(Base):
        def __init__(self, n):
            super().__init__("sub", n)
            self.total = T.alloc_local([1], "float32")

        @T.inline
        def drain(self, out):
            self.total[0] = T.float32(0)
            for i in T.serial(self.n):
                self.total[0] += self.buf[i]
            out[0] = self.total[0]

    @T.prim_func
    def kernel(A: T.Buffer((8,), "float32"), B: T.Buffer((2,), "float32")):
        T.device_entry()
        T.cta_id([1])
        T.thread_id([1])
        q = T.meta_var(Sub(8))
        q.init(0)
        while not q.full():
            q.push(A[q.idx] * 2.0)
        q.drain(B)
        q2 = Sub(4)
        q2.init(T.int32(0))
        for _ in range(4):
            q2.push(1.0)
        q2.drain(T.decl_buffer((1,), "float32", data=B.data, elem_offset=1))

    a = rng.integers(0, 9, 8).astype("f4")
    b = np.zeros(2, "f4")
    run(kernel, a, b)
    eq(b, [a.sum() * 2, 4])


def test_a_persistent_scheduler_visits_every_tile() -> None:

    @T.prim_func
    def k(A: T.Buffer((10, 7), "int32")):
        T.device_entry()
        bx = T.cta_id([4])
        t = T.thread_id([1])
        sch = T.meta_var(
            T.ClusterPersistentScheduler2D("s", num_m_tiles=10, num_n_tiles=7, num_clusters=4, l2_group_size=4)
        )
        sch.init(bx)
        n: T.int32 = 0
        while sch.valid():
            A[sch.m_idx, sch.n_idx] = n
            n += 1
            sch.next_tile()

    a = np.full((10, 7), -1, "i4")
    run(k, a)
    assert (a >= 0).all()


def test_kernels_are_private_and_have_constants() -> None:

    @T.prim_func(private=True, check_well_formed=False)
    def k1(a: T.handle, n: T.int32):
        A = T.match_buffer(a, (n,), "int32")
        T.device_entry()
        bx, tid = (T.cta_id([T.ceildiv(n, 32)]), T.thread_id([32]))
        if bx * 32 + tid < n:
            A[bx * 32 + tid] = n

    a = np.zeros(50, "i4")
    run(k1, a, 50)
    eq(a, 50)

    @T.jit
    def k2(A: T.Buffer((64,), "int32"), *, N: T.constexpr, dtype: T.constexpr = "int32"):
        T.device_entry()
        T.cta_id([1])
        tid = T.thread_id([N])
        v: T.let = T.cast(tid, dtype)
        A[tid] = v * N

    a = np.zeros(64, "i4")
    run(k2.specialize(N=64), a)
    eq(a, np.arange(64) * 64)


def test_constants_have_defaults() -> None:

    @T.jit
    def k(A_ptr: T.handle, B: T.Buffer((64,), "float32"), s: T.float32, *, N: T.constexpr, BLK: T.constexpr = 32):
        A = T.match_buffer(A_ptr, (N,), "float32")
        T.device_entry()
        bx = T.cta_id([N // BLK])
        t = T.thread_id([BLK])
        B[bx * BLK + t] = A[bx * BLK + t] * s

    a = rng.random(64).astype("f4")
    b = np.zeros_like(a)
    run(k.specialize(N=64, BLK=16), a, b, 2.0)
    eq(b, a * 2)
    run(k.specialize(N=64), a, b, 3.0)
    eq(b, a * np.float32(3))


def test_symbolic_extents_get_numbers_by_name_and_by_variable() -> None:

    @T.prim_func
    def k(a: T.handle, b: T.handle, n: T.int32):
        A = T.match_buffer(a, (n, 16), "float32")
        B = T.match_buffer(b, (n, 16), "float32")
        T.device_entry()
        bx = T.cta_id([n])
        t = T.thread_id([16])
        B[bx, t] = A[bx, t] + 1.0

    n = k.params[2]
    f = k.specialize({n: 8})
    a = rng.random((8, 16)).astype("f4")
    b = np.zeros_like(a)
    run(f, a, b)
    eq(b, a + 1)

    @T.prim_func
    def k2(a: T.handle, b: T.handle):
        m = T.int32()
        A = T.match_buffer(a, (m, 16), "float32")
        B = T.match_buffer(b, (m, 16), "float32")
        T.device_entry()
        bx = T.cta_id([m])
        t = T.thread_id([16])
        B[bx, t] = A[bx, t] + 1.0

    f = k2.specialize(m=8)
    b[:] = 0
    run(f, a, b)
    eq(b, a + 1)
    f = k2.specialize({"m": 8})
    b[:] = 0
    run(f, a, b)
    eq(b, a + 1)
    f = k2.specialize({k2.buffers[0].shape[0]: 8})
    b[:] = 0
    run(f, a, b)
    eq(b, a + 1)


def test_settings_of_other_compilers_leave_functions_alone() -> None:

    @T.prim_func
    def k(A: T.Buffer((64,), "float32")):
        T.func_attr(
            {
                "global_symbol": "main",
                "tir.noalias": T.bool(True),
                "tir.is_entry_func": True,
                "tirx.kernel_launch_params": [],
            }
        )
        T.device_entry()
        T.cta_id([1])
        A[T.thread_id([64])] = 1.0

    a = np.zeros(64, "f4")
    run(k, a)


def test_launch_bounds_and_remarks() -> None:

    @T.prim_func
    def k(A: T.Buffer((16,), "float32")):
        T.device_entry()
        T.attr({"tirx.launch_bounds_min_blocks_per_sm": 2})
        T.cta_id([1])
        t = T.thread_id([16])
        T.hint("stage", n=1)
        with T.hint("loop"):
            A[t] = 1.0

    a = np.zeros(16, "f4")
    run(k, a)
    eq(a, 1)
