"""A tile call as a variant sees it: its sides with their layouts, who executes it, the target, and what is known."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

from tilewright.dtypes import INT32, INT64, DType
from tilewright.errors import DispatchError, LayoutError, Span
from tilewright.ir import Argument, Buffer, Expr, Region, Value, as_expr, const_value
from tilewright.ir.widths import has_wide_strides, widened
from tilewright.layout import ComposeLayout, SwizzleLayout, TileLayout

if TYPE_CHECKING:
    from tilewright import ir
    from tilewright.ir.ranges import RangeFacts
    from tilewright.isa import Arch
    from tilewright.tile.scope import ExecScope

__all__ = ["ASYNC_OPTIONS", "Side", "TileCall", "call_name", "checked_async_copy", "checked_copy", "side_of"]

ASYNC_OPTIONS = {"cta_group": (1, 2), "fmt": ("", "b4x16_p64", "b6x16_p32")}
"""Keywords of `copy_async` with the values they may have. cta_group: CTAs that work on one tensor memory together; fmt:
how the source is packed, 16 values in each 16 bytes."""


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """One side of a tile call: a region of a buffer, and its part of the buffer's layout.

    extents: of the region. tile: the layout of the region, its origin in the offset, below ``swizzle``; None where no
    layout describes it (``problem`` says why).
    """

    region: Region
    extents: tuple[Value, ...]
    tile: TileLayout | None = None
    swizzle: SwizzleLayout | None = None
    problem: str = ""

    @property
    def buffer(self) -> Buffer:
        """Whose region it is."""
        return self.region.buffer

    @property
    def name(self) -> str:
        """The buffer's name."""
        return self.buffer.name

    @property
    def dtype(self) -> DType:
        """Of its elements."""
        return self.buffer.dtype

    @property
    def space(self) -> str:
        """The memory: local, shared, global or tmem. Dynamic shared memory is shared memory."""
        return self.buffer.space.partition(".")[0]

    @property
    def size(self) -> int | None:
        """Elements of the region; None where an extent is symbolic."""
        known = [const_value(extent) for extent in self.extents]
        return None if None in known else int(prod(known))  # type: ignore[arg-type]  # no None among them

    @property
    def starts(self) -> tuple[Value, ...]:
        """Where the region begins, in each dimension."""
        return tuple(start for start, _ in self.region.box)

    def at(self, element: Value, facts: RangeFacts) -> Value:
        """The storage offset of the region's ``element`` in row-major order, by the buffer's own layout."""
        digits: list[Value] = []
        for position, extent in reversed(list(enumerate(self.extents))):
            digits.insert(0, element % extent if position else element)
            element = element // extent
        return self.place(digits, facts).get("m", 0)

    def place(self, digits: list[Value], facts: RangeFacts) -> dict[str, Value]:
        """The physical coordinate of the element ``digits`` past the region's origin."""
        kind = INT64 if has_wide_strides(self.buffer, facts) else INT32
        coords = [as_expr(start, kind) + digit for start, digit in zip(self.starts, digits, strict=True)]
        if self.buffer.layout is None:
            return {"m": coords[0]}
        return self.buffer.layout.place(*coords, shape=self.buffer.shape, facts=facts)

    def __str__(self) -> str:
        return str(self.region)


def side_of(region: Region, facts: RangeFacts) -> Side:
    """The side that a region is: its layout sliced, its extents numbers where they are known."""
    box = tuple((_start(region.buffer, start, facts), facts.simplify(extent)) for start, extent in region.box)
    side = Side(Region(region.buffer, box), tuple(extent for _, extent in box))
    if region.buffer.layout is None:
        return replace(side, problem=f"{region.buffer.name} has no layout")
    everything = all(const_value(start) == 0 for start, _ in box) and side.extents == region.buffer.shape
    try:
        layout = region.buffer.layout if everything else region.buffer.layout.slice(region.buffer.shape, box, facts)
    except LayoutError as error:
        allowed = f"; needed: {error.allowed}" if error.allowed else ""
        return replace(side, problem=f"{region.buffer.name}: {error.what}{allowed}")
    if isinstance(layout, ComposeLayout):
        return replace(side, tile=layout.tile, swizzle=layout.swizzle if layout.swizzle.swizzle_len else None)
    assert isinstance(layout, TileLayout)
    return replace(side, tile=layout)


def _start(buffer: Buffer, start: Value, facts: RangeFacts) -> Value:
    """Where a region begins: of 64 bits where strides make a number of so many of it."""
    wide = isinstance(start, Expr) and has_wide_strides(buffer, facts)
    begin: Value = facts.simplify(widened(start, facts) if wide else start)
    return begin


def call_name(stmt: ir.TileCall) -> str:
    """``Tx.warp.copy``."""
    scope = "" if stmt.scope == "thread" else f".{'wg' if stmt.scope == 'warpgroup' else stmt.scope}"
    return f"Tx{scope}.{stmt.primitive}"


