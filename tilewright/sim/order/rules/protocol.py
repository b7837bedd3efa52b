"""Rules that hold in every schedule: one meeting at a time at a barrier, m-barriers made before others arrive.

Source: PTX ISA, "bar, barrier", "barrier.cluster", "mbarrier.init", "Cluster: distributed shared memory".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from tilewright.errors import SimulationError
from tilewright.isa import Fence
from tilewright.sim.machine.coordinates import element_text
from tilewright.sim.order.reports.missing import fence_name

if TYPE_CHECKING:
    from tilewright.errors import Span
    from tilewright.sim.machine.arrays import Bools, Ints
    from tilewright.sim.machine.operation import Operation
    from tilewright.sim.order.knowledge.actors import Actors
    from tilewright.sim.order.knowledge.channels import Signals
    from tilewright.sim.order.knowledge.clocks import Clocks

__all__ = ["CLUSTER", "Protocol"]

MOST_LOOKS = 256
CLUSTER = 16  # from this number on barriers are the cluster's
INIT = Fence("release", "cluster", "mbarrier.init")


@dataclass(eq=False, slots=True)
class Made:
    """An m-barrier that is alive: the thread that made it, and the time. fenced: for the cluster; shown: at a barrier
    of the cluster; known: warps and their lanes that certainly come after; threads: those by their CTA's row.
    """

    thread: int
    time: int
    fenced: bool = False
    told: bool = False
    shown: bool = False
    known: set[tuple[int, bytes]] = field(default_factory=set)
    threads: set[tuple[int, int]] = field(default_factory=set)


@dataclass(eq=False, slots=True)
class Visit:
    """An access to the shared memory of another CTA, ``home``; phase: that of the m-barrier at an offset, or -1."""

    home: int
    row: int
    thread: int
    time: int
    offset: int
    phase: int
    at: Span | None
    told: bool = False


class Protocol:
    """The protocol state of a wave. completed: by barrier, the time of its last meeting, and the warps there."""

    def __init__(self, clocks: Clocks) -> None:
        self.clocks = clocks
        self.wave = clocks.wave
        self.made: dict[tuple[int, int], Made] = {}
        self.visits: list[Visit] = []
        self.completed: dict[int, tuple[Ints, Bools]] = {}
        self._passed: set[tuple[bytes, ...]] = set()  # of m-barriers that are alive, see `_has_passed`

    def _has_passed(self, *look: Ints | Bools) -> bool:
        """Was there a look at the same before? What threads know, they go on knowing."""
        key = tuple(each.tobytes() for each in look)
        if key in self._passed:
            return True
        if len(self._passed) >= MOST_LOOKS:
            self._passed.clear()
        self._passed.add(key)  # a look that fails ends the run
        return False

    def _name(self, offset: int) -> str:
        program = self.wave.run.program
        return element_text(program, program.places.shared_at(offset), offset)

    def _who(self, row: int, thread: int) -> str:
        return f"CTA {self.wave.cta_name(row)}, warp {thread >> 5}, lane {thread & 31}"

    # Barriers

    def arrived(self, who: Actors, barrier: int, at: Span | None) -> None:
        """Raises SimulationError where a warp arrives at a barrier again without knowing that its last meeting is over,
        since it might be counted in that one.
        """
        if barrier >= CLUSTER:
            rows, warps = set(who.rows.tolist()), set(zip(who.rows.tolist(), who.warps.tolist(), strict=True))
            for (row, _), made in self.made.items():
                made.told |= made.fenced and row in rows
            for visit in self.visits:
                visit.told |= (visit.row, visit.thread >> 5) in warps
        if barrier not in self.completed:
            return
        times, waited = self.completed[barrier]
        for k in np.flatnonzero(times[who.rows] > 0).tolist():
            row, warp = int(who.rows[k]), int(who.warps[k])
            column = int(self.clocks.first_column(np.array(row)))
            known = self.clocks.known[row, warp, column : column + self.clocks.threads].reshape(-1, 32).max(-1)
            if not (waited[row, warp] or (known >= times[row])[waited[row]].any()):
                raise SimulationError(
                    f"barrier {barrier} is used again by a warp that cannot know that its last meeting is over",
                    given=f"CTA {self.wave.cta_name(row)}, warp {warp}",
                    allowed="an arrival after a thread that has waited there: it may be counted in that meeting else",
                    hint="a barrier of another number, or a count of all threads that meet",
                    at=at,
                )

    def over(self, ctas: Ints, waiting: Bools, barrier: int) -> None:
        """A meeting is over for the warps of these CTAs that wait for it."""
        if barrier >= CLUSTER:
            members = set(ctas.tolist())
            for (row, _), made in self.made.items():
                made.shown |= made.told and row in members
            self.visits = [visit for visit in self.visits if not (visit.told and visit.home in members)]
            return
        self.clocks.now += 1
        nothing = (np.zeros(self.wave.ctas, np.int64), np.zeros((self.wave.ctas, self.wave.run.warps), np.bool_))
        times, waited = self.completed.setdefault(barrier, nothing)
        times[ctas], waited[ctas] = self.clocks.now, waiting

    # m-barriers

    def initialised(self, signals: Signals, at: Span | None) -> None:
        """Record m-barriers that are made. Raises SimulationError for one that is alive already."""
        for k, row, thread in signals.who.each():
            where = (int(signals.home[k]), int(signals.offset[k]))
            if where in self.made:
                raise SimulationError(
                    f"{self._name(where[1])} is initialised again, and was not ended before",
                    given=self._who(row, thread),
                    allowed="mbarrier.init once, or mbarrier.inval before it",
                    hint="one m-barrier for all turns, as phases follow each other; or mbarrier.inval before",
                    at=at,
                )
            self.made[where] = Made(thread, self.clocks.now)
        self._passed.clear()

    def ended(self, signals: Signals) -> None:
        """Remove m-barriers that have been invalidated."""
        for row, offset in zip(signals.home.tolist(), signals.offset.tolist(), strict=True):
            self.made.pop((row, offset), None)
        self._passed.clear()

    def fenced(self, who: Actors) -> None:
        """Threads have fenced what they made, for the cluster."""
        for (row, _), made in self.made.items():
            here = (who.rows == row) & (who.warps == made.thread >> 5)
            made.fenced |= bool(who.lanes[here][:, made.thread & 31].any())

    def signalled(self, signals: Signals, at: Span | None) -> None:
        """Raises SimulationError where arrivals at m-barriers of other CTAs may come before these are made. At the own
        CTA's they race with init.
        """
        far = np.flatnonzero(signals.home != signals.who.rows)
        for k, row, thread in signals.who[far].each() if len(far) else ():
            home, offset = int(signals.home[far[k]]), int(signals.offset[far[k]])
            made = self.made.get((home, offset))
            if made is not None and not self._knows(row, thread, home, made):
                raise SimulationError(
                    f"an arrival at {self._name(offset)} of another CTA, which may not have initialised it",
                    given=f"{self._who(row, thread)}, at that of CTA {self.wave.cta_name(home)}",
                    allowed="an arrival after the CTAs have met behind mbarrier.init",
                    hint=f"{fence_name(INIT)}() and T.cuda.cluster_sync() after mbarrier.init, before the arrival",
                    at=at,
                )

    def arrived_early(self, signals: Signals, early: Ints, at: Span | None, who: str = "") -> None:
        """Raises SimulationError where a thread arrives for a phase though no thread has seen the last one over."""
        for k in early.tolist():
            raise SimulationError(
                f"an arrival at {self._name(int(signals.offset[k]))} for its next phase, "
                "and nobody has seen the last one over",
                given=who or f"CTA {self.wave.cta_name(int(signals.who.rows[k]))}, warp {int(signals.who.warps[k])}",
                allowed="as many arrivals as mbarrier.init counts, then a wait, then those for the next phase",
                hint="a wait for the last phase before it; or mbarrier.init with the count of all that arrive",
                at=at,
            )

    def told(self, operation: Operation) -> None:
        """An operation was issued that will signal m-barriers: is it certain that these have been made?"""
        issuers = operation.issuers
        for one in operation.signals:
            if self._has_passed(issuers.rows, issuers.threads, one.issuer, one.rows, one.at):
                continue
            for k, (home, offset) in enumerate(zip(one.rows.tolist(), one.at.tolist(), strict=True)):
                row, thread = (int(each[one.issuer[k]]) for each in (issuers.rows, issuers.threads))
                made = self.made.get((home, offset))
                if (made is None and home == row) or (made is not None and self._knows(row, thread, home, made)):
                    continue
                raise self._untold(operation.name, row, thread, home, offset, operation.instruction.at)

    def _untold(self, name: str, row: int, thread: int, home: int, offset: int, at: Span | None) -> SimulationError:
        if row == home:
            return SimulationError(
                f"{name} tells {self._name(offset)}, which may not have been initialised",
                given=self._who(row, thread),
                allowed="an operation after a meeting with the thread of mbarrier.init",
                hint="T.cuda.cta_sync() by all warps between mbarrier.init and the operation",
                at=at,
            )
        return SimulationError(
            f"{name} tells {self._name(offset)} of another CTA, which may not have made it",
            given=f"{self._who(row, thread)}, that of CTA {self.wave.cta_name(home)}",
            allowed="an operation after the CTAs have met behind mbarrier.init",
            hint=f"{fence_name(INIT)}() and T.cuda.cluster_sync() after mbarrier.init",
            at=at,
        )

    def _knows(self, row: int, thread: int, home: int, made: Made) -> bool:
        """Does a thread come after mbarrier.init in the CTA ``home``?"""
        if made.shown or (row, thread) in made.threads:
            return True
        each = (np.array([value]) for value in (row, thread, home, made.thread, made.time))
        if known := bool(self._know(*each)[0]):
            made.threads.add((row, thread))
        return known

    def _know(self, rows: Ints, threads: Ints, homes: Ints, makers: Ints, times: Ints) -> Bools:
        """Do threads come after all that the threads ``makers`` of the CTAs ``homes`` did until that time?"""
        clocks = self.clocks
        found = clocks.knows(
            rows, clocks.knower[threads], homes + self.wave.first, makers, times, also=clocks.of_shared
        )
        return np.asarray(found | ((threads == makers) & (rows == homes)))

    # Other CTAs' memory

    def visited(self, signals: Signals, at: Span | None, *, arrives: bool) -> None:
        """Record accesses to the shared memory of other CTAs; one lane of each warp stands for all."""
        self.clocks.now += 1
        for k in np.flatnonzero(signals.home != signals.who.rows).tolist():
            row, lane = int(signals.who.rows[k]), int(signals.who.lanes[k].argmax())
            thread, phase = int(signals.who.warps[k]) * 32 + lane, int(signals.phase[k]) if arrives else -1
            home, offset = int(signals.home[k]), int(signals.offset[k])
            self.visits.append(Visit(home, row, thread, self.clocks.now, offset, phase, at))

    def operated(self, operation: Operation, over: Bools) -> None:
        """Threads have waited for an operation, which counts as their own access to other CTAs' memory from now on."""
        self.clocks.now += 1
        rows, threads = operation.issuers.rows, operation.issuers.threads
        for one in operation.in_ctas:
            homes = one.rows.reshape(len(one.issuer), -1)[:, 0]
            for k in np.flatnonzero(over[one.issuer] & (homes != rows[one.issuer])).tolist():
                row, thread = (int(each[one.issuer[k]]) for each in (rows, threads))
                self.visits.append(Visit(int(homes[k]), row, thread, self.clocks.now, 0, -1, operation.instruction.at))

    def seen(self, signals: Signals, at: Span | None) -> None:
        """Threads have seen the phase of arrivals over: these CTAs still run, and the m-barrier was alive."""
        self._looked(signals, at)
        where = zip(signals.home.tolist(), signals.offset.tolist(), strict=True)
        now = dict(zip(where, signals.phase.tolist(), strict=True))
        self.visits = [
            one for one in self.visits if one.phase < 0 or now.get((one.home, one.offset), one.phase) == one.phase
        ]

    def _looked(self, signals: Signals, at: Span | None) -> None:
        """Threads wait at m-barriers of their own CTA, which they know to be made."""
        who = signals.who
        if self._has_passed(who.rows, who.warps, who.lanes, signals.home, signals.offset):
            return
        new: list[tuple[int, Made]] = []
        for k, (home, offset) in enumerate(zip(signals.home.tolist(), signals.offset.tolist(), strict=True)):
            made = self.made.get((home, offset))
            key = (int(who.warps[k]), who.lanes[k].tobytes())
            if made is not None and key not in made.known:
                made.known.add(key)
                if not made.shown:
                    new.append((k, made))
        if not new:
            return
        those = np.array([k for k, _ in new])
        which, lanes = np.nonzero(who.lanes[those])
        rows, homes, threads = who.rows[those][which], signals.home[those][which], 32 * who.warps[those][which] + lanes
        makers, times = (
            np.array(each)[which] for each in zip(*((made.thread, made.time) for _, made in new), strict=True)
        )
        known = self._know(rows, threads, homes, makers, times)
        if not known.all():
            k = int(np.argmin(known))
            raise SimulationError(
                f"a wait at {self._name(int(signals.offset[those[which[k]]]))}, which may not have been initialised",
                given=self._who(int(rows[k]), int(threads[k])),
                allowed="a wait after a meeting with the thread of mbarrier.init",
                hint="T.cuda.cta_sync() by all warps between mbarrier.init and the wait",
                at=at,
            )

    def closed(self) -> None:
        """All CTAs of the wave have ended: was every phase waited for, and did every CTA run when it was accessed?"""
        for row, warp in np.argwhere(self.wave.barriers.between).tolist():
            raise SimulationError(
                "a warp ends that has arrived at the cluster's barrier and not waited there",
                given=f"CTA {self.wave.cta_name(row)}, warp {warp}",
                allowed="one arrive and one wait, by turns",
            )
        for visit in self.visits:
            column = int(self.clocks.first_column(np.array(visit.row))) + visit.thread
            if not (self.clocks.known[visit.home, :, column] >= visit.time).any():
                raise SimulationError(
                    "the shared memory of another CTA is touched, which may have ended by then",
                    given=f"{self._who(visit.row, visit.thread)}, that of CTA {self.wave.cta_name(visit.home)}",
                    allowed="a CTA that ends after all that others do in its shared memory",
                    hint="T.cuda.cluster_sync() before the end of the kernel",
                    at=visit.at,
                )
