"""Asynchronous operations: agents of their own, which begin after their issuers and are ordered before others only by
their completion. Commits and signals publish that, waits see it.

Of operations on global memory that are under way none writes where another one does, or reads, before that is over.
What a thread has waited for counts as its own access; the race check orders that. Reductions combine in any order.
Lanes that begin the same copy, as those of a warp where nobody elects one, write the same.

Behind them: accesses of threads while an operation may be incomplete, to registers, shared memory and global buffers;
and operations at places where others are.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from functools import partial
from math import gcd, prod
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from tilewright.explain import OtherAccess, place_of
from tilewright.isa import Touch
from tilewright.sim.machine import (
    WIDEST,
    WINDOW_BITS,
    AccessEvent,
    Actors,
    Address,
    Bools,
    Ints,
    Operation,
    Part,
    Site,
    Team,
    UnitView,
    Wave,
    arrivals_of,
    numbers,
)
from tilewright.sim.order.asynchronous.scoreboard import OperationPart, Parts, Scoreboard, keeps_order
from tilewright.sim.order.knowledge.clocks import Clocks
from tilewright.sim.order.knowledge.known import HEARD, OFFERED, SEEN, Known, Times, begun, published_flags
from tilewright.sim.order.reports.rules import (
    copied_twice,
    early_access,
    early_operation,
    early_tmem_operation,
    early_use,
    early_write,
    freed_early,
    unfenced_tmem,
    used_unwaited,
)
from tilewright.sim.order.rules import RemoteOperations
from tilewright.terms import Told, told

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

    from tilewright.errors import SimulationError, Span
    from tilewright.sim.machine import Place, Taken, Waiting
    from tilewright.sim.order.knowledge.known import Flags
    from tilewright.sim.order.races.detector import RaceDetector
    from tilewright.sim.order.races.places import TaggedPlaces
    from tilewright.sim.order.races.records import AccessRecord


WAITS = 16  # kept: for groups of operations, of a wave
ISSUER_BITS = 24


class GlobalWrites:
    """By window, for each unit of a buffer, which operation wrote it last, and for which of its issuers; 0 for none."""

    def __init__(self, wave: Wave) -> None:
        self.wave = wave
        there = (each for each in wave.run.program.touched if each[1].space in ("global", "generic"))
        self.unit = gcd(16, *(bound.count(access.nbytes) for bound, access in there))
        self._tables: dict[int, NDArray[np.int64]] = {}

    def begin(
        self, operations: Operations, now: Operation, one: UnitView
    ) -> tuple[int, Operation, int, int, str] | None:
        """An operation begins. Another one that may not have done there yet what it does: an issuer of the one, the
        other with its issuer, the window, and what it does.
        """
        for window, there in one.windows():
            if not one.writes and window not in self._tables:
                continue
            table = self._table(window)
            units, issuer = self._units(one, there)
            mine = now.number << ISSUER_BITS | issuer
            earlier = [(table[units], "written")]
            if one.writes:
                table[units] = mine
                earlier.append((table[units], "written"))
                earlier += [(found, "read") for found in self._readers(operations, now, one, units)]
            for found, did in earlier:
                if (found != mine).any() and (clash := _clash(operations, now, one, issuer, found, mine)) is not None:
                    return *clash, window, did
        return None

    def _units(self, one: UnitView, there: Bools) -> tuple[Ints, Ints]:
        """The units that an operation touches, and for which of its issuers."""
        width = np.arange(0, max(one.width, 1), self.unit)
        first = (one.at[there] & (1 << WINDOW_BITS) - 1)[:, None] + width
        issuer = np.broadcast_to(np.broadcast_to(one.along(one.issuer), one.at.shape)[there][:, None], first.shape)
        counts = width < (one.width if one.nbytes is None else one.nbytes[there][:, None])
        counts = np.broadcast_to(counts, first.shape)
        return first[counts] // self.unit, issuer[counts]

    def _readers(self, operations: Operations, now: Operation, one: UnitView, units: Ints) -> Iterator[Ints]:
        """For each operation that may still be reading global memory: which units, as the tables have it."""
        low, high = one.reach
        flags = operations.clocks.flags_of(now.issuers.actors[1], operations.parts.knowers(now))
        for other, parts in operations.scoreboard.in_global:
            for read in () if (flags[:, parts] & SEEN).all() else other.reads:
                if read.space in ("global", "generic") and read.reach[0] < high and low < read.reach[1]:
                    own, issuer = self._units(read, read.touches)
                    found = np.zeros(int(max(units.max(), own.max())) + 1, np.int64)
                    found[own] = other.number << ISSUER_BITS | issuer
                    yield found[units]

    def _table(self, window: int) -> NDArray[np.int64]:
        if window not in self._tables:
            nbytes = self.wave.run.blocks[self.wave.run.places.at(window, 0).name].nbytes
            self._tables[window] = np.zeros(-(-nbytes // self.unit) + 1, np.int64)
        return self._tables[window]


def _clash(
    operations: Operations, now: Operation, one: UnitView, issuer: Ints, found: Ints, mine: Ints
) -> tuple[int, Operation, int] | None:
    under_way = {part.operation.number: part.operation for part in operations.parts.values()}
    doubtful = (found != mine) & np.isin(found >> ISSUER_BITS, [*under_way])
    pairs = np.unique(np.stack((issuer[doubtful], found[doubtful])), axis=1).T if doubtful.any() else np.zeros((0, 2))
    for k, number in pairs.astype(np.int64).tolist():
        other, whose = under_way[number >> ISSUER_BITS], number & (1 << ISSUER_BITS) - 1
        in_order = keeps_order(other, now.instruction) and now.who(k) == other.who(whose)
        together = one.combines and all(each.combines for each in other.writes)
        if in_order or together or _is_over(operations, now, k, other, whose):
            continue
        if other is not now or not _are_alike(now, k, whose):
            return k, other, whose
        operations.warn(now, now.instruction.at, "written", partial(copied_twice, now, k, whose))
    return None


def _are_alike(now: Operation, k: int, whose: int) -> bool:
    """Do two lanes of a warp begin the same copy, from the same places to the same?"""
    threads = now.issuers.threads
    return threads[k] // 32 == threads[whose] // 32 and all(
        np.array_equal(values[one.issuer == k], values[one.issuer == whose])
        for one in (*now.reads, *now.writes)
        for values in (one.at, one.rows, one.touches)
    )


def _is_over(operations: Operations, now: Operation, k: int, other: Operation, whose: int) -> bool:
    """Has the issuer of another operation waited for it? Of no group: does that of this one know that it is over?"""
    if other.group:
        return not any(each is other and left[whose].any() for each, _, left in operations.unawaited)
    row, parts = int(now.issuers.rows[k]), operations.parts
    knower, thread = int(parts.knowers(now)[k * now.issuers.warps_each]), int(other.issuers.threads[whose])
    own = (part for part in parts.values() if part.operation is other and part.thread == thread)
    return any(parts.knows(row, knower, part, SEEN) for part in own)


# Accesses of operations as accesses of their issuers: when they are issued, and once they are waited for.


def places_of(
    races: RaceDetector, operation: Operation, one: UnitView, which: Bools | None = None
) -> Iterator[AccessRecord]:
    """The accesses of an operation as if its actors, or some of them, made them now."""
    if one.space == "tmem" or not one.count:
        return
    clocks = races.orders[operation.team.wave].clocks
    chosen = np.ones(len(operation.issuers.actors[0]), np.bool_) if which is None else which
    for place, places, part in _memories(races, operation.team, one):
        pitch = places.pitch if one.space == "shared" and places.is_global else 0
        if which is None and places.is_untouched(part.reach, place.name, write=one.writes):
            continue
        for team, address, nbytes in _accesses(operation, part, chosen, places, pitch):
            together = operation.issuers.lanes > 1
            how = Touch(collective=together, by_unit=one.proxy == "async")
            if one.combines:  # in any order with operations that combine, too
                how = replace(how, sem="relaxed", scope="gpu", element=one.width)
            site = Site(operation.instruction.at, operation.name, place, nbytes, one.writes, how)
            clocks.wave.now += 1
            yield places.access(clocks, AccessEvent(site, team, (address,), clocks.wave.now), team, address)


def _memories(races: RaceDetector, team: Team, one: UnitView) -> Iterator[tuple[Place, TaggedPlaces, UnitView]]:
    """The buffers that an operation touches, and its places in each."""
    if one.space == "shared":
        shared = races.program.places
        low, high = one.reach
        place = shared.shared_at(low)
        yield place if high <= place.start + place.nbytes else shared.arena, races.orders[team.wave].shared, one
        return
    for window, there in one.windows():
        if races.is_written(window):
            place = races.program.places.at(window, 0)
            nbytes = np.where(there, one.width if one.nbytes is None else one.nbytes, 0)
            at = one.at & (1 << WINDOW_BITS) - 1
            yield place, races.buffer(place, team.wave), replace(one, places=at, nbytes=None if there.all() else nbytes)


def awaited(races: RaceDetector, operations: Operations, waiting: Waiting) -> None:
    """An operation that a thread has waited for counts as its own access from now on, and the warp remembers it."""
    reads = waiting.effect.reads
    alone = [each for each in operations.awaited(waiting) if each[0].issuers.lanes == 1]
    for operation, own, over in alone:
        operations.scoreboard.retire(operation, own, over, reads=reads)
        before = operations.have_read.get(operation.number, np.zeros_like(over))
        for one in operation.reads if reads else operation.touched:
            _did(races, operation, one, over & ~before if reads or not one.writes else over, waiting.at)
        if reads:  # later waits say nothing new of that
            operations.have_read[operation.number] = before | over
        elif operation.is_remote:
            races.orders[operation.team.wave].remote.awaited(operation, over)
    if not reads:
        operations.retired((own, over) for _, own, over in alone)


def _did(races: RaceDetector, operation: Operation, one: UnitView, over: Bools, at: Span | None) -> None:
    stores = races.orders[operation.team.wave].stores
    for access in places_of(races, operation, one, over):
        access.site.over = at
        access.places.remember(access)
        if access.event and one.writes and one.space == "shared" and stores is not None and one.proxy == "generic":
            stores.accessed(access.event)
        if one.writes:
            access.places.write(access)


def _accesses(
    operation: Operation, one: UnitView, which: Bools, places: TaggedPlaces, pitch: int
) -> Iterator[tuple[Team, Address, int]]:
    """The places of an operation as accesses of its issuers: lanes, addresses, and bytes of each.

    which: of the actors. A warp that acts as one does so by its first lane. pitch: from the shared memory of one CTA of
    a wave to that of the next.
    """
    number, rows, threads = operation.issuers.actors
    look, nth = operation.team.look, np.zeros(len(one.issuer), np.int64)
    order = np.argsort(one.issuer, kind="stable")
    first = np.searchsorted(one.issuer[order], one.issuer[order], "left")
    nth[order] = np.arange(len(order)) - first
    ctas, warps = np.searchsorted(numbers(look.ctas), rows), np.searchsorted(numbers(look.warps), threads // 32)
    where = ctas, warps, threads % 32
    for turn in range(int(nth.max(initial=-1)) + 1):
        chosen = np.full(len(operation.issuers.rows), -1)
        chosen[one.issuer[nth == turn]] = np.flatnonzero(nth == turn)
        actors = np.flatnonzero(which & (chosen[number] >= 0))
        if not len(actors):
            continue
        counts = one.touches[chosen[number[actors]]].reshape(len(actors), -1)
        alike = _alike(counts)
        for kind in range(int(alike.max()) + 1):
            those = actors[alike == kind]
            flat = (one.at + one.rows * pitch)[chosen[number[those]]].reshape(len(those), -1)
            most = WIDEST * places.grain // places.tag.itemsize
            flat, width = in_runs(flat[:, counts[alike == kind][0]], one.width, most)
            if width < places.grain:
                places.refine(width)
            for column in range(flat.shape[1])[
                ::-1
            ]:  # the last first: often one of another warp, so that the report names the wider barrier
                active, full = np.zeros(look.shape, np.bool_), np.zeros(look.shape, np.int64)
                there = tuple(axis[those] for axis in where)
                active[there] = True
                full[there] = flat[:, column]
                yield Team(look, None if active.all() else active), Address(0, Part(full)), width


def _alike(flags: Bools) -> Ints:
    """A number for each row of flags, the same for equal rows; mostly all are."""
    if (flags == flags[:1]).all():
        return np.zeros(len(flags), np.int64)
    packed = np.packbits(flags, axis=1)
    words = np.pad(packed, ((0, 0), (0, -packed.shape[1] % 8))).view(np.uint64)
    return np.asarray(np.unique(words, axis=0 if words.shape[1] > 1 else None, return_inverse=True)[1].reshape(-1))


def in_runs(address: Ints, nbytes: int, most: int) -> tuple[Ints, int]:
    """Reads of ``nbytes`` at (threads, n) addresses, as fewer and wider ones where they are neighbours."""
    address = np.sort(address, axis=1)
    while 2 * nbytes <= most and address.shape[1] and address.shape[1] % 2 == 0:
        first, then = address[:, ::2], address[:, 1::2]
        if (first % (2 * nbytes)).any() or (then != first + nbytes).any():
            break
        address, nbytes = first, 2 * nbytes
    return address, nbytes


DONE = {"reading": "read", "writing": "written", "filled": "written"}


class Operations:
    """The operations of a wave, until all that may wait for them have seen them complete.

    unawaited: those that some thread has not waited for, and which threads, (n, lanes).
    warned: of an operation and a later line, what was said already.
    committed: what commits, or signals of their own, will publish, and up to when they come after each thread. commits:
    those that a part may still need, with the parity of the phase that each helps to end. have_read: of an unawaited
    operation, by its number, the actors that have waited until its sources were read.
    """

    def __init__(self, clocks: Clocks) -> None:
        self.clocks = clocks
        self.wave = clocks.wave
        self.parts = Parts(clocks)
        self.scoreboard = Scoreboard(self.parts)
        self.remote = RemoteOperations(clocks)
        self.unawaited: list[tuple[Operation, Ints, Bools]] = []
        self.committed: dict[int, tuple[Known, Times]] = {}
        self.global_writes = GlobalWrites(self.wave)
        self.commits: list[tuple[Operation, int]] = []
        self.have_read: dict[int, Bools] = {}
        self.waits: deque[Waiting] = deque(maxlen=WAITS)
        self.warned: set[tuple[str, str, str]] = set()

    def warn(self, earlier: Operation | OperationPart, at: Span | None, did: str, text: Callable[[], Told]) -> None:
        """Say once what is missing between an operation and line ``at``."""
        operation = earlier.operation if isinstance(earlier, OperationPart) else earlier
        if (key := (str(operation.instruction.at), str(at), did)) not in self.warned:
            self.warned.add(key)
            what = text()
            facts = {**place_of(at), "operation": operation.name, "remedy": what.remedy}
            self.wave.run.warn(told("{}: {}", at, what), "operation", operation.name, did, facts=facts)

    def tell(self, error: SimulationError, earlier: Operation | OperationPart, did: str) -> None:
        """An access comes too early: a finding about the earlier operation, and what that may still do."""
        operation = earlier.operation if isinstance(earlier, OperationPart) else earlier
        at, done = operation.instruction.at, DONE.get(did, did)
        error.facts |= {"operation": operation.name, "other": OtherAccess(operation.name, done, **place_of(at))}
        self.wave.run.tell(error, str(at), done)

    def new_parts(self, operation: Operation) -> tuple[list[OperationPart], Ints]:
        """The parts of an operation, and for each of its actors the number of its own."""
        keys, which = self.parts.keys_of(operation)
        while len(self.parts.free) < len(keys):
            self._make_room(len(keys))
        parts = [OperationPart(self.parts.free.pop(), operation, *key) for key in keys]
        for part in parts:
            self.parts.add(part)
        own = np.array([part.number for part in parts])[which]
        if operation.group:
            unawaited = np.ones((len(operation.issuers.rows), operation.issuers.lanes), np.bool_)
            self.unawaited.append((operation, own, unawaited))
        return parts, own

    def _make_room(self, wanted: int) -> None:
        """Free the numbers that are no longer in use; where most still are, double their count."""
        used = self.scoreboard.used()
        used[[number for each in self.unawaited if each[0].issuers.lanes > 1 for number in each[1].tolist()]] = True
        under_way = {operation.number for operation in self.wave.pending.queue}
        used[[number for number, part in self.parts.items() if part.operation.number in under_way]] = True
        self._forget([number for number in self.parts if not used[number]])
        if 2 * len(self.parts) > len(used) or len(self.parts.free) < wanted:
            self.parts.widen()

    def _forget(self, gone: list[int]) -> None:
        self.parts.forget(gone)
        self.remote.forget(gone)
        alive = {part.operation.number for part in self.parts.values()}
        spans = self.scoreboard.spans
        self.scoreboard.spans = {number: span for number, span in spans.items() if number in alive}
        oldest = min(alive, default=self.wave.pending.last)
        self.commits = [commit for commit in self.commits if commit[0].number > oldest]

    def commit(self, commit: Operation) -> None:
        """Record a commit: it will publish what its threads have issued by now, and what they know of others'
        operations.

        It is itself the fence before a meeting. It does not hand on other accesses of its threads.
        """
        rows, threads = commit.issuers.rows, commit.issuers.threads
        flags = self.clocks.flags_of(rows, self.clocks.knower[threads])
        mine = np.where(self.parts.of_threads(rows, threads, commit.group), SEEN, 0).astype(flags.dtype)
        flags = published_flags(np.asarray(flags | mine | (flags | mine) << 1 & OFFERED))
        self._will_publish(commit, flags)
        first = commit.signals[-1]
        parity = int(arrivals_of(self.wave, *([each[:1] for each in (first.rows, first.rows, first.at)])).phase[0]) % 2
        self.commits.append((commit, parity))

    def will_signal(self, operation: Operation, own: Ints) -> None:
        """Record an operation that signals its own completion, which is all that the signal publishes."""
        rows = operation.issuers.rows
        flags = np.zeros((len(rows), self.clocks.parts.shape[-1]), self.clocks.parts.dtype)
        flags[operation.issuers.actors[0], own] = SEEN
        self._will_publish(operation, flags)

    def _will_publish(self, operation: Operation, flags: Flags) -> None:
        """The completion of an operation will publish these flags, and no access of a thread."""
        rows, threads = operation.issuers.rows, operation.issuers.threads
        after = self.clocks.published(Actors.threads(rows, threads)).threads
        known = Known(begun(after, self.clocks.size), flags, self.clocks.cluster_of(rows))
        self.committed[operation.number] = known, after
        self.clocks.kept.append(known)

    def completed(self, operation: Operation) -> tuple[Known, Times] | None:
        """What the completion of an operation publishes, and up to when it comes after each thread."""
        if (found := self.committed.pop(operation.number, None)) is not None:
            self.clocks.kept.remove(found[0])
        return found

    def awaited(self, waiting: Waiting) -> Iterator[tuple[Operation, Ints, Bools]]:
        """Threads have waited: the operations that are over for some, their numbers, and for which actors."""
        self.waits.append(waiting)
        for operation, own, unawaited in [*self.unawaited]:
            now = unawaited & waiting.covers(operation)
            if not now.any():
                continue
            number, rows, threads = operation.issuers.actors
            over: Bools = np.asarray(now.reshape(len(number), -1).any(1))
            if operation.issuers.lanes > 1:
                if waiting.effect.reads and operation.writes:
                    if self.parts[int(own[0])].writes_alone:
                        continue
                    self._part_writes(operation, own, now, over)
                self.clocks.complete(rows[over], threads[over] // 32, own[over])
            if not waiting.effect.reads or operation.issuers.lanes > 1:
                unawaited &= ~now
            if waiting.effect.reads:
                self.remote.has_read(operation, over)
            yield operation, own, over
        self.unawaited = [each for each in self.unawaited if each[2].any()]
        left = {operation.number for operation, _, _ in self.unawaited}
        self.have_read = {number: actors for number, actors in self.have_read.items() if number in left}
        self.scoreboard.awaited(waiting)

    def _part_writes(self, operation: Operation, own: Ints, now: Bools, over: Bools) -> None:
        """Warps know that their parts of an operation have read: what these write has other numbers from now on."""
        parts, other = self.new_parts(operation)
        for part in parts:
            part.writes_alone = True
        self.unawaited[-1] = operation, other, now.copy()
        self.scoreboard.renumber(operation, own, np.where(over, other, own))
        self.remote.renumber(operation, np.where(over, other, own))

    def retired(self, over: Iterable[tuple[Ints, Bools]]) -> None:
        """These parts of operations, by number and actor, are complete and known. Numbers that no other CTA still waits
        for are free again.
        """
        waited_for = [each for each in self.unawaited if each[0].issuers.lanes == 1]
        left = {id(own): set(own[unawaited[:, 0]].tolist()) for _, own, unawaited in waited_for}
        gone = {number for own, now in over for number in set(own[now].tolist()) - left.get(id(own), set())}
        if gone:
            self._forget(sorted(gone))
            self.scoreboard.in_global = [
                each for each in self.scoreboard.in_global if not self.parts.keys().isdisjoint(each[1].tolist())
            ]


def check_in_flight(operations: Operations, event: AccessEvent) -> None:
    """Registers are used: may an operation still be filling them, or reading what is written now?"""
    site, team, name, (low, high) = event.site, event.team, event.site.known.name, event.span
    issuing = operations.wave.pending.issuing
    for loading in operations.scoreboard.loading:
        issue = loading.operation.form.issue
        alone = issue is not None and issue.fenced and issuing is None
        held = [
            fills
            for first, end, fills in loading.operation.register_spans.get(name, ())
            if (site.write or fills or alone) and low < end and first < high
        ]
        if not held:
            continue
        waiting = loading.warps[team.ctas, team.warps] & team.full.any(-1)
        if not waiting.any() or (issuing is not None and keeps_order(loading.operation, issuing)):
            continue
        rows, warps = team.look.places(waiting)
        row, warp = int(rows[0]), int(warps[0])
        earlier = loading.part(warp, int(operations.parts.ranks[row]))
        if issue is not None and issue.stalls and not site.write and issuing is None:
            operations.warn(earlier, site.at, "used", partial(used_unwaited, name, earlier))
            operations.wave.pending.complete(loading.operation)
            loading.use = loading.use if loading.used.any() else (name, site.at)
            loading.used[team.ctas, team.warps] |= waiting
            continue
        did = "filled" if any(held) else "read"
        operations.tell(early_use(operations, name, earlier, (row, warp), site.at, did), earlier, did)


def check_stored(operations: Operations | None, team: Team, at: Span | None) -> None:
    """Threads store: has a warp of theirs used a register before the wait for the load that fills it, and not waited
    since?
    """
    if operations is None:
        return
    for loading in operations.scoreboard.loading:
        hasty = loading.used[team.ctas, team.warps] & loading.warps[team.ctas, team.warps] & team.full.any(-1)
        if hasty.any():
            rows, numbers = team.look.places(hasty)
            row, warp = int(rows[0]), int(numbers[0])
            name, use = loading.use
            earlier = loading.part(warp, int(operations.parts.ranks[row]))
            early = early_use(operations, name, earlier, (row, warp), use, "filled", stored=at)
            operations.tell(early, earlier, "filled")
            loading.used[team.ctas, team.warps] &= ~hasty


def check_shared(operations: Operations | None, event: AccessEvent) -> None:
    """Threads touch shared memory: may an operation still be writing it, or reading what is written now?"""
    if operations is None or not (scoreboard := operations.scoreboard).spans:
        return
    site, (low, high) = event.site, event.span
    if not (site.is_remote or any(first < high and low < end for first, end in scoreboard.spans.values())):
        return
    (rows, warps, lanes), (there, address) = event.team.threads, event.places
    knowers = operations.clocks.knower[32 * warps + lanes]
    for table, did in [
        (scoreboard.filling, "writing"),
        *((each, "reading") for each in scoreboard.holders.values() if site.write),
    ]:
        for byte in range(0, max(site.width, 1) + scoreboard.unit - 1, scoreboard.unit):
            unit = np.minimum((address + min(byte, site.width - 1)) // scoreboard.unit, table.shape[1] - 1)
            number = table[scoreboard.at(there), unit]
            complete = operations.clocks.parts[rows, knowers, number] & SEEN != 0
            if not complete.all():
                k = int(np.argmin(complete))
                earlier = operations.parts[int(number[k])]
                place = int(rows[k]), int(knowers[k])
                operations.tell(early_access(operations, site, earlier, place, int(warps[k]), did), earlier, did)


def check_global(operations: Operations, event: AccessEvent) -> None:
    """Threads touch a global buffer: may an operation still be writing it, or reading what is written now?"""
    base, site = event.site.known.window << WINDOW_BITS, event.site
    low, high = (base + byte for byte in event.span)
    for operation, own in operations.scoreboard.in_global:
        for one in operation.touched:
            if one.space in ("shared", "tmem") or not (site.write or one.writes):
                continue
            first, last = one.reach
            if last <= low or first >= high:
                continue
            _check_each(operations, event, base, (operation, own, one))


def _check_each(
    operations: Operations, event: AccessEvent, base: int, flight: tuple[Operation, Ints, UnitView]
) -> None:
    site, (operation, own, one) = event.site, flight
    numbers = np.broadcast_to(one.along(own[one.issuer]), one.at.shape)[one.touches]
    order = np.argsort(one.at[one.touches], kind="stable")
    places, numbers = one.at[one.touches][order], numbers[order]
    (rows, warps, lanes), own_address = event.team.threads, base + event.places[1]
    knowers = operations.clocks.knower[32 * warps + lanes]
    first = np.searchsorted(places, own_address - one.width, "right")
    last = np.searchsorted(places, own_address + site.width, "left")
    for k in np.flatnonzero(first < last).tolist():
        for number in set(numbers[first[k] : last[k]].tolist()) & set(operations.parts):
            earlier = operations.parts[number]
            if earlier.operation is operation and not operations.clocks.parts[rows[k], knowers[k], number] & SEEN:
                place = (int(rows[k]), int(knowers[k]))
                did = "writing" if one.writes else "reading"
                operations.tell(early_access(operations, site, earlier, place, int(warps[k]), did), earlier, did)


# Checks of the places that asynchronous operations touch: cells of tensor memory, registers, their sources.


NOBODY = np.zeros((), np.int32)

Cells: TypeAlias = "tuple[Ints, UnitView]"


def check_issue(operations: Operations, operation: Operation) -> None:
    """An operation begins: do its accesses come after those before? They are recorded for later operations."""
    if any(one.writes for one in operation.touched):
        check_stored(operations, operation.team, operation.instruction.at)
    parts, own = operations.new_parts(operation)
    if operation.issuers.lanes > 1:
        _, rows, threads = operation.issuers.actors
        operations.clocks.reunite(rows, threads // 32)
    for one in (*operation.reads, *operation.writes):
        if one.space == "tmem":
            _touch(operations, operation, own, one)
        elif one.space == "shared":
            _touch_bytes(operations, operation, own, one)
        elif found := operations.global_writes.begin(operations, operation, one):
            operations.tell(early_write(operations, operation, one, found), found[1], found[4])
    operations.scoreboard.begun(operation, parts, own)
    operations.remote.add(operation, own)
    if operation.signals:
        operations.will_signal(operation, own)


def _touch_bytes(operations: Operations, operation: Operation, own: Ints, every: UnitView) -> None:
    """Has every operation that writes these bytes, or that reads what is written now, been seen complete before?"""
    scoreboard = operations.scoreboard
    one, flags = scoreboard.view(every), scoreboard.flags_of_issuers(operation)
    mine = one.along(own[one.issuer * operation.issuers.warps_each])
    for where in scoreboard.units_of(one):
        early = _early(operation, own, scoreboard, one, where, flags)
        if early is not None and scoreboard.part():  # find the CTA that does not know
            _touch_bytes(operations, operation, own, every)
            return
        if early is not None:
            operations.tell(early_operation(operations, operation, one, *early), *early[1:])
        if not one.writes:
            scoreboard.hold(operation, own, one, where)
            continue
        scoreboard.filling[where] = np.where(one.touches, mine, scoreboard.filling[where])
        lost = one.touches & (scoreboard.filling[where] != mine)
        if lost.any() and not one.combines:
            earlier = operations.parts[int(scoreboard.filling[where][lost][0])]
            error = early_operation(operations, operation, one, np.argwhere(lost)[0], earlier, "written")
            operations.tell(error, earlier, "written")


def _early(
    now: Operation, own: Ints, scoreboard: Scoreboard, one: UnitView, where: tuple[Ints, Ints], flags: Flags
) -> tuple[NDArray[np.int64], OperationPart, str] | None:
    """A place of units of shared memory, ``where``, that an earlier operation may still use: the place in ``one``, the
    part of the operation, and what that did there. own: the parts of the one that begins now. flags: what its issuers
    know.
    """
    actor = one.issuer * now.issuers.warps_each
    readers, issuer, mine = scoreboard.holders.values() if one.writes else (), one.along(one.issuer), own[actor]
    for table, did in ((scoreboard.filling, "written"), *((table, "read") for table in readers)):
        before = np.where(one.touches, table[where], 0)
        seen = flags[issuer, before] & SEEN != 0
        seen |= (before == one.along(mine)) & (not one.writes or (one.combines and did == "read"))
        if one.combines:  # atomic, whichever is first
            seen |= np.isin(before, _combining(scoreboard.parts, before))
        for number in np.unique(before[~seen]).tolist():
            queued = scoreboard.parts.are_queued(number, now, own, unless=np.zeros(len(own), np.bool_))
            seen |= before == one.along(np.where(queued, number, -1)[actor])
        if not seen.all():
            return np.argwhere(~seen)[0], scoreboard.parts[int(before[~seen][0])], did
    return None


def _combining(parts: Parts, numbers: NDArray[np.int32]) -> list[int]:
    """The parts among these that combine the old bytes with values of their own, as a reduction does."""
    found = {number: parts.get(number) for number in np.unique(numbers).tolist()}
    return [k for k, part in found.items() if part and any(one.combines for one in part.operation.touched)]


def _touch(operations: Operations, operation: Operation, own: Ints, one: UnitView) -> None:
    """Has every operation that touched these cells before been put in order before this one?"""
    scoreboard = operations.scoreboard
    issuer, cells = one.counted_cells
    actor, writes = issuer * operation.issuers.warps_each, one.writes
    for table, did in scoreboard.touched if writes else scoreboard.touched[:1]:
        _check_order(operations, operation, own, (actor, one), _by_row(cells.load(table)), did)
    mine = own[actor].reshape(-1, *[1] * (cells.ndim - 1))
    if not writes:
        for group in np.unique(warpgroup := operation.issuers.threads[issuer] // 128):
            of_group = warpgroup == group
            cells.some(of_group).store(scoreboard.readers[group], mine[of_group])
        return
    for readers in scoreboard.readers:
        cells.store(readers, NOBODY)
    if cells.are_apart:
        cells.store(scoreboard.writers, mine)
        return
    last_to_first = np.arange(len(issuer))[::-1]  # of several that write a cell at once, the first stays
    cells.some(last_to_first).store(scoreboard.writers, mine[last_to_first])
    if len(own) > 1:
        _check_order(operations, operation, own, (actor, one), _by_row(cells.load(scoreboard.writers)), "written")


def _by_row(cells: NDArray[np.int32]) -> NDArray[np.int32]:
    return cells.reshape(len(cells), prod(cells.shape[1:]))


def _check_order(
    operations: Operations, now: Operation, own: Ints, cells: Cells, before: NDArray[np.int32], did: str
) -> None:
    """cells: the actors, and what they touch; before: the numbers of the parts that have touched that."""
    actor, one = cells
    some = before[:, :1] if (before == before[:, :1]).all() else before
    for number in np.unique(some).tolist():
        in_order = operations.parts.are_ordered(number, now, own)
        if not in_order.all():
            here = (before == number).any(1) & ~in_order[actor]
            in_order |= _complete_unfenced(operations, now, actor[here], number, did)
        if not in_order.all() and (wrong := ~in_order[actor][:, None] & (before == number)).any():
            k = int(np.argmax(wrong.any(1)))
            _, _, lane, column = one.cells
            place = lane[k][wrong[k]], column[k][wrong[k]]
            earlier = operations.parts[number]
            operations.tell(early_tmem_operation(operations, earlier, now, int(actor[k]), place, did), earlier, did)


def _complete_unfenced(operations: Operations, now: Operation, actor: Ints, number: int, did: str) -> Bools:
    """For each actor of an operation: does it know that a part is complete? Of those that touch the same cells, which
    are given, this is a warning, as they lack the fences of tensor memory.
    """
    complete = operations.parts.are_complete(number, now)
    if (unfenced := complete[actor]).any():
        earlier, k = operations.parts[number], int(actor[np.argmax(unfenced)])
        operations.warn(earlier, now.instruction.at, did, partial(unfenced_tmem, operations, earlier, now, k, did))
    return complete


def check_freed(operations: Operations, place: tuple[int, int], taken: Taken, at: Span | None) -> None:
    """Columns are given back by a warp, ``place`` is its row and number: is every operation on them complete?"""
    row, warp = place
    operations.clocks.reunite(np.array([row]), np.array([warp]))
    columns = slice(taken.first, taken.first + taken.columns)
    for table, did in operations.scoreboard.touched:
        before = table[row, columns]
        complete = operations.clocks.parts[row, warp][before] & (SEEN | HEARD) != 0
        if not complete.all():
            earlier = operations.parts[int(before[~complete].min())]
            operations.tell(freed_early(operations, earlier, place, at, did), earlier, did)
        before[...] = 0
