"""Strong reads that tell a thread nothing but which way to go, as those of a loop that polls.

A value read earlier, or later, would have done as well if it sends the thread the same way: see `History`.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from tilewright import ir
from tilewright.dtypes import VOID
from tilewright.ir.flow import Flow
from tilewright.isa import bind
from tilewright.sim.codegen.live import live_in
from tilewright.sim.codegen.loops import shows
from tilewright.sim.codegen.values import acts, calls_of, names_in, put_in, read_by

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tilewright.isa import Lanes

__all__ = ["decisions"]

VALUES = (0, 1, 2, 5, (1 << 31) - 1, 1 << 31, (1 << 32) - 1)  # that memory may hold


def decisions(blocks: Sequence[ir.Block], parameters: frozenset[str]) -> dict[int, ir.Expr]:
    """By the ``id`` of the call that reads: the condition of the branch at the end of its block, in which the call
    stands for what it reads.
    """
    flow = Flow([block.end.targets for block in blocks])
    ends = {number: blocks[number].end for number in flow.line}
    found: dict[int, ir.Expr] = {}
    live: dict[int, frozenset[str]] | None = None
    for number, end in ends.items():
        calls = [call for stmt in blocks[number].body for call in calls_of(stmt) if _only_reads(call)]
        if isinstance(end, ir.Branch):
            live = live or live_in(blocks, flow, parameters)
            after = frozenset().union(*(live[k] for k in flow.successors[number]))
            calls += [node for node in end.reads if isinstance(node, ir.Call) and _only_reads(node)]
            every = ((call, _condition(call, blocks[number].body, end.cond, after)) for call in calls)
            found |= {id(call): cond for call, cond in every if cond is not None}
    return found


def _only_reads(call: ir.Call) -> bool:
    """Does a call read memory strongly, and leave there what it has found?"""
    if not shows(call) or bind(call).form.result == VOID:
        return False
    accesses = bind(call).form.accesses
    return len([one for one in accesses if not one.write]) == 1 and (
        not any(one.write for one in accesses) or _changes_nothing(call)
    )


class _Trial(Exception):
    """Stands for memory at which an atomic is tried; raised where it does something else there. same: did it change
    nothing?
    """

    same = False

    def rows(self, address: Lanes, nbytes: int) -> NoReturn:
        """As of `Memory`."""
        raise self

    def store_rows(self, address: Lanes, data: Lanes) -> NoReturn:
        """As of `Memory`."""
        raise self

    def atomic(self, address: Lanes, combine: Callable[..., Lanes], *values: Lanes) -> Lanes:
        """As of `Memory`."""
        old = np.array(VALUES, np.uint64).astype(values[0].dtype)
        self.same = bool((np.asarray(combine(old, *values)) == old).all())
        return old


def _changes_nothing(call: ir.Call) -> bool:
    """Does an atomic of constants leave every value as it is, as one that adds 0?"""
    bound = bind(call)
    rows = [row for row in bound.arguments if row.kind == "typed"]
    numbers = [ir.const_value(bound.operands[row.name][0]) for row in rows]
    execute, trial = bound.form.meaning.execute, _Trial()
    if execute is None or bound.form.meaning.on != "memory" or len(rows) != len(bound.arguments) - 1:
        return False
    if any(number is None for number in numbers):
        return False
    kinds = [bound.operands[row.name][0].dtype.numpy for row in rows]
    if any(kind.kind not in "iu" for kind in kinds) or any("x2" in str(word) for word in bound.mods.values()):
        return False  # a zero that is added to a float changes -0.0
    given = [np.array([number]).astype(kind) for number, kind in zip(numbers, kinds, strict=True)]
    with suppress(_Trial, ValueError):  # halves of a word are added in another shape
        execute(trial, np.zeros(1, np.int64), *given, **{name: bound.mods[name] for name in bound.form.meaning.passes})
    return trial.same


def _condition(call: ir.Call, body: ir.Body, cond: ir.Expr, after: frozenset[str]) -> ir.Expr | None:
    """The condition, with all that is computed from the call put in; None where anything else depends on it."""
    values: dict[str, ir.Expr] = {}
    told: set[str] = set()  # variables that depend on the call
    first = next((k for k, stmt in enumerate(body) if any(node is call for node in read_by(stmt))), len(body))
    for stmt in body[first:]:
        depends = stmt is body[first] or not told.isdisjoint(names_in(read_by(stmt)))
        if not isinstance(stmt, (ir.Bind, ir.Assign)):
            if depends or any(ir.bodies(stmt)):
                return None
        elif depends and any(acts(node) and node is not call for node in ir.walk(stmt.value)):
            return None
        else:
            values[stmt.var.name] = put_in(stmt.value, values)
            told = told | {stmt.var.name} if depends else told - {stmt.var.name}
    found = put_in(cond, values)
    plain = cond.a if isinstance(cond, ir.Unary) and cond.op == "not" else cond
    own = {plain.name} if isinstance(plain, ir.Var) else set()
    nodes = [node for node in ir.walk(found) if acts(node)]
    is_alone = call in nodes and all(node == call for node in nodes)
    return found if is_alone and (told - own).isdisjoint(after) else None
