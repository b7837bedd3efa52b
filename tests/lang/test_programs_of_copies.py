"""Programs of TIRx's documents: copies between every two memories, at once and in flight.

Each is run under every check against NumPy, its script reads back, and its CUDA text is assembled for its target.
"""

# ruff: noqa: B023, F841
# Kernels are parsed, not run: they are programs of others, as others write them.
from __future__ import annotations

import numpy as np

from tests.lang.programs import data, eq, rng, run
from tilewright import T, Tx
from tilewright.layout import (
    Layout,
    R,
    S,
    SwizzleMode,
    TCol,
    TileLayout,
    TLane,
    laneid,
    mma_shared_layout,
    tid_in_wg,
    tma_shared_layout,
    tmem_datapath_layout,
    tx,
    warpid,
    wgid,
    wid_in_wg,
)


def test_every_scope_copies_through_padded_shared_memory() -> None:
    for scope, n in (("thread", 1), ("warp", 32), ("warpgroup", 128), ("cta", 256)):
        for dtype in ("uint8", "int64"):
            shape = (16, 64)

            @T.prim_func
            def kernel(A_ptr: T.handle, B_ptr: T.handle) -> None:
                A = T.match_buffer(A_ptr, shape, dtype, layout=TileLayout(S[shape]))
                B = T.match_buffer(B_ptr, shape, dtype, layout=TileLayout(S[shape]))
                T.device_entry()
                _bx = T.cta_id([1])
                _tx = T.thread_id([n])
                s = T.alloc_buffer(shape, dtype, scope="shared", layout=TileLayout(S[shape : (72, 1)]), align=128)
                if scope == "thread":
                    Tx.copy(s[:, :], A[:, :])
                    T.cuda.cta_sync()
                    Tx.copy(B[:, :], s[:, :])
                else:
                    getattr(Tx, scope).copy(s[:, :], A[:, :])
                    T.cuda.cta_sync()
                    getattr(Tx, scope).copy(B[:, :], s[:, :])

            a = rng.integers(0, 100, shape).astype(dtype)
            b = np.zeros_like(a)
            run(kernel, a, b)
            eq(a, b)


def test_registers_over_every_thread_axis_take_what_shared_memory_has() -> None:
    for shape, lay, scope, n in [
        ((32, 8), S[(32, 8) : (1 @ laneid, 1)], "warp", 32),
        ((8, 16), S[(8, 4, 2, 2) : (4 @ laneid, 1 @ laneid, 2, 1)], "warp", 32),
        ((128, 16), S[(128, 16) : (1 @ tid_in_wg, 1)], "wg", 128),
        ((256, 4), S[(256, 4) : (1 @ tx, 1)], "cta", 256),
        ((4, 32, 4), S[(4, 32, 4) : (1 @ warpid, 1 @ laneid, 1)], "cta", 128),
        ((2, 4, 32, 4), S[(2, 4, 32, 4) : (1 @ wgid, 1 @ wid_in_wg, 1 @ laneid, 1)], "cta", 256),
        ((16, 16), S[(2, 8, 2, 4, 2) : (4, 4 @ laneid, 2, 1 @ laneid, 1)], "warp", 32),
    ]:
        for dtype in ("float16",):
            lay_ = TileLayout(lay)
            full = tuple(slice(0, e) for e in shape)

            @T.prim_func
            def kernel(A_ptr: T.handle, B_ptr: T.handle):
                A = T.match_buffer(A_ptr, shape, dtype)
                B = T.match_buffer(B_ptr, shape, dtype)
                T.device_entry()
                T.cta_id([1])
                T.thread_id([n])
                s = T.alloc_buffer(shape, dtype, scope="shared")
                r = T.alloc_buffer(shape, dtype, scope="local", layout=lay_)
                Tx.cta.copy(s[full], A[full])
                T.cuda.cta_sync()
                getattr(Tx, scope).copy(r[full], s[full])
                T.cuda.cta_sync()
                getattr(Tx, scope).copy(B[full], r[full])

            a = rng.integers(0, 100, shape).astype(dtype)
            b = np.zeros_like(a)
            run(kernel, a, b)
            eq(a, b)


