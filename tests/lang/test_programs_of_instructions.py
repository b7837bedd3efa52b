"""Programs of TIRx's documents: instructions by their names, pointers, what the host encodes.

Each is run under every check against NumPy, its script reads back, and its CUDA text is assembled for its target.
"""

# ruff: noqa: B007, B018, B023, E741, F841
# Kernels are parsed, not run: they are programs of others, as others write them.
from __future__ import annotations

import numpy as np

import tilewright as tw
from tests.lang.programs import data, eq, multiplied, rng, run
from tests.toys import ptx
from tilewright import T, Tx
from tilewright.layout import S, TileLayout, mma_shared_layout


def test_a_pointer_into_the_peers_memory_is_a_buffer_there() -> None:

    @T.prim_func
    def kernel(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        T.device_entry()
        cx = T.cta_id_in_cluster([2])
        T.cta_id([2])
        t = T.lane_id([32])
        s = T.alloc_shared((32,), "float32")
        s[t] = A[cx * 32 + t]
        T.cuda.cluster_sync()
        ptr: T.let[T.Var(name="ptr", dtype=T.PointerType(T.PrimType("float32")))] = T.reinterpret(
            "handle", T.ptx.map_shared_rank(s.ptr_to([0]), 1 - cx)
        )
        v = T.decl_buffer([32], "float32", data=ptr, scope="shared")
        B[cx * 32 + t] = v[t]
        T.cuda.cluster_sync()

    a = rng.random(64).astype("f4")
    b = np.zeros(64, "f4")
    run(kernel, a, b)
    eq(b, np.r_[a[32:], a[:32]])


def test_vectors_are_loaded_scaled_and_stored() -> None:

    @T.prim_func
    def kernel(A: T.Buffer((128,), "float32"), B: T.Buffer((128,), "float32"), C: T.Buffer((64,), "float16")):
        T.device_entry()
        T.cta_id([1])
        t = T.lane_id([32])
        v = A.vload([t * 4], dtype="float32x4")
        B.vstore([t * 4], v * T.Broadcast(T.float32(2), 4))
        h: T.float16x2 = T.float16x2(1.0, 2.0)
        C.vstore([t * 2], h)

    a = rng.random(128).astype("f4")
    b = np.zeros_like(a)
    c = np.zeros(64, "f2")
    run(kernel, a, b, c)
    eq(b, a * 2)


def test_a_barrier_of_the_peer_counts_arrivals_from_both() -> None:

    @T.prim_func
    def k(A: T.Buffer((2,), "int32")):
        T.device_entry()
        cx = T.cta_id_in_cluster([2])
        bx = T.cta_id([2])
        t = T.thread_id([32])
        pool = T.meta_var(T.SMEMPool())
        bar = T.meta_var(T.MBarrier(pool, 2))
        pool.commit()
        bar.init(2)
        T.ptx.fence.mbarrier_init()
        T.cuda.cluster_sync()
        if t == 0:
            bar.arrive(1, cta_id=0, pred=True)
            bar.remote_view(1).arrive(1)
        bar.wait(1, 0)
        if t == 0:
            A[bx] = 1 + cx
        T.cuda.cluster_sync()

    a = np.zeros(2, "i4")
    run(k, a)


def test_the_host_encodes_a_tensor_map_by_hand() -> None:
    for swizzle, cols in ((0, 64), (1, 16), (2, 32), (3, 64)):
        lay = mma_shared_layout("float16", swizzle, (8, cols)) if swizzle else TileLayout(S[8, cols])

        @T.prim_func
        def main(A_ptr: T.handle, B_ptr: T.handle):
            A = T.match_buffer(A_ptr, (32, 64), "float16", align=16)
            B = T.match_buffer(B_ptr, (8, cols), "float16", align=16)
            A_map: T.let[T.handle("tensormap")] = T.tvm_stack_alloca("tensormap", 1)
            T.call_packed(
                "runtime.cuTensorMapEncodeTiled",
                A_map,
                "float16",
                2,
                A.data,
                64,
                32,
                128,
                cols,
                8,
                1,
                1,
                0,
                swizzle,
                0,
                0,
            )
            T.device_entry()
            bx = T.cta_id([1])
            tid = T.thread_id([32])
            smem = T.alloc_buffer((8, cols), "float16", scope="shared", layout=lay, align=1024)
            bar = T.alloc_shared((1,), "uint64")
            if tid == 0:
                T.ptx.mbarrier.init(bar.ptr_to([0]), 1)
                T.ptx.fence.proxy_async("shared::cta")
                T.ptx.mbarrier.arrive.expect_tx(bar.ptr_to([0]), 8 * cols * 2)
                T.ptx.cp_async.bulk.tensor.g2c(2, smem.data, bar.ptr_to([0]), T.address_of(A_map), 0, 1, "", 0, 16)
            T.cuda.cta_sync()
            T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)
            for i in range(8):
                for j in T.serial(0, T.ceildiv(cols, 32)):
                    if j * 32 + tid < cols:
                        B[i, j * 32 + tid] = smem[i, j * 32 + tid]

        a = rng.random((32, 64)).astype("f2")
        b = np.zeros((8, cols), "f2")
        run(main, a, b)
        eq(b, a[16:24, :cols])