@dataclass(frozen=True, slots=True, eq=False)
class TileCall:
    """One call of a tile primitive, for one target. ``replace`` a field to ask what another call would get.

    arguments: names of what the kernel's caller passes, of which `T.assume` may speak.
    """

    stmt: ir.TileCall
    dst: Side
    src: Side
    scope: ExecScope
    arch: Arch
    facts: RangeFacts
    config: tuple[tuple[str, Argument], ...] = ()
    arguments: frozenset[str] = frozenset()

    @property
    def at(self) -> Span | None:
        """The kernel's line."""
        return self.stmt.at

    @property
    def dtype(self) -> DType:
        """Of the elements of the destination."""
        return self.dst.dtype

    @property
    def text(self) -> str:
        """The call as the kernel has it."""
        return f"{call_name(self.stmt)}({self.dst}, {self.src})"

    @property
    def spaces(self) -> tuple[str, str]:
        """The memories of destination and source."""
        return self.dst.space, self.src.space

    def side(self, space: str) -> Side:
        """The side in that memory; the destination where both are."""
        return self.dst if self.dst.space == space else self.src

    def other(self, side: Side) -> Side:
        """The other one of the two sides."""
        return self.src if side is self.dst else self.dst

    def option(self, key: str, default: Argument = None) -> Argument:
        """A keyword of the call that variants read."""
        return dict(self.config).get(key, default)

    def with_side(self, old: Side, new: Side) -> TileCall:
        """This call with one side exchanged."""
        return replace(self, dst=new) if old is self.dst else replace(self, src=new)


def checked_copy(call: TileCall) -> TileCall:
    """A copy moves the same elements: one dtype, equal extents (unit ones ignored), regions inside their buffers.

    Raises DispatchError naming both sides.
    """
    dst, src = call.dst, call.src
    if dst.dtype != src.dtype:
        loops = None if "tmem" in call.spaces else f'a loop with T.cast(x, "{dst.dtype}") converts'
        raise _invalid(call, "the dtypes differ", f"{dst.name} is {dst.dtype}, {src.name} is {src.dtype}",
                       "one dtype on both sides", loops)  # fmt: skip
    return _same_extents(call)


def checked_async_copy(call: TileCall) -> TileCall:
    """`checked_copy`, with the keywords of asynchronous copies; tensor memory takes narrow elements apart on the way:
    from 4 or 6 bits in shared memory to 8 bits each.
    """
    for key, allowed in ASYNC_OPTIONS.items():
        if key in dict(call.config) and call.option(key) not in allowed:
            given = f"{key}={call.option(key)!r}"
            raise _invalid(call, f"unknown {key}", given, f"{key}= {', '.join(map(repr, allowed))}")
    if call.option("fmt"):
        _check_format(call)
    narrow = call.src.dtype.value_bits in (4, 6) and call.dst.dtype.value_bits == 8
    unpacks = narrow and call.spaces == ("tmem", "shared")
    return _same_extents(call) if unpacks else checked_copy(call)


def _check_format(call: TileCall) -> None:
    """A packed source has bytes of 4 or 6 bits each for its elements, and each becomes a byte."""
    bits = int(str(call.option("fmt"))[1])
    given = f"{call.src.dtype} in {call.src.space} memory, {call.dst.dtype} in {call.dst.space}"
    if call.spaces != ("tmem", "shared") or call.dst.dtype.bits != 8 or call.src.dtype.value_bits not in (bits, 8):
        raise _invalid(call, f"fmt={call.option('fmt')!r} takes {bits} bits apart", given,
                       f"bytes or elements of {bits} bits in shared memory, elements of 8 bits in tmem")  # fmt: skip


def _same_extents(call: TileCall) -> TileCall:
    """The call with its extents compared, and its regions looked up in their buffers."""
    dst, src = call.dst, call.src
    for side in (dst, src):
        _check_inside(call, side)
    shapes = [[extent for extent in side.extents if const_value(extent) != 1] for side in (dst, src)]
    equal = len(shapes[0]) == len(shapes[1]) and all(
        call.facts.equal(a, b) or const_value(call.facts.simplify(a - b)) == 0 for a, b in zip(*shapes, strict=True)
    )
    if not equal:
        raise _invalid(call, "the extents differ", f"{_shape(dst)}, {_shape(src)}",
                       "equal extents in the same order; only extents of 1 are ignored")  # fmt: skip
    return replace(call, dst=_numbered(dst, shapes[1]), src=_numbered(src, shapes[0]))


def _invalid(call: TileCall, what: str, given: str, allowed: str, hint: str | None = None) -> DispatchError:
    return DispatchError(f"{call.text}: {what}", given=given, allowed=allowed, hint=hint, at=call.at)


def _shape(side: Side) -> str:
    return f"{side.name} ({', '.join(map(str, side.extents))})"


def _check_inside(call: TileCall, side: Side) -> None:
    for dim, ((start, extent), total) in enumerate(zip(side.region.box, side.buffer.shape, strict=True)):
        facts = call.facts
        empty = facts.less(extent, 1)
        if empty or facts.less(start, 0) or facts.less(total, facts.simplify(start + extent)):
            raise _invalid(call, f"the region of {side.name} {'is empty' if empty else 'leaves the buffer'}",
                           f"dimension {dim}: from {start}, {extent} elements", f"within 0..{total}")  # fmt: skip


def _numbered(side: Side, theirs: list[Value]) -> Side:
    """The side with an extent that is only known from the other side written as a number."""
    rest = iter(theirs)
    extents = [extent if const_value(extent) == 1 else _number(extent, next(rest)) for extent in side.extents]
    return replace(side, extents=tuple(extents))


def _number(mine: Value, other: Value) -> Value:
    known = const_value(mine), const_value(other)
    return next((int(value) for value in known if value is not None), mine)
