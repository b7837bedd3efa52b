"""Every access of a run: does it race with an earlier one? Then it is remembered for later ones.

Two idioms rely on an order that the memory model does not give, and have a part each: volatile reads, and numbers that
threads take at a counter.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import numpy as np

from tilewright.explain.steps import for_all
from tilewright.sim.machine import AccessEvent, Doubt, Moment, buffer_name, numbers
from tilewright.sim.order.knowledge.fences import Stamps
from tilewright.sim.order.knowledge.known import joined_others
from tilewright.sim.order.knowledge.locations import Locations, Where, threads_of
from tilewright.sim.order.knowledge.releases import RELEASE
from tilewright.sim.order.races.permitted import (
    SwapReads,
    are_morally_strong,
    finds_out,
    has_observed,
    is_begun_by,
    is_strong_with_all,
    last_read,
    reaches,
    went_along,
)
from tilewright.sim.order.races.places import TaggedPlaces, are_known_together, clash_among_many
from tilewright.sim.order.races.records import (
    CHECKED,
    CTA,
    CTA_BITS,
    DEPENDENT,
    EQUAL,
    LOOSE,
    NUMBERED,
    THREAD,
    AccessRecord,
    Clash,
    Pairs,
)
from tilewright.sim.order.reports.race import report, warned, warning
from tilewright.terms import told

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping

    from tilewright.errors import SimulationError
    from tilewright.sim.machine import Bools, Ints, Place, Site, Subject, Wave
    from tilewright.sim.order.engine import WaveOrder
    from tilewright.sim.order.knowledge.clocks import Clocks, Thread
    from tilewright.sim.order.knowledge.known import Known, Others
    from tilewright.sim.order.knowledge.releases import Release

OBSERVATIONS = 256  # kept: of other threads by one CTA, or at one counter
STRONG_WRITES = 4096  # kept: of warps, where threads poll and read by volatile loads

# Races between two accesses of which neither is known to come first.
#
# They race where they overlap, one of them writes, and they are not morally strong. Source: PTX ISA, "Memory
# Consistency Model: Race".


Excused: TypeAlias = "Callable[[AccessRecord, Pairs], Bools]"
Key = TypeVar("Key")
Kept = TypeVar("Kept")


def keep_newest(known: dict[Key, Kept], most: int) -> None:
    """Drop the oldest of more than ``most``."""
    if len(known) > most:
        del known[next(iter(known))]


def clash_with_reads(access: AccessRecord, pairs: Pairs) -> Clash | None:
    """The race of a write with earlier reads that is reported; loose, where all of them come first in practice."""
    clash, _ = clash_of(access, pairs, with_writer=False)
    if clash is not None and access.clocks.loose:
        strict, _ = clash_of(replace(access, also=(*access.also, access.clocks.loose)), pairs, with_writer=False)
        return strict or replace(clash, excuse=LOOSE)
    return clash


def clash_of(
    access: AccessRecord, pairs: Pairs, *, with_writer: bool, excused: Excused | None = None
) -> tuple[Clash | None, Pairs]:
    """The race among pairs that is reported, if there is one, and those that may meet without an order.

    The pair of threads that are farthest apart is reported: what orders them orders the others. excused: of pairs,
    which need no report.
    """
    many = pairs.of_many.copy()
    is_sure = with_writer and access.lone is not None  # what it knows is no candidate
    known = np.zeros(len(pairs), np.bool_) if is_sure else access.knows(pairs)
    if with_writer and many.any():
        known[many] = are_known_together(access, pairs[many])
        many &= ~known
    unknown = ~known & ~many
    unordered = pairs[unknown]
    racing, checked = _racing(access, unordered, with_writer=with_writer)
    if excused is not None:
        racing &= ~excused(access, unordered)
    if access.site.how.ends:
        racing &= ~went_along(access, unordered)
    clash = farthest_clash(access, unordered[racing], with_writer=with_writer) if racing.any() else None
    if clash is None or (clash.apart < 2 and not clash.is_benign):
        others = clash_among_many(access, pairs[many], with_writer=with_writer) if many.any() else None
        clash = others if clash is None or (others is not None and others.apart > clash.apart) else clash
    if racing.any():
        return clash, unordered
    if clash is None and checked.any():
        clash = replace(farthest_clash(access, unordered[checked], with_writer=with_writer), excuse=CHECKED)
    return clash, pairs[unknown | many] if clash is None or clash.excuse == CHECKED else unordered


def unordered(access: AccessRecord, pairs: Pairs) -> Pairs:
    """The writes that do not come before an access, which is morally strong with all of them."""
    if access.lone is not None or pairs.of_many.all():
        return pairs
    return pairs[pairs.of_many | ~access.knows(pairs)]


def _racing(access: AccessRecord, pairs: Pairs, *, with_writer: bool) -> tuple[Bools, Bools]:
    """Which unordered pairs race, and which would if a compare-and-swap did not find out what has changed?

    Pairs that are morally strong do not race, nor those whose later thread has observed the write.
    """
    racing, checked = np.ones(len(pairs), np.bool_), np.zeros(len(pairs), np.bool_)
    if not (access.places.has_strong or access.site.how.compares or access.site.how.is_signal):
        return racing, checked
    left = np.arange(len(pairs))
    while len(left):
        time = int(pairs.time[left[0]])
        other = access.places.log.find(int(pairs.other_cta[left[0]]), time)
        same = left == left[0]
        if other is not None:
            same = (pairs.time[left] == time) & other.is_of(pairs.other_cta[left])
        those, left = left[same], left[~same]
        if other is not None and finds_out(access.site, other.site):
            racing[those], checked[those] = False, True
            continue
        if other is None or other.site.how.sem == "weak":
            racing[those] = other is None or not is_begun_by(access.site, other.site)
            continue
        racing[those] = ~are_morally_strong(access, pairs[those], other)
        for k in those[racing[those]].tolist() if with_writer else ():
            read = last_read(access, pairs.lane(k), pairs.later(k))
            racing[k] = not has_observed(access, read, pairs.later(k), other, pairs.earlier(k))
    return racing, checked


def farthest_clash(access: AccessRecord, racing: Pairs, *, with_writer: bool) -> Clash:
    """The one of these races that is reported: of threads that are farthest apart."""
    k = int(np.argmax(racing.apart(access.team.wave.run)))
    other = access.places.log.find(int(racing.other_cta[k]), int(racing.time[k]))
    alike = with_writer and access.site.write and bool(are_plain(access, racing).all())
    lanes = racing.lanes_in(access.seen.shape)
    excuse = EQUAL if alike and access.finds_equal()[lanes].all() else ""
    return Clash(access, racing.lane(k), racing.earlier(k), other, with_writer, excuse, lanes=lanes)


def are_plain(access: AccessRecord, pairs: Pairs) -> Bools:
    """Which of the earlier accesses are surely plain ones of threads?"""
    each = list(zip(pairs.other_cta.tolist(), pairs.time.tolist(), strict=True))
    others = {one: access.places.log.find(*one) for one in set(each)}
    # Where the record is forgotten, it depends on the place.
    odd = {k for k, one in others.items() if (access.places.has_strong if one is None else not one.is_plain)}
    return np.array([one not in odd for one in each], np.bool_)


def lost_store(access: AccessRecord, lost: Bools, now: Ints) -> Clash | None:
    """The race of two lanes that have stored to one place in one statement. Lanes of one warp may store the same there,
    and strong stores within each other's scope what they like.
    """
    is_global, weak = access.places.is_global, access.site.how.sem == "weak"
    if not weak:
        lost = lost & ~reaches(access, now[..., 0] >> CTA & (1 << CTA_BITS) - 1) if is_global else lost & False
    if not lost.any():
        return None
    lane: tuple[int, int, int] = tuple(map(int, np.argwhere(lost)[0]))  # type: ignore[assignment]  # three axes
    tag = int(now[lane][0])
    row = numbers(access.seen.ctas)[lane[0]] + access.team.wave.first
    other = tag >> CTA & (1 << CTA_BITS) - 1 if is_global else row, tag & THREAD
    alike = access.wrote_alike() if weak else ""
    if alike == EQUAL and (other[0], other[1] >> 5) == (row, numbers(access.seen.warps)[lane[1]]):
        return None
    return Clash(access, lane, other, access.record, with_writer=True, excuse=alike, at_once=True)


# Volatile reads that rely on an order which they have not got.
#
# ``volatile`` makes an access relaxed, and orders no other. A thread that polls a flag, and then reads what was written
# before that, may find an older value unless fences stand between the two on both sides.
#
# Source: CUDA C++ Programming Guide, "Memory Fence Functions".


@dataclass(frozen=True, eq=False, slots=True)
class _Observation:
    """A thread of a CTA has observed, at a time, what another one had written at a time of its own. known: what that
    one knew then.
    """

    thread: int
    time: int
    written: int
    known: Known | None

    def tells(self, access: AccessRecord, later: Thread, writer: Thread, earlier: Thread, time: int) -> bool:
        """Does what a thread did at a time come before the thread of an access by way of the write?"""
        clocks = access.clocks
        if self.thread != later[1]:
            row = later[0] - access.team.wave.first
            if not clocks.is_known(row, int(clocks.knower[later[1]]), later[0], self.thread, self.time):
                return False
        if writer == earlier:
            return self.written > time
        one = (np.array([value]) for value in (*earlier, time))
        return self.known is not None and bool(clocks.are_in(self.known, *one)[0])


class VolatileReads:
    """The writes that threads have observed and not acquired: at a location that they poll, or at a counter whose value
    they compare.

    observed: by CTA of the grid and writer, the last. counters: by location, the last atomic of each thread: when, and
    had it passed a fence? written: by CTA of the grid, warp and time, what lanes knew that wrote strongly then.
    """

    def __init__(self, orders: Mapping[Wave, WaveOrder], sites: Iterable[Site]) -> None:
        self._orders = orders
        sites = list(sites)
        reads = any(site.how.sem == "volatile" and not site.write for site in sites)
        self._awake = reads and any(site.polls or site.compared for site in sites)
        self._observed: dict[int, dict[Thread, _Observation]] = {}
        self._counters: dict[Where, dict[Thread, tuple[int, bool]]] = {}
        self._written: dict[tuple[int, int, int], list[tuple[int, Known]]] = {}

    def read(self, access: AccessRecord, found: Pairs | None) -> Clash | None:
        """A strong read has found writes that nothing orders before it. One that polls observes them; of another one
        that is volatile, the race with a write on whose order it relies.
        """
        if not self._awake or found is None or not len(found) or not access.site.shows:
            return None
        pairs = found[~found.of_many]
        if access.site.polls:
            writers = zip(pairs.cta.tolist(), pairs.other_cta.tolist(), pairs.other_thread.tolist(), strict=True)
            last = {writer: k for k, writer in enumerate(writers)}
            for k in last.values():
                self._observe(pairs.later(k), access, pairs.earlier(k), int(pairs.time[k]))
            return None
        return self._relied(access, pairs) if access.site.how.sem == "volatile" else None

    def counted(self, access: AccessRecord) -> None:
        """Strong writes have taken place. An atomic observes those before it. That their threads had passed a fence is
        enough for one that compares what it has counted, and reads by volatile loads then: the guide has such an
        example.
        """
        site, fences = access.site, self._orders[access.team.wave].fences
        if not (self._awake and site.write) or site.how.is_signal:
            return
        who = access.team.actors
        for k, lanes, known in access.clocks.apart(who):
            key = int(who.rows[k]) + access.team.wave.first, int(who.warps[k]), access.time
            self._written.setdefault(key, []).append((lanes, known))
            keep_newest(self._written, STRONG_WRITES)
        if not site.how.atomic:
            return
        for (row, thread), where in threads_of(access):
            own = row + access.team.wave.first, thread
            before = self._counters.setdefault(where, {})
            for writer, (time, fenced) in before.items() if site.shows and (site.polls or site.compared) else ():
                if writer != own and (site.polls or not fenced):
                    self._observe(own, access, writer, time)
            before[own] = access.time, bool(fences.scopes(row, thread))
            keep_newest(before, OBSERVATIONS)

    def _observe(self, who: Thread, access: AccessRecord, writer: Thread, written: int) -> None:
        known = self._observed.setdefault(who[0], {})
        there = self._written.get((writer[0], writer[1] >> 5, written), ())
        of_writer = next((one for lanes, one in there if lanes >> (writer[1] & 31) & 1), None)
        known[writer] = _Observation(who[1], access.time, written, of_writer)
        keep_newest(known, OBSERVATIONS)

    def _relied(self, access: AccessRecord, pairs: Pairs) -> Clash | None:
        """The volatile read of what a thread had written volatile before a write that is observed."""
        for k in range(len(pairs)):
            later, earlier, time = pairs.later(k), pairs.earlier(k), int(pairs.time[k])
            observed = self._observed.get(later[0], {}).items()
            if any(seen.tells(access, later, writer, earlier, time) for writer, seen in observed):
                clash = farthest_clash(access, pairs[np.array([k])], with_writer=True)
                other, read = clash.other, last_read(access, clash.lane, later)  # of that value: it finds no older one
                if other and other.site.how.sem == "volatile" and not has_observed(access, read, later, other, earlier):
                    return replace(clash, relaxed=True)
        return None


# Numbers that threads take at counters: a thread's own tells that those before it have taken theirs.
#
# Samples of NVIDIA's rely on that without an acquire: what others write comes before a fence, and that before their
# number, but no fence stands behind one's own. What a CTA then accesses plainly is a warning. It is one exactly where a
# fence.sc behind the own number would put the two in order.


@dataclass(eq=False, slots=True)
class _Ticket:
    """A thread, which had passed a fence, has taken a number at a time. release: what all before it have published."""

    thread: int
    time: int
    release: Release
    _fenced: Others | None = None

    def counts(self, clocks: Clocks, done: Stamps) -> Bools:
        """Which of these accesses come before a fence that holds every thread, and that before an earlier number?"""
        if self._fenced is None:
            self._fenced = self._all_fenced(clocks)
        found = np.zeros(len(done), np.bool_)
        for cta in self._fenced.keys() & set(done.ctas.tolist()):
            here = done.ctas == cta
            found[here] = self._fenced[cta][done.threads[here]] >= done.times[here]
        return found

    def _all_fenced(self, clocks: Clocks) -> Others:
        fenced: Others = {}
        wholes = [self.release.whole(clocks, by_sc=by_sc) for by_sc in (False, True)]
        patterns = [pattern for whole in wholes for pattern in whole.patterns.values()]
        for known in [
            pattern.known for pattern in patterns if pattern.kind != RELEASE and pattern.scope in clocks.wave.run.wide
        ]:
            for far in (clocks.near_as_far(known.cluster.item(0), known.threads[0]), *known.far):
                fenced = joined_others(fenced, far[0]) if far else fenced
        return fenced


class Tickets:
    """The numbers that threads have taken and compare: by CTA and location, the last."""

    def __init__(self, orders: Mapping[Wave, WaveOrder], locations: Locations) -> None:
        self._orders = orders
        self._locations = locations
        self._taken: dict[int, dict[Where, _Ticket]] = {}

    def counted(self, access: AccessRecord) -> None:
        """Atomics have taken place, and `Locations` has recorded them."""
        site, wave, seen = access.site, access.team.wave, self._locations.seen
        fences = self._orders[wave].fences
        if not (site.how.atomic and site.compared) or site.polls or site.how.is_signal or not (seen and fences.latest):
            return
        for (row, thread), where in threads_of(access):
            cta = row + wave.first
            if (cta, thread) in seen and not fences.scopes(row, thread).isdisjoint(wave.run.wide):
                own = self._taken.setdefault(cta, {})
                own[where] = _Ticket(thread, access.time, seen[cta, thread])
                keep_newest(own, OBSERVATIONS)

    def clash_of(self, access: AccessRecord, found: Pairs) -> tuple[Clash | None, Pairs]:
        """As `clash_of` of earlier writes; where all of them come before numbers that were taken earlier, a plain
        access is a warning, and a volatile read, which no L1 answers, is right.
        """
        clash, pairs = clash_of(access, found, with_writer=True)
        sem, reads = access.site.how.sem, not access.site.write
        if clash is None or clash.is_benign or not self._taken or not (sem == "weak" or (sem == "volatile" and reads)):
            return clash, pairs
        strict, _ = clash_of(access, found, with_writer=True, excused=self._excused)
        return strict or (replace(clash, excuse=NUMBERED) if sem == "weak" else None), pairs

    def _excused(self, access: AccessRecord, pairs: Pairs) -> Bools:
        """Which of these are of a plain write, and of a thread that comes after a number that counts it?"""
        excused, weak = np.zeros(len(pairs), np.bool_), are_plain(access, pairs)
        for cta in np.unique(pairs.cta).tolist():
            for ticket in self._taken.get(cta, {}).values():
                left = np.flatnonzero(weak & ~excused & (pairs.cta == cta))
                of_ticket = (np.full(len(left), value) for value in (cta, ticket.thread, ticket.time))
                after = access.clocks.knows(pairs.row[left], pairs.knower[left], *of_ticket)
                left = left[after | (pairs.thread[left] == ticket.thread)]
                done = Stamps(pairs.time[left], pairs.other_cta[left], pairs.other_thread[left])
                excused[left] = ticket.counts(access.clocks, done)
        return excused


# The detector of a run.


@dataclass(frozen=True, slots=True)
class ToldRace:
    """A race that was told. lines: of both accesses. until: the time of the later one, in its wave. apart: how far."""

    key: tuple[object, ...]
    buffer: str
    lines: frozenset[str]
    wave: Wave
    until: int
    apart: int

    def brings(self, clash: Clash, buffer: str, lines: frozenset[str]) -> bool:
        """Does another race at the same buffer follow from it? It has no other lines, or what would have put these two
        accesses in order does so for those as well, as a barrier just before the later access would.
        """
        if buffer != self.buffer:
            return False
        crosses = clash.other is not None and clash.other.time < self.until <= clash.access.time
        return lines <= self.lines or (crosses and clash.team.wave is self.wave)


ANYWHERE = 0  # where pointers of run time write


class RaceDetector:
    """Of one run. buffers: global ones by window, as those that overlap share one. warned: lines and their buffers."""

    def __init__(self, program: Subject, orders: Mapping[Wave, WaveOrder]) -> None:
        self.program = program
        self.orders = orders
        self.buffers: dict[int, TaggedPlaces] = {}
        self.locations = Locations(keeps_states=program.decides)
        self.volatile = VolatileReads(orders, program.sites)
        self.tickets = Tickets(orders, self.locations)
        self.swaps = SwapReads(program.kernel.body)
        self.warned: set[tuple[str, str]] = set()
        self.told: list[ToldRace] = []
        self.written = {site.place.window if site.place else ANYWHERE for site in program.sites if site.write}
        if any(access.write and access.space not in ("tmem", "shared") for _, access in program.touched):
            self.written.add(ANYWHERE)  # by addresses that are no operands

    def is_written(self, window: int) -> bool:
        """May anything write to a buffer?"""
        return not self.written.isdisjoint((window, ANYWHERE))

    def grain(self, window: int) -> int:
        """The narrowest access that may touch a place of a window, in bytes."""
        sites = [site for site in self.program.sites if site.place is None or site.place.window == window]
        starts = [site.place.start for site in sites if site.place and site.place.space == "global"]
        return gcd(min((site.width for site in sites), default=4), *starts)

    def buffer(self, place: Place, wave: Wave) -> TaggedPlaces:
        """The places of a global buffer."""
        if (window := place.window) not in self.buffers:
            nbytes = wave.run.blocks[place.name].nbytes
            self.buffers[window] = TaggedPlaces(f"window {window}", nbytes, self.grain(window))
        return self.buffers[window]

    def access(self, places: TaggedPlaces, event: AccessEvent) -> None:
        """Lanes touch places. Where that races with an earlier access it is told; in any case it is remembered."""
        order = self.orders[event.team.wave]
        at = event.in_cluster(places.pitch) if places.is_global and places.is_shared else event.at
        access = places.access(order.clocks, event, *event.team.busy(at))
        if (dependence := event.team.wave.run.dependence) is not None:
            dependence.comes(event.site, access.time)
        self._judge(access)
        places.remember(access)
        self.locations.touched(access, order.fences)
        if event.site.how.sem != "weak":
            self.volatile.counted(access)
            self.tickets.counted(access)

    def at_once(self, event: AccessEvent) -> bool:
        """Record accesses of shared memory that follow each other as one; False, and nothing done, where one may race,
        or concern more than later accesses.
        """
        order, site = self.orders[event.team.wave], event.site
        places, concerned = order.shared, order.operations is not None or bool(order.mbarriers.alive)
        if concerned or places.is_global or site.how.sem != "weak" or places.name in self.locations.memories:
            return False
        access = places.access(order.clocks, event, event.team, event.at)
        access.more = event.every[1:]
        if not places.is_surely_free(access):
            return False
        if site.write:
            places.write_later(access)
        places.remember(access)
        return True

    def _judge(self, access: AccessRecord) -> None:
        """Raises SimulationError where an access races with an earlier one. If it writes, it is recorded."""
        alike, unknown = self.meet(access)
        self._report(self.volatile.read(access, unknown))
        if not access.site.write:
            return
        if access.site.how.sem != "weak" and not is_strong_with_all(access, write=True):
            access.places.keep_frail(access)
        lost = access.places.write(access)
        if lost is not None:
            self._report(lost_store(access, *lost))
        many = lost[0] if lost is not None else None
        if unknown is not None and len(unknown) and (alike or access.site.how.sem != "weak"):
            lanes = unknown.lanes_in(access.seen.shape)
            many = lanes if many is None else many | lanes
        if many is not None:
            access.places.mark_many(access, many)

    def meet(self, access: AccessRecord) -> tuple[bool, Pairs | None]:
        """Raises SimulationError where it races; returns earlier writes that it does not know of, and whether it writes
        the same as they did, which is tolerated.
        """
        if access.places.is_calm(access.clocks, write=access.site.write):
            return False, None
        found = access.places.writes_before(access)
        clash, unknown = None, None
        if found is not None and is_strong_with_all(access, write=True):
            unknown = unordered(access, found)
        elif found is not None:
            clash, unknown = self.tickets.clash_of(access, found)
            self._report(clash)
        asks = access.site.write and not is_strong_with_all(access, write=False)
        found = access.places.reads_before(access) if asks else None
        self._report(clash_with_reads(access, found) if found is not None else None)
        return clash is not None and clash.excuse == EQUAL, unknown

    def _report(self, clash: Clash | None) -> None:
        """Tells of a race; warns where both wrote the same, or only a scope is missing after reads."""
        if clash is not None and clash.excuse == CHECKED and clash.other is not None:
            read, swap = sorted((clash.site, clash.other.site), key=lambda site: site.how.compares)
            clash = clash if self.swaps.finds_out(read.at, swap.at) else replace(clash, excuse="")
        if clash is not None and (clash.is_benign or self._is_spared(clash)):
            self._warn(clash if clash.is_benign else replace(clash, excuse=CHECKED))
        elif clash is not None:
            self._tell(clash)

    def _is_spared(self, clash: Clash) -> bool:
        """Is it one of a plain read and an atomic that the author's text has as an idiom?"""
        site, other, spares = clash.site, clash.other.site if clash.other else clash.site, self.program.kernel.spares
        read, atomic = (site, other) if other.how.atomic else (other, site)
        is_pair = atomic.how.atomic and not read.write and read.how.sem == "weak"
        return is_pair and bool(spares and spares(read.at, atomic.at))

    def _warn(self, clash: Clash) -> None:
        if (key := (str(clash.site.at), clash.site.line.buffer)) not in self.warned:
            self.warned.add(key)
            topic, facts = ("race", clash.excuse, clash.ends, clash.site.line.buffer), warned(self.program, clash)
            clash.team.wave.run.warn(warning(self.program, clash), *topic, facts=facts)

    def _may_depend(self, clash: Clash, key: Hashable) -> bool:
        """Does what is stored perhaps depend, by shuffles, on what the other lane has read? That is noted, and another
        run finds out.
        """
        run = clash.team.wave.run
        if not (self.program.with_shadows and self.program.kernel.compiled and clash.may_depend()):
            return False
        if run.excused is not None:
            return key in run.excused
        own, other = (cta * run.warps * 32 + thread for cta, thread in (clash.later, clash.earlier))
        assert clash.other is not None, "it may depend"
        read, store = Moment(clash.other.site, clash.other.time, other), Moment(clash.site, clash.access.time, own)
        if key not in run.doubts:
            excused = replace(clash, excuse=DEPENDENT)
            excuse = warning(self.program, excused), warned(self.program, excused)
            run.doubts[key] = Doubt(key, read, store, excuse)
        return True

    def _widen(self, clash: Clash, key: tuple[object, ...]) -> None:
        """Threads further apart race at the same lines, which the remedy has to keep apart, too."""
        for number, known_race in enumerate(self.told):
            if known_race.key == key and known_race.apart < clash.apart:
                self.told[number] = replace(known_race, apart=clash.apart)
                clash.team.wave.run.findings.entries[key].error.advise(self._error(clash).hint)

    def _error(self, clash: Clash) -> SimulationError:
        """What is said of a race; with a thread that has ended before a barrier, of that one, too."""
        run, other = clash.team.wave.run, clash.other
        error = report(self.program, clash, self.orders, self.buffers, self.locations)
        missed = (met for met in run.met_without.items() if met[1].threads[clash.earlier[1]])
        for at, meeting in [*missed][:1] if clash.apart <= 1 else ():
            error.given = told("{}\n{} was met without that one, which had ended", error.given, meeting.barrier)
            if (hint := for_all(at, meeting.barrier, other.site.at if other is not None else None)) is not None:
                error.hint, error.facts["remedy"] = hint, hint.remedy
        return error

    def _tell(self, clash: Clash) -> None:
        """A race is a finding of its own, or one more at the same two lines, or it follows from one told before."""
        run, other = clash.team.wave.run, clash.other
        buffer = buffer_name(self.program, clash.site, clash.access.shown_address(clash.lane)) or ""
        lines = frozenset({str(clash.site.at), str(other.site.at if other is not None else None)})
        key = ("races", buffer, lines)
        if run.findings.again(key):
            self._widen(clash, key)
            return
        if self._may_depend(clash, key):
            return
        if cause := next((each for each in self.told if each.brings(clash, buffer, lines)), None):
            run.findings.followed(cause.key)
            return
        if run.unwritten == "used" and ("poison", buffer) in run.findings.entries:
            run.findings.followed(("poison", buffer))  # told as that race by the run that looks for the writer
            return
        self.told.append(ToldRace(key, buffer, lines, clash.team.wave, clash.access.time, clash.apart))
        error = self._error(clash)
        if run.unwritten == "found":
            raise error
        run.findings.tell(key, error)
