"""Asynchronous operations between issue and completion.

What is issued joins the queue of its wave and touches nothing yet. Operations complete, oldest first, when no thread
can go on without them, so that a thread without a wait reads the bytes from before; a wait completes the operations
that it waits for. The queue keeps the order of issue, hence a commit comes after all that it reports.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tilewright.sim.machine.issuers import issuers_of
from tilewright.sim.machine.operation import Operation, join

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tilewright.errors import Span
    from tilewright.isa import Wait
    from tilewright.sim.machine.arrays import Array, Bools, Given, Ints
    from tilewright.sim.machine.batch import Batch
    from tilewright.sim.machine.instructions import CompiledInstruction
    from tilewright.sim.machine.masks import Mask
    from tilewright.sim.machine.wave import Wave

__all__ = ["Pending", "Waiting"]


@dataclass(frozen=True, eq=False)
class Waiting:
    """Threads that wait for a group. threads: (CTAs, threads) of the wave. commits: how many each has made; pending:
    the newest of them that it does not wait for, None where it waits for all operations. last: the number of the newest
    operation by then.
    """

    effect: Wait
    threads: Bools
    commits: Ints
    pending: int | None
    last: int
    at: Span | None

    def covers(self, operation: Operation) -> Bools:
        """(n, lanes): the threads that wait for their part of an operation."""
        if operation.group != self.effect.group or operation.is_commit:
            return np.zeros((1, 1), np.bool_)
        waits: Bools = operation.issuers.of_threads(self.threads)
        if self.pending is not None:
            waits = waits & (operation.serial < operation.issuers.of_threads(self.commits) - self.pending)
        return waits


class Pending:
    """The queue of a wave. last: the number of the operation that was issued last. loading: may registers be in flight,
    so that accesses to them are checked? issuing: the instruction whose operands are being read. commits: by group,
    (CTAs, threads), how many each thread has made. watched: does a check examine all accesses to registers?
    """

    def __init__(self, wave: Wave) -> None:
        self.wave = wave
        self.loading = False
        self.watched = False
        self.issuing: CompiledInstruction | None = None
        self.queue: deque[Operation] = deque()
        self.last = 0
        self.commits: dict[str, Ints] = {}

    def commits_of(self, group: str) -> Ints:
        """(CTAs, threads): how many commits of a group each thread has made."""
        if group not in self.commits:
            self.commits[group] = np.zeros((self.wave.ctas, -(-self.wave.run.warps // 4) * 128), np.int64)
        return self.commits[group]

    def begin(
        self,
        instruction: CompiledInstruction,
        batch: Batch,
        mask: Mask,
        arguments: Given,
        sinks: Given,
        held: Given,
        flags: Sequence[Array] | None,
    ) -> Operation:
        """An operation that has yet to be issued."""
        bound = instruction.bound
        issuers = issuers_of(batch, mask, bound.instruction.lanes, instruction.at)
        names = [operand.name for operand in bound.read if not operand.written]
        taken = {name: issuers.taken(each, batch.shape) for name, each in zip(names, arguments, strict=True)}
        given = {}
        for name, each in zip(names, flags, strict=True) if flags is not None else ():
            given[name] = issuers.taken(each, batch.shape)
        effect = bound.form.issue or bound.form.commit
        assert effect is not None
        serial = issuers.of_threads(self.commits_of(effect.group))
        self.last += 1
        return Operation(self.last, instruction, batch, mask, issuers, taken, sinks, held, given, serial)

    def issue(self, made: Operation) -> None:
        """An operation joins the queue."""
        for one in (*made.touched, *made.signals):
            one.check(made, bounds="bounds" in self.wave.run.program.checks)
        self.wave.run.moves(made)
        self.queue.append(made)
        for check in self.wave.run.checks:
            check.issued(made)
        made.signal(at_issue=True)

    def _complete(self, operation: Operation) -> None:
        for check in self.wave.run.checks:
            check.completing(operation)
        operation.complete()

    def complete_oldest(self) -> None:
        """The first operation of the queue takes place."""
        self._complete(self.queue.popleft())

    def complete(self, operation: Operation) -> None:
        """An operation takes place before those that were issued earlier, if it has not yet."""
        if operation in self.queue:
            self.queue.remove(operation)
            self._complete(operation)

    def _threads(self, batch: Batch, mask: Mask) -> Bools:
        """(CTAs, threads) of the wave, those of a batch."""
        found = np.zeros((self.wave.ctas, -(-self.wave.run.warps // 4) * 4, 32), np.bool_)
        found[batch.ctas, batch.warps] = mask.full
        return found.reshape(self.wave.ctas, -1)

    def commit(self, batch: Batch, mask: Mask, group: str) -> None:
        """Threads commit what they have issued to a group."""
        self.commits_of(group)[self._threads(batch, mask)] += 1

    def wait(self, batch: Batch, mask: Mask, effect: Wait, pending: int | None, at: Span | None) -> None:
        """Completes, of the operations of a group that these threads have issued, those that they wait for."""
        commits = self.commits_of(effect.group)
        commits = commits.copy() if pending else commits  # which is told of later
        waiting = Waiting(effect, self._threads(batch, mask), commits, pending, self.last, at)
        covered = [each for each in self.queue if waiting.covers(each).any()]
        if not effect.reads:
            join(covered)
        for operation in covered:
            if effect.reads:
                operation.read()
                continue
            self.queue.remove(operation)
            self._complete(operation)
        for check in self.wave.run.checks:
            check.awaited(self.wave, waiting)
