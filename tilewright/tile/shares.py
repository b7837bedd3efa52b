"""How threads divide the elements of a call: one mapping over all of its tiles, whatever the call does with them.

Where a tile is in registers, its layout says which thread has which element (`held_by`). Else the threads of the scope
take turns in an order of our choice (`dealt_out`). Either way a thread makes some rounds of accesses, each of a run of
elements that is contiguous and aligned in every tile, and each tile has an `Offset` for where its run starts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np

from tilewright.ir import Expr, Value, binary, const_value
from tilewright.tile.builder import Builder
from tilewright.tile.call import Side, TileCall
from tilewright.tile.dispatch import Decline
from tilewright.tile.hints import wider
from tilewright.tile.owners import accesses
from tilewright.tile.partition import element_numbers, places, tracked, widest_vector
from tilewright.tile.walks import Ints, Offset, plus, times

__all__ = ["ELEMENT", "Share", "all_found", "dealt_out", "emit_copies", "held_by", "in_memory_order", "in_order",
           "numbers_in", "widened"]  # fmt: skip

LETTERS = {"global": "g", "shared": "s", "local": "r"}  # in the names of offsets and pointers, and their order
ELEMENT = "element"
"""The name of the number of an access's first element among the offsets."""


@dataclass(frozen=True, slots=True)
class Share:
    """vector: elements of one access. rounds: accesses of a thread. offsets: where each starts, by the tile's name.

    number: of its first element, where it is asked for. threads: that take turns (0: each has its own elements).
    spread: the offsets follow a thread and its rounds; else the number of the access, ``round * threads + thread``.
    accesses: how many there are, where the last round is not full (0: all rounds are). guard: holds in the threads that
    take part. limit: why no access has 16 bytes; widened: what would make accesses wider.
    """

    vector: int
    nbytes: int
    rounds: int
    offsets: tuple[tuple[str, Offset], ...]
    threads: int = 0
    spread: bool = True
    accesses: int = 0
    guard: Expr | None = None
    number: Offset | None = None
    limit: str = ""
    widened: str | None = None

    def summary(self) -> str:
        """``2 x 16 bytes (8 elements) for each of 128 threads``, and why not fewer and wider."""
        why = f"; not by 16 bytes, as {self.limit}" if self.limit else ""
        partial = f", {self.accesses} in all" if self.accesses else ""
        who = f"for each of {self.threads} threads" if self.threads else "per thread"
        return f"{self.rounds} x {self.nbytes} bytes ({self.vector} elements) {who}{partial}{why}"

    @contextmanager
    def rounds_of(self, call: TileCall, out: Builder) -> Iterator[dict[str, Value]]:
        """What is written inside happens for each access; the offset of each tile, by name."""
        with self.counted(call, out) as (_, offsets):
            yield offsets

    @contextmanager
    def counted(self, call: TileCall, out: Builder) -> Iterator[tuple[Value, dict[str, Value]]]:
        """Like `rounds_of`, with the number of the thread's access as well."""
        thread = call.scope.index
        with out.when(self.guard):
            starts = [(name, out.offsets(offset, LETTERS[call[name].space])) for name, offset in self.offsets]
            if self.number is not None:
                starts.append((ELEMENT, out.offsets(self.number, "e")))
            with out.loop("f", self.rounds) as f:
                number = plus(times(f, self.threads), thread)
                with out.when(binary("<", number, self.accesses) if self.accesses else None):
                    access = f if self.spread else number
                    yield f, {name: start(access) for name, start in starts}

    @contextmanager
    def pointers(self, call: TileCall, out: Builder) -> Iterator[dict[str, Expr]]:
        """Like `rounds_of`, with pointers in the place of offsets."""
        with self.rounds_of(call, out) as offsets:
            yield {
                name: out.pointer(f"{LETTERS[call[name].space]}_ptr", call[name].buffer.flat(), offset)
                for name, offset in offsets.items()
            }


def in_order(sides: Mapping[str, Side]) -> dict[str, Side]:
    """The tiles by their names, those farther away first."""
    return dict(sorted(sides.items(), key=lambda item: list(LETTERS).index(item[1].space)))


