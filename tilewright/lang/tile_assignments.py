"""Assignments to tiles, ``x[:] = T.exp(a - m)``, as tile calls.

A copy, a fill, a reduction and a single operation are the calls of those names; several operations are one `compute`,
which loads each element once. ``with Tx.cta:``, or else the layouts of the tiles in registers, say which threads
compute.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from math import prod
from typing import Any, Protocol, cast

import numpy as np

from tilewright import ir
from tilewright.dtypes import BOOL, INT32, INT64, DType, dtype
from tilewright.errors import KernelError, choices, described
from tilewright.ir.expr import truth_is_an_error
from tilewright.ir.ranges import RangeFacts
from tilewright.ir.verify import check_regions
from tilewright.lang.builder import UnknownName, building, current
from tilewright.lang.instructions import hint_for, hint_for_keyword
from tilewright.lang.memory import new_buffer
from tilewright.lang.scopes import argument
from tilewright.layout import Iter, Layout, TileLayout
from tilewright.layout.axes import listed
from tilewright.primitives import COMMON, PRIMITIVES, Primitive, TileOperand
from tilewright.primitives.copy import copy, fill
from tilewright.primitives.elements import FLOAT32, narrowed
from tilewright.primitives.elementwise import CAST, COMPUTE, FORMULA, NAMES, FormulaStep
from tilewright.primitives.reduce import ACCUMULATES
from tilewright.records import replace

# Tile calls: each thread makes a ``Tx.copy`` by itself; ``Tx.warp``, ``Tx.wg`` and ``Tx.cta`` are collectives.


FLOAT64 = dtype("float64")
SCOPES = {
    "thread": "thread",
    "warp": "warp",
    "wg": "warpgroup",
    "warpgroup": "warpgroup",
    "cta": "cta",
    "cluster": "cluster",
}
"""The execution scopes, as written and as the IR has them."""


class TileFunction(Protocol):
    """What ``Tx.warp.copy`` is: a function with the primitive's signature."""

    __signature__: object

    def __call__(self, *args: object, dispatch: str | None = None, **config: object) -> None: ...


@cache
def tile_function(name: str, scope: str, prefix: str) -> Callable[..., None]:
    """A primitive of one scope, as a function for kernels: a call of it adds a statement."""
    row = PRIMITIVES[name]

    def call(*args: object, dispatch: str | None = None, **config: object) -> None:
        builder = current(f"Tx.{name}")
        _check_keywords(row, config)
        if not isinstance(dispatch, str | None):
            shown = described(dispatch)
            raise KernelError(f"Tx.{name}: dispatch is the name of a variant", given=shown, allowed="a string")
        operands = _operands(row, args, config)
        first = operands[0]
        assert isinstance(first, ir.Region), "a primitive writes its first operand"
        settings = tuple(
            (key, argument(value)) for key, value in config.items() if value is not None and value is not False
        )
        stmt = ir.TileCallStmt(name, scope, operands, dispatch, settings, at=builder.at)
        check_regions(stmt)
        builder.emit(stmt)

    call.__name__, call.__qualname__, call.__doc__ = name, f"{prefix}.{name}", row.help
    cast(TileFunction, call).__signature__ = row.signature
    return call


def _check_keywords(row: Primitive, config: dict[str, object]) -> None:
    """Raises KernelError for a keyword of another language; others are looked at when the call is resolved."""
    for key in config:
        if (hint := hint_for_keyword(key)) and key not in row.signature.parameters:
            keywords = ", ".join(("dispatch", *(keyword.name for keyword in (*row.keywords, *COMMON))))
            raise KernelError(f"Tx.{row.name} has no keyword {key!r}", given=f"{key}=...", allowed=keywords, hint=hint)


