"""Arithmetic and conversions mean the same on hardware and on the simulator, bit for bit, for every element type."""

from __future__ import annotations

from zlib import crc32

import numpy as np
import pytest

from tests.cuda.kernels import SCALARS
from tests.gpu.hardware import Bench
from tests.gpu.numbers import computing, pairs, single
from tilewright.dtypes import DType, dtype
from tilewright.ir import Binary, Expr, Reinterpret, binary, cast, select, unary

pytestmark = pytest.mark.gpu

BITS = ("<<", ">>")
NUMBERS = [kind for kind in SCALARS if kind.kind != "bool" and str(kind) != "float8_e8m0fnu"]
DIVISIONS = ("//", "%", "truncdiv", "truncmod")


def rng_of(kind: DType) -> np.random.Generator:
    return np.random.default_rng(crc32(str(kind).encode()))


def operators(kind: DType) -> list[str]:
    if kind.is_float:
        return ["+", "-", "*", "/", "min", "max", *Binary.COMPARISONS]
    return ["+", "-", "*", *DIVISIONS, "min", "max", "&", "|", "^", *Binary.COMPARISONS]


@pytest.mark.parametrize("kind", NUMBERS, ids=str)
def test_operators(kind: DType, bench: Bench) -> None:
    a, b = pairs(kind, rng_of(kind))
    values = {f"out_{i}": (lambda x, y, op=op: binary(op, x, y)) for i, op in enumerate(operators(kind))}
    if not kind.is_float:  # the result of a division by zero is undefined
        b = np.where(b == 0, np.array(3).astype(kind.numpy), b)

    kernel, arrays = computing({"a": (kind, a), "b": (kind, b)}, values)

    bench.run(kernel.kernel(), arrays, nan_is_nan=True)


@pytest.mark.parametrize("kind", [kind for kind in NUMBERS if kind.is_float and kind.bits >= 16], ids=str)
@pytest.mark.parametrize("op", ["//", "%"])
def test_floor_division_of_floats(kind: DType, op: str, bench: Bench) -> None:
    a, b = pairs(kind, rng_of(kind))

    kernel, arrays = computing({"a": (kind, a), "b": (kind, b)}, {"out": lambda x, y: binary(op, x, y)})

    bench.run(kernel.kernel(), arrays, nan_is_nan=True)


@pytest.mark.parametrize("kind", [kind for kind in NUMBERS if kind.is_integer], ids=str)
def test_shifts(kind: DType, bench: Bench) -> None:
    a, b = pairs(kind, rng_of(kind))
    b = (b.astype(np.int64) % kind.bits).astype(kind.numpy)

    kernel, arrays = computing(
        {"a": (kind, a), "b": (kind, b)},
        {f"out_{i}": (lambda x, y, op=op: binary(op, x, y)) for i, op in enumerate(BITS)},
    )

    bench.run(kernel.kernel(), arrays)


@pytest.mark.parametrize("kind", NUMBERS, ids=str)
def test_signs_choices_and_bits(kind: DType, bench: Bench) -> None:
    values = {"negative": lambda x: unary("-", x), "chosen": lambda x: select(x < unary("-", x), x, unary("-", x))}
    if kind.is_integer:
        values["inverted"] = lambda x: unary("~", x)
    if kind.bits in (16, 32, 64):
        values["bits"] = lambda x: Reinterpret(x, dtype(f"uint{kind.bits}"))

    kernel, arrays = computing({"a": (kind, single(kind, rng_of(kind)))}, values)

    bench.run(kernel.kernel(), arrays, nan_is_nan=True)


@pytest.mark.parametrize("kind", SCALARS, ids=str)
def test_conversions(kind: DType, bench: Bench) -> None:
    """Every type to every other one: wrap, saturation, rounding to even, NaN; all bit patterns up to 16 bits."""
    targets = [to for to in SCALARS if to != kind]

    kernel, arrays = computing(
        {"a": (kind, single(kind, rng_of(kind)))}, {f"to_{to}": (lambda x, to=to: cast(x, to)) for to in targets}
    )

    bench.run(kernel.kernel(), arrays, nan_is_nan=True)


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float32", "float64"])
def test_chains_of_operations_round_after_each(kind: str, bench: Bench) -> None:
    def chain(x: Expr, y: Expr) -> Expr:
        return (x * y + x) * y - x / (y + cast(1.0, dtype(kind)))

    a, b = pairs(dtype(kind), rng_of(dtype(kind)))

    kernel, arrays = computing({"a": (dtype(kind), a), "b": (dtype(kind), b)}, {"out": chain})

    bench.run(kernel.kernel(), arrays, nan_is_nan=True)
