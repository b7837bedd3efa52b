"""Expressions as text: the kernel language itself, which parses back to an equal expression.

The text of an expression comes with a precedence, so that brackets stand where Python needs them and nowhere else.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tilewright.ir import build
from tilewright.ir.buffer import Buffer, Region
from tilewright.ir.expr import (
    AddressOf,
    Binary,
    Call,
    Cast,
    Component,
    Const,
    Expr,
    Load,
    Reinterpret,
    Select,
    Special,
    Unary,
    Var,
    Vector,
)
from tilewright.ir.fold import rounded
from tilewright.ir.operators import OPERATORS, SHIFTS, UNARY

if TYPE_CHECKING:
    from tilewright.dtypes import DType

__all__ = ["argument", "show", "value"]


class Text(NamedTuple):
    """An expression's text and how tightly its outermost operator binds."""

    text: str
    precedence: int


ATOM = 20
_LIKE_THE_LEFT = 1  # operators of equal precedence group to the left: the right operand needs brackets


def show(node: object) -> str:
    """One expression, region or plain value, as a kernel writes it.

    >>> from tilewright.ir.expr import Var
    >>> i = Var("i")
    >>> show((i + 1) * 4 % 8)
    '(i + 1) * 4 % 8'
    """
    return _text(node).text


def _text(node: object) -> Text:
    rule = _RULES.get(type(node))
    return rule(node) if rule is not None else Text(str(node) if isinstance(node, (int, float)) else repr(node), ATOM)


def _inside(node: object, precedence: int) -> str:
    """The text of an operand, in brackets if its operator binds less tightly."""
    made = _text(node)
    return made.text if made.precedence >= precedence else f"({made.text})"


def _operand(node: Expr, other: Expr, precedence: int) -> str:
    """An operand next to ``other``: a constant takes its dtype from there, and needs no word for its own."""
    if isinstance(node, Const) and not isinstance(other, Const) and node.dtype == other.dtype:
        return _inside_literal(node, precedence)
    return _inside(node, precedence)


def _inside_literal(node: Const, precedence: int) -> str:
    text = literal(node, node.dtype)
    return f"({text})" if text.startswith("-") and precedence > UNARY["-"].precedence else text


def literal(node: Const, expected: DType) -> str:
    """A constant where a number is brought to the dtype ``expected``."""
    finite = not isinstance(node.value, float) or math.isfinite(node.value)
    return _number(node) if node.dtype == expected and finite else _const(node).text


def _number(node: Const) -> str:
    """The shortest decimal that is this number in its dtype: 0.1, not 0.10000000149011612."""
    if isinstance(node.value, float) and node.dtype.is_float:
        short = str(np.asarray(node.value).astype(node.dtype.numpy))
        if rounded(float(short), node.dtype) == node.value:
            return short
    return repr(node.value)


def _const(node: Const) -> Text:
    """A constant on its own: ints are int32 and floats float32, as in Python text; others say what they are."""
    number: object = node.value
    if isinstance(number, float) and not math.isfinite(number):
        return Text(f'T.{node.dtype}("{number}")', ATOM)
    if node.dtype in ("int32", "float32", "bool"):
        return Text(_number(node), ATOM if not _number(node).startswith("-") else UNARY["-"].precedence)
    return Text(f"T.{node.dtype}({_number(node)})", ATOM)


def _binary(node: Binary) -> Text:
    if _folds(node):
        return _exactly(node.op, node.a, node.b)
    precedence = OPERATORS[node.op].precedence
    if not precedence:
        name = f"T.{node.op}"
        return Text(f"{name}({_operand(node.a, node.b, 0)}, {_operand(node.b, node.a, 0)})", ATOM)
    compares = node.op in Binary.COMPARISONS  # a < b < c would be a chain
    shifts = node.op in SHIFTS
    left = precedence + compares
    a = _inside(node.a, left) if shifts else _operand(node.a, node.b, left)
    return Text(f"{a} {node.op} {_operand(node.b, node.a, precedence + _LIKE_THE_LEFT)}", precedence)


def _folds(node: Binary) -> bool:
    """Would building the node again simplify it away? Then it must be written as it is."""
    if isinstance(node.a, Const) == isinstance(node.b, Const):
        return isinstance(node.a, Const)  # two constants: Python would compute them
    again = build.binary(node.op, node.a, node.b)
    return not (isinstance(again, Binary) and again.a is node.a and again.b is node.b)


