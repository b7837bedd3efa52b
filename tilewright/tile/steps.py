"""Calls inside of a call: a variant brings tiles of its own, and has others carry out the parts of the call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Protocol, TypeAlias

from tilewright.dtypes import DType
from tilewright.errors import DispatchError
from tilewright.ir import AddressOf, AllocBuffer, Argument, Buffer, DeclBuffer, as_expr, row_major
from tilewright.layout import Layout
from tilewright.tile.builder import Builder
from tilewright.tile.call import Side, TileCall, side_of
from tilewright.tile.dispatch import Chosen, Decline, choose
from tilewright.tile.scope import which_of_its_kind
from tilewright.tile.walks import times

MOST_BYTES = 96 * 1024  # bytes of scratch memory for one call
APART = 1024  # bytes: each scope's part begins at a multiple, where every swizzle's pattern begins


def inner_call(call: TileCall, primitive: str, sides: dict[str, Side], **config: Argument) -> TileCall:
    """A call by the same threads, in the place of a part of ``call``."""
    settings = tuple(config.items())
    regions = tuple(side.region for side in sides.values())
    stmt = replace(call.stmt, primitive=primitive, args=regions, dispatch=None, config=settings)
    return replace(call, stmt=stmt, sides=sides, config=settings, scalars={})


def planned(call: TileCall) -> Chosen:
    """The variant that takes it. Raises Decline where none does, or only element by element."""
    try:
        chosen = choose(call)
    except DispatchError as error:
        raise Decline(f"{error.what}: {error.given}") from None
    if chosen.variant.name == "fallback":
        raise Decline(f"{call.text} would go element by element")
    return chosen


class Scratch(Protocol):
    """A tile that the calls bring: ``side`` while planning, `allocated` in the code."""

    @property
    def side(self) -> Side: ...

    def allocated(self, call: TileCall, out: Builder) -> Side:
        """The same tile under a name of its own."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class ScratchRegisters:
    """Scratch registers of a layout."""

    side: Side

    def allocated(self, call: TileCall, out: Builder) -> Side:
        """The same tile in registers of its own."""
        buffer = replace(self.side.buffer, name=out.names.new(self.side.name))
        out.add(AllocBuffer(buffer, at=out.at))
        return side_of(buffer.region(), call.facts)


@dataclass(frozen=True, slots=True, eq=False)
class Staging:
    """Scratch memory of ``count`` elements, of which a view has a layout."""

    side: Side
    count: int

    def allocated(self, call: TileCall, out: Builder) -> Side:
        """The same tile in scratch memory of the call."""
        base, start = out.scratch(call, "scratch", self.count, str(self.side.dtype), align=APART)
        view = replace(self.side.buffer, name=out.names.new("staged"), data=AddressOf(base, (as_expr(start),)), align=0)
        out.add(DeclBuffer(view, at=out.at))
        return side_of(view.region(), call.facts)


def staging(call: TileCall, shape: tuple[int, ...], kind: DType, layout: Layout | None = None) -> Staging:
    """Scratch memory for a tile of this shape, row-major unless a layout is given. Raises Decline if too large."""
    buffer = Buffer("scratch", kind, shape, "shared", layout or row_major(shape))
    unit = max(1, APART * 8 // kind.bits)
    count = -(-buffer.storage_size() // unit) * unit
    groups = call.scope.cta_threads // call.scope.threads
    if count * kind.bits // 8 * groups > MOST_BYTES:
        needed = prod(shape) * kind.bits // 8 * groups
        raise Decline(f"{needed} bytes of scratch memory, at most {MOST_BYTES} are taken")
    base = Buffer("scratch", kind, (count * groups,), "shared", row_major((count * groups,)), align=APART)
    view = replace(buffer, data=AddressOf(base, (as_expr(times(which_of_its_kind(call.scope), count)),)))
    return Staging(side_of(view.region(), call.facts), count)


Calls: TypeAlias = Callable[[TileCall, Mapping[str, Side]], Sequence[TileCall]]
"""The calls in the place of one, on its tiles and on those that they bring, by name."""


@dataclass(frozen=True, slots=True, eq=False)
class CallSteps:
    """Calls one after the other. chosen: what carries each of them out. words: of the report."""

    scratch: Mapping[str, Scratch]
    calls: Calls
    chosen: tuple[Chosen, ...]
    words: str = ""

    def summary(self) -> str:
        """The words, else what each call does: ``2 x 16 bytes per thread; 4 shuffles``."""
        return self.words or "; ".join(step.plan.summary() for step in self.chosen)


def in_steps(call: TileCall, calls: Calls, scratch: Mapping[str, Scratch] | None = None) -> CallSteps:
    """The plan of calls with this scratch. Raises Decline where one of them has none."""
    rooms = scratch or {}
    sides = {name: room.side for name, room in rooms.items()}
    return CallSteps(rooms, calls, tuple(map(planned, calls(call, sides))))


def emit_steps(plan: CallSteps, call: TileCall, out: Builder) -> None:
    """Writes the calls. The threads meet between two that touch the same scratch memory, and before they leave it."""
    sides = {name: room.allocated(call, out) for name, room in plan.scratch.items()}
    memory = {sides[name].name for name, room in plan.scratch.items() if isinstance(room, Staging)}
    touched = set[str]()
    for chosen, step in zip(plan.chosen, plan.calls(call, sides), strict=True):
        names = memory & {side.name for side in step.tiles}
        if touched & names:
            out.meet(call)
            touched.clear()
        chosen.write(step, out)
        touched |= names
    if touched:
        out.meet(call)
