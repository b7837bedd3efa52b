"""How a kernel gets its parameters: handles, arrays, scalars, symbolic extents, constants of compile time."""

# ruff: noqa: F841  the names of a kernel are read by its parser
from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tests.lang.kernels import body, reads_back
from tilewright.dtypes import HANDLE, dtype
from tilewright.errors import KernelError
from tilewright.ir import Buffer, Kernel, Var, const_value
from tilewright.lang import T
from tilewright.layout import S


def test_the_decorated_name_is_the_kernel() -> None:
    @T.prim_func
    def scale(A_ptr: T.handle):
        A = T.match_buffer(A_ptr, (8,), "float32")
        A[0] = 1

    assert isinstance(scale, Kernel)
    assert (scale.name, scale.stage) == ("scale", "tile")
    assert str(scale).endswith("A[0] = 1.0")


def test_a_called_decorator_accepts_the_options_of_existing_kernels() -> None:
    @T.prim_func(check_well_formed=False, private=True)
    def empty() -> None:
        pass

    assert empty.body == ()
    assert reads_back(empty)


def test_a_handle_is_matched_with_a_buffer() -> None:
    @T.prim_func
    def k(A_ptr: T.handle):
        A = T.match_buffer(A_ptr, (8, 4), "float16", layout=S[(8, 4) : (1, 8)], align=32)

    pointer = Var("A_ptr", HANDLE)
    assert k.params == (pointer,)
    assert k.buffers == (Buffer("A", dtype("float16"), (8, 4), "global", S[(8, 4) : (1, 8)], data=pointer, align=32),)
    assert reads_back(k)


def test_a_buffer_annotation_is_a_handle_and_a_buffer() -> None:
    @T.prim_func
    def annotated(A: T.Buffer((8, 4), "float16")):
        A[0, 0] = 0

    @T.prim_func
    def annotated_as(A_ptr: T.handle):
        A = T.match_buffer(A_ptr, (8, 4), "float16")
        A[0, 0] = 0

    assert annotated.params == annotated_as.params
    assert annotated.buffers == annotated_as.buffers
    assert annotated.body == annotated_as.body


def test_scalars_are_parameters_of_their_dtype() -> None:
    @T.prim_func
    def k(n: T.int64, scale: T.bfloat16, A: T.Buffer((4,), "float32")):
        A[n] = scale

    assert [(var.name, var.dtype) for var in k.params] == [("n", "int64"), ("scale", "bfloat16"), ("A_ptr", "handle")]
    assert body(k) == 'A[n] = T.cast(scale, "float32")'


