"""How wide index arithmetic is: 64 bits where the facts do not prove 32 enough, on both sides."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import T, Tx
from tilewright.errors import ArgumentError, SimulationError
from tilewright.ir import AddressOf, Load, expressions, statements

ROWS, COLUMNS = 40000, 65536  # 2.6 G elements: untouched memory costs nothing


@T.prim_func
def element(A: T.Buffer((40000, 65536), "int8"), row: T.int32):
    T.cta_id([1])
    x = T.thread_id([32])
    A[row, x] = T.int8(7)


@T.prim_func
def one_dimension(A: T.Buffer((40000 * 65536,), "int8"), row: T.int32):
    T.cta_id([1])
    x = T.thread_id([32])
    A[row * 65536 + x] = T.int8(7)


def symbolic(extent: Any) -> Any:
    """With extents of a type that the run gives."""

    @T.prim_func
    def far(A_ptr: T.handle, row: T.int32):
        m, n = extent(), extent()
        A = T.match_buffer(A_ptr, (m, n), "int8")
        T.cta_id([1])
        x = T.thread_id([32])
        A[row, x] = T.int8(7)

    return far


@T.prim_func
def through_a_view(A: T.Buffer((40000, 65536), "int8"), row: T.int32):
    T.cta_id([1])
    x = T.thread_id([32])
    v = T.decl_buffer((4, 8), "int8", data=A.ptr_to([row, 0]))
    v[x // 8, x % 8] = T.int8(7)


@T.prim_func
def through_an_offset(A_ptr: T.handle, row: T.int32):
    A = T.match_buffer(A_ptr, (40000, 65536), "int8")
    T.cta_id([1])
    x = T.thread_id([32])
    v = T.decl_buffer((32,), "int8", data=A.data, elem_offset=row * 65536)
    v[x] = T.int8(7)


@T.prim_func
def through_a_pointer(A: T.Buffer((40000, 65536), "int8"), row: T.int32):
    T.cta_id([1])
    x = T.thread_id([32])
    s = T.alloc_shared((32, 16), "int8")
    s[x, 0] = T.int8(7)
    T.cuda.copy_bytes(A.ptr_to([row, x]), s.ptr_to([x, 0]), 1)


@T.prim_func
def through_pointer_arithmetic(A: T.Buffer((40000, 65536), "int8"), row: T.int32):
    T.cta_id([1])
    x = T.thread_id([32])
    s = T.alloc_shared((32, 16), "int8")
    s[x, 0] = T.int8(7)
    T.cuda.copy_bytes(A.access_ptr("w", offset=row * 65536 + x), s.ptr_to([x, 0]), 1)


@T.prim_func
def by_tile(A: T.Buffer((40000, 65536), "int8"), row: T.int32):
    T.cta_id([1])
    x = T.thread_id([32])
    s = T.alloc_shared((1, 32), "int8")
    s[0, x] = T.int8(7)
    T.cuda.warp_sync()
    Tx.warp.copy(A[row : row + 1, 0:32], s[:, :])


@T.prim_func
def by_registers(A: T.Buffer((40000, 65536), "int8"), row: T.int32):
    T.cta_id([1])
    x = T.thread_id([2])
    r = T.alloc_local((16,), "int8")
    for k in T.unroll(16):
        r[k] = T.int8(7)
    Tx.copy(A[row, x * 16 : x * 16 + 16], r[:])


@T.prim_func
def far_by_a_constant(A: T.Buffer((40000, 65536), "int8"), row: T.int32):
    T.cta_id([1])
    x = T.thread_id([2])
    r = T.alloc_local((16,), "int8")
    for k in T.unroll(16):
        r[k] = T.int8(7)
    Tx.copy(A[39999, x * 16 : x * 16 + 16], r[:])


FAR = [
    element,
    one_dimension,
    symbolic(T.int32),
    symbolic(T.int64),
    through_a_view,
    through_an_offset,
    through_a_pointer,
]
FAR += [through_a_pointer, through_pointer_arithmetic, by_tile, by_registers, far_by_a_constant]


@pytest.fixture(scope="module")
def far_array() -> np.ndarray[Any, Any]:
    return np.zeros((ROWS, COLUMNS), np.int8)


@pytest.mark.parametrize("kernel", FAR, ids=lambda kernel: kernel.name)
def test_an_element_beyond_two_to_the_31_is_reached(kernel: Any, far_array: np.ndarray[Any, Any]) -> None:
    a = far_array if kernel is not one_dimension else far_array.reshape(-1)
    far_array[-1] = 0

    tw.simulate(kernel, a, ROWS - 1, check="bounds")

    assert far_array[-1].tolist() == [7] * 32 + [0] * (COLUMNS - 32)


@pytest.mark.parametrize("kernel", FAR, ids=lambda kernel: kernel.name)
def test_its_index_has_64_bits_in_the_lowered_kernel_and_in_cuda(kernel: Any) -> None:
    made = tw.compile(kernel, "sm_90a")

    assert "long long" in made.source("cuda").partition("{")[2]
    assert {str(index.dtype) for index in _indices(made, "A")} <= {"int64"} or kernel is through_pointer_arithmetic
    pytest.importorskip("cuda.bindings")
    assert made.cubin


def _indices(made: tw.Executable, name: str) -> list[Any]:
    nodes = [node for stmt in statements(made.lowered.body) for node in expressions(stmt)]
    return [index for n in nodes if isinstance(n, (Load, AddressOf)) and n.buffer.name == name for index in n.indices]


def test_strides_beyond_two_to_the_31_are_no_numbers_of_32_bits() -> None:
    @T.prim_func
    def deep(A: T.Buffer((4, 40000, 65536), "int8"), B: T.Buffer((4, 8, 16), "int8"), b: T.int32):
        T.cta_id([1])
        T.thread_id([32])
        s = T.alloc_shared((4, 8, 16), "int8")
        Tx.cta.copy(s[:, :, :], A[:, 39990:39998, 0:16])
        T.cuda.cta_sync()
        Tx.cta.copy(B[:, :, :], s[:, :, :])
        A[b, 39999, 5] = T.int8(1)

    text = tw.compile(deep, "sm_90a").source("cuda")

    assert "(long long)b * 2621440000ll" in text
    assert "* 5242880000ll" in text or "* 2621440000ll" in text
    assert "-16" not in text


def test_what_the_facts_prove_small_keeps_32_bits() -> None:
    @T.prim_func
    def small(A: T.Buffer((400, 65536), "int8"), B: T.Buffer((40000, 65536), "int8")):
        bx = T.cta_id([400])
        x = T.thread_id([32])
        A[bx, x] = T.int8(7)
        B[bx, x] = T.int8(7)

    assert "long long" not in tw.compile(small).source("cuda")


def test_one_symbolic_extent_of_32_bits_keeps_32_bits() -> None:
    @T.prim_func
    def vector(A_ptr: T.handle):
        n = T.int32()
        A = T.match_buffer(A_ptr, (n,), "float32")
        bx = T.cta_id([(n + 255) // 256])
        x = T.thread_id([256])
        if bx * 256 + x < n:
            A[bx * 256 + x] = T.float32(1)

    assert "long long" not in tw.compile(vector).source("cuda")


def test_an_assumption_may_prove_32_bits_enough() -> None:
    @T.prim_func
    def matrix(A_ptr: T.handle):
        m = T.int32()
        n = T.int32()
        A = T.match_buffer(A_ptr, (m, n), "float32")
        T.assume(m <= 4096)
        T.assume(n <= 4096)
        bx = T.cta_id([m])
        x = T.thread_id([32])
        if x < n:
            A[bx, x] = T.float32(1)

    assert "long long" not in tw.compile(matrix).source("cuda")


def test_an_extent_beyond_its_symbols_dtype_is_refused(far_array: np.ndarray[Any, Any]) -> None:
    @T.prim_func
    def vector(A_ptr: T.handle):
        n = T.int32()
        A = T.match_buffer(A_ptr, (n,), "int8")
        T.cta_id([1])
        x = T.thread_id([32])
        A[x] = T.int8(1)

    with pytest.raises(ArgumentError, match=r"(?s)the value of n does not fit int32.*2621440000.*T\.int64\(\)"):
        tw.compile(vector)(far_array.reshape(-1))


@pytest.mark.parametrize("row", [ROWS, -1, 2**31 - 1])
def test_a_row_outside_of_a_far_buffer_is_an_error(row: int, far_array: np.ndarray[Any, Any]) -> None:
    with pytest.raises(SimulationError, match="writes outside of A"):
        tw.simulate(element, far_array, row, check="bounds")


def test_a_symbol_times_a_number_beyond_int32_does_not_wrap_where_it_is_built() -> None:
    @T.prim_func
    def kernel(p: T.handle, q: T.handle):
        m = T.int32()
        A = T.match_buffer(p, (m, 40000, 65536), "int8")  # 2,621,440,000 elements to a row
        B = T.match_buffer(q, (32,), "int64")
        T.cta_id([1])
        lane = T.thread_id([32])
        A[m - 1, lane, 3] = T.int8(1)
        B[lane] = m * 2621440000

    text = tw.compile(kernel, "sm_90a").source("cuda")

    assert "(long long)(m - 1) * 2621440000ll" in text
    assert "= (long long)m * 2621440000ll" in text