def test_a_warp_turns_a_tile_also_in_its_own_place() -> None:
    for dt in ("float32", "uint8"):

        @T.prim_func
        def kernel(A: T.Buffer((32, 8), dt), B: T.Buffer((32, 8), dt)):
            T.device_entry()
            T.cta_id([1])
            T.lane_id([32])
            s = T.alloc_shared((32, 8), dt)
            t = T.alloc_shared((32, 8), dt, layout=TileLayout(S[(32, 8) : (1, 32)]))
            Tx.warp.copy(s, A)
            T.cuda.warp_sync()
            Tx.warp.permute_layout(t[:, :], s[:, :])
            T.cuda.warp_sync()
            v = T.decl_buffer((32, 8), dt, data=s.data, scope="shared", layout=TileLayout(S[(32, 8) : (1, 32)]))
            Tx.warp.permute_layout(v, s)
            T.cuda.warp_sync()
            for j in range(8):
                B[T.lane_id(), j] = v[T.lane_id(), j] + t[T.lane_id(), j]

        a = data((32, 8), dt)
        b = np.zeros_like(a)
        run(kernel, a, b)
        eq(b, a + a)


def test_boxes_go_in_and_out_under_every_swizzle() -> None:
    for dt, bits in (("bfloat16", 16), ("uint8", 8)):
        for mode in (0, 1, 2, 3):
            cols = max(16, (16 << mode) * 8 // bits)
            if mode == 0:
                lay: Layout = TileLayout(S[32, cols])
            else:
                lay = mma_shared_layout(dt, mode, (32, cols))

            @T.prim_func
            def kernel(A_ptr: T.handle, B_ptr: T.handle):
                A = T.match_buffer(A_ptr, (64, 2 * cols), dt, align=16)
                B = T.match_buffer(B_ptr, (64, 2 * cols), dt, align=16)
                T.device_entry()
                bx, by = T.cta_id([2, 2])
                tid = T.thread_id([64])
                s = T.alloc_buffer((32, cols), dt, scope="shared.dyn", layout=lay, align=1024)
                bar = T.alloc_shared((1,), "uint64", align=8)
                rows: T.let = bx * 32
                if tid == 0:
                    T.ptx.mbarrier.init(bar.ptr_to([0]), 1)
                T.ptx.fence.proxy_async("shared::cta")
                T.cuda.cta_sync()
                if tid == 0:
                    Tx.copy_async(
                        s[0:32, 0:cols],
                        A[rows : rows + 32, by * cols : by * cols + cols],
                        dispatch="tma",
                        mbar=bar.ptr_to([0]),
                        cta_group=1,
                        cache_hint="evict_last",
                    )
                    T.ptx.mbarrier.arrive.expect_tx(bar.ptr_to([0]), 32 * cols * bits // 8)
                T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)
                T.cuda.cta_sync()
                T.ptx.fence.proxy_async("shared::cta")
                T.cuda.cta_sync()
                if tid == 0:
                    Tx.copy_async(
                        B[rows : rows + 32, by * cols : by * cols + cols],
                        s[:, :],
                        dispatch="tma",
                        cache_hint="evict_first",
                    )
                    T.ptx.cp_async.bulk.commit_group()
                    T.ptx.cp_async.bulk.wait_group(0)

            a = data((64, 2 * cols), dt)
            b = np.zeros_like(a)
            run(kernel, a, b)
            assert (a == b).all()


def test_a_store_adds_to_what_memory_has_or_takes_the_least() -> None:
    for op in ("add", "min", "max"):
        for dt in ("float16", "int32"):

            @T.prim_func
            def kernel(A_ptr: T.handle, B_ptr: T.handle):
                A = T.match_buffer(A_ptr, (16, 64), dt)
                B = T.match_buffer(B_ptr, (16, 64), dt)
                T.device_entry()
                T.cta_id([1])
                tid = T.thread_id([32])
                s = T.alloc_shared((16, 64), dt)
                Tx.cta.copy(s, A)
                T.ptx.fence.proxy_async("shared::cta")
                T.cuda.cta_sync()
                if tid == 0:
                    Tx.copy_async(B[:, :], s[:, :], dispatch="tma", use_tma_reduce=op)
                    T.ptx.cp_async.bulk.commit_group()
                    T.ptx.cp_async.bulk.wait_group(0, read=False)

            a = data((16, 64), dt)
            b = data((16, 64), dt)
            b0 = b.copy()
            run(kernel, a, b)
            eq(b, {"add": np.add, "min": np.minimum, "max": np.maximum}[op](b0, a))


def test_what_lies_outside_of_an_array_is_zero_or_nan() -> None:

    @T.prim_func
    def kernel(A_ptr: T.handle, B_ptr: T.handle):
        A = T.match_buffer(A_ptr, (10, 24), "float32")
        B = T.match_buffer(B_ptr, (2, 16, 32), "float32")
        T.device_entry()
        bx = T.cta_id([2])
        tid = T.thread_id([32])
        s = T.alloc_shared((16, 32), "float32")
        bar = T.alloc_shared([1], "uint64")
        if tid == 0:
            T.ptx.mbarrier.init(bar.data, 1)
            T.ptx.fence.mbarrier_init()
            T.ptx.mbarrier.arrive.expect_tx(bar.data, 2048)
            if bx == 0:
                Tx.copy_async(s[:, :], A[0:16, 0:32], dispatch="tma", mbar=bar.data, oob="nan")
            else:
                Tx.copy_async(s[:, :], A[4:20, 8:40], dispatch="tma", mbar=bar.data, oob="zero")
        T.cuda.cta_sync()
        T.ptx.mbarrier.try_wait(bar.data, 0)
        Tx.cta.copy(B[bx], s)

    a = rng.random((10, 24)).astype("f4")
    b = np.zeros((2, 16, 32), "f4")
    run(kernel, a, b)
    w = np.full((16, 32), np.nan, "f4")
    w[:10, :24] = a
    eq(b[0], w)
    w = np.zeros((16, 32), "f4")
    w[:6, :16] = a[4:, 8:]
    eq(b[1], w)


def test_a_halo_begins_before_the_array() -> None:

    @T.prim_func
    def k(A_ptr: T.handle, B_ptr: T.handle):
        A = T.match_buffer(A_ptr, (16, 64), "float32")
        B = T.match_buffer(B_ptr, (2, 10, 64), "float32")
        T.device_entry()
        bx = T.cta_id([2])
        tid = T.thread_id([32])
        s = T.alloc_shared((10, 64), "float32")
        bar = T.alloc_shared([1], "uint64")
        if tid == 0:
            T.ptx.mbarrier.init(bar.data, 1)
            T.ptx.fence.mbarrier_init()
            T.ptx.mbarrier.arrive.expect_tx(bar.data, 2560)
            Tx.copy_async(s[:, :], A[bx * 8 - 1 : bx * 8 + 9, :], dispatch="tma", mbar=bar.data, oob="zero")
        T.cuda.cta_sync()
        T.ptx.mbarrier.try_wait(bar.data, 0)
        Tx.cta.copy(B[bx], s)

    a = rng.random((16, 64)).astype("f4")
    b = np.zeros((2, 10, 64), "f4")
    run(k, a, b)
    p = np.pad(a, ((1, 1), (0, 0)))
    eq(b[0], p[:10])
    eq(b[1], p[8:])

    @T.prim_func
    def whole(A_ptr: T.handle, B_ptr: T.handle):
        A = T.match_buffer(A_ptr, (16, 64), "float32")
        B = T.match_buffer(B_ptr, (10, 64), "float32")
        T.device_entry()
        T.cta_id([1])
        tid = T.thread_id([32])
        s = T.alloc_shared((10, 64), "float32")
        bar = T.alloc_shared([1], "uint64")
        if tid == 0:
            T.ptx.mbarrier.init(bar.data, 1)
            T.ptx.fence.mbarrier_init()
            T.ptx.mbarrier.arrive.expect_tx(bar.data, 2560)
            Tx.copy_async(s[:, :], A[-1:9, 0:64], dispatch="tma", mbar=bar.data, oob="zero")
        T.cuda.cta_sync()
        T.ptx.mbarrier.try_wait(bar.data, 0)
        Tx.cta.copy(B, s)

    b = np.zeros((10, 64), "f4")
    run(whole, a, b)
    eq(b, p[:10])


def test_copies_by_cp_async_end_in_swizzled_tiles() -> None:
    for scope, n in (("thread", 1), ("warp", 32), ("cta", 64)):

        @T.prim_func
        def kernel(A: T.Buffer((16, 64), "float16"), B: T.Buffer((16, 64), "float16")):
            T.device_entry()
            T.cta_id([1])
            T.thread_id([n])
            s = T.alloc_shared((16, 64), "float16", layout=mma_shared_layout("float16", 3, (16, 64)))
            X = T.meta_var(Tx if scope == "thread" else getattr(Tx, scope))
            X.copy_async(s[:, :], A[:, :], dispatch="ldgsts")
            T.ptx.cp_async.commit_group()
            T.ptx.cp_async.wait_group(0)
            T.cuda.cta_sync()
            Tx.cta.copy(B, s)

        a = data((16, 64), "float16")
        b = np.zeros_like(a)
        run(kernel, a, b)
        eq(a, b)


def test_a_cta_writes_into_the_shared_memory_of_its_peer() -> None:

    @T.prim_func
    def kernel(A: T.Buffer((2, 8, 64), "float16"), B: T.Buffer((2, 8, 64), "float16")):
        T.device_entry()
        cx = T.cta_id_in_cluster([2])
        bx = T.cta_id([2])
        tid = T.thread_id([32])
        s = T.alloc_shared((8, 64), "float16")
        d = T.alloc_shared((8, 64), "float16")
        bar = T.alloc_shared([1], "uint64")
        Tx.cta.copy(s, A[bx])
        if tid == 0:
            T.ptx.mbarrier.init(bar.ptr_to([0]), 1)
            T.ptx.mbarrier.arrive.expect_tx(bar.ptr_to([0]), 1024)
        T.ptx.fence.mbarrier_init()
        T.ptx.fence.proxy_async("shared::cta")
        T.cuda.cluster_sync()
        if tid == 0:
            Tx.copy_async(d[:, :], s[:, :], dispatch="dsmem", mbar=bar.ptr_to([0]), remote_cta_id=1 - cx)
        T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)
        Tx.cta.copy(B[bx], d)
        T.cuda.cluster_sync()

    a = data((2, 8, 64), "float16")
    b = np.zeros_like(a)
    run(kernel, a, b)
    eq(b, a[::-1])


