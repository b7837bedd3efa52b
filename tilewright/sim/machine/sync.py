"""Barriers of a wave's CTAs, and the state of batches that wait there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from tilewright.explain import advised, between, move
from tilewright.explain.rules import broken
from tilewright.isa import Sync
from tilewright.sim.machine.event import MeetingEvent
from tilewright.sim.machine.team import numbers, where_text
from tilewright.terms import Told, call, operation, told

if TYPE_CHECKING:
    from tilewright.errors import Span
    from tilewright.sim.machine import Address, Batch, Bools, Ints, Value, Wave

__all__ = ["BarrierSite", "Crossing", "Polling"]

NAMED = 16  # barriers of a CTA; one more stands for the cluster's
# Arrivals at a cluster's barrier are kept under NAMED or NAMED + 1, by turns: threads may still wait for one meeting
# while others arrive at the next.
WARP = 32


@dataclass(frozen=True, eq=False)
class BarrierSite:
    """A statement where lanes wait. sync: None for a collective that only needs the lanes of its warp together."""

    name: str
    at: Span | None
    sync: Sync | None
    axes: dict[str, int] = field(default_factory=dict)  # of the operands that travel with a waiting batch
    warps: int = 1  # warps that go on together: 4 of a warpgroup
    by_mask: bool = False  # does the first operand name the lanes that meet?
    number: int | None = None  # where a barrier may be skipped: see `Skipping`
    branches: dict[int, Span | None] = field(default_factory=dict)  # those around it, and their lines

    @property
    def is_barrier(self) -> bool:
        """Do warps meet here, not only the lanes of one?"""
        return self.sync is not None and self.sync.scope != "warp"


def _turn(place: BarrierSite, *, arrives: bool) -> Told:
    """What is missing before an arrival at the cluster's barrier, or before a wait there."""
    code = call(f"ptx.barrier.cluster.{'wait' if arrives else 'arrive'}")
    lines = (place.at.line,) if place.at else ()
    where = f" before line {lines[0]}" if lines else " before it"
    ways = [way for line in lines for way in (between(code, line), (move(line),))]
    return advised(told("{}{}", code, where), "barrier", "cluster", lines, code, ways)


@dataclass(eq=False)
class Crossing:
    """A batch at a meeting place. barrier, generation: per (CTA, warp) of the batch, once it has arrived."""

    place: BarrierSite
    barrier: Ints | None = None
    generation: Ints | None = None

    def narrowed(self, ctas: slice, warps: slice) -> Crossing:
        """The part that belongs to some CTAs and warps of the batch."""
        barrier, generation = (kept if kept is None else kept[ctas, warps] for kept in (self.barrier, self.generation))
        return replace(self, barrier=barrier, generation=generation)


@dataclass(eq=False)
class Polling:
    """A batch at a place where each lane polls until the answer is yes.

    passed: those that have it now. to: the segment that they go on with. mbarrier: shared addresses of the m-barriers
    that they wait for; None for lanes that wait for tensor memory. tally: where the call is counted once it is over;
    None where that is done elsewhere.
    """

    place: BarrierSite
    passed: Bools
    to: int
    mbarrier: Address | None
    tally: int | None

    def narrowed(self, ctas: slice, warps: slice) -> Polling:
        """The part that belongs to some CTAs and warps of the batch."""
        return replace(self, passed=self.passed[ctas, warps])


@dataclass(eq=False, slots=True)
class MetWithout:
    """Threads met at a barrier, in words, without others that had ended: who, in words; threads: all such of a CTA."""

    barrier: str
    who: str
    threads: Bools

    @property
    def text(self) -> str:
        """What is said of it."""
        return told("{} was met without {}, which had ended", self.barrier, self.who)


