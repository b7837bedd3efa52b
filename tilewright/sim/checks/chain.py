"""Which link is missing in the chain from an operation's completion to who relies on it, in the kernel's own words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.isa import INSTRUCTIONS, ProxyFence
from tilewright.sim.checks.knowledge import HEARD, SEEN

if TYPE_CHECKING:
    from tilewright.errors import Span
    from tilewright.sim.checks.knowledge import Knowledge, Part, Report

__all__ = ["missing_commit", "missing_link"]


def _named(group: str, role: str) -> str:
    """``T.ptx.tcgen05.commit``: the instruction with a role in a group."""
    for name, row in INSTRUCTIONS.items():
        for form in row.forms:
            if form.asynchronous is not None and (form.asynchronous.group, form.asynchronous.role) == (group, role):
                return f"T.{name}"
    raise AssertionError(f"no instruction has the role {role} in {group}")


def _fence(side: str) -> str:
    fence = ProxyFence("tmem", side=side)
    return next(f"T.{name}" for name, row in INSTRUCTIONS.items() if row.forms[0].fence == fence)


def _reported_by(known: Knowledge, part: Part, row: int) -> Report | None:
    """The first commit after a part, of the same thread; ``row`` is a CTA of its cluster."""
    thread, group = (part.row(row), part.thread), part.operation.group
    after = (each for each in known.reports if each.number > part.operation.number)
    return next((each for each in after if each.group == group and thread in each.threads), None)


def missing_commit(known: Knowledge, part: Part, row: int) -> str:
    """What to write after an operation that nothing reports; empty where a commit does, or a wait can."""
    if not part.is_alone or _reported_by(known, part, row) is not None:
        return ""
    commit = _named(part.operation.group, "commit")
    later = any(report.number > part.operation.number for report in known.reports)
    who = ", by the thread that issued it," if later else ""
    return f"{commit}(...){who} after the {part.operation.name} at {part.at}"


def missing_link(
    known: Knowledge, earlier: Part, place: tuple[int, int], at: Span | None, *, fences: bool = True
) -> str:
    """What to write, and where, so that the warp at ``place`` (row, warp) may rely on ``earlier`` at line ``at``.

    fences: is tensor memory touched? Otherwise knowing that the operation is complete is enough.
    """
    between = "in between"
    if earlier.at and at:  # around a loop the later line may stand first
        first, then = earlier.at.line, at.line
        between = f"between line {first} and line {then}" + (" of the next turn" if then <= first else "")
    if not known.knows(*place, earlier, SEEN):
        return _how_to_see(known, earlier, place, between)
    if not fences:
        return f"a meeting with the warp that has waited, {between}"
    if not known.knows(*place, earlier, HEARD):
        return f"{_fence('release')}() by the warp that has waited, and a barrier after it, {between}"
    return f"{_fence('acquire')}() after the wait or the barrier, {between}"


def _how_to_see(known: Knowledge, earlier: Part, place: tuple[int, int], between: str) -> str:
    if not earlier.is_alone:
        wait = f"{_named(earlier.operation.group, 'wait')}()"
        if place == (earlier.row(place[0]), earlier.warp):
            return f"{wait} {between}"
        waited = known.knows(earlier.row(place[0]), earlier.warp, earlier, SEEN)
        who = f"{wait} by the warp that issued it"
        return f"a barrier after {who}, {between}" if waited else f"{who}, and a barrier, {between}"
    if commit := missing_commit(known, earlier, place[0]):
        return f"{commit}, and a wait for the m-barrier's phase, {between}"
    report = _reported_by(known, earlier, place[0])
    assert report is not None
    phase = f"the phase (parity {report.parity}) of the m-barrier that the commit at {report.at} reports to"
    return f"a wait for {phase}, {between}"
