"""Asynchronous operations between issue and completion.

What is issued joins the queue of its wave and touches nothing yet. Operations complete, oldest first, when no thread
can go on without them, so that who forgets to wait reads what was there before; a warp's own wait completes what it
waits for. The queue keeps the order of issue, hence a commit comes after all that it reports.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.sim.machine.bulk import BulkFacet, Footprint, Issuers
from tilewright.sim.machine.tmem import INITIALISED

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tilewright.sim.machine.batch import Batch
    from tilewright.sim.machine.instructions import Instruction
    from tilewright.sim.machine.masks import Mask
    from tilewright.sim.machine.shadows import Shadows
    from tilewright.sim.machine.wave import Wave

__all__ = ["Operation", "Pending"]

Ints = Any  # NDArray[np.int64]


@dataclass(eq=False)
class Operation:
    """One instruction of some threads. arguments: as `execute` wants them, kept as they were at the issue.

    number: counts the operations of the wave from 1. issuers: of a bulk operation; a warp's has its batch and mask.
    """

    number: int
    instruction: Instruction
    batch: Batch
    mask: Mask
    issuers: Issuers
    arguments: tuple[Any, ...]
    sinks: tuple[Any, ...]
    flags: Any
    footprint: Footprint = field(default_factory=Footprint)

    @property
    def group(self) -> str:
        """What it is tracked with, see `tilewright.isa.Async`."""
        return self.instruction.asynchronous.group

    @property
    def is_commit(self) -> bool:
        """Does it report what the thread has issued before?"""
        return self.instruction.asynchronous.role == "commit"

    @property
    def name(self) -> str:
        """``tcgen05.cp``."""
        return self.instruction.bound.instruction.name.removeprefix("ptx.")

    @cached_property
    def rows(self) -> Ints:
        """The CTA of each actor: of the threads, or warps, whose parts the first axis of the footprint's arrays tells
        apart."""
        return self.issuers.rows if self.is_bulk else self._acting[0]

    @cached_property
    def threads(self) -> Ints:
        """Each actor's thread, or the first of its warp."""
        return self.issuers.threads if self.is_bulk else self._acting[1] * 32

    @cached_property
    def _acting(self) -> tuple[Ints, Ints]:
        return self.batch.rows_and_warps(self.mask.full.any(-1))

    def warps(self) -> NDArray[np.bool_]:
        """(CTAs, warps) of the wave: those that have issued it."""
        found = np.zeros((self.batch.wave.ctas, self.batch.wave.run.warps), np.bool_)
        found[self.batch.ctas, self.batch.warps] = self.mask.full.any(-1)
        return found

    def who(self, actor: int) -> str:
        """``CTA (0, 0, 0), warp 1``, and the lane where one thread issued it."""
        if self.is_bulk:
            return self.issuers.name(actor)
        return f"CTA {self.batch.wave.cta_name(int(self.rows[actor]))}, warp {int(self.threads[actor]) // 32}"

    @property
    def is_bulk(self) -> bool:
        """Is it an asynchronous unit's, on behalf of single threads? Otherwise it is a warp's together."""
        return self.instruction.bound.form.on == "bulk"

    def _run_bulk(self, storage: Any, meaning: Any) -> None:
        facet = BulkFacet(self.issuers, self.instruction.at, storage)
        meaning(facet, *self.arguments, **self.instruction.keywords)

    def measure(self) -> None:
        """Find out what will be touched; what is out of bounds is told now."""
        if self.is_bulk:
            self._run_bulk(self.footprint, self.instruction.bound.form.execute)
        else:
            self.instruction.meaning(self.batch, self.mask, self.arguments, self.footprint)

    def complete(self) -> None:
        """What the operation does, done."""
        wave = self.batch.wave
        if not self.is_bulk:
            self.instruction.carry_out(self.batch, self.mask, self.arguments, self.sinks, self.flags)
            return
        form = self.instruction.bound.form
        self._run_bulk(wave.run.plain, form.execute)
        if self.instruction.with_shadows:
            self._mark(wave.shadows)

    def _mark(self, shadows: Shadows) -> None:
        """The flags of the cells that were written go where the bits went; what was computed is initialised."""
        form = self.instruction.bound.form
        if form.moves:
            shadows.expand()
            self._run_bulk(shadows.finder, form.validity or form.execute)
            return
        for cells in self.footprint.written:
            shadows.tmem.store(*cells, INITIALISED)


class Pending:
    """The queue of a wave. last: the number of the operation that was issued last. loading: must accesses to registers
    be looked at, since some may be in flight? current: the operation that takes place now.
    """

    def __init__(self, wave: Wave) -> None:
        self.wave = wave
        self.loading = False
        self.current: Operation | None = None
        self.queue: deque[Operation] = deque()
        self.last = 0

    def issue(
        self,
        instruction: Instruction,
        batch: Batch,
        mask: Mask,
        arguments: tuple[Any, ...],
        sinks: tuple[Any, ...],
        flags: Any,
    ) -> None:
        """An operation joins the queue."""
        rows, warps = batch.rows_and_warps(mask.full)
        issuers = Issuers(self.wave, rows, warps * 32 + np.nonzero(mask.full)[2])
        if instruction.bound.form.on == "bulk":
            arguments = tuple(np.broadcast_to(each, mask.shape)[mask.full] for each in arguments)
        else:
            arguments = tuple(np.array(each) for each in arguments)
            flags = None if flags is None else tuple(None if each is None else np.array(each) for each in flags)
        self.last += 1
        made = Operation(self.last, instruction, batch, mask, issuers, arguments, sinks, flags)
        made.measure()
        self.wave.run.moves(made)
        self.queue.append(made)
        for check in self.wave.run.checks:
            check.issued(made)

    def _complete(self, operation: Operation) -> None:
        for check in self.wave.run.checks:
            check.completing(operation)
        self.current = operation
        operation.complete()
        self.current = None

    def complete_oldest(self) -> None:
        """The first operation of the queue takes place."""
        self._complete(self.queue.popleft())

    def wait(self, batch: Batch, mask: Mask, group: str) -> None:
        """Completes all operations of a group that these warps have issued."""
        mine: NDArray[np.bool_] = np.zeros((self.wave.ctas, self.wave.run.warps), np.bool_)
        mine[batch.ctas, batch.warps] = mask.full.any(-1)
        for operation in [each for each in self.queue if each.group == group]:
            issuers = operation.issuers
            if mine[issuers.rows, issuers.threads // 32].any():
                self.queue.remove(operation)
                self._complete(operation)
        for check in self.wave.run.checks:
            check.awaited(batch, mask, group)
