"""Argument forms of instructions: each is a call of a row, or several."""

# ruff: noqa: F841  the names of a kernel are read by its parser
from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tests.lang.kernels import body, statement, text
from tests.lang.test_forms_of_memory import run
from tests.toys import ptx
from tilewright.errors import InstructionError, SimulationError, TilewrightError
from tilewright.ir import Store
from tilewright.lang import T


def pointers(buffer, step=1):
    return [buffer.ptr_to([i]) for i in range(0, buffer.shape[0], step)]


def test_mma_takes_four_types_and_a_pointer_for_each_register() -> None:
    @T.prim_func
    def k(A: T.Buffer((16, 16), "float16"), B: T.Buffer((16, 8), "float16"), D: T.Buffer((2, 16, 8), "float32")):
        T.cta_id([1])
        lane = T.lane_id([32])
        a, b = T.alloc_local((8,), "float16"), T.alloc_local((4,), "float16")
        d, e = T.alloc_local((4,)), T.alloc_local((4,))
        for i in T.unroll(8):
            a[i] = A[lane // 4 + i // 2 % 2 * 8, lane % 4 * 2 + i % 2 + i // 4 * 8]
        for i in T.unroll(4):
            b[i] = B[lane % 4 * 2 + i % 2 + i // 2 * 8, lane // 4]
        kinds = ("float32", "float16", "fp16", "float32")
        T.ptx.mma("m16n8k16", "row", "col", *kinds, pointers(d), pointers(a, 2), pointers(b, 2))  # type: ignore[call-arg]  # a form elsewhere
        T.ptx.mma("m16n8k16", "row", "col", *kinds, pointers(e), pointers(a, 2), pointers(b, 2), pointers(d))  # type: ignore[call-arg]  # a form elsewhere
        for i in T.unroll(4):
            D[0, lane // 4 + i // 2 * 8, lane % 4 * 2 + i % 2] = d[i]
            D[1, lane // 4 + i // 2 * 8, lane % 4 * 2 + i % 2] = e[i]

    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 4, shape).astype(np.float16) for shape in ((16, 16), (16, 8)))
    d = np.zeros((2, 16, 8), np.float32)
    run(k, a, b, d)

    assert (d == np.stack([a @ b, 2 * (a @ b)]).astype(np.float32)).all()


@pytest.mark.parametrize(
    "how",
    [
        ("m16n8k16", "col", "row", *["float16"] * 4, [0] * 2, [0] * 4, [0] * 2),
        ("m16n8k16", "row", "col", "float64", *["float16"] * 3, [0] * 2, [0] * 4, [0] * 2),
        ("m16n8k16", "row", "col", *["float16"] * 4, [0] * 2, [0] * 4),
    ],
)
def test_mma_refuses_what_no_row_has(how) -> None:
    with pytest.raises(TilewrightError):

        @T.prim_func
        def k():
            T.ptx.mma(*how)


def test_an_arrival_names_a_cta_a_predicate_and_a_count() -> None:
    @T.prim_func
    def k():
        T.cta_id_in_cluster([2])
        lane = T.lane_id([32])
        bar = T.alloc_shared((1,), "uint64")
        T.ptx.mbarrier.arrive(bar.data, 1, lane == 0, 4)
        T.ptx.mbarrier.arrive(bar.data, pred=lane == 0)
        T.ptx.mbarrier.arrive.expect_tx(bar.data, 64, 1)
        T.ptx.mbarrier.arrive.cluster_count(bar.data, 1, 3)
        T.ptx.mbarrier.try_wait_acquire_cluster(bar.data, 0)

    assert body(k).partition('"uint64", scope="shared")\n')[2] == text("""
        if lane == 0:
            T.ptx.mbarrier.arrive(T.ptx.mapa(bar.data, 1), count=4, space="shared::cluster")
        if lane == 0:
            T.ptx.mbarrier.arrive(bar.data)
        T.ptx.mbarrier.arrive.expect_tx(T.ptx.mapa(bar.data, 1), 64, space="shared::cluster")
        T.ptx.mbarrier.arrive(T.ptx.mapa(bar.data, 1), count=3, space="shared::cluster")
        T.ptx.mbarrier.try_wait(bar.data, 0, scope="cluster")
    """)
    assert "mbarrier.arrive" in tw.compile(k, target="sm_90a").source("cuda")


def test_an_arrival_has_no_fifth_argument() -> None:
    with pytest.raises(InstructionError, match=r"T\.ptx\.mbarrier\.arrive: too many positional arguments"):

        @T.prim_func
        def k():
            T.ptx.mbarrier.arrive(T.alloc_shared((1,), "uint64"), 0, True, 1, 2)  # type: ignore[call-arg]  # wrong on purpose


def test_a_cluster_meets_in_words_of_others() -> None:
    @T.prim_func
    def k():
        T.ptx.barrier.cluster.arrive("", True)
        T.ptx.barrier.cluster.wait(True, True)
        T.ptx.barrier.cluster.arrive(".relaxed", aligned=False)
        T.ptx.barrier.cluster.wait(acquire=False, aligned=False)

    assert body(k) == text("""
        T.ptx.barrier.cluster.arrive()
        T.ptx.barrier.cluster.wait()
        T.ptx.barrier.cluster.arrive(sem="relaxed", aligned=False)
        T.ptx.barrier.cluster.wait(aligned=False)
    """)
    with pytest.raises(InstructionError, match="form"):
        T.ptx.barrier.cluster.arrive("acquire")


def test_storage_is_synchronised_by_its_scope() -> None:
    @T.prim_func
    def k():
        T.tvm_storage_sync("shared")
        T.tvm_storage_sync("warp")

    assert body(k) == "T.cuda.cta_sync()\nT.cuda.warp_sync()"
    with pytest.raises(InstructionError, match="of this memory"):
        T.tvm_storage_sync("global")


def test_shuffles_take_the_size_of_a_warp() -> None:
    @T.prim_func
    def k(A: T.Buffer((4, 32), "int32")):
        T.cta_id([1])
        lane = T.lane_id([32])
        mask = T.tvm_warp_activemask()
        A[0, lane] = T.tvm_warp_shuffle(mask, lane, 3, 32, 32)
        A[1, lane] = T.tvm_warp_shuffle_up(mask, lane, 1, 32, 32)
        A[2, lane] = T.tvm_warp_shuffle_down(mask, lane, 1, 32, 32)
        A[3, lane] = T.tvm_warp_shuffle_xor(mask, lane, 1, 32, 32)

    a = np.zeros((4, 32), np.int32)
    run(k, a)

    lanes = np.arange(32)
    assert (a == [lanes * 0 + 3, np.maximum(lanes - 1, 0), np.minimum(lanes + 1, 31), lanes ^ 1]).all()


def test_reductions_by_name_leave_the_result_in_every_thread() -> None:
    @T.prim_func
    def k(A: T.Buffer((4, 128), "float32"), B: T.Buffer((2, 128), "uint32")):
        T.cta_id([1])
        tx = T.thread_id([128])
        A[0, tx] = T.cuda.warp_reduce(T.float32(tx), "sum")
        A[1, tx] = T.cuda.warp_reduce(T.float32(tx), "max", 8)
        scratch = T.alloc_shared((4,), "float32")
        A[2, tx] = T.cuda.cta_reduce(T.float32(tx), "sum", 4, scratch.data)
        A[3, tx] = T.cuda.cta_reduce(T.float32(tx), "min", 4, scratch)
        B[0, tx] = T.cuda.reduce_add_sync_u32(0xFFFFFFFF, tx)
        B[1, tx] = T.cuda.reduce_min_sync_u32(0xFFFFFFFF, tx)

    a, b = np.zeros((4, 128), np.float32), np.zeros((2, 128), np.uint32)
    run(k, a, b)

    t = np.arange(128)
    assert (a[0] == t.reshape(4, 32).sum(1).repeat(32)).all()
    assert (a[1] == t // 8 * 8 + 7).all()
    assert (a[2:] == [[t.sum()], [0]]).all()
    assert (b == [t.reshape(4, 32).sum(1).repeat(32), t // 32 * 32]).all()
    assert body(k).count("cta_sync") == 4


@pytest.mark.parametrize(
    "reduce",
    [
        lambda v: T.cuda.warp_reduce(v, "mean"),
        lambda v: T.cuda.warp_reduce(v, "sum", 12),
        lambda v: T.cuda.cta_reduce(v, "sum", 64, v),
    ],
)
def test_a_reduction_by_name_refuses_what_it_has_not(reduce) -> None:
    with pytest.raises(InstructionError, match=r"T\.cuda"):

        @T.prim_func
        def k():
            lane = T.lane_id([32])
            x = reduce(lane)


def test_loads_and_stores_take_types_of_ptx() -> None:
    @T.prim_func
    def k(A: T.Buffer((16,), "float32"), B: T.Buffer((4,), "int32")):
        T.cta_id([1])
        T.thread_id([1])
        x = T.ptx.ld(A.ptr_to([1]), "float32", "f32", space="global")
        ptx.st(A.ptr_to([4]), x, x, x + 1.0, x, space="global", vec="v4", ptx_type="f32")
        ptx.st(A.ptr_to([8]), 5.0, space="global", ptx_type="f32")
        s = T.alloc_shared((2,), "uint32")
        ptx.st(s.ptr_to([0]), x, x, vec="v2", ptx_type="b32")
        A[9] = T.reinterpret("float32", s[1])
        T.ptx.red_scalar(B.ptr_to([0]), 3, op="add", ptx_type="u32")
        B[1] = T.ptx.atom_scalar(B.ptr_to([0]), 4, sem="relaxed", scope="gpu", space="global", op="max", ptx_type="s32")

    a, b = np.arange(16, dtype=np.float32), np.zeros(4, np.int32)
    run(k, a, b)

    assert a[[4, 5, 6, 7, 8, 9]].tolist() == [1, 1, 2, 1, 5, 1]
    assert b.tolist() == [4, 3, 0, 0]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda p: T.ptx.ld(p, "float32", "f16"),
        lambda p: T.ptx.ld(p, "float32", "q32"),
        lambda p: ptx.st(p, 1.0, 2.0, vec="v2", ptx_type="f64"),
        lambda p: T.ptx.atom_scalar(p, 1, op="plus", ptx_type="s32"),
    ],
)
def test_a_type_of_ptx_must_fit(wrong) -> None:
    with pytest.raises(TilewrightError):

        @T.prim_func
        def k(A: T.Buffer((4,), "float32")):
            wrong(A.ptr_to([0]))


def test_pairs_of_float32_are_computed_at_once() -> None:
    @T.prim_func
    def k(A: T.Buffer((8,), "float32")):
        T.cta_id([1])
        T.thread_id([1])
        d = T.alloc_local((2,), "float32")
        x, y = T.cuda.make_float2(A[0], A[1]), T.cuda.make_float2(2.0, 3.0)
        T.ptx.add_f32x2(d.ptr_to([0]), x, y)
        A[2] = d[0]
        A[3] = d[1]
        T.ptx.fma_f32x2(d.ptr_to([0]), x, y, T.cuda.make_float2(0.5, 0.25), rounding="rz", ftz=True)
        A[4] = d[0]
        A[5] = d[1]
        A[6] = T.ptx.reduce3_max_f32(A[0], A[1], -1.0)

    a = np.array([1.5, 2.5, *[0] * 6], np.float32)
    run(k, a)

    assert a.tolist() == [1.5, 2.5, 3.5, 5.5, 3.5, 7.75, 2.5, 0]


def test_the_shared_memory_of_another_cta_has_a_pointer() -> None:
    @T.prim_func
    def k(A: T.Buffer((2,), "uint64")):
        r = T.cta_id_in_cluster([2])
        T.thread_id([1])
        bar = T.alloc_shared((1,), "uint64")
        A[r] = T.ptx.map_shared_rank(bar.data, r)

    assert statement(k, -1, Store).value.dtype == "uint64"
    assert "mapa.u64" in tw.compile(k, target="sm_90a").source("cuda")


SOURCE = "__device__ float twice(float x) { return x + x; }\n__device__ void note(const float* p) {}"


def test_cuda_source_is_called_and_emitted_once() -> None:
    @T.prim_func
    def k(A: T.Buffer((4,), "float32")):
        T.cta_id([1])
        T.thread_id([1])
        A[0] = T.cuda.func_call("twice", A[1], source_code=SOURCE, return_type="float32")
        A[1] = T.cuda.func_call("twice", A[2], source_code=SOURCE, return_type="float32")
        T.cuda.func_call("nothing", source_code="__device__ void nothing() {}")

    cuda = tw.compile(k, target="sm_90a").source("cuda")

    assert cuda.count("float twice(float x)") == 1
    assert "A[0] = twice(A[1]);" in cuda
    assert "nothing();" in cuda
    assert body(k)
    with pytest.raises(SimulationError, match="`twice` is CUDA C"):
        tw.simulate(k, np.zeros(4, np.float32))


def test_a_function_of_cuda_has_one_source() -> None:
    @T.prim_func
    def k():
        T.cta_id([1])
        T.thread_id([1])
        T.cuda.func_call("f", source_code="__device__ void f() {}")
        T.cuda.func_call("f", source_code="__device__ void f() { __syncthreads(); }")

    with pytest.raises(InstructionError, match=r"two texts for the C\+\+ function f"):
        tw.compile(k, target="sm_90a").source("cuda")


def test_a_pointer_into_another_cta_leads_to_its_barrier() -> None:
    @T.prim_func
    def k(A: T.Buffer((2,), "int32")):
        r = T.cta_id_in_cluster([2])
        T.thread_id([1])
        bar = T.alloc_shared((1,), "uint64")
        T.ptx.mbarrier.init(bar.data, 1)
        T.ptx.fence.mbarrier_init()
        T.cuda.cluster_sync()
        far = T.reinterpret("handle", T.ptx.map_shared_rank(bar.data, 1 - r))
        T.ptx.mbarrier.arrive(far, space="shared::cluster")
        T.ptx.mbarrier.try_wait_acquire_cluster(bar.data, 0)
        A[r] = 1
        T.cuda.cluster_sync()

    a = np.zeros(2, np.int32)
    run(k, a)

    assert a.tolist() == [1, 1]
