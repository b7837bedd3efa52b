"""Arithmetic of float32 with a rounding of one's choice: rn to nearest even, rz to zero, rm down, rp up.

The simulator computes a nearby number and on which side of it the exact result lies (Knuth's exact sums), and takes the
neighbour where the rounding says so. Source: CUDA Math API, "Single Precision Intrinsics".
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilewright.isa.arch import since
from tilewright.isa.fma import sum_to_odd
from tilewright.isa.machine import Lanes
from tilewright.isa.table import Cuda, Meaning, reads, single

SOURCE = 'CUDA Math API, "Single Precision Intrinsics"'
MODES = {"rn": "rn", "rz": "rz", "rm": "rd", "rp": "ru"}  # PTX's word -> CUDA's


def rounded(exact: Lanes, mode: str) -> Lanes:
    """float64 values, themselves rounded to odd where they are not exact, as float32."""
    near = exact.astype(np.float32)
    if mode == "rn":
        return near
    back = near.astype(np.float64)
    towards = {"rz": np.zeros_like(exact), "rm": np.full_like(exact, -np.inf), "rp": np.full_like(exact, np.inf)}[mode]
    beyond = np.where(towards > exact, back < exact, back > exact)  # on the far side of the exact value
    return np.where(beyond & np.isfinite(exact), np.nextafter(near, towards.astype(np.float32)), near)


def added(a: Lanes, b: Lanes, mode: str) -> Lanes:
    """The sum of two float64 values as float32: +0 if it cancels out, rounded down -0 (IEEE 754, 6.3)."""
    exact = sum_to_odd(a, b)
    cancels = (exact == 0) & (np.signbit(a) != np.signbit(b))
    return np.where(cancels, np.float32(-0.0 if mode == "rm" else 0.0), rounded(exact, mode))


# What they compute, and how, of float32 operands as float64, where a product is exact.
OPERATIONS: dict[str, tuple[str, Callable[..., Lanes]]] = {
    "add": ("a + b", added),
    "sub": ("a - b", lambda a, b, mode: added(a, -b, mode)),
    "mul": ("a * b", lambda a, b, mode: rounded(a * b, mode)),
    "fma": ("a * b + c, rounded once", lambda a, b, c, mode: added(a * b, c, mode)),
}


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


def _on_singles(compute: Callable[..., Lanes]) -> Callable[..., Lanes]:
    def execute(*operands: Lanes, rounding: str) -> Lanes:
        return compute(*(operand.astype(np.float64) for operand in operands), rounding)

    return execute


def _root(a: Lanes, rounding: str) -> Lanes:
    """The square of a root in float64 shows on which side the exact one lies."""
    near = np.sqrt(a)
    rest = a.astype(np.float64) - near.astype(np.float64) ** 2  # 48 bits
    lower = np.where(rest < 0, np.nextafter(near, np.float32(0)), near)
    upper = np.where(rest > 0, np.nextafter(near, np.float32(np.inf)), near)
    chosen = {"rn": near, "rz": lower, "rm": lower, "rp": upper}[rounding]
    return np.where((a > 0) & np.isfinite(a), chosen, near)


SINGLE: dict[str, Callable[..., Lanes]] = {
    **{name: _on_singles(compute) for name, (_, compute) in OPERATIONS.items()},
    "div": _quotient,
    "rcp": lambda a, rounding: _quotient(np.ones_like(a), a, rounding),
    "sqrt": _root,
}
"""Operations of float32 by their names, each with a rounding."""


def _row(name: str, params: tuple[str, ...], stem: str, execute: Callable[..., Lanes], doc: str) -> None:
    single(
        f"rounded_{name}",
        Cuda(
            f"{stem}_{{rounding}}({', '.join(f'{{{param}}}' for param in params)})",
            {"dtype": {"float32": ""}, "rounding": MODES},
        ),
        since("sm_75"),
        SOURCE,
        Meaning(execute, passes=("rounding",)),
        keywords={"rounding": "rn"},
        operands=tuple(reads(param, "typed") for param in params),
        doc=f"{doc} of float32, rounded to nearest (rn), to zero (rz), down (rm) or up (rp).",
        result=params[0],
    )


for _name, _params, _doc in (
    ("add", ("a", "b"), "The sum"),
    ("sub", ("a", "b"), "The difference"),
    ("mul", ("a", "b"), "The product"),
    ("fma", ("a", "b", "c"), "The value of a * b + c"),
):
    _row(_name, _params, "__fmaf" if _name == "fma" else f"__f{_name}", SINGLE[_name], _doc)
_row("div", ("a", "b"), "__fdiv", _quotient, "The quotient")
