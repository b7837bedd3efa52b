"""Binding arguments: what a call may pass, each rule kept and broken."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.dtypes import BOOL, HANDLE, DType, dtype
from tilewright.errors import ArgumentError, KernelError, Span
from tilewright.host import pack_subbyte, unpack_subbyte
from tilewright.ir import (
    Assume,
    Buffer,
    Kernel,
    Load,
    ScopeId,
    Stmt,
    Store,
    TileCallStmt,
    Value,
    Var,
    as_expr,
    row_major,
)
from tilewright.ir.arguments import ArrayInfo, Signature
from tilewright.ir.numbers import evaluate
from tilewright.layout import S

FLOAT16, FLOAT32, FLOAT4, INT8, UINT32 = map(dtype, ("float16", "float32", "float4_e2m1fn", "int8", "uint32"))
N, M = Var("n"), Var("m")


def buffer(name: str, *shape: Value, kind: DType = FLOAT16, **fields: object) -> Buffer:
    given = {"layout": row_major(shape), "data": Var(f"{name}_ptr", HANDLE), **fields}
    return Buffer(name, kind, shape, "global", **given)  # type: ignore[arg-type]  # fields of a Buffer


A, B = buffer("A", N, 64), buffer("B", 64, N)


def signature(*params: Buffer | Var, symbols: tuple[Var, ...] = (), body: tuple[Stmt, ...] = ()) -> Signature:
    names = tuple(param.data if isinstance(param, Buffer) else param for param in params)
    buffers = tuple(param for param in params if isinstance(param, Buffer))
    return Signature.of(Kernel("k", names, buffers, body, symbols=symbols))  # type: ignore[arg-type]  # data is a Var


def array(*shape: int, kind: str = "float16", **fields: object) -> ArrayInfo:
    return ArrayInfo(shape, kind, **fields)  # type: ignore[arg-type]  # fields of an ArrayInfo


def test_symbols_take_their_values_from_the_shapes() -> None:
    bound = signature(A, B, symbols=(N,)).bind([array(32, 64), array(64, 32)])

    assert bound.values == {"n": 32}
    assert bound.grid == (1, 1, 1)


def test_arguments_must_agree_on_a_symbol() -> None:
    with pytest.raises(ArgumentError, match=r"(?s)disagree on n.*32 from A.shape\[0\], 16 from B.shape\[1\]"):
        signature(A, B, symbols=(N,)).bind([array(32, 64), array(64, 16)])


def test_a_symbol_that_is_a_parameter_must_agree_too() -> None:
    asked = signature(A, N)

    assert asked.bind([array(32, 64), 32]).values == {"n": 32}
    with pytest.raises(ArgumentError, match=r"(?s)disagree on n.*16 from the argument n"):
        asked.bind([array(32, 64), 16])


def test_an_extent_may_be_an_expression_of_symbols() -> None:
    asked = signature(A, buffer("C", N // 8, N + 1), symbols=(N,))

    assert asked.bind([array(32, 64), array(4, 33)]).values == {"n": 32}
    with pytest.raises(ArgumentError, match=r"(?s)argument C of k has another shape.*\(4, 32\).*\(4, 33\).*n = 32"):
        asked.bind([array(32, 64), array(4, 32)])


def test_a_symbol_that_no_shape_gives_is_refused() -> None:
    with pytest.raises(ArgumentError, match="the value of n does not follow"):
        signature(buffer("C", N * 2), symbols=(N,)).bind([array(32)])


def test_the_number_of_arguments_counts() -> None:
    with pytest.raises(ArgumentError, match=r"(?s)k takes 2 arguments.*given: +1.*A: float16 of shape \(n, 64\)"):
        signature(A, B, symbols=(N,)).bind([array(32, 64)])


# Arrays


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        ("float16", "float16"),
        ("tf32", "float32"),
        ("float4_e2m1fn", "float4_e2m1fn"),
        ("float6_e2m3fn", "uint8"),
        ("bool", "bool"),
    ],
)
def test_a_dtype_has_its_own_name_and_few_others(kind: str, given: str) -> None:
    signature(buffer("C", 64, kind=dtype(kind))).bind([array(64, kind=given)])


@pytest.mark.parametrize(("kind", "given"), [("float16", "uint16"), ("float32", "float64"), ("int8", "uint8")])
def test_an_array_of_another_dtype_is_refused(kind: str, given: str) -> None:
    with pytest.raises(ArgumentError, match=f"(?s)argument C of k has dtype {kind}.*given: +{given}.*allowed: +{kind}"):
        signature(buffer("C", 64, kind=dtype(kind))).bind([array(64, kind=given)])


def test_packed_elements_are_counted_by_their_bytes() -> None:
    asked = signature(buffer("C", 8, 64, kind=FLOAT4))

    for packed in (array(8, 32, kind="uint8"), array(8, 32, kind="float4_e2m1fn_x2")):
        asked.bind([packed])
    with pytest.raises(ArgumentError, match="another shape"):
        asked.bind([array(8, 64, kind="uint8")])


def test_vectors_are_counted_by_their_elements() -> None:
    asked = signature(buffer("C", 8, 16, kind=dtype("float16x4")))

    asked.bind([array(8, 64)])
    asked.bind([array(8, 16, 4)])


def test_another_rank_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"(?s)argument A of k has 2 dimensions.*\(2048\).*\(n, 64\)"):
        signature(A, symbols=(N,)).bind([array(2048)])


def test_another_constant_extent_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"(?s)A of k has another shape.*\(32, 32\).*\(32, 64\).*n = 32"):
        signature(A, symbols=(N,)).bind([array(32, 32)])


@pytest.mark.parametrize(("shape", "strides"), [((32, 64), (64, 1)), ((1, 64), (7, 1)), ((0, 64), (1, 5))])
def test_a_contiguous_array_is_taken(shape: tuple[int, int], strides: tuple[int, int]) -> None:
    signature(A, symbols=(N,)).bind([array(*shape, strides=strides)])


@pytest.mark.parametrize("strides", [(1, 32), (128, 1), (64, 0), (-64, 1)])
def test_an_array_that_is_not_contiguous_is_refused(strides: tuple[int, int]) -> None:
    with pytest.raises(ArgumentError, match=r"(?s)argument A of k must be C-contiguous.*ascontiguousarray"):
        signature(A, symbols=(N,)).bind([array(32, 64, strides=strides)])


def test_a_copy_of_what_a_kernel_writes_is_advised_with_the_way_back() -> None:
    def hint(*body: Stmt) -> str | None:
        with pytest.raises(ArgumentError, match="must be C-contiguous") as refused:
            signature(A, symbols=(N,), body=body).bind([array(32, 64, strides=(128, 1))])
        return refused.value.hint

    assert hint() == "numpy.ascontiguousarray(array)"
    back = "numpy.ascontiguousarray(array), copied back after the call; or strides= where A is declared"
    assert hint(Store(Load(A, (as_expr(0), as_expr(0))), as_expr(0, FLOAT16))) == back


def test_an_array_is_aligned_to_16_bytes_unless_the_buffer_says_otherwise() -> None:
    with pytest.raises(ArgumentError, match=r"(?s)A of k must be aligned to 16 bytes.*multiple of 4.*align=4"):
        signature(A, symbols=(N,)).bind([array(32, 64, address=0x1004)])

    signature(A, symbols=(N,)).bind([array(32, 64, address=0x1010)])
    signature(buffer("A", N, 64, align=4), symbols=(N,)).bind([array(32, 64, address=0x1004)])
    with pytest.raises(ArgumentError, match="aligned to 128 bytes"):
        signature(buffer("A", N, 64, align=128), symbols=(N,)).bind([array(32, 64, address=0x1010)])


def test_a_read_only_array_may_only_be_read() -> None:
    write = Store(Load(A, (as_expr(0), as_expr(0))), as_expr(0, FLOAT16))
    copy = TileCallStmt("copy", "cta", (A.region(), A.region()))

    signature(A, symbols=(N,)).bind([array(32, 64, readonly=True)])
    for stmt in (write, copy):
        with pytest.raises(ArgumentError, match=r"(?s)argument A of k is written.*read-only"):
            signature(A, symbols=(N,), body=(stmt,)).bind([array(32, 64, readonly=True)])


def test_a_number_is_no_array_and_an_array_no_number() -> None:
    with pytest.raises(ArgumentError, match=r"(?s)argument A of k is an array.*int 3"):
        signature(A, symbols=(N,)).bind([3])
    with pytest.raises(ArgumentError, match=r"(?s)argument m of k is an integer.*float16 of shape"):
        signature(M).bind([array(4)])


def test_storage_of_another_layout_must_be_large_enough() -> None:
    padded = buffer("C", 8, 64, layout=S[(8, 64) : (72, 1)])

    signature(padded).bind([array(568)])
    signature(padded).bind([array(8, 72)])
    with pytest.raises(ArgumentError, match=r"(?s)C of k is too small for its layout.*512 elements.*568 elements"):
        signature(padded).bind([array(8, 64)])


def test_a_column_major_buffer_takes_as_many_elements() -> None:
    signature(buffer("C", 8, 64, layout=S[(8, 64) : (1, 8)])).bind([array(64, 8)])


# Scalars


@pytest.mark.parametrize(
    ("kind", "value", "bound"),
    [
        ("int32", 7, 7),
        ("int32", np.int64(7), 7),
        ("int32", True, 1),
        ("uint8", 255, 255),
        ("float32", 2, 2.0),
        ("float32", np.float16(0.5), 0.5),
        ("bool", True, True),
        ("bool", np.False_, False),
        ("bool", 1, True),
    ],
)
def test_a_scalar_is_a_python_or_numpy_number(kind: str, value: object, bound: object) -> None:
    values = signature(Var("s", dtype(kind))).bind([value]).values  # type: ignore[list-item]

    assert values == {"s": bound}
    assert type(values["s"]) is type(bound)


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        ("int32", 2**31, "(?s)s of k does not fit int32.*2147483648.*-2147483648 to 2147483647"),
        ("uint32", -1, "does not fit uint32"),
        ("bool", 2, "does not fit bool"),
        ("int32", 1.5, r"(?s)s of k is an integer.*float 1.5.*integer \(int32\)"),
        ("float32", "1", "(?s)s of k is a number.*str '1'"),
        ("int32", None, "is an integer"),
        ("int8", 300, r"(?s)s of k does not fit int8.*300.*-128 to 127"),
        ("uint32", -1, r"(?s)s of k does not fit uint32.*-1.*0 to 4294967295"),
        ("int32", 2**31, "(?s)s of k does not fit int32.*2147483648"),
        ("bool", 7, "(?s)s of k does not fit bool.*7.*True or False"),
        ("float16", 1e6, "(?s)s of k does not fit float16.*1000000.0.*-65504 to 65504"),
        ("bfloat16", 3.4e38, "s of k does not fit bfloat16"),
        ("float32", np.float64(1e39), "s of k does not fit float32"),
        ("float64", 10**400, "s of k does not fit float64"),
    ],
)
def test_another_scalar_is_refused(kind: str, value: object, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        signature(Var("s", dtype(kind))).bind([value])  # type: ignore[list-item]


# Assumptions and the grid


def test_assumptions_are_checked() -> None:
    asked = signature(A, M, symbols=(N,), body=(Assume((N % 8 == 0), at=Span("stage.py", 5)), Assume(M < N)))

    asked.bind([array(32, 64), 31])
    with pytest.raises(ArgumentError, match=r"(?s)stage.py:5: an assumption of k does not hold: n % 8 == 0.*n = 33"):
        asked.bind([array(33, 64), 31])
    with pytest.raises(ArgumentError, match="m = 32, n = 32"):
        asked.bind([array(32, 64), 32])


def test_an_assumption_that_divides_by_zero_does_not_hold() -> None:
    with pytest.raises(ArgumentError, match="an assumption of k does not hold: n % m == 0"):
        signature(M, N, body=(Assume(N % M == 0),)).bind([0, 8])


def test_the_grid_is_evaluated() -> None:
    asked = signature(A, symbols=(N,), body=(ScopeId("cta_id", (Var("bx"), Var("by")), ((N + 7) // 8, 2)),))

    assert asked.bind([array(33, 64)]).grid == (5, 2, 1)
    assert asked.bind([array(0, 64)]).grid == (0, 2, 1)


def test_a_grid_that_no_gpu_has_is_refused() -> None:
    asked = signature(M, body=(ScopeId("cta_id", (Var("bx"), Var("by")), (1, M)),))

    for value in (65536, -1):
        with pytest.raises(ArgumentError, match=f"(?s)the grid of k has {value} CTAs along y.*0 to 65535"):
            asked.bind([value])


def test_calls_that_bind_alike_have_one_key() -> None:
    asked = signature(A, M, symbols=(N,))

    key = asked.key([array(32, 64, address=0x1000), 3])

    assert key == asked.key([array(32, 64, address=0x7000), 3])
    assert hash(key) == hash(asked.key([array(32, 64, address=0x7000), 3]))
    assert len({key, asked.key([array(32, 64, address=0x1008), 3]), asked.key([array(32, 64, address=0x1000), 4])}) == 3
    assert asked.key([array(32, 64), 1]) != asked.key([array(32, 64), True])


# Evaluation


def test_an_expression_is_evaluated_in_its_own_arithmetic() -> None:
    assert evaluate((N + 127) // 128, {"n": 300}) == 3
    assert evaluate(N + 1, {"n": 2**31 - 1}) == -(2**31)
    assert evaluate(Var("u", UINT32) - 1, {"u": 0}) == 2**32 - 1
    assert evaluate(5, {}) == 5


def test_what_has_no_value_on_the_host_is_an_error() -> None:
    with pytest.raises(KernelError, match="the value of n is not known here"):
        evaluate(N + 1, {"m": 1})
    with pytest.raises(KernelError, match="has no value"):
        evaluate(N // M, {"n": 1, "m": 0})
    with pytest.raises(KernelError, match="outside of a running kernel"):
        evaluate(Load(A, (as_expr(0), as_expr(0))), {})


def test_logic_looks_no_further_than_it_must() -> None:
    from tilewright.ir.build import binary

    assert evaluate(binary("and", Var("p", BOOL), N // M > 0), {"p": False, "n": 1, "m": 0}) is False


# 4-bit elements


@given(st.lists(st.integers(0, 15), max_size=33))
def test_unpacking_undoes_packing(nibbles: list[int]) -> None:
    values = np.array(nibbles, np.uint8).view(ml_dtypes.float4_e2m1fn)

    packed = pack_subbyte(values)

    assert packed.size == -(-len(nibbles) // 2)
    assert unpack_subbyte(packed, values.shape, FLOAT4).view(np.uint8).tolist() == nibbles


def test_the_first_of_two_elements_is_the_low_half() -> None:
    values = np.array([1.0, 6.0], ml_dtypes.float4_e2m1fn)

    assert pack_subbyte(values).tolist() == [0x72]


def test_the_names_of_arguments_are_those_of_their_buffers() -> None:
    with pytest.raises(ArgumentError, match="k takes 2 arguments") as refused:
        signature(A, B, symbols=(N,)).bind([array(32, 64)])

    assert refused.value.allowed == "A: float16 of shape (n, 64), B: float16 of shape (64, n)"


@pytest.mark.parametrize(("is_tensor", "hint"), [(True, ".to(torch.float16)"), (False, ".astype('float16')")])
def test_the_hint_of_another_dtype_is_what_its_library_has(is_tensor: bool, hint: str) -> None:
    wrong = array(32, 64, kind="float64", is_tensor=is_tensor)

    with pytest.raises(ArgumentError, match="argument A of k has dtype float16") as refused:
        signature(A, symbols=(N,)).bind([wrong])

    assert refused.value.hint is not None
    assert refused.value.hint.startswith(hint)
