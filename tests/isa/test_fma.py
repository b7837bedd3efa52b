"""fma rounds once."""

from __future__ import annotations

from fractions import Fraction

import ml_dtypes
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.isa.numbers import nearest
from tilewright.isa.arith import fma_double, fma_narrow

SINGLE = st.floats(width=32, min_value=-(2.0**60), max_value=2.0**60)
DOUBLE = st.floats(min_value=-1e100, max_value=1e100).filter(lambda x: x == 0 or abs(x) > 1e-100)


@given(SINGLE, SINGLE, SINGLE)
def test_a_float32_fma_is_the_exact_value_rounded(a: float, b: float, c: float) -> None:
    expected = nearest("f32", Fraction(a) * Fraction(b) + Fraction(c))

    with np.errstate(all="ignore"):
        result = fma_narrow(*(np.array([value], np.float32) for value in (a, b, c)))

    assert float(result[0]) == float(np.float32(expected))


@given(DOUBLE, DOUBLE, DOUBLE)
def test_a_float64_fma_is_the_exact_value_rounded(a: float, b: float, c: float) -> None:
    result = fma_double(*(np.array([value], np.float64) for value in (a, b, c)))

    assert float(result[0]) == float(Fraction(a) * Fraction(b) + Fraction(c))


def test_two_roundings_would_show() -> None:
    """1 + 2**-24 lies halfway between two float32; the tiny addend decides, unless float64 has swallowed it."""
    a, b, c = np.float32(1 + 2**-12), np.float32(1 + 2**-12), np.float32(2.0**-60)
    product = Fraction(float(a)) * Fraction(float(b))

    result = fma_narrow(np.array([a]), np.array([b]), np.array([c]))[0]

    assert float(np.float32(float(a) * float(b) + float(c))) != float(result)
    assert float(result) == nearest("f32", product + Fraction(float(c)))
    assert result.dtype == np.float32


def test_a_bfloat16_fma_is_rounded_once() -> None:
    """The product lies halfway between two bfloat16; the tiny addend decides, unless float32 has swallowed it."""
    a, c = 1 + 2**-4, 2.0**-40

    result = fma_narrow(*(np.array([value]).astype(ml_dtypes.bfloat16) for value in (a, a, c)))[0]

    assert float(result) == nearest("bf16", Fraction(a) * Fraction(a) + Fraction(c)) == 1.125 + 2**-7


def test_infinities_and_nan_pass() -> None:
    one, infinity = np.array([1, 1], np.float32), np.array([np.inf, np.nan], np.float32)

    with np.errstate(all="ignore"):
        narrow = fma_narrow(one, one, infinity)
        wide = fma_double(np.array([np.inf, np.inf]), np.array([0.0, 1.0]), np.array([1.0, 1.0]))

    assert narrow[0] == np.inf
    assert np.isnan(narrow[1])
    assert np.isnan(wide[0])
    assert wide[1] == np.inf
