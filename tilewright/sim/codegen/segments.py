"""Segments: blocks that become one function, since threads go from one to the next without a wait or another way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilewright.ir import Jump

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tilewright.ir import Block, Body, Ending
    from tilewright.ir.flow import Flow

__all__ = ["Segment", "segments"]


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
