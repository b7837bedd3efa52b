"""The missing step between an operation's completion and a thread that relies on it, in the kernel's own words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.explain import advised
from tilewright.isa import ProxyFence
from tilewright.sim.machine.awaiting import commit_text, is_uncommitted, wait_text
from tilewright.sim.order.knowledge.known import HEARD, ISSUED, SEEN
from tilewright.sim.order.reports.mbarrier_phases import too_soon
from tilewright.sim.order.reports.words import fence_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tilewright.errors import Span
    from tilewright.sim.machine.operation import Operation
    from tilewright.sim.order.asynchronous.operations import Operations
    from tilewright.sim.order.asynchronous.parts import OperationPart

__all__ = ["missing_commits", "missing_step"]

CTA_BARRIER = "T.cuda.cta_sync()"


def _committed_by(operations: Operations, part: OperationPart, row: int) -> tuple[Operation, int] | None:
    """The first commit after a part, of the same thread, and its parity; ``row`` is a CTA of its cluster."""
    for commit, parity in operations.commits:
        who = commit.issuers
        is_own = ((who.rows == part.row(row)) & (who.threads == part.thread)).any()
        if commit.number > part.operation.number and commit.group == part.operation.group and is_own:
            return commit, parity
    return None


def _missing_commit(operations: Operations, part: OperationPart, row: int) -> str:
    """The statement that is missing after an operation that no commit covers; empty where one does, or a wait can."""
    if not part.is_alone or _committed_by(operations, part, row) is not None:
        return ""
    commit = commit_text(part.operation.group, signals=True)
    if part.operation.signals or not commit or wait_text(part.operation.group):
        return ""
    later = any(commit.number > part.operation.number for commit, _ in operations.commits)
    who = ", by the thread that issued it," if later else ""
    return f"{commit}{who} after the {part.operation.name} at {part.at}"


def missing_commits(operations: Operations) -> Iterator[str]:
    """The statements that are missing after operations under way which no commit covers."""
    for part in operations.parts.values():
        if missing := _missing_commit(operations, part, int(part.operation.issuers.rows[0])):
            yield missing


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
) -> str:
    """The statement, and its place, with which the knower at ``place`` (its row and number) may rely on ``earlier`` at
    ``at``.

    fences: is tensor memory touched? Otherwise knowing that the operation is complete is enough; reads: that it has
    read its sources; queues: that it was issued. known: the knower knows it to be complete, and lacks fences alone.
    """
    between, lines = "in between", tuple(span.line for span in (earlier.at, at) if span)
    if earlier.at and at:  # around a loop the later line may stand first
        first, then = earlier.at.line, at.line
        between = f"between line {first} and line {then}" + (" of the next turn" if then <= first else "")
    before, after = (f"{fence_name(ProxyFence('tmem', side=side))}()" for side in ("release", "acquire"))
    if queues and not operations.parts.knows(*place, earlier, ISSUED):
        text = f"{before} by the thread that issued it, and a barrier after it, {between}"
        return advised(text, "proxy_fence", "cta", lines, before)
    if not known and not operations.parts.knows(*place, earlier, SEEN) and not queues:
        code = wait_text(earlier.operation.group, reads=reads) or None
        return advised(_how_to_see(operations, earlier, place, at, between, reads=reads), "wait", "cta", lines, code)
    if not fences:
        return advised(f"a meeting with the warp that has waited, {between}", "barrier", "cta", lines, CTA_BARRIER)
    if not operations.parts.knows(*place, earlier, HEARD) and not queues:
        text = f"{before} by the warp that has waited, and a barrier after it, {between}"
        return advised(text, "proxy_fence", "cta", lines, before)
    return advised(f"{after} after the wait or the barrier, {between}", "proxy_fence", "cta", lines, after)


def _wait_for(operations: Operations, earlier: OperationPart, row: int, *, reads: bool) -> str:
    """The wait that its issuer lacks, a thread of the CTA ``row``, with the commit where there is none; or what is
    wrong with the wait that stands there. Empty where no instruction waits for the group.
    """
    operation, thread, group = earlier.operation, earlier.thread, earlier.operation.group
    wait = wait_text(group, reads=reads)
    commit = commit_text(group, signals=False)
    if not wait or (commit and is_uncommitted(operation, row, thread)):
        return wait and f"{commit} after the {operation.name} at {earlier.at}, then {wait}"
    past = (one for one in operations.waits if one.effect.group == group and one.last >= operation.number)
    last = next((one for one in reversed([*past]) if one.threads[row, thread] and one.at is not None), None)
    if last is None or last.at is None or last.pending is None:
        return wait
    rows, threads = operation.issuers.each()
    newer = int((last.commits[row, thread] - operation.serial)[(rows == row) & (threads == thread)].min()) - 1
    line = f"in place of the wait of line {last.at.line}"
    wait = wait_text(group, n=max(min(newer, last.pending), 0), reads=reads)
    if 0 <= newer < last.pending:
        return f"{wait} {line}, which leaves {last.pending} groups under way,"
    return f"{wait} {line}, which waits for the sources alone," if last.effect.reads and not reads else wait


def _how_to_see(
    operations: Operations,
    earlier: OperationPart,
    place: tuple[int, int],
    at: Span | None,
    between: str,
    *,
    reads: bool,
) -> str:
    operation, row = earlier.operation, earlier.row(place[0])
    far = row != place[0]
    found = _committed_by(operations, earlier, place[0])
    by_phase = found is not None and is_uncommitted(operation, row, earlier.thread)  # an m-barrier is told, no group
    wait = "" if by_phase else _wait_for(operations, earlier, row, reads=reads)
    if wait and not (far and operation.signals):
        own = operations.clocks.knower[earlier.thread] if earlier.is_alone else earlier.warp
        if place == (row, own):
            return f"{wait} {between}"
        waited = operations.parts.knows(row, earlier.warp, earlier, SEEN)
        who = f"{wait} by the {'thread' if earlier.is_alone else 'warp'} that issued it"
        return f"a barrier after {who}, {between}" if waited else f"{who}, and a barrier, {between}"
    if operation.signals:
        if mistake := too_soon(earlier, operations.clocks, place, at):
            return mistake
        return f"a wait for the phase of the m-barrier that the {operation.name} at {earlier.at} signals, {between}"
    if commit := _missing_commit(operations, earlier, place[0]):
        return f"{commit}, and a wait for the m-barrier's phase, {between}"
    if found is None:
        return f"a wait for the writes of the {operation.name}, {between}; its group has an instruction for reads alone"
    report, parity = found
    phase = f"the phase (parity {parity}) of the m-barrier that the commit at {report.instruction.at} reports to"
    return f"a wait for {phase}, {between}"
