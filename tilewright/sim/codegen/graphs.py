"""Cutting a graph: from blocks to segments, by way of what varies, who waits and what is one function."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tilewright.ir import Assign, Bind, Const, Var, expressions, statements
from tilewright.sim.codegen.divergence import Divergence
from tilewright.sim.codegen.live import Liveness
from tilewright.sim.codegen.pieces import Piece, expanded, flow_of, parted
from tilewright.sim.codegen.regions import regions
from tilewright.sim.codegen.substitution import written_out

if TYPE_CHECKING:
    from tilewright.ir import Graph
    from tilewright.sim.codegen.segments import Segment

__all__ = ["cut_graph"]


def cut_graph(
    graph: Graph, parameters: frozenset[str], *, orders: bool
) -> tuple[Divergence, tuple[Segment, ...], list[frozenset[str]]]:
    """What varies over what, the segments, and the variables that are live before each of them.

    orders: cut also where threads part on the way to accesses that show who came first.
    """
    pieces = expanded(graph)
    pieces = written_out(pieces, flow_of(pieces), parameters)
    live = Liveness(pieces, flow_of(pieces), parameters)
    undefined = _first_values(pieces, live)
    pieces[0] = replace(pieces[0], body=undefined)
    flow = flow_of(pieces)
    live = Liveness(pieces, flow, parameters)
    apart = Divergence(pieces, flow, live)
    apart.undefined = undefined
    pieces, outer = parted(pieces, apart, orders=orders)
    flow = flow_of(pieces)
    segments = regions(pieces, flow, outer)
    live = Liveness(pieces, flow, parameters)
    firsts = [next(iter(s.region.pieces)) for s in segments if s.region is not None]
    return apart, segments, [live.live_in[first] for first in firsts]


def _first_values(pieces: list[Piece], live: Liveness) -> tuple[Bind, ...]:
    """Values for the registers that somebody may read before they are written; nobody knows them."""
    kinds = {s.var.name: s.var for p in pieces for s in statements(p.body) if isinstance(s, (Bind, Assign))}
    read = (node for piece in pieces for stmt in statements(piece.body) for node in expressions(stmt))
    kinds |= {node.name: node for node in read if isinstance(node, Var)}
    return tuple(Bind(kinds[name], Const(0, kinds[name].dtype)) for name in sorted(live.live_in[0]))