def _operands(row: Primitive, args: tuple[object, ...], config: dict[str, object]) -> tuple[ir.Region | ir.Expr, ...]:
    """The operands in the order of the declaration; those given by name leave ``config``.

    Keywords that are given by position go there.
    """
    names = [operand.name for operand in row.operands]
    values = dict(zip(row.positional, args, strict=False))
    values |= {name: config.pop(name) for name in row.positional[len(args) :] if name in config}
    unread = {name: values.pop(name, None) for name in row.unread}
    config |= {name: values.pop(name) for name in row.positional if name in values and name not in names}
    present = {name: value for name, value in values.items() if value is not None}
    missing = [place.name for place in row.operands if not place.optional and place.name not in present]
    if missing or len(args) > len(row.positional):
        raise KernelError(
            f"Tx.{row.name} takes {' and '.join(names)}", given=f"{max(len(args), len(values))} arguments"
        )
    operands: list[ir.Region | ir.Expr] = []
    for operand in row.operands[: max(names.index(name) for name in present) + 1]:
        what = f"{row.name}: {operand.name}"
        value = present.get(operand.name, operand.default)
        if value is None:
            operands.append(operands[0])
        elif operand.role.value:
            operands.append(_either(what, value, operands))
        else:
            operands.append(_region(what, value) if operand.role.tile else _scalar(row, operand, value, operands))
    for name, value in unread.items():
        _check_as_large(f"{row.name}: {name}", value, operands[0])
    return tuple(operands)


def _check_as_large(what: str, value: object, first: ir.Region | ir.Expr) -> None:
    """Raises KernelError for a tile that nothing reads, and that has other extents than the one that is written."""
    if value is None:
        return
    sizes = [
        tuple(number for number in map(ir.const_value, part.extents) if number != 1)
        for part in (_region(what, value), first)
        if isinstance(part, ir.Region)
    ]
    if None not in (*sizes[0], *sizes[1]) and sizes[0] != sizes[1]:
        raise KernelError(f"{what} is as large as what is written", given=f"{value}", allowed=f"the extents of {first}")


def _either(what: str, value: object, before: list[ir.Region | ir.Expr]) -> ir.Region | ir.Expr:
    """A tile, or a value: a number keeps Python's precision, and a function is called with the coordinates of an
    element in the region that is written.
    """
    if isinstance(value, (ir.Region, ir.Buffer)):
        return _region(what, value)
    if isinstance(value, ir.Expr):
        return value
    if callable(value):
        with truth_is_an_error():
            value = value(*_places(what, value, before[0]))
        if isinstance(value, ir.Expr):
            return value
    kind = FLOAT64 if isinstance(value, float) else INT64 if _is_long(value) else INT32
    return ir.as_expr(value, kind)  # type: ignore[arg-type]  # it refuses what is no number


def _places(what: str, function: Callable[..., object], dst: ir.Region | ir.Expr) -> list[ir.Expr]:
    """Where an element is in the region that is written; dimensions of 1 in front count if they are asked for."""
    extents = dst.extents if isinstance(dst, ir.Region) else ()
    if len(extents) > len(ir.ELEMENT):
        raise KernelError(
            f"{what} is a function of at most {len(ir.ELEMENT)} places", given=f"{len(extents)} dimensions"
        )
    asked, skipped = len(inspect.signature(function).parameters), 0
    while len(extents) - skipped > asked and ir.const_value(extents[skipped]) == 1:
        skipped += 1
    return [ir.special(name) for name in ir.ELEMENT[skipped : len(extents)]]


def _is_long(value: object) -> bool:
    return isinstance(value, int) and not -(1 << 31) <= value < 1 << 31


def _scalar(row: Primitive, operand: TileOperand, value: object, before: list[ir.Region | ir.Expr]) -> ir.Expr:
    """A value, converted to the dtype of the first tile."""
    what = f"{row.name}: {operand.name}"
    if isinstance(value, (ir.Region, ir.Buffer)) or not isinstance(value, (ir.Expr, int, float)):
        shown = value.name if isinstance(value, ir.Buffer) else str(value)
        raise KernelError(f"{what} is a number", given=shown, allowed="a number, a scalar or one element: 0, x, A[0]")
    return current(f"Tx.{row.name}").converted(value, before[0].dtype, what)


def _region(what: str, value: object) -> ir.Region:
    """A tile: a region, a whole buffer, or one element."""
    tile = region_of(value)
    if tile is None:
        shown = f"`{ir.as_expr(value)}`" if isinstance(value, ir.Expr) else repr(value)
        raise KernelError(f"{what} is a tile", given=shown, allowed="a buffer or a region of one: A, A[0:8, :]")
    return tile


