"""Records of accesses: one for each statement that touches memory, by the time at which it did."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tilewright.sim.machine.address import Address
from tilewright.sim.machine.batch import numbers
from tilewright.sim.machine.masks import spread
from tilewright.sim.order.bounds import RECORD_BYTES, RECORDS
from tilewright.sim.order.knowledge.actors import THREADS, numbered
from tilewright.sim.order.knowledge.fence_points import Stamps

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tilewright.sim.machine.arrays import Bools, Ints
    from tilewright.sim.machine.batch import Batch
    from tilewright.sim.machine.masks import Mask
    from tilewright.sim.machine.precedence import Precedence
    from tilewright.sim.machine.sites import Site

__all__ = ["Candidates", "Log", "Record"]


class Record:
    """What is kept of an access, or of some that follow each other: its place and its threads, and no larger object."""

    __slots__ = ("_span", "ctas", "every", "first", "mask", "site", "time", "warps", "whole")

    def __init__(self, time: int, site: Site, batch: Batch, mask: Mask, *every: Address) -> None:
        self.time = time
        self.site = site
        self.ctas, self.warps = batch.ctas, batch.warps
        self.whole = batch.wave.ctas
        self.first = batch.wave.first
        self.mask = mask
        self.every = [Address(at.start, *at.parts) for at in every]
        self._span: tuple[int, int] | None = None

    @property
    def nbytes(self) -> int:
        """What its addresses and its mask take, those of other records among them."""
        mask = self.mask.array
        parts = sum(part.values.nbytes for at in self.every for part in at.parts)
        return parts + (0 if mask is None else mask.nbytes)

    @property
    def span(self) -> tuple[int, int]:
        """The first byte, and the one after the last."""
        if self._span is None:
            self._span = min(at.lo for at in self.every), max(at.hi for at in self.every) + self.site.width
        return self._span

    @property
    def is_plain(self) -> bool:
        """Is it neither strong nor of a unit?"""
        return self.site.sem == "weak" and not self.site.by_unit

    def is_of(self, ctas: Ints) -> Bools:
        """Which CTAs of the grid are in the wave that did this?"""
        return (ctas >= self.first) & (ctas < self.first + self.whole)

    def threads(self) -> tuple[Ints, Ints, Ints]:
        """CTA of the grid, thread and address of each that took part; of several accesses the last first."""
        own = np.array(numbers(self.ctas)), np.array(numbers(self.warps))
        shape = (len(own[0]), len(own[1]), 32)
        where = np.nonzero(spread(self.mask.full, shape))
        address = np.concatenate([spread(at.full(), shape)[where] for at in reversed(self.every)])
        rows, warps, lanes = (np.tile(each, len(self.every)) for each in where)
        return own[0][rows] + self.first, own[1][warps] * 32 + lanes, address

    def places(self, grain: int) -> tuple[Ints, Ints]:
        """The places that it touched, of so many bytes, and by which thread of the grid: see `numbered`."""
        ctas, threads, address = self.threads()
        count = max(self.site.width // grain, 1)
        found = (address // grain)[:, None] + np.arange(count)
        return found.reshape(-1), np.repeat(numbered(ctas, threads), count)

    def touched(self, cta: int, thread: int, address: int, width: int) -> bool:
        """Did this thread touch these bytes here?"""
        ctas, threads, there = self.threads()
        hit: Bools = (ctas == cta) & (threads == thread) & (there < address + width)
        return bool((hit & (there + self.site.width > address)).any())

    def of_thread(self, cta: int, thread: int) -> bool:
        """Did this thread take part?"""
        return bool(self.holds(np.array([cta]), np.array([thread]))[0])

    def holds(self, ctas: Ints, threads: Ints) -> Bools:
        """Which threads, of CTAs of the grid, took part?"""
        own = np.zeros((self.whole, max(numbers(self.warps)) + 1, 32), np.bool_)
        own[self.ctas, self.warps] = self.mask.full
        inside = self.is_of(ctas) & (threads >> 5 < own.shape[1])
        found: Bools = (
            inside & own[np.where(inside, ctas - self.first, 0), np.where(inside, threads >> 5, 0), threads & 31]
        )
        return found

    def comes_first(self, one: tuple[int, int], other: tuple[int, int], precedence: Precedence) -> bool:
        """Does an atomic of one (CTA of the grid, thread) take place before that of the other?"""
        ctas, threads, _ = self.threads()
        order = precedence.taken(np.arange(len(ctas)))
        places = [np.flatnonzero((ctas[order] == cta) & (threads[order] == thread)) for cta, thread in (one, other)]
        return all(map(len, places)) and bool(places[0][0] < places[1][0])


@dataclass(frozen=True, eq=False, slots=True)
class Candidates:
    """Earlier accesses that may race, n of them. cta, warp, lane, unit: where in the access that finds them."""

    cta: Ints
    warp: Ints
    lane: Ints
    unit: Ints
    tags: Ints

    def __len__(self) -> int:
        return len(self.tags)

    def joined(self, other: Candidates) -> Candidates:
        """Both together."""
        return Candidates(*(np.concatenate([getattr(of, name) for of in (self, other)]) for name in self.__slots__))


class Log:
    """The records of one memory, the newest of them. Those of several waves may have one time.

    writes: the newest of the writes of each kind, by what decides whether two are morally strong.
    """

    def __init__(self) -> None:
        self.writes: dict[object, Record] = {}
        self._newest: dict[bool, dict[object, Record]] = {False: {}, True: {}}
        self._records: deque[Record] = deque()
        self._by_time: dict[int, list[Record]] = {}
        self._nbytes = 0

    def add(self, record: Record, *, reads: bool) -> None:
        """One more; the oldest are forgotten."""
        self._records.append(record)
        self._nbytes += record.nbytes
        kind, newest = (record.site.sem, record.site.scope, record.site.element), self._newest[not reads]
        if record.site.write:
            self.writes[kind] = record
        if kind not in newest or newest[kind].time <= record.time:
            newest[kind] = record
        self._by_time.setdefault(record.time, []).append(record)
        while len(self._records) > RECORDS or (self._nbytes > RECORD_BYTES and len(self._records) > 1):
            oldest = self._records.popleft()
            self._nbytes -= oldest.nbytes
            of_that_time = self._by_time[oldest.time]
            of_that_time.remove(oldest)
            if not of_that_time:
                del self._by_time[oldest.time]

    def newest(self, *, write: bool) -> Iterable[Record]:
        """Of the writes of each kind, or of the reads, that with the latest time of any wave."""
        return self._newest[write].values()

    def at(self, time: int) -> list[Record]:
        """Those of all waves at a time that are remembered."""
        return self._by_time.get(time, [])

    def find(self, cta: int, time: int) -> Record | None:
        """Of a CTA of the grid at a time, if it is remembered."""
        return next((each for each in self.at(time) if each.first <= cta < each.first + each.whole), None)

    def line_at(self, cta: int, time: int) -> tuple[int, int]:
        """The line of the record of a CTA of the grid at a time, 0 where it is forgotten; and the time."""
        record = self.find(cta, time)
        return (record.site.at.line if record is not None and record.site.at else 0), time

    def touched(
        self, units: Ints, grain: int, *, write: bool, home: int | None = None, combines: bool = False
    ) -> Stamps:
        """All stores of threads, or loads, that touched some places, as far as they are remembered; with those of units
        of other CTAs than ``home``, but, ``combines``, for units that combine.
        """
        found = Stamps.none()
        for record in self._records if len(units) else ():
            if record.site.by_unit and (home is None or (combines and record.site.sem != "weak")):
                continue
            if record.site.write == write:
                places, who = record.places(grain)
                who = np.unique(who[np.isin(places, units)])
                who = who[who // THREADS != home] if record.site.by_unit else who
                found = found.joined(Stamps(np.full(len(who), record.time), *np.divmod(who, THREADS)))
        return found

    def newest_first(self) -> list[Record]:
        """All of them."""
        return list(reversed(self._records))
