"""Registers that `setmaxnreg` moves between warpgroups: are enough given back for those that are requested?

At entry every thread has as many as fit if the promised number of CTAs runs on a multiprocessor. `setmaxnreg` gives
back to the CTA's pool or takes from it, and waits for ever where the pool will never have enough.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tilewright import isa
from tilewright.errors import KernelError
from tilewright.ir import Body, Call, Evaluate, For, If, Kernel, Stmt, While, const_value, statements
from tilewright.ir.launch import launch_of
from tilewright.tile.scope import ControlFlow, Reach

if TYPE_CHECKING:
    from tilewright.errors import Span

__all__ = ["check_registers"]

HANDOVER = "ptx.setmaxnreg"
REGISTERS, MOST, STEP = 65536, 256, 8  # registers of a multiprocessor; the most of a thread; the unit of both


class Handover(NamedTuple):
    """registers: of each thread after it. groups: the warpgroups that execute it."""

    at: Span | None
    takes: bool
    registers: int
    groups: tuple[int, ...]


def check_registers(kernel: Kernel) -> None:
    """Raises KernelError at the first `setmaxnreg` that ptxas would ignore or refuse, or that could wait for ever."""
    if all(_handover(stmt) is None for stmt in statements(kernel.body)):
        return
    control, launch = ControlFlow(kernel), launch_of(kernel)
    found = list(_handovers(kernel.body, control.everyone(), control))
    if not launch.min_blocks_per_sm:
        raise KernelError(
            "how many registers threads have at entry is not known",
            given="no number of CTAs that run on a multiprocessor",
            allowed="a promise, without which ptxas ignores T.ptx.setmaxnreg",
            hint='T.func_attr({"min_blocks": 1})',
            at=found[0].at,
        )
    fitting = REGISTERS // (launch.threads * launch.min_blocks_per_sm) // STEP * STEP
    entry = min(fitting, MOST, max(one.registers for one in found))
    _check_pool(found, entry, launch.threads // 128)


def _check_pool(found: list[Handover], entry: int, groups: int) -> None:
    has = [entry] * groups
    for one in found:
        for group in one.groups:
            if (one.takes and one.registers < has[group]) or (not one.takes and one.registers > has[group]):
                raise KernelError(
                    f"T.ptx.setmaxnreg {'takes' if one.takes else 'gives back'} registers",
                    given=f"{one.registers} where each thread of warpgroup {group} has {has[group]}",
                    allowed=f"at {'least' if one.takes else 'most'} {has[group]}",
                    at=one.at,
                )
            has[group] = one.registers
    if sum(has) > entry * groups:
        raise KernelError(
            "warpgroups ask for more registers than there are",
            given=f"{' + '.join(map(str, has))} = {sum(has)} for each thread of {groups} warpgroups",
            allowed=f"{groups} x {entry} = {entry * groups}, what they have at entry",
            hint=_fitting(found, has, entry * groups),
            at=next(one.at for one in reversed(found) if one.takes),
        )


def _fitting(found: list[Handover], has: list[int], pool: int) -> str | None:
    """The most registers that the taking warpgroups could have."""
    takers = {group for one in found if one.takes for group in one.groups}
    rest = pool - sum(count for group, count in enumerate(has) if group not in takers)
    fits = rest // len(takers) // STEP * STEP
    return f"T.ptx.setmaxnreg(True, {fits})" if fits >= pool // len(has) else None


def _handover(stmt: Stmt) -> Call | None:
    call = stmt.value if isinstance(stmt, Evaluate) else None
    return call if isinstance(call, Call) and call.op == HANDOVER else None


def _handovers(body: Body, reach: Reach, control: ControlFlow) -> Iterator[Handover]:
    """All `setmaxnreg` of a body, with their warpgroups. Raises DispatchError where some of their warps do not."""
    for stmt in body:
        if (call := _handover(stmt)) is not None:
            bound = isa.bind(call)
            scope = control.scope("warpgroup", reach, f"T.{HANDOVER}")
            groups = np.flatnonzero(scope.active.reshape(-1, 128).any(1)).tolist()
            count = int(const_value(bound.operands["n"][0]) or 0)
            yield Handover(stmt.at, bool(bound.mods["inc"]), count, tuple(groups))
        elif isinstance(stmt, If):
            for branch, taken in ((stmt.then, True), (stmt.orelse, False)):
                yield from _handovers(branch, control.behind(reach, stmt.cond, stmt.at, taken=taken), control)
        elif isinstance(stmt, (For, While)):
            yield from _handovers(stmt.body, control.inside(reach, stmt), control)
        reach = control.after(reach, stmt)
