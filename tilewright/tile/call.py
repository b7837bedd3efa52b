"""A tile call as a variant sees it: its operands by name, the threads that execute it, the target, and the facts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING

from tilewright.dtypes import INT32, INT64, DType
from tilewright.errors import DispatchError, LayoutError, Span
from tilewright.ir import Argument, Buffer, Cast, Const, Expr, Region, Value, as_expr, const_value, rewrite, same
from tilewright.ir.debts import has_wide_strides, widened
from tilewright.layout import ComposeLayout, Layout, SwizzleLayout, TileLayout
from tilewright.primitives import PRIMITIVES, Mismatch, Primitive, TileOperand
from tilewright.primitives.copy import CLIP
from tilewright.records import replace
from tilewright.tile.walks import digits_of

if TYPE_CHECKING:
    from tilewright import ir
    from tilewright.ir.ranges import RangeFacts
    from tilewright.isa import Arch
    from tilewright.tile.scope import ExecScope


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """A tile of a call: a region of a buffer, and its part of the buffer's layout.

    extents: of the region. tile: the layout of the region, its origin in the offset, below ``swizzle``; None where no
    layout describes it (``problem`` says why). ends: where the elements of the call end in each dimension of the
    buffer, if that is before the region does; None where it is not.
    """

    region: Region
    extents: tuple[Value, ...]
    tile: TileLayout | None = None
    swizzle: SwizzleLayout | None = None
    problem: str = ""
    ends: tuple[Value | None, ...] = ()

    @property
    def buffer(self) -> Buffer:
        """The buffer that the region is of."""
        return self.region.buffer

    @property
    def name(self) -> str:
        """The buffer's name."""
        return self.region.name

    @property
    def dtype(self) -> DType:
        """The type of the buffer's elements."""
        return self.buffer.dtype

    @property
    def space(self) -> str:
        """The memory: local, shared, global or tmem. Dynamic shared memory is shared memory."""
        return self.buffer.space.partition(".")[0]

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents of a region whose extents are numbers; 0 for a symbolic one."""
        return tuple(int(const_value(extent) or 0) for extent in self.extents)

    @property
    def size(self) -> int | None:
        """Elements of the region; None where an extent is symbolic."""
        numbers = [const_value(extent) for extent in self.extents]
        return None if None in numbers else int(prod(numbers))  # type: ignore[arg-type]  # no None among them

    @property
    def starts(self) -> tuple[Value, ...]:
        """Where the region begins, in each dimension."""
        return tuple(start for start, _ in self.region.box)

    @property
    def limits(self) -> tuple[Value, ...]:
        """Where elements end in each dimension: those of the call, else the buffer."""
        ends = self.ends or (None,) * len(self.extents)
        return tuple(total if end is None else end for end, total in zip(ends, self.buffer.shape, strict=True))

    def at(self, element: Value, facts: RangeFacts) -> Value:
        """The storage offset of the region's ``element`` in row-major order, by the buffer's own layout."""
        return self.place(digits_of(element, self.extents), facts).get("m", 0)

    def place(self, digits: Sequence[Value], facts: RangeFacts, layout: Layout | None = None) -> dict[str, Value]:
        """The coordinate of the element ``digits`` past the region's origin, by the buffer's layout or by this."""
        kind = INT64 if has_wide_strides(self.buffer, facts) else INT32
        coords = [as_expr(start, kind) + digit for start, digit in zip(self.starts, digits, strict=True)]
        layout = layout or self.buffer.layout
        if layout is None:
            return {"m": coords[0]}
        return layout.place(*coords, shape=self.buffer.shape, facts=facts)

    def __str__(self) -> str:
        if self.region.written:
            return self.region.written
        parts = (_written(start, extent) for start, extent in self.region.box)
        return f"{self.buffer.name}[{', '.join(parts)}]"


def _written(start: Value, extent: Value) -> str:
    """A dimension of a region as its author writes it: without conversions of indices to 64 bits."""
    if const_value(start) is not None:
        return f"{start}:{start + extent}"
    at = rewrite(as_expr(start), lambda node: node.a if isinstance(node, Cast) and _widens(node) else None)
    return str(at) if const_value(extent) == 1 else f"{at}:{at + extent}"


def _widens(node: Cast) -> bool:
    return node.dtype.is_integer and node.a.dtype.is_integer and node.dtype.bits > node.a.dtype.bits


def side_of(region: Region, facts: RangeFacts) -> Side:
    """The side that a region is: its layout sliced, its extents numbers where they are known."""
    box = tuple((_start(region.buffer, start, facts), facts.simplify(extent)) for start, extent in region.box)
    side = Side(replace(region, box=box), tuple(extent for _, extent in box))
    if region.buffer.layout is None:
        return replace(side, problem=f"{region.buffer.name} has no layout")
    everything = all(const_value(start) == 0 for start, _ in box) and side.extents == region.buffer.shape
    try:
        whole = region.buffer.layout
        layout = (
            whole if everything else whole.part(region.buffer.shape, box, facts, leaves=True)
        )  # see `_check_inside`
    except LayoutError as error:
        allowed = f"; needed: {error.allowed}" if error.allowed else ""
        return replace(side, problem=f"{region.buffer.name}: {error.what}{allowed}")
    if isinstance(layout, ComposeLayout):
        swizzle = layout.swizzle if layout.swizzle.swizzle_len else None
        return replace(side, tile=_in_numbers(layout.tile, facts), swizzle=swizzle)
    assert isinstance(layout, TileLayout)
    return replace(side, tile=_in_numbers(layout, facts))


def _in_numbers(layout: TileLayout, facts: RangeFacts) -> TileLayout:
    """The layout with numbers for those extents that the facts know."""
    if all(isinstance(it.extent, int) for it in layout.shard):
        return layout
    shard = [replace(it, extent=facts.simplify(it.extent)) for it in layout.shard]
    return TileLayout.from_iters(shard, layout.replica, layout.offset)


def _start(buffer: Buffer, start: Value, facts: RangeFacts) -> Value:
    """The start of a region, with 64 bits where its strides have them."""
    wide = isinstance(start, Expr) and has_wide_strides(buffer, facts)
    begin: Value = facts.simplify(widened(start, facts) if wide else start)
    return begin


def own_digits(side: Side, digits: Sequence[Value], extents: Sequence[Value]) -> list[Value]:
    """The coordinates of the side's element that goes with an element of dst, whose extents these are.

    The extents of both are aligned at the right; where both have as many longer than 1, those go together in order.
    """
    long = [digit for digit, extent in zip(digits, extents, strict=True) if const_value(extent) != 1]
    long_dims = [const_value(extent) != 1 for extent in side.extents]
    if sum(long_dims) == len(long):
        rest = iter(long)
        return [next(rest) if is_long else 0 for is_long in long_dims]
    aligned = [0] * (len(long_dims) - len(digits)) + list(digits[max(0, len(digits) - len(long_dims)) :])
    return [digit if is_long else 0 for digit, is_long in zip(aligned, long_dims, strict=True)]


def dimensions_of(side: Side, extents: Sequence[Value]) -> Iterator[tuple[int, int]]:
    """The dimensions of a side that go with one of dst, with that one."""
    labels = own_digits(side, list(range(1, len(extents) + 1)), extents)
    yield from ((dim, int(const_value(label) or 0) - 1) for dim, label in enumerate(labels) if label != 0)


def call_name(stmt: ir.TileCallStmt) -> str:
    """``Tx.warp.copy``."""
    scope = "" if stmt.scope == "thread" else f".{'wg' if stmt.scope == 'warpgroup' else stmt.scope}"
    return f"Tx{scope}.{stmt.primitive}"


@dataclass(frozen=True, slots=True, eq=False)
class TileCall:
    """One call of a tile primitive, for one target. ``replace`` a field to ask what another call would get.

    sides: the tiles, and scalars: the values, by the names that the primitive declares. arguments: names of what the
    kernel's caller passes, of which `T.assume` may speak.
    """

    stmt: ir.TileCallStmt
    sides: Mapping[str, Side]
    scope: ExecScope
    arch: Arch
    facts: RangeFacts
    config: tuple[tuple[str, Argument], ...] = ()
    arguments: frozenset[str] = frozenset()
    scalars: Mapping[str, Expr] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Side:
        """The tile with that name."""
        return self.sides[name]

    @property
    def row(self) -> Primitive:
        """The declaration of the primitive."""
        return PRIMITIVES[self.stmt.primitive]

    @property
    def at(self) -> Span | None:
        """The kernel's line."""
        return self.stmt.at

    @property
    def tiles(self) -> tuple[Side, ...]:
        """All sides, in the order of the declaration."""
        return tuple(self.sides.values())

    @property
    def written(self) -> tuple[Side, ...]:
        """The sides that the call stores to."""
        return tuple(side for operand, side in self.operands if operand.role.written)

    @property
    def operands(self) -> tuple[tuple[TileOperand, Side], ...]:
        """The tiles with their declarations."""
        return tuple((operand, self[operand.name]) for operand in self.row.operands if operand.name in self.sides)

    @property
    def dtype(self) -> DType:
        """The type of the elements of the first tile."""
        return self.tiles[0].dtype

    @property
    def text(self) -> str:
        """The call as the kernel has it."""
        named = {operand.name: operand.default for operand in self.row.operands if operand.default is not None}
        values = {name: part.value if isinstance(part, Const) else part for name, part in self.scalars.items()}
        parts = [*map(str, self.tiles), *(str(part) for name, part in values.items() if name not in named)]
        parts += [f"{name}={part}" for name, part in values.items() if name in named and part != named[name]]
        parts += [f"{name}={_setting(part)}" for name, part in self.config]
        return f"{call_name(self.stmt)}({', '.join(parts)})"

    @property
    def spaces(self) -> tuple[str, ...]:
        """The memory of each tile."""
        return tuple(side.space for side in self.tiles)

    def side(self, space: str) -> Side:
        """The first side in that memory."""
        return next(side for side in self.tiles if side.space == space)

    def option(self, key: str, default: Argument = None) -> Argument:
        """A keyword of the call that variants read."""
        return dict(self.config).get(key, default)

    def with_side(self, old: Side, new: Side) -> TileCall:
        """This call with one side exchanged."""
        return replace(self, sides={name: new if side is old else side for name, side in self.sides.items()})

    def with_buffer(self, side: Side, **fields: object) -> TileCall:
        """This call with other fields of the buffer that a side is a region of."""
        buffer = replace(side.buffer, **fields)
        return self.with_side(side, side_of(Region(buffer, side.region.box), self.facts))

    def invalid(self, why: Mismatch) -> DispatchError:
        """The error for a call that no variant could take."""
        return DispatchError(
            f"{self.text}: {why.what}", given=why.given, allowed=why.allowed, hint=why.hint, at=self.at
        )


