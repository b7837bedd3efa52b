"""The subscriber that records a run.

The generated code of a program that is recorded tells it each statement (`Recorder.executed`) and each question at a
wait (`Recorder.asked`); the rest comes from the events that every check gets. Statements are kept for the whole batch
until anything else happens to it, and then added to the stream of each of its warps that is recorded.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from tilewright.explain import Finding
from tilewright.ir import as_expr, names_in
from tilewright.ir.numbers import evaluate
from tilewright.isa import SECTOR_BYTES, Fence, RegisterFence, Signal, phase_of, phase_state, unit_of
from tilewright.records import replace
from tilewright.sim.checks.base import Check
from tilewright.sim.machine import EVERY, Address, Part, default_phase, element_text, numbers, split, wavefronts
from tilewright.sim.record.recording import (
    AccessSite,
    AsyncOperation,
    Committed,
    Event,
    Fenced,
    FindingMoment,
    Growing,
    Issued,
    KernelBuffer,
    LeftOut,
    Marked,
    Met,
    OpenMeeting,
    OpenOperation,
    PhaseLog,
    Recording,
    RecordingOptions,
    Row,
    Signalled,
    Waited,
    WarpAccess,
)
from tilewright.sim.record.rows import Detailed, moment_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tilewright.errors import SimulationError
    from tilewright.sim.machine.arrays import Array, Bools, Ints, Value
    from tilewright.sim.machine.device import Device
    from tilewright.sim.machine.event import AccessEvent, FenceEvent, Hook, MBarrierSignal, MeetingEvent
    from tilewright.sim.machine.operation import Operation, Waiting
    from tilewright.sim.machine.sites import Site
    from tilewright.sim.machine.subject import Subject
    from tilewright.sim.machine.team import Batch, Look, Team
    from tilewright.sim.machine.units import UnitView
    from tilewright.sim.machine.wave import Wave

# What one access of a warp costs, computed once for each pattern of addresses.


class Measure:
    """Measures the accesses of one site. known: by the lanes' distances from the first, and where that one lies."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.row = AccessSite(site.at, site.op, site.line.buffer, site.line.space, site.write, site.width,
                              site.how.goes_on)  # fmt: skip
        self.sums = np.zeros(2, np.int64)  # sectors and runs of all stretches
        self.together: list[Ints] = []  # what lanes touch in this one
        self.known: dict[tuple[int, bytes, bytes], WarpAccess] = {}

    def __call__(self, addresses: Ints, active: Bools | None) -> WarpAccess:
        """addresses: (32,) or (1,), bytes. active: (32,), None for all."""
        first = int(addresses.min())
        key = first % EVERY, (addresses - first).tobytes(), b"" if active is None else active.tobytes()
        if key not in self.known:
            lanes = np.arange(32) < self.site.how.lanes
            lanes &= True if active is None else active
            self.known[key] = self._measured(np.broadcast_to(addresses, 32), lanes)
        return self.known[key]

    def _measured(self, addresses: Ints, active: Bools) -> WarpAccess:
        site, lanes, start = self.site, int(active.sum()), int(addresses.min()) % EVERY
        if site.line.space == "global":
            sectors, pieces = self._pieces(addresses[active])
            return WarpAccess(lanes, lanes * site.width, sectors=sectors, pieces=pieces, start=start)
        phase, pairs = site.how.phase or default_phase(site.width), not (site.write or site.how.phase)
        at = Address(0, Part(addresses.reshape(1, 1, 32)))
        everyone = lanes == site.how.lanes
        passes, ideal = wavefronts(at, site.how.lanes, site.width, phase, None if everyone else active, pairs=pairs)
        return WarpAccess(lanes, lanes * site.width, passes, ideal, start=start)

    def _pieces(self, addresses: Ints) -> tuple[int, int]:
        """How many sectors lanes touch, and how many pieces these make."""
        ends = addresses // SECTOR_BYTES, (addresses + self.site.width - 1) // SECTOR_BYTES
        sectors = np.unique(np.concatenate(ends))
        return len(sectors), 1 + int((np.diff(sectors) > 1).sum())

    def touched(self) -> AccessSite:
        """The site, with how many bytes on end were touched at once."""
        return replace(self.row, run_bytes=SECTOR_BYTES * int(self.sums[0]) / max(1, int(self.sums[1])))

    def join(self) -> None:
        """A stretch is over: what warps have touched in it makes runs."""
        self.sums += self._pieces(np.concatenate(self.together)) if self.together else 0
        self.together.clear()


