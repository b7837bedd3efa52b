"""Arithmetic of float32 with a rounding of one's choice: rn to nearest even, rz to zero, rm down, rp up.

The simulator computes a nearby number and how the exact result lies to it (Knuth's exact sums), and takes the neighbour
where the rounding says so. Source: CUDA Math API, "Single Precision Intrinsics".
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilewright.isa.arch import since
from tilewright.isa.fma import sum_to_odd
from tilewright.isa.machine import Lanes
from tilewright.isa.table import Form, instruction, reads

__all__ = ["SINGLE"]

SOURCE = 'CUDA Math API, "Single Precision Intrinsics"'
MODES = {"rn": "rn", "rz": "rz", "rm": "rd", "rp": "ru"}  # PTX's word, CUDA's


def _directed(wide: Lanes, rounding: str) -> Lanes:
    """A float64 as float32. It may be rounded to odd: a last bit says that there was more."""
    nearest = wide.astype(np.float32)
    if rounding == "rn":
        return nearest
    back = nearest.astype(np.float64)
    down, up = (np.float32(-np.inf), np.float32(np.inf))
    lower = np.where(back > wide, np.nextafter(nearest, down), nearest)
    upper = np.where(back < wide, np.nextafter(nearest, up), nearest)
    chosen = {"rm": lower, "rp": upper, "rz": np.where(wide >= 0, lower, upper)}[rounding]
    return np.where(np.isfinite(wide) & (wide != 0), chosen, nearest).astype(np.float32)


def _signed_zero(result: Lanes, exact_zero: Lanes, rounding: str) -> Lanes:
    """A sum that cancels out is +0, and -0 where it is rounded down."""
    return np.where(exact_zero, -np.zeros_like(result), result) if rounding == "rm" else result


def _sum(a: Lanes, b: Lanes, rounding: str) -> Lanes:
    wide = sum_to_odd(a.astype(np.float64), b.astype(np.float64))
    cancels = (wide == 0) & ~(np.signbit(a) & np.signbit(b)) & ((a != 0) | (np.signbit(a) != np.signbit(b)))
    return _signed_zero(_directed(wide, rounding), cancels, rounding)


def _product(a: Lanes, b: Lanes, rounding: str) -> Lanes:
    return _directed(a.astype(np.float64) * b.astype(np.float64), rounding)


def _quotient(a: Lanes, b: Lanes, rounding: str) -> Lanes:
    """The remainder of the float64 quotient is exact, and says on which side the exact one lies."""
    x, y = a.astype(np.float64), b.astype(np.float64)
    with np.errstate(all="ignore"):
        quotient = x / y
        high = quotient.astype(np.float32)
        rest = x - high.astype(np.float64) * y  # 48 bits
        if rounding == "rn" or not np.size(rest):
            return high
        above = np.where(y > 0, rest > 0, rest < 0)  # the exact quotient is above
        below = np.where(y > 0, rest < 0, rest > 0)
    lower = np.where(below, np.nextafter(high, np.float32(-np.inf)), high)
    upper = np.where(above, np.nextafter(high, np.float32(np.inf)), high)
    chosen = {"rm": lower, "rp": upper, "rz": np.where(np.signbit(quotient), upper, lower)}[rounding]
    usual = np.isfinite(quotient) & (y != 0) & np.isfinite(y)
    return np.where(usual, chosen, high).astype(np.float32)


def _fused(a: Lanes, b: Lanes, c: Lanes, rounding: str) -> Lanes:
    wide = sum_to_odd(a.astype(np.float64) * b.astype(np.float64), c.astype(np.float64))
    return _directed(wide, rounding)


def _root(a: Lanes, rounding: str) -> Lanes:
    """The square of a root in float64 tells on which side the exact one lies."""
    x = a.astype(np.float64)
    near = np.sqrt(a)
    rest = x - near.astype(np.float64) ** 2  # 48 bits
    lower = np.where(rest < 0, np.nextafter(near, np.float32(0)), near)
    upper = np.where(rest > 0, np.nextafter(near, np.float32(np.inf)), near)
    chosen = {"rn": near, "rz": lower, "rm": lower, "rp": upper}[rounding]
    return np.where((a > 0) & np.isfinite(a), chosen, near)


SINGLE: dict[str, Callable[..., Lanes]] = {
    "add": _sum,
    "sub": lambda a, b, rounding: _sum(a, -b, rounding),
    "mul": _product,
    "div": _quotient,
    "fma": _fused,
    "rcp": lambda a, rounding: _quotient(np.ones_like(a), a, rounding),
    "sqrt": _root,
}
"""Operations of float32 by their names, each with a rounding."""


def _row(name: str, params: tuple[str, ...], stem: str, execute: Callable[..., Lanes], doc: str) -> None:
    instruction(
        f"rounded_{name}",
        params=params,
        keywords={"rounding": "rn"},
        operands=tuple(reads(param, "typed") for param in params),
        doc=f"{doc} of float32, rounded to nearest (rn), to zero (rz), down (rm) or up (rp).",
        forms=(
            Form(
                f"{stem}_{{rounding}}({', '.join(f'{{{param}}}' for param in params)})",
                since("sm_75"),
                SOURCE,
                {"dtype": {"float32": ""}, "rounding": MODES},
                execute,
                passes=("rounding",),
                language="cuda",
                result=params[0],
            ),
        ),
    )


for _name, _doc in (("add", "The sum"), ("sub", "The difference"), ("mul", "The product"), ("div", "The quotient")):
    _row(_name, ("a", "b"), f"__f{_name}", SINGLE[_name], _doc)
_row("fma", ("a", "b", "c"), "__fmaf", SINGLE["fma"], "The value of a * b + c")
