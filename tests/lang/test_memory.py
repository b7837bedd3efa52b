"""Memory: what a kernel allocates, and the views of what exists."""

# ruff: noqa: F821, F841  the names of a kernel are read by its parser
from __future__ import annotations

import pytest

from tests.lang.kernels import body, statement, text
from tilewright.errors import KernelError
from tilewright.ir import AllocBuffer, DeclBuffer
from tilewright.lang import T, Tx
from tilewright.layout import ComposeLayout, R, S, SwizzleLayout, TCol, TLane, laneid


def test_a_buffer_takes_the_name_it_is_assigned() -> None:
    @T.prim_func
    def k():
        A = T.alloc_buffer((8, 4, 2), "float16", scope="local", layout=S[(8, 4, 2) : (4 @ laneid, 1 @ laneid, 1)])
        B = T.alloc_shared((16, 16), "float32", align=1024)
        C, D = T.alloc_local([4]), T.alloc_buffer([8], T.uint8, scope="shared.dyn")

    assert body(k) == text("""
        A = T.alloc_buffer((8, 4, 2), "float16", scope="local", layout=S[(8, 4, 2):(4@laneid, 1@laneid, 1)])
        B = T.alloc_buffer((16, 16), "float32", scope="shared", align=1024)
        C = T.alloc_buffer((4,), "float32", scope="local")
        D = T.alloc_buffer((8,), "uint8", scope="shared.dyn")
    """)


def test_two_buffers_of_one_name_stay_apart() -> None:
    @T.prim_func
    def k():
        A = T.alloc_local((4,), "float32")
        A[0] = 1
        A = T.alloc_local((8,), "float32")
        A[7] = 2

    assert [line for line in body(k).splitlines() if "=" in line][1::2] == ["A[0] = 1.0", "A_1[7] = 2.0"]


def test_another_name_for_a_buffer_is_no_statement() -> None:
    @T.prim_func
    def k(A: T.Buffer((4,), "float32")):
        B = A
        B[0] = 1

    assert body(k) == "A[0] = 1.0"


def test_the_language_has_the_names_of_layouts() -> None:
    @T.prim_func
    def k():
        swizzled = T.ComposeLayout(T.SwizzleLayout(3, 3, 3), T.S[(8, 64) : (64, 1)])
        A = T.alloc_shared((8, 64), "float16", layout=swizzled)
        B = T.alloc_shared((8, 64), "float16", layout=T.TileLayout(T.S[(8, 64) : (1, 8)]))

    assert statement(k, 0, AllocBuffer).buffer.layout == ComposeLayout(SwizzleLayout(3, 3, 3), S[8, 64])
    assert body(k).splitlines()[1].endswith("layout=S[(8, 64):(1, 8)])")


def test_layouts_print_beside_buffers_that_hide_their_names() -> None:
    @T.prim_func
    def k():
        R = T.alloc_buffer((4, 4), "float16", scope="local")
        S = T.alloc_local((32, 4), "float16", layout=T.S[(32, 4) : (1 @ laneid_axis, 1)])
        laneid = T.lane_id([32])

    assert body(k).splitlines()[1].endswith("layout=T.S[(32, 4):(1@T.Axis.laneid, 1)])")


laneid_axis = laneid


def test_a_view_by_data_and_offset() -> None:
    @T.prim_func
    def k():
        A = T.alloc_shared((8, 16), "float16")
        row = T.decl_buffer((16,), data=A.data, elem_offset=16)
        words = T.decl_buffer((8,), "uint32", data=A.ptr_to([2, 0]), byte_offset=8)
        far = T.decl_buffer((4,), "float32", A.data, scope="shared", layout=S[4:2])

    assert body(k) == text("""
        A = T.alloc_buffer((8, 16), "float16", scope="shared")
        row = T.decl_buffer((16,), "float16", data=A.data, scope="shared", elem_offset=16)
        words = T.decl_buffer((8,), "uint32", data=T.address_of(A[2, 0]), scope="shared", elem_offset=2)
        far = T.decl_buffer((4,), "float32", data=A.data, scope="shared", layout=S[4:2])
    """)


