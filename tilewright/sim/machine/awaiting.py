"""The statements by which threads learn that an operation is complete, in the kernel's own words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tilewright.isa import INSTRUCTIONS
from tilewright.sim.machine.coordinates import element_text
from tilewright.terms import Term, Told, barrier, call, told

if TYPE_CHECKING:
    from tilewright.isa import Form, Instruction
    from tilewright.sim.machine.operation import Operation
    from tilewright.sim.machine.units import Touched

__all__ = ["commit_call", "completion_text", "is_uncommitted", "wait_call"]


def _call(name: str, row: Instruction, form: Form, n: int) -> Term:
    """A call of a form, with the keywords whose default another form has."""
    modifiers = form.wording.modifiers.items()
    others = {
        key: next(iter(table)) for key, table in modifiers if key in row.keywords and row.keywords[key] not in table
    }
    return call(name, *[n][: bool(row.operands)], **others)


def wait_call(group: str, *, n: int = 0, reads: bool = False) -> Term | None:
    """``T.ptx.cp_async.wait_group(0)``: the wait for all but the newest n commits of a group; None where there is none.

    reads: is it enough that the sources have been read?
    """
    found: Term | None = None
    for name, row in INSTRUCTIONS.items():
        for form in row.forms:
            if form.wait is not None and form.wait.group == group and (form.wait.pending is not None or not n):
                if form.wait.reads is reads:
                    return _call(name, row, form, n)
                found = found or (None if form.wait.reads else _call(name, row, form, n))
    return found


def commit_call(group: str, *, signals: bool) -> Term | None:
    """``T.ptx.tcgen05.commit(...)``: the commit of a group, one that signals an m-barrier or one that closes the group;
    None where there is none.
    """
    for name, row in INSTRUCTIONS.items():
        for form in row.forms:
            if form.commit is not None and form.commit.group == group and bool(form.signals) is signals:
                return call(name, *[...][: bool(row.operands)])
    return None


def is_uncommitted(operation: Operation, row: int, thread: int) -> bool:
    """Has this thread, one of those that issued it, closed no group since?"""
    rows, threads = operation.issuers.each()
    commits = operation.batch.wave.pending.commits_of(operation.group)
    here = (rows == row) & (threads == thread)
    return bool((commits[rows, threads] == operation.serial)[here].all())


def _signal_text(operation: Operation, one: Touched, issuer: int, home: int) -> Told:
    """The wait for an operation's signal; the CTA ``home`` need not be the one that has the m-barrier."""
    wave, there = operation.batch.wave, (one.issuer == issuer) & (one.rows == home)
    k = int(np.argmax(there if there.any() else one.issuer == issuer))
    bar = element_text(wave.run.program, wave.run.places.shared_at(int(one.at[k])), int(one.at[k]))
    if wave.run.cluster_ctas > 1:
        bar += f" in CTA {wave.cta_name(int(one.rows[k]))}"
    line = operation.instruction.at.line if operation.instruction.at else 0
    wait = told("a wait for the phase of {} that the {} of line {} completes", bar, operation.name, line)
    return wait if there.any() else told("{}, and {} behind it", wait, barrier("cluster"))


def completion_text(operation: Operation, issuer: int, home: int) -> Told:
    """What threads do so that the CTA ``home`` comes after the part of an issuer."""
    if operation.signals:
        return _signal_text(operation, operation.signals[0], issuer, home)
    reads = not any(one.writes for one in operation.touched if one.space in ("shared", "tmem"))
    group, line = operation.group, operation.instruction.at.line if operation.instruction.at else 0
    if (wait := wait_call(group, reads=reads)) is None:
        commit = commit_call(group, signals=True)
        return told("{} behind line {}, and a wait for the m-barrier's phase", commit, line) if commit else told("")
    row, thread = int(operation.issuers.rows[issuer]), int(operation.issuers.threads[issuer])
    commit, who = commit_call(group, signals=False), "thread" if operation.issuers.lanes == 1 else "warps"
    if commit and is_uncommitted(operation, row, thread):
        return told("{} behind line {}, then {} by the {} that issued it", commit, line, wait, who)
    return told("{} by the {} that issued it", wait, who)