def numbers_in(call: TileCall, side: Side) -> Ints:
    """For each element of dst, the number of the side's element that goes with it."""
    numbers = np.arange(int(side.size or 0))
    if side.size == call["dst"].size:
        return numbers
    dst = call["dst"].shape
    return np.broadcast_to(numbers.reshape(side.shape[-len(dst) :]), dst).reshape(-1)


def emit_copies(plan: Share, call: TileCall, out: Builder) -> None:
    """A copy of one run after the other."""
    with plan.pointers(call, out) as pointers:
        out.call("cuda.copy_bytes", pointers["dst"], pointers["src"], plan.nbytes)


def widened(call: TileCall, planner: Callable[[TileCall], Share]) -> Share:
    """The share that ``planner`` plans, with what would make its accesses wider."""
    plan = planner(call)
    return replace(plan, widened=wider(call, plan, planner)) if plan.limit else plan


def held_by(call: TileCall, local: Side) -> Share:
    """Each thread has the elements that it holds of ``local``. Raises Decline where they are no runs of the others."""
    held, where, vector, limit = accesses(call, local)
    starts = held.elements[:, ::vector]
    own = held.offset_of(held.slots[::vector])
    offsets = (
        (name, own if side is local else tracked(call, side, where[name], starts, [held.rank]))
        for name, side in in_order(call.sides).items()
    )
    if (found := all_found(offsets)) is None:
        others = " and ".join(side.name for side in call.tiles if side is not local)
        raise Decline(f"the registers of {local.name} and the addresses of {others} follow no common pattern")
    guard = held.guard(storing=local not in call.written)
    return Share(vector, vector * local.dtype.bits // 8, starts.shape[1], found, guard=guard, limit=limit)


def dealt_out(
    call: TileCall,
    order: Ints,
    also: Callable[[int], str | None] = lambda _: None,
    *,
    numbered: bool = False,
    tiles: Mapping[str, Side] | None = None,
    least: int = 1,
) -> Share:
    """The threads of the scope take the elements in turns, in this order. Raises Decline where no pattern gives them.

    also: a further reason against runs of so many elements. numbered: with the number of each access's first element.
    tiles: those that it is about, if not all. least: bytes of the shortest run.
    """
    sides = [
        (name, side, places(side, call.facts), numbers_in(call, side))
        for name, side in in_order(call.sides if tiles is None else tiles).items()
    ]
    vector, limit = widest_vector(call, [(side, where, own[order]) for _, side, where, own in sides], also, least)
    starts = order[::vector]
    threads = call.scope.threads
    rounds = -(-len(starts) // threads)
    partial = len(starts) if len(starts) < rounds * threads else 0
    nbytes = vector * call.dtype.bits // 8
    for spread in (False,) if partial else (True, False):
        elements = starts.reshape(rounds, threads).T if spread else starts
        thread = [call.scope.index] if spread else []
        offsets = (tracked(call, side, where, own[elements], thread) for _, side, where, own in sides)
        found = all_found(zip((name for name, *_ in sides), offsets, strict=True))
        number = element_numbers(elements, thread) if numbered else None
        if found is not None and (number is not None) == numbered:
            return Share(vector, nbytes, rounds, found, threads, spread, partial, number=number, limit=limit)
    names = " and ".join(side.name for _, side, _, _ in sides)
    raise Decline(f"the addresses of {names} follow no common pattern")


def all_found(offsets: Iterable[tuple[str, Offset | None]]) -> tuple[tuple[str, Offset], ...] | None:
    """The offsets by name; None where one of them follows no pattern."""
    found = tuple(offsets)
    return None if any(offset is None for _, offset in found) else found  # type: ignore[return-value]  # none is


def in_memory_order(side: Side) -> Ints:
    """The region's element numbers in the order of their addresses: symbolic strides outside, then from far to near."""
    numbers = np.arange(int(side.size or 0))
    if side.tile is None:
        return numbers
    strides = [const_value(it.stride) for it in side.tile.shard]
    axes = sorted(range(len(strides)), key=lambda k: (strides[k] is not None, -abs(int(strides[k] or 0))))
    return numbers.reshape([int(it.extent) for it in side.tile.shard]).transpose(axes).reshape(-1)
