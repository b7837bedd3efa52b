"""The missing step between an operation's completion and a thread that relies on it, in the kernel's own words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.isa import INSTRUCTIONS, ProxyFence
from tilewright.sim.order.knowledge.known import HEARD, ISSUED, SEEN
from tilewright.sim.order.reports.mbarrier_phases import too_soon
from tilewright.sim.order.reports.words import fence_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tilewright.errors import Span
    from tilewright.sim.order.asynchronous.operations import Committed, OperationPart, Operations

__all__ = ["missing_commits", "missing_step"]


def _named(group: str, *, waits: bool, signals: bool = True) -> str:
    """``T.ptx.tcgen05.commit(...)``: the instruction that waits for a group, or commits it; empty for none.

    signals: does the commit tell an m-barrier?
    """
    for name, row in INSTRUCTIONS.items():
        for form in row.forms:
            effect = form.wait if waits else form.commit if bool(form.signals) is signals else None
            if effect is not None and effect.group == group:
                return f"T.{name}({'...' if row.operands else ''})"
    return ""


def _committed_by(operations: Operations, part: OperationPart, row: int) -> Committed | None:
    """The first commit after a part, of the same thread; ``row`` is a CTA of its cluster."""
    thread, group = (part.row(row), part.thread), part.operation.group
    after = (each for each in operations.commits if each.number > part.operation.number)
    return next((each for each in after if each.group == group and thread in each.threads), None)


def _missing_commit(operations: Operations, part: OperationPart, row: int) -> str:
    """The statement that is missing after an operation that no commit covers; empty where one does, or a wait can."""
    if not part.is_alone or _committed_by(operations, part, row) is not None:
        return ""
    commit = _named(part.operation.group, waits=False)
    if part.operation.signals or not commit or _named(part.operation.group, waits=True):
        return ""
    later = any(each.number > part.operation.number for each in operations.commits)
    who = ", by the thread that issued it," if later else ""
    return f"{commit}{who} after the {part.operation.name} at {part.at}"


def missing_commits(operations: Operations) -> Iterator[str]:
    """The statements that are missing after operations under way which no commit covers."""
    for part in operations.parts.values():
        if missing := _missing_commit(operations, part, int(part.operation.issuers.rows[0])):
            yield missing


def missing_step(
    operations: Operations, earlier: OperationPart, place: tuple[int, int], at: Span | None, *, fences: bool = True,
    queues: bool = False,
) -> str:  # fmt: skip
    """The statement, and its place, with which the knower at ``place`` (its row and number) may rely on ``earlier`` at
    ``at``.

    fences: is tensor memory touched? Otherwise knowing that the operation is complete is enough. queues: is it enough
    to know that it was issued?
    """
    between = "in between"
    if earlier.at and at:  # around a loop the later line may stand first
        first, then = earlier.at.line, at.line
        between = f"between line {first} and line {then}" + (" of the next turn" if then <= first else "")
    before = fence_name(ProxyFence("tmem", side="release"))
    if queues and not operations.knows(*place, earlier, ISSUED):
        return f"{before}() by the thread that issued it, and a barrier after it, {between}"
    if not operations.knows(*place, earlier, SEEN) and not queues:
        return _how_to_see(operations, earlier, place, at, between)
    if not fences:
        return f"a meeting with the warp that has waited, {between}"
    if not operations.knows(*place, earlier, HEARD) and not queues:
        return f"{before}() by the warp that has waited, and a barrier after it, {between}"
    return f"{fence_name(ProxyFence('tmem', side='acquire'))}() after the wait or the barrier, {between}"


def _without_group(part: OperationPart, row: int) -> bool:
    """Has the thread that issued an operation closed no group since?"""
    operation = part.operation
    rows, threads = operation.issuers.each()
    still = operation.batch.wave.pending.commits_of(operation.group)[rows, threads] == operation.serial
    return bool(still[(rows == row) & (threads == part.thread)].all())


def _how_to_see(
    operations: Operations, earlier: OperationPart, place: tuple[int, int], at: Span | None, between: str
) -> str:
    operation = earlier.operation
    far = earlier.row(place[0]) != place[0]
    if (wait := _named(operation.group, waits=True)) and not (far and operation.signals):
        commit = _named(operation.group, waits=False, signals=False)
        if commit and _without_group(earlier, earlier.row(place[0])):
            wait = f"{commit} after the {operation.name} at {earlier.at}, then {wait}"
        own = operations.clocks.knower[earlier.thread] if earlier.is_alone else earlier.warp
        if place == (earlier.row(place[0]), own):
            return f"{wait} {between}"
        waited = operations.knows(earlier.row(place[0]), earlier.warp, earlier, SEEN)
        who = f"{wait} by the {'thread' if earlier.is_alone else 'warp'} that issued it"
        return f"a barrier after {who}, {between}" if waited else f"{who}, and a barrier, {between}"
    if operation.signals:
        if mistake := too_soon(earlier, operations.clocks, place, at):
            return mistake
        return f"a wait for the phase of the m-barrier that the {operation.name} at {earlier.at} signals, {between}"
    if commit := _missing_commit(operations, earlier, place[0]):
        return f"{commit}, and a wait for the m-barrier's phase, {between}"
    report = _committed_by(operations, earlier, place[0])
    assert report is not None
    phase = f"the phase (parity {report.parity}) of the m-barrier that the commit at {report.at} reports to"
    return f"a wait for {phase}, {between}"
