"""Arithmetic with a rounding of one's choice: the sign of a sum that is exactly zero (IEEE 754, 6.3); fused doubles."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.isa.forms import executed
from tilewright import isa
from tilewright.isa.scalar import floats
from tilewright.isa.scalar.floats import arithmetic

Numbers = NDArray[np.float32]
X = np.array([3.0, -3.0, 1e-45, 0.0, -0.0], np.float32)
SUMS = {
    "add": lambda x: (x, -x),
    "sub": lambda x: (x, x),
    "fma": lambda x: (x, np.ones_like(x), -x),
}


def of_single(name: str, operands: tuple[Numbers, ...], mode: str) -> Numbers:
    (form,) = isa.INSTRUCTIONS[f"rounded_{name}"].forms
    return np.asarray(executed(form, {"rounding": mode}, *operands))


def of_pairs(name: str, operands: tuple[Numbers, ...], mode: str) -> Numbers:
    found = isa.opcode(f"{name}.{mode}.f32x2")
    pairs = (np.repeat(operand, 2).view(np.uint64) for operand in operands)
    words = executed(found.form, found.mods, *pairs)
    return np.asarray(words).view(np.float32)[::2]


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize("name", SUMS)
@pytest.mark.parametrize("compute", [of_single, of_pairs])
def test_a_sum_that_cancels_out_is_negative_zero_if_rounded_down(compute: Any, name: str, mode: str) -> None:
    result = compute(name, SUMS[name](X), mode)

    assert (result == 0).all()
    assert (np.signbit(result) == (mode == "rm")).all()


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize("compute", [of_single, of_pairs])
def test_a_sum_of_two_equal_zeros_is_that_zero(compute: Any, mode: str) -> None:
    zeros = np.array([0.0, -0.0], np.float32)

    assert (np.signbit(compute("add", (zeros, zeros), mode)) == np.signbit(zeros)).all()
    assert (np.signbit(compute("fma", (zeros, np.ones_like(zeros), zeros), mode)) == np.signbit(zeros)).all()


@pytest.mark.parametrize("compute", [of_single, of_pairs])
def test_what_is_too_large_is_infinite_only_where_it_is_rounded_away(compute: Any) -> None:
    most = np.array([np.finfo(np.float32).max], np.float32)

    with np.errstate(over="ignore"):
        up, down = ([float(compute("add", (x, x), mode)[0]) for mode in ("rz", "rm", "rp")] for x in (most, -most))

    assert up == [most[0], most[0], np.inf]
    assert down == [-most[0], -np.inf, -most[0]]


@pytest.mark.parametrize(("op", "kept"), [("add", 1), ("mul", 1), ("div", 0), ("fma", 1)])
def test_of_operands_that_are_all_nan_a_double_keeps_the_one_that_an_h200_keeps(op: str, kept: int) -> None:
    """So the GPU's suite found; its payload comes through, and it is quiet."""
    bits = np.array([0x7FF0_0000_0000_0011, 0x7FF0_0000_0000_0022, 0x7FF0_0000_0000_0033], np.uint64)
    values = bits[: 3 if op == "fma" else 2].view(np.float64)

    with np.errstate(invalid="ignore"):
        result = arithmetic(op)(type="f64")(*(np.array([value]) for value in values))

    assert hex(result.view(np.uint64)[0]) == hex(bits[kept] | 1 << 51)


def test_products_and_sums_of_doubles_far_from_their_ends_are_fused_in_few_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A kernel of doubles spent most of its time there."""
    random, many = np.random.default_rng(1), 500
    a, b = (random.standard_normal(many) * 2.0 ** random.integers(-100, 100, many) for _ in range(2))
    c = random.standard_normal(many) * 2.0 ** random.integers(-200, 200, many)
    c[:250] = -(a * b)[:250] * (1 + random.integers(-3, 4, 250) * 2.0**-52)  # what cancels out
    a[::37], b[::41], c[::43] = 0, -0.0, -0.0
    with np.errstate(all="ignore"):  # as in a run
        slow = _by_steps(monkeypatch, a, b, c)

    with monkeypatch.context() as patch:
        patch.setattr(floats, "_placed", None)
        fused = floats.DOUBLE["fma"](a, b, c, rounding="rn")

    rows = zip(a.tolist(), b.tolist(), c.tolist(), strict=True)
    exact = [float(Fraction(x) * Fraction(y) + Fraction(z)) for x, y, z in rows]
    assert fused.tolist() == exact
    assert fused.view(np.int64).tolist() == slow.view(np.int64).tolist()  # signs of zeros, too


def _by_steps(monkeypatch: pytest.MonkeyPatch, *values: Any) -> Any:
    with monkeypatch.context() as patch:
        patch.setattr(floats, "_is_moderate", lambda value: False)
        return floats.DOUBLE["fma"](*values, rounding="rn")
