"""Asynchronous operations between issue and completion.

What is issued joins the queue of its wave and touches nothing yet. Operations complete, oldest first, when no thread
can go on without them, so that who forgets to wait reads what was there before; a wait completes what it waits for.
The queue keeps the order of issue, hence a commit comes after all that it reports.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from tilewright.errors import SimulationError
from tilewright.isa import Addresses, Signal
from tilewright.sim.machine.units import Issuers, Touched, issuers_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tilewright.isa import Access, Form, Wait
    from tilewright.sim.machine.address import Address
    from tilewright.sim.machine.arrays import Array, Bools, Given, Ints
    from tilewright.sim.machine.batch import Batch
    from tilewright.sim.machine.instructions import Instruction
    from tilewright.sim.machine.masks import Mask
    from tilewright.sim.machine.places import Place
    from tilewright.sim.machine.wave import Wave

__all__ = ["Operation", "Pending", "Waiting"]

Values: TypeAlias = "dict[str, Array]"


@dataclass(frozen=True, eq=False)
class Waiting:
    """Threads that wait for a group. threads: (CTAs, threads) of the wave. commits: how many each has made; pending:
    the newest of them that it does not wait for, None where it waits for all operations.
    """

    effect: Wait
    threads: Bools
    commits: Ints
    pending: int | None

    def covers(self, operation: Operation) -> Bools:
        """(n, lanes): the threads that wait for their part of an operation."""
        if operation.group != self.effect.group or operation.is_commit:
            return np.zeros((1, 1), np.bool_)
        rows, threads = operation.issuers.each()
        waits: Bools = self.threads[rows, threads]
        if self.pending is not None:
            waits = waits & (operation.serial < self.commits[rows, threads] - self.pending)
        return waits


@dataclass(eq=False)
class Operation:
    """One instruction of some issuers. arguments, flags: as `Form.addresses` gets them, kept as they were at the issue;
    flags say which bytes are initialised. sinks: addresses of the registers that are written.

    number: counts the operations of the wave from 1. serial: (n, lanes), how many commits of the group each thread had
    made.
    """

    number: int
    instruction: Instruction
    batch: Batch
    mask: Mask
    issuers: Issuers
    arguments: Values
    sinks: Given
    held: Given
    flags: Values
    serial: Ints
    touched: tuple[Touched, ...] = ()
    signals: tuple[Touched, ...] = ()
    is_joined: bool = field(default=False, init=False)
    _read: list[Array | None] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        form, bound = self.form, self.instruction.bound
        given = list(self.arguments.values())
        found = dict(form.addresses(self.issuers, *given, **self.instruction.keywords)) if form.addresses else {}
        for name in form.takes:
            if name in found:
                self.arguments[name] = found[name].at
        barriers = {signal.barrier for signal in form.signals}
        spaces = {operand.name: operand.kind for operand in bound.given}

        def located(effect: Access | Signal, operand: str, space: str, width: int) -> Touched:
            where = found[operand] if operand in found else Addresses(self.arguments[operand])
            return Touched.of(self.issuers, effect, space, width, where)

        self.touched = tuple(
            located(access, access.operand, access.space, form.count(access.nbytes, bound.mods))
            for access in (form.touched if form.issue else ())
            if access.operand not in barriers
        )
        self.signals = tuple(located(signal, signal.barrier, spaces[signal.barrier], 8) for signal in form.signals)

    @property
    def form(self) -> Form:
        """The form that is executed."""
        return self.instruction.bound.form

    @property
    def group(self) -> str:
        """What it is counted with, see `tilewright.isa.Issue`."""
        effect = self.form.issue or self.form.commit
        return effect.group if effect else ""

    @property
    def is_commit(self) -> bool:
        """Does it report what the thread has issued before?"""
        return self.form.issue is None

    @property
    def name(self) -> str:
        """``tcgen05.cp``."""
        return self.instruction.bound.instruction.name.removeprefix("ptx.")

    @property
    def reads(self) -> tuple[Touched, ...]:
        """What the operation reads, with sites."""
        return tuple(one for one in self.touched if not one.writes)

    @property
    def writes(self) -> tuple[Touched, ...]:
        """What the operation writes, with sites."""
        return tuple(one for one in self.touched if one.writes)

    @property
    def needs_cta(self) -> bool:
        """Is it yet to touch the memory of a CTA, or to tell an m-barrier there?"""
        todo = self.touched if self._read is None else self.writes
        return bool(self.signals) or any(one.space in ("shared", "tmem") for one in todo)

    def who(self, actor: int) -> str:
        """``CTA (0, 0, 0), warp 1``, and the lane where one thread issued it."""
        return self.issuers.name(actor)

    def registers(self) -> Iterator[tuple[Place, Address, int, bool]]:
        """The registers that it goes on using: buffer, first address, bytes; are they written?"""
        row = self.instruction
        for files, starts, written in ((row.sinks, self.sinks, True), (row.sources, self.held, False)):
            for file, address in zip(files, starts, strict=True):
                reach = file.width * (file.count if file.run else 1)
                for place, start in zip(file.places, [address] if file.run else list(address), strict=False):
                    yield place, start, reach, written

    # Completion

    def signal(self, *, at_issue: bool) -> None:
        """Tell m-barriers that it was issued, or that it is complete."""
        for one in self.signals:
            effect = one.effect
            assert isinstance(effect, Signal)
            if effect.at_issue == at_issue and effect.change is not None:
                amount = effect.amount
                given = self.arguments[amount] if isinstance(amount, str) else self.form.count(amount, self._mods)
                if one.nbytes is not None:
                    given = np.zeros(len(self.issuers.rows))
                    given[one.issuer] = one.nbytes
                one.change(self.batch.wave, (np.broadcast_to(given, len(self.issuers.rows)).astype(np.uint64),))

    @cached_property
    def _mods(self) -> Any:
        return self.instruction.bound.mods

    def read(self) -> None:
        """Read the sources now, since they may change later; what they are combined with is read when it is written."""
        if self._read is None:
            self._read = [None if one.combines else one.load(self.batch.wave, flags=False) for one in self.reads]
            self._flags = [None if one.combines else one.load(self.batch.wave, flags=True)
                           for one in self.reads if self._marks]  # fmt: skip

    @property
    def _marks(self) -> bool:
        return self.instruction.with_shadows and not self.is_commit

    def goes_on_with(self, later: Operation) -> bool:
        """Does a later one update the same registers, of the same issuers, by what this one's form can join?"""
        mine, other, issue = self.instruction.bound, later.instruction.bound, later.form.issue
        if self.form.joined is None or issue is None or mine.form is not other.form or mine.mods != other.mods:
            return False
        same = self.batch.key == later.batch.key and np.array_equal(self.issuers.each(), later.issuers.each())
        if not same or not later.arguments[issue.accumulates].all():
            return False
        registers, others = list(self.registers()), list(later.registers())
        return all(
            a[0] is b[0] and (a[1].start, a[1].parts) == (b[1].start, b[1].parts)
            for a, b in zip(registers, others, strict=True)
        )

    def join(self, later: list[Operation]) -> None:
        """Take over what the later operations do, so that one operation does all of it."""
        everyone = [self, *later]
        for operation in everyone:
            operation.read()
        assert self.form.joined is not None
        found = self.form.joined([operation._read for operation in everyone], **self.instruction.keywords)
        if found is None:
            return
        if self._marks:
            self._flags = [*(self.form.joined([one._flags for one in everyone], **self.instruction.keywords) or [])]
        self._read = [*found]
        for operation in later:
            operation.is_joined = True

    def complete(self) -> None:
        """Let the operation take place; operations that combine values go one after the other."""
        if not self.is_commit and not self.is_joined:
            self.read()
            if any(one.combines for one in self.touched):
                for issuer in range(len(self.issuers.rows)):
                    self._carry_out([one.on_behalf(issuer) for one in self.touched], slice(issuer, issuer + 1))
            else:
                self._carry_out(list(self.touched), slice(None))
        self.signal(at_issue=False)

    def _carry_out(self, touched: list[Touched], which: slice) -> None:
        wave, run = self.batch.wave, self.instruction
        shape = self.batch.shape
        reads, writes = ([one for one in touched if one.writes == write] for write in (False, True))
        found, flags = (list(self._found(kept, reads, which, flags=kept is self._flags)) for kept in
                        (self._read or [], self._flags))  # fmt: skip
        kept = [register.load(self.batch, self.mask, at, checked=True) for register, at in self._kept]
        values = [self.arguments[name][which] for name in self.form.takes]
        registers = [self.issuers.taken(value, shape)[which] for value in kept]
        results = self._results(self.form.execute, [*found, *values, *registers])
        for one, data in zip(writes, results, strict=False):
            one.store(wave, data, flags=False)
        for register, at, data in zip(run.sinks, self.sinks, results[len(writes) :], strict=True):
            register.store(self.batch, self.mask, at, self.issuers.spread(data, shape), checked=True)
        if self._marks:
            self._mark(flags, which, writes)

    def _found(self, kept: list[Array | None], reads: list[Touched], which: slice, *, flags: bool) -> Iterator[Array]:
        """The bytes that were read from these issuers' sources, and what they are combined with as it is now."""
        for had, now, all_ in zip(kept, reads, self.reads, strict=False):
            own = had if had is None or which == slice(None) else had[all_.issuer == which.start]
            yield now.load(self.batch.wave, flags=flags) if own is None else own

    @property
    def _kept(self) -> list[tuple[Any, Any]]:
        """The registers that are both read and written, as they are now."""
        written = [operand for operand in self.instruction.bound.given if operand.written]
        sinks = zip(written, self.instruction.sinks, self.sinks, strict=True)
        return [(register, at) for operand, register, at in sinks if operand.read]

    @staticmethod
    def _of(results: Any) -> Given:
        return results if isinstance(results, tuple) else () if results is None else (results,)

    def _results(self, meaning: Any, values: list[Any]) -> Given:
        return self._of(meaning(*values, **self.instruction.keywords)) if meaning else tuple(values[:1])

    # Flags of initialised bytes

    def _mark(self, flags: list[Array], which: slice, writes: list[Touched]) -> None:
        """Move the flags where the bits went; operands of arithmetic must be initialised, and its result then is."""
        wave, form, shape = self.batch.wave, self.form, self.batch.shape
        given = [self.flags[name][which] for name in form.takes if name in self.flags]
        kept = [register.flags(self.batch, self.mask, at) for register, at in self._kept]
        registers = [self.issuers.taken(value, shape)[which] for value in kept]
        if form.moves:
            results = self._results(form.validity or form.execute, [*flags, *given, *registers])
        else:
            for value in (*flags, *given, *(registers if self._reads_registers(which) else ())):
                self._require(value, f"an operand of {self.name}")
            results = tuple(one.all_initialised for one in writes) + (None,) * len(self.sinks)
        for one, data in zip(writes, results, strict=False):
            if one.space not in ("shared", "tmem"):
                self._require(data, f"a store of {self.name}")
            one.store(wave, data, flags=True)
        for register, at, data in zip(self.instruction.sinks, self.sinks, results[len(writes) :], strict=True):
            register.store_flags(self.batch, self.mask, at, None if data is None else self.issuers.spread(data, shape))

    def _reads_registers(self, which: slice) -> bool:
        """Does any issuer read the registers that the form updates?"""
        condition = self.form.issue.accumulates if self.form.issue else ""
        return not condition or bool(self.arguments[condition][which].any())

    def _require(self, flags: Array, use: str) -> None:
        octets = np.ascontiguousarray(flags)[..., None].view(np.uint8)
        if not octets.all():
            wrong = ~octets.reshape(len(octets), -1).all(1)
            raise SimulationError(
                "a value is uninitialised",
                given=f"{use}, issued by {self.who(int(np.flatnonzero(wrong)[0]) % len(self.issuers.rows))}",
                allowed="sources that have been written before",
                at=self.instruction.at,
            )


