"""The statements by which threads learn that an operation is complete, in the kernel's own words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tilewright.isa import INSTRUCTIONS
from tilewright.sim.machine.coordinates import element_text

if TYPE_CHECKING:
    from tilewright.isa import Form, Instruction
    from tilewright.sim.machine.operation import Operation
    from tilewright.sim.machine.units import Touched

__all__ = ["commit_text", "completion_text", "is_uncommitted", "wait_text"]


def _text(name: str, row: Instruction, form: Form, n: int) -> str:
    """A call of a form, with the keywords whose default another form has."""
    given = [str(n)] if row.operands else []
    for keyword, table in form.wording.modifiers.items():
        if keyword in row.keywords and row.keywords[keyword] not in table:
            given.append(f"{keyword}={next(iter(table))!r}")
    return f"T.{name}({', '.join(given)})"


def wait_text(group: str, *, n: int = 0, reads: bool = False) -> str:
    """``T.ptx.cp_async.wait_group(0)``: the wait for all but the newest n commits of a group; empty for none.

    reads: is it enough that the sources have been read?
    """
    found = ""
    for name, row in INSTRUCTIONS.items():
        for form in row.forms:
            if form.wait is not None and form.wait.group == group and (form.wait.pending is not None or not n):
                if form.wait.reads is reads:
                    return _text(name, row, form, n)
                found = found or _text(name, row, form, n) * (not form.wait.reads)
    return found


def commit_text(group: str, *, signals: bool) -> str:
    """``T.ptx.tcgen05.commit(...)``: the commit of a group, one that signals an m-barrier or one that closes the group;
    empty for none.
    """
    for name, row in INSTRUCTIONS.items():
        for form in row.forms:
            if form.commit is not None and form.commit.group == group and bool(form.signals) is signals:
                return f"T.{name}({'...' if row.operands else ''})"
    return ""


def is_uncommitted(operation: Operation, row: int, thread: int) -> bool:
    """Has this thread, one of those that issued it, closed no group since?"""
    rows, threads = operation.issuers.each()
    commits = operation.batch.wave.pending.commits_of(operation.group)
    here = (rows == row) & (threads == thread)
    return bool((commits[rows, threads] == operation.serial)[here].all())


def _signal_text(operation: Operation, one: Touched, issuer: int, home: int) -> str:
    """The wait for an operation's signal; the CTA ``home`` need not be the one that has the m-barrier."""
    wave, there = operation.batch.wave, (one.issuer == issuer) & (one.rows == home)
    k = int(np.argmax(there if there.any() else one.issuer == issuer))
    bar = element_text(wave.run.program, wave.run.places.shared_at(int(one.at[k])), int(one.at[k]))
    if wave.run.cluster_ctas > 1:
        bar += f" in CTA {wave.cta_name(int(one.rows[k]))}"
    line = operation.instruction.at.line if operation.instruction.at else 0
    wait = f"a wait for the phase of {bar} that the {operation.name} of line {line} completes"
    return wait if there.any() else f"{wait}, and T.cuda.cluster_sync() behind it"


def completion_text(operation: Operation, issuer: int, home: int) -> str:
    """What threads do so that the CTA ``home`` comes after the part of an issuer."""
    if operation.signals:
        return _signal_text(operation, operation.signals[0], issuer, home)
    reads = not any(one.writes for one in operation.touched if one.space in ("shared", "tmem"))
    group, line = operation.group, operation.instruction.at.line if operation.instruction.at else 0
    if not (wait := wait_text(group, reads=reads)):
        commit = commit_text(group, signals=True)
        return f"{commit} behind line {line}, and a wait for the m-barrier's phase" if commit else ""
    row, thread = int(operation.issuers.rows[issuer]), int(operation.issuers.threads[issuer])
    commit = commit_text(group, signals=False)
    if commit and is_uncommitted(operation, row, thread):
        wait = f"{commit} behind line {line}, then {wait}"
    return f"{wait} by the {'thread' if operation.issuers.lanes == 1 else 'warps'} that issued it"