def test_one_cta_has_a_box_brought_to_both() -> None:

    @T.prim_func
    def kernel(A: T.Buffer((16, 64), "float16"), B: T.Buffer((2, 16, 64), "float16")):
        T.device_entry()
        cx = T.cta_id_in_cluster([2])
        bx = T.cta_id([2])
        tid = T.thread_id([32])
        s = T.alloc_shared(
            (16, 64),
            "float16",
            layout=tma_shared_layout("float16", SwizzleMode.SWIZZLE_128B_ATOM, (16, 64)),
            align=1024,
        )
        bar = T.alloc_shared([1], "uint64")
        if tid == 0:
            T.ptx.mbarrier.init(bar.ptr_to([0]), 1)
            T.ptx.fence.mbarrier_init()
        T.ptx.barrier.cluster.arrive()
        T.ptx.barrier.cluster.wait()
        if tid == 0:
            T.ptx.mbarrier.arrive.expect_tx(bar.ptr_to([0]), 2048)
            if cx == 0:
                Tx.copy_async(s[:, :], A[:, :], dispatch="tma", mbar=bar.ptr_to([0]), cta_mask=3)
        T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)
        Tx.cta.copy(B[bx], s)
        T.cuda.cluster_sync()

    a = data((16, 64), "float16")
    b = np.zeros((2, 16, 64), "f2")
    run(kernel, a, b)
    eq(b[0], a)
    eq(b[1], a)


