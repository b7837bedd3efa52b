"""Layouts as text: ``S[extents : strides]``, ``R[extents : strides]`` and reading it back; CuTe's notation; and layouts
from (thread, register) to an element.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import NamedTuple, TypeAlias, Union

from tilewright.errors import LayoutError, choices, described
from tilewright.layout.axes import AXES, INTS, Axis, Facts, OnAxis, Value, as_int, listed, m, public
from tilewright.layout.base import Layout, require_layout
from tilewright.layout.iters import Iter, Iters, fuse, regroup, row_major
from tilewright.layout.products import compose_threads
from tilewright.layout.ready import READY, SwizzleMode
from tilewright.layout.swizzle import ComposeLayout, SwizzleLayout
from tilewright.layout.tables import is_numeric
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


# CuTe's notation: ``shape:stride`` and ``Swizzle<B,M,S>``, both ways.
#
# A CuTe layout maps coordinates of its top-level modes, as ours maps coordinates of a shape: ``(i, j)`` leads to the
# same place on both sides. Inside a mode CuTe's first extent runs fastest, ours the last: nested modes are turned
# round. A register layout is written the other way round, as CuTe's thread-value layouts are.
#
# Sources: CUTLASS documentation, "CuTe Layouts", "CuTe Layout Algebra" and "CuTe's support for Matrix
# Multiply-Accumulate instructions".


Nested: TypeAlias = Union[int, "list[Nested]"]

_SWIZZLE = re.compile(r"\s*(?:Sw|Swizzle)\s*<\s*(\d{1,4})\s*,\s*(\d{1,4})\s*,\s*(-?\d{1,4})\s*>\s*")
_OFFSET = re.compile(r"\s*_?(-?\d{1,100})\s*")
_TOKEN = re.compile(r"\s*(?:_?(-?\d{1,100})(?!\d)|([(),]))\s*")


@public
def from_cute(text: str, *, threads: str | Axis | None = None, shape: Sequence[int] | None = None) -> Layout:
    """The layout that a CuTe string writes: ``shape:stride``, ``Swizzle<B,M,S>``, or a swizzle ``o`` an offset ``o`` a
    layout. `cute_shape` gives the shape whose coordinates it takes.

    threads: the text is a thread-value layout, whose first mode counts threads on this axis, and whose second counts
    registers, axis m. shape: of its tile; its index counts the first dimension fastest.

    >>> from_cute("((4,2),8):((1,32),4)")
    S[(2, 4, 8):(32, 1, 4)]
    >>> from_cute("Sw<3,4,3> o 0 o (8,64):(64,1)").tile
    S[(8, 64):(64, 1)]
    >>> from_cute("((4,8),2):((16,1),8)", threads="laneid", shape=(8, 8))
    S[(8, 4, 2):(4@laneid, 1@laneid, 1)]

    Raises LayoutError for a text that is neither, or whose shape and stride do not match.
    """
    *before, last = text.split(" o ")
    if threads is not None:
        return from_thread_values(_modes(*_halves(text), text), threads, shape)
    if match := _SWIZZLE.fullmatch(last):
        return _swizzle(match)
    layout = TileLayout([it for mode in _modes(*_halves(last), text) for it in mode])
    swizzle = None
    for number, part in enumerate(before):
        if number == 0 and (match := _SWIZZLE.fullmatch(part)):
            swizzle = _swizzle(match)
        elif match := _OFFSET.fullmatch(part):
            layout += int(match[1])
        else:
            raise LayoutError(
                f"cannot read {part!r} in the CuTe layout {text!r}", given=part, allowed="Swizzle<B,M,S>, or an offset"
            )
    return ComposeLayout(swizzle, layout) if swizzle else layout


@public
def cute_shape(text: str) -> tuple[int, ...]:
    """The size of each top-level mode of a CuTe layout.

    >>> cute_shape("((4,2),8):((1,32),4)")
    (8, 8)
    """
    shape, stride = _halves(text.split(" o ")[-1])
    return tuple(as_int(TileLayout(mode).size()) or 1 for mode in _modes(shape, stride, text))


@public
def to_cute(layout: Layout, shape: Sequence[Value] | None = None, facts: Facts = INTS) -> str:
    """The CuTe string of a layout: one mode per entry of ``shape``, or per iter.

    Of a layout with thread axes it is the thread-value layout, ``((threads), (values)) : (strides)``: from thread and
    register to the element's index in a tile of ``shape``, first dimension fastest. Thread axes must compose to one,
    which numbers the threads; axis m numbers the registers; replicas have stride 0. `from_cute` reads it back with
    ``threads=`` that axis.

    >>> from tilewright.layout import S
    >>> to_cute(S[(2, 4, 8) : (32, 1, 4)], (8, 8))
    '((4,2),8):((1,32),4)'
    >>> to_cute(SwizzleLayout(4, 3, 3))
    'Swizzle<3,4,3>'
    >>> from tilewright.layout import laneid
    >>> to_cute(S[(8, 4, 2) : (4 @ laneid, 1 @ laneid, 1)], (8, 8))
    '((4,8),2):((16,1),8)'

    Raises LayoutError for what CuTe cannot express: replicas in memory, other axes, registers with gaps.
    """
    require_layout(layout)
    if isinstance(layout, SwizzleLayout):
        return _swizzle_text(layout)
    if any(axis.is_thread() for axis in layout.axes):
        return _written(thread_values(layout, shape))
    if isinstance(layout, ComposeLayout):
        rest = to_cute(layout.tile, shape, facts)
        return f"{_swizzle_text(layout.swizzle)} o {rest if ' o ' in rest else f'0 o {rest}'}"
    assert isinstance(layout, TileLayout)
    if layout.replica or any(axis != m for axis in layout.axes):
        raise LayoutError(
            f"{layout} has no CuTe string",
            given=str(layout),
            allowed="iters on axis m, and no replicas; or threads and registers",
        )
    groups = regroup(layout.shard, layout.extents if shape is None else shape, facts)
    text = _written([tuple(reversed(fuse(group, facts))) or (Iter(1, 0),) for group in groups])
    return f"{layout.offset_on(m)} o {text}" if layout.offset else text


def _written(modes: Sequence[Iters]) -> str:
    """``shape:stride`` of modes whose fastest iter comes first."""
    extents = ",".join(_mode_text([it.extent for it in mode]) for mode in modes)
    strides = ",".join(_mode_text([it.stride for it in mode]) for mode in modes)
    return f"{extents}:{strides}" if [len(mode) for mode in modes] == [1] else f"({extents}):({strides})"


def _swizzle(match: re.Match[str]) -> SwizzleLayout:
    bits, base, shift = int(match[1]), int(match[2]), int(match[3])
    return SwizzleLayout(base, bits, abs(shift), swizzle_inner=shift >= 0)


def _swizzle_text(swizzle: SwizzleLayout) -> str:
    sign = "" if swizzle.swizzle_inner else "-"
    return f"Swizzle<{swizzle.swizzle_len},{swizzle.per_element},{sign}{swizzle.atom_len}>"


def _mode_text(values: Sequence[Value]) -> str:
    return str(values[0]) if len(values) == 1 else f"({','.join(map(str, values))})"


def _halves(text: str) -> tuple[Nested, Nested]:
    shape, colon, stride = text.partition(":")
    if not colon:
        raise LayoutError(f"cannot read the CuTe layout {text!r}", given=text, allowed="shape:stride")
    return _nested(shape), _nested(stride)


def _nested(text: str) -> Nested:
    """``(4,(2,8))`` as lists of ints; a leading ``_`` of a static integer is skipped."""
    where, open_lists = 0, [list["Nested"]()]
    while where < len(text):
        token = _TOKEN.match(text, where)
        if not token:
            break
        where = token.end()
        if token[1]:
            open_lists[-1].append(int(token[1]))
        elif token[2] == "(":
            open_lists.append([])
        elif token[2] == ")" and len(open_lists) > 1:
            open_lists[-2].append(open_lists.pop())
    if where < len(text) or len(open_lists) != 1 or len(open_lists[0]) != 1:
        raise LayoutError(
            f"cannot read {text.strip()!r} of a CuTe layout",
            given=text.strip(),
            allowed="an int, or ints in parentheses",
        )
    return open_lists[0][0]


def _modes(shape: Nested, stride: Nested, text: str) -> list[Iters]:
    """The iters of each top-level mode, slowest first."""
    tops = [(shape, stride)]
    if isinstance(shape, list):
        if not isinstance(stride, list) or len(stride) != len(shape):
            raise _mismatch(shape, stride, text)
        tops = list(zip(shape, stride, strict=True))
    return [tuple(reversed([Iter(n, by) for n, by in _leaves(*top, text)])) for top in tops]


def _leaves(shape: Nested, stride: Nested, text: str) -> Iterator[tuple[int, int]]:
    if isinstance(shape, int) and isinstance(stride, int):
        yield shape, stride
    elif isinstance(shape, list) and isinstance(stride, list) and len(shape) == len(stride):
        for pair in zip(shape, stride, strict=True):
            yield from _leaves(*pair, text)
    else:
        raise _mismatch(shape, stride, text)


def _mismatch(shape: Nested, stride: Nested, text: str) -> LayoutError:
    return LayoutError(
        f"shape and stride of the CuTe layout {text!r} do not match",
        given=f"{shape} and {stride}".replace("[", "(").replace("]", ")"),
        allowed="the same nesting on both sides of the colon",
    )


# Thread-value layouts: from (thread, register) to the element, which is the way back of a register layout.
#
# The first mode counts threads, the second the registers of one; both lead to the element's index in its tile, first
# dimension fastest. Elements that several threads hold have stride 0 there, and are replicas here.


class Leaf(NamedTuple):
    """``extent`` steps: of ``place`` threads or registers on ``axis``, and of ``element`` elements in the tile."""

    axis: Axis
    place: int
    extent: int
    element: int


def thread_values(layout: Layout, shape: Sequence[int] | None) -> list[Iters]:
    """The two modes of a register layout, threads and values, fastest iter first, strides being those of the index.

    Raises LayoutError for a swizzle, offsets, several thread axes that do not compose to one, and for a thread or a
    register that holds nothing.
    """
    if not isinstance(layout, TileLayout) or layout.offset or not is_numeric(layout):
        raise _without_text(layout, "a swizzle, an offset or an expression")
    plain = compose_threads(layout)
    counted = [axis for axis in plain.axes if axis != m]
    if len(counted) != 1 or not counted[0].is_thread():
        raise _without_text(layout, f"axes {', '.join(map(str, plain.axes))}")
    leaves = [Leaf(it.axis, it.stride, it.extent, 0) for it in plain.replica]
    inner = 1
    for iters in regroup(plain.shard, layout._counted(1) if shape is None else shape):
        for it in reversed(iters):
            leaves.append(Leaf(it.axis, it.stride, it.extent, inner))
            inner *= it.extent
    return [_mode(layout, axis, leaves) for axis in (counted[0], m)]


def _mode(layout: TileLayout, axis: Axis, leaves: Sequence[Leaf]) -> Iters:
    mode = sorted((leaf for leaf in leaves if leaf.axis == axis and leaf.extent > 1), key=lambda leaf: leaf.place)
    reached = 1
    for leaf in mode:
        if leaf.place != reached:
            raise _without_text(layout, f"a step of {leaf.place} on axis {axis} after the first {reached}")
        reached *= leaf.extent
    iters = [Iter(leaf.extent, leaf.element) for leaf in reversed(mode)]
    return tuple(reversed(fuse(iters))) or (Iter(1, 0),)


def _without_text(layout: Layout, reason: str) -> LayoutError:
    return LayoutError(
        f"{layout} has no CuTe string",
        given=reason,
        allowed="threads and registers: one thread axis, or axes that compose to one, and m, both without gaps from 0",
    )


def from_thread_values(modes: Sequence[Iters], threads: str | Axis, shape: Sequence[int] | None) -> TileLayout:
    """The register layout of two modes, fastest iter last, that lead to the index in a tile of ``shape``.

    Raises LayoutError where an element is missing or occurs at two places that are no replicas.
    """
    axis = Axis.get(threads)
    if len(modes) != 2 or not axis.is_thread():
        raise LayoutError(
            "a thread-value layout has two modes, and its threads an axis",
            given=f"{len(modes)} modes, axis {axis}",
            allowed="((threads), (values)) : (strides), and threads=laneid or another thread axis",
        )
    leaves = [*_leaves_of(modes[0], axis), *_leaves_of(modes[1], m)]
    elements = prod(leaf.extent for leaf in leaves if leaf.element)
    extents = (elements,) if shape is None else tuple(shape)
    if prod(extents) != elements:
        raise LayoutError(
            f"a thread-value layout of {elements} elements is none of a tile of {listed(extents)}",
            given=listed(extents),
            allowed=f"{elements} elements",
        )
    shard = [it for dim in range(len(extents)) for it in _dimension(leaves, extents, dim)]
    return TileLayout(shard, [Iter(leaf.extent, leaf.place, leaf.axis) for leaf in leaves if not leaf.element])


def _leaves_of(mode: Iters, axis: Axis) -> list[Leaf]:
    place, out = 1, []
    for it in reversed(mode):
        if it.extent > 1:
            out.append(Leaf(axis, place, it.extent, it.stride))
        place *= it.extent
    return out


def _dimension(leaves: Sequence[Leaf], extents: Sequence[int], dim: int) -> list[Iter]:
    """The iters of one dimension, slowest first: the parts of leaves that step along this dimension."""
    unit, parts = prod(extents[:dim]), list[Leaf]()
    for leaf in leaves:
        # The first steps of a leaf that begins in an earlier dimension belong to that one.
        skipped = max(1, -(-unit // leaf.element)) if leaf.element else leaf.extent
        if skipped < leaf.extent and skipped * leaf.element < unit * extents[dim]:
            here = min(leaf.extent // skipped, unit * extents[dim] // (leaf.element * skipped))
            parts.append(Leaf(leaf.axis, leaf.place * skipped, here, leaf.element * skipped))
    parts.sort(key=lambda leaf: leaf.element)
    reached = unit
    for part in parts:
        if part.element != reached:
            break
        reached *= part.extent
    if reached != unit * extents[dim]:
        raise LayoutError(
            f"the thread-value layout is none of a tile of {listed(extents)}",
            given=f"steps {', '.join(str(part.element) for part in parts)} in dimension {dim}",
            allowed=f"each multiple of {unit} below {unit * extents[dim]} once",
        )
    return [Iter(part.extent, part.place, part.axis) for part in reversed(parts)]