def region_of(place: object) -> ir.Region | None:
    """A tile as a region; of an element the region that is only it. None for anything else."""
    if isinstance(place, ir.Region):
        return place
    if isinstance(place, ir.Buffer):
        return place.region()
    if isinstance(place, ir.Load):
        box = ir.Region.of(place.buffer, tuple(slice(index, index + 1) for index in place.indices))
        return replace(box, owed=place.owed) if place.owed else box
    return None


def _check_not_within(prefix: str, name: str) -> None:
    """Raises KernelError for a bare ``Tx`` call, which is one thread's, inside of ``with Tx.cta:``."""
    builder = building()
    if prefix == "Tx" and builder is not None and builder.tile_scopes and builder.tile_scopes[-1][0] != "thread":
        around = builder.tile_scopes[-1][1]
        raise KernelError(f"Tx.{name} is one thread's, inside of `with {around}:`", given=f"Tx.{name}(...)",
                          allowed=f"{around}.{name}, or Tx.thread.{name} for each thread by itself")  # fmt: skip


class TileNamespace:
    """``Tx`` and its scopes."""

    def __init__(self, scope: str, prefix: str) -> None:
        self._scope, self._prefix = scope, prefix

    def __getattr__(self, name: str) -> Any:  # `tx.pyi` tells type checkers more
        if name.startswith("__") and name.endswith("__"):  # Python's own protocols ask for these
            raise AttributeError(name)
        if name in PRIMITIVES:
            _check_not_within(self._prefix, name)
            return tile_function(name, self._scope, self._prefix)
        if name in SCOPES and self._prefix == "Tx":
            return TileNamespace(SCOPES[name], f"Tx.{name}")
        hint = hint_for(name)
        allowed = None if hint or name.startswith("_") else choices(name, dir(self))
        raise UnknownName(f"{self._prefix}.{name} is not a tile primitive", given=name, allowed=allowed, hint=hint)

    def __enter__(self) -> None:
        """``with Tx.cta:``: the CTA's threads carry out the assignments to tiles in the block."""
        current(f"with {self._prefix}").tile_scopes.append((self._scope, self._prefix))

    def __exit__(self, *_: object) -> None:
        current(f"with {self._prefix}").tile_scopes.pop()

    def __dir__(self) -> list[str]:
        return [*PRIMITIVES, *(SCOPES if self._prefix == "Tx" else ())]

    def __repr__(self) -> str:
        return self._prefix


POSITIONS, TRUTHS = ("argmax", "argmin"), ("any", "all")
WIDER = ("warp", "warpgroup", "cta")
"""The scopes of thread axes, the widest last."""


def is_single(value: object) -> bool:
    """May an element get it: an expression over tiles, or a tile of one element?"""
    if isinstance(value, (ir.Computed, ir.Reduced)):
        return True
    tile = region_of(value) if isinstance(value, ir.Tiled) else None
    return tile is not None and all(ir.const_value(extent) == 1 for extent in tile.extents)


def assign_tile(place: ir.Region, value: object) -> None:
    """Make the call that gives ``value`` to a tile."""
    joined = _accumulated(place, value)
    if joined is not None:
        _reduce(place, joined, accum=True)
    elif isinstance(value, ir.Reduced):
        _reduce(place, value)
    elif isinstance(value, ir.Computed):
        _compute(place, value)
    elif (source := region_of(value) if isinstance(value, ir.Tiled) else None) is not None:
        _copy(place, source)
    elif not isinstance(value, (ir.Expr, int, float, np.generic)):
        hint = "T.select(lambda i, j: j <= i, x, 0)" if callable(value) else None
        raise KernelError(f"what {place} gets", given=described(value), allowed="a tile or a value", hint=hint)
    else:
        _call(fill.name, [place], place, value)


# The calls


def _call(name: str, tiles: Sequence[ir.Region], *args: object, **config: object) -> None:
    """A call at the scope that holds here."""
    scope, prefix = _scope(tiles)
    tile_function(name, scope, prefix)(*args, **config)


