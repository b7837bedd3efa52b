"""The check of bounds, dimension by dimension: what is inside of the storage may still be outside of the buffer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import T, Tx
from tilewright.errors import KernelError, SimulationError
from tilewright.lang import parse_script
from tilewright.layout import S, TileLayout, laneid

FLOATS = np.float32


def array(*shape: int, kind: Any = FLOATS) -> np.ndarray[Any, Any]:
    return np.zeros(shape, kind)


@T.prim_func
def row_before(A: T.Buffer((8, 32), "float32"), B: T.Buffer((8, 32), "float32")):
    T.cta_id([1])
    x = T.thread_id([32])
    for y in range(1, 8):
        B[y, x] = A[y, x - 1]


@T.prim_func
def next_row(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")):
    T.cta_id([1])
    T.thread_id([32])
    s = T.alloc_shared((8, 8), "float32")
    for i in range(7):
        s[i, i + 2] = A[0, i]


@T.prim_func
def past_a_view(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    T.cta_id([1])
    x = T.thread_id([32])
    s = T.alloc_shared((64,), "float32")
    s[x + 32] = A[x]
    v = s.view(32)
    B[x] = v[x + 32]


@T.prim_func
def past_a_declared_view(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    T.cta_id([1])
    x = T.thread_id([32])
    v = T.decl_buffer((16,), "float32", data=A.ptr_to([16]))
    B[x] = v[x]


@T.prim_func
def into_the_pools_next_buffer(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    T.cta_id([1])
    x = T.thread_id([32])
    pool = T.SMEMPool()
    a = pool.alloc((32,), "float32")
    b = pool.alloc((32,), "float32")
    pool.commit()
    b[x] = A[x]
    a[x + 1] = A[x]


@T.prim_func
def a_lane_beyond_the_layout(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    T.cta_id([1])
    lane = T.lane_id([32])
    x = T.alloc_local((8,), "float32", layout=TileLayout(S[8 : 1 @ laneid]))
    x[lane] = A[lane]


@T.prim_func
def past_the_own_part(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    T.cta_id([1])
    lane = T.lane_id([32])
    x = T.alloc_local((8, 4), "float32")
    v = x.local(4)
    for k in range(5):
        v[k] = A[lane]


@T.prim_func
def past_a_permuted_dimension(A: T.Buffer((8, 32), "float32"), B: T.Buffer((8, 32), "float32")):
    T.cta_id([1])
    x = T.thread_id([32])
    s = T.alloc_shared((8, 32), "float32")
    v = s.permute(1, 0)
    v[x, x // 3] = A[0, x]


@T.prim_func
def past_a_dimension_through_a_pointer(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")):
    T.cta_id([1])
    x = T.thread_id([32])
    T.cuda.copy_bytes(B.ptr_to([x // 8, x % 16]), A.ptr_to([0, 0]), 4)


@T.prim_func
def past_a_dimension_through_a_named_pointer(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")):
    T.cta_id([1])
    x = T.thread_id([32])
    there: T.let = B.ptr_to([x // 8, x % 16])
    T.cuda.copy_bytes(there, A.ptr_to([0, 0]), 4)


@T.prim_func
def a_vector_past_a_dimension(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")):
    T.cta_id([1])
    x = T.thread_id([4])
    B.vstore([0, 0], A.vload([x, x * 4], dtype="float32x4"))


@T.prim_func
def a_vector_stored_past_a_dimension(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")):
    T.cta_id([1])
    x = T.thread_id([4])
    B.vstore([x, x * 4], A.vload([0, 0], dtype="float32x4"))


@T.prim_func
def past_a_dimension_atomically(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")):
    T.cta_id([1])
    x = T.thread_id([32])
    T.cuda.atomic_add(B.ptr_to([x // 8, x % 16]), A[0, 0])


@T.prim_func
def a_wide_access_past_the_end_of_a_view(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    T.cta_id([1])
    x = T.thread_id([32])
    pool = T.SMEMPool()
    a = pool.alloc((32,), "float32")
    b = pool.alloc((32,), "float32")
    pool.commit()
    b[x] = A[x]
    T.cuda.copy_bytes(a.ptr_to([x // 16 * 32 - x // 16 * 2]), A.ptr_to([0]), 16)


@T.prim_func
def past_the_storage_by_access_ptr(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    T.cta_id([1])
    x = T.thread_id([32])
    pool = T.SMEMPool()
    a = pool.alloc((8, 4), "float32")
    b = pool.alloc((32,), "float32")
    pool.commit()
    b[x] = A[x]
    T.cuda.copy_bytes(a.access_ptr("w", offset=x + 4), A.ptr_to([0]), 4)


@T.prim_func
def a_chosen_side(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")):
    T.cta_id([1])
    x = T.thread_id([32])
    B[0, x % 8] = T.if_then_else(x > 0, A[x // 8, x % 8 + x // 24], T.float32(0))


@T.prim_func
def a_vector_into_the_next_row(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 6), "float32")):
    T.cta_id([1])
    x = T.thread_id([4])
    B.vstore([x, 3 + x], A.vload([x, 0], dtype="float32x2"))


@T.prim_func
def rounds_into_the_next_row(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 6), "float32")):
    T.cta_id([1])
    x = T.thread_id([4])
    for j in T.vectorized(4):
        B[x, 4 + j] = A[x, j]


@T.prim_func
def past_the_buffer_of_a_chosen_pointer(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")):
    T.cta_id([1])
    x = T.thread_id([32])
    short = T.alloc_shared((16,), "float32")
    other = T.alloc_shared((32,), "float32")
    v = T.decl_buffer((32,), data=T.select(A[0, 0] == 0.0, short.ptr_to([0]), other.ptr_to([0])), scope="shared")
    v[x] = A[0, 0]


@T.prim_func
def past_the_buffer_of_a_lanes_pointer(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")):
    T.cta_id([1])
    x = T.thread_id([32])
    pool = T.SMEMPool()
    first, second = pool.alloc((16,), "float32"), pool.alloc((16,), "float32")
    rest = pool.alloc((32,), "float32")
    pool.commit()
    rest[x] = A[0, 0]
    v = T.decl_buffer((2, 16), data=T.select(x < 4, first.ptr_to([0]), second.ptr_to([0])), scope="shared")
    v.view(32)[x] = A[0, 0]


@T.prim_func
def past_the_buffer_of_a_changing_pointer(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")):
    T.cta_id([1])
    x = T.thread_id([32])
    first = T.alloc_shared((32,), "float32")
    second = T.alloc_shared((32,), "float32")
    p = first.ptr_to([0])
    for i in range(2):
        now: T.let = p
        v = T.decl_buffer((32,), data=now, scope="shared")
        v[x] = A[0, 0]
        p = second.ptr_to([1 + i])


@pytest.mark.parametrize(
    ("kernel", "shape", "buffer", "index"),
    [
        (row_before, (8, 32), "reads outside of A", "index -1 of dimension 1"),
        (next_row, (8, 8), "writes outside of s", "index 8 of dimension 1"),
        (past_a_view, (64,), "reads outside of v", "index 32 of dimension 0"),
        (past_a_declared_view, (64,), "reads outside of v", "index 16 of dimension 0"),
        (into_the_pools_next_buffer, (64,), "writes outside of a", "index 32 of dimension 0.*lane 31"),
        (a_lane_beyond_the_layout, (64,), "writes outside of x", "index 8 of dimension 0.*lanes 8..31"),
        (past_the_own_part, (64,), "writes outside of v", "index 4 of dimension 0"),
        (past_a_permuted_dimension, (8, 32), "writes outside of v", "index 8 of dimension 1.*lanes 24..31"),
        (past_a_dimension_through_a_pointer, (8, 8), "writes outside of B", "index 8 of dimension 1"),
        (past_a_dimension_through_a_named_pointer, (8, 8), "writes outside of B", "index 8 of dimension 1"),
        (past_a_dimension_atomically, (8, 8), "outside of B", "index 8 of dimension 1"),
        (a_vector_past_a_dimension, (8, 8), "reads outside of A", "index 8 of dimension 1"),
        (a_vector_stored_past_a_dimension, (8, 8), "writes outside of B", "index 8 of dimension 1"),
        (a_wide_access_past_the_end_of_a_view, (64,), "writes outside of a", "element 32 of storage, of 30..33,"),
        (past_the_storage_by_access_ptr, (64,), "writes outside of a", "element 32 of storage"),
        (a_vector_into_the_next_row, (8, 6), "writes outside of B", "index 6 of dimension 1, of 5..6, .*lanes 2..3"),
        (rounds_into_the_next_row, (8, 6), "writes outside of B", "index 6 of dimension 1, of 6..7, .*lanes 0..3"),
        (past_the_buffer_of_a_chosen_pointer, (8, 8), "writes outside of short", "element 16 of storage"),
        (past_the_buffer_of_a_lanes_pointer, (8, 8), "writes outside of second", "element 16 .*lanes 16..31"),
        (past_the_buffer_of_a_changing_pointer, (8, 8), "writes outside of second", "element 32 .*lane 31"),
        (a_chosen_side, (8, 8), "reads outside of A", "index 8 of dimension 1"),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_an_index_outside_of_its_dimension_is_an_error(
    kernel: Any, shape: tuple[int, ...], buffer: str, index: str
) -> None:
    made = tw.compile(kernel)
    first = array(*(int(extent) for extent in kernel.buffers[0].shape))
    runs: list[Callable[[], object]] = [
        lambda: made(first, array(*shape)),
        lambda: made.simulate(first, array(*shape), check="bounds"),
        lambda: made.simulate(first, array(*shape), check="all"),
    ]
    for run in runs if kernel is not past_the_own_part else runs[:2]:
        with pytest.raises(SimulationError, match=f"(?s){buffer}.*{index}.*allowed: +0\\.\\.") as raised:
            run()
        assert __file__.rpartition("/")[2] in str(raised.value)


@T.prim_func
def guarded(A: T.Buffer((8, 32), "float32"), B: T.Buffer((8, 32), "float32"), n: T.int32):
    T.cta_id([1])
    x = T.thread_id([32])
    for y in range(8):
        if x > 0:
            B[y, x] = A[y, x - 1]
        if x < n:
            B[y, x] = B[y, x] + T.if_then_else(x + 1 < 32, A[y, x + 1], T.float32(0))


@T.prim_func
def gathered(A: T.Buffer((8, 8), "float32"), places: T.Buffer((32,), "int32"), B: T.Buffer((32,), "float32")):
    T.cta_id([1])
    x = T.thread_id([32])
    B[x] = A[2, places[x]]


def test_a_guarded_index_passes() -> None:
    b = array(8, 32)

    tw.simulate(guarded, np.ones((8, 32), FLOATS), b, 32)

    assert b[3].tolist() == [1, *[2] * 30, 1]


def test_an_index_from_memory_is_looked_at_and_read_once() -> None:
    index = np.arange(32, dtype=np.int32) % 8

    run = tw.simulate(gathered, array(8, 8), index, array(32))

    assert run.counts.bytes_read["global"] == 2 * 32 * 4
    with pytest.raises(SimulationError, match=r"(?s)reads outside of A.*index 8 of dimension 1.*lane 5"):
        tw.simulate(gathered, array(8, 8), np.where(np.arange(32) == 5, 8, index).astype(np.int32), array(32))


def test_without_the_check_nothing_is_said() -> None:
    made = tw.compile(row_before)

    made.simulate(array(8, 32), array(8, 32), check=())

    assert "Dimension" not in str([type(value) for value in made.program(()).compiled.namespace.values()])


def test_a_lane_whose_row_does_not_count_may_point_past_the_dimension() -> None:
    @T.prim_func
    def load(A: T.Buffer((8, 8), "float16"), B: T.Buffer((32, 2), "float16")):
        T.cta_id([1])
        lane = T.lane_id([32])
        s = T.alloc_shared((8, 8), "float16")
        r = T.alloc_local((2,), "float16")
        if lane < 8:
            for c in range(8):
                s[lane, c] = A[lane, c]
        T.cuda.warp_sync()
        T.ptx.ldmatrix(False, 1, ".b16", s.ptr_to([lane, 0]), r.ptr_to([0]))
        B[lane, 0] = r[0]
        B[lane, 1] = r[1]

    a, b = np.arange(64, dtype=np.float16).reshape(8, 8), array(32, 2, kind=np.float16)

    tw.simulate(load, a, b)

    assert np.array_equal(b.reshape(8, 8), a)


@T.prim_func
def window(A: T.Buffer((64, 64), "float32"), B: T.Buffer((8, 32), "float32"), row: T.int32, column: T.int32):
    T.cta_id([1])
    T.thread_id([32])
    s = T.alloc_shared((8, 32), "float32")
    Tx.warp.copy(s[:, :], A[row : row + 8, column : column + 32])
    T.cuda.warp_sync()
    Tx.warp.copy(B[:, :], s[:, :])


def test_a_region_inside_of_its_buffer_is_copied() -> None:
    a, b = np.arange(4096, dtype=FLOATS).reshape(64, 64), array(8, 32)

    tw.simulate(window, a, b, 56, 32)

    assert np.array_equal(b, a[56:, 32:])


@pytest.mark.parametrize(("row", "column", "said"), [(3, 33, "64 of dimension 1"), (3, -1, "-1 of dimension 1")])
def test_a_region_that_leaves_a_dimension_is_an_error(row: int, column: int, said: str) -> None:
    with pytest.raises(SimulationError, match=f"(?s)reads outside of A.*index {said}"):
        tw.compile(window)(array(64, 64), array(8, 32), row, column)


@pytest.mark.parametrize("row", [57, -1, 1 << 30])
def test_a_region_that_leaves_the_buffer_is_an_error(row: int) -> None:
    with pytest.raises(SimulationError, match="reads outside of A"):
        tw.compile(window)(array(64, 64), array(8, 32), row, 0)


def test_what_the_ranges_prove_is_not_looked_at() -> None:
    from tilewright.demo.kernel import make
    from tilewright.ir import AddressOf, Load, expressions, statements

    for kernel in (make(256, swizzled=True), make(256, swizzled=False)):
        lowered = tw.compile(kernel).lowered
        nodes = [node for stmt in statements(lowered.body) for node in expressions(stmt)]
        assert not [node.owed for node in nodes if isinstance(node, (Load, AddressOf)) and node.owed]


@T.prim_func
def pointers_chosen_well(A: T.Buffer((2, 32), "float32"), B: T.Buffer((2, 32), "float32")):
    T.cta_id([1])
    x = T.thread_id([32])
    pool = T.SMEMPool()
    first, second = pool.alloc((32,), "float32"), pool.alloc((64,), "float32")
    pool.commit()
    p = first.ptr_to([0])
    for i in range(2):
        now: T.let = p
        v = T.decl_buffer((32,), data=now, scope="shared")
        v[x] = A[i, x]
        p = second.ptr_to([32])
    own = T.decl_buffer((32,), data=T.select(x % 2 == 0, first.ptr_to([0]), second.ptr_to([32])), scope="shared")
    B[0, x] = own[x]
    B[1, x] = second[32 + x]


def test_a_view_of_a_chosen_pointer_lies_in_the_buffer_that_was_chosen() -> None:
    a, b = np.arange(64, dtype=FLOATS).reshape(2, 32), array(2, 32)

    tw.simulate(pointers_chosen_well, a, b, check="all")

    assert b[0].tolist() == np.where(np.arange(32) % 2 == 0, a[0], a[1]).tolist()
    assert b[1].tolist() == a[1].tolist()


def test_a_view_of_a_pointer_from_nowhere_is_refused() -> None:
    @T.prim_func
    def strange(A: T.Buffer((2,), "uint64")):
        T.thread_id([32])
        v = T.decl_buffer((8,), "float32", data=T.reinterpret("handle", A[0]), scope="shared")
        v[0] = 1.0

    with pytest.raises(KernelError, match="nothing says which buffer the view v lies in"):
        tw.compile(strange)


def test_a_vector_at_the_end_of_its_row_is_refused_with_the_element_that_is_outside() -> None:
    with pytest.raises(KernelError, match="runs over the end of its row of A") as raised:

        @T.prim_func
        def past(A: T.Buffer((4, 6), "float32")):
            A.vstore([T.thread_id([4]), 4], T.float32x4(0))

    assert raised.value.given == "6 is outside, of 4..7"


def test_an_index_that_a_uniform_condition_chooses_is_an_array_on_both_sides() -> None:
    @T.prim_func
    def chosen(A: T.Buffer((32,), "float32"), n: T.int32):
        x = T.thread_id([32])
        A[T.select(n > 0, 31 - x, 0)] = 1.0 * n

    for n in (0, 1):
        a = array(32)
        tw.simulate(chosen, a, n, check="bounds")
        assert a.sum() == 32 * n


MOVING = {  # what a kernel does with pointers, and what is said of it
    "a pointer that walks": (
        "for i in range(9):\n    r[0] = T.ptx.ld(p + 4 * x, type='f32')\n    p = p + 64",
        "s[8, 0]",
    ),
    "a pointer that walks down": (
        "for i in range(2):\n    r[0] = T.ptx.ld(p + 4 * x, type='f32')\n    p = p - 64",
        "s[-1, 0]",
    ),
    "a pointer that is a number": (
        "n = T.cast(p, 'int64')\nn = n + 512\nr[0] = T.ptx.ld(T.cast(n, 'handle'), type='f32')",
        "s[8, 0]",
    ),
    "a pointer that lanes choose": (
        "if x > 4:\n    p = t.ptr_to([0, 0])\nr[0] = T.ptx.ld(p + 4 * x + 480, type='f32')",
        "t[8, 0]",
    ),
    "buffers that change places": (
        "q = t.ptr_to([0, 0])\np, q = q, p\nT.cuda.copy_bytes(r.ptr_to([0]), p + 512, 4)",
        "t[8, 0]",
    ),
    "a matrix from a pointer that walks": (
        "p = p + 512\nT.ptx.ldmatrix(False, 1, '.b16', p, u[0])",
        "s[8, 0] to s[8, 3], 16 bytes",
    ),
    "a pointer to registers": (
        "q = r.ptr_to([0])\nq = q + 8\nT.cuda.copy_bytes(q, p, 4)",
        "r[2]",
    ),
}


def moving(lines: str) -> Any:
    """A kernel with two shared buffers, a pointer to the first, and these lines."""
    head = """
