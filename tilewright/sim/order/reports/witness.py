"""The missing step of a handover that a run has shown, for compiled code, which has lines and no statements.

Between two accesses that race lie a strong write that the later thread's CTA has read, or an m-barrier's arrival and
wait. What that write has published, and who made it, tells which step is missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tilewright.explain import advised
from tilewright.sim.order.knowledge.releases import holds
from tilewright.sim.order.races.records import Record
from tilewright.terms import Told, barrier, fence, told

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tilewright.sim.machine.wave import Wave
    from tilewright.sim.order.knowledge.actors import Thread
    from tilewright.sim.order.knowledge.locations import Locations, Where
    from tilewright.sim.order.races.clash import Clash
    from tilewright.sim.order.races.places import TaggedPlaces
    from tilewright.sim.order.wave import WaveOrder

__all__ = ["Witness"]


@dataclass(frozen=True, eq=False, slots=True)
class _Flag:
    """A strong access of a thread, counted in its CTA, to a location."""

    line: int
    time: int
    thread: int
    where: Where


@dataclass(frozen=True, slots=True)
class Witness:
    """What the race check remembers of a run."""

    orders: Mapping[Wave, WaveOrder]
    buffers: Mapping[int, TaggedPlaces]
    locations: Locations

    def missing_step(self, clash: Clash, scope: str) -> Told | None:
        """The step with which the threads of a race would have handed over; None where the run shows no handover."""
        other, then, wave = clash.other, clash.site.at, clash.batch.wave
        inside = wave.first <= clash.earlier[0] < wave.first + wave.ctas  # other waves have times of their own
        if other is None or other.site.at is None or then is None or not inside:
            return None
        first, last = other.site.at.outermost.line, then.outermost.line
        if found := _by_signal(clash, other, first, last):
            return found
        for tells, heard in self._handovers(clash, other):
            if not self._has_published(clash, tells, clash.earlier[1], other.time):
                if self._has_published(clash, tells, tells.thread, other.time):
                    return _meeting(_warps(other, clash.earlier), tells.thread, first, tells.line)
                return _fenced(scope, "before", tells.line)
            if _knows(clash, heard.thread, other.time):
                access = clash.access
                now = Record(access.time, access.site, access.batch, access.mask, access.at)
                return _meeting(_warps(now, clash.later), heard.thread, heard.line, last)
            return _fenced(scope, "after", heard.line)
        return None

    def _has_published(self, clash: Clash, told: _Flag, thread: int, time: int) -> bool:
        """Has a write published to the later thread what a thread of its own CTA did up to a time?"""
        clocks, run = clash.access.clocks, clash.batch.wave.run
        who = np.array([clash.earlier[0]]), np.array([thread]), np.array([time])
        published = self.locations.published(told.where)
        return any(
            clocks.are_in(one.known, *who) and holds(one.scope, one.cta, clash.later[0], run) for one in published
        )

    def _handovers(self, clash: Clash, other: Record) -> Iterator[tuple[_Flag, _Flag]]:
        """The strong writes of one CTA behind its access that the other CTA has read, the last ones first."""
        tells = [one for one in self._flags(clash, clash.earlier[0], writes=True) if one.time > other.time]
        for heard in self._flags(clash, clash.later[0], writes=False):
            for tell in tells:
                teller, hearer = (clash.earlier[0], tell.thread), (clash.later[0], heard.thread)
                is_before = (tell.time, teller) < (heard.time, hearer)  # an atomic of several CTAs takes them in turn
                if tell.where == heard.where and is_before and teller != hearer:
                    yield tell, heard

    def _flags(self, clash: Clash, cta: int, *, writes: bool) -> Iterator[_Flag]:
        """Strong accesses of the threads of a CTA, the newest first."""
        found = []
        for places in (self.orders[clash.batch.wave].shared, *self.buffers.values()):
            for record in places.log.newest_first():
                site = record.site
                if site.sem == "weak" or site.is_signal or not (site.write if writes else site.shows) or not site.at:
                    continue
                memory = places.name if places.is_global else (places.name, cta)
                for one, thread, address in zip(*map(np.ndarray.tolist, record.threads()), strict=True):
                    if one == cta:
                        found.append(_Flag(site.at.outermost.line, record.time, thread, (memory, address)))
        yield from sorted(found, key=lambda flag: -flag.time)


def _knows(clash: Clash, thread: int, time: int) -> bool:
    """Does a thread of the later CTA know what the earlier one did?"""
    clocks = clash.access.clocks
    row = np.array([clash.later[0] - clash.batch.wave.first])
    of = (np.array([each]) for each in (*clash.earlier, time))
    return bool(clocks.knows(row, clocks.knower[[thread]], *of)[0])


def _fenced(scope: str, where: str, line: int) -> Told:
    text = told("{}", fence(scope, where, line))
    return advised(text, "fence", scope, (line,) if where == "before" else (line, line + 1), fence(scope))


def _warps(record: Record, who: Thread) -> set[int]:
    """The warps of a thread's CTA that make an access with it."""
    ctas, threads, _ = record.threads()
    return {*(threads[ctas == who[0]] // 32).tolist(), who[1] // 32}


def _meeting(warps: set[int], other: int, *lines: int) -> Told:
    """The barrier of warps with a thread of their CTA, between two lines."""
    return _barrier("warp" if warps == {other // 32} else "cta", *sorted(lines))


def _barrier(scope: str, first: int, then: int) -> Told:
    text = told("{} between line {} and line {}", barrier(scope), first, then)
    return advised(text, "barrier", scope, (first, then), barrier(scope))


def _by_signal(clash: Clash, other: Record, first: int, last: int) -> Told | None:
    """The warp's barrier, where one lane arrives at an m-barrier, or waits there, for others of its warp."""
    history, rows = clash.access.clocks.signal_history, clash.batch.wave.first
    waits = list(history.of(clash.later[0] - rows, clash.later[1] // 32, waits=True))
    for arrival in history.of(clash.earlier[0] - rows, clash.earlier[1] // 32, waits=False):
        if arrival.time < other.time:
            continue
        for wait in waits:
            if (wait.where, wait.phase) != (arrival.where, arrival.phase + 1 & 3):
                continue
            if not arrival.lanes[clash.earlier[1] % 32]:
                return _barrier("warp", first, arrival.line)
            if not wait.lanes[clash.later[1] % 32]:
                return _barrier("warp", wait.line, last)
    return None