def test_a_pool_deals_out_plain_and_swizzled_tiles() -> None:

    @T.prim_func
    def kernel(A: T.Buffer((64, 64), "float16"), B: T.Buffer((64, 64), "float16")):
        T.device_entry()
        T.cta_id([1])
        tid = T.thread_id([128])
        buf = T.alloc_buffer((32768,), "uint8", scope="shared.dyn")
        pool = T.meta_var(T.SMEMPool(buf.data))
        x = pool.alloc((1,), "uint64", align=8)
        s1 = pool.alloc_mma((64, 64), "float16")
        s2 = pool.alloc_mma((64, 64), "float16", swizzle_mode="none")
        pool.move_base_to(1024)
        s3 = pool.alloc((64, 64), "float16", layout=mma_shared_layout("float16", 2, (64, 64)), align=1024)
        pool.commit()
        Tx.cta.copy(s3, A)
        T.cuda.cta_sync()
        Tx.cta.copy(B, s3)

    a = data((64, 64), "float16")
    b = np.zeros_like(a)
    run(kernel, a, b)
    eq(a, b)


def test_a_pool_of_tensor_memory_hands_out_columns() -> None:

    @T.prim_func
    def k(C: T.Buffer((128, 32), "float32")):
        T.device_entry()
        T.cta_id([1])
        wg = T.warpgroup_id([1])
        warp = T.warp_id([4])
        t = T.thread_id_in_wg([128])
        pool = T.meta_var(T.SMEMPool())
        tp = T.meta_var(T.TMEMPool(pool, total_cols=128, cta_group=1))
        acc = tp.alloc((128, 32), "float32")
        acc2 = tp.alloc((128, 64), "float16", cols=32)
        tp.commit()
        pool.commit()
        T.ptx.tcgen05.fence.before_thread_sync()
        T.cuda.cta_sync()
        T.ptx.tcgen05.fence.after_thread_sync()
        r = T.wg_reg_tile(32)
        for j in T.unroll(32):
            r.local()[j] = T.cast(t * 100 + j, "float32")
        Tx.wg.copy_async(acc, r)
        T.ptx.tcgen05.wait.st()
        q = T.wg_reg_tile(32)
        Tx.wg.copy_async(q, acc[:, 0:32])
        T.ptx.tcgen05.wait.ld()
        Tx.wg.copy(C, q)
        T.ptx.tcgen05.fence.before_thread_sync()
        T.cuda.cta_sync()
        tp.dealloc()

    c = np.zeros((128, 32), "f4")
    run(k, c, target="sm_100a")
    eq(c, np.arange(128)[:, None] * 100 + np.arange(32))


