"""Registers to registers of other lanes: each register of the destination comes by shuffles from one lane each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tilewright import isa
from tilewright.ir import Expr, Load, Value, as_expr, binary, select, special
from tilewright.isa import ALL_LANES
from tilewright.tile.builder import Builder
from tilewright.tile.call import TileCall
from tilewright.tile.conditions import constant_extents, only_in, whole_warps
from tilewright.tile.dispatch import SHUFFLE, Decline, cheapest, told, variant
from tilewright.tile.owners import owners
from tilewright.tile.reductions import spread
from tilewright.tile.walks import Ints, linear, plus


@dataclass(frozen=True, slots=True)
class Fetch:
    """How one register of the destination is filled.

    lane: the lane that each lane asks. sources: the registers that lanes give by turns; of several, ``which`` is the
    one that a lane wants.
    """

    slot: int
    lane: Value
    sources: tuple[int, ...]
    which: Value


@dataclass(frozen=True, slots=True)
class Shuffles:
    """One fetch for each register. bases: what is added to the slots of the destination and of the source."""

    fetches: tuple[Fetch, ...]
    bases: tuple[Value, Value]
    guard: Expr | None
    others: tuple[tuple[str, int], ...] = ()

    @property
    def count(self) -> int:
        """Shuffles per warp."""
        return sum(len(fetch.sources) for fetch in self.fetches)

    @property
    def cost(self) -> int:
        """Shuffles, and a selection for each further register."""
        return self.count * SHUFFLE + 2 * (self.count - len(self.fetches)) + len(self.fetches)

    def summary(self) -> str:
        """``8 shuffles; cost 24``."""
        return f"{self.count} shuffles; {told(self)}"


@variant("permute_layout", priority=10, when=[only_in("local"), whole_warps, constant_extents])
def shuffles(call: TileCall) -> Shuffles:
    """Lanes get what they need from lanes of their own warp."""
    dst, src = call["dst"], call["src"]
    into, held = owners(call, dst, loading=True), owners(call, src, loading=True)
    lane, slot = _sources(spread(call, into, into.elements), spread(call, held, held.elements), dst.name)
    fetches = []
    for column, to in enumerate(into.slots.tolist()):
        used, which = np.unique(slot[:, column], return_inverse=True)
        asked, wanted = (linear(values.reshape(-1), [special("laneid")]) for values in (lane[:, column], which))
        if asked is None or wanted is None:
            raise Decline(f"the lanes that hold {src.name} follow no pattern")
        fetches.append(Fetch(to, asked, tuple(held.slots[used].tolist()), wanted))
    return cheapest(call, "shuffles", Shuffles(tuple(fetches), (into.base, held.base), into.guard(storing=False)))


def _sources(wanted: Ints, has: Ints, name: str) -> tuple[Ints, Ints]:
    """For each lane and register the lane and the number of the register that it comes from: (32, registers).

    Raises Decline unless that is the same in all warps, and in the own warp.
    """
    sources = None
    for first in range(0, len(wanted), 32):
        mine, theirs = wanted[first : first + 32], has[first : first + 32]
        place = np.full(max(int(wanted.max()), int(has.max())) + 1, -1)
        lanes = np.arange(32)
        for column in range(theirs.shape[1]):
            held = theirs[:, column] >= 0
            place[theirs[held, column]] = lanes[held] * theirs.shape[1] + column
        place = np.where(place < 0, -1, place)
        asked = np.where(mine >= 0, place[mine], 0)
        if (asked < 0).any():
            raise Decline(f"{name} needs elements that other warps have")
        if sources is not None and not np.array_equal(sources, asked):
            raise Decline("warps would shuffle in different ways")
        sources = asked
    assert sources is not None
    lane, slot = np.divmod(sources, has.shape[1])
    return lane, slot


@shuffles.emit
def _(plan: Shuffles, call: TileCall, out: Builder) -> None:
    dst, src = call["dst"].buffer.flat(), call["src"].buffer.flat()
    run = out.local("run", len(plan.fetches), str(call.dtype)).flat()
    for number, fetch in enumerate(plan.fetches):
        lane = out.let("lane", fetch.lane)
        values: list[Expr] = []
        for source in fetch.sources:
            value = Load(src, (as_expr(plus(plan.bases[1], source)),))
            values.append(out.let("other", isa.call("cuda.shfl_sync", ALL_LANES, value, lane)))
        total = values[-1]
        for position in reversed(range(len(values) - 1)):
            total = select(binary("==", fetch.which, position), values[position], total)
        out.store(run, number, total)
    with out.when(plan.guard):
        for number, fetch in enumerate(plan.fetches):
            out.store(dst, plus(plan.bases[0], fetch.slot), Load(run, (as_expr(number),)))