def _scope(tiles: Sequence[ir.Region]) -> tuple[str, str]:
    """The scope of the ``with Tx.cta:`` around the statement; without one that over which the registers are spread.

    Raises KernelError where all tiles are in memory, which any threads may compute.
    """
    builder = current("an assignment to a tile")
    if builder.tile_scopes:
        return builder.tile_scopes[-1]
    held = [tile for tile in tiles if tile.buffer.space == "local"]
    if not held:
        raise KernelError(
            "it is not said which threads compute",
            given=", ".join(f"{tile.buffer.name} in {tile.buffer.space} memory" for tile in _distinct(tiles)),
            allowed="a tile in registers, whose layout says it, or a scope around the statement",
            hint=f"with Tx.cta: {tiles[0].buffer.name}[...] = ...",
        )
    axes = (axis for tile in held if tile.buffer.layout is not None for axis in tile.buffer.layout.axes)
    widest = max((WIDER.index(axis.scope) for axis in axes if axis.is_thread()), default=-1)
    scope = WIDER[widest] if widest >= 0 else "thread"
    return scope, f"Tx.{next(word for word, meant in SCOPES.items() if meant == scope)}"


def _distinct(tiles: Sequence[ir.Region]) -> list[ir.Region]:
    return list({tile.buffer.name: tile for tile in tiles}.values())


def _copy(dst: ir.Region, src: ir.Region) -> None:
    """A copy, which leaves out what is outside of its buffers if one side is global; a cast if it broadcasts."""
    long = [[extent for extent in tile.extents if ir.const_value(extent) != 1] for tile in (dst, src)]
    if why := narrowed(dst.buffer.name, dst.dtype, src.dtype, f"{src} is {src.dtype}"):
        raise KernelError(why.what, given=why.given, allowed=why.allowed, hint=f'T.cast({src}, "{dst.dtype}")')
    if dst.dtype != src.dtype or not ir.same(*map(tuple, long)):
        _call(CAST, [dst, src], dst, src)
        return
    leaves = any(tile.buffer.space == "global" and not _is_inside(tile) for tile in (dst, src))
    leaves = leaves and not any(map(_is_outside, (dst, src)))
    _call(copy.name, [dst, src], dst, src, clip=leaves)


def _is_inside(tile: ir.Region) -> bool:
    """Is the region inside of its buffer, by what is known of scope ids and loop counters?"""
    facts = RangeFacts(current("an assignment to a tile").ranges)
    return all(
        (ir.const_value(start) == 0 and ir.same(extent, total))
        or (facts.less(-1, start) and facts.less(start + extent - 1, total))
        for (start, extent), total in zip(tile.box, tile.buffer.shape, strict=True)
    )


def _is_outside(tile: ir.Region) -> bool:
    """Do numbers say that the region leaves its buffer in every run?"""
    boxes = [
        (*map(ir.const_value, span), ir.const_value(total))
        for span, total in zip(tile.box, tile.buffer.shape, strict=True)
    ]
    return any(None not in box and box[0] + box[1] > box[2] for box in boxes)  # type: ignore[operator]  # numbers


def _compute(dst: ir.Region, value: ir.Computed) -> None:
    sources = Sources()
    step = sources.step(_with_held(value))
    tiles = [dst, *sources.tiles]
    if not all(map(_is_private, sources.tiles)):
        sources.operands = [_as_value(operand) for operand in sources.operands]
    if any(isinstance(source, FormulaStep) for source in step.sources) or (step.to and step.to != dst.dtype):
        _call(COMPUTE, tiles, dst, *sources.operands, **{FORMULA: str(step)})
        return
    plain = [sources.operands[NAMES.index(part)] if isinstance(part, str) else part for part in step.sources]
    _call(step.name, tiles, dst, *plain, **dict(step.keywords))


def _is_private(tile: ir.Region) -> bool:
    """Is it one element that each thread has for itself?"""
    single = all(ir.const_value(extent) == 1 for extent in tile.extents) and tile.buffer.space == "local"
    return single and tile.buffer.layout is not None and not any(axis.is_thread() for axis in tile.buffer.layout.axes)


