"""Records of accesses: one for each statement that touches memory, by the time at which it did; pairs of accesses that
may race, and the race that is reported of them.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tilewright.sim.machine import (
    WIDEST,
    AccessEvent,
    Address,
    Bools,
    MemoryRows,
    Part,
    Site,
    Team,
    are_apart,
    harmless,
    numbers,
    spread,
)
from tilewright.sim.order.knowledge.clocks import THREADS, Clocks, numbered
from tilewright.sim.order.knowledge.fences import Stamps
from tilewright.sim.order.knowledge.known import Times

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import TypeAlias

    from tilewright.sim.machine import Device, Ints, Precedence, Shape
    from tilewright.sim.order.knowledge.clocks import Thread
    from tilewright.sim.order.races.places import Lone, TaggedPlaces

    Tags: TypeAlias = "NDArray[np.unsignedinteger]"

RECORDS = 4096  # kept: of accesses to one memory
RECORD_BYTES = 1 << 24  # kept: of their addresses


# One access, as the tags of its places will tell of it, and how those are read and written.


THREAD, MANY, CTA = (1 << 10) - 1, 1 << 10, 11  # bits of the thread; the bit of "several threads"; bits below the CTA
CTA_BITS = 22
UNIT = 1 << CTA + CTA_BITS  # the bit of "by an asynchronous unit, for that thread", where memory is global

EQUAL, ROUNDED = "with equal values", "with values that differ by rounding alone"
NEAR = 2.0**-10  # of the smaller: how far apart sums of the same numbers are at most


@dataclass(eq=False, slots=True)  # not frozen: one is made per access of a run, and freezing takes time
class AccessRecord:
    """team: its threads, seen: as the tags have them. at: the bytes. also: blocks of the clocks' columns that count as
    known, beside the first. event: until its write is left for later, as what it writes is large. more: further bytes,
    of accesses that follow and share a record with it. lone: its thread, where memory is global, and it is one.
    is_strong: answers of `is_strong_with_all`.
    """

    places: TaggedPlaces
    clocks: Clocks
    event: AccessEvent | None
    site: Site
    time: int
    team: Team
    seen: Team
    at: Address
    also: tuple[int, ...] = ()
    more: tuple[Address, ...] = ()
    lone: Lone | None = None
    _tags: Tags | None = None
    is_strong: dict[bool, bool] = field(default_factory=dict, init=False)
    _where: tuple[tuple[int, int], Address] | None = field(default=None, init=False)

    def each(self) -> Iterator[AccessRecord]:
        """The access of each of the addresses."""
        return (replace(self, at=at, more=()) for at in (self.at, *self.more)) if self.more else iter((self,))

    @property
    def record(self) -> Record:
        """What is kept of it."""
        return Record(self.time, self.site, self.team, self.at, *self.more)

    @property
    def span(self) -> tuple[int, int]:
        """The first byte, and the one after the last."""
        low, high = self.at.lo, self.at.hi
        for at in self.more:
            low, high = min(low, at.lo), max(high, at.hi)
        return low, high + self.site.width

    def tags(self) -> Tags:
        """The tag of each lane, (CTAs or 1, warps, 32)."""
        if self._tags is None or self._tags.dtype != self.places.tag:
            self._tags = self._new_tags()
        return self._tags

    def _new_tags(self) -> Tags:
        threads = np.array(numbers(self.seen.warps)).reshape(1, -1, 1) * 32 + np.arange(32)
        own = threads | self.time << self.places.shift
        if self.site.how.collective:
            own = own | MANY
        if self.places.is_global:
            own = own | (self.team.look.rows(1) + self.team.wave.first) << CTA | (UNIT if self.site.how.by_unit else 0)
        return own.astype(self.places.tag)

    def known(self) -> Times:
        """(CTAs or 1, warps, warps): up to when each warp knows each other of its CTA."""
        return self.clocks.known_warps(self.seen.look)

    def all_known(self) -> int:
        """The time until which its threads know everyone."""
        return 0 if self.places.is_global else int(bound_of(self.known()).min())

    def knows(self, pairs: Pairs) -> Bools:
        """Which earlier accesses come before?"""
        later, earlier = (pairs.row, pairs.knower), (pairs.other_cta, pairs.other_thread, pairs.time)
        return self.clocks.knows(*later, *earlier, also=self.also)

    def knows_record(self, record: Record, pairs: Pairs) -> Bools:
        """Which earlier accesses, all of one record, come before? What a warp did together, all of its lanes did."""
        row, knower, cta, lanes = (x[:, None] for x in (pairs.row, pairs.knower, pairs.other_cta, pairs.other_thread))
        if record.site.how.collective:
            lanes = lanes & ~31 | np.arange(32)
        known = self.clocks.knows(row, knower, cta, lanes, np.full((len(pairs), 1), record.time), also=self.also)
        return np.asarray(known.all(-1))

    def load(self, block: MemoryRows) -> Tags:
        """The tags in a block, (CTAs or 1, warps or 1, 32 or 1, tags of an access)."""
        found = np.ascontiguousarray(block.load(self.seen.look, self.where, self.width))
        return found[..., None].view(self.places.tag)

    def store(self, block: MemoryRows, tags: Tags, some: Team | None = None) -> None:
        """Store the tag of each lane at all places that it touches, or, (CTAs, warps, 32, tags), one at each."""
        if self.grains > 1 or tags.ndim > 3:
            each = tags if tags.ndim > 3 else tags[..., None]
            wide = np.ascontiguousarray(spread(each, (*each.shape[:3], self.grains)))
            tags = wide.view(block.view(self.width).dtype)[..., 0]
        where = self.where if some is None else harmless(self.where, some)
        block.store(some or self.seen, where, self.width, tags)

    @property
    def grains(self) -> int:
        """Places that each lane touches."""
        return self.site.width // self.places.grain

    @property
    def where(self) -> Address:
        """The tags of each lane."""
        unit = self.places.grain, self.places.tag.itemsize
        if self._where is None or self._where[0] != unit:
            self._where = unit, _scaled(self.at, *unit)
        return self._where[1]

    @property
    def width(self) -> int:
        """Bytes of these tags."""
        return self.grains * self.places.tag.itemsize

    def is_aligned(self) -> bool:
        """Is each lane's address a multiple of the width?"""
        return not self.at.bits & (self.site.width - 1)

    def is_apart(self, others: list[AccessRecord]) -> bool:
        """Is it certain that it touches no byte that one of the others touches?"""
        width, every = self.site.width, [self.at]
        for other in others:
            if other.site.width != width:
                return False
            every += other.at, *other.more
        return are_apart(width, *every)

    @property
    def is_alone(self) -> bool:
        """Is it a plain access of one lane, which may know more than its warp?"""
        return self.seen.lane_count == 1 and bool(self.clocks.alone) and self.site.how.sem == "weak"

    def is_one_to_one(self) -> bool:
        """Is it certain that no two lanes touch one place?"""
        shift = self.site.width.bit_length() - 1
        pitch = -(-max(self.places.nbytes, 1) // WIDEST) * WIDEST >> shift if self.places.rows > 1 else 0
        for at in (self.at, *self.more):
            if at.bits & (self.site.width - 1) or not at.is_one_to_one(self.seen.look, shift, pitch):
                return False
        return not self.more or are_apart(self.site.width, self.at, *self.more)

    def lost(self, block: MemoryRows, tags: Tags) -> Bools | None:
        """The lanes whose tags, just stored, another lane of the same statement has overwritten."""
        differs = self.load(block) != tags[..., None]
        if not np.count_nonzero(differs):
            return None
        lanes: Bools = differs.any(-1) & self.seen.full
        return lanes if np.count_nonzero(lanes) else None

    def address(self, lane: tuple[int, int, int]) -> int:
        """Where a lane's bytes begin."""
        return int(spread(self.at.full(), self.team.shape)[lane])

    def shown_address(self, lane: tuple[int, int, int]) -> int:
        """That address as a kernel counts, from the first byte of the CTA whose memory it is."""
        return self.address(lane) % self.places.pitch

    def wrote_alike(self) -> str:
        """Do lanes that write one place at once write equal values (`EQUAL`), nearly so (`ROUNDED`), or not ("")?"""
        if self.event is None or (pending := self.event.to_write(self.at, self.team.ctas)) is None:
            return ""
        row = 0 if self.places.is_global else self.team.look.rows(1 << 40)
        active = self.team.full
        place = spread(self.where.full() + row, self.team.shape)[active]
        given = spread(pending, self.team.shape)[active]
        bits = np.ascontiguousarray(given)[:, None].view(np.uint8)
        order = np.argsort(place, kind="stable")
        meets = np.diff(place[order]) == 0
        return _likeness(bits[order][1:][meets], bits[order][:-1][meets])

    def finds_equal(self) -> Bools:
        """In which lanes does memory already hold the value that a plain store is about to write there?"""
        pending = self.event.to_write(self.at, self.team.ctas) if self.event and self.site.how.sem == "weak" else None
        if pending is None or self.site.place is None or self.at.hi >= self.places.pitch:
            return np.zeros(self.seen.shape, np.bool_)
        old = self.team.wave.storage(self.site.place).load(self.team.look, self.at, self.site.width)
        same: Bools = spread(np.asarray(old == pending), self.team.shape)
        return same if self.seen.shape == self.team.shape else np.asarray(same.all(0, keepdims=True))


def bound_of(known: Times) -> Ints:
    """The time up to which each warp knows all threads of its CTA, (CTAs or 1, warps, 1, 1)."""
    return np.asarray(known.min(-1)[..., None, None], np.int64)


def _scaled(at: Address, grain: int, tag_bytes: int) -> Address:
    """Where the tags of an address are: ``tag_bytes`` for each ``grain`` bytes."""
    if grain == tag_bytes:
        return at
    if all(part.bits % grain == 0 for part in at.parts):
        return Address(at.start * tag_bytes // grain, *(part.scaled(tag_bytes, grain) for part in at.parts))
    return Address(0, Part(at.full() // grain * tag_bytes))


def _likeness(one: NDArray[np.uint8], other: NDArray[np.uint8]) -> str:
    """Are all rows of bytes `EQUAL`, or float32 that may be sums of the same numbers in other orders: `ROUNDED`? "" for
    no.

    Bytes of small integers do not count as such floats.
    """
    if (one == other).all():
        return EQUAL
    if one.shape[-1] % 4:
        return ""
    a, b = one.view("<f4"), other.view("<f4")
    least = np.minimum(np.abs(a), np.abs(b))
    near = (least >= np.finfo(np.float32).tiny) & (np.abs(a - b) <= NEAR * least)
    return ROUNDED if (near | (a.view(np.uint32) == b.view(np.uint32))).all() else ""


# What is kept of accesses: a record for those that follow each other, and the log of one memory.


class Record:
    """What is kept of an access, or of some that follow each other: its place and its threads, and no larger object."""

    __slots__ = ("_span", "active", "ctas", "every", "first", "site", "time", "warps", "whole")

    def __init__(self, time: int, site: Site, team: Team, *every: Address) -> None:
        self.time = time
        self.site = site
        self.ctas, self.warps, self.active = team.ctas, team.warps, team.array
        self.whole = team.wave.ctas
        self.first = team.wave.first
        self.every = [Address(at.start, *at.parts) for at in every]
        self._span: tuple[int, int] | None = None

    @property
    def nbytes(self) -> int:
        """What its addresses and its lanes take, those of other records among them."""
        active = self.active
        parts = sum(part.values.nbytes for at in self.every for part in at.parts)
        return parts + (0 if active is None else active.nbytes)

    @property
    def span(self) -> tuple[int, int]:
        """The first byte, and the one after the last."""
        if self._span is None:
            self._span = min(at.lo for at in self.every), max(at.hi for at in self.every) + self.site.width
        return self._span

    @property
    def is_plain(self) -> bool:
        """Is it neither strong nor of a unit?"""
        return self.site.how.sem == "weak" and not self.site.how.by_unit

    def is_of(self, ctas: Ints) -> Bools:
        """Which CTAs of the grid are in the wave that did this?"""
        return (ctas >= self.first) & (ctas < self.first + self.whole)

    def threads(self) -> tuple[Ints, Ints, Ints]:
        """CTA of the grid, thread and address of each that took part; of several accesses the last first."""
        own = np.array(numbers(self.ctas)), np.array(numbers(self.warps))
        shape = (len(own[0]), len(own[1]), 32)
        where = np.nonzero(np.ones(shape, np.bool_) if self.active is None else spread(self.active, shape))
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
        (low, end), (row, warp, lane) = self.span, (cta - self.first, thread >> 5, thread & 31)
        ctas, warps = numbers(self.ctas), numbers(self.warps)
        if low >= address + width or end <= address or row not in ctas or warp not in warps:
            return False
        shape, own = (len(ctas), len(warps), 32), (ctas.index(row), warps.index(warp), lane)
        if self.active is not None and not spread(self.active, shape)[own]:
            return False
        there = (spread(at.full(), shape)[own] for at in self.every)
        return any(address - self.site.width < start < address + width for start in there)

    def of_thread(self, cta: int, thread: int) -> bool:
        """Did this thread take part?"""
        return bool(self.holds(np.array([cta]), np.array([thread]))[0])

    def holds(self, ctas: Ints, threads: Ints) -> Bools:
        """Which threads, of CTAs of the grid, took part?"""
        own = np.zeros((self.whole, max(numbers(self.warps)) + 1, 32), np.bool_)
        own[self.ctas, self.warps] = True if self.active is None else self.active
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


class Pairs:
    """An access and earlier ones that may race with it, n of them, as clocks name threads. where: (n,) each, the CTA,
    the warp and the lane in its team, and which of the lane's tags; tags: what these say of the earlier accesses.
    """

    def __init__(self, access: AccessRecord, where: Sequence[Ints], tags: Ints) -> None:
        self.access, self.where, self.tags = access, where, tags

    def __len__(self) -> int:
        return len(self.tags)

    def __getitem__(self, which: Bools | Ints) -> Pairs:
        return Pairs(self.access, [axis[which] for axis in self.where], self.tags[which])

    def with_threads(self, ctas: Ints, threads: Ints) -> Pairs:
        """The same with threads of a record as the earlier ones, which tags do not name: parts of it lack them."""
        self.other_cta, self.other_thread = ctas, threads
        return self

    def joined(self, other: Pairs) -> Pairs:
        """Both together."""
        where = [np.concatenate(axes) for axes in zip(self.where, other.where, strict=True)]
        return Pairs(self.access, where, np.concatenate((self.tags, other.tags)))

    @cached_property
    def row(self) -> Ints:
        """The row in the wave of the later access."""
        ctas = self.access.seen.ctas
        return np.asarray(ctas.start + ctas.step * self.where[0])

    @cached_property
    def thread(self) -> Ints:
        """Its thread, counted in the CTA."""
        warps = self.access.seen.warps
        return np.asarray((warps.start + warps.step * self.where[1]) * 32 + self.where[2])

    @cached_property
    def knower(self) -> Ints:
        """That as clocks have it."""
        return self.thread >> 5 if self.access.site.how.collective else self.access.clocks.knower[self.thread]

    @cached_property
    def cta(self) -> Ints:
        """Its CTA of the grid."""
        return self.row + self.access.team.wave.first

    @cached_property
    def time(self) -> Ints:
        """The time of the earlier access."""
        return self.tags >> self.access.places.shift

    @cached_property
    def other_thread(self) -> Ints:
        """Its thread."""
        return self.tags & THREAD

    @cached_property
    def other_cta(self) -> Ints:
        """Its CTA of the grid."""
        return self.tags >> CTA & (1 << CTA_BITS) - 1 if self.access.places.is_global else self.cta

    @cached_property
    def of_many(self) -> Bools:
        """Was it made by several threads that do not know each other?"""
        return np.asarray(self.tags & MANY != 0)

    @property
    def lanes(self) -> tuple[Ints, Ints, Ints]:
        """CTA, warp and lane of each later access in its team."""
        cta, warp, lane, _ = self.where
        return cta, warp, lane

    def lane(self, k: int) -> tuple[int, int, int]:
        """Those of one."""
        cta, warp, lane, _ = self.where
        return int(cta[k]), int(warp[k]), int(lane[k])

    def later(self, k: int) -> Thread:
        """The thread of the later access."""
        return int(self.cta[k]), int(self.thread[k])

    def earlier(self, k: int) -> Thread:
        """The thread of the earlier access."""
        return int(self.other_cta[k]), int(self.other_thread[k])

    def apart(self, run: Device) -> Ints:
        """How far the threads are apart, see `apart`."""
        return apart(self.cta, self.thread, self.other_cta, self.other_thread, run=run)

    def lanes_in(self, shape: Shape) -> Bools:
        """The lanes that are in any, of an access with this shape."""
        lanes = np.zeros(shape, np.bool_)
        lanes[self.lanes] = True
        return lanes


def apart(cta: Ints, thread: Ints, other_cta: Ints, other_thread: Ints, *, run: Device) -> Ints:
    """How far threads are apart: 0 of one warp, 1 of one CTA, 2 of one cluster, 3 of one GPU, 4 beyond."""
    found = np.where(thread >> 5 != other_thread >> 5, 1, 0)
    for far, scope in enumerate(("cta", "cluster", "gpu"), 2):
        found = np.where(cta // run.reach[scope] != other_cta // run.reach[scope], far, found)
    return found


class Log:
    """The records of one memory, the newest of them. Those of several waves may have one time."""

    def __init__(self) -> None:
        self._newest: dict[bool, dict[object, Record]] = {False: {}, True: {}}
        self._records: deque[Record] = deque()
        self._by_time: dict[int, list[Record]] = {}
        self._nbytes = 0

    def add(self, record: Record) -> None:
        """One more; the oldest are forgotten."""
        self._records.append(record)
        self._nbytes += record.nbytes
        site, newest = record.site, self._newest[record.site.write]
        kind = site.how.sem, site.how.scope, site.element, site.how.by_unit
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
            if record.site.how.by_unit and (home is None or (combines and record.site.how.sem != "weak")):
                continue
            if record.site.write == write:
                places, who = record.places(grain)
                who = np.unique(who[np.isin(places, units)])
                who = who[who // THREADS != home] if record.site.how.by_unit else who
                found = found.joined(Stamps(np.full(len(who), record.time), *np.divmod(who, THREADS)))
        return found

    def newest_first(self) -> list[Record]:
        """All of them."""
        return list(reversed(self._records))


LOOSE, CHECKED, NUMBERED, DEPENDENT = "loose", "checked", "numbered", "dependent"


@dataclass(frozen=True, eq=False, slots=True)
class Clash:
    """A race. lane: (CTA, warp, lane) in the team of the later access. earlier: the thread of the other one, `other`
    where that is remembered; with_writer: has it written?

    excuse: why a warning is enough. `EQUAL`, `ROUNDED`: both write the same, or nearly so. `LOOSE`: the earlier one, a
    read, always comes first in practice. `CHECKED`: one is a plain read, the other a compare-and-swap, which finds out
    what changed in between. `NUMBERED`: the earlier one, a write, comes before a fence, and that before a number that
    was taken before the number of the later one's CTA. `DEPENDENT`: the later one, a write, stores what depends on the
    value that the earlier one has read. Empty for an error.
    at_once: are both of one execution of a statement? relaxed: are both volatile, and is an order relied on that they
    have not got? lanes: (CTAs, warps, 32), all that race at the later access, where that is known.
    """

    access: AccessRecord
    lane: tuple[int, int, int]
    earlier: Thread
    other: Record | None
    with_writer: bool
    excuse: str = ""
    at_once: bool = False
    relaxed: bool = False
    lanes: Bools | None = None

    @property
    def is_benign(self) -> bool:
        """Is a warning enough?"""
        return bool(self.excuse) or self.ends

    @property
    def ends(self) -> bool:
        """Does it end an m-barrier that others have arrived at? An elected thread does so in libcu++'s pipelines."""
        return self.site.how.ends and self.other is not None and self.other.site.how.is_signal

    def may_depend(self) -> bool:
        """Is it a plain store to shared memory, after a plain read by another lane of its warp?"""
        other = self.other.site if self.other is not None and not self.with_writer else None
        if other is None or not self.access.places.is_shared or self.at_once or self.relaxed:
            return False
        return self.site.how.sem == other.how.sem == "weak" and self.site.op == "store" and self.apart == 0

    @property
    def site(self) -> Site:
        """The place of the kernel that makes the later access."""
        return self.access.site

    @property
    def team(self) -> Team:
        """The threads that make the later access together."""
        return self.access.team

    @property
    def later(self) -> Thread:
        """The thread that makes the later access."""
        cta, warp, lane = self.lane
        return self.team.wave.first + numbers(self.team.ctas)[cta], numbers(self.team.warps)[warp] * 32 + lane

    @property
    def apart(self) -> int:
        """How far the two threads are apart, see `apart`."""
        each = (np.array(number) for number in (*self.later, *self.earlier))
        return int(apart(*each, run=self.team.wave.run))