MOST_TOGETHER = 4096  # accesses of warps
MOST_UNDER_WAY = 4096
"""Operations of a group that waits are asked about."""

COMPUTES = ("let", "if", "loop")
"""Kinds of rows that change no buffer in registers."""

CLUSTER = 16
"""The number of the cluster's barrier; those with a name are below."""

Streams = list[tuple[int, int, Growing]]  # CTA and warp as places in a batch


class Recorder(Check):
    """Records the next run that begins after `arm`. rows: of the program, which the code generator adds.

    running: whose statements are being executed; pending: those since the last event, with who executes them.
    """

    def __init__(self, program: Subject) -> None:
        super().__init__(program)
        self.rows: list[Row] = []
        self.sites: list[Measure] = []
        self.only_wait: set[int] = set()  # rows at which threads wait for a meeting at which they have arrived
        self._rows_of: dict[int, tuple[int, object]] = {}  # by id of what is kept alive, so that no id is used again
        self.wanted: RecordingOptions | None = None
        self.on = self.hears = False

    # The program

    def row(self, key: object, make: Callable[[], Row]) -> int:
        """The number of a row; ``key`` is what it is of."""
        if id(key) not in self._rows_of:
            self.rows.append(make())
            self._rows_of[id(key)] = len(self.rows) - 1, key
        return self._rows_of[id(key)][0]

    def last_of(self, keys: Sequence[object]) -> int | None:
        """The number of the last row that is there already."""
        return next((self._rows_of[id(key)][0] for key in reversed(keys) if id(key) in self._rows_of), None)

    def watch(self, site: Site) -> Hook | None:
        if site.place is None or site.place.space not in ("shared", "global") or site.how.is_signal:
            return None
        self.sites.append(Measure(site))
        return partial(self.accessed, len(self.sites) - 1, self.sites[-1])

    # A run

    def arm(self, wanted: RecordingOptions) -> None:
        """Record the run that begins next."""
        self.wanted = wanted

    def begin(self, run: Device) -> None:
        self.on = self.wanted is not None
        if self.wanted is None:
            return
        self.record, self.wanted = self.wanted, None
        self.run, self.limit = run, self.record.events
        self.seq = self.events = self.step = self.now = self.segment = self.instance = 0
        self.running: Batch | None = None
        self.streams: Streams = []
        self.pending: list[tuple[int, Team]] = []
        self.places: dict[tuple[int, tuple[object, ...]], Streams] = {}
        self.by_cta: dict[int, list[Growing]] = {}
        self.operations: list[OpenOperation] = []
        self.under_way: dict[int, list[OpenOperation]] = {}
        self.of_group: dict[tuple[int, str], list[tuple[Operation, list[OpenOperation]]]] = {}
        self.barriers: dict[tuple[int, int], PhaseLog] = {}
        self.meetings: list[OpenMeeting] = []
        self.at_barrier: dict[tuple[int, int, int], OpenMeeting] = {}
        self.signal_told = -1
        self.moments: list[FindingMoment] = []
        self.hears = True
        self.team: Team | None = None
        run.findings.heard = self.found
        self.room = [self.record.nbytes * bool(self.record.stepped)]
        self.tmem: dict[int, Array] = {}
        self.detailed: dict[tuple[int, int], Detailed] = {}
        self.cut: int | None = None

    def start(self, wave: Wave) -> None:
        if not self.on:
            return
        size = self.run.cluster_ctas
        for cta in range(wave.first, wave.first + wave.ctas):
            cluster = range(cta - cta % size, cta - cta % size + size)
            if any(map(self.record.holds, cluster)):
                self.by_cta[cta] = [Growing(cta, warp) for warp in range(self.run.warps)]
                if len(self.detailed) < self.record.stepped * self.run.warps:
                    self.detailed |= {(cta, w): Detailed(cta, w, self.room, self.tmem) for w in range(self.run.warps)}

    def finish(self, run: Device) -> None:
        if self.on:
            self.flush()
        self.on = False

    def taken(self, target: str, findings: tuple[Finding, ...]) -> Recording:
        """What was recorded, also of a run that a finding has ended; the next run is not recorded."""
        if self.hears:
            self.flush()
        wrong = [finding for finding in findings if finding.severity == "error"]
        for bad in wrong[len(self.moments) :]:  # that which has ended the run, or another run in another order
            self.moments.append(moment_of(self, bad) if self.hears and bad.choice is None else FindingMoment(self.seq))
        self.on = self.hears = False
        kernel, logs = self.program.kernel, self.detailed.values()
        streams = tuple(warp.stream() for cta in sorted(self.by_cta) for warp in self.by_cta[cta])
        waits = (event for stream in streams for event in stream.events if isinstance(event, Waited))
        waited = {(wait.cta, wait.address, wait.phase) for wait in waits if wait.until is None}
        phases = tuple(phase for log in self.barriers.values() for phase in log.phases(waited))
        return Recording(
            kernel.name, kernel.at, target, self.run.grid, self.run.cluster_ctas, self.run.threads, tuple(self.rows),
            tuple(site.touched() for site in self.sites), streams, tuple(op.data for op in self.operations), phases,
            tuple(meeting.meeting() for meeting in self.meetings), self.run.steps,
            LeftOut(self.run.ctas - len(self.by_cta), self.cut, sum(not log.is_whole for log in logs)),
            tuple(log.done(self.run) for log in logs), findings, tuple(self.moments), self._buffers(), kernel.compiled,
        )  # fmt: skip

    def found(self, error: SimulationError) -> None:
        """A check has made a finding, and the run may go on."""
        if self.hears:
            self.flush()
            self.moments.append(moment_of(self, Finding.of(error)))

    def _buffers(self) -> tuple[KernelBuffer, ...]:
        """The kernel's buffers; without a shape where that depends on more than the arguments."""
        sizes, rows = self.run.scalars, []
        for name, var in self.program.authored.items():
            home, fixed = self.program.home_of(var), names_in(var.shape) <= sizes.keys()  # others only a run knows
            shape = tuple(int(evaluate(as_expr(extent), sizes)) for extent in var.shape) if fixed else ()
            space = var.space.partition(".")[0]
            rows.append(
                KernelBuffer(name, space, str(var.dtype), var.dtype.bits, shape, var.layout, home.start if home else 0)
            )
        return tuple(rows)

    def next(self) -> int:
        """The number of a new event."""
        self.seq += 1
        return self.seq

    def event(self) -> int:
        """The number of a new event, behind the statements before it."""
        self.flush()
        return self.next()

    def add(self, stream: Growing, event: Event) -> int:
        """An event of a warp; its place there. Ends the recording at its limit."""
        self.events += 1
        if self.events >= self.limit:
            self.on, self.hears, self.cut = False, False, self.seq
        stream.events.append(event)
        return len(stream.events) - 1

    def streams_of(self, look: Look) -> Streams:
        """The recorded warps of a batch."""
        key = look.wave.first, look.key
        if key not in self.places:
            ctas = [(i, self.by_cta.get(look.wave.first + row, ())) for i, row in enumerate(numbers(look.ctas))]
            self.places[key] = [(i, j, every[warp]) for i, every in ctas if every
                                for j, warp in enumerate(numbers(look.warps))]  # fmt: skip
        return self.places[key]

    def active(self, team: Team) -> Iterator[tuple[int, int, Growing]]:
        """Those that have an active lane."""
        some = None if team.array is None else np.asarray(team.full.any(-1))
        return ((i, j, stream) for i, j, stream in self.streams_of(team.look) if some is None or some[i, j])

    # Statements

    def executed(self, row: int, batch: Batch, team: Team) -> None:
        """Lanes are about to execute a statement."""
        if not self.on:
            return
        self.enter(batch)
        self.instance += 1
        self.last_row, self.team = row, team
        if self.streams:
            self.pending.append((row, team))
            self._steps(row, team)
            if self.rows[row].kind == "meet":
                self._comes(row, team)
            elif self.rows[row].commits:
                self._commits(row, team)

    def _steps(self, row: int, team: Team) -> None:
        if self.room[0] > 0:
            computes = self.rows[row].kind in COMPUTES
            for i, j, stream in self.active(team):
                if (detailed := self.detailed.get((stream.cta, stream.warp))) is not None:
                    detailed.begin(self.seq, row, team.full[i, j], team.wave, computes=computes)

    def kept(self, team: Team, value: Value) -> None:
        """A statement has given a variable this value."""
        if self.on and self.room[0] > 0:
            for i, j, stream in self.active(team) if self.streams else ():
                if (detailed := self.detailed.get((stream.cta, stream.warp))) is not None:
                    detailed.keep(value, i, j)

    def marked(self, row: int, name: str, batch: Batch, team: Team) -> None:
        """Lanes came to a mark."""
        if not self.on:
            return
        self.enter(batch)
        seq, lanes = self.event(), team.full.sum(-1)
        for i, j, stream in self.active(team):
            self.add(stream, Marked(seq, self.now, row, name, int(lanes[i, j])))

    def enter(self, batch: Batch) -> None:
        """This batch runs: perhaps another one, or the next segment."""
        if batch is not self.running or self.run.steps != self.now:
            self.flush()
            self.running, self.now, self.segment = batch, self.run.steps, batch.segment
            self.streams = self.streams_of(batch.team.look)

    def flush(self) -> None:
        """Adds the statements since the last event to the streams."""
        if not self.streams or not (self.pending or any(stream.moved for _, _, stream in self.streams)):
            self.pending = []
            return
        seq = self.next()
        teams = {id(team): team for _, team in self.pending if team.array is not None}
        some = {key: np.asarray(team.full.any(-1)) for key, team in teams.items()}
        counts: dict[tuple[bool, ...], tuple[tuple[int, int], ...]] = {}
        for i, j, stream in self.streams:
            kind = tuple(bool(active[i, j]) for active in some.values())
            if kind not in counts:
                here = Counter(row for row, team in self.pending if id(team) not in some or some[id(team)][i, j])
                counts[kind] = tuple(here.items())
            if stream.stretch(seq, self.now, self.segment, counts[kind]):
                self.events += 1
        self.pending = []
        for site in self.sites:
            site.join()
        if self.events >= self.limit:
            self.on, self.hears, self.cut = False, False, seq

    def accessed(self, site: int, measure: Measure, event: AccessEvent) -> None:
        """Lanes are about to touch memory: a hook of each site."""
        if not self.on:
            return
        team, streams = event.team, self.streams_of(event.team.look)
        for at in event.every if streams else ():
            full = at.full()
            for i, j, stream in streams:
                active = None if team.array is None else team.full[i, j]
                if active is None or active.any():
                    lanes = full[i if len(full) > 1 else 0, j if full.shape[1] > 1 else 0]
                    stream.moved.setdefault(site, []).append(measure(lanes, active))
                    if measure.site.line.space == "global":
                        measure.together.append(lanes if active is None or len(lanes) == 1 else lanes[active])
                    if (detailed := self.detailed.get((stream.cta, stream.warp))) is not None:
                        detailed.touch(site, lanes)
            if len(measure.together) > MOST_TOGETHER:
                measure.join()

    def _commits(self, row: int, team: Team) -> None:
        seq, group = self.event(), self.rows[row].commits
        for _, _, stream in self.active(team):
            closed = tuple(stream.issued.pop(group, ()))
            self.add(stream, Committed(seq, self.now, row, group, closed))

    def fenced(self, event: FenceEvent) -> None:
        if not self.on or not self.streams or isinstance(fence := event.fence, RegisterFence):
            return
        if isinstance(fence, Fence):
            words: tuple[object, ...] = ("fence", fence.sem, fence.scope, fence.only)
        else:
            words = ("proxy fence", fence.proxy, fence.space, "" if fence.side == "both" else fence.side)
        text = " ".join(str(word) for word in words if word)
        seq = self.event()
        for _, _, stream in self.active(event.team):
            self.add(stream, Fenced(seq, self.now, self.last_row, text))

    # Operations

    def issued(self, operation: Operation) -> None:
        if not self.on or not self.streams:
            return
        seq, issuers = self.event(), operation.issuers
        groups: dict[tuple[int, int], list[int]] = {}
        for k, (row, thread) in enumerate(zip(issuers.rows.tolist(), issuers.threads.tolist(), strict=True)):
            if issuers.wave.first + row in self.by_cta:
                groups.setdefault((issuers.wave.first + row, thread // 32), []).append(k)
        amounts = list(self._amounts(operation)) if groups else []
        parts = []
        for (cta, warp), which in groups.items():
            part = OpenOperation(len(self.operations), frozenset(which),
                                self._operation(operation, seq, cta, warp, which, amounts),
                                tuple(_spans(operation, which)))  # fmt: skip
            self.operations.append(part)
            parts.append(part)
            for stream in self.by_cta[cta][warp : warp + issuers.warps_each]:
                self.add(stream, Issued(seq, self.now, self.last_row, part.number))
                if not operation.is_commit:
                    stream.issued.setdefault(operation.group, []).append(part.number)
        if parts:
            self.under_way[id(operation)] = parts
            earlier = self.of_group.setdefault((issuers.wave.first, operation.group), [])
            earlier.append((operation, parts))
            del earlier[:-MOST_UNDER_WAY]
        for signal in operation.signals:
            assert isinstance(signal.effect, Signal)
            if signal.effect.at_issue:
                self._count(operation, signal, seq)

    def _operation(
        self, operation: Operation, seq: int, cta: int, warp: int, which: list[int],
        amounts: list[tuple[bool, str, str, Ints]],
    ) -> AsyncOperation:  # fmt: skip
        issuers, bound, wave = operation.issuers, operation.instruction.bound, operation.team.wave
        moved: tuple[dict[str, int], dict[str, int]] = ({}, {})
        for writes, space, _, nbytes in amounts:
            moved[writes][space] = moved[writes].get(space, 0) + int(nbytes[which].sum())
        told: set[tuple[int, int]] = set()
        for signal in operation.signals:
            mine = np.isin(signal.issuer, which)
            rows = (signal.rows[mine] + wave.first).reshape(-1).tolist()
            told.update(zip(rows, signal.at[mine].reshape(-1).tolist(), strict=True))
        after = tuple(self.by_cta[cta][warp].issued.pop(operation.group, ())) if operation.is_commit else ()
        return AsyncOperation(
            bound.instruction.name, unit_of(operation.form), bound.mnemonic, self.last_row,
            operation.instruction.at, cta, warp,
            issuers.warps_each, len(which) * issuers.lanes, operation.group, seq, self.now, reads=moved[False],
            writes=moved[True], buffers=tuple(dict.fromkeys(name for _, _, name, n in amounts if n[which].any())),
            signals=tuple(sorted(told)), is_commit=operation.is_commit, after=after,
        )  # fmt: skip

    def _amounts(self, operation: Operation) -> Iterator[tuple[bool, str, str, Ints]]:
        """(is it written, memory, buffer, bytes of each issuer) of all that an operation touches."""
        count, places = len(operation.issuers.rows), self.run.places
        for access in operation.touched:
            sizes = np.full(len(access.issuer), prod(access.shape[1:]) * access.width)
            if access.nbytes is not None:
                sizes = access.nbytes.reshape(len(access.issuer), -1).sum(1)
            sums = np.bincount(access.issuer, weights=sizes, minlength=count).astype(np.int64)
            name = "tensor memory" if access.space == "tmem" else ""
            if access.places.size and not name:
                name = places.holding(access.space, int(access.places.flat[0])).name
            space = "global" if access.space == "generic" else access.space
            yield access.writes, space, name, sums
        for files, writes in ((operation.instruction.sinks, True), (operation.instruction.sources, False)):
            for file in files:
                nbytes = np.full(count, file.width * file.count * operation.issuers.lanes)
                yield writes, "registers", "registers", nbytes

    def completing(self, operation: Operation) -> None:
        if not self.on:
            return
        seq = self.event()
        for part in self.under_way.pop(id(operation), ()):
            part.data = replace(part.data, completed=seq, completed_step=self.run.steps)
        for signal in operation.signals:
            assert isinstance(signal.effect, Signal)
            if not signal.effect.at_issue:
                self._count(operation, signal, seq)

    def _count(self, operation: Operation, use: UnitView, seq: int) -> None:
        """An operation signals m-barriers."""
        assert isinstance(use.effect, Signal)
        wave, is_bytes = operation.team.wave, use.effect.kind == "bytes"
        amounts = operation.amounts(use)[use.issuer]
        words = phase_of(wave.shared.view(8)[use.rows, use.at >> 3])
        every = zip(use.rows.flat, use.at.flat, words.flat, np.broadcast_to(amounts, use.rows.shape).flat, strict=True)
        for row, address, word, amount in every:
            if (log := self.barrier(wave, int(row), int(address))) is not None:
                phase = log.at(int(word))
                phase.signals += [seq] if phase.signals[-1:] != [seq] else []
                phase.nbytes += int(amount) if is_bytes else 0
                phase.arrivals += 0 if is_bytes else int(amount)

    def awaited(self, wave: Wave, waiting: Waiting) -> None:
        if not self.on or not self.streams:
            return
        seq, group, reads = self.event(), waiting.effect.group, waiting.effect.reads
        operations = self.of_group.get((wave.first, group), [])
        covered: dict[tuple[int, int], list[int]] = {}
        for operation, parts in operations:
            covers = np.asarray(waiting.covers(operation).any(-1))
            for part in parts if covers.any() else ():
                if any(covers[k] for k in part.issuers if k < len(covers)):
                    for warp in range(part.data.warp, part.data.warp + part.data.warps):
                        covered.setdefault((part.data.cta, warp), []).append(part.number)
        for _, _, stream in self.streams:
            if waiting.threads[stream.cta - wave.first, 32 * stream.warp : 32 * stream.warp + 32].any():
                every = covered.get((stream.cta, stream.warp), ())
                waited = tuple(n for n in every if not {(n, reads), (n, False)} & stream.waited_for)
                stream.waited_for.update((n, reads) for n in waited)
                done = [self.operations[n].data.completed or 0 for n in waited]
                self.add(stream, Waited(seq, self.now, self.last_row, "group", group=group, pending=waiting.pending,
                                        operations=waited, reads=reads, until=seq,
                                        cause=max(done, default=0) or None))  # fmt: skip
        operations[:] = [(op, parts) for op, parts in operations if not all(map(self._is_over, parts))]

    def _is_over(self, part: OpenOperation) -> bool:
        """Has each warp that issued it waited for its end?"""
        warps = self.by_cta[part.data.cta][part.data.warp : part.data.warp + part.data.warps]
        return all((part.number, False) in stream.waited_for for stream in warps)

    # m-barriers

    def barrier(self, wave: Wave, row: int, address: int) -> PhaseLog | None:
        """The phases of an m-barrier; None of a CTA that is not recorded."""
        cta = wave.first + row
        if cta not in self.by_cta:
            return None
        if (cta, address) not in self.barriers:
            name = element_text(self.program, self.run.places.shared_at(address), address)
            self.barriers[cta, address] = PhaseLog(cta, address, name)
        return self.barriers[cta, address]

    def signalled(self, event: MBarrierSignal) -> None:
        team, signal = event.team, event.effect
        if not self.on or not self.streams or (signal.kind == "wait" and self.rows[self.last_row].kind == "ask"):
            return
        self.flush()
        counts = signal.kind in ("arrive", "bytes")
        if counts and self.signal_told == self.instance:  # the other effect of the same statement
            return
        self.signal_told, seq, active = self.instance, self.next(), event.team.full
        rows, warps, _ = team.threads
        addresses = np.broadcast_to(event.barrier, active.shape)[active].astype(np.int64)
        words = np.broadcast_to(event.found, active.shape)[active] if counts else None
        there, address = split(team.wave, rows, addresses)
        by_barrier: dict[tuple[int, int], list[int]] = {}
        for k, place in enumerate(zip(there.tolist(), address.tolist(), strict=True)):
            by_barrier.setdefault(place, []).append(k)
        for (row, at_byte), which in by_barrier.items():
            if (log := self.barrier(team.wave, row, at_byte)) is not None:
                actors = [(int(rows[k]), int(warps[k])) for k in which]
                self._signal(seq, team.wave, log, actors, signal.kind, None if words is None else words[which])

    def _signal(
        self, seq: int, wave: Wave, log: PhaseLog, actors: list[tuple[int, int]], kind: str, before: Ints | None
    ) -> None:
        """Lanes signal one m-barrier. actors: row and warp of each, in their order. before: its words then."""
        word = wave.shared.view(8)[log.cta - wave.first, log.address >> 3]
        by_warp: dict[tuple[int, int], list[int]] = {}
        for k, actor in enumerate(actors):
            by_warp.setdefault(actor, []).append(k)
        if kind == "init":
            log.restart(seq, int(phase_state(word).expected))
        if kind == "wait":
            log.at(int(phase_of(word)))
        after = None if before is None else np.append(before[1:], word).astype(np.uint64)
        for (row, warp), which in by_warp.items():
            stream = self.by_cta[wave.first + row][warp] if wave.first + row in self.by_cta else None
            if kind == "wait":
                event: Event = Waited(seq, self.now, self.last_row, "mbarrier", log.cta, log.address,
                                      log.open.number - 1, until=seq, cause=log.last)  # fmt: skip
            else:
                sums = log.open.number, 0, 0
                if before is not None and after is not None:
                    sums = log.counts(seq, before[which], after[which])
                event = Signalled(seq, self.now, self.last_row, kind, log.cta, log.address, sums[0], len(which),
                                  *sums[1:])  # fmt: skip
            if stream is not None:
                self.add(stream, event)

    def asks(self, row: int, batch: Batch) -> None:
        """Lanes are about to ask whether they may go on."""
        if self.on:
            self.enter(batch)
            self.last_row, self.team = row, batch.team

    def asked(self, batch: Batch, passed: bool | Bools, at: Address | None) -> None:
        """The answer that lanes got; those that may not go on ask again."""
        if not self.on or not self.streams:
            return
        seq, active = self.event(), batch.team.full
        yes = np.broadcast_to(passed, batch.shape) | ~active
        addresses = None if at is None else np.broadcast_to(at.full(), batch.shape)
        for i, j, stream in self.streams:
            if not active[i, j].any():
                continue
            lane = int(active[i, j].argmax())
            if not batch.again or stream.asking is None:
                self._begin(seq, batch, stream, lane, None if addresses is None else int(addresses[i, j, lane]),
                            bool(yes[i, j].all()))  # fmt: skip
            elif yes[i, j].all():
                self._passes(seq, batch.wave, stream)

    def _begin(self, seq: int, batch: Batch, stream: Growing, lane: int, where: int | None, passed: bool) -> None:
        """A warp begins to wait, or passes at once."""
        row, log = self.last_row, None
        event = Waited(seq, self.now, row, "tmem", lane=lane, blocked=not passed)
        if where is not None:
            (at,), (address,) = split(batch.wave, np.array([stream.cta - batch.wave.first]), np.array([where]))
            log = self.barrier(batch.wave, int(at), int(address))
        if log is not None:
            word = int(phase_of(batch.wave.shared.view(8)[log.cta - batch.wave.first, log.address >> 3]))
            number = log.at(word).number - (1 if passed else 0)
            event = replace(event, on="mbarrier", cta=log.cta, address=log.address, phase=number)
        stream.asking = self.add(stream, event)
        if passed:
            stream.ended(stream.asking, seq, log.last if log is not None else None)

    def _passes(self, seq: int, wave: Wave, stream: Growing) -> None:
        """A warp that has waited goes on."""
        assert stream.asking is not None
        event = stream.events[stream.asking]
        assert isinstance(event, Waited)
        if event.until is not None:
            return
        log = self.barriers.get((event.cta, event.address))
        if log is not None:
            log.at(int(phase_of(wave.shared.view(8)[event.cta - wave.first, event.address >> 3])))
        stream.ended(stream.asking, seq, log.last if log is not None else None)

    # Barriers

    def _comes(self, row: int, team: Team) -> None:
        """Warps come to a barrier."""
        for _, _, stream in self.active(team):
            stream.row = row
            if row in self.only_wait:
                met = Met(self.event(), self.now, row, CLUSTER, stream.arrived, False, True)
                stream.met = self.add(stream, met)

    def released(self, event: MeetingEvent) -> None:
        if not self.on:
            return
        self.flush()
        wave, sync = event.wave, event.site.sync
        assert sync is not None
        for row, kept, here in zip(event.ctas.tolist(), event.rows.tolist(), event.here, strict=True):
            for warp in np.flatnonzero(here).tolist() if wave.first + row in self.by_cta else ():
                meeting = self._meeting(wave, kept, event.barrier, sync.scope)
                self._meets(self.by_cta[wave.first + row][warp], meeting, waits=not sync.arrive_only)

    def _meeting(self, wave: Wave, row: int, barrier: int, scope: str) -> OpenMeeting:
        key = wave.first, row, barrier
        if key not in self.at_barrier:
            self.at_barrier[key] = OpenMeeting(len(self.meetings), scope, wave.first + row, barrier)
            self.meetings.append(self.at_barrier[key])
        return self.at_barrier[key]

    def _meets(self, stream: Growing, meeting: OpenMeeting, *, waits: bool) -> None:
        seq = self.next()
        meeting.arrivals.append(seq)
        place = self.add(stream, Met(seq, self.run.steps, stream.row, meeting.barrier, meeting.number, True, waits))
        stream.met, stream.arrived = place if waits else None, meeting.number

    def acquired(self, event: MeetingEvent) -> None:
        if not self.on:
            return
        seq, first = self.event(), event.wave.first
        for row, kept, here in zip(event.ctas.tolist(), event.rows.tolist(), event.here, strict=True):
            meeting = self.at_barrier.get((first, kept, event.barrier))
            for warp in np.flatnonzero(here).tolist() if first + row in self.by_cta else ():
                self._goes_on(self.by_cta[first + row][warp], meeting, seq)
            if meeting is not None:
                meeting.ended = True

    def forgotten(self, wave: Wave, rows: Ints, barrier: int) -> None:
        for row in rows.tolist() if self.on else ():
            self.at_barrier.pop((wave.first, row, barrier), None)

    def _goes_on(self, stream: Growing, meeting: OpenMeeting | None, seq: int) -> None:
        """A warp that waits at a barrier goes on."""
        cause = meeting.arrivals[-1] if meeting is not None and meeting.arrivals else None
        if stream.met is not None:
            stream.ended(stream.met, seq, cause)
            stream.met = None

    def all_met(self, wave: Wave, ctas: slice) -> None:
        if not self.on:
            return
        self.flush()
        for row in numbers(ctas):
            if (every := self.by_cta.get(wave.first + row)) is None:
                continue
            meeting = OpenMeeting(len(self.meetings), "cta", wave.first + row, 0, ended=True)
            self.meetings.append(meeting)
            for stream in every:
                self._meets(stream, meeting, waits=True)
            for stream in every:
                self._goes_on(stream, meeting, self.seq)


def _spans(operation: Operation, which: list[int]) -> Iterator[tuple[int, int]]:
    """First and last byte of shared memory that each access of some issuers touches."""
    for use in operation.touched:
        if use.space == "shared":
            places = use.places[np.isin(use.issuer, which)] if len(use.places) == len(use.issuer) else use.places
            if places.size:
                yield int(places.min()), int(places.max()) + use.width
