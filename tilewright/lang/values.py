"""The functions of ``T`` that compute: conversions, choices, C's division, addresses, and unfolded nodes of scripts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce

from tilewright import ir
from tilewright.dtypes import BOOL, DType, dtype
from tilewright.errors import KernelError, choices
from tilewright.ir import cast as convert
from tilewright.ir.intervals import limits
from tilewright.ir.numbers import largest_float
from tilewright.isa import call
from tilewright.lang.tensor_maps import OpenMap


@dataclass(frozen=True, slots=True)
class MetaValue:
    """What ``T.meta_var`` gives to the assignment around it."""

    value: object


def meta_var(value: object) -> MetaValue:
    """Bind a name to a Python value or an expression itself: no scalar is made."""
    return MetaValue(value)


def cast(value: ir.Value, kind: str) -> ir.Expr:
    """``value`` converted as C does; float to int truncates and saturates, NaN becomes 0."""
    return convert(value, _dtype(kind))


def typed(kind: str, value: ir.Value) -> ir.Expr:
    """`T.cast` with the dtype first."""
    return cast(value, kind)


def complement(value: ir.Value) -> ir.Expr:
    """``~value``."""
    return ir.unary("~", value)


def reinterpret(kind: str, value: ir.Value) -> ir.Expr:
    """The bits of ``value`` as another dtype of the same size."""
    expr, target = ir.as_expr(value), _dtype(kind)
    if expr.dtype.bits != target.bits:
        raise KernelError(
            f"T.reinterpret keeps the bits of `{expr}`",
            given=f"{expr.dtype.bits} bits as {target}",
            allowed=f"a dtype of {expr.dtype.bits} bits",
            hint="T.cast converts the value",
        )
    return expr if expr.dtype == target else ir.Reinterpret(expr, target)


def _dtype(kind: object) -> DType:
    if not isinstance(kind, str):
        raise KernelError("not a dtype", given=f"`{kind}`", allowed='a name such as "float16", or T.float16')
    return dtype(str(kind))


def _operator(op: str) -> Callable[[ir.Value, ir.Value], ir.Expr]:
    """A function of two operands for an operator without a symbol in Python, or with another meaning there."""

    def apply(a: ir.Value, b: ir.Value) -> ir.Expr:
        return ir.binary(op, a, b)

    apply.__name__ = op
    apply.__doc__ = f"``a {op} b``"
    return apply


def minimum(*values: ir.Value) -> ir.Expr:
    """The smallest of the values, NaN where one of them is; ``T.fmin`` takes the number."""
    return _least("min", values)


def maximum(*values: ir.Value) -> ir.Expr:
    """The largest of the values, NaN where one of them is; ``T.fmax`` takes the number."""
    return _least("max", values)


def _least(op: str, values: tuple[ir.Value, ...]) -> ir.Expr:
    if not values:
        raise KernelError(f"T.{op} of no values", given="nothing", allowed=f"T.{op}(a, b, ...)")
    first, *rest = values
    return (
        reduce(lambda a, b: ir.binary(op, a, b), rest[1:], ir.binary(op, first, rest[0])) if rest else ir.as_expr(first)
    )


def absolute(value: ir.Value) -> ir.Expr:
    """The value without its sign."""
    return abs(value) if isinstance(value, ir.Tiled) else call("abs", value)


def ceildiv(a: ir.Value, b: ir.Value) -> ir.Expr:
    """How many times ``b`` it takes to cover ``a``, for a positive ``b``."""
    return ir.binary("//", ir.binary("-", ir.binary("+", a, b), 1), b)


def address_of(place: ir.Buffer | ir.Load | ir.Region | OpenMap) -> ir.AddressOf:
    """A pointer to an element; to the first one of a buffer or region; to a tensor map."""
    if isinstance(place, OpenMap):
        place = place.filled()
    if isinstance(place, ir.Buffer):
        return ir.AddressOf(place, tuple(ir.as_expr(0) for _ in place.shape))
    if isinstance(place, ir.Region):
        return ir.AddressOf(place.buffer, tuple(ir.as_expr(start) for start, _ in place.box), place.owed)
    if isinstance(place, ir.Load):
        return ir.AddressOf(place.buffer, place.indices, place.owed)
    raise KernelError(
        f"`{place}` has no address",
        given=type(place).__name__,
        allowed="a buffer, or an element of one",
        hint="a scalar has an address as an array of one: x: T.int32[1]",
    )


def infinity(kind: str) -> ir.Const:
    """The positive infinity of a float dtype."""
    return ir.Const(float("inf"), _dtype(kind))


def least_of(kind: str) -> ir.Const:
    """The smallest finite number of a dtype."""
    return _last_of(kind, -1)


def largest_of(kind: str) -> ir.Const:
    """The largest finite number of a dtype."""
    return _last_of(kind, 1)


def _last_of(kind: str, sign: int) -> ir.Const:
    element = _dtype(kind)
    if element.is_float:
        return ir.Const(sign * largest_float(element), element)
    low, high, *_ = limits(element)
    return ir.Const(high if sign > 0 else low, element)


def broadcast(value: ir.Value, lanes: int) -> ir.Expr:
    """A vector of so many times the same value."""
    expr = ir.as_expr(value)
    return convert(expr, dtype(f"{expr.dtype}x{lanes}"))


def likely(cond: ir.Value) -> ir.Value:
    """The condition itself: how often it holds changes nothing here."""
    return cond


def special_register(name: str) -> ir.Special:
    """A special register by its name, as the lowered stage has them: ``T.special("ctaid.x")`` or ``T.ctaid.x``."""
    if name not in ir.SPECIALS:
        raise KernelError(f"unknown special register {name!r}", given=name, allowed=choices(name, ir.SPECIALS))
    return ir.special(name)


def exactly(op: str, *operands: ir.Value, kind: str | None = None) -> ir.Expr:
    """The node itself, unfolded: how a printed script writes what building it again would simplify."""
    values = tuple(ir.as_expr(value) for value in operands)
    operators = EXACT.get(len(values), ())
    if op not in operators:
        allowed = ", ".join(operators) or "one to three operands"
        raise KernelError(f"T.exactly has no {op!r} of {len(values)} operands", given=op, allowed=allowed)
    if op == "cast":
        return ir.Cast(values[0], _dtype(kind))
    if op == "select":
        return ir.Select(values[0], values[1], values[2], values[1].dtype)
    if len(values) == 1:
        return ir.Unary(op, values[0], values[0].dtype)
    compares = op in (*ir.Binary.COMPARISONS, *ir.Binary.LOGIC)
    return ir.Binary(op, values[0], values[1], BOOL if compares else values[0].dtype)


EXACT: dict[int, tuple[str, ...]] = {
    1: ("cast", "-", "~", "not"),
    2: (*ir.Binary.ARITHMETIC, *ir.Binary.BITS, *ir.Binary.COMPARISONS, *ir.Binary.LOGIC),
    3: ("select",),
}
"""The nodes that `exactly` makes, by their number of operands."""


def region(buffer: ir.Buffer, *box: tuple[ir.Value, ir.Value]) -> ir.Region:
    """The box of a buffer with (start, extent) for each dimension: where slices would simplify the extent."""
    fits = isinstance(buffer, ir.Buffer) and len(box) == len(buffer.shape)
    if not fits or not all(isinstance(pair, tuple) and len(pair) == 2 and all(map(_counts, pair)) for pair in box):
        raise KernelError(
            "T.region takes a buffer and a box of it",
            given=", ".join(map(str, (getattr(buffer, "name", buffer), *box))),
            allowed="(start, extent) of integers for each dimension: T.region(A, (0, 8), (i, 16))",
        )
    return ir.Region(buffer, box)


def _counts(value: object) -> bool:
    """Is the value an integer, known to Python or of run time?"""
    if isinstance(value, ir.Expr):
        return value.dtype.is_integer
    return hasattr(value, "__index__") and not isinstance(value, bool)


EXPORTS: dict[str, object] = {
    "meta_var": meta_var,
    "cast": cast,
    "reinterpret": reinterpret,
    "select": ir.select,
    "if_then_else": ir.select,
    "min": minimum,
    "max": maximum,
    "floordiv": _operator("//"),
    "floormod": _operator("%"),
    "truncdiv": _operator("truncdiv"),
    "truncmod": _operator("truncmod"),
    "shift_left": _operator("<<"),
    "shift_right": _operator(">>"),
    "bitwise_and": _operator("&"),
    "bitwise_or": _operator("|"),
    "bitwise_xor": _operator("^"),
    "And": _operator("and"),
    "Or": _operator("or"),
    "ceildiv": ceildiv,
    "address_of": address_of,
    "infinity": infinity,
    "min_value": least_of,
    "max_value": largest_of,
    "likely": likely,
    "Broadcast": broadcast,
    "Select": ir.select,
    "Cast": typed,
    "bitwise_not": complement,
    "special": special_register,
    "exactly": exactly,
    "region": region,
}
"""The names of ``T`` that this file defines, with what they stand for."""
