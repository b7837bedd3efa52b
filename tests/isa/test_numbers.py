"""The PTX instructions on numbers that casts and operators become: where they assemble, and what they mean."""

from __future__ import annotations

from bisect import bisect_left
from fractions import Fraction
from functools import cache

import ml_dtypes
import numpy as np
import pytest

from tilewright import isa
from tilewright.cuda.nvrtc import assemble
from tilewright.dtypes import dtype
from tilewright.errors import ToolError
from tilewright.isa import CONSTRAINTS
from tilewright.isa.arith import OPCODES, NumberRow, _to_float, float_to_int, narrowed, opcode_row
from tilewright.isa.scalar.converting import from_integer

ROWS = {f"{key}": opcode_row(*key) for key in OPCODES}
REGISTERS = {
    "b16": "unsigned short",
    "b32": "unsigned int",
    "b64": "unsigned long long",
    "f32": "float",
    "f64": "double",
}


def text_of(row: NumberRow, name: str = "k") -> str:
    """A kernel that executes the row once."""
    params = "".join(f", {REGISTERS[kind]} in{i}" for i, kind in enumerate(row.operands))
    inputs = ", ".join(f'"{CONSTRAINTS[kind]}"(in{i})' for i, kind in enumerate(row.operands))
    result = REGISTERS[row.result]
    statement = f'asm("{row.text}" : "={CONSTRAINTS[row.result]}"(d) : {inputs});'
    return f'extern "C" __global__ void {name}({result}* out{params}) {{ {result} d; {statement} *out = d; }}'


@pytest.mark.parametrize("first", sorted({str(row.arch.archs()[0]) for row in ROWS.values()}))
def test_every_row_assembles_on_its_first_architecture(first: str) -> None:
    rows = [row for row in ROWS.values() if str(row.arch.archs()[0]) == first]

    assert assemble("\n".join(text_of(row, f"k{i}") for i, row in enumerate(rows)), first).cubin


@pytest.mark.parametrize("key", [key for key, row in ROWS.items() if str(row.arch.archs()[0]) != "sm_75"])
def test_a_row_is_refused_where_it_says_that_it_does_not_exist(key: str) -> None:
    lacking = [arch for arch in isa.ARCHS.values() if not ROWS[key].arch.admits(arch)]

    with pytest.raises(ToolError, match="does not assemble"):
        assemble(text_of(ROWS[key]), str(lacking[-1]))


# Oracles: one number at a time, exactly, in fractions


@cache
def magnitudes(name: str) -> list[Fraction]:
    """The finite values of ``name`` from zero up; the place of each is its code."""
    kind = dtype(name)
    codes = np.arange(1 << kind.value_bits - 1).astype(f"u{kind.numpy.itemsize}")
    with np.errstate(invalid="ignore"):  # some codes are signalling NaNs
        values = codes.view(kind.numpy).astype(np.float64)
    return [Fraction(float(value)) for value in values if np.isfinite(value)]


def nearest(value: Fraction, name: str) -> int:
    """The code of the finite magnitude of ``name`` that is nearest to a value in range, ties to the even code."""
    finite = magnitudes(name)
    above = bisect_left(finite, abs(value))
    near = range(max(0, above - 1), min(len(finite), above + 1))
    return min(near, key=lambda code: (abs(finite[code] - abs(value)), code % 2))


def sign_bit(value: float, name: str) -> int:
    return 1 << dtype(name).value_bits - 1 if np.signbit(value) else 0


SAMPLES = np.array(
    [0.0, -0.0, 1, -1, 0.3, 0.0625, 0.03125, 0.046875, -2.5, 3.5, 5, 6.9, -0.4375, 1.0625, 1.1875, 0.001], np.float32
)


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2", "float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn"])
def test_two_floats_round_to_the_nearest_narrow_ones_the_first_on_top(name: str) -> None:
    row = opcode_row("float32", name)
    largest = float(ml_dtypes.finfo(dtype(name).numpy).max)
    samples = SAMPLES.clip(-largest, largest)
    width = 4 if name == "float4_e2m1fn" else 8

    pairs = row.execute(samples, samples[::-1])

    codes = [nearest(Fraction(float(x)), name) | sign_bit(x, name) for x in samples]
    assert pairs.tolist() == [high << width | low for high, low in zip(codes, codes[::-1], strict=True)]


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2", "float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn"])
def test_the_instruction_saturates_and_comes_back_as_halves(name: str) -> None:
    largest = float(ml_dtypes.finfo(dtype(name).numpy).max)
    beyond = np.array([1e9, np.inf, -1e9, -np.inf], np.float32)

    pairs = opcode_row("float32", name).execute(np.zeros(4, np.float32), beyond)
    halves = opcode_row(name, "float16x2").execute(pairs)

    assert halves.astype(np.uint32).view(np.float16)[::2].tolist() == [largest, largest, -largest, -largest]


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_a_float_rounds_to_half_and_bfloat16(name: str) -> None:
    codes = opcode_row("float32", name).execute(SAMPLES)

    assert codes.view(np.uint16).tolist() == [nearest(Fraction(float(x)), name) | sign_bit(x, name) for x in SAMPLES]


