"""Cutting a kernel into segments: it becomes blocks where threads may wait, and blocks between waits are functions.

The branches and loops in which nobody waits stay as they are, and run under masks within a segment.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tilewright import ir
from tilewright.errors import KernelError
from tilewright.ir import Jump
from tilewright.ir.flow import Flow
from tilewright.sim.codegen.axes import Axes
from tilewright.sim.codegen.loops import Skips, compared, decisions, is_volatile, polled, polls, skips, takes_number
from tilewright.sim.codegen.prepare import live_in, needed
from tilewright.sim.codegen.substitution import written_out
from tilewright.sim.codegen.values import given_in, read_by
from tilewright.sim.codegen.waits import Structured, cut_at_waits, ends_behind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tilewright.ir import Block, Body, Ending

# Segments: blocks that become one function, since threads go from one to the next without a wait or another way.


@dataclass(frozen=True, slots=True)
class Segment:
    """Statements, and what comes after them: the ways of ``end`` are segments. blocks: those that it is made of."""

    index: int
    body: Body
    end: Ending
    blocks: tuple[int, ...]


def segments(blocks: Sequence[Block], flow: Flow) -> tuple[Segment, ...]:
    """The segments of a graph, the one that is entered first before all others."""
    chains: list[list[int]] = []
    for number in flow.line:
        before = flow.predecessors[number]
        if len(before) == 1 and _goes_on(blocks[before[0]].end) and not flow.leads_back(before[0], number):
            next(chain for chain in reversed(chains) if chain[-1] == before[0]).append(number)
        else:
            chains.append([number])
    index = {chain[0]: k for k, chain in enumerate(chains)}
    return tuple(
        Segment(
            k,
            tuple(stmt for number in chain for stmt in blocks[number].body),
            blocks[chain[-1]].end.renumbered(index.__getitem__),
            tuple(chain),
        )
        for k, chain in enumerate(chains)
    )


def _goes_on(end: Ending) -> bool:
    """Do all threads go on at once, at the same block?"""
    return isinstance(end, Jump) and not end.yields


MOST_LOOPS = 256  # in one another: as many as C++ asks a compiler to take; the time to cut grows with their cube


def cut(
    kernel: ir.Kernel, parameters: frozenset[str], *, orders: str
) -> tuple[Axes, tuple[Segment, ...], list[frozenset[str]], Skips]:
    """Cuts a `prepared` kernel: the axes of all variables, the segments, of which the first is entered first, the
    variables that are live before each, and the barriers that threads may skip.

    orders: it is also cut where threads diverge on the way to accesses that show which came first, so that either may:
    "branches"; and before each such access, where others may overtake a thread: "accesses". Empty for neither.
    """
    _check_nesting(kernel.body)
    axes, blocks = _compiled(kernel, parameters, orders) if kernel.compiled else _cut(kernel, Axes(kernel), orders)
    blocks = _threaded(blocks)
    if orders and not kernel.compiled:
        axes.decisions = decisions(blocks, parameters)
    flow = Flow([block.end.targets for block in blocks])
    chains = segments(blocks, flow)
    live = live_in(blocks, flow, parameters)
    return (
        axes,
        chains,
        [live[segment.blocks[0]] for segment in chains],
        skips(blocks, flow, axes, compiled=kernel.compiled),
    )


def _cut(kernel: ir.Kernel, axes: Axes, orders: str) -> tuple[Axes, list[ir.Block]]:
    """The blocks of a kernel. Those that end in a branch have a wait behind it: each side leads out."""
    where = Structured(kernel, axes, orders=orders)
    graph = ir.graph_of(kernel, where.__contains__, lambda loop: polls(loop, compiled=kernel.compiled))
    return axes, cut_at_waits(graph.blocks, where)


def _compiled(kernel: ir.Kernel, parameters: frozenset[str], orders: str) -> tuple[Axes, list[ir.Block]]:
    """The blocks of compiled code."""
    body = needed(written_out(kernel.body, parameters), parameters)
    undefined = _first_values(body, parameters)
    kernel = replace(kernel, body=(*undefined, *body))
    axes = Axes(kernel)
    axes.undefined = undefined
    axes.ending = frozenset(map(id, ends_behind(kernel.body)))
    stmts = ir.statements(kernel.body)
    if any(is_volatile(stmt) or takes_number(stmt) for stmt in stmts):
        polling = (stmt for stmt in stmts if isinstance(stmt, (ir.For, ir.While)) and polls(stmt, compiled=True))
        axes.polled = frozenset(id(stmt) for loop in polling for stmt in polled(loop))
        axes.compared = frozenset(map(id, compared(kernel.body)))
    if orders:
        axes.decisions = decisions(ir.graph_of(kernel).blocks, parameters)
    return _cut(kernel, axes, orders)


def _check_nesting(body: ir.Body) -> None:
    """Raises KernelError where more loops than `MOST_LOOPS` are in one another."""
    todo = [(stmt, 0) for stmt in body]
    deepest: tuple[int, ir.Stmt | None] = (0, None)
    while todo:
        stmt, loops = todo.pop()
        loops += isinstance(stmt, (ir.For, ir.While))
        deepest = max(deepest, (loops, stmt), key=lambda depth: depth[0])
        todo += [(inner, loops) for body in ir.bodies(stmt) for inner in body]
    if deepest[0] > MOST_LOOPS:
        shown, allowed = f"{deepest[0]} loops in one another", f"{MOST_LOOPS}"
        at = deepest[1].at if deepest[1] is not None else None
        raise KernelError("loops are nested too deeply", given=shown, allowed=allowed, at=at)


def _first_values(body: ir.Body, parameters: frozenset[str]) -> tuple[ir.Bind, ...]:
    """Statements that give registers which may be read before they are written a value without a known bit."""
    stmts = ir.statements(body)
    kinds = {stmt.var.name: stmt.var for stmt in given_in(stmts)}
    kinds |= {node.name: node for stmt in stmts for node in read_by(stmt) if isinstance(node, ir.Var)}
    names = kinds.keys() - parameters - {name for stmt in stmts for name in ir.introduced(stmt)}
    return tuple(ir.Bind(kinds[name], ir.Const(0, kinds[name].dtype)) for name in sorted(names))


def _threaded(blocks: Sequence[ir.Block]) -> list[ir.Block]:
    """The blocks, with edges that skip empty blocks."""

    def through(number: int) -> int:
        seen = {number}
        while not (at := blocks[number]).body and isinstance(at.end, ir.Jump) and not at.end.yields:
            number = at.end.to
            if number in seen:
                break
            seen.add(number)
        return number

    return [ir.Block(block.body, block.end.renumbered(through)) for block in blocks]
