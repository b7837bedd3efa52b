"""The missing step between an operation's completion and a thread that relies on it, in the kernel's own words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.explain import Way, advised, between, insert, move, replaced
from tilewright.isa import ProxyFence
from tilewright.sim.machine.awaiting import commit_call, is_uncommitted, wait_call
from tilewright.sim.machine.coordinates import pointer_to
from tilewright.sim.order.knowledge.known import HEARD, ISSUED, SEEN
from tilewright.sim.order.reports.mbarrier_phases import too_soon
from tilewright.sim.order.reports.words import fence_call
from tilewright.terms import Operand, Told, barrier, call, told

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tilewright.errors import Span
    from tilewright.sim.machine.operation import Operation
    from tilewright.sim.order.asynchronous.operations import Operations
    from tilewright.sim.order.asynchronous.parts import OperationPart

__all__ = ["missing_commits", "missing_step"]


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
        where = f"between line {first} and line {then}" + (" of the next turn" if then <= first else "")
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
        text = told("{} after the {} at {}, then {}", commit, operation.name, earlier.at, wait)
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
