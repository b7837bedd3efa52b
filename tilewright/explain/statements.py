"""The statements of a kernel that wait for an operation, commit it, or are a fence: found by what rows say they do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.isa import INSTRUCTIONS
from tilewright.terms import Term, call

if TYPE_CHECKING:
    from tilewright.isa import Fence, Form, Instruction, ProxyFence


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


def fence_call(wanted: Fence | ProxyFence, *operands: object) -> Term:
    """``T.ptx.fence.proxy_async()``: the instruction that is this fence."""
    for name, row in INSTRUCTIONS.items():
        for form in row.forms:
            if form.fence is not None and any(form.fence_of(mods) == wanted for mods in form.all_mods()):
                return call(name, *operands)
    raise AssertionError(f"no instruction is {wanted}")
