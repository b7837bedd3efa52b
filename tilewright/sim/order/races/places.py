"""The last accesses of each place of a memory. One mechanism for shared memory and for global buffers.

A place is as wide as the narrowest access of the kernel there, and has two tags: of its last write, and of its last
read since; a third one of a plain write, or one of a narrower scope, that a strong write has replaced. A tag is a
number: time, CTA of the grid and whether a unit made it (where memory is global), whether several threads that do not
know each other made it, and the thread. An access at a time that all threads know cannot race, which for most accesses
one comparison per buffer shows. Tags are written late, only when a later access may have to read them: with barriers in
between, or without another access of the place, that is never.

Locks, flags and counters are touched a thread at a time, thousands of times: of an access by one thread, of memory that
many CTAs touch, tags are numbers, and no arrays of lanes are made.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tilewright.sim.machine import (
    AccessEvent,
    Address,
    Bools,
    CtaRows,
    Ints,
    MemoryRows,
    Site,
    Team,
    harmless,
    numbers,
    spread,
)
from tilewright.sim.order.knowledge.clocks import Clocks
from tilewright.sim.order.knowledge.fences import Stamps
from tilewright.sim.order.knowledge.known import Times
from tilewright.sim.order.races.permitted import (
    are_morally_strong,
    finds_out,
    has_observed,
    is_frail,
    is_surely_strong,
    last_read,
    newest_frail,
    went_along,
)
from tilewright.sim.order.races.records import (
    CHECKED,
    CTA,
    CTA_BITS,
    EQUAL,
    MANY,
    THREAD,
    UNIT,
    AccessRecord,
    Clash,
    Log,
    Pairs,
    Record,
    bound_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tilewright.errors import Span
    from tilewright.sim.order.knowledge.clocks import Thread
    from tilewright.sim.order.races.records import Tags

LATE_ACCESSES = 64  # kept: of one memory, that no tag shows yet


@dataclass(frozen=True, eq=False, slots=True)
class Lone:
    """The thread of an access. lane: (CTA, warp, lane) in its team. row: of its CTA in the wave."""

    lane: tuple[int, int, int]
    row: int
    thread: int

    @classmethod
    def of(cls, team: Team, site: Site) -> Lone | None:
        """The thread that a team is, if that is one."""
        if team.array is None or team.lane_count != 1 or site.how.collective:
            return None
        cta, warp, lane = team.first
        return cls(team.first, numbers(team.ctas)[cta], 32 * numbers(team.warps)[warp] + lane)

    def candidates(self, access: AccessRecord, block: MemoryRows) -> Pairs | None:
        """The accesses that tags name, but for its own and for those that it comes after."""
        places, clocks, cta = access.places, access.clocks, self.row + access.team.wave.first
        mine, knower = self.thread | cta << CTA, int(clocks.knower[self.thread])
        late = []
        for unit, tag in enumerate(self._tags(access, block).tolist()):
            if not tag or not (tag ^ mine) & places.who:
                continue
            other = tag >> CTA & (1 << CTA_BITS) - 1, tag & THREAD, tag >> places.shift
            if tag & MANY or not clocks.is_known(self.row, knower, *other, also=access.also):
                late.append((*self.lane, unit, tag))
        if not late:
            return None
        *where, tags = np.array(late, np.int64).T
        return Pairs(access, where, tags)

    def write(self, access: AccessRecord, block: MemoryRows, *, many: bool = False) -> None:
        """Its tag at all places that it touches. many: do those tags stand for others, too?"""
        self._tags(access, block, change=True)[...] = self._tag(access) | (MANY if many else 0)

    def read(self, access: AccessRecord, block: MemoryRows) -> None:
        """The same for a read: where it does not come after the last one, the tag stands for both."""
        places, clocks, mine = access.places, access.clocks, self._tag(access)
        knower, frail = int(clocks.knower[self.thread]), access.site.how.sem != "weak"
        tags = self._tags(access, block, change=True)
        for k, old in enumerate(tags.tolist()):
            many = bool(old and (old ^ mine) & places.who)
            if many and (not clocks.fences or access.is_alone) and not old & MANY:
                other = old >> CTA & (1 << CTA_BITS) - 1, old & THREAD, old >> places.shift
                many = not clocks.is_known(self.row, knower, *other, also=access.also)
            many = many or (frail and _is_frail(access, old, write=False))
            tags[k] = mine | MANY if many else mine

    def keep_frail(self, access: AccessRecord) -> None:
        """See `TaggedPlaces.keep_frail`."""
        places = access.places
        for k, old in enumerate(self._tags(access, places.tags_of(places.writes)).tolist()):
            if _is_frail(access, old, write=True):
                kept = self._tags(access, places.tags_of(places.frail), change=True)
                differs = int(kept[k]) and (int(kept[k]) ^ old) & places.who
                kept[k] = old | (MANY if differs else 0)

    def _tag(self, access: AccessRecord) -> int:
        who = self.thread | (self.row + access.team.wave.first) << CTA
        return who | access.time << access.places.shift | (UNIT if access.site.how.by_unit else 0)

    def _tags(self, access: AccessRecord, block: MemoryRows, *, change: bool = False) -> Tags:
        size = access.places.tag.itemsize
        first = access.at.start // access.places.grain
        tags: Tags = (block.to_change if change else block.view)(size)[0, first : first + access.grains]
        return tags


def _is_frail(access: AccessRecord, tag: int, *, write: bool) -> bool:
    """Is a tag one of accesses that are less strong than this?"""
    time = tag >> access.places.shift
    return 0 < time <= newest_frail(access, write=write) and any(
        is_frail(access, record) for record in access.places.log.at(time)
    )


# Places that several threads have touched which do not know each other: there each of their accesses is examined.
#
# A tag names one thread. At such a place it says "many", and the records tell who they were.


SPAN = 1 << 32  # places; more than the shared memory of one CTA has
AT_ONCE = 1 << 18  # pairs of accesses
FEW = 8  # CTAs


def are_known_together(access: AccessRecord, pairs: Pairs) -> Bools:
    """Which pairs are with a weak write that a warp made together, which the later thread knows?"""
    known = np.zeros(len(pairs), np.bool_)
    for time in np.unique(pairs.time).tolist():
        for record in access.places.log.at(time):
            if record.site.how.collective and record.site.how.sem == "weak":
                those = np.flatnonzero((pairs.time == time) & record.is_of(pairs.other_cta))
                known[those] = access.knows_record(record, pairs[those])
    return known


def clash_among_many(access: AccessRecord, pairs: Pairs, *, with_writer: bool) -> Clash | None:
    """The race with one of the accesses that several threads have made there; of threads that are farthest apart."""
    places = access.places
    place = spread(access.at.full(), access.seen.shape)[pairs.lanes] // places.grain + pairs.where[3]
    key = place if places.is_global else place + pairs.cta * SPAN
    order = np.lexsort((pairs.knower, pairs.row, key))
    order = order[_two_of_each(key[order], pairs.row[order], pairs.knower[order])]
    low, high = int(place.min()), int(place.max())
    met = access.all_known()
    farthest: Clash | None = None
    doubt: Clash | None = None
    line: Span | None = None  # of the other access of the farthest
    mine, key = pairs[order], key[order]
    equal: Bools | None = None  # where memory holds what is about to be written
    ends = set() if with_writer else _behind(access, pairs, place)
    for record in places.log.newest_first():
        if record in ends:
            ends.remove(record)
            if not ends:
                break
        if record.time <= met or (farthest and (farthest.apart > 1 or record.site.at != line)):
            break
        if record.site.write != with_writer or is_surely_strong(access, record):
            continue
        first, last = (byte // places.grain for byte in record.span)
        if last < low or first > high:
            continue
        if with_writer and access.site.write and record.is_plain:
            equal = access.finds_equal()[mine.lanes] if equal is None else equal
            clash = _clash_with(access, record, mine[~equal], key[~equal])
            alike = None if clash else _clash_with(access, record, mine[equal], key[equal])
            clash = replace(alike, excuse=EQUAL) if alike else clash
        else:
            clash = _clash_with(access, record, mine, key)
        if clash is not None and clash.excuse:
            doubt = doubt or clash
        elif clash is not None and (farthest is None or clash.apart > farthest.apart):
            farthest, line = clash, record.site.at
    return farthest or doubt


def _behind(access: AccessRecord, pairs: Pairs, place: Ints) -> set[Record]:
    """The last writes at these places, if all of them are plain ones that the threads come after: what is older than
    these came before them, as nothing else was told.
    """
    places, run = access.places, access.team.wave.run
    if not places.is_global or run.warnings:
        return set()
    tags = np.asarray(places.tags_of(places.writes).view(places.tag.itemsize)[0, place], np.int64)
    if not tags.all() or (tags & (MANY | UNIT)).any():
        return set()
    ctas, threads, times = tags >> CTA & (1 << CTA_BITS) - 1, tags & THREAD, tags >> places.shift
    known = access.clocks.knows(pairs.row, pairs.knower, ctas, threads, times, also=access.also)
    if not (known | (ctas == pairs.cta) & (threads == pairs.thread)).all():
        return set()
    last = {places.log.find(*each) for each in set(zip(ctas.tolist(), times.tolist(), strict=True))}
    found = {record for record in last if record is not None and record.site.how.sem == "weak"}
    return found if len(found) == len(last) else set()


def _clash_with(access: AccessRecord, record: Record, mine: Pairs, key: Ints) -> Clash | None:
    """The race with a thread of a record, of those that are farthest apart the first that has not observed it."""
    reads: dict[int, Record | None] = {}
    strong = record.site.write and record.site.how.sem != "weak"
    for k, other in _unordered_in(access, record, mine, key):
        if strong and k not in reads:
            reads[k] = last_read(access, mine.lane(k), mine.later(k))
        if not has_observed(access, reads.get(k), mine.later(k), record, other):
            excuse = CHECKED if finds_out(access.site, record.site) else ""
            return Clash(access, mine.lane(k), other, record, record.site.write, excuse)
    return None


def _two_of_each(*keys: Ints) -> Bools:
    """Which are the first two of equal neighbours? One of them is another thread than any third one."""
    kept = np.ones(len(keys[0]), np.bool_)
    kept[2:] = np.any([key[2:] != key[:-2] for key in keys], axis=0)
    return kept


def _unordered_in(access: AccessRecord, record: Record, mine: Pairs, key: Ints) -> Iterator[tuple[int, Thread]]:
    """Yield numbers of pairs and threads of a record that may race with them, the farthest apart first.

    mine: the pairs of the access, in the order of ``key``, their places.
    """
    grain, collective = access.places.grain, access.site.how.collective or record.site.how.collective
    run = access.team.wave.run
    ctas, threads, address = record.threads()
    units = (address // grain)[:, None] + np.arange(max(record.site.width // grain, 1))
    if not access.places.is_global:
        units = units + ctas[:, None] * SPAN
    first, last = np.searchsorted(key, units), np.searchsorted(key, units, "right")
    hit = np.nonzero(first < last)
    for which, start, count in _portions(hit[0], first[hit], (last - first)[hit]):
        each = np.repeat(np.arange(len(which)), count)
        k = start[each] + np.arange(len(each)) - (np.cumsum(count) - count)[each]
        pairs = mine[k].with_threads(ctas[which][each], threads[which][each])
        right = (pairs.other_cta == pairs.cta) & (pairs.other_thread == pairs.thread) & (not collective)
        right |= are_morally_strong(access, pairs, record)
        right |= access.knows_record(record, pairs)
        right |= went_along(access, pairs, record)
        bad = np.flatnonzero(~right)
        for one in bad[np.lexsort((pairs.knower[bad], pairs.row[bad], -pairs.apart(run)[bad]))].tolist():
            yield int(k[one]), pairs.earlier(one)


def _portions(*found: Ints) -> Iterator[list[Ints]]:
    """Parts of what was found, of about `AT_ONCE` pairs each. The last of the arrays: how many pairs each is."""
    parts = int(found[-1].sum()) // AT_ONCE + 1
    if len(found[-1]):
        yield from zip(*(np.array_split(each, parts) for each in found), strict=True)


NOWHERE = (1 << 62, -1)  # a span without bytes


class Column:
    """The last writes of a memory, or the last reads, by place and as a whole. time: of the last of all. span: of their
    bytes, in global memory. by_buffer: when each warp touched it last, in shared memory.
    """

    def __init__(self) -> None:
        self.time = 0
        self.span = NOWHERE
        self.by_buffer: dict[str, Times] = {}
        self.tags: MemoryRows | None = None  # see `TaggedPlaces.tags_of`

    def note(self, access: AccessRecord) -> None:
        """One more."""
        if access.places.is_global:
            self.span = _joined_spans(self.span, access.span)
        if access.places.is_shared:
            name = access.site.line.buffer
            if name not in self.by_buffer:
                self.by_buffer[name] = np.zeros(access.team.wave.run.warps, np.int32)
            self.by_buffer[name][access.team.warps] = access.time

    def may_race(self, access: AccessRecord) -> bool:
        """Has the buffer been touched since the time up to which the warps of the access know all threads?"""
        if access.places.is_global:
            return _meet(self.span, access.span)
        name, arena = access.site.line.buffer, access.places.arena
        names = self.by_buffer if name == arena else (name, arena)  # a pointer of run time may have touched any buffer
        times = [self.by_buffer[each] for each in names if each in self.by_buffer]
        if not times:
            return False
        latest = np.max(times, axis=0) if len(times) > 1 else times[0]
        clocks = access.clocks
        return bool(latest.max() > clocks.floor and (clocks.known_warps(access.seen.look) < latest).any())


def _joined_spans(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    return min(one[0], other[0]), max(one[1], other[1])


def _meet(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[0] < other[1] and other[0] < one[1]


class TaggedPlaces(CtaRows):
    """The tags of the shared memory of a wave of ``ctas``, or of a global buffer. grain: bytes that share a tag.

    is_global: may all CTAs touch it? So is the shared memory of clusters: their CTAs' follow each other, ``pitch``
    bytes apart. arena: the buffer that stands for all of it, where pointers of run time lead.
    """

    tables = ()

    def __init__(
        self, name: str, nbytes: int, grain: int, *, ctas: int = 0, pitch: int = 1 << 62, arena: str = ""
    ) -> None:
        super().__init__(1, max(ctas, 1))
        self.pitch = pitch
        self.name = name
        self.arena = arena or name
        self.grain = grain
        self.is_global = is_global = not ctas
        self.is_shared = not is_global or pitch < 1 << 62
        self.tag = np.dtype(np.uint64 if is_global else np.uint32)
        self.shift = CTA + (CTA_BITS + 1 if is_global else 0)
        self.who = (1 << CTA + (CTA_BITS if is_global else 0)) - 1  # the bits that say by whom
        self.nbytes = nbytes
        self.writes, self.reads = Column(), Column()
        self.frail = Column()  # the writes that stronger ones have replaced
        self.has_strong = False  # any strong accesses?
        self.log = Log()
        self._late: list[tuple[AccessRecord, Times | None]] = []  # reads without tags so far, and what was known then
        self._late_writes: list[AccessRecord] = []
        self._late_span = NOWHERE  # of their bytes

    def tags_of(self, column: Column) -> MemoryRows:
        """The tag of each place; there once an access looks at them or is written down."""
        if column.tags is None:
            column.tags = self._block()
        return column.tags

    def _block(self) -> MemoryRows:
        return MemoryRows.zeros(self.rows, -(-max(self.nbytes, 1) // (64 * self.grain)) * 64 * self.tag.itemsize)

    def part(self) -> bool:
        if not self.is_for_all:
            return False
        self._write_all_down()
        return super().part()

    def parted(self) -> None:
        for column, tags in self._tagged():
            column.tags = MemoryRows(np.repeat(tags.data, self.ctas, axis=0), tags.nbytes, self.ctas)

    def _tagged(self) -> list[tuple[Column, MemoryRows]]:
        """The columns that have tags, with these."""
        columns = (self.writes, self.reads, self.frail)
        return [(column, column.tags) for column in columns if column.tags is not None]

    def _seen(self, clocks: Clocks, team: Team, at: Address) -> Team:
        """A team as the tags have it: as one CTA, where all do the same."""
        one = team.as_one(at) if self.is_for_all and clocks.is_one else None
        if one is None:
            self.part()
        return one or team

    def access(self, clocks: Clocks, event: AccessEvent, team: Team, at: Address) -> AccessRecord:
        """An access that is about to take place, with its record: by these threads of the event, at addresses here."""
        seen = self._seen(clocks, team, at)
        lone = Lone.of(seen, event.site) if self.is_global else None
        at = harmless(at, seen) if lone is None else Address(seen.first_of(at.full()))
        if self.tag.itemsize == 4 and event.time >> 32 - self.shift:
            self._widen()
        also = clocks.of_shared if self.is_shared else ()
        return AccessRecord(self, clocks, event, event.site, event.time, team, seen, at, also, lone=lone)

    def _widen(self) -> None:
        """Times have outgrown the tags."""
        self._write_all_down()
        self.tag = np.dtype(np.uint64)
        for column, old in self._tagged():
            wide = self._block()
            wide.to_change(8)[:, : old.pitch // 4] = old.view(4)
            column.tags = wide

    def refine(self, grain: int) -> None:
        """Places are narrower from now on: an operation touches a part of one."""
        self._write_all_down()
        times, self.grain = self.grain // grain, grain
        for column, old in self._tagged():
            fine = self._block()
            tags = np.repeat(old.view(self.tag.itemsize), times, axis=1)[:, : fine.pitch // self.tag.itemsize]
            fine.to_change(self.tag.itemsize)[:, : tags.shape[1]] = tags
            column.tags = fine

    def is_calm(self, clocks: Clocks, *, write: bool) -> bool:
        """Do all threads know all that may race with an access?"""
        newest = max(self.writes.time, self.reads.time) if write else self.writes.time
        return not self.is_global and newest <= clocks.floor

    def is_surely_free(self, access: AccessRecord) -> bool:
        """Is it certain, without a look at tags, that an access races with nothing, itself included?"""
        if access.site.write and not access.is_one_to_one():
            return False
        if self.is_calm(access.clocks, write=access.site.write):
            return True
        if self._late_writes and _meet(access.span, self._late_span):
            return False
        return not (self.writes.may_race(access) or (access.site.write and self.reads.may_race(access)))

    def writes_before(self, access: AccessRecord) -> Pairs | None:
        """The last writes at an access's places that may not be ordered before it."""
        if self._late_writes and self._meets_late(access):
            self._settle_writes()
        if not self.writes.may_race(access):
            return None
        found = self._candidates(access, self.tags_of(self.writes))
        if access.site.how.sem == "weak" or self.frail.tags is None:
            return found
        frail = self._candidates(access, self.tags_of(self.frail))
        return found.joined(frail) if found is not None and frail is not None else found or frail

    def _meets_late(self, access: AccessRecord) -> bool:
        """May an access touch what a late write does?"""
        if not access.is_aligned() or (not self.is_global and self._late_writes[-1].time <= access.clocks.floor):
            return True
        if not _meet((access.at.lo, access.at.hi + access.site.width), self._late_span):
            return False
        return not access.is_apart(self._late_writes)

    def reads_before(self, access: AccessRecord) -> Pairs | None:
        """The last reads at an access's places that may not be ordered before it."""
        if not self.reads.may_race(access):
            return None
        self._settle_reads()
        return self._candidates(access, self.tags_of(self.reads))

    def _candidates(self, access: AccessRecord, block: MemoryRows) -> Pairs | None:
        if access.lone is not None:
            return access.lone.candidates(access, block)
        tags = access.load(block)
        there = late = np.asarray(tags != 0)
        if not np.count_nonzero(there):
            return None
        if self.is_global:  # of the many, only the last is named: others may be of other CTAs
            ctas = access.team.look.rows(1) + access.team.wave.first
            late = there & ((tags & MANY != 0) | (tags >> CTA & (1 << CTA_BITS) - 1 != ctas[..., None]))
            if np.count_nonzero(late != there):
                late = late | (tags >> self.shift > bound_of(access.known()))
        else:
            late = tags >> self.shift > bound_of(access.known())
        if not np.count_nonzero(late):
            return None
        many = access.seen.full[..., None]
        some = np.arange(len(many))
        if len(late) == len(many) > FEW:  # of many CTAs often only some
            some = np.flatnonzero(late.reshape(len(late), -1).any(1))
            late, tags = late[some], tags[some] if len(tags) > 1 else tags
        if not access.site.how.collective:  # a thread comes after itself
            own = access.tags()[..., None]
            late = late & ((tags ^ (own[some] if len(own) > 1 else own)) & self.who != 0)
        late = late & many[some]
        cta, warp, lane, unit = where = late.nonzero()
        if not len(cta):
            return None
        return Pairs(access, (some[cta], warp, lane, unit), spread(tags, late.shape)[where].astype(np.int64))

    def last(self, units: Ints, *, write: bool, home: int | None = None, combines: bool = False) -> Stamps:
        """The last stores of threads, or the loads, at some places of a global buffer, ordered or not.

        home: with those of asynchronous units of other CTAs than this one of the grid; combines: but for units that
        combine.
        """
        (self._settle_writes if write else self._settle_reads)()
        tags = self.tags_of(self.writes if write else self.reads).view(self.tag.itemsize)[0, units].astype(np.int64)
        many = self.log.touched(
            np.unique(units[tags & MANY != 0]), self.grain, write=write, home=home, combines=combines
        )
        tags = np.unique(tags[tags != 0])
        ctas, times = tags >> CTA & (1 << CTA_BITS) - 1, tags >> self.shift
        counts = tags & UNIT == 0
        for k in np.flatnonzero(~counts & (ctas != home)).tolist() if home is not None else ():
            record = self.log.find(int(ctas[k]), int(times[k])) if combines else None
            counts[k] = record is None or record.site.how.sem == "weak"
        return Stamps(times[counts], ctas[counts], tags[counts] & THREAD).joined(many)

    def is_untouched(self, reach: tuple[int, int], name: str, *, write: bool) -> bool:
        """Is it certain that no thread has written between two bytes of the buffer (nor read, before a write)?"""
        touched = {*self.writes.by_buffer, *(self.reads.by_buffer if write else ())}
        if self.is_shared and self.is_global:  # of a cluster: the bytes are those of any of its CTAs
            touched |= {late.site.line.buffer for late in self._late_writes}
            return name != self.arena and touched.isdisjoint((name, self.arena))
        spans = [self._late_span]
        if self.is_global:
            spans += [self.writes.span, *([self.reads.span] if write else [])]
        elif name == self.name or not touched.isdisjoint((name, self.name)):
            return False
        return not any(_meet(span, reach) for span in spans)

    def write(self, access: AccessRecord) -> tuple[Bools, Ints] | None:
        """Records a write; returns lanes that another lane of it has overwritten, and the tags there now."""
        if access.lone is not None:
            if self._late_writes and self._meets_late(access):
                self._settle_writes()
            self.writes.note(access)
            access.lone.write(access, self.tags_of(self.writes))
            return None
        if access.is_one_to_one():
            self.write_later(access)
            return None
        self._settle_writes()
        self.writes.note(access)
        tags = spread(access.tags(), access.seen.shape)
        access.store(self.tags_of(self.writes), tags)
        lost = access.lost(self.tags_of(self.writes), tags)
        if lost is None:
            return None
        now = access.load(self.tags_of(self.writes))
        return lost, spread(now, (*lost.shape, now.shape[-1])).astype(np.int64)

    def keep_frail(self, access: AccessRecord) -> None:
        """A strong write is about to replace tags: keep those of frail writes, with which others may race, though not
        with this.
        """
        if newest_frail(access, write=True) <= (0 if self.is_global else access.clocks.floor):
            return
        if self._late_writes and self._meets_late(access):
            self._settle_writes()
        if access.lone is not None:
            access.lone.keep_frail(access)
            return
        old = access.load(self.tags_of(self.writes))
        frail = spread(
            self._frail(access, old, write=True) & access.seen.full[..., None], (*access.seen.shape, access.grains)
        )
        if not frail.any():
            return
        kept = access.load(self.tags_of(self.frail))
        many = self.tag.type(MANY) * ((kept != 0) & ((kept ^ old) & self.tag.type(self.who) != 0))
        access.store(self.tags_of(self.frail), np.where(frail, old | many, kept))

    def _frail(self, access: AccessRecord, old: Tags, *, write: bool) -> Bools:
        """Which tags of writes, or of reads, are of accesses that are less strong, and that not all threads know?"""
        found: Bools = old >> self.shift > (0 if self.is_global else access.clocks.floor)
        found &= old >> self.shift <= newest_frail(access, write=write)
        for time in np.unique(old[found] >> self.shift).tolist():
            if not any(is_frail(access, record) for record in self.log.at(time)):
                found &= old >> self.shift != time
        return found

    def write_later(self, access: AccessRecord) -> None:
        """Records a write of which no two lanes touch one place."""
        if self._late_writes and not self._matters(self._late_writes[-1]):
            self._settle_writes()
        access.event = None
        self._late_writes.append(access)
        self._late_span = _joined_spans(self._late_span, access.span)
        if len(self._late_writes) >= LATE_ACCESSES:
            self._settle_writes()

    def mark_many(self, access: AccessRecord, lanes: Bools) -> None:
        """Mark writes that do not know of earlier ones, which must be kept, too."""
        if access.lone is not None:
            access.lone.write(access, self.tags_of(self.writes), many=True)
            return
        self._settle_writes()
        self._store_many(access, self.tags_of(self.writes), spread(access.tags(), access.seen.shape), lanes)

    def _store_many(self, access: AccessRecord, block: MemoryRows, tags: Tags, lanes: Bools) -> None:
        if (some := access.seen.narrowed(lanes)) is not None:
            access.store(block, (tags | MANY).astype(self.tag), some)

    def remember(self, access: AccessRecord) -> None:
        """Remember an access; the tags of a read are written when a later write needs them."""
        self.has_strong |= access.site.how.sem != "weak"
        self.log.add(access.record)
        (self.writes if access.site.write else self.reads).time = access.time
        if not access.site.write:
            self.reads.note(access)
            if access.lone is not None:
                self._settle_reads()
                access.lone.read(access, self.tags_of(self.reads))
                return
            before = None if self.is_global else access.known()
            if access.is_alone:
                self._settle_reads()
                self._read(access, before, at_once=True)
                return
            self._late.append((access, before))
            if len(self._late) >= LATE_ACCESSES:
                self._late = [each for each in self._late if self._matters(each[0])]
                if len(self._late) >= LATE_ACCESSES // 2:
                    self._settle_reads()

    def let_go(self) -> None:
        """A wave has ended: drop what its late accesses keep for speed alone."""
        for access in (*self._late_writes, *(read for read, _ in self._late)):
            access.seen.look.sums.clear()

    def _write_all_down(self) -> None:
        self._settle_writes()
        self._settle_reads()

    def _settle_writes(self) -> None:
        late, self._late_writes = self._late_writes, []
        self._late_span = NOWHERE
        for access in late:
            if self._matters(access):
                self.writes.note(access)
                for one in access.each():
                    one.store(self.tags_of(self.writes), spread(access.tags(), access.seen.shape))

    def _matters(self, access: AccessRecord) -> bool:
        """Is there a thread that does not know of an access?"""
        return self.is_global or access.time > access.clocks.floor

    def _settle_reads(self) -> None:
        """Writes the tags of late reads, except those that all threads know."""
        late, self._late = self._late, []
        for access, before in late:
            for one in access.each() if self._matters(access) else ():
                self._read(one, before)

    def _read(self, access: AccessRecord, before: Times | None, *, at_once: bool = False) -> None:
        """Write the tags of a read. Where a reader does not know the last one, or two read at once, it says "many".

        before: what readers of shared memory knew. at_once: has nothing happened since, so that the reader knows that?
        """
        tags = spread(access.tags(), access.seen.shape)
        old = access.load(self.tags_of(self.reads))
        mine = tags[..., None]
        others = ((old ^ mine) & self.tag.type(self.who) != 0) & (old != 0)
        if before is not None:
            others &= old >> self.shift > bound_of(before)
        if at_once:
            others &= access.seen.full[..., None]
            found = Pairs(access, np.nonzero(others), spread(old, others.shape)[others].astype(np.int64))
            others[others] = found.of_many | ~access.knows(found)
        if access.site.how.sem != "weak":
            others = others | self._frail(access, old, write=False)
        access.store(self.tags_of(self.reads), tags)
        differs = access.load(self.tags_of(self.reads)) != mine
        lanes = spread((others | differs).any(-1), access.seen.shape)
        if lanes.any():
            self._store_many(access, self.tags_of(self.reads), tags, lanes)
