"""Calls inside of a call: a variant that stages its elements in scratch memory has others carry out the copies."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from tilewright.dtypes import DType
from tilewright.errors import DispatchError
from tilewright.ir import AddressOf, AllocBuffer, Argument, Buffer, DeclBuffer, as_expr, row_major
from tilewright.layout import Layout
from tilewright.tile.builder import Builder
from tilewright.tile.call import Side, TileCall, side_of
from tilewright.tile.dispatch import Chosen, Decline, choose
from tilewright.tile.meeting import which_of_its_kind
from tilewright.tile.walks import times

__all__ = ["ScratchRegisters", "Staging", "inner_call", "planned", "staging"]

MOST_BYTES = 96 * 1024  # bytes of scratch memory for one call
APART = 1024  # bytes: each scope's part begins at a multiple, where every swizzle's pattern begins


def inner_call(call: TileCall, primitive: str, sides: dict[str, Side], **config: Argument) -> TileCall:
    """A call by the same threads, in the place of a part of ``call``."""
    given = tuple(config.items())
    regions = tuple(side.region for side in sides.values())
    stmt = replace(call.stmt, primitive=primitive, args=regions, dispatch=None, config=given)
    return replace(call, stmt=stmt, sides=sides, config=given, scalars={})


def planned(call: TileCall) -> Chosen:
    """The variant that takes it. Raises Decline where none does, or only element by element."""
    try:
        found = choose(call)
    except DispatchError as error:
        raise Decline(f"{error.what}: {error.given}") from None
    if found.variant.name == "fallback":
        raise Decline(f"{call.text} would go element by element")
    return found


@dataclass(frozen=True, slots=True, eq=False)
class ScratchRegisters:
    """Scratch registers of a layout: ``side`` while planning, `allocated` in the code."""

    side: Side

    def allocated(self, call: TileCall, out: Builder) -> Side:
        """The same tile in registers of its own."""
        made = replace(self.side.buffer, name=out.names.new(self.side.name))
        out.add(AllocBuffer(made, at=out.at))
        return side_of(made.region(), call.facts)


@dataclass(frozen=True, slots=True, eq=False)
class Staging:
    """Scratch memory of a layout, as a tile: ``side`` while planning, `allocated` in the code."""

    shape: tuple[int, ...]
    dtype: DType
    layout: Layout
    side: Side
    count: int

    def allocated(self, call: TileCall, out: Builder) -> Side:
        """The same tile in scratch memory of the call."""
        base, start = out.scratch(call, "scratch", self.count, str(self.dtype), align=APART)
        view = replace(self.side.buffer, name=out.names.new("staged"), data=AddressOf(base, (as_expr(start),)), align=0)
        out.add(DeclBuffer(view, at=out.at))
        return side_of(view.region(), call.facts)


def staging(call: TileCall, shape: tuple[int, ...], kind: DType, layout: Layout | None = None) -> Staging:
    """Scratch memory for a tile of this shape, row-major unless a layout is given. Raises Decline if too large."""
    made = layout or row_major(shape)
    buffer = Buffer("scratch", kind, shape, "shared", made)
    unit = max(1, APART * 8 // kind.bits)
    count = -(-buffer.storage_size() // unit) * unit
    groups = call.scope.cta_threads // call.scope.threads
    if count * kind.bits // 8 * groups > MOST_BYTES:
        needed = prod(shape) * kind.bits // 8 * groups
        raise Decline(f"{needed} bytes of scratch memory, at most {MOST_BYTES} are taken")
    base = Buffer("scratch", kind, (count * groups,), "shared", row_major((count * groups,)), align=APART)
    start = as_expr(times(which_of_its_kind(call.scope), count))
    view = replace(buffer, data=AddressOf(base, (start,)))
    return Staging(shape, kind, made, side_of(view.region(), call.facts), count)
