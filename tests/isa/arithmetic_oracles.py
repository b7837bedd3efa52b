"""The meaning of arithmetic of one lane by the manual: bits, C's functions, rounding."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from tests.isa.numbers import OURS, nearest
from tests.isa.registry import ORACLES, Oracle, Warp, Words, oracle
from tilewright.dtypes import dtype


def text_of_bits(value: int, dtype: str) -> str:
    width = 64 if "64" in dtype else 32
    return format(value % (1 << width), f"0{width}b")


def per_lane(function: Callable[..., Any]) -> Oracle:
    return lambda warp, *operands: [function(*lane) for lane in zip(*operands, strict=True)]


def by_bits(function: Callable[[str], int]) -> Oracle:
    return lambda warp, x: [function(text_of_bits(value, warp.mods["dtype"])) for value in x]


ORACLES["popcount"] = by_bits(lambda bits: bits.count("1"))
ORACLES["clz"] = by_bits(lambda bits: len(bits) - len(bits.lstrip("0")))
ORACLES["ffs"] = by_bits(lambda bits: len(bits) - bits.rindex("1") if "1" in bits else 0)
ORACLES["brev"] = by_bits(lambda bits: int(bits[::-1], 2))


def philox(seed: int, offset: int) -> list[int]:
    """The four words, by the rounds as the paper draws them."""
    key, counter = [seed % 2**32, seed % 2**64 >> 32], [offset % 2**32, offset % 2**64 >> 32, 0, 0]
    for _ in range(10):
        (high, low), (high_2, low_2) = divmod(0xD2511F53 * counter[0], 2**32), divmod(0xCD9E8D57 * counter[2], 2**32)
        counter = [high_2 ^ counter[1] ^ key[0], low_2, high ^ counter[3] ^ key[1], low]
        key = [(key[0] + 0x9E3779B9) % 2**32, (key[1] + 0xBB67AE85) % 2**32]
    return counter


@oracle("randint", "rand")
def random_of_a_lane(warp: Warp, seed: Words, offset: Words) -> list[Any]:
    words = [philox(*lane)[warp.mods["word"]] for lane in zip(seed, offset, strict=True)]
    return words if warp.mods["name"] == "randint" else [(word >> 8) / 2**24 for word in words]


@oracle("saturated")
def nearest_of_the_codes(warp: Warp, x: list[float]) -> list[float]:
    """The nearest of all finite values, of two the one with an even code; NaN where there is one, else the largest."""
    kind = dtype(warp.mods["to"])
    values = [float(value) for value in np.arange(1 << kind.value_bits, dtype=np.uint8).view(kind.numpy)]
    finite = [(code, value) for code, value in enumerate(values) if math.isfinite(value)]
    largest, nan = max(value for _, value in finite), any(map(math.isnan, values))
    return [
        (math.nan if nan else largest) if math.isnan(one)
        else min(finite, key=lambda each: (abs(each[1] - max(-largest, min(one, largest))), each[0] % 2))[1]
        for one in x
    ]  # fmt: skip


@oracle("hash32")
def hash_of_a_lane(_: Warp, x: Words) -> Words:
    found = []
    for word in (value % 2**32 for value in x):
        for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
            word = (word ^ word >> shift) * factor % 2**32
        found.append(word)
    return found


def or_nan(function: Callable[..., float]) -> Callable[..., float]:
    """Outside its domain a C function gives NaN, or an infinity at a pole, where Python raises."""

    def total(*values: float) -> float:
        try:
            return function(*values)
        except OverflowError:
            return math.inf
        except (ValueError, ZeroDivisionError):
            return math.nan

    return total


def logarithm(function: Callable[[float], float]) -> Callable[[float], float]:
    return lambda x: -math.inf if x == 0 else function(x)


def round_half_away(x: float) -> float:
    return math.copysign(math.floor(abs(x) + 0.5) if abs(x) < 2**52 else abs(x), x)


def larger(x: float, y: float) -> float:
    return y if math.isnan(x) else x if math.isnan(y) else max(x, y)


def smaller(x: float, y: float) -> float:
    return y if math.isnan(x) else x if math.isnan(y) else min(x, y)


FUNCTIONS: dict[str, Callable[..., float]] = {
    **{name: getattr(math, name) for name in ("exp", "expm1", "sin", "cos", "tan", "asin", "acos", "atan", "atan2")},
    **{name: getattr(math, name) for name in ("sinh", "cosh", "tanh", "hypot", "fmod", "sqrt", "copysign", "fabs")},
    "exp2": lambda x: 2.0**x,
    "exp10": lambda x: 10.0**x,
    "log": logarithm(math.log),
    "log2": logarithm(math.log2),
    "log10": logarithm(math.log10),
    "log1p": lambda x: -math.inf if x == -1 else math.log1p(x),
    "rsqrt": lambda x: math.copysign(math.inf, x) if x == 0 else 1 / math.sqrt(x),
    "pow": math.pow,
    "floor": lambda x: float(math.floor(x)),
    "ceil": lambda x: float(math.ceil(x)),
    "trunc": lambda x: float(math.trunc(x)),
    "rint": lambda x: float(round(x)),
    "nearbyint": lambda x: float(round(x)),
    "round": round_half_away,
    "erf": math.erf,
    "fmin": smaller,
    "fmax": larger,
    "minimum": lambda x, y: math.nan if math.isnan(x) or math.isnan(y) else min(x, y),
    "maximum": lambda x, y: math.nan if math.isnan(x) or math.isnan(y) else max(x, y),
    "abs": abs,
}
ORACLES |= {name: per_lane(or_nan(function)) for name, function in FUNCTIONS.items()}
ORACLES["isnan"] = per_lane(math.isnan)
ORACLES["isinf"] = per_lane(math.isinf)
ORACLES["isfinite"] = per_lane(math.isfinite)


@oracle("fma")
def fma(warp: Warp, a: list[float], b: list[float], c: list[float]) -> list[float]:
    word = OURS[warp.mods["dtype"]]
    return [nearest(word, Fraction(x) * Fraction(y) + Fraction(z)) for x, y, z in zip(a, b, c, strict=True)]


EXACTLY: dict[str, Callable[..., Fraction]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "fma": lambda a, b, c: a * b + c,
}


def in_direction(operation: Callable[..., Fraction], warp: Warp, *lanes: list[float]) -> list[float]:
    rounded = []
    for values in zip(*lanes, strict=True):
        if operation is EXACTLY["div"] and values[1] == 0:
            rounded.append(
                math.nan if values[0] == 0 else math.copysign(math.inf, values[0] * math.copysign(1, values[1]))
            )
        else:
            rounded.append(nearest("f32", operation(*map(Fraction, values)), str(warp.mods["rounding"])))
    return rounded


ORACLES |= {f"rounded_{name}": partial(in_direction, operation) for name, operation in EXACTLY.items()}
