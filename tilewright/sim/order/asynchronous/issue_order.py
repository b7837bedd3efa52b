"""Operations that keep the order in which they were issued, without a wait: which kinds do, see `tilewright.isa.Issue`.

Source: PTX ISA, "TensorCore 5th Generation: Memory Consistency Model, Pipelined tcgen05 Instructions".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from tilewright.sim.machine.arrays import Bools, Ints
    from tilewright.sim.machine.instructions import CompiledInstruction
    from tilewright.sim.machine.operation import Operation
    from tilewright.sim.order.asynchronous.scoreboard import OperationPart


def keeps_order(earlier: Operation, now: CompiledInstruction) -> bool:
    """Does an operation come before another of the same issuer without a wait?"""
    issue, before, after = now.bound.form.issue, earlier.instruction.bound, now.bound
    if issue is None or before.instruction.name not in issue.in_order_after:
        return False
    both = before.mods.keys() & after.mods.keys()
    return all(before.mods[name] == after.mods[name] for name in issue.alike if name in both)


def may_queue(earlier: OperationPart, now: Operation, ranks: Ints) -> Bools:
    """For each thread that issues an operation: does it keep the order of issue behind an earlier one of some thread?

    They must agree in what `Issue.alike` says. ranks: of the CTAs of the wave.
    """
    rows = now.issuers.rows
    issue, before = now.form.issue, earlier.operation
    if issue is None or not keeps_order(before, now.instruction):
        return np.zeros(len(rows), np.bool_)
    had = 1024 * before.issuers.rows + before.issuers.threads
    has = 1024 * (rows - ranks[rows] + earlier.rank) + earlier.thread
    where = np.searchsorted(had, has).clip(max=len(had) - 1)
    same: Bools = had[where] == has
    for name in issue.alike:
        if name in before.arguments and name in now.arguments:
            pairs = before.arguments[name][where] == now.arguments[name]
            same &= pairs.reshape(len(has), -1).all(1)
    return same