def test_fragments_of_every_shape_go_to_tensor_memory_and_back() -> None:
    for shape, cols in (("16x64b", 32), ("16x128b", 32), ("16x256b", 32), ("32x32b", 32)):
        rows = 128 if shape == "32x32b" else 64

        @T.prim_func
        def k(C: T.Buffer((rows, cols), "float32")):
            T.device_entry()
            T.cta_id([1])
            wg = T.warpgroup_id([1])
            warp = T.warp_id([4])
            t = T.thread_id_in_wg([128])
            addr = T.alloc_shared([1], "uint32")
            if warp == 0:
                T.ptx.tcgen05.alloc(addr.data, n_cols=32, cta_group=1)
            T.ptx.tcgen05.fence.before_thread_sync()
            T.cuda.cta_sync()
            T.ptx.tcgen05.fence.after_thread_sync()
            tm = T.decl_buffer(
                (rows, cols),
                "float32",
                scope="tmem",
                allocated_addr=addr[0],
                layout=tmem_datapath_layout("D" if rows == 128 else "F", rows, cols),
            )
            f = T.alloc_tcgen05_ldst_frag(shape, (rows, cols), "float32")
            g = T.alloc_tcgen05_ldst_frag(shape, (rows, cols), "float32")
            Tx.wg.copy(f, C)
            Tx.wg.copy_async(tm[:, :], f[:, :])
            T.ptx.tcgen05.wait.st()
            Tx.wg.copy_async(g[:, 0:16], tm[:, 0:16])
            Tx.wg.copy_async(g[:, 16:32], tm[:, 16:32])
            T.ptx.tcgen05.wait.ld()
            Tx.wg.add(g, g, 1.0)
            Tx.wg.copy(C, g)
            T.ptx.tcgen05.fence.before_thread_sync()
            T.cuda.cta_sync()
            if warp == 0:
                T.ptx.tcgen05.relinquish_alloc_permit(cta_group=1)
                T.ptx.tcgen05.dealloc(addr[0], n_cols=32, cta_group=1)

        c = rng.integers(0, 99, (rows, cols)).astype("f4")
        c0 = c.copy()
        run(k, c, target="sm_100a")
        eq(c, c0 + 1)


