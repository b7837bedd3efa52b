"""Operators and casts of every dtype as CUDA text, and that the text assembles."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from tests.cuda.kernels import SCALARS, TID, casts, mapped, operators, signs
from tests.cuda.together import together
from tests.sim.build import get, lowered, parameter, store
from tilewright import isa
from tilewright.cuda import emit
from tilewright.cuda.nvrtc import assemble
from tilewright.dtypes import DType, dtype
from tilewright.ir import Binary, Cast, Const, Expr, Load, Reinterpret, Select, Stmt, Unary, Var, as_expr, walk
from tilewright.ir.build import const

# Where the emitted text for numbers changes: half only, bfloat16's conversion, fp8, bfloat16's arithmetic, fp6 and fp4.
STEPS = ("sm_75", "sm_80", "sm_89", "sm_90", "sm_100a")
VECTOR_NAMES = """
float32x2 float32x4 float32x8 float16x2 float16x4 bfloat16x2 int32x4 int8x4 float8_e4m3fnx4 float4_e2m1fnx4
"""
VECTORS = tuple(map(dtype, VECTOR_NAMES.split()))


def written(value: Expr, arch: str = "sm_90a") -> str:
    """How one expression is written."""
    out = parameter("out", value.dtype)
    loaded = {node.buffer.name: node.buffer for node in walk(value) if isinstance(node, Load)}
    lines = emit(lowered("k", (*loaded.values(), out), (store(out, 0, value),)), isa.arch(arch)).splitlines()
    return lines[-2].strip().removeprefix("out[0] = ").removesuffix(";")


@pytest.mark.every(2)
@pytest.mark.parametrize("arch", STEPS)
def test_every_operator_and_cast_of_a_dtype_assembles(arch: str) -> None:
    kinds = [kind for kind in SCALARS if kind.is_float or arch == STEPS[0]]
    texts = []
    for kind in kinds:
        unary = [lambda a, b, f=f: f(a) for f in (*signs(kind), *casts(kind))]
        texts.append(emit(mapped(f"k_{kind}", [kind, kind], *operators(kind), *unary), isa.arch(arch)))

    made = together(texts, arch)

    assert [kind for kind in kinds if made.resources(f"k_{kind}").local_bytes] == []


def binary_of(op: str, kind: DType, a: Expr, b: Expr) -> Binary:
    return Binary(op, a, b, kind)


@pytest.mark.parametrize("kind", VECTORS)
def test_operators_on_vectors_go_element_by_element_in_registers(kind: DType) -> None:
    ops = ("+", "-", "*", "/", "min") if kind.is_float else ("+", "*", "//", "%", "<<", "max", "^")
    integers = dtype(f"int32x{kind.lanes}")
    values: list[Any] = [partial(binary_of, op, kind) for op in ops]
    values += [
        lambda a, b: Unary("-", a, kind),
        lambda a, b: Select(TID < 5, a, b, kind),
        lambda a, b: a + as_expr(2.5 if kind.is_float else 3, kind),
        lambda a, b: Cast(a, integers),
        lambda a, b: Cast(TID, kind),
    ]

    text = emit(mapped("k", [kind, kind], *values), isa.arch("sm_90a"))

    assert assemble(text, "sm_90a").resources("k").local_bytes == 0


# Floating point


def test_half_has_its_own_arithmetic_everywhere() -> None:
    h = Var("h", dtype("float16"))

    assert 'asm("add.rn.f16 %0, %1, %2;"' in emit(lowered("k", (), _stored(h + h), scalars=(h,)), isa.arch("sm_75"))


def _stored(value: Expr) -> tuple[Stmt, ...]:
    from tilewright.ir import Bind

    return (Bind(Var("y", value.dtype), value),)


@pytest.mark.parametrize(("arch", "own"), [("sm_89", False), ("sm_90", True)])
def test_bfloat16_adds_by_itself_from_sm_90_on_and_through_float32_before(arch: str, own: bool) -> None:
    h = Var("h", dtype("bfloat16"))

    text = emit(lowered("k", (), _stored(h + h), scalars=(h,)), isa.arch(arch))

    assert ("add.rn.bf16 %0" in text) is own
    assert ("bfloat16_from_float32(float32_from_bfloat16(a) + float32_from_bfloat16(b))" in text) is not own


def test_half_constants_are_their_bits_with_the_number_beside_them() -> None:
    assert written(Const(1.5, dtype("float16"))) == "0x3e00 /* 1.5 */"
    assert written(Const(-1.0, dtype("bfloat16"))) == "0xbf80 /* -1 */"


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (0.1, "float32", "0.1f"),
        (3.0, "float32", "3.0f"),
        (1e30, "float32", "1e+30f"),
        (0.1, "float64", "0.1"),
        (-2.0, "float32", "-2.0f"),
        (float("inf"), "float32", "__int_as_float(0x7f800000)"),
        (float("-inf"), "float64", "-__longlong_as_double(0x7ff0000000000000ll)"),
        (float("nan"), "float32", "__int_as_float(0x7fffffff)"),
    ],
)
def test_float_constants_keep_their_value(value: float, kind: str, text: str) -> None:
    assert written(Const(value, dtype(kind))) == text


@pytest.mark.parametrize("bits", np.random.default_rng(1).integers(0, 0x7F7FFFFF, 20).tolist())
def test_a_float32_constant_reads_back_to_the_same_bits(bits: int) -> None:
    value = float(np.uint32(bits).view(np.float32))

    text = written(Const(value, dtype("float32")))

    assert np.float32(text.removesuffix("f")).view(np.uint32) == bits


# Integers


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (-5, "int32", "-5"),
        (-(1 << 31), "int32", "-2147483647 - 1"),
        (7, "uint32", "7u"),
        (0xFFFFFFFF, "uint32", "0xffffffffu"),
        (1 << 40, "int64", "1099511627776ll"),
        (-(1 << 63), "int64", "-9223372036854775807ll - 1"),
        (255, "uint8", "255"),
    ],
)
def test_integer_constants(value: int, kind: str, text: str) -> None:
    assert written(const(value, dtype(kind))) == text


def test_narrow_integers_wrap_after_each_operator() -> None:
    x = get(parameter("a", "uint8"), TID)

    assert written(x + x) == "(unsigned char)((unsigned int)a[tid] + (unsigned int)a[tid])"


def test_unsigned_words_wrap_by_themselves() -> None:
    x = get(parameter("a", "uint32"), TID)

    assert written(x * 3 - 1) == "a[tid] * 3u - 1u"


def test_shifts_and_masks_keep_their_parentheses() -> None:
    assert written((TID & 7) << 4 | LANE_BIT) == "((tid & 7) << 4) | (tid >> 3)"


LANE_BIT = TID >> 3


# Conversions


def test_a_float_becomes_an_integer_by_the_instruction_that_saturates() -> None:
    x = get(parameter("a", "float32"), TID)

    assert written(Cast(x, dtype("int32"))) == "int32_from_float32(a[tid])"


def test_a_small_integer_needs_no_care_on_its_way_to_half() -> None:
    assert written(Cast(TID, dtype("float16"))) == "float16_from_float32((float)tid)"


def test_a_large_integer_is_rounded_to_odd_first() -> None:
    x = get(parameter("a", "int32"), TID)

    assert written(Cast(x, dtype("bfloat16"))) == "bfloat16_from_float32(odd_float32_from_int64(a[tid]))"


@pytest.mark.parametrize(
    ("source", "target", "text"),
    [
        ("float32", "int32", "__float_as_int(a[tid])"),
        ("uint32", "float32", "__uint_as_float(a[tid])"),
        ("float16", "uint16", "a[tid]"),
        ("float16", "int16", "(short)a[tid]"),
        ("float16x2", "uint32", "__builtin_bit_cast(unsigned int, a[tid])"),
        ("float64", "int64", "__double_as_longlong(a[tid])"),
        ("handle", "uint64", "(unsigned long long)a[tid]"),
    ],
)
def test_reinterpreting_keeps_the_bits(source: str, target: str, text: str) -> None:
    assert written(Reinterpret(get(parameter("a", source), TID), dtype(target))) == text
