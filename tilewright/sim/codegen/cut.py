"""Cutting a kernel into segments: its graph is cut at waits, and blocks between them are joined to functions.

A structured body becomes blocks where threads may wait inside; the rest of its branches and loops stays as it is, and
runs under masks within a segment. What compilers made is blocks throughout.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright import ir
from tilewright.errors import KernelError
from tilewright.ir.flow import Flow
from tilewright.sim.codegen.axes import Axes, Divergence
from tilewright.sim.codegen.decisions import decisions
from tilewright.sim.codegen.live import Liveness
from tilewright.sim.codegen.loops import compared_in_graph, is_volatile, polled_in_graph, polls, takes_number
from tilewright.sim.codegen.needed import needed
from tilewright.sim.codegen.regions import regions
from tilewright.sim.codegen.skips import Skips, skips
from tilewright.sim.codegen.substitution import written_out
from tilewright.sim.codegen.values import code_in, given_in
from tilewright.sim.codegen.waits import Open, Structured, cut_at_waits, waits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tilewright.sim.codegen.regions import Segment

__all__ = ["cut"]


MOST_LOOPS = 256  # in one another: as many as C++ asks a compiler to take; the time to cut grows with their cube


def cut(
    kernel: ir.Kernel, parameters: frozenset[str], *, orders: str
) -> tuple[Axes, tuple[Segment, ...], list[frozenset[str]], Skips]:
    """Cuts a `prepared` kernel: the axes of all variables, the segments, of which the first is entered first, the
    variables that are live before each, and the barriers that threads may skip.

    orders: it is also cut where threads diverge on the way to accesses that show which came first, so that either may:
    "branches"; and before each such access, where others may overtake a thread: "accesses". Empty for neither.
    """
    axes, blocks, outer = _structured(kernel, orders) if kernel.graph is None else _open(kernel, parameters, orders)
    blocks = _threaded(blocks)
    flow = _flow_of(blocks)
    segments = regions(blocks, flow, outer)
    if orders:
        axes.decisions = decisions(blocks, flow, parameters)
    live = Liveness(blocks, flow, parameters)
    first = [live.live_in[segment.region.first_block] for segment in segments]
    return axes, segments, first, skips(blocks, flow, axes, compiled=kernel.graph is not None)


def _structured(kernel: ir.Kernel, orders: str) -> tuple[Axes, list[ir.Block], frozenset[int]]:
    """The blocks of a structured body. Those that end in a branch have a wait behind it: each side leads out."""
    axes = Axes(kernel)
    where = Structured(kernel, axes, orders=orders)
    graph = ir.graph_of(kernel, where.__contains__, polls)
    blocks, _ = cut_at_waits(graph.blocks, lambda stmt, _: stmt in where, where)
    return axes, blocks, frozenset(number for number, block in enumerate(blocks) if isinstance(block.end, ir.Branch))


def _open(kernel: ir.Kernel, parameters: frozenset[str], orders: str) -> tuple[Axes, list[ir.Block], frozenset[int]]:
    """The blocks of a graph; those whose branch leads out of the function that they are in."""
    graph = ir.graph_of(kernel, lambda stmt: any(waits(one) is not False for one in ir.statements((stmt,))))
    blocks = needed(written_out(graph.blocks, _flow_of(graph.blocks), parameters), parameters)
    flow = _flow_of(blocks)
    undefined = _first_values(blocks, Liveness(blocks, flow, parameters))
    blocks[0] = ir.Block((*undefined, *blocks[0].body), blocks[0].end)
    apart = Divergence(blocks, flow, Liveness(blocks, flow, parameters))
    apart.undefined = undefined
    where = Open(blocks, apart, orders=orders)
    if any(is_volatile(stmt) or takes_number(stmt) for stmt in ir.code_of(kernel)):
        apart.polled = frozenset(id(stmt) for loop in where.polling for stmt in polled_in_graph(loop, blocks))
        apart.compared = frozenset(map(id, compared_in_graph(blocks)))
    blocks, ends = cut_at_waits(blocks, where.cuts, where)
    where.yielding(blocks, ends)
    return apart, blocks, frozenset(ends[number] for number in where.branches)


def _flow_of(blocks: Sequence[ir.Block]) -> Flow:
    """The shape of their control flow. Raises KernelError where more loops than `MOST_LOOPS` are in one another."""
    flow = Flow([block.end.targets for block in blocks])
    deepest = max(flow.around, key=lambda block: len(flow.around[block]))
    if (loops := len(flow.around[deepest])) > MOST_LOOPS:
        given, allowed = f"{loops} loops in one another", f"{MOST_LOOPS}"
        raise KernelError("loops are nested too deeply", given=given, allowed=allowed, at=blocks[deepest].end.at)
    return flow


def _first_values(blocks: Sequence[ir.Block], live: Liveness) -> tuple[ir.Bind, ...]:
    """Statements that give registers which may be read before they are written a value without a known bit."""
    kinds = {stmt.var.name: stmt.var for stmt in given_in(code_in(blocks))}
    parts = (part for block in blocks for part in (*map(ir.expressions, ir.statements(block.body)), block.end.reads))
    kinds |= {node.name: node for part in parts for node in part if isinstance(node, ir.Var)}
    return tuple(ir.Bind(kinds[name], ir.Const(0, kinds[name].dtype)) for name in sorted(live.live_in[0]))


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
