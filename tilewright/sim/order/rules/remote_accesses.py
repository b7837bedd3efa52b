"""Accesses to the shared memory of other CTAs, which must have begun by then and must not have ended, and arrivals of
commits.

Source: PTX ISA, "Cluster: distributed shared memory".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tilewright.sim.order.knowledge.actors import Actors
from tilewright.sim.order.knowledge.known import BEGUN
from tilewright.sim.order.reports.rules import cta_may_have_ended, cta_may_not_have_begun, ends_before_operation

if TYPE_CHECKING:
    from tilewright.errors import SimulationError, Span
    from tilewright.sim.machine.arrays import Bools, Ints
    from tilewright.sim.machine.operation import Operation
    from tilewright.sim.machine.units import Touched
    from tilewright.sim.order.knowledge.clocks import Clocks
    from tilewright.sim.order.knowledge.signals import Signals
    from tilewright.sim.order.rules.barriers import ClusterMeetings

__all__ = ["RemoteAccesses"]


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
        return cta_may_not_have_begun(self.wave, (row, int(threads[k])), (home, byte), at)

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
        self.clocks.now += 1
        for k in np.flatnonzero(signals.home != signals.who.rows).tolist():
            row, lane = int(signals.who.rows[k]), int(signals.who.lanes[k].argmax())
            thread, phase = int(signals.who.warps[k]) * 32 + lane, int(signals.phase[k]) if arrives else -1
            home, offset = int(signals.home[k]), int(signals.offset[k])
            self.left[RemoteAccess(home, row, thread, offset, phase)] = self.clocks.now, byte, at

    def awaited(self, operation: Operation, over: Bools) -> None:
        """Threads have waited for an operation, which counts as their own access from now on."""
        self.clocks.now += 1
        rows, threads = operation.issuers.rows, operation.issuers.threads
        for one in operation.in_ctas:
            homes = one.rows.reshape(len(one.issuer), -1)[:, 0]
            for k in np.flatnonzero(over[one.issuer] & (homes != rows[one.issuer])).tolist():
                row, thread = (int(each[one.issuer[k]]) for each in (rows, threads))
                access = RemoteAccess(int(homes[k]), row, thread, 0, -1)
                self.left[access] = self.clocks.now, int(one.at.flat[0]), operation.instruction.at

    def phase_over(self, signals: Signals) -> None:
        """Threads have found the phase of arrivals over: the CTAs of these m-barriers still ran."""
        now = dict(zip(signals.places(), signals.phase.tolist(), strict=True))
        over = [one for one in self.left if now.get((one.home, one.offset), one.phase) != one.phase >= 0]
        newest = {one.way: one.commit.number for one in over if one.commit}
        over += [one for one in self.left if one.commit and one.commit.number < newest.get(one.way, 0)]
        for one in over:
            self.left.pop(one, None)

    def committed(self, operation: Operation, one: Touched, signals: Signals) -> None:
        """A commit is about to arrive at m-barriers; ``one`` are its signals."""
        issuers = operation.issuers
        for k in np.flatnonzero(signals.home != signals.who.rows).tolist():
            row, home, offset = int(signals.who.rows[k]), int(signals.home[k]), int(signals.offset[k])
            issuer = one.issuer[np.argmax((issuers.rows[one.issuer] == row) & (one.rows == home))]
            access = RemoteAccess(home, row, int(issuers.threads[issuer]), offset, int(signals.phase[k]), operation)
            self.left[access] = self.clocks.now, offset, operation.instruction.at

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
                raise cta_may_have_ended(self.wave, (one.row, one.thread), (one.home, byte), at)
