"""Which link is missing in the chain from an operation's completion to who relies on it, in the kernel's own words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.isa import INSTRUCTIONS

if TYPE_CHECKING:
    from tilewright.errors import Span
    from tilewright.sim.checks.knowledge import Knowledge, Part

__all__ = ["missing_commit", "missing_link"]


def _named(group: str, role: str) -> str:
    """``T.ptx.tcgen05.commit``: the instruction with a role in a group."""
    for name, row in INSTRUCTIONS.items():
        for form in row.forms:
            if form.asynchronous is not None and (form.asynchronous.group, form.asynchronous.role) == (group, role):
                return f"T.{name}"
    raise AssertionError(f"no instruction has the role {role} in {group}")


def _fence(reach: str) -> str:
    return next(f"T.{name}" for name, row in INSTRUCTIONS.items() if row.forms[0].fence == reach)


def missing_commit(part: Part) -> str:
    """What to write after an operation that nothing reports; empty where a commit does, or a wait can."""
    if part.thread is None or part.commit is not None:
        return ""
    commit = _named(part.operation.group, "commit")
    return f"{commit}(...) after the {part.operation.name} at {part.at}"


def missing_link(
    known: Knowledge, earlier: Part, place: tuple[int, int], at: Span | None, *, fences: bool = True
) -> str:
    """What to write, and where, so that the warp at ``place`` (row, warp) may rely on ``earlier`` at line ``at``.

    fences: is tensor memory touched? Otherwise knowing that the operation is complete is enough.
    """
    warp = known.warps[place]
    between = f"between line {earlier.at.line} and line {at.line}" if earlier.at and at else "in between"
    if not warp.seen & earlier.bit:
        return _how_to_see(known, earlier, place, between)
    if not fences:
        return f"a meeting with the warp that has waited, {between}"
    if not warp.heard & earlier.bit:
        return f"{_fence('tensor.before')}() by the warp that has waited, and a barrier after it, {between}"
    return f"{_fence('tensor.after')}() after the wait or the barrier, {between}"


def _how_to_see(known: Knowledge, earlier: Part, place: tuple[int, int], between: str) -> str:
    if earlier.thread is None:
        wait = f"{_named(earlier.operation.group, 'wait')}()"
        if place == earlier.place:
            return f"{wait} {between}"
        waited = known.warps[earlier.place].seen & earlier.bit
        return f"a barrier {between}" if waited else f"{wait} by the warp that issued it, and a barrier, {between}"
    if commit := missing_commit(earlier):
        return f"{commit}, and a wait for the m-barrier's phase, {between}"
    assert earlier.commit is not None
    reports = earlier.commit.instruction.at
    return f"a wait for the phase of the m-barrier that the commit at {reports} reports to, {between}"