def _setting(value: Argument) -> str:
    """A keyword's value as its author writes it."""
    if isinstance(value, tuple):
        return f"({', '.join(map(_setting, value))}{',' * (len(value) == 1)})"
    return repr(value) if isinstance(value, str) else str(value)


def checked(call: TileCall) -> TileCall:
    """The call, which keeps the rules of its primitive; an extent that one tile knows as a number is one in all.

    Raises DispatchError naming what does not fit.
    """
    row = call.row
    _check_values(call)
    if row.elements is not None and (why := row.elements(call.sides, dict(call.config))):
        raise call.invalid(why)
    for operand, side in call.operands:
        _check_filled(call, side)
        for debt in side.region.owed:
            if call.facts.less(debt.index, 0) or call.facts.less(debt.extent - 1, debt.index):
                place = f"dimension {debt.dim}: {debt.index}"
                raise call.invalid(Mismatch(f"a part of {debt.name} lies outside of it", place, f"0..{debt.extent}"))
        if not operand.role.may_leave(dict(call.config)):
            _check_inside(call, side, operand.role.asking)
    if row.shapes is not None:
        shapes = row.shapes(call.sides, call.facts, dict(call.config))
        if isinstance(shapes, Mismatch):
            raise call.invalid(shapes)
        changed = {name: replace(side, extents=shapes[name]) for name, side in call.sides.items()
                   if not same(side.extents, shapes[name])}  # fmt: skip
        call = replace(call, sides={**call.sides, **changed}) if changed else call
    return _clipped(call) if row.by_element else call