def _exactly(op: str, *operands: Expr, kind: str | None = None) -> Text:
    words = [f'"{op}"', *map(show, operands), *([f'kind="{kind}"'] if kind else [])]
    return Text(f"T.exactly({', '.join(words)})", ATOM)


def _unary(node: Unary) -> Text:
    if isinstance(node.a, Const):
        return _exactly(node.op, node.a)
    space, precedence = " " if node.op == "not" else "", UNARY[node.op].precedence
    return Text(f"{node.op}{space}{_inside(node.a, precedence)}", precedence)


def _select(node: Select) -> Text:
    if isinstance(node.cond, Const):
        return _exactly("select", node.cond, node.a, node.b)
    return Text(f"T.select({show(node.cond)}, {_operand(node.a, node.b, 0)}, {_operand(node.b, node.a, 0)})", ATOM)


def _cast(node: Cast) -> Text:
    if isinstance(node.a, Const) or node.a.dtype == node.dtype:
        return _exactly("cast", node.a, kind=str(node.dtype))
    return Text(f'T.cast({show(node.a)}, "{node.dtype}")', ATOM)


def _reinterpret(node: Reinterpret) -> Text:
    return Text(f'T.reinterpret("{node.dtype}", {show(node.a)})', ATOM)


def _vector(node: Vector) -> Text:
    return Text(f"T.{node.dtype}({', '.join(literal_part(part, node.dtype.element) for part in node.parts)})", ATOM)


def literal_part(part: Expr, kind: DType) -> str:
    return literal(part, kind) if isinstance(part, Const) else show(part)


def _component(node: Component) -> Text:
    return Text(f"{_inside(node.a, ATOM)}[{node.index}]", ATOM)


def _element(buffer: Buffer, indices: tuple[Expr, ...]) -> str:
    """``A[i, j]``."""
    return f"{buffer.name}[{', '.join(map(show, indices))}]"


def _load(node: Load) -> Text:
    return Text(_element(node.buffer, node.indices) if node.indices else node.buffer.name, ATOM)


def _address(node: AddressOf) -> Text:
    if not node.indices:
        return Text(f"{node.buffer.name}.data", ATOM)
    return Text(f"T.address_of({_element(node.buffer, node.indices)})", ATOM)


def _call(node: Call) -> Text:
    words = [_modifier(part) for part in node.args]
    words += [f"{key}={argument(part)}" for key, part in node.attrs]
    return Text(f"T.{node.op}({', '.join(words)})", ATOM)


def _modifier(part: object) -> str:
    """A positional argument of an instruction: flags as the language writes them, ``T.bool(False)``."""
    if isinstance(part, Const) and part.dtype == "bool":
        part = part.value
    return f"T.bool({part})" if isinstance(part, bool) else argument(part)


def argument(part: object) -> str:
    """A setting: an expression, a plain Python value, or a tuple of them."""
    if isinstance(part, tuple):
        return f"({', '.join(map(argument, part))}{',' if len(part) == 1 else ''})"
    return _quoted(part) if isinstance(part, str) else show(part)


def _quoted(text: str) -> str:
    """A string in double quotes, as kernels write them, where it has none itself."""
    plain = repr(text)
    return f'"{plain[1:-1]}"' if plain[0] == "'" and '"' not in plain else plain


def _region(node: Region) -> Text:
    """``A[a:b, :]``; the box itself where slices would not give the same one."""
    slices = tuple(slice(start, start + extent) for start, extent in node.box)
    if Region.of(node.buffer, slices) == node:
        words = (f"{show(part.start)}:{show(part.stop)}" for part in slices)
        return Text(f"{node.buffer.name}[{', '.join(words)}]", ATOM)
    box = (f"({show(start)}, {show(extent)})" for start, extent in node.box)
    return Text(f"T.region({node.buffer.name}, {', '.join(box)})", ATOM)


def value(node: Expr, expected: DType) -> str:
    """What is assigned to a place of dtype ``expected``."""
    return literal(node, expected) if isinstance(node, Const) else show(node)


_RULES: dict[type, Callable[..., Text]] = {
    Const: _const,
    Var: lambda node: Text(node.name, ATOM),
    Special: lambda node: Text(f"T.{node.name}", ATOM),
    Unary: _unary,
    Binary: _binary,
    Select: _select,
    Cast: _cast,
    Reinterpret: _reinterpret,
    Vector: _vector,
    Component: _component,
    Load: _load,
    AddressOf: _address,
    Call: _call,
    Region: _region,
    bool: lambda node: Text(repr(node), ATOM),
}