def test_copies_of_4_8_and_16_bytes_with_predicate_and_barrier() -> None:
    for n, dt in ((16, "float32"), (8, "float32"), (4, "float32")):
        k = n // 4

        @T.prim_func
        def kernel(A: T.Buffer((32 * k,), "float32"), B: T.Buffer((32 * k,), "float32")):
            T.device_entry()
            T.cta_id([1])
            t = T.lane_id([32])
            s = T.alloc_shared((32 * k,), "float32", align=16)
            T.ptx.cp_async(s.ptr_to([t * k]), A.ptr_to([t * k]), n, predicate=t < 16, fill_mode="zero")
            T.ptx.cp_async.commit_group()
            T.ptx.cp_async.wait_group()
            T.cuda.cta_sync()
            for i in range(k):
                B[t * k + i] = s[t * k + i]

        a = rng.random(32 * k).astype("f4")
        b = np.ones_like(a)
        run(kernel, a, b)
        w = a.copy()
        w[16 * k :] = 0
        eq(b, w)

    @T.prim_func
    def signalled(A: T.Buffer((128,), "float32"), B: T.Buffer((128,), "float32")):
        T.device_entry()
        T.cta_id([1])
        t = T.lane_id([32])
        s = T.alloc_shared((128,), "float32", align=16)
        bar = T.alloc_shared([1], "uint64")
        if t == 0:
            T.ptx.mbarrier.init(bar.data, 32)
        T.cuda.cta_sync()
        T.ptx.cp_async(s.ptr_to([t * 4]), A.ptr_to([t * 4]), 16, prefetch_size=128)
        T.ptx.cp_async.mbarrier.arrive(bar.data)
        T.ptx.mbarrier.arrive(bar.data)
        T.ptx.mbarrier.try_wait(bar.data, 0)
        for i in range(4):
            B[t * 4 + i] = s[t * 4 + i]

    a = rng.random(128).astype("f4")
    b = np.ones_like(a)
    run(signalled, a, b)
    eq(a, b)

    @T.prim_func
    def hinted(A: T.Buffer((128,), "float32"), B: T.Buffer((128,), "float32")):
        T.device_entry()
        T.cta_id([1])
        t = T.lane_id([32])
        s = T.alloc_shared((128,), "float32", align=16)
        bar = T.alloc_shared([1], "uint64")
        T.ptx.cp_async(s.ptr_to([t * 4]), A.ptr_to([t * 4]), 16, cache_hint="evict_first", prefetch_size=64)
        T.ptx.cp_async.commit_group()
        T.ptx.cp_async.wait_group(0)
        T.cuda.cta_sync()
        for i in range(4):
            B[t * 4 + i] = s[t * 4 + i]

    run(hinted, a, b)
    eq(a, b)


