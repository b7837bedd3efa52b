"""The notation: ``S[extents : strides]``, ``R[extents : strides]``, and reading it back from text."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Sequence
from typing import TypeAlias

from tilewright.errors import LayoutError, choices, described
from tilewright.layout.axes import AXES, Axis, OnAxis, m
from tilewright.layout.base import Layout
from tilewright.layout.facts import Value, public
from tilewright.layout.iters import Iter, row_major
from tilewright.layout.ready import READY, SwizzleMode
from tilewright.layout.swizzle import ComposeLayout, SwizzleLayout
from tilewright.layout.tile import TileLayout

Entries: TypeAlias = Value
"""An extent, or a tuple of them; after the colon a stride (``1``, ``4 @ laneid``) or a tuple of them."""


class _Shard:
    """``S[(8, 4) : (4 @ laneid, 1)]``: shard iters. ``S[8, 4]`` and ``S[shape]`` are row major.

    >>> S[(8, 4) : (4, 1)] == S[8, 4]
    True
    >>> S[(8, 4) : ((4, "laneid"), "laneid")]
    S[(8, 4):(4@laneid, 1@laneid)]
    """

    def __getitem__(self, key: Entries) -> TileLayout:
        if isinstance(key, slice):
            return TileLayout(_iters("S", key))
        extents = _extents("S", key)
        if any(isinstance(extent, slice) for extent in extents):
            raise LayoutError(
                "a colon inside S[...]", given=key, allowed="S[(extents) : (strides)], both in parentheses"
            )
        return TileLayout(row_major(extents))


class _Replica:
    """``R[4 : 32 @ TLane]``: replica iters. Each of their combinations is one more copy of every element."""

    def __getitem__(self, key: slice) -> TileLayout:
        if not isinstance(key, slice):
            raise LayoutError(f"R[{key}] has no strides", given=key, allowed="R[extents : strides]")
        return TileLayout((), _iters("R", key))


S = _Shard()
R = _Replica()


def _entries(value: Entries) -> Sequence[Value]:
    return tuple(value) if isinstance(value, tuple | list) else (value,)


def _extents(letter: str, key: Entries, steps: Entries = None) -> Sequence[Value]:
    """The extents in brackets. Raises LayoutError for nested ones, as CuTe has them."""
    extents = _entries(key)
    if any(isinstance(extent, tuple | list) for extent in extents):
        flat = [_flat(entries) for entries in (extents, _entries(steps) if steps is not None else ())]
        spelled = " : ".join(f"({', '.join(map(str, entries))})" for entries in flat if entries)
        hint = f"{letter}[{spelled}], in which the last extent is the fastest"
        if flat[1] and all(isinstance(step, int) for step in flat[1]):  # in CuTe the first one of a mode is
            hint = f"{hint}; as CuTe has it: " + f'from_cute("{key}:{steps}")'.replace(", ", ",")
        raise LayoutError(f"nested extents in {letter}[...]", given=key, allowed="a flat list of extents", hint=hint)
    return extents


def _flat(entries: Sequence[Value]) -> list[Value]:
    return [leaf for entry in entries for leaf in (_flat(entry) if isinstance(entry, tuple | list) else [entry])]


def _iters(letter: str, key: slice) -> list[Iter]:
    extents, steps = _extents(letter, key.start, key.stop), _entries(key.stop)
    if key.step is not None:
        raise LayoutError(f"two colons inside {letter}[...]", given=key.step, allowed=f"{letter}[extents : strides]")
    if len(extents) != len(steps):
        long, kind = (extents, "stride") if len(extents) > len(steps) else (steps, "extent")
        first = min(len(extents), len(steps))
        raise LayoutError(
            f"{len(extents)} extents and {len(steps)} strides in {letter}[{extents} : {steps}]",
            given=f"iter {first} ({long[first]}) has no {kind}",
            allowed="one stride for each extent",
        )
    return [
        Iter(extent, step.value, step.axis) if isinstance(step, OnAxis) else Iter(extent, step, m)
        for extent, step in zip(extents, map(_step, steps), strict=True)
    ]


def _step(step: Value) -> Value:
    """A stride as `Iter` takes it: ``"laneid"`` is one lane, ``(4, "laneid")`` four."""
    if isinstance(step, (str, Axis)):
        return 1 @ Axis.get(step)
    named = isinstance(step, tuple) and len(step) == 2 and isinstance(step[1], (str, Axis))
    return step[0] @ Axis.get(step[1]) if named else step


_OPERATORS: dict[type[ast.AST], Callable[..., Value]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.MatMult: operator.matmul,
    ast.Pow: operator.pow,
    ast.USub: operator.neg,
}

_NAMES: dict[str, Value] = {
    "S": S,
    "R": R,
    "TileLayout": TileLayout,
    "SwizzleLayout": SwizzleLayout,
    "ComposeLayout": ComposeLayout,
    "SwizzleMode": SwizzleMode,
    **{function.__name__: function for function in READY},
}


@public
def parse_layout(text: str) -> Layout:
    """The layout that a text writes, as Python would read it, without running any other Python.

    >>> parse_layout("S[(8,4,2,2):(4@laneid,1@laneid,2,1)]").apply(9)
    {'laneid': 2, 'm': 1}
    >>> parse_layout('mma_shared_layout("float16", 3, (64, 64))') == parse_layout("SwizzleLayout(3, 3, 3)")
    False

    Raises LayoutError for anything that is not the notation of a layout.
    """
    try:
        value = _NotationReader(text).read(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as wrong:  # what ast.parse raises for odd texts
        place = f"{wrong.msg} at column {wrong.offset}" if isinstance(wrong, SyntaxError) else type(wrong).__name__
        raise LayoutError(
            f"cannot read the layout {described(text)}",
            given=place,
            allowed="S[(extents):(strides)] + R[...] + offset, SwizzleLayout(...), ComposeLayout(swizzle, tile)",
        ) from None
    if not isinstance(value, Layout):
        raise LayoutError(f"{text!r} is not a layout", given=value, allowed="S[...], SwizzleLayout(...), ...")
    return value


class _NotationReader:
    """Evaluates the few forms of syntax that layouts are written in."""

    def __init__(self, text: str) -> None:
        self.text = text

    def read(self, node: ast.expr) -> Value:
        match node:
            case ast.Constant(value=bool() | int() | str()):
                return node.value
            case ast.Name(id=name):
                return self._named(name)
            case ast.Tuple(elts=entries) | ast.List(elts=entries):
                return tuple(map(self.read, entries))
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
                return self._computed(op, left, right)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return self._computed(ast.USub(), operand)
            case ast.Subscript(value=ast.Name(id="S" | "R" as letter), slice=key):
                return _NAMES[letter][self._key(key)]
            case ast.Attribute(value=ast.Name(id="SwizzleMode"), attr=mode) if mode in SwizzleMode.__members__:
                return SwizzleMode[mode]
            case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords) if name in _NAMES:
                return self._built(name, args, keywords)
        raise self._refused(node)

    def _named(self, name: str) -> Value:
        if name in AXES:
            return Axis.get(name)
        raise LayoutError(f"unknown name {name!r} in {self.text!r}", given=name, allowed=choices(name, AXES))

    def _computed(self, op: ast.AST, *operands: ast.expr) -> Value:
        values = [self.read(operand) for operand in operands]
        power = isinstance(op, ast.Pow) and not all(isinstance(v, int) and 0 <= v < 64 for v in values)
        try:
            if not power:
                return _OPERATORS[type(op)](*values)
        except (TypeError, ZeroDivisionError):
            pass
        raise self._refused(operands[0])

    def _key(self, key: ast.expr) -> Value:
        if isinstance(key, ast.Slice) and key.lower is not None and key.upper is not None and key.step is None:
            return slice(self.read(key.lower), self.read(key.upper))
        return self.read(key)

    def _built(self, name: str, args: Sequence[ast.expr], keywords: Sequence[ast.keyword]) -> Value:
        named = {word.arg: self.read(word.value) for word in keywords if word.arg}
        try:
            return _NAMES[name](*map(self.read, args), **named)
        except TypeError as wrong:
            raise LayoutError(
                f"cannot build {name} in {self.text!r}", given=str(wrong), allowed=_NAMES[name].__doc__
            ) from None

    def _refused(self, node: ast.expr) -> LayoutError:
        return LayoutError(
            f"cannot read the layout {self.text!r}",
            given=ast.unparse(node),
            allowed="S[(extents):(strides)] + R[...] + offset, with ints and names of axes",
        )