def test_tensor_memory_is_named_by_its_address() -> None:
    @T.prim_func
    def k(A: T.Buffer((4,), "uint32")):
        addr = T.alloc_shared([1], "uint32")
        replicas = T.R[4 : 32 @ TLane]
        layout = S[(32, 16) : (1 @ TLane, 1 @ TCol)] + replicas
        tmem = T.decl_buffer([32, 16], "uint8", scope="tmem", allocated_addr=addr[0], layout=layout)
        A[0] = tmem.allocated_addr[0]

    assert statement(k, 1, DeclBuffer).buffer.layout == S[(32, 16) : (1 @ TLane, 1 @ TCol)] + R[4 : 32 @ TLane]
    assert body(k).splitlines()[-1] == "A[0] = addr[0]"


def test_a_local_view_is_the_threads_own_slots() -> None:
    @T.prim_func
    def k():
        R = T.alloc_buffer((8, 4, 2), "float16", scope="local", layout=S[(8, 4, 2) : (4 @ laneid, 1 @ laneid, 1)])
        r = R.local()
        pair = R.local(1, 2)
        r[1] = pair[0, 1]

    assert body(k).splitlines()[1:] == [
        'r = T.decl_buffer((2,), "float16", data=R.data, scope="local")',
        'pair = T.decl_buffer((1, 2), "float16", data=R.data, scope="local")',
        "r[1] = pair[0, 1]",
    ]


def test_views_of_other_dtypes_and_shapes() -> None:
    @T.prim_func
    def k():
        A = T.alloc_shared((8, 16), "float16")
        words = A.view("uint32")
        bytes_ = A.view(T.uint8)
        flat = A.view(128)
        columns = A.view(16, 8, layout=S[(16, 8) : (1, 16)])
        turned = A.permute(1, 0)

    assert body(k).splitlines()[1:] == [
        'words = T.decl_buffer((8, 8), "uint32", data=A.data, scope="shared")',
        'bytes_ = T.decl_buffer((8, 32), "uint8", data=A.data, scope="shared")',
        'flat = T.decl_buffer((128,), "float16", data=A.data, scope="shared")',
        'columns = T.decl_buffer((16, 8), "float16", data=A.data, scope="shared", layout=S[(16, 8):(1, 16)])',
        'turned = T.decl_buffer((16, 8), "float16", data=A.data, scope="shared", layout=S[(16, 8):(1, 16)])',
    ]


def test_a_view_without_a_name_is_declared_once_before_its_use() -> None:
    @T.prim_func
    def k():
        R = T.alloc_local((8,), "float16")
        R.view("uint32")[0] = 1
        R.view("uint32")[1] = 2
        if T.lane_id() == 0:
            R.view("uint32")[2] = 3

    declared = 'R_uint32 = T.decl_buffer((4,), "uint32", data=R.data, scope="local")'
    assert body(k).splitlines()[1:4] == [declared, "R_uint32[0] = 1", "R_uint32[1] = 2"]
    assert body(k).count("decl_buffer") == 1


def test_a_view_of_a_branch_ends_with_it() -> None:
    @T.prim_func
    def k():
        R = T.alloc_local((8,), "float16")
        if T.lane_id() == 0:
            R.view("uint32")[0] = 1
        R.view("uint32")[1] = 2

    assert body(k).splitlines()[-2:] == [
        'R_uint32_1 = T.decl_buffer((4,), "uint32", data=R.data, scope="local")',
        "R_uint32_1[1] = 2",
    ]


def test_a_view_made_by_a_python_helper_is_declared_too() -> None:
    def low_words(buffer):
        return [buffer.view("uint32")[k] for k in range(2)]

    @T.prim_func
    def k(A: T.Buffer((4,), "uint32")):
        R = T.alloc_local((8,), "float16")
        A[0] = low_words(R)[1]

    assert body(k).splitlines()[-2:] == [
        'R_uint32 = T.decl_buffer((4,), "uint32", data=R.data, scope="local")',
        "A[0] = R_uint32[1]",
    ]


def test_a_view_in_a_branch_stays_there_after_a_python_helper() -> None:
    def nothing():
        return None

    @T.prim_func
    def k():
        R = T.alloc_local((8,), "float16")
        nothing()
        if T.lane_id() == 0:
            r = R.view("uint32")
            r[0] = 1

    assert body(k).splitlines()[-2:] == [
        '    r = T.decl_buffer((4,), "uint32", data=R.data, scope="local")',
        "    r[0] = 1",
    ]