BESIDE_A_TIE = [  # of bfloat16, which float32 has no bit to tell: a value, and the nearest bfloat16
    (np.int32((257 << 17) + 1), 258 << 17),
    (np.int32((257 << 17) - 1), 256 << 17),
    (np.int32(257 << 17), 256 << 17),
    (np.int64(-(257 << 17) - 1), -(258 << 17)),
    (np.float64(1 + 2**-8 + 2**-40), 1 + 2**-7),
    (np.float64(1 + 2**-8 - 2**-40), 1.0),
    (np.float64(1 + 2**-8), 1.0),
]


@pytest.mark.parametrize(("value", "nearest_one"), BESIDE_A_TIE)
def test_a_value_beside_a_tie_is_rounded_once(value: np.generic, nearest_one: float) -> None:
    values, kind = np.array([value]), np.dtype(ml_dtypes.bfloat16)

    assert _to_float(dtype(str(value.dtype)), dtype("bfloat16"))(values) == nearest_one
    by_cvt = narrowed(values, kind, "rn") if value.dtype.kind == "f" else from_integer(values, kind, "rn")
    assert by_cvt == nearest_one


@pytest.mark.parametrize(("op", "name"), [key for key in OPCODES if key[0] in "+-*" and dtype(key[1]).lanes == 1])
def test_an_operator_rounds_its_exact_result_once(op: str, name: str) -> None:
    kind = dtype(name).numpy
    a = np.array([1.5, 3, -2, 0.1, 100, 7, 1e-3, 5], np.float32).astype(kind)
    b = np.array([1 / 512, 1 / 3, 3, 0.7, -99, 1e-4, 2e-3, 5], np.float32).astype(kind)

    codes = opcode_row(op, name).execute(a.view(np.uint16), b.view(np.uint16))

    exact = [_exactly(op, Fraction(float(x)), Fraction(float(y))) for x, y in zip(a, b, strict=True)]
    assert codes.view(np.uint16).tolist() == [nearest(value, name) | (0x8000 if value < 0 else 0) for value in exact]


def _exactly(op: str, a: Fraction, b: Fraction) -> Fraction:
    return {"+": a + b, "-": a - b, "*": a * b}[op]


@pytest.mark.parametrize("name", ["float16x2", "bfloat16x2"])
def test_a_packed_operator_works_on_both_halves(name: str) -> None:
    kind = dtype(name).element.numpy
    a, b = np.array([1, 2, 3, 4], np.float32).astype(kind), np.array([10, 20, 30, 40], np.float32).astype(kind)

    sums = opcode_row("+", name).execute(a.view(np.uint32), b.view(np.uint32))

    assert sums.view(kind).astype(np.float32).tolist() == [11, 22, 33, 44]


@pytest.mark.parametrize("source", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["int32", "uint32", "int64", "uint64"])
def test_a_float_truncates_to_an_integer_and_saturates(source: type, name: str) -> None:
    ends = np.iinfo(name)
    values = [0.9, -0.9, 2.5, 1e6, -7.7, 1e30, -1e30, float("inf"), float("-inf")]

    result = float_to_int(np.array(values, source), name)

    inside = [int(v) if abs(v) < 1e7 else int(v > 0) * ends.max + int(v < 0) * ends.min for v in values]
    assert result.tolist() == [min(max(value, ends.min), ends.max) for value in inside]


def test_nan_is_zero_only_where_both_sides_have_32_bits() -> None:
    nan = np.array([np.nan], np.float32)

    assert float_to_int(nan, "int32") == 0
    assert float_to_int(nan, "int64") == np.iinfo("int64").min
    assert float_to_int(nan.astype(np.float64), "int32") == np.iinfo("int32").min


def test_tf32_has_ten_bits_of_fraction_and_ties_go_away_from_zero() -> None:
    last = 2.0**-10
    given = np.array([1 + last / 2, -1 - last / 2, 1 + last * 0.499, 1 + last * 1.5, 3.0, np.inf, -np.inf], np.float32)

    codes = opcode_row("float32", "tf32").execute(given)

    wanted = [1 + last, -1 - last, 1, 1 + 2 * last, 3, np.inf, -np.inf]
    assert codes.view(np.float32).tolist() == wanted
