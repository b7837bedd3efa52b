"""What the functions of ``T`` take: the words of this room for `tilewright.public`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilewright.errors import KernelError
from tilewright.ir import Buffer, Expr, Load, Region, Var
from tilewright.layout import Layout, SwizzleMode
from tilewright.public import ANYTHING, Kind, Public, instances, sequence_of

BUILT_IN = 1 << 8  # the flag of classes that are immutable, as built-in ones are


def _is_value(value: object) -> bool:
    """Is it what `tilewright.ir.as_expr` makes an expression of?"""
    narrow = type(value).__module__ == "ml_dtypes"
    integer = hasattr(type(value), "__index__") and not isinstance(value, np.ndarray | type)
    return narrow or integer or isinstance(value, Expr | int | float | np.bool_ | np.integer | np.floating)


VALUE = Kind("an expression or a number", _is_value)
PLACE = "a buffer, a region or an element of one"

OWN_WORDS = (
    "kind: str",
    "dtype: str",
    "layout: Layout | None",
    "param: Var",
    "place: Buffer | Load | Region | OpenMap",
    "settings: Mapping[str, object]",
    "*box: tuple[Value, Value]",
    "allocated_addr: Value | None",
)
"""Parameters whose functions refuse what they do not take in words of their own."""

public = Public(
    KernelError,
    {
        **dict.fromkeys(OWN_WORDS, ANYTHING),
        "Value": VALUE,
        "Expr": instances("an expression", Expr),
        "Var": instances("a parameter", Var),
        "Buffer": instances("a buffer", Buffer),
        "Load": instances(PLACE, Load),
        "Region": instances(PLACE, Region),
        "Layout": instances("a layout: S[...], TileLayout, SwizzleLayout, ComposeLayout", Layout),
        "C": Kind("a class", lambda v: isinstance(v, type) and not v.__flags__ & BUILT_IN),
        "SwizzleMode": instances("a SwizzleMode", SwizzleMode),
        "tuple[Value, Value]": Kind(
            "a pair of them", lambda v: isinstance(v, tuple | list) and len(v) == 2 and all(map(_is_value, v))
        ),
        "tuple[Value, Value, Value]": Kind("three numbers", lambda v: sequence_of(VALUE).fits(v) and len(v) == 3),
        "tuple[int, int, int]": Kind(
            "three ints", lambda v: isinstance(v, tuple | list) and len(v) == 3 and all(isinstance(n, int) for n in v)
        ),
    },
)
"""The decorator of this room's public functions."""

DECORATORS = "Functions that are kernels"
EXPORTED: dict[str, dict[str, object]] = {}
"""The names of ``T`` with what they stand for, by the heading under which the documentation lists them."""


def export(heading: str, *named: Callable[..., object], **others: object) -> None:
    """Make names of ``T``: functions and classes under their own names, and what has another one as a keyword."""
    EXPORTED.setdefault(heading, {}).update({value.__name__: value for value in named}, **others)