def test_what_a_kernel_may_ask_of_a_buffer() -> None:
    @T.prim_func
    def k(A: T.Buffer((8, 16), "float16")):
        assert A.shape == (8, 16)
        assert A.dtype == "float16"
        assert A.scope() == "global"
        p: T.let = A.ptr_to([1, 2])
        q: T.let = A.access_ptr("r", offset=8)
        d: T.let = A.data
        o = A.elem_offset_of([2, 3])

    assert body(k) == text("""
        p: T.let = T.address_of(A[1, 2])
        q: T.let = A.data + 16
        d: T.let = A.data
        o: T.int32 = 35
    """)


def test_scalars_in_memory_are_read_and_assigned_by_name() -> None:
    @T.prim_func
    def k(A: T.Buffer((4,), "float32")):
        count = T.shared_scalar("int32")
        phase = T.local_scalar("uint32")
        count = 0
        count += 2
        A[count] = T.cast(phase, "float32")
        T.cuda.atomic_add(T.address_of(count), 1)
        count[0] = 3  # type: ignore[index]  # the scalar in memory that it still is

    assert body(k) == text("""
        count = T.alloc_buffer((1,), "int32", scope="shared")
        phase = T.alloc_buffer((1,), "uint32", scope="local")
        count[0] = 0
        count[0] = count[0] + 2
        A[count[0]] = T.cast(phase[0], "float32")
        T.cuda.atomic_add(T.address_of(count[0]), 1)
        count[0] = 3
    """)


def test_a_pool_deals_out_dynamic_shared_memory() -> None:
    @T.prim_func
    def k():
        pool = T.SMEMPool()
        A = pool.alloc((8, 8), "float16")
        B = pool.alloc((3,), "uint8")
        C = pool.alloc((4,), "float32", align=128)
        pool.commit()
        C[0] = 1

    assert body(k) == text("""
        pool = T.alloc_buffer((272,), "uint8", scope="shared.dyn", align=128)
        A = T.decl_buffer((8, 8), "float16", data=pool.data, scope="shared.dyn", align=16)
        B = T.decl_buffer((3,), "uint8", data=pool.data, scope="shared.dyn", elem_offset=128, align=16)
        C = T.decl_buffer((4,), "float32", data=pool.data, scope="shared.dyn", elem_offset=64, align=128)
        C[0] = 1.0
    """)


def test_a_pool_may_deal_out_memory_again() -> None:
    @T.prim_func
    def k():
        pool = T.SMEMPool()
        A = pool.alloc((64,), "float16")
        pool.move_base_to(0)
        B = pool.alloc((8,), "float32")

    assert statement(k, 0, AllocBuffer).buffer.shape == (128,)
    assert [statement(k, place, DeclBuffer).buffer.elem_offset for place in (1, 2)] == [0, 0]
    assert len(k.body) == 3


def test_a_pool_knows_the_layouts_of_tensor_cores() -> None:
    @T.prim_func
    def k():
        pool = T.SMEMPool()
        A = pool.alloc_mma((8, 64), "float16", swizzle_mode=3)

    view = statement(k, 1, DeclBuffer).buffer
    assert view.align == 1024
    assert view.layout == ComposeLayout(SwizzleLayout(3, 3, 3), S[8, 64])
    assert "ComposeLayout(SwizzleLayout(" in body(k)


def test_a_committed_pool_is_full() -> None:
    with pytest.raises(KernelError, match="pool is committed"):

        @T.prim_func
        def k():
            pool = T.SMEMPool()
            pool.commit()
            A = pool.alloc((8,), "float16")


def test_a_local_array_by_annotation() -> None:
    @T.prim_func
    def k():
        v: T.float32[8]
        w: T.int8[2, 4]
        v[7] = w[1, 3]

    assert body(k) == text("""
        v = T.alloc_buffer((8,), "float32", scope="local")
        w = T.alloc_buffer((2, 4), "int8", scope="local")
        v[7] = T.cast(w[1, 3], "float32")
    """)


def test_a_region_that_is_no_box_of_its_buffer_is_refused() -> None:
    match = r"(?s)T\.region takes a buffer and a box of it.*tid << 40.*\(start, extent\)"
    with pytest.raises(KernelError, match=match):

        @T.prim_func
        def k(A: T.Buffer((64, 32), "float32")):
            T.cta_id([1])
            tid = T.thread_id([32])
            Tx.warp.copy(A[0:8, :], T.region(A, tid << 40))