def test_bulk_copies_in_and_out() -> None:

    @T.prim_func
    def k(A: T.Buffer((256,), "float32"), B: T.Buffer((256,), "float32")):
        T.device_entry()
        T.cta_id([1])
        t = T.thread_id([32])
        s = T.alloc_shared((256,), "float32", align=128)
        bar = T.alloc_shared([1], "uint64")
        if t == 0:
            T.ptx.mbarrier.init(bar.data, 1)
            T.ptx.fence.proxy_async("shared::cta")
            T.ptx.cp_async_bulk_g2s_cta(s.data, A.data, 1024, bar.data)
            T.ptx.mbarrier.arrive.expect_tx(bar.data, 1024)
        T.cuda.cta_sync()
        T.ptx.mbarrier.try_wait(bar.data, 0)
        for i in range(8):
            s[i * 32 + t] = s[i * 32 + t] + 1.0
        T.ptx.fence.proxy_async("shared::cta")
        T.cuda.cta_sync()
        if t == 0:
            T.ptx.cp_async_bulk_s2g(B.data, s.data, 1024)
            T.ptx.cp_async.bulk.commit_group()
            T.ptx.cp_async.bulk.wait_group()

    a = rng.random(256).astype("f4")
    b = np.zeros_like(a)
    run(k, a, b)
    eq(b, a + 1)


