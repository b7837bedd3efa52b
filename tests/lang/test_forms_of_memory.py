"""Forms that name memory: views, regions, scalars by name, fragments, old names of places."""

# ruff: noqa: F841  the names of a kernel are read by its parser
from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tests.lang.kernels import body, statement, text
from tilewright.errors import KernelError
from tilewright.ir import Bind, Kernel
from tilewright.lang import T, Tx, parse_script
from tilewright.layout import ComposeLayout, S, SwizzleLayout, laneid


def run(kernel: Kernel, *arrays: np.ndarray, target: str = "sm_100a") -> None:
    """On the simulator, every check on; the script means the same kernel, and CUDA text is made of it."""
    tw.simulate(kernel, *arrays, check="all", target=target)
    assert parse_script(str(kernel)) == kernel
    assert tw.compile(kernel, target=target).source("cuda")


def test_a_view_infers_one_extent_and_keeps_the_layout() -> None:
    @T.prim_func
    def k(A: T.Buffer((8, 16), "float32"), B: T.Buffer((128,), "float32")):
        T.cta_id([1])
        tx = T.thread_id([32])
        s = T.alloc_shared((8, 16), layout=ComposeLayout(SwizzleLayout(2, 2, 2), S[8, 16]))
        rows = s.view(4, -1)
        for i in range(4):
            rows[i, tx] = A.view(-1)[i * 32 + tx]
        T.tvm_storage_sync("shared")
        for i in range(4):
            B[i * 32 + tx] = s[i * 2 + tx // 16, tx % 16]

    a, b = np.arange(128, dtype=np.float32).reshape(8, 16), np.zeros(128, np.float32)
    run(k, a, b)

    assert (b == a.ravel()).all()


@pytest.mark.parametrize(
    ("view", "what"),
    [
        (lambda b: b.view(-1, -1), "view"),
        (lambda b: b.view(5, -1), "view"),
        (lambda b: b.view(4, 8), "keeps its layout"),
    ],
)
def test_a_view_refuses_a_shape_of_another_size(view, what) -> None:
    with pytest.raises(KernelError, match=what):

        @T.prim_func
        def k():
            s = T.alloc_shared((8, 16), layout=ComposeLayout(SwizzleLayout(2, 2, 2), S[8, 16]))
            v = view(s)


def test_an_index_of_fewer_dimensions_is_a_region_of_full_rank() -> None:
    @T.prim_func
    def k(A: T.Buffer((4, 8, 16), "float32")):
        T.cta_id([1])
        tx = T.thread_id([32])
        Tx.cta.fill(A[1], 1.0)
        Tx.cta.fill(A[2, 2:4], 2.0)

    assert "A[1:2, 0:8, 0:16]" in body(k)
    assert "A[2:3, 2:4, 0:16]" in body(k)
    a = np.zeros((4, 8, 16), np.float32)
    run(k, a)
    assert (a.sum(), a[1].sum(), a[2, 2:4].sum()) == (192, 128, 64)


@pytest.mark.parametrize("index", [lambda b: b[1, 2, 3], lambda b: b[0][1]])
def test_an_index_of_more_dimensions_is_refused(index) -> None:
    with pytest.raises(KernelError):

        @T.prim_func
        def k(A: T.Buffer((4, 8), "float32")):
            x = index(A)


def test_an_element_that_is_a_region_is_no_number() -> None:
    with pytest.raises(KernelError, match="A"):

        @T.prim_func
        def k(A: T.Buffer((4, 8), "float32")):
            T.cta_id([1])
            A[0, 0] = A[1]


def test_a_region_of_memory_has_no_sum_of_its_own() -> None:
    with pytest.raises(KernelError, match="has no place"):

        @T.prim_func
        def k(A: T.Buffer((4, 8), "float32")):
            T.cta_id([1])
            x = A[1] + 1.0


def test_scalars_in_memory_are_read_and_assigned_by_name() -> None:
    @T.prim_func
    def k(A: T.Buffer((8,), "int32"), B: T.Buffer((4,), "uint32")):
        T.cta_id([1])
        tx = T.thread_id([1])
        a = T.alloc_scalar("int32", "shared")
        b = T.alloc_scalar("int32")
        c = T.decl_scalar("uint32", B.data, elem_offset=2)
        d = T.decl_scalar("uint32", B.data, byte_offset=4)
        a = 3
        b = a + 1
        b += a
        c += 5
        d = c * 2
        e = T.alloc_local((1,), "int32")
        e = 7
        A[0] = a
        A[1] = b
        A[2] = e[0]  # type: ignore[index]  # the buffer that it still is
        A[3] = b.buffer[0]  # type: ignore[attr-defined]  # the scalar that it still is

    a, b = np.zeros(8, np.int32), np.array([1, 1, 1, 1], np.uint32)
    run(k, a, b)

    assert a[:4].tolist() == [3, 7, 7, 7]
    assert b.tolist() == [1, 12, 6, 1]


def test_a_buffer_of_one_is_not_read_by_its_name() -> None:
    with pytest.raises(KernelError, match="has no value") as refused:

        @T.prim_func
        def k():
            e = T.alloc_local((1,), "int32")
            e += 1

    assert refused.value.hint == "e[0] += 1"


def test_a_scalar_of_memory_that_exists_needs_it() -> None:
    with pytest.raises(KernelError, match="names memory that exists"):

        @T.prim_func
        def k():
            s = T.decl_scalar("int32")


def test_vectors_are_loaded_and_stored_at_an_element() -> None:
    @T.prim_func
    def k(A: T.Buffer((128,), "float32")):
        T.cta_id([1])
        tx = T.thread_id([32])
        v = A.vload([tx * 4], dtype="float32x4")
        A.vstore([tx * 4], v + v)
        A.vstore([tx * 4], A.vload([tx * 4]) + 1.0)

    a = np.arange(128, dtype=np.float32)
    run(k, a)

    assert (a == 2 * np.arange(128) + (np.arange(128) % 4 == 0)).all()


def test_a_vector_has_the_elements_of_its_buffer() -> None:
    with pytest.raises(KernelError, match="A holds float32"):

        @T.prim_func
        def k(A: T.Buffer((128,), "float32")):
            v = A.vload([0], dtype="float16x4")


def test_an_allocation_takes_strides_or_a_place() -> None:
    @T.prim_func
    def k(A: T.Buffer((8,), "float32")):
        T.cta_id([1])
        tx = T.thread_id([1])
        s = T.alloc_buffer((2, 4), "float32", None, (6, 1), scope="shared")
        t = T.alloc_buffer((4,), "float32", data=s.data, elem_offset=6, scope="shared")
        u = T.alloc_buffer((4,), "float32", s.data, byte_offset=24)
        s[1, 2] = 5.0
        t[3] = 6.0
        A[0] = t[2]
        A[1] = s[1, 3]
        A[2] = u[2]

    a = np.zeros(8, np.float32)
    run(k, a)

    assert a[:3].tolist() == [5, 6, 5]


def test_storage_of_its_own_begins_at_its_first_element() -> None:
    with pytest.raises(KernelError, match="storage of its own"):

        @T.prim_func
        def k():
            s = T.alloc_buffer((4,), "float32", elem_offset=2, scope="shared")


def test_a_layout_may_be_larger_than_its_shape() -> None:
    @T.prim_func
    def k(A: T.Buffer((4, 16), "float32")):
        T.cta_id([1])
        lane = T.lane_id([32])
        s = T.alloc_buffer((4, 16), "float32", scope="shared", layout=S[(8, 16) : (20, 1)])
        r = T.alloc_buffer((32, 2), "float32", scope="local", layout=S[(4, 32, 2) : (2, 1 @ laneid, 1)])
        Tx.warp.copy(s, A)
        T.cuda.warp_sync()
        Tx.warp.copy(r, s.view(32, 2))
        for i in range(2):
            r.local()[i] = r.local()[i] + 1.0
        Tx.warp.copy(A.view(32, 2), r)

    a = np.arange(64, dtype=np.float32).reshape(4, 16)
    run(k, a)

    assert (a.ravel() == np.arange(64) + 1).all()


def test_a_larger_layout_is_not_cut_within_an_iter() -> None:
    with pytest.raises(KernelError, match="larger than its shape"):

        @T.prim_func
        def k():
            s = T.alloc_buffer((5,), "float32", scope="shared", layout=S[(4, 2) : (1, 8)])


def test_pointers_have_types_and_move_by_bytes() -> None:
    @T.prim_func
    def k(A: T.Buffer((4,), "uint64")):
        T.cta_id([1])
        T.thread_id([1])
        s = T.alloc_shared((4,), "uint64")
        address = T.reinterpret("uint64", s.ptr_to([1]))
        p: T.let[T.Var(name="p", dtype=T.PointerType(T.PrimType("uint64")))] = T.reinterpret("handle", address)
        b = T.decl_buffer([1], "uint64", data=p, scope="shared")
        q = s.ptr_to([2])
        c = T.decl_buffer([1], data=q)
        d = T.decl_buffer([1], "uint64", data=T.ptr_byte_offset(s.data, 24, "uint64"), scope="shared")
        b[0] = T.u64(5)
        c[0] = T.u64(6)
        d[0] = T.u64(7)
        for i in range(1, 4):
            A[i] = s[i]

    a = np.zeros(4, np.uint64)
    run(k, a)

    assert a.tolist() == [0, 5, 6, 7]
    assert 'c = T.decl_buffer((1,), "uint64", data=q, scope="shared")' in body(k)


def test_only_a_pointer_moves_by_bytes() -> None:
    with pytest.raises(KernelError, match="moves a pointer"):

        @T.prim_func
        def k():
            p = T.ptr_byte_offset(T.int32(3), 16)


def test_short_names_of_dtypes_and_typed_constants() -> None:
    assert (T.f32, T.bf16, T.i8, T.u64) == ("float32", "bfloat16", "int8", "uint64")

    @T.prim_func
    def k():
        x: T.f16 = 1.0
        y = T.FloatImm("float32", 2)
        z = T.IntImm("uint8", 3)

    assert body(k) == text("""
        x: T.float16 = 1.0
        y: T.float32 = 2.0
        z: T.uint8 = 3
    """)
    with pytest.raises(KernelError, match="constant does not take this value"):
        T.FloatImm("float32", statement(k, 0, Bind).var)


def test_registers_of_a_warpgroup_by_rows_and_like_others() -> None:
    @T.prim_func
    def k(A: T.Buffer((128, 8), "float32")):
        T.cta_id([1])
        T.thread_id([128])
        r = T.wg_reg_tile(8)
        h = T.alloc_cast_frag(r, "float16")
        Tx.wg.fill(r, 2.0)
        for i in range(8):
            h.local()[i] = T.cast(r.local()[i], "float16")
            r.local()[i] = T.cast(h.local()[i], "float32") * 2.0
        Tx.wg.copy(A, r)

    a = np.zeros((128, 8), np.float32)
    run(k, a)

    assert (a == 4).all()
    with pytest.raises(KernelError, match="no fragment"):

        @T.prim_func
        def wrong(A: T.Buffer((4,), "float32")):
            h = T.alloc_cast_frag(A, "float16")


def test_places_have_their_old_names() -> None:
    @T.prim_func
    def k(A: T.Buffer((2, 4, 32), "int32")):
        for b in T.thread_binding(2, thread="blockIdx.x"):
            with T.launch_thread("threadIdx.y", 4) as y:
                x = T.launch_thread("threadIdx.x", 32)
                A[b, y, x] = b * 128 + y * 32 + x

    a = np.zeros((2, 4, 32), np.int32)
    run(k, a)

    assert (a.ravel() == np.arange(256)).all()


def test_a_thread_has_up_to_three_coordinates() -> None:
    @T.prim_func
    def k(A: T.Buffer((2, 4, 8), "int32")):
        T.cta_id([1])
        x, y, z = T.thread_id([8, 4, 2])
        A[z, y, x] = T.thread_id()

    a = np.zeros((2, 4, 8), np.int32)
    run(k, a)

    assert (a.ravel() == np.arange(64)).all()


def launched(launch) -> Kernel:
    @T.prim_func
    def k():
        T.cta_id([1])
        launch()

    return k


@pytest.mark.parametrize(
    "launch",
    [
        lambda: T.launch_thread("threadIdx.w", 4),
        lambda: (T.thread_id([32, 2]), T.thread_id([128])),
        lambda: (T.launch_thread("threadIdx.x", 4), T.launch_thread("threadIdx.x", 8)),
    ],
)
def test_axes_of_a_launch_that_disagree_are_refused(launch) -> None:
    with pytest.raises(KernelError):
        tw.compile(launched(launch))


def test_a_warpgroup_may_have_another_number_of_warps() -> None:
    @T.prim_func
    def k(A: T.Buffer((2, 2, 32), "int32")):
        T.cta_id([1])
        g, w, lane = T.warpgroup_id([2]), T.warp_id_in_wg([2]), T.lane_id([32])
        A[g, w, lane] = T.warp_id() * 32 + lane

    a = np.zeros((2, 2, 32), np.int32)
    run(k, a)

    assert (a.ravel() == np.arange(128)).all()


def test_the_cta_of_a_pair_follows_from_its_rank() -> None:
    @T.prim_func
    def k(A: T.Buffer((4,), "int32")):
        c, bx = T.cta_id_in_cluster([4]), T.cta_id([4])
        T.thread_id([1])
        A[bx] = T.cta_id_in_pair()

    a = np.full(4, 9, np.int32)
    run(k, a)

    assert a.tolist() == [0, 1, 0, 1]