def without_clip(call: TileCall) -> TileCall:
    """The call without ``clip=True`` where all of its regions are known to be inside, so that every variant fits."""
    inside = all(
        call.facts.less(-1, start) and call.facts.less(start + extent - 1, total)
        for side in call.tiles
        for start, extent, total in zip(side.starts, side.extents, side.buffer.shape, strict=True)
    )
    left = tuple((key, value) for key, value in call.config if key != CLIP)
    return replace(call, config=left) if inside and left != call.config else call


def _check_values(call: TileCall) -> None:
    for key, value in call.config:
        keyword = call.row.keyword(key)
        if keyword is not None and not keyword.admits(value):
            raise call.invalid(Mismatch(f"unknown {key}", f"{key}={value!r}", keyword.allowed))


def _check_filled(call: TileCall, side: Side) -> None:
    for dim, extent in enumerate(side.extents):
        if call.facts.less(extent, 1):
            raise call.invalid(_outside(side, "is empty", dim))


def _check_inside(call: TileCall, side: Side, hint: str | None) -> None:
    for dim, ((start, extent), total) in enumerate(zip(side.region.box, side.buffer.shape, strict=True)):
        if call.facts.less(start, 0) or call.facts.less(total, call.facts.simplify(start + extent)):
            raise call.invalid(_outside(side, "leaves the buffer", dim, hint))