@T.prim_func
def k(A: T.Buffer((8,), "float32")):
    T.cta_id([1])
    x = T.thread_id([16])
    s = T.alloc_shared((8, 16), "float32")
    t = T.alloc_shared((8, 16), "float32")
    r = T.alloc_local((2,), "float32")
    u = T.alloc_local((1,), "uint32")
    p = s.ptr_to([0, 0])
"""
    return parse_script(head + "".join(f"    {line}\n" for line in lines.splitlines()))


@pytest.mark.parametrize("name", MOVING)
def test_a_pointer_that_moves_stays_in_the_buffer_that_it_leads_to(name: str) -> None:
    lines, said = MOVING[name]
    with pytest.raises(SimulationError, match="outside of") as raised:
        tw.simulate(moving(lines), array(8), check="bounds")
    assert str(raised.value.given).startswith(said)


@pytest.mark.parametrize(
    "lines",
    [
        "for i in range(8):\n    r[0] = T.ptx.ld(p + 4 * x, type='f32')\n    p = p + 64",
        "p = p + 512\nr[0] = T.ptx.ld(p - 4 * x - 4, type='f32')",
        "q = t.ptr_to([0, 0])\nfor i in range(4):\n    r[0] = T.ptx.ld(p + 4 * x, type='f32')\n    p, q = q, p",
        "if x > 7:\n    p = p + 4096\nr[0] = T.ptx.ld(p, type='f32') if x < 8 else 0.0",
    ],
)
def test_a_pointer_may_be_anywhere_while_nobody_follows_it(lines: str) -> None:
    tw.simulate(moving(lines), array(8), check="bounds")


@pytest.mark.parametrize(("last", "outside"), [(90, False), (60, True)])
def test_a_view_that_is_as_long_as_each_cta_loads_has_bounds_of_its_own(last: int, outside: bool) -> None:
    @T.prim_func
    def ragged(X: T.Buffer((96,), "float32"), starts: T.Buffer((3,), "int32"), Y: T.Buffer((2, 32), "float32")):
        row = T.cta_id([2])
        tid = T.thread_id([32])
        length = starts[row + 1] - starts[row]
        inside = T.decl_buffer((length,), "float32", data=X.data, elem_offset=starts[row])
        Y[row, tid] = inside[tid]

    x, y = np.arange(96, dtype=np.float32), np.zeros((2, 32), np.float32)
    given = np.array([0, 40, last], np.int32)
    if outside:
        with pytest.raises(SimulationError, match="reads outside of inside") as raised:
            tw.simulate(ragged, x, given, y)
        assert "index 20 of dimension 0 in CTA (1, 0, 0)" in str(raised.value)
    else:
        tw.simulate(ragged, x, given, y)
        assert (y == np.stack([x[:32], x[40:72]])).all()


@T.prim_func
def copied_from_a_loaded_place(
    X: T.Buffer((256,), "float32"), at: T.Buffer((2,), "int32"), Y: T.Buffer((32,), "float32")
):
    T.cta_id([1])
    T.lane_id([32])
    view = T.decl_buffer((32,), "float32", data=X.data, elem_offset=at[0])
    Tx.warp.copy(Y, view[at[1] : at[1] + 32])


@T.prim_func
def pointed_to(X: T.Buffer((256,), "float32"), at: T.Buffer((2,), "int32"), Y: T.Buffer((32,), "float32")):
    T.cta_id([1])
    lane = T.lane_id([32])
    view = T.decl_buffer((32,), "float32", data=X.data, elem_offset=at[at[1]])
    place = view.ptr_to([lane + at[1]])
    Y[lane] = T.ptx.ld(place, type="f32")


@pytest.mark.parametrize("kernel", [copied_from_a_loaded_place, pointed_to])
def test_a_view_at_a_loaded_place_has_bounds_of_its_own(kernel: Any) -> None:
    x, y = np.arange(256, dtype=np.float32), np.zeros(32, np.float32)

    tw.simulate(kernel, x, np.array([64, 0], np.int32), y)

    assert (y == x[64:96]).all()
    with pytest.raises(SimulationError, match="reads outside of view"):
        tw.simulate(kernel, x, np.array([64, 1], np.int32), y)
