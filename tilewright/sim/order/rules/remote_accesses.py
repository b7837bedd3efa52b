"""Accesses to the shared memory of other CTAs, which must have begun by then and must not have ended, and arrivals of
commits.

Source: PTX ISA, "Cluster: distributed shared memory".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tilewright.sim.order.knowledge.actors import Actors
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
    none.
    """

    home: int
    row: int
    thread: int
    offset: int
    phase: int


@dataclass(frozen=True, eq=False, slots=True)
class RemoteCommit:
    """The arrival of a commit, of an issuer in the CTA ``row``, at the m-barrier of the CTA ``home``. No barrier of
    threads covers it.
    """

    operation: Operation
    issuer: int
    row: int
    home: int
    offset: int
    phase: int

    @property
    def who(self) -> tuple[int, int, int]:
        """The CTA that it arrives at, the CTA and the thread that commits."""
        return self.home, self.row, int(self.operation.issuers.threads[self.issuer])


class RemoteAccesses:
    """Those of a wave. left: the time of the last of each kind, and its line."""

    def __init__(self, clocks: Clocks, cluster: ClusterMeetings) -> None:
        self.clocks = clocks
        self.cluster = cluster
        self.wave = clocks.wave
        self.left: dict[RemoteAccess, tuple[int, Span | None]] = {}
        self.commits: list[RemoteCommit] = []
        self.begun: set[tuple[int, int, int]] = set()  # row and knower, and the CTA that it knows to have begun

    def before_begin(self, who: Actors, homes: Ints, at: Span | None) -> SimulationError | None:
        """Threads touch the memory of CTAs: the error if one of these may not have begun."""
        for k in np.flatnonzero(homes != who.rows).tolist():
            row, home, threads = int(who.rows[k]), int(homes[k]), 32 * int(who.warps[k]) + np.flatnonzero(who.lanes[k])
            for thread, knower in zip(threads.tolist(), self.clocks.knower[threads].tolist(), strict=True):
                if (row, knower, home) in self.begun:
                    continue
                if not self.clocks.knows_begun(row, knower, home):
                    return cta_may_not_have_begun(self.wave, (row, thread), home, at)
                self.begun.add((row, knower, home))
        return None

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
                if error := self.before_begin(who, homes, operation.instruction.at):
                    raise error

    def touched(
        self, signals: Signals, at: Span | None, *, arrives: bool, early: SimulationError | None = None
    ) -> None:
        """Threads have touched the memory of CTAs; one lane of each warp stands for all. Raises SimulationError for a
        CTA that may not have begun; ``early`` is that error where an access itself tells the thread more.
        """
        if early := early or self.before_begin(signals.who, signals.home, at):
            raise early
        self.clocks.now += 1
        for k in np.flatnonzero(signals.home != signals.who.rows).tolist():
            row, lane = int(signals.who.rows[k]), int(signals.who.lanes[k].argmax())
            thread, phase = int(signals.who.warps[k]) * 32 + lane, int(signals.phase[k]) if arrives else -1
            home, offset = int(signals.home[k]), int(signals.offset[k])
            self.left[RemoteAccess(home, row, thread, offset, phase)] = self.clocks.now, at

    def awaited(self, operation: Operation, over: Bools) -> None:
        """Threads have waited for an operation, which counts as their own access from now on."""
        self.clocks.now += 1
        rows, threads = operation.issuers.rows, operation.issuers.threads
        for one in operation.in_ctas:
            homes = one.rows.reshape(len(one.issuer), -1)[:, 0]
            for k in np.flatnonzero(over[one.issuer] & (homes != rows[one.issuer])).tolist():
                row, thread = (int(each[one.issuer[k]]) for each in (rows, threads))
                self.left[RemoteAccess(int(homes[k]), row, thread, 0, -1)] = self.clocks.now, operation.instruction.at

    def phase_over(self, signals: Signals) -> None:
        """Threads have found the phase of arrivals over: the CTAs of these m-barriers still ran."""
        now = dict(zip(signals.places(), signals.phase.tolist(), strict=True))
        for one in [one for one in self.left if now.get((one.home, one.offset), one.phase) != one.phase >= 0]:
            del self.left[one]
        over = {one.who: one for one in self.commits if now.get((one.home, one.offset), one.phase) != one.phase}
        if over:  # those of one thread arrive in their order
            newest = {who: one.operation.number for who, one in over.items()}
            self.commits = [one for one in self.commits if one.operation.number > newest.get(one.who, 0)]

    def committed(self, operation: Operation, one: Touched, signals: Signals) -> None:
        """A commit is about to arrive at m-barriers; ``one`` are its signals."""
        for k in np.flatnonzero(signals.home != signals.who.rows).tolist():
            row, home, offset = int(signals.who.rows[k]), int(signals.home[k]), int(signals.offset[k])
            issuer = int(one.issuer[np.argmax((operation.issuers.rows[one.issuer] == row) & (one.rows == home))])
            self.commits.append(RemoteCommit(operation, issuer, row, home, offset, int(signals.phase[k])))

    def closed(self) -> None:
        """The CTAs have ended. Raises SimulationError where one of them does not come after an access to its memory."""
        for one, (time, at) in self.left.items():
            column = int(self.clocks.first_column(np.array(one.row))) + one.thread
            met = self.cluster.has_met(*(np.array(value) for value in (one.home, one.row, one.thread, time)))
            if not (met or (self.clocks.known[one.home, :, column] >= time).any()):
                raise cta_may_have_ended(self.wave, (one.row, one.thread), one.home, at)
        for commit in self.commits:
            raise ends_before_operation(commit.operation, commit.issuer, commit.home, is_known=False)
