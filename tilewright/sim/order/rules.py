"""Rules that hold in every schedule, each checked in any run: of operations on other CTAs' shared memory, of
m-barriers, of what is read through the cache of constants, and of barriers.

Source: PTX ISA, "Cluster: distributed shared memory"; "Asynchronous operations".
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tilewright.explain.rules import broken
from tilewright.isa import Signal, phase_of
from tilewright.sim.machine import OFFSET_BITS, in_turns
from tilewright.sim.order.knowledge.clocks import THREADS, Actors
from tilewright.sim.order.knowledge.known import BEGUN, OVER, SEEN
from tilewright.sim.order.reports.rules import (
    constant_rewritten,
    constant_written,
    early_arrival,
    ended_early,
    ends_before_operation,
    ends_between_signals,
    uninitialised,
    wrong_time,
)
from tilewright.sim.order.reports.words import shared_text
from tilewright.terms import Term

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tilewright.errors import SimulationError, Span
    from tilewright.sim.machine.arrays import Bools, Ints
    from tilewright.sim.machine.event import AccessEvent, Signals
    from tilewright.sim.machine.operation import Operation
    from tilewright.sim.machine.subject import Subject
    from tilewright.sim.machine.sync import BarrierSite
    from tilewright.sim.machine.units import UnitView
    from tilewright.sim.machine.wave import Wave
    from tilewright.sim.order.knowledge.clocks import Clocks
    from tilewright.sim.order.races.places import TaggedPlaces

MBARRIER_CHECKS = 256  # kept: that have passed
REMOTE_OPERATIONS = 64  # kept, before those that are known to be complete are left out

# Accesses to the shared memory of other CTAs, which must have begun by then and must not have ended, and arrivals of
# commits.
#
# Source: PTX ISA, "Cluster: distributed shared memory".


@dataclass(frozen=True, slots=True)
class RemoteAccess:
    """Accesses of a thread to the shared memory of the CTA ``home``. phase: of the m-barrier at that offset, -1 for
    none. commit: the operation by which the thread arrives there, which no barrier of threads covers.
    """

    home: int
    row: int
    thread: int
    offset: int
    phase: int
    commit: Operation | None = None

    @property
    def way(self) -> tuple[int, int, int]:
        """From which thread it goes to which CTA. Commits arrive there in their order."""
        return self.home, self.row, self.thread


class RemoteAccesses:
    """Those of a wave. left: the time of the last of each kind, a byte that it touches, and its line."""

    def __init__(self, clocks: Clocks, cluster: ClusterMeetings) -> None:
        self.clocks = clocks
        self.cluster = cluster
        self.wave = clocks.wave
        self.left: dict[RemoteAccess, tuple[int, int, Span | None]] = {}

    def before_begin(self, who: Actors, homes: Ints, byte: int, at: Span | None) -> SimulationError | None:
        """Threads touch the memory of CTAs, first of all a byte: the error if one of these may not have begun."""
        far = homes != who.rows
        if not far.any():
            return None
        which, lanes = np.nonzero(who.lanes & far[:, None])
        threads = 32 * who.warps[which] + lanes
        each = np.stack((who.rows[which], self.clocks.knower[threads], homes[which]))
        new = np.ones(len(which), np.bool_)  # neighbouring lanes mostly know the same
        new[1:] = (each[:, 1:] != each[:, :-1]).any(0)
        begun = self._know_begun(*each[:, new])
        if begun.all():
            return None
        k = int(np.flatnonzero(new)[np.argmin(begun)])
        row, _, home = each[:, k].tolist()
        return wrong_time("cta not begun", self.wave, (row, int(threads[k])), (home, byte), at)

    def _know_begun(self, rows: Ints, knowers: Ints, homes: Ints) -> Bools:
        """Does each knower come after anything that a thread of the CTA in ``homes`` did, by any way?"""
        clocks, begun = self.clocks, np.zeros(len(rows), np.bool_)
        columns = clocks.first_column(homes)[:, None] + np.flatnonzero(self.wave.run.exists.reshape(-1))
        for block in (0, clocks.loose, *clocks.by_sc.first.values(), *clocks.of_shared):
            begun |= (clocks.known[rows[:, None], knowers[:, None], block + columns] >= BEGUN).any(1)
            if begun.all():
                break
        return begun

    def issued(self, operation: Operation) -> None:
        """An operation begins. Raises SimulationError where it touches the memory of a CTA that may not have begun."""
        issuers = operation.issuers
        for one in operation.in_ctas if issuers.cluster_ctas > 1 else ():
            far = one.rows != one.along(issuers.rows[one.issuer])
            if far.any():
                far &= True if one.nbytes is None else one.nbytes > 0
                issuer = np.broadcast_to(one.along(one.issuer), one.rows.shape)
                which, homes = np.divmod(np.unique((issuer * self.wave.ctas + one.rows)[far]), self.wave.ctas)
                who = Actors.threads(issuers.rows[which], issuers.threads[which])
                if error := self.before_begin(who, homes, int(one.at.flat[0]), operation.instruction.at):
                    raise error

    def touched(
        self, signals: Signals, byte: int, at: Span | None, *, arrives: bool, early: SimulationError | None
    ) -> None:
        """Threads have touched the memory of CTAs, first of all a byte; one lane of each warp stands for all. Raises
        ``early``: what `before_begin` had said, as the access itself may tell the thread more.
        """
        if early is not None:
            raise early
        self.clocks.wave.tick()
        for k in np.flatnonzero(signals.home != signals.who.rows).tolist():
            row, lane = int(signals.who.rows[k]), int(signals.who.lanes[k].argmax())
            thread, phase = int(signals.who.warps[k]) * 32 + lane, int(signals.phase[k]) if arrives else -1
            home, offset = int(signals.home[k]), int(signals.offset[k])
            self.left[RemoteAccess(home, row, thread, offset, phase)] = self.clocks.wave.now, byte, at

    def awaited(self, operation: Operation, over: Bools) -> None:
        """Threads have waited for an operation, which counts as their own access from now on."""
        self.clocks.wave.tick()
        rows, threads = operation.issuers.rows, operation.issuers.threads
        for one in operation.in_ctas:
            homes = one.rows.reshape(len(one.issuer), -1)[:, 0]
            for k in np.flatnonzero(over[one.issuer] & (homes != rows[one.issuer])).tolist():
                row, thread = (int(each[one.issuer[k]]) for each in (rows, threads))
                access = RemoteAccess(int(homes[k]), row, thread, 0, -1)
                self.left[access] = self.clocks.wave.now, int(one.at.flat[0]), operation.instruction.at

    def phase_over(self, signals: Signals) -> None:
        """Threads have found the phase of arrivals over: the CTAs of these m-barriers still ran."""
        now = dict(zip(signals.places(), signals.phase.tolist(), strict=True))
        over = [one for one in self.left if now.get((one.home, one.offset), one.phase) != one.phase >= 0]
        newest = {one.way: one.commit.number for one in over if one.commit}
        over += [one for one in self.left if one.commit and one.commit.number < newest.get(one.way, 0)]
        for one in over:
            self.left.pop(one, None)

    def committed(self, operation: Operation, one: UnitView, signals: Signals) -> None:
        """A commit is about to arrive at m-barriers; ``one`` are its signals."""
        issuers = operation.issuers
        for k in np.flatnonzero(signals.home != signals.who.rows).tolist():
            row, home, offset = int(signals.who.rows[k]), int(signals.home[k]), int(signals.offset[k])
            issuer = one.issuer[np.argmax((issuers.rows[one.issuer] == row) & (one.rows == home))]
            access = RemoteAccess(home, row, int(issuers.threads[issuer]), offset, int(signals.phase[k]), operation)
            self.left[access] = self.clocks.wave.now, offset, operation.instruction.at

    def closed(self) -> None:
        """The CTAs have ended. Raises SimulationError where one of them does not come after an access to its memory."""
        for one, (time, byte, at) in self.left.items():
            if one.commit is not None:
                issuers = one.commit.issuers
                issuer = int(np.argmax((issuers.rows == one.row) & (issuers.threads == one.thread)))
                raise ends_before_operation(one.commit, issuer, one.home, is_known=False)
            column = int(self.clocks.first_column(np.array(one.row))) + one.thread
            met = self.cluster.has_met(*(np.array(value) for value in (one.home, one.row, one.thread, time)))
            if not (met or (self.clocks.known[one.home, :, column] >= time).any()):
                raise wrong_time("cta ended", self.wave, (one.row, one.thread), (one.home, byte), at)


# m-barriers: made once, and before anybody signals them or waits for them; ended after that, before other uses.
#
# Source: PTX ISA, "mbarrier.init", "mbarrier.inval".


WORD = 8  # bytes of an m-barrier
NEVER = 1 << 62  # a time
UNMADE = np.array([[0], [NEVER], [NEVER]])


class MBarrierRules:
    """The m-barriers of a wave. alive: by offset, (3, CTAs): the thread of its CTA that made it, the time, and that at
    which this thread first passed a fence for the cluster since; `UNMADE` where there is none.
    """

    def __init__(self, clocks: Clocks, cluster: ClusterMeetings) -> None:
        self.clocks = clocks
        self.cluster = cluster
        self.wave = clocks.wave
        self.alive: dict[int, Ints] = defaultdict(lambda: UNMADE.repeat(clocks.wave.ctas, axis=1))
        self._checked: set[tuple[bytes, ...]] = set()  # see `_was_checked`

    def _was_checked(self, *use: Ints | Bools) -> bool:
        """Did the same threads use the same m-barriers before? What threads know, they go on knowing; and a check that
        fails ends the run.
        """
        key = tuple(each.tobytes() for each in use)
        if key in self._checked:
            return True
        if len(self._checked) >= MBARRIER_CHECKS:
            self._checked.clear()
        self._checked.add(key)
        return False

    # m-barriers are made and ended

    def initialised(self, signals: Signals, at: Span | None) -> None:
        """Record m-barriers that are made. Raises SimulationError for one that is alive already."""
        for k, row, thread in signals.who.each():
            home, offset = int(signals.home[k]), int(signals.offset[k])
            if self.alive[offset][1, home] < NEVER:
                name, buffer = shared_text(self.wave, offset), self.wave.run.places.shared_at(offset).name
                who = self.wave.thread_at(self.wave.first + row, thread)
                raise broken("initialised twice", name, at=at, who=who, buffer=buffer)
            self.alive[offset][:, home] = thread, self.clocks.wave.now, NEVER
        self._checked.clear()

    def ended(self, signals: Signals, at: Span | None) -> None:
        """Remove m-barriers that have been invalidated. Raises SimulationError where a thread may still wait at one:
        its warp has not met the thread that ends it. An arrival there is a race.
        """
        for k, row, thread in signals.who.each():
            where = home, offset = int(signals.home[k]), int(signals.offset[k])
            made, self.alive[offset][:, home] = int(self.alive[offset][1, home]), UNMADE[:, 0]
            for wait in self.clocks.signal_history.at(where, waits=True):
                lanes = 32 * wait.warp + np.flatnonzero(wait.lanes)
                rows, homes = np.full(len(lanes), row), np.full(len(lanes), home)
                times = np.full(len(lanes), wait.time + 1)
                if wait.time >= made and not self._know(rows, rows * 0 + thread, homes, lanes, times).any():
                    raise ended_early(self.wave, (row, thread), where, wait, at)
        self._checked.clear()

    def touched(self, event: AccessEvent) -> None:
        """Threads touch shared memory. Raises SimulationError where that is an m-barrier, touched as plain data."""
        site, (low, end), hits = event.site, event.span, list[tuple[int, int]]()
        for offset, (_, times, _) in self.alive.items() if not site.how.is_signal else ():
            if site.is_remote or (low < offset + WORD and offset < end):
                homes, first = event.places
                hit = (first < offset + WORD) & (offset < first + site.width) & (times[homes] < NEVER)
                hits += [(int(np.argmax(hit)), offset)] if hit.any() else []
        if hits:
            k, offset = min(hits)
            rows, warps, lanes = event.team.threads
            name, there = shared_text(self.wave, offset), self.wave.run.places.shared_at(offset)
            did = Term("operation", (site.op,)), "overwrites" if site.write else "reads", name
            who = self.wave.thread_at(self.wave.first + int(rows[k]), 32 * int(warps[k]) + int(lanes[k]))
            raise broken("no data", *did, at=site.at, who=who, buffer=there.name)

    # and other CTAs learn of them

    def fenced(self, who: Actors) -> None:
        """Threads have passed a fence for the cluster."""
        self.clocks.wave.tick()
        passed, rows = np.zeros((self.wave.ctas, self.wave.run.warps, 32), np.bool_), np.arange(self.wave.ctas)
        passed[who.rows, who.warps] = who.lanes
        for makers, times, fenced in self.alive.values() if self.wave.run.cluster_ctas > 1 else ():
            new = passed[rows, makers >> 5, makers & 31] & (times < NEVER) & (fenced == NEVER)
            fenced[new] = self.clocks.wave.now

    # Uses: Raises SimulationError where an m-barrier may not have been made

    def used(self, use: tuple[str, str], signals: Signals, at: Span | None) -> None:
        """Threads arrive at m-barriers, or wait there. use: see `uninitialised`."""
        who = signals.who
        if not self._was_checked(who.rows, who.warps, who.lanes, signals.home, signals.offset):
            self._check(use, signals.of_threads(), at)

    def issued(self, operation: Operation) -> None:
        """An operation begins that will signal m-barriers."""
        issuers, use = operation.issuers, ("operation", f"{operation.name} tells")
        for one in operation.signals:
            users = issuers.rows[one.issuer], issuers.threads[one.issuer], one.rows, one.at
            if not self._was_checked(*users):
                self._check(use, users, operation.instruction.at)

    def _check(self, use: tuple[str, str], users: tuple[Ints, Ints, Ints, Ints], at: Span | None) -> None:
        """use: see `uninitialised`. users: row and thread of each, and row and offset of its m-barrier."""
        rows, threads, homes, offsets = users
        made = np.zeros((3, len(rows)), np.int64)
        for offset in np.unique(offsets).tolist():
            made[:, offsets == offset] = self.alive[offset][:, homes[offsets == offset]]
        makers, times, fenced = made
        known = self._know(rows, threads, homes, makers, times) | self.cluster.has_met(rows, homes, makers, fenced)
        known |= (times == NEVER) & (rows == homes)
        if not known.all():
            k = int(np.argmin(known))
            raise uninitialised(self.wave, use, (int(rows[k]), int(threads[k])), (int(homes[k]), int(offsets[k])), at)

    def _know(self, rows: Ints, threads: Ints, homes: Ints, makers: Ints, times: Ints) -> Bools:
        """Do threads come after all that the threads ``makers`` of the CTAs ``homes`` did until that time?"""
        clocks = self.clocks
        found = clocks.knows(
            rows, clocks.knower[threads], homes + self.wave.first, makers, times, also=clocks.of_shared
        )
        return np.asarray(found | ((threads == makers) & (rows == homes)))


def check_not_early(
    wave: Wave, signals: Signals, early: Ints, at: Span | None, by: tuple[Operation, UnitView] | None = None
) -> None:
    """Raises SimulationError if there are ``early`` arrivals, given by their numbers: for a phase though no thread has
    seen the last one over. by: the operation that arrives, if it is no thread, and its signals.
    """
    for k in early.tolist():
        row, home, offset = int(signals.who.rows[k]), signals.home[k], int(signals.offset[k])
        who, given = wave.warp_at(row, int(signals.who.warps[k])), None
        if by is not None:
            operation, one = by
            mine = (operation.issuers.rows[one.issuer] == row) & (one.rows == home) & (one.at == offset)
            issuer = int(one.issuer[np.argmax(mine)])
            who, given = operation.issuers.thread_at(issuer), operation.who(issuer)
        raise early_arrival(wave, who, offset, at, given)


def check_together(operation: Operation, one: UnitView) -> None:
    """Raises SimulationError where some signals of an operation end a phase, and others of it are still to come: they
    have no order, so that the phase may end before any of them has come.
    """
    assert isinstance(one.effect, Signal)
    wave, change = operation.team.wave, one.effect.change
    found, which = np.unique(one.rows << OFFSET_BITS | one.at, return_inverse=True)
    if change is None or len(found) == len(one.at):
        return
    which, given = which.reshape(-1), operation.amounts(one)[one.issuer]
    words = wave.shared.view(8)[one.rows, one.at >> 3]
    first, now = phase_of(words), np.zeros(len(found), words.dtype)
    now[which] = words
    for turn in in_turns(which, np.arange(len(words))):
        there = which[turn]
        if (late := phase_of(now[there]) != first[turn]).any():
            k = int(turn[np.argmax(late)])
            raise ends_between_signals(wave, operation, int(one.issuer[k]), int(one.at[k]))
        now[there] = change(now[there], given[turn])


# What is read through the cache of constants, ``ld.global.nc``, is not written while the kernel runs, ordered or not.
#
# That cache sees no writes; compilers read through it what ``const T* __restrict__`` and ``__ldg`` name. Where a thread
# reads a place before it writes there itself, and nobody else does, practice lives with it: a warning.
#
# Source: PTX ISA, "Data Movement and Conversion Instructions: ld.global.nc".


def check_constants(program: Subject, buffers: Iterable[TaggedPlaces], wave: Wave) -> None:
    """Raises SimulationError where bytes of a buffer were read as constants, and written."""
    for places in buffers if any(site.how.constant for site in program.sites) else ():
        _check_buffer(places, wave)


def _check_buffer(places: TaggedPlaces, wave: Wave) -> None:
    records = places.log.newest_first()[::-1]
    reads = [record for record in records if record.site.how.constant]
    writes = [record for record in records if record.site.write]
    if not (reads and writes):
        return
    each = [record.places(places.grain) for record in writes]
    place, writer = (np.concatenate([arrays[k] for arrays in each]) for k in range(2))
    which = np.repeat(np.arange(len(writes)), [len(arrays[0]) for arrays in each])
    order = np.lexsort((which, writer, place))
    place, writer, which = place[order], writer[order], which[order]
    times = np.array([record.time for record in writes])
    for read in reads:
        own, reader = read.places(places.grain)
        first, last = np.searchsorted(place, own), np.searchsorted(place, own, "right") - 1
        (hits,) = np.nonzero(first <= last)
        first, last, own, reader = first[hits], last[hits], own[hits], reader[hits]
        alone = (writer[first] == reader) & (writer[last] == reader) & (times[which[first]] > read.time)
        if len(hits):
            k = int(np.argmin(alone))
            write, address = writes[which[first[k]]], int(own[k]) * places.grain
            if not alone[k]:
                one, other = (divmod(int(number), THREADS) for number in (reader[k], writer[first[k]]))
                error = constant_written(wave, read, write, one, other, address)
                wave.run.tell(error, str(read.site.at), str(write.site.at))
                continue
            wave.run.warn(constant_rewritten(wave, read, write, address), "constant", read.site.line.buffer)


# Barriers: one meeting at a time; who arrives again knows that the last one is over; barriers of two lines that pair
# up. What the cluster's puts in order.
#
# Source: PTX ISA, "bar, barrier", "barrier.cluster".


CLUSTER = 16  # from this number on barriers are the cluster's


class BarrierRules:
    """The barriers of a wave's CTAs. last: by barrier, the time of each CTA's last meeting, and the warps there.

    came: of the running meeting of each CTA at the barrier of all threads, the line that each warp has come to. paired:
    by CTA, these of its last meeting where they were several.
    """

    def __init__(self, clocks: Clocks) -> None:
        self.clocks = clocks
        self.wave = clocks.wave
        self.last: dict[int, tuple[Ints, Bools]] = {}
        self.came: dict[int, dict[int, int]] = {}
        self.paired: dict[int, Mapping[int, int]] = {}

    def came_to(self, who: Actors, sync: BarrierSite) -> None:
        """Warps have arrived at the barrier of all threads."""
        if sync.at is not None:
            for row, warp in zip(who.rows.tolist(), who.warps.tolist(), strict=True):
                self.came.setdefault(row, {})[warp] = sync.at.outermost.line

    def paired_up(self, row: int, warps: tuple[int, int]) -> tuple[int, int] | None:
        """The two lines at which these warps of a CTA have met last, if they are two."""
        lines = self.paired.get(row, {})
        first, last = (lines.get(warp) for warp in warps)
        return None if first is None or last is None or first == last else (first, last)

    def arrived(self, who: Actors, barrier: int, at: Span | None) -> None:
        """Raises SimulationError where a warp arrives again without knowing that the last meeting is over, since it
        might be counted in that one.
        """
        if barrier not in self.last:
            return
        times, waited = self.last[barrier]
        for k in np.flatnonzero(times[who.rows] > 0).tolist():
            row, warp = int(who.rows[k]), int(who.warps[k])
            first = int(self.clocks.first_column(np.array(row)))
            mine = self.clocks.known[self.clocks.at(who.rows[k]), warp, first : first + self.clocks.threads]
            comes_after = mine.reshape(-1, 32).max(-1) >= times[row]
            if not (waited[row, warp] or comes_after[waited[row]].any()):
                raise broken("barrier reused", barrier, at=at, who=self.wave.warp_at(row, warp))

    def met(self, ctas: Ints, waiting: Bools, barrier: int) -> None:
        """A meeting of these CTAs is over for the warps that wait for it."""
        self.clocks.wave.tick()
        for row in ctas.tolist() if barrier == 0 else ():
            lines = self.came.pop(row, {})
            if len({*lines.values()}) > 1:
                self.paired[row] = lines
        nothing = (np.zeros(self.wave.ctas, np.int64), np.zeros((self.wave.ctas, self.wave.run.warps), np.bool_))
        times, waited = self.last.setdefault(barrier, nothing)
        times[ctas], waited[ctas] = self.clocks.wave.now, waiting

    def closed(self) -> None:
        """The CTAs have ended. Raises SimulationError where a warp has arrived at the cluster's barrier and not
        waited.
        """
        for row, warp in np.argwhere(self.wave.barriers.between).tolist():
            raise broken("ends between", at=None, who=self.wave.warp_at(row, warp))


class ClusterMeetings:
    """What comes before each CTA by the cluster's barrier, in order of execution: a relaxed arrival counts, too.

    arrivals: by number of the barrier, (CTAs, warps), the time of each warp's last arrival. before: (CTAs, warps of the
    cluster), the time up to which what each warp did comes before the CTA.
    """

    def __init__(self, clocks: Clocks) -> None:
        self.clocks = clocks
        self.wave = wave = clocks.wave
        self.arrivals = np.zeros((2, wave.ctas, wave.run.warps), np.int64)
        self.before = np.zeros((wave.ctas, wave.run.cluster_ctas, wave.run.warps), np.int64)

    def arrived(self, who: Actors, barrier: int) -> None:
        """Warps have arrived."""
        self.arrivals[barrier - CLUSTER, who.rows, who.warps] = self.clocks.wave.now

    def met(self, ctas: Ints, barrier: int) -> None:
        """Warps of these CTAs have waited for a meeting that is over."""
        first = ctas - self.wave.rank(ctas)
        self.before[ctas] = self.arrivals[barrier - CLUSTER, first[:, None] + np.arange(self.wave.run.cluster_ctas)]

    def has_met(self, rows: Ints, others: Ints, threads: Ints, times: Ints) -> Bools:
        """Do CTAs come after what threads of others in their cluster did until a time?"""
        found: Bools = self.before[rows, self.wave.rank(others), threads >> 5] >= times
        return found


class RemoteOperations:
    """Those of a wave, each with the numbers of its parts. read: the numbers of those whose sources have been read."""

    def __init__(self, clocks: Clocks) -> None:
        self.clocks = clocks
        self.issued: list[tuple[Operation, Ints]] = []
        self.read: set[int] = set()
        self._unread: dict[int, Bools] = {}  # by its number, those who issued an operation and have not waited

    def add(self, operation: Operation, own: Ints) -> None:
        """An operation begins."""
        if any(one.space == "shared" for one in operation.touched):
            if len(self.issued) >= REMOTE_OPERATIONS:
                self.issued = [each for each in self.issued if self._unknown(*each) is not None]
            self.issued.append((operation, own))

    def has_read(self, operation: Operation, over: Bools) -> None:
        """Some of those who issued an operation have waited until its sources are read, each in its own time."""
        left = self._unread.pop(operation.number, np.ones_like(over)) & ~over
        if left.any():
            self._unread[operation.number] = left
        else:
            self.read.add(operation.number)

    def renumber(self, operation: Operation, own: Ints) -> None:
        """What an operation writes has other numbers from now on."""
        if any(one.writes for one in operation.in_ctas):
            self.issued = [(each, own if each is operation else numbers) for each, numbers in self.issued]

    def forget(self, gone: list[int]) -> None:
        """Parts whose numbers are used again are known to be complete, or something later is."""
        self.issued = [each for each in self.issued if not set(each[1].tolist()) & set(gone)]

    def _unknown(self, operation: Operation, own: Ints) -> tuple[int, int] | None:
        """The number of an issuer, and the row of a CTA where no thread knows that its part is complete."""
        each, wave = operation.issuers.warps_each, self.clocks.wave
        for one in operation.in_ctas:
            if one.space == "tmem" or (not one.writes and operation.number in self.read):
                continue
            if one.ctas is not None:  # all in the CTAs of their issuers
                issuers = np.unique(one.issuer)
                rows = operation.issuers.rows[issuers]
            else:
                issuer = np.broadcast_to(one.along(one.issuer), one.rows.shape)
                issuers, rows = np.divmod(np.unique(issuer * wave.ctas + one.rows), wave.ctas)
            seen = (self.clocks.parts[rows, :, own[issuers * each]] & (SEEN | OVER)).any(1)
            if not seen.all():
                k = int(np.argmin(seen))
                return int(issuers[k]), int(rows[k])
        return None

    def closed(self) -> None:
        """The CTAs have ended. Raises SimulationError where one of them may have ended before an operation."""
        for operation, own in self.issued:
            if (found := self._unknown(operation, own)) is not None:
                seen = self.clocks.parts[:, :, own[found[0] * operation.issuers.warps_each]] & (SEEN | OVER)
                near = self.clocks.wave.rank(np.array(found[1]))
                cluster = slice(found[1] - int(near), found[1] - int(near) + self.clocks.wave.run.cluster_ctas)
                raise ends_before_operation(operation, *found, is_known=bool(seen[cluster].any()))
