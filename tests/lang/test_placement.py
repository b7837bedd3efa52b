"""A buffer's layout places as many elements as its shape has, each in a place of its own, inside the storage."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tests.lang.kernels import statement
from tilewright import T, Tx
from tilewright.errors import KernelError
from tilewright.ir import AllocBuffer, DeclBuffer
from tilewright.layout import ComposeLayout, F, P, R, S, SwizzleLayout, laneid, m, mma_shared_layout, tid_in_wg, warpid

SWIZZLE = SwizzleLayout(3, 3, 3)


def made(shape, layout, scope="local"):
    """The buffer that a kernel allocates so."""

    @T.prim_func
    def kernel():
        T.device_entry()
        lane = T.lane_id([32])  # noqa: F841
        box = T.alloc_buffer(shape, "float16", scope=scope, layout=layout)  # noqa: F841

    return statement(kernel, -1, AllocBuffer).buffer


def test_two_elements_in_one_register_slot_are_refused():
    with pytest.raises(KernelError, match="box has two elements in one register slot") as caught:
        made((16, 8), S[(8, 2, 4, 2) : (4 @ laneid, 1, 1 @ laneid, 1)])
    assert str(caught.value.given).startswith("box[0, 1] and box[1, 0] in register slot 1 of laneid 0")
    assert caught.value.at is not None


@pytest.mark.parametrize(
    ("shape", "layout", "scope"),
    [
        ((8, 4), S[(8, 4) : (1 @ laneid, 0)], "local"),
        ((8, 4), S[(8, 4) : (1 @ P, 1 @ F)], "local"),
        ((32, 2), S[(32, 2) : (1 @ laneid, 1)] + R[2 : 1 @ m], "local"),
        ((8, 8), S[(8, 8) : (4, 1)], "shared"),
        ((32, 4), S[(32, 4) : (1 @ laneid, 1)], "shared"),
        ((8, 64), ComposeLayout(SWIZZLE, S[(8, 64) : (32, 1)]), "shared.dyn"),
        ((6, 8), S[(6, 8) : (7, 5)], "shared"),  # 7 i + 5 j is 35 at (5, 0) and (0, 7)
    ],
)
def test_two_elements_in_one_place_are_refused(shape, layout, scope):
    with pytest.raises(KernelError, match=r"box has two elements (in one register slot|at one address)"):
        made(shape, layout, scope)


@pytest.mark.parametrize(
    ("shape", "layout", "scope"),
    [
        ((16, 8), S[(8, 2, 4, 2) : (4 @ laneid, 2, 1 @ laneid, 1)], "local"),
        ((8, 2), S[(8, 2) : (1 @ laneid, 1)] + R[4 : 8 @ laneid], "local"),
        ((128, 4), S[(128, 4) : (1 @ tid_in_wg, 1)], "local"),
        ((8, 8), S[(8, 8) : (9, 1)], "shared"),
        ((5, 7), S[(5, 7) : (7, 5)], "shared"),
        ((8, 8), S[(8, 8) : (1, 8)] + R[2:64], "shared"),
        ((64, 128), mma_shared_layout("float16", 3, (64, 128)), "shared"),
        ((4,), S[4:-1] + 3, "local"),
    ],
)
def test_copies_gaps_and_permutations_are_layouts(shape, layout, scope):
    assert made(shape, layout, scope).layout == layout


@pytest.mark.parametrize("scope", ["shared", "shared.dyn", "local"])
def test_a_bare_swizzle_has_the_size_of_the_buffer(scope):
    box = made((32, 64), SWIZZLE, scope)
    assert box.storage_size() == 2048
    assert box.layout == ComposeLayout(SWIZZLE, S[32, 64])
    assert made((4, 8), SWIZZLE, scope).storage_size() == 32
    assert box.view(16, 64, layout=SWIZZLE).layout.size() == 1024


def test_a_pool_gives_a_bare_swizzle_the_size_of_the_buffer():
    @T.prim_func
    def kernel():
        T.device_entry()
        pool = T.SMEMPool()
        a = pool.alloc((32, 64), "float16", layout=SwizzleLayout(3, 3, 3))  # noqa: F841
        b = pool.alloc((32, 64), "float16")  # noqa: F841

    assert [statement(kernel, place, DeclBuffer).buffer.elem_offset for place in (-2, -1)] == [0, 2048]


def test_a_bare_swizzle_keeps_every_element():
    @T.prim_func
    def kernel(A_ptr: T.handle, B_ptr: T.handle):
        A = T.match_buffer(A_ptr, (32, 64), "float16")
        B = T.match_buffer(B_ptr, (32, 64), "float16")
        T.device_entry()
        tid = T.thread_id([128])  # noqa: F841
        box = T.alloc_shared((32, 64), "float16", layout=SwizzleLayout(3, 3, 3))
        after = T.alloc_shared((32, 64), "float16")
        Tx.cta.copy(after[:, :], A[:, :])
        Tx.cta.copy(box[:, :], A[:, :])
        T.cuda.cta_sync()
        Tx.cta.copy(B[:, :], box[:, :])

    a = np.arange(2048, dtype=np.float16).reshape(32, 64)
    b = np.zeros_like(a)
    tw.simulate(kernel, a, b, check="all")
    assert np.array_equal(a, b)


@pytest.mark.parametrize("layout", [S[(8, 64) : (64, 1)], ComposeLayout(SWIZZLE, S[8, 64])])
def test_a_layout_has_as_many_elements_as_the_shape(layout):
    with pytest.raises(KernelError, match="the layout of box does not fit its shape"):
        made((32, 64), layout, "shared")


def test_a_layout_begins_inside_its_storage():
    with pytest.raises(KernelError, match="the layout of box begins before its storage") as caught:
        made((4,), S[4:-1])
    assert caught.value.hint == "S[4:-1] + 3"


@pytest.mark.parametrize("layout", [S[(64, 2) : (1 @ laneid, 1)], S[(8, 16) : (1 @ warpid, 1 @ tid_in_wg)]])
def test_a_layout_has_the_threads_that_exist(layout):
    with pytest.raises(KernelError, match="the layout of box: "):
        made((layout.extents), layout)


def test_a_view_may_show_one_element_twice():
    @T.prim_func
    def kernel():
        T.device_entry()
        lane = T.lane_id([32])  # noqa: F841
        row = T.alloc_buffer((8,), "float16", scope="local")
        wide = row.view(4, 8, layout=S[(4, 8) : (0, 1)])
        x = wide[3, 2] + wide[1, 2]  # noqa: F841

    assert kernel is not None


@pytest.mark.parametrize(
    ("how", "what"),
    [
        (lambda s, r: s.view("uint32"), "box as uint32 would end inside an element"),
        (lambda s, r: s.view(4, 3, layout=S[(4, 3) : (100, 1)]), "a view of box reaches beyond it"),
        (lambda s, r: s.view(4, 3, layout=SWIZZLE.after(S[4, 3] + 8)), "a view of box reaches beyond it"),
        (lambda s, r: s.view(4, 3, layout=S[4, 2]), "the layout of box_view does not fit its shape"),
        (lambda s, r: s.view(4, 4), "a view of box reaches beyond it"),
        (lambda s, r: r.view(65), "a view of regs keeps its layout"),
        (lambda s, r: r.local(4), "a view of regs reaches beyond it"),
        (lambda s, r: r.local(2, layout=S[2:4]), "a view of regs reaches beyond it"),
    ],
)
def test_a_view_stays_inside_of_what_it_views(how, what):
    with pytest.raises(KernelError, match=what):

        @T.prim_func
        def kernel():
            T.device_entry()
            lane = T.lane_id([32])  # noqa: F841
            box = T.alloc_shared((4, 3), "float16")
            regs = T.alloc_local((32, 2), "float16", layout=S[(32, 2) : (1 @ laneid, 1)])
            seen = how(box, regs)  # noqa: F841


def test_a_tile_call_writes_no_place_twice():
    @T.prim_func
    def kernel(A_ptr: T.handle):
        A = T.match_buffer(A_ptr, (4, 8), "float16", layout=S[(4, 8) : (0, 1)])
        T.device_entry()
        tid = T.thread_id([32])  # noqa: F841
        box = T.alloc_shared((4, 8), "float16")
        Tx.cta.copy(box[:, :], A[:, :])
        Tx.cta.copy(A[2:3, :], box[2:3, :])
        Tx.cta.copy(A[2:4, :], box[2:4, :])

    with pytest.raises(KernelError, match="A has two elements at one address") as caught:
        tw.compile(kernel)
    assert str(caught.value.given).startswith("A[2, 0] and A[3, 0] at address 0, by")
    assert "Tx.cta.copy(A[2:4, :]" in str(caught.value)
