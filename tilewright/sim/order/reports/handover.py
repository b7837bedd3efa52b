"""The missing step of a handover: threads synchronise by flags, m-barriers or the cluster's barrier, and yet race. Of
compiled code a run shows it.

The signal comes after the earlier access, the wait before the later one, both at one place. Each needs its order, or a
fence beside it, and a scope that holds the other thread. A wait for an m-barrier may be for another phase, or for
another m-barrier. Only the kernel's text is examined, so that a step that is named can stand where it is put.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tilewright.explain import Way, advised, between, insert, instruction, move, operand, other_parity, replaced
from tilewright.explain.steps import commit_call, fence_call, wait_call
from tilewright.isa import ProxyFence, Signal, phase_state
from tilewright.sim.machine import Operation, Wave, is_uncommitted, pointer_to
from tilewright.sim.order.knowledge.known import HEARD, ISSUED, SEEN
from tilewright.sim.order.knowledge.releases import holds
from tilewright.sim.order.races.records import Record
from tilewright.sim.order.reports.words import shared_text
from tilewright.terms import Operand, Term, Told, barrier, call, fence, told

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tilewright.errors import Span
    from tilewright.sim.order.asynchronous.operations import Operations
    from tilewright.sim.order.asynchronous.scoreboard import OperationPart
    from tilewright.sim.order.engine import WaveOrder
    from tilewright.sim.order.knowledge.clocks import Clocks, Thread
    from tilewright.sim.order.knowledge.locations import Locations, Where
    from tilewright.sim.order.knowledge.phases import PastSignal
    from tilewright.sim.order.races.places import TaggedPlaces
    from tilewright.sim.order.races.records import Clash


def _signals_of(clash: Clash, who: Thread, *, waits: bool) -> list[PastSignal]:
    """The arrivals, or the waits, of the warp of a thread of a race, the newest first."""
    first, (cta, thread) = clash.team.wave.first, who
    return list(clash.access.clocks.signal_history.of(cta - first, thread // 32, waits=waits))


def too_early(clash: Clash) -> Told | None:
    """What is wrong with the m-barrier between the threads of a race: a wait for another phase, or an arrival that
    comes before the access that it is to cover.
    """
    other, at = clash.other, clash.site.at
    if other is None or other.site.at is None or at is None:
        return None
    for wait in _signals_of(clash, clash.later, waits=True):
        arrivals = [one for one in _signals_of(clash, clash.earlier, waits=False) if one.where == wait.where]
        name = shared_text(clash.team.wave, wait.where[1])
        for arrival in reversed(arrivals):
            if arrival.time >= other.time and arrival.phase == wait.phase:
                return _other_phase(name, wait, f"line {arrival.line} arrives at", at.line)
        if before := next((one for one in arrivals if one.time < other.time), None):
            first, last = before.line, other.site.at.line
            text = (
                f"the arrival of line {first} at {name} behind line {last}"
                ": a wait covers what comes before an arrival, not what comes after it"
            )
            return advised(text, "arrival", "cta", (last,), ways=[(move(first, last + 1, last + 1),)])
    return None


def let_pass(clash: Clash, later: Iterable[tuple[str, int]]) -> Told | None:
    """The wait that let the earlier thread of a race pass though nobody had arrived yet, where the later one does.

    later: the m-barriers that the later thread will arrive at, by name, and the lines.
    """
    wave, history = clash.team.wave, clash.access.clocks.signal_history
    if clash.other is None or clash.other.site.at is None:
        return None
    program, tells = wave.run.program, dict(later)
    mine = {one.where: one.line for one in _signals_of(clash, clash.later, waits=False)}
    for wait in _signals_of(clash, clash.earlier, waits=True):
        line = mine.get(wait.where, tells.get(program.places.shared_at(wait.where[1]).name))
        arrived = any(one.phase == wait.phase - 1 & 3 for one in history.at(wait.where, waits=False))
        if line is not None and not arrived:
            name = shared_text(wave, wait.where[1])
            return _other_phase(name, wait, f"line {line} arrives at", clash.other.site.at.line)
    return None


def _other_phase(name: str, wait: PastSignal, tells: str, line: int) -> Told:
    parity = wait.phase & 1
    text = (
        f"a wait for parity {parity} of {name}, of the phase that {tells}, before line {line}: "
        f"the wait of line {wait.line} is for parity {1 - parity}, of a phase that counts as over"
    )
    return advised(text, "wait", "cta", (wait.line,), ways=[(other_parity(wait.line),)])


def too_soon(earlier: OperationPart, clocks: Clocks, place: tuple[int, int], at: Span | None) -> Told | None:
    """What is wrong with the wait for an operation that signals an m-barrier, where the knower at ``place`` (its row
    and number) goes on too soon; None where it does not wait at all, or where nothing is known.
    """
    operation, wave = earlier.operation, earlier.operation.team.wave
    where = [found for one in operation.signals for found in zip(one.rows.tolist(), one.at.tolist(), strict=True)]
    row, offset = next((found for found in where if found[0] == place[0]), where[0])
    warp = next((thread // 32 for thread, knower in clocks.alone.items() if knower == place[1]), place[1])
    waits = list(clocks.signal_history.of(place[0], warp, waits=True))
    if not waits or at is None or earlier.at is None:
        return None
    name = shared_text(wave, offset)
    wait = next((one for one in waits if one.where == (row, offset)), None)
    if wait is None:
        other = shared_text(wave, waits[0].where[1])
        signals, wrong = f"which the {operation.name} of line {earlier.at.line} signals", waits[0].line
        text = f"a wait for {name}, {signals}, before line {at.line}: the wait of line {wrong} is for {other}"
        ways = [(operand(wrong, "ptr", bar),)] if (bar := pointer_to(wave, offset)) is not None else []
        return advised(text, "wait", "cta", (wrong,), ways=ways)
    if operation not in wave.pending.queue:
        if all(wait.lanes):
            return None
        text = told("{} behind the wait of line {}, which some lanes make", barrier("warp"), wait.line)
        return advised(text, "barrier", "warp", (wait.line, at.line), barrier("warp"))
    state = phase_state(wave.shared.view(8)[row, offset >> 3])
    if not state.tx and any(one.effect.kind == "bytes" for one in operation.signals if isinstance(one.effect, Signal)):
        text = told(
            "{} where a thread arrives there: nobody has announced the bytes of line {}, so that the wait of line {} "
            "ends without them",
            *(call("ptx.mbarrier.arrive.expect_tx", Operand(name), Operand("bytes")), earlier.at.line, wait.line),
        )
        nbytes = sum(int(operation.amounts(one).sum()) for one in operation.signals)
        told_by = {one.line for one in clocks.signal_history.at((row, offset), waits=False) if one.line}
        ways = [(instruction(line, "ptx.mbarrier.arrive.expect_tx", nbytes),) for line in sorted(told_by)]
        return advised(text, "count", "cta", (earlier.at.line,), ways=ways)
    if wait.phase == state.phase:
        return _other_phase(name, wait, f"the {operation.name} of line {earlier.at.line} completes", at.line)
    return None


# The missing step between an operation's completion and a thread that relies on it, in the kernel's own words.


def _committed_by(operations: Operations, part: OperationPart, row: int) -> tuple[Operation, int] | None:
    """The first commit after a part, of the same thread, and its parity; ``row`` is a CTA of its cluster."""
    for commit, parity in operations.commits:
        who = commit.issuers
        is_own = ((who.rows == part.row(row)) & (who.threads == part.thread)).any()
        if commit.number > part.operation.number and commit.group == part.operation.group and is_own:
            return commit, parity
    return None


def _lines_of_commits(operations: Operations, part: OperationPart) -> list[int]:
    """Where commits of its group stand, though not behind it."""
    commits = (commit.instruction for commit, _ in operations.commits if commit.group == part.operation.group)
    return sorted({each.at.line for each in commits if each.at})


def _missing_commit(operations: Operations, part: OperationPart, row: int) -> Told | None:
    """The statement that is missing after an operation that no commit covers; None where one does, or a wait can."""
    if not part.is_alone or _committed_by(operations, part, row) is not None:
        return None
    commit = commit_call(part.operation.group, signals=True)
    if part.operation.signals or not commit or wait_call(part.operation.group):
        return None
    later = any(commit.number > part.operation.number for commit, _ in operations.commits)
    who = ", by the thread that issued it," if later else ""
    return told("{}{} after the {} at {}", commit, who, part.operation.name, part.at)


def missing_commits(operations: Operations, waited: Sequence[tuple[int, int]]) -> Iterator[Told]:
    """The statements that are missing after operations under way which no commit covers."""
    for part in operations.parts.values():
        if (missing := _missing_commit(operations, part, int(part.operation.issuers.rows[0]))) is not None:
            lines, bars = (part.at.line,) if part.at else (), [pointer_to(operations.wave, at) for _, at in waited]
            yield advised(missing, "commit", "cta", lines, ways=_commits(part, lines, bars))


def _commits(part: OperationPart, lines: tuple[int, ...], bars: Sequence[Operand | None]) -> Iterator[Way]:
    """A commit to one of these m-barriers behind an operation; or the one that stands elsewhere."""
    commit = commit_call(part.operation.group, signals=True)
    name, mods = str(commit.fields[0]) if commit is not None else "", part.operation.instruction.bound.mods
    group = {"cta_group": mods["cta_group"]} if "cta_group" in mods else {}
    for line in lines:
        for bar in filter(None, bars):
            yield (insert(told("{}", call(name, bar, **group)), line + 1, line + 2),)


def missing_step(
    operations: Operations,
    earlier: OperationPart,
    place: tuple[int, int],
    at: Span | None,
    *,
    fences: bool = True,
    reads: bool = False,
    queues: bool = False,
    known: bool = False,
) -> Told:
    """The statement, and its place, with which the knower at ``place`` (its row and number) may rely on ``earlier`` at
    ``at``.

    fences: is tensor memory touched? Otherwise knowing that the operation is complete is enough; reads: that it has
    read its sources; queues: that it was issued. known: the knower knows it to be complete, and lacks fences alone.
    """
    where, lines = "in between", tuple(span.line for span in (earlier.at, at) if span)
    if earlier.at and at:  # around a loop the later line may stand first
        first, then = earlier.at.line, at.line
        where = f"between line {first} and line {then}" + (" of the next turn" if then < first else "")
        where = where if first != then else f"between the two operations of line {then}"
    before, after = (fence_call(ProxyFence("tmem", side=side)) for side in ("release", "acquire"))
    if queues and not operations.parts.knows(*place, earlier, ISSUED):
        text = told("{} by the thread that issued it, and a barrier after it, {}", before, where)
        return advised(text, "proxy_fence", "cta", lines, before)
    if not known and not operations.parts.knows(*place, earlier, SEEN) and not queues:
        code = wait_call(earlier.operation.group, reads=reads)
        text, ways = _how_to_see(operations, earlier, place, at, where, lines, reads=reads)
        return advised(text, "wait", "cta", lines, code, ways)
    if not fences:
        text = told("a meeting with the warp that has waited, {}", where)
        return advised(text, "barrier", "cta", lines, barrier("cta"))
    if not operations.parts.knows(*place, earlier, HEARD) and not queues:
        text = told("{} by the warp that has waited, and a barrier after it, {}", before, where)
        return advised(text, "proxy_fence", "cta", lines, before)
    return advised(told("{} after the wait or the barrier, {}", after, where), "proxy_fence", "cta", lines, after)


def _wait_for(
    operations: Operations, earlier: OperationPart, row: int, lines: tuple[int, ...], *, reads: bool
) -> tuple[Told, list[Way]] | None:
    """The wait that its issuer lacks, a thread of the CTA ``row``, with the commit where there is none; or what is
    wrong with the wait that stands there. None where no instruction waits for the group.
    """
    operation, thread, group = earlier.operation, earlier.thread, earlier.operation.group
    wait = wait_call(group, reads=reads)
    if wait is None:
        return None
    commit = commit_call(group, signals=False)
    if commit and is_uncommitted(operation, row, thread):
        text = told("{} after the {} at {}, then {}", commit, Term("operation", (operation.name,)), earlier.at, wait)
        return text, [(*between(commit, *lines), *between(wait, *lines)), between(commit, *lines)]
    past = (one for one in operations.waits if one.effect.group == group and one.last >= operation.number)
    last = next((one for one in reversed([*past]) if one.threads[row, thread] and one.at is not None), None)
    if last is None or last.at is None or last.pending is None:
        return told("{}", wait), [between(wait, *lines)]
    rows, threads = operation.issuers.each()
    newer = int((last.commits[row, thread] - operation.serial)[(rows == row) & (threads == thread)].min()) - 1
    line = f"in place of the wait of line {last.at.line}"
    wait = wait_call(group, n=max(min(newer, last.pending), 0), reads=reads)
    assert wait is not None, "there is one for the group"
    ways: list[Way] = [(replaced(last.at.line, wait),), between(wait, *lines)]
    if 0 <= newer < last.pending:
        return told("{} {}, which leaves {} groups under way,", wait, line, last.pending), ways
    if last.effect.reads and not reads:
        return told("{} {}, which waits for the sources alone,", wait, line), ways
    return told("{}", wait), ways[1:]


def _how_to_see(
    operations: Operations,
    earlier: OperationPart,
    place: tuple[int, int],
    at: Span | None,
    where: str,
    lines: tuple[int, ...],
    *,
    reads: bool,
) -> tuple[Told, Sequence[Way]]:
    """How a knower comes to know that an operation is complete, in words and as changes."""
    operation, row = earlier.operation, earlier.row(place[0])
    far = row != place[0]
    found = _committed_by(operations, earlier, place[0])
    by_phase = found is not None and is_uncommitted(operation, row, earlier.thread)  # an m-barrier is told, no group
    wait = None if by_phase else _wait_for(operations, earlier, row, lines, reads=reads)
    if wait is not None and not (far and operation.signals):
        text, ways = wait
        own = operations.clocks.knower[earlier.thread] if earlier.is_alone else earlier.warp
        if place == (row, own):
            return told("{} {}", text, where), ways
        met = between(barrier("cta"), *lines)
        who = told("{} by the {} that issued it", text, "thread" if earlier.is_alone else "warp")
        if operations.parts.knows(row, earlier.warp, earlier, SEEN):
            return told("a barrier after {}, {}", who, where), [met]
        return told("{}, and a barrier, {}", who, where), [*ways, *((*way, *met) for way in ways)]
    if operation.signals:
        if (mistake := too_soon(earlier, operations.clocks, place, at)) is not None:
            return mistake, mistake.remedy.ways if mistake.remedy else ()
        text = told(
            "a wait for the phase of the m-barrier that the {} at {} signals, {}", operation.name, earlier.at, where
        )
        one = operation.signals[0]
        return text, _waits(operations, (int(one.rows[0]), int(one.at[0])), lines)
    if (commit := _missing_commit(operations, earlier, place[0])) is not None:
        lines, moves = (
            lines[:1],
            [(move(one, lines[0] + 1, lines[0] + 1),) for one in _lines_of_commits(operations, earlier)],
        )
        return told("{}, and a wait for the m-barrier's phase, {}", commit, where), moves if lines else ()
    if found is None:
        what = f"a wait for the writes of the {operation.name}, {where}; its group has an instruction for reads alone"
        return told("{}", what), ()
    report, parity = found
    phase = f"the phase (parity {parity}) of the m-barrier that the commit at {report.instruction.at} reports to"
    (signal, *_) = report.signals
    ways = _waits(operations, (int(signal.rows[0]), int(signal.at[0])), lines, parity)
    return told("a wait for {}, {}", phase, where), ways


def _waits(operations: Operations, where: tuple[int, int], lines: tuple[int, ...], *parities: int) -> list[Way]:
    """Waits for an m-barrier, given by its row and offset, between lines: for one of these phases, or for either."""
    bar = pointer_to(operations.wave, where[1])
    if bar is None:
        return []
    return [between(call("ptx.mbarrier.try_wait", bar, parity), *lines) for parity in parities or (0, 1)]


# The missing step of a handover that a run has shown, for compiled code, which has lines and no statements.
#
# Between two accesses that race lie a strong write that the later thread's CTA has read, or an m-barrier's arrival and
# wait. What that write has published, and who made it, tells which step is missing.


@dataclass(frozen=True, eq=False, slots=True)
class _Flag:
    """A strong access of a thread, counted in its CTA, to a location."""

    line: int
    time: int
    thread: int
    where: Where


@dataclass(frozen=True, slots=True)
class Witness:
    """What the race check remembers of a run."""

    orders: Mapping[Wave, WaveOrder]
    buffers: Mapping[int, TaggedPlaces]
    locations: Locations

    def missing_step(self, clash: Clash, scope: str) -> Told | None:
        """The step with which the threads of a race would have handed over; None where the run shows no handover."""
        other, then, wave = clash.other, clash.site.at, clash.team.wave
        inside = wave.first <= clash.earlier[0] < wave.first + wave.ctas  # other waves have times of their own
        if other is None or other.site.at is None or then is None or not inside:
            return None
        first, last = other.site.at.outermost.line, then.outermost.line
        if found := _by_signal(clash, other, first, last):
            return found
        for tells, heard in self._handovers(clash, other):
            if not self._has_published(clash, tells, clash.earlier[1], other.time):
                if self._has_published(clash, tells, tells.thread, other.time):
                    return _meeting(_warps(other, clash.earlier), tells.thread, first, tells.line)
                return _fenced(scope, "before", tells.line, first)
            row, knower = clash.later[0] - wave.first, int(clash.access.clocks.knower[heard.thread])
            if clash.access.clocks.is_known(row, knower, *clash.earlier, other.time):
                return _meeting(_warps(clash.access.record, clash.later), heard.thread, heard.line, last)
            if self._ends_with_older(tells, (clash.earlier[0], tells.time), (clash.later[0], heard.thread)):
                text = "a counter that is set back, or a higher goal at each use: one that was reached before line {} "
                return told(text + "ends the wait of line {}, too", first, heard.line)
            return _fenced(scope, "after", heard.line, last)
        return None

    def _ends_with_older(self, tells: _Flag, write: tuple[int, int], reader: tuple[int, int]) -> bool:
        """Would the reader, a thread of a CTA, have gone on with a value from before a write, of a CTA at a time?"""
        history = self.locations.histories.get(tells.where)
        if history is None or (number := history.seen.get(reader)) is None:
            return False
        return any((state.cta, state.time) == write for state in history.states[number - history.first + 1 :])

    def _has_published(self, clash: Clash, told: _Flag, thread: int, time: int) -> bool:
        """Has a write published to the later thread what a thread of its own CTA did up to a time?"""
        clocks, run = clash.access.clocks, clash.team.wave.run
        who = np.array([clash.earlier[0]]), np.array([thread]), np.array([time])
        published = self.locations.published(clocks, told.where)
        return any(
            clocks.are_in(one.known, *who) and holds(one.scope, one.cta, clash.later[0], run) for one in published
        )

    def _handovers(self, clash: Clash, other: Record) -> Iterator[tuple[_Flag, _Flag]]:
        """The strong writes of one CTA behind its access that the other CTA has read, the last ones first."""
        tells = [one for one in self._flags(clash, clash.earlier[0], writes=True) if one.time > other.time]
        for heard in self._flags(clash, clash.later[0], writes=False):
            for tell in tells:
                teller, hearer = (clash.earlier[0], tell.thread), (clash.later[0], heard.thread)
                is_before = (tell.time, teller) < (heard.time, hearer)  # an atomic of several CTAs takes them in turn
                if tell.where == heard.where and is_before and teller != hearer:
                    yield tell, heard

    def _flags(self, clash: Clash, cta: int, *, writes: bool) -> Iterator[_Flag]:
        """Strong accesses of the threads of a CTA, the newest first."""
        found = []
        for places in (self.orders[clash.team.wave].shared, *self.buffers.values()):
            for record in places.log.newest_first():
                site, how = record.site, record.site.how
                if how.sem == "weak" or how.is_signal or not (site.write if writes else site.shows) or not site.at:
                    continue
                memory = places.name if places.is_global else (places.name, cta)
                for one, thread, address in zip(*map(np.ndarray.tolist, record.threads()), strict=True):
                    if one == cta:
                        found.append(_Flag(site.at.outermost.line, record.time, thread, (memory, address)))
        yield from sorted(found, key=lambda flag: -flag.time)


def _fenced(scope: str, where: str, line: int, access: int) -> Told:
    """A fence before or after a line, beside an access of another one, or of the same."""
    if line == access:
        both = "the access and what tells of it" if where == "before" else "what hears of it and the access"
        text = told("{} between {}, both in line {}", fence(scope), both, line)
        return advised(text, "fence", scope, (line,), fence(scope), ())
    text = told("{}", fence(scope, where, line))
    return advised(text, "fence", scope, (line,) if where == "before" else (line, line + 1), fence(scope))


def _warps(record: Record, who: Thread) -> set[int]:
    """The warps of a thread's CTA that make an access with it."""
    ctas, threads, _ = record.threads()
    return {*(threads[ctas == who[0]] // 32).tolist(), who[1] // 32}


def _meeting(warps: set[int], other: int, *lines: int) -> Told:
    """The barrier of warps with a thread of their CTA, between two lines."""
    return _barrier("warp" if warps == {other // 32} else "cta", *sorted(lines))


def _barrier(scope: str, first: int, then: int) -> Told:
    text = told("{} between line {} and line {}", barrier(scope), first, then)
    return advised(text, "barrier", scope, (first, then), barrier(scope))


def _by_signal(clash: Clash, other: Record, first: int, last: int) -> Told | None:
    """The warp's barrier, where one lane arrives at an m-barrier, or waits there, for others of its warp."""
    history, rows = clash.access.clocks.signal_history, clash.team.wave.first
    waits = list(history.of(clash.later[0] - rows, clash.later[1] // 32, waits=True))
    for arrival in history.of(clash.earlier[0] - rows, clash.earlier[1] // 32, waits=False):
        if arrival.time < other.time:
            continue
        for wait in waits:
            if (wait.where, wait.phase) != (arrival.where, arrival.phase + 1 & 3):
                continue
            if not arrival.lanes[clash.earlier[1] % 32]:
                return _barrier("warp", first, arrival.line)
            if not wait.lanes[clash.later[1] % 32]:
                return _barrier("warp", wait.line, last)
    return None