def test_bytes_of_shared_memory_reach_the_lanes_of_all_four_warps() -> None:

    @T.prim_func
    def k(A: T.Buffer((32, 16), "uint8"), B: T.Buffer((128, 16), "uint8")):
        T.device_entry()
        T.cta_id([1])
        T.warpgroup_id([1])
        warp = T.warp_id([4])
        t = T.thread_id_in_wg([128])
        s = T.alloc_buffer([32, 16], "uint8", scope="shared", layout=TileLayout(S[(32, 16) : (16, 1)]), align=1024)
        addr = T.alloc_shared([1], "uint32")
        bar = T.alloc_shared([1], "uint64")
        if warp == 0:
            T.ptx.tcgen05.alloc(T.address_of(addr), n_cols=32, cta_group=1)
        if t == 0:
            T.ptx.mbarrier.init(bar.ptr_to([0]), 1)
        Tx.cta.copy(s, A)
        T.ptx.fence.proxy_async("shared::cta")
        T.ptx.fence.mbarrier_init()
        T.ptx.tcgen05.fence.before_thread_sync()
        T.cuda.cta_sync()
        T.ptx.tcgen05.fence.after_thread_sync()
        tm = T.decl_buffer(
            [32, 16],
            "uint8",
            scope="tmem",
            allocated_addr=addr[0],
            layout=TileLayout(S[(32, 16) : (1 @ TLane, 1 @ TCol)] + R[4 : 32 @ TLane]),
        )
        if t == 0:
            Tx.copy_async(tm[0:32, 0:16], s[0:32, 0:16], cta_group=1)
            T.ptx.tcgen05.commit(bar.ptr_to([0]), cta_group=1)
        T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)
        T.ptx.tcgen05.fence.after_thread_sync()
        r = T.alloc_local((4,), "uint32")
        T.ptx.tcgen05.ld(addr[0], r[0], r[1], r[2], r[3], shape="32x32b", num=4, row=warp * 32, col=0)
        T.ptx.tcgen05.wait.ld()
        rb = T.decl_buffer((16,), "uint8", data=r.data, scope="local")
        for i in range(16):
            B[t, i] = rb[i]
        T.ptx.tcgen05.fence.before_thread_sync()
        T.cuda.cta_sync()
        if warp == 0:
            T.ptx.tcgen05.relinquish_alloc_permit(cta_group=1)
            T.ptx.tcgen05.dealloc(addr[0], n_cols=32, cta_group=1)

    a = data((32, 16), "u1")
    b = np.zeros((128, 16), "u1")
    run(k, a, b, target="sm_100a")
    eq(b, np.tile(a, (4, 1)))


def test_copies_leave_out_or_fill_what_comes_before_an_array() -> None:
    @T.prim_func
    def k(
        A: T.Buffer((16, 32), "float32"),
        B: T.Buffer((10, 32), "float32"),
        C: T.Buffer((10, 32), "float32"),
        D: T.Buffer((16, 32), "float32"),
    ):
        T.cta_id([1])
        T.thread_id([32])
        Tx.cta.copy(B, A[-2:8, :], fill=5)
        Tx.cta.copy(C, A[-2:8, :], clip=True)
        Tx.cta.copy(D[-2:8, :], A[0:10, :], clip=True)

    a, d = rng.random((16, 32)).astype("f4"), np.zeros((16, 32), "f4")
    b, c = np.zeros((10, 32), "f4"), np.zeros((10, 32), "f4")
    run(k, a, b, c, d)
    eq(b, np.r_[np.full((2, 32), 5), a[:8]])
    eq(c, np.r_[np.zeros((2, 32)), a[:8]])
    eq(d, np.r_[a[2:10], np.zeros((8, 32))])