def test_matrices_are_loaded_and_stored_by_pointers() -> None:

    @T.prim_func
    def k(A: T.Buffer((16, 16), "float16"), B: T.Buffer((32, 8), "float16"), C: T.Buffer((16, 16), "float16")):
        T.device_entry()
        T.cta_id([1])
        l = T.lane_id([32])
        s = T.alloc_shared((16, 16), "float16", align=16)
        d = T.alloc_shared((16, 16), "float16", align=16)
        r = T.alloc_local((8,), "float16")
        Tx.cta.copy(s, A)
        T.cuda.cta_sync()
        T.ptx.ldmatrix(
            False,
            4,
            ".b16",
            s.ptr_to([l % 16, l // 16 * 8]),
            r.ptr_to([0]),
            r.ptr_to([2]),
            r.ptr_to([4]),
            r.ptr_to([6]),
        )
        for i in range(8):
            B[l, i] = r[i]
        T.ptx.stmatrix(
            False,
            4,
            ".b16",
            d.ptr_to([l % 16, l // 16 * 8]),
            T.address_of(r[0]),
            T.address_of(r[2]),
            T.address_of(r[4]),
            T.address_of(r[6]),
            shape="m8n8",
            space="shared",
        )
        T.cuda.cta_sync()
        Tx.cta.copy(C, d)

    a = data((16, 16), "f2")
    b = np.zeros((32, 8), "f2")
    c = np.zeros((16, 16), "f2")
    run(k, a, b, c)
    eq(c, a)
    l = np.arange(32)
    eq(b[:, 0], a[l // 4, l % 4 * 2])
    eq(b[:, 3], a[l // 4 + 8, l % 4 * 2 + 1])


def test_a_product_of_registers_by_pointers() -> None:

    @T.prim_func
    def k(A: T.Buffer((16, 16), "float16"), B: T.Buffer((8, 16), "float16"), D: T.Buffer((16, 8), "float32")):
        T.device_entry()
        T.cta_id([1])
        l = T.lane_id([32])
        a = T.alloc_local((8,), "float16")
        b = T.alloc_local((4,), "float16")
        d = T.alloc_local((4,), "float32")
        for r in T.unroll(4):
            for p in T.unroll(2):
                a[r * 2 + p] = A[l // 4 + r % 2 * 8, l % 4 * 2 + p + r // 2 * 8]
        for r in T.unroll(2):
            for p in T.unroll(2):
                b[r * 2 + p] = B[l // 4, l % 4 * 2 + p + r * 8]
        for i in T.unroll(4):
            d[i] = T.float32(1)
        ptx.mma(
            "m16n8k16",
            "row",
            "col",
            "float32",
            "float16",
            "float16",
            "float32",
            [d.ptr_to([i]) for i in range(4)],
            [a.ptr_to([2 * i]) for i in range(4)],
            [b.ptr_to([0]), b.ptr_to([2])],
            [d.ptr_to([i]) for i in range(4)],
        )
        for i in T.unroll(4):
            D[l // 4 + i // 2 * 8, l % 4 * 2 + i % 2] = d[i]
        ptx.mma(
            "m16n8k16",
            "row",
            "col",
            "fp32",
            "fp16",
            "fp16",
            "fp32",
            [T.address_of(d[i]) for i in range(4)],
            [T.address_of(a[2 * i]) for i in range(4)],
            [T.address_of(b[0]), T.address_of(b[2])],
        )
        for i in T.unroll(4):
            D[l // 4 + i // 2 * 8, l % 4 * 2 + i % 2] += d[i]

    a = rng.integers(-3, 3, (16, 16)).astype("f2")
    b = rng.integers(-3, 3, (8, 16)).astype("f2")
    d = np.zeros((16, 8), "f4")
    run(k, a, b, d, target="sm_80")
    eq(d, 2 * (a.astype("f4") @ b.astype("f4").T) + 1)


def test_a_warpgroup_product_by_descriptors() -> None:
    M, N, K = (64, 64, 64)
    for dt in ("float16", "bfloat16"):
        la, lb = (mma_shared_layout(dt, 3, (M, K)), mma_shared_layout(dt, 3, (N, K)))

        @T.prim_func
        def kernel(A: T.Buffer((M, K), dt), B: T.Buffer((N, K), dt), C: T.Buffer((M, N), "float32")):
            T.device_entry()
            T.cta_id([1])
            wg = T.warpgroup_id([1])
            t = T.thread_id_in_wg([128])
            w = T.warp_id_in_wg([4])
            l = T.lane_id([32])
            sa = T.alloc_buffer((M, K), dt, scope="shared", layout=la, align=1024)
            sb = T.alloc_buffer((N, K), dt, scope="shared", layout=lb, align=1024)
            acc = T.alloc_buffer((N // 2,), "float32", scope="local")
            da = T.alloc_local([1], "uint64")
            db = T.local_scalar("uint64")
            Tx.cta.copy(sa, A)
            Tx.cta.copy(sb, B)
            T.ptx.fence.proxy_async("shared::cta")
            T.cuda.cta_sync()
            for i in T.unroll(N // 2):
                acc[i] = 0.0
            for i in T.unroll(N // 2):
                T.ptx.wgmma.noop_barrier(acc[i])
            T.ptx.wgmma.fence()
            for k in T.unroll(K // 16):
                T.ptx.wgmma.encode_matrix_descriptor(da.data, sa.ptr_to([0, k * 16]), 1, 64, 3)
                T.ptx.wgmma.encode_matrix_descriptor(T.address_of(db), sb.ptr_to([0, k * 16]), 1, 64, 3)
                T.ptx.wgmma.mma_async.ss(
                    da[0],
                    db,
                    *[acc[i] for i in range(N // 2)],
                    M=M,
                    N=N,
                    K=16,
                    in_dtype=dt,
                    out_dtype="float32",
                    transA=False,
                    transB=False,
                    scaleA=1.0,
                    scaleB=1.0,
                    scaleD=k != 0,
                )
            T.ptx.wgmma.commit_group()
            T.ptx.wgmma.wait_group(0)
            for i in T.unroll(N // 8):
                for h in T.unroll(2):
                    for p in T.unroll(2):
                        C[w * 16 + h * 8 + l // 4, i * 8 + l % 4 * 2 + p] = acc[i * 4 + h * 2 + p]

        a, b = (data((M, K), dt), data((N, K), dt))
        a = (a.astype("f4") % 7).astype(a.dtype)
        b = (b.astype("f4") % 5).astype(b.dtype)
        c = np.zeros((M, N), "f4")
        run(kernel, a, b, c)
        eq(c, a.astype("f4") @ b.astype("f4").T)


def test_a_warpgroup_product_with_a_in_registers_is_negated() -> None:
    M, N, K = (64, 32, 16)

    @T.prim_func
    def k(A: T.Buffer((M, K), "float16"), B: T.Buffer((N, K), "float16"), C: T.Buffer((M, N), "float32")):
        T.device_entry()
        T.cta_id([1])
        T.warpgroup_id([1])
        w = T.warp_id_in_wg([4])
        l = T.lane_id([32])
        sb = T.alloc_shared((N, K), "float16", layout=mma_shared_layout("float16", 1, (N, K)), align=1024)
        Tx.cta.copy(sb, B)
        T.ptx.fence.proxy_async("shared::cta")
        T.cuda.cta_sync()
        a = T.alloc_local((4,), "uint32")
        af = T.decl_buffer((8,), "float16", data=a.data, scope="local")
        for r in T.unroll(4):
            for p in T.unroll(2):
                af[r * 2 + p] = A[w * 16 + l // 4 + r % 2 * 8, l % 4 * 2 + p + r // 2 * 8]
        acc = T.alloc_local((16,), "float32")
        d = T.local_scalar("uint64")
        for i in T.unroll(16):
            acc[i] = 0.0
        T.ptx.wgmma.encode_matrix_descriptor(T.address_of(d), sb.data, 1, 16, 1)
        T.ptx.wgmma.fence()
        ptx.wgmma.mma_async.rs(
            d,
            *[a[i] for i in range(4)],
            *[acc[i] for i in range(16)],
            M=M,
            N=N,
            K=K,
            in_dtype="float16",
            out_dtype="float32",
            transA=False,
            transB=False,
            scaleA=-1.0,
            scaleB=1.0,
            scaleD=True,
        )
        T.ptx.wgmma.commit_group()
        T.ptx.wgmma.wait_group(0)
        for i in T.unroll(N // 8):
            for h in T.unroll(2):
                for p in T.unroll(2):
                    C[w * 16 + h * 8 + l // 4, i * 8 + l % 4 * 2 + p] = acc[i * 4 + h * 2 + p]

    multiplied(k, M, N, K, sign=-1)


def test_a_product_in_tensor_memory_by_descriptors() -> None:
    M, N, K = (128, 32, 64)

    @T.prim_func
    def kernel(A: T.Buffer((M, K), "float16"), B: T.Buffer((N, K), "float16"), C: T.Buffer((M, N), "float32")):
        T.device_entry()
        T.cta_id([1])
        wg = T.warpgroup_id([1])
        warp = T.warp_id_in_wg([4])
        lane = T.lane_id([32])
        tid = T.thread_id_in_wg([128])
        sa = T.alloc_buffer(
            (M, K), "float16", scope="shared", layout=mma_shared_layout("float16", 3, (M, K)), align=1024
        )
        sb = T.alloc_buffer(
            (N, K), "float16", scope="shared", layout=mma_shared_layout("float16", 3, (N, K)), align=1024
        )
        addr = T.shared_scalar("uint32")
        bar = T.alloc_shared([1], "uint64")
        dA = T.local_scalar("uint64")
        dB = T.local_scalar("uint64")
        dI = T.local_scalar("uint32")
        if warp == 0:
            T.ptx.tcgen05.alloc(T.address_of(addr), n_cols=32, cta_group=1)
        if tid == 0:
            T.ptx.mbarrier.init(bar.ptr_to([0]), 1)
        Tx.cta.copy(sa, A)
        Tx.cta.copy(sb, B)
        T.ptx.fence.proxy_async("shared::cta")
        T.ptx.fence.mbarrier_init()
        T.ptx.tcgen05.fence.before_thread_sync()
        T.cuda.cta_sync()
        T.ptx.tcgen05.fence.after_thread_sync()
        if tid == 0:
            T.ptx.tcgen05.encode_instr_descriptor(
                T.address_of(dI),
                d_dtype="float32",
                a_dtype="float16",
                b_dtype="float16",
                M=M,
                N=N,
                K=16,
                trans_a=False,
                trans_b=False,
                n_cta_groups=1,
            )
            for k in range(K // 16):
                T.ptx.tcgen05.encode_matrix_descriptor(
                    T.address_of(dA), sa.ptr_to([0, k * 16]), ldo=1, sdo=64, swizzle=3
                )
                T.ptx.tcgen05.encode_matrix_descriptor(
                    T.address_of(dB), sb.ptr_to([0, k * 16]), ldo=1, sdo=64, swizzle=3
                )
                T.ptx.tcgen05.mma(
                    T.cuda.get_tmem_addr(addr, 0, 0),
                    dA,
                    dB,
                    dI,
                    d_dtype="float32",
                    a_dtype="float16",
                    b_dtype="float16",
                    use_a_tmem=False,
                    cta_group=1,
                    enable_input_d=k != 0,
                )
            T.ptx.tcgen05.commit(bar.ptr_to([0]), cta_group=1)
        T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)
        T.cuda.cta_sync()
        T.ptx.tcgen05.fence.after_thread_sync()
        reg = T.alloc_local((N,), "float32")
        T.ptx.tcgen05.ld(addr, *[reg[i] for i in range(N)], shape="32x32b", num=32, row=warp * 32, col=0)
        T.ptx.tcgen05.wait.ld()
        for i in range(N):
            C[tid, i] = reg[i]
        T.ptx.tcgen05.fence.before_thread_sync()
        T.cuda.cta_sync()
        if warp == 0:
            T.ptx.tcgen05.relinquish_alloc_permit(cta_group=1)
            T.ptx.tcgen05.dealloc(addr, n_cols=32, cta_group=1)

    multiplied(kernel, M, N, K, target="sm_100a")


def test_pairs_of_float32_at_once() -> None:

    @T.prim_func
    def kernel(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        T.device_entry()
        T.cta_id([1])
        t = T.lane_id([32])
        d = T.alloc_local([2], "float32")
        T.ptx.fma_f32x2(
            d.data,
            T.cuda.make_float2(A[2 * t], A[2 * t + 1]),
            T.cuda.make_float2(2.0, 3.0),
            T.cuda.make_float2(1.0, 1.0),
            rounding="rn",
            ftz=True,
        )
        B[2 * t] = d[0]
        B[2 * t + 1] = d[1]
        T.ptx.add_f32x2(T.address_of(d[0]), T.cuda.make_float2(d[0], d[1]), T.cuda.make_float2(1.0, 2.0))
        B[2 * t] = d[0]
        B[2 * t + 1] = d[1]

    a = rng.integers(0, 9, 64).astype("f4")
    b = np.zeros(64, "f4")
    run(kernel, a, b, target="sm_100a")
    w = a.copy()
    w[::2] = a[::2] * 2 + 2
    w[1::2] = a[1::2] * 3 + 3
    eq(b, w)


def test_barriers_fences_atomics_and_reductions_by_name() -> None:

    @T.prim_func
    def k(A: T.Buffer((256,), "int32"), F: T.Buffer((4,), "float32")):
        T.device_entry()
        T.cta_id([1])
        wg = T.warpgroup_id([2])
        t = T.thread_id([256])
        lane = T.lane_id([32])
        w = T.warp_id([8])
        T.ptx.bar.sync(1, 256)
        if wg == 0:
            T.ptx.bar.arrive(2, 256)
        else:
            T.ptx.bar.sync(2, 256)
        T.cuda.warpgroup_sync(3 + wg)
        T.cuda.warp_sync()
        if T.ptx.elect_sync():
            A[t] = 7
        T.ptx.fence("acq_rel", "gpu")
        T.ptx.fence.proxy_async("shared::cta")
        T.ptx.fence.proxy_async("global")
        T.ptx.fence.proxy_async()
        x = T.ptx.ld(A.ptr_to([t]), "int32", "s32", space="global")
        ptx.st(A.ptr_to([t]), x + 1, space="global", ptx_type="s32")
        o = T.ptx.atom_scalar(F.ptr_to([0]), T.float32(1), "relaxed", "gpu", op="add", ptx_type="f32")
        T.ptx.red_scalar(F.ptr_to([1]), T.float32(2), op="add", ptx_type="f32")
        s = T.cuda.warp_reduce(T.cast(lane, "float32"), "sum")
        m = T.cuda.warp_reduce(lane, "max", width=8)
        if t == 40:
            F[2] = s
            F[3] = T.cast(m, "float32")

    a = np.zeros(256, "i4")
    f = np.zeros(4, "f4")
    run(k, a, f)
    w = np.ones(256)
    w[::32] = 8
    eq(a, w)
    eq(f, [256, 512, 496, 15])


def test_a_cta_reduces_by_every_operation() -> None:

    @T.prim_func
    def k(A: T.Buffer((128,), "float32"), B: T.Buffer((3,), "float32")):
        T.device_entry()
        T.cta_id([1])
        t = T.thread_id([128])
        scr = T.alloc_shared([4], "float32")
        v = T.cuda.cta_reduce(A[t], "sum", 4, scr.data)
        m = T.cuda.cta_reduce(A[t], "max", 4, scr.ptr_to([0]))
        n = T.cuda.cta_reduce(A[t], "min", num_warps=4, scratch=scr.data)
        if t == 127:
            B[0] = v
            B[1] = m
            B[2] = n

    a = rng.integers(0, 99, 128).astype("f4")
    b = np.zeros(3, "f4")
    run(k, a, b)
    eq(b, [a.sum(), a.max(), a.min()])


def test_warpgroups_hand_registers_over() -> None:

    @T.prim_func
    def k(A: T.Buffer((384,), "int32")):
        T.device_entry()
        T.cta_id([1])
        wg = T.warpgroup_id([3])
        t = T.thread_id([384])
        w = T.warp_id([12])
        if wg == 0:
            T.ptx.setmaxnreg(False, 40)
        else:
            T.ptx.setmaxnreg(True, 184)
        with T.WarpgroupRole(wg, 0):
            A[t] = 1
        with T.WarpgroupRole(wg, (1, 3)):
            A[t] = 2

    a = np.zeros(384, "i4")
    run(k, a)
    eq(a, np.r_[np.ones(128), np.full(256, 2)])


def test_shuffles_votes_bits_and_atomics() -> None:

    @T.prim_func
    def kernel(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "int32"), C: T.Buffer((8,), "int32")):
        T.device_entry()
        T.cta_id([1])
        warp = T.warp_id([1])
        lane = T.lane_id([32])
        x: T.float32 = A[lane]
        y = T.tvm_warp_shuffle_xor(T.uint32(4294967295), x, 1, 32, 32)
        z = T.tvm_warp_shuffle_down(4294967295, x, 2, 32, 32)
        u = T.tvm_warp_shuffle_up(4294967295, x, 2, 32, 32)
        v = T.tvm_warp_shuffle(4294967295, x, 5, 32, 32)
        A[32 + lane] = y + z + u + v
        m = T.tvm_warp_activemask()
        B[lane] = T.popcount(T.cuda.ballot_sync(4294967295, lane < 10))
        B[32 + lane] = (
            T.clz(lane + 1)
            + T.shift_left(1, lane % 5)
            + T.bitwise_and(lane, 3)
            + T.bitwise_xor(lane, 5)
            + T.shift_right(lane, 1)
            + T.bitwise_or(lane, 16)
            + T.truncdiv(lane, 3)
            + T.floormod(lane, 7)
            + T.truncmod(lane, 3)
            + T.floordiv(lane, 5)
        )
        old = T.cuda.atomic_add(C.ptr_to([0]), 1)
        T.cuda.atomic_add(T.address_of(C[1]), lane)
        if lane == 0:
            T.cuda.atomic_cas(C.ptr_to([2]), 0, 9)
        T.cuda.warp_sync()
        T.cuda.thread_fence()

    a = np.arange(64).astype("f4")
    b = np.zeros(64, "i4")
    c = np.zeros(8, "i4")
    run(kernel, a, b, c)
    x = np.arange(32)
    y = x ^ 1
    z = np.where(x + 2 < 32, x + 2, x)
    u = np.where(x - 2 >= 0, x - 2, x)
    eq(a[32:], y + z + u + 5)
    eq(b[:32], 10)
    eq(c[:3], [32, x.sum(), 9])
    clz = np.array([32 - int(i + 1).bit_length() for i in x])
    eq(b[32:], clz + (1 << x % 5) + (x & 3) + (x ^ 5) + (x >> 1) + (x | 16) + x // 3 + x % 7 + x % 3 + x // 5)


def test_threads_print_and_assert() -> None:

    @T.prim_func
    def kernel(A: T.Buffer((4,), "float32")):
        T.device_entry()
        T.cta_id([1])
        tid = T.thread_id([4])
        T.cuda.printf("thread %d has %f\n", tid, A[tid])
        T.cuda.device_assert(tid < 4, "tid")
        A[tid] = A[tid] + 1

    a = np.arange(4).astype("f4")
    run(kernel, a)
    eq(a, np.arange(4) + 1)


def test_cuda_source_comes_along() -> None:
    SRC = "\n__device__ __forceinline__ float my_add(float a, float b) { return a + b; }\n"

    @T.prim_func
    def kernel(A: T.Buffer((4,), "float32")):
        T.device_entry()
        T.cta_id([1])
        tid = T.thread_id([4])
        A[tid] = T.cuda.func_call("my_add", A[tid], T.float32(1.0), source_code=SRC, return_type="float32")

    tw.compile(kernel, target="sm_90a").cubin


def test_a_box_tells_a_barrier_by_its_address_of_32_bits() -> None:
    @T.prim_func
    def k(A_ptr: T.handle, B_ptr: T.handle):
        A = T.match_buffer(A_ptr, (16, 32), "float32")
        B = T.match_buffer(B_ptr, (16, 32), "float32")
        m: T.let[T.handle("tensormap")] = T.tvm_stack_alloca("tensormap", 1)
        T.call_packed("runtime.cuTensorMapEncodeTiled", m, "float32", 2, A.data, 32, 16, 128, 32, 16, 1, 1, 0, 0, 2, 0)
        T.device_entry()
        T.cta_id([1])
        tid = T.thread_id([32])
        s = T.alloc_shared((16, 32), "float32")
        bar = T.alloc_shared([1], "uint64")
        if tid == 0:
            T.ptx.mbarrier.init(bar.data, 1)
            T.ptx.fence.mbarrier_init()
            T.ptx.mbarrier.arrive.expect_tx(bar.data, 2048)
            there = T.cuda.cast_smem_ptr_to_uint(bar.data)
            T.ptx.cp_async.bulk.tensor.g2c_bar_addr(2, s.data, there, T.address_of(m), 0, 1, "", 0, 0)
        T.cuda.cta_sync()
        T.ptx.mbarrier.try_wait(bar.data, 0)
        for i in range(16):
            B[i, tid] = s[i, tid]

    a, b = rng.random((16, 32)).astype("f4"), np.zeros((16, 32), "f4")
    run(k, a, b)
    eq(b, a)