def _as_value(operand: object) -> object:
    """A private element as a value, which is read once, before the tiles."""
    if isinstance(operand, ir.Region) and _is_private(operand):
        return ir.Load(operand.buffer, tuple(ir.as_expr(start) for start, _ in operand.box))
    return operand


def _reduce(dst: ir.Region, value: ir.Reduced, *, accum: bool = False) -> None:
    src = region_of(value.source) or hold(value.source)
    _call(value.primitive, [dst, src], dst, src, axes=_reduced_axes(value, len(src.extents)), accum=accum,
          **dict(value.keywords))  # fmt: skip


def _accumulated(place: ir.Region, value: object) -> ir.Reduced | None:
    """The reduction of ``s += T.sum(x)`` and ``m = T.maximum(m, T.max(x))``, which counts what the tile has."""
    if not isinstance(value, ir.Computed) or value.primitive not in ACCUMULATES or value.keywords:
        return None
    for old, new in (value.sources, value.sources[::-1]):
        mine = region_of(old) if isinstance(old, ir.Tiled) else None
        fits = isinstance(new, ir.Reduced) and new.primitive == ACCUMULATES[value.primitive]
        if fits and mine is not None and _is_same(mine, place):
            return cast(ir.Reduced, new)
    return None


def _is_same(a: ir.Region, b: ir.Region) -> bool:
    return a.buffer is b.buffer and ir.same(a.box, b.box)


class Sources:
    """The operands of a formula, each once. (Mutable: collects them.)"""

    def __init__(self) -> None:
        self.operands: list[object] = []

    @property
    def tiles(self) -> list[ir.Region]:
        """Those that are tiles."""
        return [operand for operand in self.operands if isinstance(operand, ir.Region)]

    def step(self, value: ir.Computed) -> FormulaStep:
        """The steps of an expression over tiles."""
        return FormulaStep(value.primitive, tuple(map(self.source, value.sources)), value.keywords, value.to)

    def source(self, value: object) -> FormulaStep | str | int | float:
        """A step, the name of an operand, or a number."""
        if isinstance(value, ir.Computed):
            return self.step(value)
        if isinstance(value, ir.Const):
            value = value.value
        if isinstance(value, (bool, int)):
            return int(value)
        if isinstance(value, float):
            return value
        return self.named(region_of(value) if isinstance(value, ir.Tiled) else value)

    def named(self, operand: object) -> str:
        """The name of an operand."""
        for name, source in zip(NAMES, self.operands, strict=False):
            both = isinstance(source, ir.Region) and isinstance(operand, ir.Region)
            if source is operand or (both and _is_same(source, operand)):  # type: ignore[arg-type]  # asked
                return name
        if len(self.operands) == len(NAMES):
            raise KernelError("an expression over tiles has too many sources", given=f"more than {len(NAMES)}",
                              allowed=f"{len(NAMES)} tiles and scalars, each counted once")  # fmt: skip
        self.operands.append(operand)
        return NAMES[len(self.operands) - 1]

    def dtypes(self) -> dict[str, DType]:
        """The dtypes of the operands, by name."""
        return {name: operand.dtype if isinstance(operand, (ir.Region, ir.Expr)) else INT32
                for name, operand in zip(NAMES, self.operands, strict=False)}  # fmt: skip


# Results that get a tile of their own


def hold(value: ir.Computed | ir.Reduced, name: str = "tile") -> ir.Region:
    """A new tile in registers that has the value: each element where the sources have theirs.

    Raises KernelError where no source of its extents is in registers.
    """
    builder = current("an expression over tiles")
    if isinstance(value, ir.Reduced):
        source = region_of(value.source) or hold(value.source)
        shape, kind, layout = _reduced(value, source)
    else:
        value, sources = _with_held(value), Sources()
        step = sources.step(value)
        shape, layout = _place(value, sources.tiles)
        kind = step.kinds(sources.dtypes(), BOOL)[1]
    buffer = new_buffer(builder, builder.unique(name), shape, str(kind), "local", layout)
    place = builder.allocate(buffer).region()
    assign_tile(place, replace(value, source=source) if isinstance(value, ir.Reduced) else value)
    return place