def _outside(side: Side, what: str, dim: int, hint: str | None = None) -> Mismatch:
    (start, extent), total = side.region.box[dim], side.buffer.shape[dim]
    places = f"dimension {dim}: from {start}, {extent} elements"
    return Mismatch(f"the region of {side.name} {what}", places, f"within 0..{total}", hint)


def _clipped(call: TileCall) -> TileCall:
    """The call without the elements that are known to be outside of a buffer, unless these are all.

    The tiles, aligned at the right, lose the same places.
    """
    open_sides = [side for operand, side in call.operands if operand.role.clipped]
    if not open_sides:
        return call
    rank = max(len(side.extents) for side in open_sides)
    cuts = {back: _kept(open_sides, back) for back in range(1, rank + 1)}
    if any(low >= high for low, high, _ in cuts.values()) or all(
        high - low == full for low, high, full in cuts.values()
    ):
        return call
    return replace(call, sides={name: _cut(side, cuts, call.facts) for name, side in call.sides.items()})


def _kept(sides: Sequence[Side], back: int) -> tuple[int, int, int]:
    """The places of a dimension, counted from the right, that are inside of all buffers, and how many there were."""
    low, high, full = 0, 1 << 62, 1 << 62
    for side in sides:
        if back > len(side.extents):
            continue
        numbers = [const_value(value) for value in (side.starts[-back], side.extents[-back], side.buffer.shape[-back])]
        if numbers[1] is not None and numbers[1] != 1:
            full = int(numbers[1])
            high = min(high, full)
        if None in numbers or (numbers[1] == 1 and len(sides) > 1):
            continue
        begin, _, end = (int(value or 0) for value in numbers)
        low, high = max(low, -begin), min(high, end - begin)
    return (low, high, full) if full < 1 << 62 else (0, 1, 1)


def _cut(side: Side, cuts: Mapping[int, tuple[int, int, int]], facts: RangeFacts) -> Side:
    box = list(side.region.box)
    for back in range(1, len(box) + 1):
        low, high, full = cuts[back]
        if (low, high) != (0, full) and const_value(box[-back][1]) == full:
            box[-back] = (box[-back][0] + low, high - low)
    return side if tuple(box) == side.region.box else side_of(replace(side.region, box=tuple(box)), facts)
