"""What grows while a run is recorded: the events of one warp, the phases of an m-barrier, a meeting at a barrier."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from tilewright.isa import phase_state
from tilewright.records import replace
from tilewright.sim.record.recording import (
    AsyncOperation,
    BarrierMeeting,
    Event,
    Met,
    Moved,
    Phase,
    Stream,
    Stretch,
    Waited,
    WarpAccess,
)

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from tilewright.isa import Lanes

Open = TypeVar("Open", Waited, Met)


class Growing:
    """A warp's events. moved: its accesses since the last event, by site. asking: the place in ``events`` of the wait
    that the warp is in, met: that of the barrier that it waits at. issued: operations that no group has closed yet, by
    group; row: the last statement that it came to.
    """

    def __init__(self, cta: int, warp: int) -> None:
        self.cta = cta
        self.warp = warp
        self.events: list[Event] = []
        self.moved: dict[int, list[WarpAccess]] = {}
        self.asking: int | None = None
        self.met: int | None = None
        self.arrived = -1  # the cluster's meeting at which it has arrived
        self.issued: dict[str, list[int]] = {}
        self.waited_for: set[tuple[int, bool]] = set()  # operations of groups; until they had been read?
        self.row = -1

    def stretch(self, seq: int, step: int, segment: int, executed: tuple[tuple[int, int], ...]) -> bool:
        """Adds what it has executed since the last event, to the last stretch where nothing lies between; is it new?"""
        moved = tuple(_summed(site, len(every), every[0].start, every) for site, every in self.moved.items())
        self.moved.clear()
        if not executed and not moved:
            return False
        last = self.events[-1] if self.events else None
        if isinstance(last, Stretch) and len(last.executed) + len(executed) <= MOST_ROWS:
            both = replace(last, last=step, segment=segment, executed=_added(last.executed, executed),
                           moved=_moved(last.moved, moved))  # fmt: skip
            self.events[-1] = both
            return False
        self.events.append(Stretch(seq, step, step, segment, executed, moved))
        return True

    def ended(self, place: int, seq: int, cause: int | None) -> None:
        """The wait at a place of ``events`` is over."""
        event = self.events[place]
        assert isinstance(event, Waited | Met)
        self.events[place] = replace(event, until=seq, cause=cause)

    def stream(self) -> Stream:
        """All of them."""
        return Stream(self.cta, self.warp, tuple(self.events))


SUMMED = ("lanes", "nbytes", "wavefronts", "ideal", "sectors", "pieces")
MOST_ROWS = 256  # of one stretch, so that adding to it stays quick


def _added(a: tuple[tuple[int, int], ...], b: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
    total = dict(a)
    for row, times in b:
        total[row] = total.get(row, 0) + times
    return tuple(total.items())


def _summed(site: int, times: int, start: int, parts: Iterable[WarpAccess | Moved]) -> Moved:
    return Moved(site, times, start=start, **{name: sum(getattr(part, name) for part in parts) for name in SUMMED})


def _moved(a: tuple[Moved, ...], b: tuple[Moved, ...]) -> tuple[Moved, ...]:
    total = {first.site: first for first in a}
    for more in b:
        before = total.get(more.site)
        if before is not None:
            total[more.site] = _summed(more.site, before.times + more.times, before.start, (before, more))
        else:
            total[more.site] = more
    return tuple(total.values())


@dataclass
class OpenPhase:
    """A phase that signals come to. begun: when it did; wanted: arrivals."""

    number: int
    begun: int = 0
    wanted: int = 0
    signals: list[int] = field(default_factory=list)
    arrivals: int = 0
    announced: int = 0
    nbytes: int = 0


class PhaseLog:
    """The phases of one m-barrier. word: its phase as the machine counts, modulo 4."""

    def __init__(self, cta: int, address: int, name: str) -> None:
        self.cta = cta
        self.address = address
        self.name = name
        self.life = -1
        self.ended: list[Phase] = []
        self.open = OpenPhase(0)
        self.word = 0
        self.last: int | None = None  # seq of the signal that ended the last phase

    def restart(self, seq: int, wanted: int) -> None:
        """It is initialised: phase 0 begins."""
        self.ended.extend(self._frozen(self.open, ends=False) if self.open.signals else ())
        self.life += 1
        self.open, self.word, self.last = OpenPhase(0, seq, wanted), 0, None

    def at(self, word: int) -> OpenPhase:
        """The phase that the machine's count names, which is the current one or a later one."""
        for _ in range((word - self.word) % 4):
            self.ended.extend(self._frozen(self.open, ends=True))
            self.last = self.open.signals[-1] if self.open.signals else None
            self.open = OpenPhase(self.open.number + 1, self.last or self.open.begun, self.open.wanted)
        self.word = word
        return self.open

    def counts(self, seq: int, before: Lanes, after: Lanes) -> tuple[int, int, int]:
        """Signals by one warp, of which each changed the word: the phase of the first, arrivals, bytes announced."""
        was, now = phase_state(before), phase_state(after)
        ended = was.phase != now.phase
        arrivals, announced = was.pending - np.where(ended, 0, now.pending), np.where(ended, 0, now.tx) - was.tx
        first = self.at(int(was.phase[0])).number
        for word, came, nbytes in zip(was.phase.tolist(), arrivals.tolist(), announced.tolist(), strict=True):
            phase = self.at(word)
            phase.signals += [seq] if phase.signals[-1:] != [seq] else []
            phase.arrivals += came
            phase.announced += nbytes
        self.open.wanted = int(now.expected[-1])
        return first, int(arrivals.sum()), int(announced.sum())

    def _frozen(self, phase: OpenPhase, *, ends: bool) -> Iterable[Phase]:
        yield Phase(self.cta, self.address, self.name, self.life, phase.number, tuple(phase.signals), phase.arrivals,
                    phase.announced, phase.nbytes, ends, phase.begun, phase.wanted)  # fmt: skip

    def phases(self, waited: Container[tuple[int, int, int]]) -> list[Phase]:
        """All of them; the last one also where nothing came, if it is waited for, or the only one.

        waited: CTA, address and number of phases.
        """
        last = self.open
        is_shown = last.signals or not self.ended or (self.cta, self.address, last.number) in waited
        is_over = bool(last.signals) and last.arrivals >= last.wanted and last.nbytes == last.announced
        return [*self.ended, *(self._frozen(last, ends=is_over) if is_shown else ())]


@dataclass
class OpenMeeting:
    """Warps that come to a barrier. number: of the meeting."""

    number: int
    scope: str
    cta: int
    barrier: int
    arrivals: list[int] = field(default_factory=list)
    ended: bool = False

    def meeting(self) -> BarrierMeeting:
        """It as plain data."""
        return BarrierMeeting(self.scope, self.cta, self.barrier, tuple(self.arrivals), self.ended)


@dataclass
class OpenOperation:
    """An operation that may be under way. issuers: their numbers in the machine's operation. spans: first and last byte
    of shared memory that each of its accesses touches.
    """

    number: int
    issuers: frozenset[int]
    data: AsyncOperation
    spans: tuple[tuple[int, int], ...] = ()