def _with_held(value: ir.Computed) -> ir.Computed:
    """An expression in which reductions have tiles of their own."""
    if not any(isinstance(source, (ir.Computed, ir.Reduced)) for source in value.sources):
        return value
    held = (hold(part) if isinstance(part, ir.Reduced) else part for part in value.sources)
    return replace(value, sources=tuple(_with_held(part) if isinstance(part, ir.Computed) else part for part in held))


def _place(value: ir.Computed, tiles: Sequence[ir.Region]) -> tuple[tuple[ir.Value, ...], Layout | None]:
    """The shape of an expression and the layout of a source that has it."""
    shape = _broadcast([tile.extents for tile in tiles])
    for tile in tiles:
        if tile.buffer.space == "local" and tile.buffer.shape == shape and ir.same(tile.extents, shape):
            return shape, tile.buffer.layout
    shown = ", ".join(map(str, tiles))
    raise KernelError(
        f"{value} has no place",
        given=f"no whole tile of {listed(shape)} in registers among {shown}",
        allowed="a tile that gets it",
        hint="t = T.alloc_buffer(..., layout=...); t[:] = ...",
    )


def _broadcast(shapes: Sequence[Sequence[ir.Value]]) -> tuple[ir.Value, ...]:
    rank = max(map(len, shapes))
    columns = zip(*([1] * (rank - len(shape)) + list(shape) for shape in shapes), strict=True)
    return tuple(next((extent for extent in column if ir.const_value(extent) != 1), 1) for column in columns)


def _reduced_axes(value: ir.Reduced, rank: int) -> tuple[int, ...]:
    """The dimensions that are reduced, from 0 on; one that does not exist is left in for the call to refuse."""
    axes = tuple(range(rank)) if value.axes is None else value.axes
    return tuple(axis + rank if -rank <= axis < 0 else axis for axis in axes)


def _reduced(value: ir.Reduced, source: ir.Region) -> tuple[tuple[ir.Value, ...], DType, Layout | None]:
    """Shape, dtype and layout of a reduction's own tile: each result in all threads that have elements of it."""
    axes = _reduced_axes(value, len(source.extents))
    kept = [dim for dim in range(len(source.extents)) if dim not in axes]
    shape = tuple(1 if dim in axes else extent for dim, extent in enumerate(source.extents)
                  if dim in kept or value.keepdims) or (1,)  # fmt: skip
    if value.primitive in POSITIONS:
        kind = INT32
    elif value.primitive in TRUTHS:
        kind = BOOL
    else:
        least = FLOAT32 if source.dtype.is_float else INT32
        kind = source.dtype if source.dtype.bits >= least.bits else least
    if all(ir.const_value(source.extents[dim]) == 1 for dim in kept):
        return shape, kind, None
    buffer = source.buffer
    if (
        buffer.space != "local"
        or not isinstance(buffer.layout, TileLayout)
        or not ir.same(source.extents, buffer.shape)
    ):
        raise KernelError(f"{value} has no place", given=f"{source} in {buffer.space} memory",
                          allowed="a tile that gets it, or a source that is a whole tile in registers",
                          hint="m = T.alloc_buffer(..., layout=...); m[:] = ...")  # fmt: skip
    return shape, kind, _without(buffer.layout, [int(ir.const_value(extent) or 0) for extent in buffer.shape], axes)


def _without(layout: TileLayout, shape: Sequence[int], axes: Sequence[int]) -> TileLayout:
    """The layout of what is left of a tile when these dimensions are reduced."""
    grouped, cuts = layout.group(shape)
    groups = [grouped.shard[begin:end] for begin, end in pairwise(cuts)]
    alike = [Iter(it.extent, it.stride, it.axis) for dim in axes for it in groups[dim] if it.axis.is_thread()]
    left = [it for dim, group in enumerate(groups) if dim not in axes for it in group]
    slots = [it for it in left if it.axis.is_memory()]
    strides = {id(it): prod(o.extent for o in slots if o.stride < it.stride) for it in slots}
    shard = [Iter(it.extent, strides.get(id(it), it.stride), it.axis) for it in left]
    threads = [it for it in grouped.replica if it.axis.is_thread()]
    return TileLayout(shard, [*threads, *alike], [term for term in grouped.offset if term.axis.is_thread()])