def _join(operations: list[Operation]) -> None:
    """Runs of operations that one can do, joined."""
    run: list[Operation] = []
    for operation in [*operations, None]:
        if run and (operation is None or not run[0].goes_on_with(operation)):
            if len(run) > 1:
                run[0].join(run[1:])
            run = []
        if operation is not None:
            run.append(operation)


class Pending:
    """The queue of a wave. last: the number of the operation that was issued last. loading: must accesses to registers
    be looked at, since some may be in flight? issuing: the instruction that is looking at its own. commits: by group,
    (CTAs, threads), how many each thread has made. watched: does a check look at all accesses to registers?
    """

    def __init__(self, wave: Wave) -> None:
        self.wave = wave
        self.loading = False
        self.watched = False
        self.issuing: Instruction | None = None
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
        instruction: Instruction,
        batch: Batch,
        mask: Mask,
        arguments: Given,
        sinks: Given,
        held: Given,
        flags: Sequence[Any] | None,
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
        serial = self.commits_of(effect.group)[issuers.each()]
        if instruction.with_shadows:
            self.wave.shadows.expand()
        self.last += 1
        return Operation(self.last, instruction, batch, mask, issuers, taken, sinks, held, given, serial)

    def issue(self, made: Operation) -> None:
        """An operation joins the queue."""
        for one in made.touched:
            one.check(made.issuers, bounds="bounds" in self.wave.run.program.checks)
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

    def _threads(self, batch: Batch, mask: Mask) -> Bools:
        """(CTAs, threads) of the wave, those of a batch."""
        found = np.zeros((self.wave.ctas, -(-self.wave.run.warps // 4) * 4, 32), np.bool_)
        found[batch.ctas, batch.warps] = mask.full
        return found.reshape(self.wave.ctas, -1)

    def commit(self, batch: Batch, mask: Mask, group: str) -> None:
        """Threads close what they have issued to a group."""
        self.commits_of(group)[self._threads(batch, mask)] += 1

    def wait(self, batch: Batch, mask: Mask, effect: Wait, pending: int | None) -> None:
        """Completes, of the operations of a group that these threads have issued, those that they wait for."""
        waiting = Waiting(effect, self._threads(batch, mask), self.commits_of(effect.group), pending)
        covered = [each for each in self.queue if waiting.covers(each).any()]
        if not effect.reads:
            _join(covered)
        for operation in covered:
            if effect.reads:
                operation.read()
                continue
            self.queue.remove(operation)
            self._complete(operation)
        for check in self.wave.run.checks:
            check.awaited(self.wave, waiting)
