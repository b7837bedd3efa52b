"""Programs of TIRx's documents: tile calls that compute, in every scope, and products.

Each is run under every check against NumPy, its script reads back, and its CUDA text is assembled for its target.
"""

# ruff: noqa: B023, F841, SIM102
# Kernels are parsed, not run: they are programs of others, as others write them.
from __future__ import annotations

import numpy as np

from tests.lang.programs import close, eq, multiplied, rng, run
from tilewright import T, Tx
from tilewright.layout import S, TCol, TileLayout, TLane, laneid, mma_shared_layout, tid_in_wg, tx, wid_in_wg


def test_tiles_are_added_and_divided_by_every_scope() -> None:
    ops = {
        "sub": np.subtract,
        "fdiv": np.divide,
        "maximum": np.maximum,
    }
    for name, f in ops.items():
        for scope, n, lay in (
            ("thread", 1, S[8, 4]),
            ("warp", 32, S[(32, 4) : (1 @ laneid, 1)]),
            ("cta", 64, S[(64, 4) : (1 @ tx, 1)]),
            ("warpgroup", 128, S[(128, 4) : (1 @ tid_in_wg, 1)]),
        ):
            shape = (lay.size() // 4, 4)

            @T.prim_func
            def kernel(A: T.Buffer(shape, "float32"), B: T.Buffer(shape, "float32"), C: T.Buffer(shape, "float32")):
                T.device_entry()
                T.cta_id([1])
                T.thread_id([n])
                a = T.alloc_buffer(shape, "float32", scope="local", layout=TileLayout(lay))
                b = T.alloc_buffer(shape, "float32", scope="local", layout=TileLayout(lay))
                c = T.alloc_buffer(shape, "float32", scope="local", layout=TileLayout(lay))
                X = T.meta_var(Tx if scope == "thread" else getattr(Tx, scope))
                X.copy(a, A)
                X.copy(b[:, :], B[:, :])
                op = T.meta_var(getattr(X, name))
                op(c, a, b)
                op(c[:, :], c, 2.0)
                X.copy(C, c)

            x, y = (rng.random(shape).astype("f4") + 1, rng.random(shape).astype("f4") + 1)
            z = np.zeros_like(x)
            run(kernel, x, y, z)
            eq(z, f(f(x, y), np.float32(2)))


def test_a_function_of_a_tile_scales_before_it_adds_its_bias() -> None:
    for name, f in {"sqrt": np.sqrt, "exp2": np.exp2}.items():
        for scope in ("shared", "local"):

            @T.prim_func
            def kernel(
                A: T.Buffer((32, 8), "float32"), B: T.Buffer((32, 8), "float32"), bias: T.Buffer((8,), "float32")
            ):
                T.device_entry()
                T.cta_id([1])
                T.thread_id([32])
                lay = T.meta_var(TileLayout(S[(32, 8) : (1 @ laneid, 1)]) if scope == "local" else None)
                t = T.alloc_buffer((32, 8), "float32", scope=scope, layout=lay)
                u = T.alloc_buffer((32, 8), "float32", scope=scope, layout=lay)
                Tx.cta.copy(t, A)
                T.cuda.cta_sync()
                fn = T.meta_var(getattr(Tx.cta, name))
                fn(u, t, bias=0.25, scale=T.float32(0.5))
                T.cuda.cta_sync()
                fn(u)
                T.cuda.cta_sync()
                fn(u, u, None, 0.5)
                T.cuda.cta_sync()
                Tx.cta.copy(B, u)

            a = rng.random((32, 8)).astype("f4") / 4
            b = np.zeros_like(a)
            run(kernel, a, b, np.zeros(8, "f4"))
            close(b, f(f(f(a * 0.5 + 0.25)) * 0.5), 1e-05)


def test_select_asks_its_predicate_for_every_place() -> None:
    for scope in ("shared", "local"):

        @T.prim_func
        def kernel(A: T.Buffer((32, 32), "float32"), B: T.Buffer((32, 32), "float32")):
            T.device_entry()
            T.cta_id([1])
            T.lane_id([32])
            lay = T.meta_var(TileLayout(S[(32, 32) : (1 @ laneid, 1)]) if scope == "local" else None)
            t = T.alloc_buffer((32, 32), "float32", scope=scope, layout=lay)
            Tx.warp.copy(t, A)
            T.cuda.warp_sync()
            Tx.warp.select(t[:, :], t[:, :], -1.0, lambda i, j: i >= j)
            T.cuda.warp_sync()
            Tx.warp.copy(B, t)

        a = rng.random((32, 32)).astype("f4")
        b = np.zeros_like(a)
        run(kernel, a, b)
        eq(b, np.where(np.tril(np.ones((32, 32))) > 0, a, -1))


def test_rows_and_columns_broadcast_over_tiles_of_two_types() -> None:

    @T.prim_func
    def k(A: T.Buffer((32, 16), "float16"), B: T.Buffer((32, 16), "float32"), C: T.Buffer((32, 16), "float32")):
        T.device_entry()
        T.cta_id([1])
        T.thread_id([64])
        a = T.alloc_shared((32, 16), "float16")
        b = T.alloc_shared((32, 16), "float32")
        c = T.alloc_shared((32, 16), "float32")
        row = T.alloc_shared((1, 16), "float32")
        r1 = T.alloc_shared((16,), "float32")
        col = T.alloc_shared((32, 1), "float32")
        Tx.cta.copy(a, A)
        Tx.cta.copy(b, B)
        Tx.cta.fill(row, 2.0)
        Tx.cta.fill(r1, 3.0)
        Tx.cta.fill(col, 4.0)
        T.cuda.cta_sync()
        Tx.cta.add(c, a, b)
        Tx.cta.mul(c, c, row)
        Tx.cta.add(c, r1, c)
        Tx.cta.sub(c, c, col)
        Tx.cta.fma(c, c, 2.0, col)
        Tx.cta.fma(c[0:16, :], c[0:16, :], row, r1)
        Tx.cta.silu(b, b)
        Tx.cta.reciprocal(b)
        T.cuda.cta_sync()
        Tx.cta.cast(a, c)
        Tx.cta.copy(C, c)
        Tx.cta.copy(B, b)

    a = rng.integers(0, 5, (32, 16)).astype("f2")
    b = (rng.random((32, 16)) + 1).astype("f4")
    b0 = b.astype("f8")
    c = np.zeros((32, 16), "f4")
    run(k, a, b, c)
    w = ((a + b0) * 2 + 3 - 4) * 2 + 4
    w[:16] = w[:16] * 2 + 3
    close(c, w, 1e-05)
    close(b, (1 + np.exp(-b0)) / b0, 1e-05)


def test_a_fragment_is_cast_to_every_narrower_type_and_back() -> None:
    for src, dst in (
        ("float32", "float16"),
        ("float16", "float32"),
        ("float32", "bfloat16"),
        ("bfloat16", "float32"),
        ("float32", "float8_e4m3fn"),
        ("int32", "float32"),
    ):

        @T.prim_func
        def k(A: T.Buffer((128, 16), "float32"), B: T.Buffer((128, 16), "float32")):
            T.device_entry()
            T.cta_id([1])
            T.warpgroup_id([1])
            T.thread_id_in_wg([128])
            r0 = T.wg_reg_tile(16)
            r = T.wg_reg_tile(16, src)
            d = T.alloc_cast_frag(r, dst)
            e = T.wg_reg_tile(16)
            Tx.wg.copy(r0, A)
            Tx.wg.cast(r, r0)
            Tx.wg.cast(d[:, :], r[:, :])
            Tx.wg.cast(e, d)
            Tx.wg.copy(B, e)

        a = rng.integers(0, 8, (128, 16)).astype("f4")
        b = np.zeros_like(a)
        run(k, a, b)
        eq(a, b)


def test_parts_of_every_memory_are_filled_and_zeroed() -> None:
    for scope, mem in (("thread", "local"), ("warp", "shared"), ("cta", "shared"), ("cta", "global")):

        @T.prim_func
        def kernel(B: T.Buffer((16, 16), "float32")):
            T.device_entry()
            T.cta_id([1])
            T.thread_id([32 if scope != "thread" else 1])
            X = T.meta_var(Tx if scope == "thread" else getattr(Tx, scope))
            if mem == "global":
                X.fill(B[:, :], T.float32(3))
                T.cuda.cta_sync()
                X.zero(B[4:8, :])
                T.cuda.cta_sync()
                X.memset(B[8:, 8:16], 7)
            else:
                t = T.alloc_buffer((16, 16), "float32", scope=mem)
                X.fill(t[:, :], T.float32(3))
                T.cuda.cta_sync()
                X.zero(t[4:8, :], t[4:8, :])
                T.cuda.cta_sync()
                X.memset(t[8:16, 8:16], 7)
                T.cuda.cta_sync()
                X.copy(B, t)

        b = np.zeros((16, 16), "f4")
        w = np.full((16, 16), 3, "f4")
        w[4:8] = 0
        w[8:, 8:] = 7
        run(kernel, b)
        eq(b, w)


def test_a_thread_reduces_along_any_axes_and_goes_on_from_what_is_there() -> None:
    for name, f in (("sum", np.sum), ("max", np.max)):

        @T.prim_func
        def kernel(
            A: T.Buffer((8, 16), "float32"),
            B: T.Buffer((8,), "float32"),
            C: T.Buffer((16,), "float32"),
            D: T.Buffer((1, 1), "float32"),
        ):
            T.device_entry()
            T.cta_id([1])
            T.thread_id([1])
            a = T.alloc_local([8, 16], "float32")
            b = T.alloc_local([8], "float32")
            c = T.alloc_local([16], "float32")
            d = T.alloc_local([1, 1], "float32")
            Tx.copy(a, A)
            op = T.meta_var(getattr(Tx, name))
            op(b, a)
            op(c[:], a[:, :], axes=0)
            op(d, a, axes=(-2, -1), accum=False)
            op(d[0, 0:1], a, axes=[0, 1], accum=True)
            Tx.copy(B, b)
            Tx.copy(C, c)
            Tx.copy(D, d)

        a = rng.integers(0, 64, (8, 16)).astype("f4")
        b, c, d = (np.zeros(8, "f4"), np.zeros(16, "f4"), np.zeros((1, 1), "f4"))
        run(kernel, a, b, c, d)
        eq(b, f(a, -1))
        eq(c, f(a, 0))
        eq(d[0, 0], f(a) * (2 if name == "sum" else 1))


def test_lanes_that_share_a_row_all_hold_its_sum() -> None:
    for name, f in (("sum", np.sum), ("max", np.max)):
        src_l = TileLayout(S[(8, 4, 2, 2) : (4 @ laneid, 1 @ laneid, 2, 1)])
        dst_l = TileLayout(S[(8, 4) : (4 @ laneid, 1 @ laneid)])

        @T.prim_func
        def kernel(A: T.Buffer((8, 16), "float32"), B: T.Buffer((8, 4), "float32")):
            T.device_entry()
            T.cta_id([1])
            T.lane_id([32])
            a = T.alloc_buffer((8, 4, 2, 2), "float32", scope="local", layout=src_l)
            b = T.alloc_buffer((8, 4), "float32", scope="local", layout=dst_l)
            Tx.warp.copy(a, A.view(8, 4, 2, 2))
            getattr(Tx.warp, name)(b, a.view(8, 16), axes=1, thread_reduce=True)
            Tx.warp.copy(B, b)

        a = rng.integers(0, 64, (8, 16)).astype("f4")
        b = np.zeros((8, 4), "f4")
        run(kernel, a, b)
        eq(b, np.repeat(f(a, 1)[:, None], 4, 1))


def test_every_scope_reduces_rows_of_shared_memory() -> None:
    for scope, n in (("thread", 1), ("warp", 32), ("wg", 128), ("cta", 96)):
        for name, f in (("min", np.min),):

            @T.prim_func
            def kernel(A: T.Buffer((6, 40), "float32"), B: T.Buffer((6,), "float32")):
                T.device_entry()
                T.cta_id([1])
                T.thread_id([n])
                a = T.alloc_shared((6, 40), "float32")
                b = T.alloc_shared([6], "float32")
                Tx.cta.copy(a, A)
                T.cuda.cta_sync()
                X = T.meta_var(Tx if scope == "thread" else getattr(Tx, scope))
                getattr(X, name)(b, a, axes=[-1], accum=False)
                T.cuda.cta_sync()
                Tx.cta.copy(B, b)

            a = rng.integers(0, 64, (6, 40)).astype("f4")
            b = np.zeros(6, "f4")
            run(kernel, a, b)
            eq(b, f(a, 1))


def test_a_warpgroup_reduces_each_row_onto_what_it_has() -> None:
    if True:

        @T.prim_func
        def k(A: T.Buffer((128, 8), "float32"), B: T.Buffer((128,), "float32")):
            T.device_entry()
            T.cta_id([1])
            T.thread_id([128])
            T.warpgroup_id([1])
            a = T.wg_reg_tile(8)
            b = T.alloc_buffer((128, 1), "float32", scope="local", layout=TileLayout(S[(128, 1) : (1 @ tid_in_wg, 1)]))
            Tx.wg.copy(a, A)
            Tx.wg.fill(b, 10.0)
            Tx.wg.max(b, a, axes=-1, accum=True)
            Tx.wg.sum(b, a, axes=(1,), accum=True)
            Tx.wg.copy(B, b)

        a = rng.integers(0, 30, (128, 8)).astype("f4")
        b = np.zeros(128, "f4")
        run(k, a, b)
        eq(b, np.maximum(a.max(1), 10) + a.sum(1))


def test_a_warp_multiplies_fragments_whichever_index_comes_first() -> None:
    for ta in (False, True):
        for tb in (False, True):
            for beta in (float(ta),):
                M, N, K = (16, 16, 32)
                DL = TileLayout(S[(2, 8, 2, 4, 2) : (2, 4 @ laneid, 4, 1 @ laneid, 1)])
                AL = S[(2, 8, 2, 2, 4, 2) : (2, 4 @ laneid, 8, 4, 1 @ laneid, 1)]
                BL = S[(2, 2, 4, 2, 2, 8) : (8, 2, 1 @ laneid, 1, 4, 4 @ laneid)]
                AL_ = TileLayout(AL)
                BL_ = TileLayout(BL)
                if ta:
                    AL_ = TileLayout(S[(2, 2, 4, 2, 2, 8) : (8, 4, 1 @ laneid, 1, 2, 4 @ laneid)])
                if tb:
                    BL_ = TileLayout(S[(2, 8, 2, 2, 4, 2) : (4, 4 @ laneid, 8, 2, 1 @ laneid, 1)])
                sa = (K, M) if ta else (M, K)
                sb = (N, K) if tb else (K, N)

                @T.prim_func
                def kernel(
                    A: T.Buffer(sa, "float16"),
                    B: T.Buffer(sb, "float16"),
                    C: T.Buffer((M, N), "float32"),
                    D: T.Buffer((M, N), "float32"),
                ):
                    T.device_entry()
                    T.cta_id([1])
                    T.lane_id([32])
                    a = T.alloc_buffer(sa, "float16", scope="local", layout=AL_)
                    b = T.alloc_buffer(sb, "float16", scope="local", layout=BL_)
                    c = T.alloc_buffer((M, N), "float32", scope="local", layout=DL)
                    d = T.alloc_buffer((M, N), "float32", scope="local", layout=DL)
                    Tx.warp.copy(a, A)
                    Tx.warp.copy(b, B)
                    Tx.warp.copy(c, C)
                    Tx.warp.gemm(d[:, :], a[:, :], b[:, :], c[:, :], ta, tb, 1.0, beta)
                    Tx.warp.copy(D, d)

                a = rng.integers(-4, 4, sa).astype("f2")
                b = rng.integers(-4, 4, sb).astype("f2")
                c = rng.integers(-4, 4, (M, N)).astype("f4")
                d = np.zeros((M, N), "f4")
                run(kernel, a, b, c, d)
                eq(d, (a.T if ta else a).astype("f4") @ (b.T if tb else b).astype("f4") + beta * c)


def test_a_producer_feeds_a_warpgroup_through_a_ring_of_two_stages() -> None:
    M, N, K, BK = (64, 64, 256, 64)
    if True:

        @T.prim_func
        def kernel(A: T.Buffer((M, K), "float16"), B: T.Buffer((N, K), "float16"), C: T.Buffer((M, N), "float32")):
            T.device_entry()
            T.cta_id([1])
            wg = T.warpgroup_id([2])
            tid = T.thread_id_in_wg([128])
            warp = T.warp_id_in_wg([4])
            pool = T.meta_var(T.SMEMPool())
            sa = pool.alloc((2, M, BK), "float16", layout=mma_shared_layout("float16", 3, (2, M, BK)), align=1024)
            sb = pool.alloc((2, N, BK), "float16", layout=mma_shared_layout("float16", 3, (2, N, BK)), align=1024)
            pipe = T.meta_var(T.Pipeline(pool, 2, full="tma", empty="mbar", init_full=1, init_empty=128))
            pool.commit()
            T.ptx.fence.proxy_async("shared::cta")
            T.ptx.fence.mbarrier_init()
            T.cuda.cta_sync()
            if wg == 1:
                st = T.meta_var(T.PipelineState(2, 1))
                if tid == 0:
                    for k in range(K // BK):
                        pipe.empty.wait(st.stage, st.phase)
                        pipe.full.arrive(st.stage, (M + N) * BK * 2)
                        Tx.copy_async(
                            sa[st.stage, :, :],
                            A[:, k * BK : k * BK + BK],
                            dispatch="tma",
                            mbar=pipe.full.ptr_to([st.stage]),
                        )
                        Tx.copy_async(
                            sb[st.stage, :, :],
                            B[:, k * BK : k * BK + BK],
                            dispatch="tma",
                            mbar=pipe.full.ptr_to([st.stage]),
                        )
                        st.advance()
            else:
                acc = T.alloc_buffer(
                    (M, N),
                    "float32",
                    scope="local",
                    layout=T.TileLayout(S[(4, 2, 8, 8, 4, 2) : (1 @ wid_in_wg, 2, 4 @ laneid, 4, 1 @ laneid, 1)]),
                )
                st = T.meta_var(T.PipelineState(2, 0))
                for k in range(K // BK):
                    pipe.full.wait(st.stage, st.phase)
                    T.ptx.wgmma.fence()
                    Tx.wg.gemm_async(acc, sa[st.stage], sb[st.stage], accum=k != 0)
                    T.ptx.wgmma.commit_group()
                    T.ptx.wgmma.wait_group(0)
                    pipe.empty.arrive(st.stage)
                    st.advance()
                Tx.wg.copy(C, acc)

        multiplied(kernel, M, N, K)


def test_a_product_ends_in_tensor_memory_and_comes_back_by_rows() -> None:
    M, N, K = (128, 64, 64)

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
        addr = T.alloc_shared([1], "uint32")
        bar = T.alloc_shared([2], "uint64")
        if warp == 0:
            T.ptx.tcgen05.alloc(T.address_of(addr[0]), n_cols=64, cta_group=1)
            T.ptx.tcgen05.relinquish_alloc_permit(cta_group=1)
        if tid == 0:
            for i in range(2):
                T.ptx.mbarrier.init(bar.ptr_to([i]), 1)
        T.ptx.fence.proxy_async("shared::cta")
        T.ptx.fence.mbarrier_init()
        T.ptx.tcgen05.fence.before_thread_sync()
        T.cuda.cta_sync()
        T.ptx.tcgen05.fence.after_thread_sync()
        tmem = T.decl_buffer(
            (128, N),
            "float32",
            scope="tmem",
            allocated_addr=addr[0],
            layout=TileLayout(S[(128, N) : (1 @ TLane, 1 @ TCol)]),
        )
        if warp == 0:
            if T.ptx.elect_sync():
                T.ptx.mbarrier.arrive.expect_tx(bar.ptr_to([0]), (M + N) * K * 2)
                Tx.copy_async(sa, A, dispatch="tma", mbar=bar.ptr_to([0]), cta_group=1)
                Tx.copy_async(sb, B, dispatch="tma", mbar=bar.ptr_to([0]), cta_group=1)
                T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)
                T.ptx.tcgen05.fence.after_thread_sync()
                Tx.gemm_async(tmem[:, :], sa[:, :], sb[:, :], accum=False, dispatch="tcgen05", cta_group=1)
                T.ptx.tcgen05.commit(bar.ptr_to([1]), cta_group=1)
        T.ptx.mbarrier.try_wait(bar.ptr_to([1]), 0)
        T.cuda.cta_sync()
        T.ptx.tcgen05.fence.after_thread_sync()
        r = T.wg_reg_tile(N)
        Tx.wg.copy_async(r[:, :], tmem[:, :])
        T.ptx.tcgen05.wait.ld()
        Tx.wg.copy(C, r)
        T.ptx.tcgen05.fence.before_thread_sync()
        T.cuda.cta_sync()
        if warp == 0:
            T.ptx.tcgen05.dealloc(addr[0], n_cols=64, cta_group=1)

    multiplied(kernel, M, N, K, target="sm_100a")