class Barriers:
    """The state of the barriers of a wave: one row per CTA (per cluster: its first CTA's)."""

    def __init__(self, wave: Wave) -> None:
        self.wave = wave
        size = (wave.ctas, NAMED + 1)
        self.arrived = np.zeros(size, np.int64)
        self.expected = np.zeros(size, np.int64)
        self.generation = np.zeros(size, np.int64)
        self.waiting = np.zeros((*size, wave.run.warps), np.bool_)  # of the row's own CTA
        self.between = np.zeros((wave.ctas, wave.run.warps), np.bool_)  # has arrived at the cluster's, and not waited
        self.arrived_in = np.zeros((wave.ctas, wave.run.warps), np.int64)  # generation of the cluster's barrier

    def arrive(self, batch: Batch, place: BarrierSite, number: Value, count: Value) -> Crossing | None:
        """Let a batch of whole warps arrive. None where it may go on at once."""
        sync = place.sync
        assert sync is not None
        self._note_ended(batch, place)
        ids, counts = self._ids(batch, place, number, count)
        if sync.scope == "cluster":
            self._take_turns(batch, place, arrives=not sync.wait_only, waits=not sync.arrive_only)
        if sync.wait_only:
            return self._arrived_before(batch, place)
        if self._all_at_once(batch, sync, ids, counts):
            return None
        warps = batch.team.full.any(-1)
        barrier = np.where(warps, np.broadcast_to(ids, warps.shape), 0).astype(np.int64)
        wanted = {number_of: np.unique(np.broadcast_to(counts, warps.shape)[warps & (barrier == number_of)])
                  for number_of in map(int, np.unique(barrier[warps]))}  # fmt: skip
        for number_of, threads in wanted.items():
            self._check(place, number_of, threads)
        rows = self._rows(batch, sync)
        generation = self.generation[rows[:, None], barrier]
        for number_of, threads in wanted.items():
            here = warps & (barrier == number_of)
            if sync.scope == "cluster":
                before = self.arrived_in[batch.ctas, batch.warps]
                self.arrived_in[batch.ctas, batch.warps] = np.where(here, generation, before)
            self._count(batch, place, rows, number_of, here, int(threads[0]))
        return None if sync.arrive_only else Crossing(place, barrier, generation)

    def _note_ended(self, batch: Batch, place: BarrierSite) -> None:
        """Warps meet without lanes that have ended: no mistake by itself, but what those should have done is missed."""
        if batch.team.array is None:
            return
        active = batch.team.full
        gone = active.any(-1, keepdims=True) & ~active & self.wave.run.exists[:, batch.warps]
        if gone.any():
            ended = np.zeros((self.wave.ctas, self.wave.run.warps, 32), np.bool_)
            ended[batch.ctas, batch.warps] = gone
            self._met_without(place, where_text(batch.team, gone), ended)

    def _met_without(self, place: BarrierSite, who: str, ended: Bools) -> None:
        threads, line = ended.any(0).reshape(-1), f" in line {place.at.line}" if place.at else ""
        meeting = MetWithout(told("{}{}", operation(place.name), line), who, threads)
        self.wave.run.met_without.setdefault(place.at, meeting).threads |= threads

    def _take_turns(self, batch: Batch, place: BarrierSite, *, arrives: bool, waits: bool) -> None:
        """At the cluster's barrier each warp arrives once, then waits once."""
        here = batch.team.full.any(-1)
        wrong = here & (self.between[batch.ctas, batch.warps] == arrives)
        if wrong.any():
            cta, warp = map(int, np.argwhere(wrong)[0])
            what = "arrives again before it has waited" if arrives else "waits and has not arrived"
            who = self.wave.warp_at(numbers(batch.ctas)[cta], numbers(batch.warps)[warp])
            hint = _turn(place, arrives=arrives)
            raise broken("by turns", operation(place.name), what, at=place.at, who=who, hint=hint)
        window = self.between[batch.ctas, batch.warps]
        window[here] = not waits

    def _arrived_before(self, batch: Batch, place: BarrierSite) -> Crossing:
        """Waiting for the meeting at which these warps have arrived already."""
        assert place.sync is not None
        ctas, rows, warps = np.array(numbers(batch.ctas)), self._rows(batch, place.sync), batch.team.full.any(-1)
        generation = self.arrived_in[batch.ctas, batch.warps]
        complete = self.generation[rows, NAMED][:, None] != generation
        self.waiting[ctas, NAMED, batch.warps] |= warps & ~complete
        for turn in range(2):
            late = np.zeros((len(ctas), self.wave.run.warps), np.bool_)
            late[:, batch.warps] = warps & complete & (generation % 2 == turn)
            self.wave.run.events.acquired(MeetingEvent(self.wave, place, ctas, late, NAMED + turn, rows))
        return Crossing(place, np.full(batch.shape[:2], NAMED), generation)

    def _ids(self, batch: Batch, place: BarrierSite, number: Value, count: Value) -> tuple[Value, Value]:
        """The barrier's number and how many threads meet there, ints or (CTAs or 1, warps or 1)."""
        sync = place.sync
        assert sync is not None
        threads = self.wave.run.warps * WARP
        if sync.scope == "cluster":
            return NAMED, threads * self.wave.run.cluster_ctas
        if sync.scope == "cta":
            return 0, threads
        ids = _of_warps(batch, place, "a barrier", number)
        if sync.scope == "warpgroup":
            return ids, 4 * WARP
        return ids, _of_warps(batch, place, "a number of threads", count)

    def _all_at_once(self, batch: Batch, sync: Sync, ids: Value, counts: Value) -> bool:
        """Are these all the threads that meet there, so that nothing need be kept?"""
        if not isinstance(ids, int) or not isinstance(counts, int) or sync.scope == "cluster":
            return False
        whole = batch.team.warp_count == batch.shape[0] * self.wave.run.warps and counts == self.wave.run.warps * WARP
        if not whole or not 0 <= ids < NAMED or self.arrived[batch.ctas, ids].any():
            return False
        self.wave.run.events.all_met(self.wave, batch.ctas)
        return True

    def _rows(self, batch: Batch, sync: Sync) -> Ints:
        """For each CTA of a batch the row that keeps the barrier: its own, or that of its cluster's first CTA."""
        rows = np.array(numbers(batch.ctas))
        if sync.scope == "cluster":
            rows = rows - self.wave.rank(rows)
        return rows

    def _check(self, place: BarrierSite, number: int, wanted: Ints) -> None:
        if not 0 <= number <= NAMED or (number == NAMED and place.sync and place.sync.scope != "cluster"):
            raise broken("no barrier", operation(place.name), number, at=place.at, given=str(number))
        if len(wanted) != 1 or wanted[0] % WARP or wanted[0] <= 0:
            shown = ", ".join(map(str, wanted)) + " threads"
            raise broken("whole warps", operation(place.name), number, at=place.at, given=shown)

    def _count(self, batch: Batch, place: BarrierSite, rows: Ints, number: int, here: Bools, wanted: int) -> None:
        arriving = here.sum(1) * WARP
        pending = self.arrived[rows, number] > 0
        if (pending & (arriving > 0) & (self.expected[rows, number] != wanted)).any():
            counts = {"wanted": wanted, "elsewhere": int(self.expected[rows, number][pending][0])}
            shown = f"{wanted} threads here, {counts['elsewhere']} where others wait"
            error = broken("two counts", operation(place.name), number, at=place.at, given=shown, numbers=counts)
            self.wave.run.tell(error, "barrier", number)
        np.add.at(self.arrived[:, number], rows, arriving)
        self.expected[np.unique(rows[arriving > 0]), number] = wanted
        ctas = np.array(numbers(batch.ctas))
        assert place.sync is not None
        for barrier, those in self._meetings(number, rows):
            come = np.zeros((len(ctas), self.wave.run.warps), np.bool_)
            come[:, batch.warps] = here & those[:, None]
            self.wave.run.events.released(MeetingEvent(self.wave, place, ctas, come, barrier, rows))
        if not place.sync.arrive_only:
            self.waiting[ctas, number, batch.warps] |= here
        touched = np.unique(rows[arriving > 0])
        if (self.arrived[touched, number] > wanted).any():
            shown, most = f"{int(self.arrived[touched, number].max())} threads arrived", (str(wanted),)
            raise broken("too many", operation(place.name), number, at=place.at, given=shown, instead=most)
        self._complete(touched[self.arrived[touched, number] == wanted], number, place)

    def _complete(self, rows: Ints, number: int, place: BarrierSite) -> None:
        if not len(rows):
            return
        size = self.wave.run.cluster_ctas if number == NAMED else 1
        for barrier, those in self._meetings(number, rows):
            first = np.repeat(rows[those], size)
            members = first + np.tile(np.arange(size), int(those.sum()))
            # Warps that arrive at the cluster's barrier have waited for the meeting before, so that one is over for
            # all.
            over = barrier if number < NAMED else 2 * NAMED + 1 - barrier
            here = self.waiting[members, number]
            self.wave.run.events.acquired(MeetingEvent(self.wave, place, members, here, barrier, first))
            self.wave.run.events.forgotten(self.wave, rows[those], over)
            self.waiting[members, number] = False
        self.generation[rows, number] += 1
        self.arrived[rows, number] = 0

    def held_up(self, batch: Batch, ended: Bools) -> Ints:
        """The rows of the meetings that a batch waits for which have no count, and to which only warps that have ended,
        (CTAs, warps), have not come.
        """
        sync = batch.place.sync
        assert sync is not None
        rows = np.unique(self._rows(batch, sync))
        if sync.scope not in ("cta", "cluster"):
            return rows[:0]
        number = NAMED if sync.scope == "cluster" else 0
        size = self.wave.run.cluster_ctas if sync.scope == "cluster" else 1
        missing = self.expected[:, number] - self.arrived[:, number]
        gone = WARP * ended.sum(1).reshape(-1, size).sum(1).repeat(size)
        complete: Ints = rows[(self.arrived[rows, number] > 0) & (gone[rows] >= missing[rows])]
        return complete

    def release_without(self, batch: Batch, rows: Ints, ended: Bools) -> None:
        """Completes the meetings of these rows that a batch waits for, without the warps that have not come: ``ended``,
        (CTAs, warps).
        """
        sync = batch.place.sync
        assert sync is not None
        self._complete(rows, NAMED if sync.scope == "cluster" else 0, batch.place)
        cta, warp = map(int, np.argwhere(ended)[0])
        self._met_without(batch.place, self.wave.warp_name(cta, warp), ended[..., None] & self.wave.run.exists)

    def _meetings(self, number: int, rows: Ints) -> Iterator[tuple[int, Bools]]:
        """The number under which the current meeting at a barrier is kept, and for which of the rows."""
        if number < NAMED:
            yield number, np.ones(len(rows), np.bool_)
            return
        turn = self.generation[rows, number] % 2
        for parity in np.unique(turn):
            yield NAMED + int(parity), turn == parity

    def ready(self, batch: Batch) -> Bools:
        """(CTAs, warps): those of a waiting batch that may go on."""
        crossing = batch.meeting
        assert isinstance(crossing, Crossing)
        assert crossing.barrier is not None
        assert crossing.place.sync is not None
        rows = self._rows(batch, crossing.place.sync)
        passed: Bools = self.generation[rows[:, None], crossing.barrier] != crossing.generation
        return passed


def _of_warps(batch: Batch, place: BarrierSite, what: str, values: Value) -> Value:
    """What the lanes of each warp name together, an int or (CTAs or 1, warps or 1)."""
    if isinstance(values, int) or not values.ndim:
        return int(values)
    if values.shape[-1] == 1:
        return values[..., 0]
    full = batch.team.full
    named = np.broadcast_to(values, full.shape)
    first = np.take_along_axis(named, full.argmax(-1, keepdims=True), -1)
    apart = full & (named != first)
    if apart.any():
        at = tuple(np.argwhere(apart)[0])
        shown = f"{first[at[:2]][0]} and {named[at]} in warp {numbers(batch.warps)[at[1]]}"
        raise broken("lanes apart", operation(place.name), at=place.at, given=shown, instead=(what,))
    return first[..., 0]