def test_symbolic_extents_are_shared_by_buffers() -> None:
    @T.prim_func
    def k(A_ptr: T.handle, B_ptr: T.handle):
        n = T.int32()
        A = T.match_buffer(A_ptr, (n, 16), "float16")
        B = T.match_buffer(B_ptr, (n // 2,), "float16")
        T.assume(n % 8 == 0)
        bx = T.cta_id([n // 8])

    assert k.symbols == (Var("n"),)
    assert str(k.buffers[1].shape[0]) == "n // 2"
    assert body(k) == "n = T.int32()\nT.assume(n % 8 == 0)\nbx = T.cta_id([n // 8])"


def test_a_scalar_parameter_may_be_an_extent() -> None:
    @T.prim_func
    def k(n: T.int32, A: T.Buffer((n, 4), "float32")):  # noqa: F821  a parameter
        A[n - 1, 0] = 0

    assert k.buffers[0].shape == (Var("n"), 4)
    assert k.symbols == ()
    assert reads_back(k)


def test_a_symbolic_extent_must_come_from_an_argument() -> None:
    with pytest.raises(KernelError, match="the symbolic extent n takes its value from no argument"):

        @T.prim_func
        def k(A: T.Buffer((4,), "float32")):
            n = T.int32()


@pytest.mark.parametrize("rows", [4, 8])
def test_kernels_close_over_the_names_of_their_builder(rows: int) -> None:
    columns, kind = rows * 2, "float16"

    @T.prim_func
    def k(A: T.Buffer((rows, columns), kind)):
        A[rows - 1, columns - 1] = 0

    assert k.buffers[0].shape == (rows, 2 * rows)
    assert body(k) == f"A[{rows - 1}, {2 * rows - 1}] = 0.0"


def test_jit_keeps_constants_for_specialize() -> None:
    @T.jit
    def k(A: T.Buffer((64,), "float32"), *, N: T.constexpr, kind: T.constexpr):
        for i in T.unroll(N):
            A[i] = T.cast(N, kind)

    assert body(k.specialize(N=2, kind="float16")).startswith("for i in T.unroll(2):")
    assert k.specialize(N=4, kind="float32") != k.specialize(N=2, kind="float32")


def test_a_constant_may_have_a_default() -> None:
    @T.jit
    def k(A: T.Buffer((64,), "float32"), *, N: T.constexpr = 4, M: T.constexpr):
        A[N] = M

    assert body(k.specialize(M=1)) == "A[4] = 1.0"
    assert body(k.specialize(M=1, N=2)) == "A[2] = 1.0"


def test_constants_may_be_extents_of_parameters() -> None:
    @T.jit
    def k(A: T.Buffer((N, 4), "float32"), *, N: T.constexpr):  # noqa: F821  a parameter
        A[0, 0] = N

    assert k.specialize(N=16).buffers[0].shape == (16, 4)


def test_specialize_wants_a_value_for_each_constant() -> None:
    @T.jit
    def k(A: T.Buffer((4,), "float32"), *, rows: T.constexpr):
        pass

    with pytest.raises(KernelError, match=r"k\.specialize takes a value for each constant") as raised:
        k.specialize(row=4)
    assert raised.value.allowed == "rows (did you mean 'rows'?)"

    with pytest.raises(KernelError, match="takes a value for each constant") as raised:
        k.specialize()
    assert (raised.value.allowed, raised.value.hint) == ("rows", "k.specialize(rows=...)")


def test_an_unspecialized_kernel_says_what_to_call() -> None:
    @T.jit
    def k(A: T.Buffer((4,), "float32"), *, rows: T.constexpr):
        pass

    with pytest.raises(KernelError, match="k is not specialized") as raised:
        k(1)
    assert raised.value.hint == "k.specialize(rows=...)"


def test_one_handle_is_matched_once() -> None:
    with pytest.raises(KernelError, match="A_ptr is matched already"):

        @T.prim_func
        def k(A_ptr: T.handle):
            A = T.match_buffer(A_ptr, (4,), "float32")
            B = T.match_buffer(A_ptr, (4,), "float32")


def test_settings_of_the_function_and_of_the_kernel() -> None:
    @T.prim_func
    def k(A: T.Buffer((4,), "float32")):
        T.func_attr({"global_symbol": "main"})
        T.attr({"tirx.launch_bounds_min_blocks_per_sm": 2})
        T.hint("keep", level=[1, 2])

    assert k.attr("global_symbol") == "main"
    assert body(k).splitlines()[1:] == [
        'T.attr({"tirx.launch_bounds_min_blocks_per_sm": 2})',
        'T.attr({"hint": "keep, level=[1, 2]"})',
    ]


def test_strides_that_no_assignment_names_are_called_by_their_buffer() -> None:
    @T.prim_func
    def copied(a: T.handle, b: T.handle):
        m, n = T.int32(), T.int32()
        A = T.match_buffer(a, (m, n), "float32", strides=(T.int64(), 1))
        B = T.match_buffer(b, (m, n), "float32", strides=tuple(T.int64() for _ in "mn"))
        T.assume(A.layout.shard[0].stride % 4 == 0)
        T.cta_id([m])
        lane = T.thread_id([32])
        for row in range(m):
            B[row, lane] = A[row, lane]

    a, b = np.arange(4 * 64, dtype=np.float32).reshape(4, 64)[:, :32], np.zeros((32, 4), np.float32).T
    tw.simulate(copied, a, b, target="sm_90a", check="all")

    assert [var.name for var in copied.symbols] == ["m", "n", "stride_A", "stride_B", "stride_B_1"]
    assert "stride_A % 4 == 0" in str(copied)
    assert "long long stride_A" in tw.compile(copied, "sm_90a").source("cuda")
    assert np.array_equal(a, b)


def test_tensor_maps_of_a_specialised_kernel_have_its_numbers() -> None:
    @T.prim_func
    def mapped(a: T.handle):
        m = T.int32()
        A = T.match_buffer(a, (m, 32), "float32")
        T.cta_id([1])
        box = T.tensor_map(A, box=(32, 64))

    (tensor_map,) = mapped.specialize(m=64).maps

    assert [const_value(extent) for extent in tensor_map.dims] == [32, 64]
