"""Rows that compute sums, products and bits of integers, as the language's own arithmetic.

Code that takes addresses apart reads it; the rows themselves, and what they mean, are in `tilewright.isa.scalar`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tilewright.dtypes import DType, dtype
from tilewright.ir import Binary, Call, Cast, Expr, Reinterpret
from tilewright.isa.calls import bind
from tilewright.isa.types import TYPES


def as_arithmetic(call: Call) -> Expr | None:
    """The same value by ``+ - * << & | ^`` and casts between integers; None for other rows."""
    meaning = _ROWS.get(call.op)
    if meaning is None:
        return None
    bound = bind(call)
    word = str(bound.mods["type"])
    if not dtype(TYPES[word].element).is_integer or TYPES[word].lanes > 1 or bound.mods.get("sat"):
        return None
    operands = [operand for row in bound.arguments for operand in bound.operands[row.name]]
    return meaning(bound.mods, TYPES[word].dtype, *operands)


def _typed(value: Expr, kind: DType) -> Expr:
    return value if value.dtype == kind else Reinterpret(value, kind)


def _binary(op: str) -> Callable[..., Expr | None]:
    return lambda mods, kind, a, b: Binary(op, _typed(a, kind), _typed(b, kind), kind)


def _mul(mods: Mapping[str, object], kind: DType, a: Expr, b: Expr) -> Expr | None:
    if mods["half"] == "hi":
        return None
    if mods["half"] == "lo":
        return Binary("*", _typed(a, kind), _typed(b, kind), kind)
    wide = dtype(f"{kind.kind}{2 * kind.bits}")
    return Binary("*", Cast(_typed(a, kind), wide), Cast(_typed(b, kind), wide), wide)


def _mad(mods: Mapping[str, object], kind: DType, a: Expr, b: Expr, c: Expr) -> Expr | None:
    product = _mul(mods, kind, a, b)
    return None if product is None else Binary("+", product, _typed(c, product.dtype), product.dtype)


def _shl(mods: Mapping[str, object], kind: DType, a: Expr, n: Expr) -> Expr | None:
    return Binary("<<", _typed(a, kind), n, kind)


def _cvt(mods: Mapping[str, object], kind: DType, a: Expr) -> Expr | None:
    source = TYPES[str(mods["atype"])]
    if not dtype(source.element).is_integer or source.bits > kind.bits or a.dtype.bits != source.bits:
        return None
    return Cast(_typed(a, source.dtype), kind)


_ROWS: Mapping[str, Callable[..., Expr | None]] = {
    "ptx.add": _binary("+"),
    "ptx.sub": _binary("-"),
    "ptx.mul": _mul,
    "ptx.mad": _mad,
    "ptx.shl": _shl,
    "ptx.and_": _binary("&"),
    "ptx.or_": _binary("|"),
    "ptx.xor": _binary("^"),
    "ptx.cvt": _cvt,
}
