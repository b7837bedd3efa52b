"""One asynchronous operation, its addresses from its issue on and its effect when it completes; and those of a wave
that have not completed yet.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from tilewright.errors import SimulationError
from tilewright.isa import Access, Addresses, Signal
from tilewright.isa.declared import asked, check_addresses, check_results
from tilewright.sim.machine.facets import issuers_of
from tilewright.sim.machine.units import UnitView

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tilewright.errors import Span
    from tilewright.isa import AsyncMeaning, Consults, Form, Wait
    from tilewright.isa.mma import Accumulator
    from tilewright.sim.machine import Address, CompiledInstruction, Issuers, Memories, Place, Team, Wave
    from tilewright.sim.machine.arrays import Array, Bools, Given, Ints, Results
    from tilewright.sim.machine.registers import RegisterAddress, RegisterFile

__all__ = ["Operation", "Waiting"]

Values: TypeAlias = "dict[str, Array]"


@dataclass(eq=False)
class Operation:
    """One instruction of some issuers. arguments, flags: what `AsyncMeaning.addresses` gets, kept from the issue on;
    flags say which bytes are initialised. sinks: addresses of the registers that are written.

    number: counts the operations of the wave from 1. serial: (n, lanes), how many commits of the group each thread had
    made.
    """

    number: int
    instruction: CompiledInstruction
    team: Team
    issuers: Issuers
    arguments: Values
    sinks: Given
    held: Given
    flags: Values
    serial: Ints
    touched: tuple[UnitView, ...] = ()
    signals: tuple[UnitView, ...] = ()
    consulted: tuple[UnitView, ...] = ()
    is_joined: bool = field(default=False, init=False)
    _read: list[Array | None] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        form, bound = self.form, self.instruction.bound
        operands = list(self.arguments.values())
        where_from = self.meaning.addresses
        places = asked(self.instruction, "addresses", where_from, (self.issuers, *operands)) if where_from else {}
        check_addresses(self.instruction, self.arguments, len(self.issuers.rows), places)
        for name in self.meaning.takes:
            if name in places:
                self.arguments[name] = places[name].at
        barriers = {signal.barrier for signal in form.signals}
        spaces = {operand.name: operand.kind for operand in bound.given}

        def located(
            effect: Access | Signal, operand: str, space: str, width: int, of: Consults | None = None
        ) -> UnitView:
            where = places[operand] if operand in places else Addresses(self.arguments[of.operand if of else operand])
            if of is not None:
                first = where.at.reshape(len(where.at), -1)[:, :1]  # lane 0 says it for a warp
                where = Addresses(first + np.arange(0, of.nbytes, width))
            return UnitView.of(self.issuers, effect, space, width, where, self.instruction.homes.get(operand))

        self.touched = tuple(
            located(access, access.operand, access.space, bound.count(access.nbytes))
            for access in (form.touched if form.issue else ())
            if access.operand not in barriers
        )
        self.consulted = tuple(
            located(Access(use.operand, "global", 16, write=False, proxy=use.proxy), "", "global", 16, of=use)
            for use in form.consults
        )
        self.signals = tuple(located(signal, signal.barrier, spaces[signal.barrier], 8) for signal in form.signals)

    @cached_property
    def form(self) -> Form:
        """The form that is executed."""
        return self.instruction.bound.form

    @cached_property
    def meaning(self) -> AsyncMeaning:
        """What is executed when it completes."""
        return self.form.async_meaning

    @cached_property
    def group(self) -> str:
        """The group with which it is counted, see `tilewright.isa.Issue`."""
        effect = self.form.issue or self.form.commit
        return effect.group if effect else ""

    @cached_property
    def is_commit(self) -> bool:
        """Does it report what the thread has issued before?"""
        return self.form.issue is None

    @cached_property
    def name(self) -> str:
        """``tcgen05.cp``."""
        return self.instruction.bound.instruction.name.removeprefix("ptx.")

    @cached_property
    def reads(self) -> tuple[UnitView, ...]:
        """What the operation reads, with sites."""
        return tuple(access for access in self.touched if not access.writes)

    @cached_property
    def writes(self) -> tuple[UnitView, ...]:
        """What the operation writes, with sites."""
        return tuple(access for access in self.touched if access.writes)

    @cached_property
    def in_ctas(self) -> tuple[UnitView, ...]:
        """What it touches of the memories of CTAs, and the m-barriers that it signals there."""
        return (*(access for access in self.touched if access.space in ("shared", "tmem")), *self.signals)

    @property
    def left_in_ctas(self) -> tuple[UnitView, ...]:
        """The part of that which it has yet to touch."""
        return tuple(access for access in self.in_ctas if access.writes or self._read is None)

    @property
    def is_remote(self) -> bool:
        """Does it touch the shared memory of another CTA than its issuer's?"""
        if self.issuers.cluster_ctas == 1:
            return False
        rows = self.issuers.rows
        return any((use.rows != use.along(rows[use.issuer])).any() for use in self.in_ctas if use.space != "tmem")

    def who(self, actor: int) -> str:
        """``CTA (0, 0, 0), warp 1``, and the lane where one thread issued it."""
        return self.issuers.name(actor)

    def error(self, kind: str, what: str, issuer: int, *, given: object = None, **facts: object) -> SimulationError:
        """A finding about it, issued by one of its issuers. given: left out, that."""
        at, threads = self.instruction.at, (self.issuers.thread_at(issuer),)
        given, facts = given or f"issued by {self.who(issuer)}", {"operation": self.name, **facts}
        return SimulationError(what, given=given, at=at, kind=kind, threads=threads, **facts)  # type: ignore[arg-type]  # as of it

    def registers(self) -> Iterator[tuple[Place, Address, int, bool]]:
        """The registers that it uses until it is complete: buffer, first address, bytes; are they written?"""
        row = self.instruction
        for files, starts, written in ((row.sinks, self.sinks, True), (row.sources, self.held, False)):
            for file, address in zip(files, starts, strict=True):
                reach = file.width * (file.count if file.run else 1)
                for place, start in zip(file.places, [address] if file.run else list(address), strict=False):
                    yield place, start, reach, written

    @cached_property
    def register_spans(self) -> Mapping[str, list[tuple[int, int, bool]]]:
        """`registers` by their buffer's name: the first address, the one behind the last, and are they written?"""
        spans: dict[str, list[tuple[int, int, bool]]] = {}
        for place, start, nbytes, written in self.registers():
            spans.setdefault(place.name, []).append((start.lo, start.hi + nbytes, written))
        return spans

    # Completion

    def signal(self, *, at_issue: bool) -> None:
        """Signal m-barriers at its issue, or at its completion."""
        for signal in self.signals:
            effect = signal.effect
            assert isinstance(effect, Signal)
            if effect.at_issue == at_issue and effect.change is not None:
                signal.change(self.team.wave, self.amounts(signal))

    def amounts(self, signal: UnitView) -> Array:
        """How much each issuer signals: arrivals or bytes, (n,)."""
        assert isinstance(signal.effect, Signal)
        amount = signal.effect.amount
        numbers = self.arguments[amount] if isinstance(amount, str) else self.instruction.bound.count(amount)
        if signal.nbytes is not None:
            numbers = np.zeros(len(self.issuers.rows))
            numbers[signal.issuer] = signal.nbytes
        return np.broadcast_to(numbers, len(self.issuers.rows)).astype(np.uint64)

    def read(self) -> None:
        """Read the sources now, since they may change later; places that are combined with them are read at the end."""
        if self._read is None:
            wave = self.team.wave
            once = self.meaning.accumulator is not None
            self._read = [None if access.combines else access.load(wave, once=once) for access in self.reads]
            self._flags = [None if access.combines else access.flags(wave) for access in self.reads if self._marks]

    @property
    def _marks(self) -> bool:
        return self.instruction.with_shadows and not self.is_commit

    def goes_on_with(self, later: Operation) -> bool:
        """Does a later operation update the same registers of the same issuers, so that the two can be joined?"""
        mine, other, issue = self.instruction.bound, later.instruction.bound, later.form.issue
        if self.meaning.joined is None or issue is None:
            return False
        if mine.form is not other.form or mine.mods != other.mods:
            return False
        same = self.team.look.key == later.team.look.key and self.issuers.are(later.issuers)
        if not same or not later.arguments[issue.accumulates].all():
            return False
        registers, others = list(self.registers()), list(later.registers())
        return all(
            a[0] is b[0] and (a[1].start, a[1].parts) == (b[1].start, b[1].parts)
            for a, b in zip(registers, others, strict=True)
        )

    def join(self, later: list[Operation]) -> None:
        """Take over the later operations, so that one operation does all of them."""
        everyone = [self, *later]
        for operation in everyone:
            operation.read()
        joined = self.meaning.joined
        assert joined is not None
        sources = joined([operation._read for operation in everyone], **self.instruction.keywords)
        if sources is None:
            return
        if self._marks and any(flags is not None for operation in everyone for flags in operation._flags):
            every = [operation._known_flags() for operation in everyone]
            self._flags = [*(joined(every, **self.instruction.keywords) or [])]
        self._read = [*sources]
        for operation in later:
            operation.is_joined = True

    def _known_flags(self) -> list[Array]:
        return [use.all_initialised if had is None else had for use, had in zip(self.reads, self._flags, strict=True)]

    def complete(self) -> None:
        """Let the operation take place; operations that combine values go one after the other."""
        if not self.is_commit and not self.is_joined:
            self.read()
            if any(access.combines for access in self.touched):
                for issuer in range(len(self.issuers.rows)):
                    self._carry_out([access.on_behalf(issuer) for access in self.touched], slice(issuer, issuer + 1))
            else:
                self._carry_out(list(self.touched), slice(None))
        self.signal(at_issue=False)

    def _add(self, accumulator: Accumulator | None) -> bool:
        """Add to the registers that it updates, as the matrix that they hold; False where they cannot."""
        if accumulator is None or self.team.array is not None:
            return False
        matrix = self.instruction.sinks[0].matrix(self.team, self.sinks[0], accumulator)
        if matrix is not None:
            total = matrix.view(accumulator.element).reshape(len(self.issuers.rows), -1, matrix.shape[-1])
            values = [self.arguments[name] for name in self.meaning.takes]
            accumulator.add(total, *(self._read or []), *values, **self.instruction.keywords)
        return matrix is not None

    def _carry_out(self, touched: list[UnitView], which: slice) -> None:
        reads, writes = ([access for access in touched if access.writes == write] for write in (False, True))
        make = self.meaning.accumulator
        values: Given = ()
        if make is None or not self._add(make(self.instruction.bound.mods)):
            values = self._execute(reads, writes, which)
        if self._marks:
            self._mark(reads, which, writes)
        if values and (unlisted := self.instruction.unlisted(self.team, values)):
            first = int(np.argmax(unlisted.where)) + (which.start or 0)
            threads = (self.issuers.thread_at(first),)
            self.instruction.tell(unlisted, self.team, f"a product that {self.who(first)} issued", threads)

    def _execute(self, reads: list[UnitView], writes: list[UnitView], which: slice) -> Given:
        """Read, compute and write; returns what was computed with."""
        wave, run = self.team.wave, self.instruction
        sources = []
        for rows, use in zip(self._of_issuers(self._read or [], reads, which, wave), reads, strict=False):
            once = rows is not None and len(rows) < len(use.issuer)
            sources.append(rows.repeat(len(use.issuer) // len(rows), axis=0) if rows is not None and once else rows)
        values = [self.arguments[name][which] for name in self.meaning.takes]
        registers = self._registers(wave, which)
        results = self._results(self.meaning.execute, [*sources, *values, *registers])
        if self.meaning.execute is not None:
            count = which.stop - which.start if which.stop else len(self.issuers.rows)
            check_results(run, writes, results, count, self.issuers.lanes)
        for access, data in zip(writes, results, strict=False):
            access.store(wave, data)
        for register, at, data in zip(run.sinks, self.sinks, results[len(writes) :], strict=True):
            register.write(wave, self.team, at, self.issuers.spread(data, self.team.shape))
        return (*sources, *values, *registers)

    def _of_issuers(
        self, kept: Sequence[Array | None], reads: list[UnitView], which: slice, memories: Memories
    ) -> Iterator[Array | None]:
        """What was read from these issuers' sources, or its flags; of those that are combined what is there now."""
        for had, use, every in zip(kept, reads, self.reads, strict=False):
            if every.combines:
                yield use.load(memories) if memories is self.team.wave else use.flags(self.team.wave)
            else:
                yield had if had is None or which == slice(None) else had[every.issuer == which.start]

    @property
    def _kept(self) -> list[tuple[RegisterFile, RegisterAddress]]:
        """The registers that are both read and written, as they are now."""
        written = [operand for operand in self.instruction.bound.given if operand.written]
        sinks = zip(written, self.instruction.sinks, self.sinks, strict=True)
        return [(register, at) for operand, register, at in sinks if operand.read]

    @staticmethod
    def _of(results: Results) -> Given:
        return results if isinstance(results, tuple) else () if results is None else (results,)

    def _results(self, meaning: Callable[..., Results] | None, values: list[Array | None]) -> Given:
        return self._of(asked(self.instruction, "execute", meaning, values)) if meaning else tuple(values[:1])

    # Flags of initialised bytes

    def _mark(self, reads: list[UnitView], which: slice, writes: list[UnitView]) -> None:
        """Move the flags where the bits went; operands of arithmetic must be initialised, and its result then is."""
        wave, meaning, issuers = self.team.wave, self.meaning, np.arange(len(self.issuers.rows))
        flags = [*self._of_issuers(self._flags, reads, which, wave.shadows)]
        operands = [self.flags[name][which] for name in meaning.takes if name in self.flags]
        results: Given = (None,) * (len(writes) + len(self.sinks))
        if not meaning.moves:
            registers = self._registers(wave.shadows, which) if self._reads_registers(which) else []
            of_issuers = ((value, issuers[which], "") for value in (*operands, *registers))
            names = [f"{access.effect.operand}, " for access in reads]  # type: ignore[union-attr]  # each is an access
            of_memory = zip(flags, [access.issuer for access in reads], names, strict=True)
            for value, issuer, operand in (*of_memory, *of_issuers):
                self._require(value, issuer, f"{operand}an operand of {self.name}")
        elif self.sinks or any(value is not None for value in flags) or not self._goes_on_set(operands):
            bits = [use.all_initialised if had is None else had for had, use in zip(flags, self.reads, strict=True)]
            registers = self._registers(wave.shadows, which)
            results = self._results(meaning.validity or meaning.execute, [*bits, *operands, *registers])
        for access, data in zip(writes, results, strict=False):
            if access.space not in ("shared", "tmem") and data is not None:
                issuer = access.issuer if len(data) == len(access.issuer) else issuers[which]
                self._require(data, issuer, f"a store of {self.name}")
            access.store_flags(wave, data)
        for register, at, data in zip(self.instruction.sinks, self.sinks, results[len(writes) :], strict=True):
            if data is not None or not register.is_initialised(self.team, at):
                spread = None if data is None else self.issuers.spread(data, self.team.shape)
                register.write(wave.shadows, self.team, at, spread)

    def _goes_on_set(self, operands: list[Array]) -> bool:
        """Do initialised sources and operands make all that it writes initialised? For one issuer as for all."""
        first = [np.ones((1, *access.shape[1:], access.width), np.uint8) for access in self.reads]
        meaning = self.meaning.validity or self.meaning.execute
        results = self._results(meaning, [*first, *(value[:1] for value in operands)])
        return all(map(_are_set, (*operands, *results)))

    def _registers(self, memories: Memories, which: slice) -> list[Array]:
        """The registers that are both read and written, or their flags, as they are now."""
        kept = (register.read(memories, self.team, at) for register, at in self._kept)
        return [self.issuers.taken(value, self.team.shape)[which] for value in kept]

    def _reads_registers(self, which: slice) -> bool:
        """Does any issuer read the registers that the form updates, and may they be uninitialised?"""
        condition = self.form.issue.accumulates if self.form.issue else ""
        if condition and not self.arguments[condition][which].any():
            return False
        return not all(register.is_initialised(self.team, at) for register, at in self._kept)

    def _require(self, flags: Array | None, issuer: Ints, use: str) -> None:
        """issuer: on whose behalf each row of the flags is."""
        if flags is None:
            return
        octets = np.ascontiguousarray(flags)[..., None].view(np.uint8)
        if not octets.all() and self.team.wave.run.unwritten != "sought":
            first = int(np.argmin(octets.reshape(len(octets), -1).all(1)))
            self.team.wave.run.unwritten = "used"
            shown = f"{use}, issued by {self.who(int(issuer[first]))}"
            allowed = "sources that have been written before"
            raise self.error("poison", "a value is uninitialised", int(issuer[first]), given=shown, allowed=allowed)


def _are_set(flags: Array) -> bool:
    """Are these all flags of initialised bytes?"""
    return bool(np.ascontiguousarray(flags)[..., None].view(np.uint8).all())


def join(operations: list[Operation]) -> None:
    """Runs of operations that one can do, joined."""
    run: list[Operation] = []
    for operation in [*operations, None]:
        if run and (operation is None or not run[0].goes_on_with(operation)):
            if len(run) > 1:
                run[0].join(run[1:])
            run = []
        if operation is not None:
            run.append(operation)


# Asynchronous operations between issue and completion.
#
# What is issued joins the queue of its wave and touches nothing yet. Operations complete, oldest first, when no thread
# can go on without them, so that a thread without a wait reads the bytes from before; a wait completes the operations
# that it waits for. The queue keeps the order of issue, hence a commit comes after all that it reports.


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
        team: Team,
        arguments: Given,
        sinks: Given,
        held: Given,
        flags: Sequence[Array] | None,
    ) -> Operation:
        """An operation that has yet to be issued."""
        bound = instruction.bound
        issuers = issuers_of(team, bound.instruction.lanes, instruction.at)
        names = [operand.name for operand in bound.read if not operand.written]
        taken = {name: issuers.taken(value, team.shape) for name, value in zip(names, arguments, strict=True)}
        flags_of = {}
        for name, value in zip(names, flags, strict=True) if flags is not None else ():
            flags_of[name] = issuers.taken(value, team.shape)
        effect = bound.form.issue or bound.form.commit
        assert effect is not None
        serial = issuers.of_threads(self.commits_of(effect.group))
        self.last += 1
        return Operation(self.last, instruction, team, issuers, taken, sinks, held, flags_of, serial)

    def issue(self, operation: Operation) -> None:
        """An operation joins the queue."""
        for access in (*operation.touched, *operation.signals):
            access.check(operation, bounds="bounds" in self.wave.run.program.checks)
        self.wave.run.moves(operation)
        self.queue.append(operation)
        self.wave.run.events.issued(operation)
        operation.signal(at_issue=True)

    def _complete(self, operation: Operation) -> None:
        self.wave.run.events.completing(operation)
        operation.complete()

    def complete(self, operation: Operation) -> None:
        """An operation takes place before those that were issued earlier, if it has not yet."""
        if operation in self.queue:
            self.queue.remove(operation)
            self._complete(operation)

    def _threads(self, team: Team) -> Bools:
        """(CTAs, threads) of the wave, those of a batch."""
        threads = np.zeros((self.wave.ctas, -(-self.wave.run.warps // 4) * 4, 32), np.bool_)
        threads[team.ctas, team.warps] = team.full
        return threads.reshape(self.wave.ctas, -1)

    def commit(self, team: Team, group: str) -> None:
        """Threads commit what they have issued to a group."""
        self.commits_of(group)[self._threads(team)] += 1

    def wait(self, team: Team, effect: Wait, pending: int | None, at: Span | None) -> None:
        """Completes, of the operations of a group that these threads have issued, those that they wait for."""
        commits = self.commits_of(effect.group)
        commits = commits.copy() if pending else commits  # which is told of later
        waiting = Waiting(effect, self._threads(team), commits, pending, self.last, at)
        covered = [operation for operation in self.queue if waiting.covers(operation).any()]
        if not effect.reads:
            join(covered)
        for operation in covered:
            if effect.reads:
                operation.read()
                continue
            self.queue.remove(operation)
            self._complete(operation)
        self.wave.run.events.awaited(self.wave, waiting)
