"""Regions: blocks of a graph that become one function, since no thread waits on the way from one to the other.

A region is entered at one block. It has whole loops, and whatever else is reached from within it alone. Lanes that
diverge inside run its blocks in turn, each under its mask; a block that exactly the lanes of an earlier one reach has
that block's mask.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tilewright.ir import Ask, Ending, Exit, Jump, Meet
from tilewright.ir.flow import Loop

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tilewright.ir import Block, Body
    from tilewright.ir.flow import Flow, Order

__all__ = ["CodeRegion", "Leave", "Segment", "regions"]


@dataclass(frozen=True, slots=True)
class CodeRegion:
    """items: its blocks in the order in which they run. tail: the block that all lanes leave from, if there is one.
    masks: by block, and by ``~head`` of a loop for those that enter it, the first of these that has the same lanes.
    segments: what the other blocks of the graph belong to.
    """

    items: Order
    blocks: Mapping[int, Block]
    masks: Mapping[int, int]
    tail: int | None
    segments: Mapping[int, int]

    def leaves(self, to: int) -> bool:
        """Do lanes that go on with this block leave the region? It is outside, or the region's entry."""
        return to not in self.blocks or to == self.items[0]

    @property
    def is_straight(self) -> bool:
        """Do all lanes that enter it pass all of its blocks, once?"""
        return all(mask == self.first for mask in self.masks.values())

    @property
    def first_block(self) -> int:
        """Where it is entered."""
        item = self.items[0]
        return item.head if isinstance(item, Loop) else item

    @property
    def first(self) -> int:
        """The blocks whose lanes are exactly those that enter the region."""
        item = self.items[0]
        return ~item.head if isinstance(item, Loop) else item


@dataclass(frozen=True, slots=True)
class Leave(Ending):
    """The end of a region from which lanes go on with several segments, or have ended."""

    _ways = ("to",)
    to: tuple[int, ...]

    @property
    def targets(self) -> tuple[int, ...]:
        """The segments that lanes may go on with."""
        return self.to


@dataclass(frozen=True, slots=True)
class Segment:
    """The statements of a region, and what comes after them: the ways of its end are segments."""

    index: int
    body: Body
    end: Ending
    region: CodeRegion


def regions(blocks: Sequence[Block], flow: Flow, outer: frozenset[int]) -> tuple[Segment, ...]:
    """The segments of a graph. outer: the blocks whose branch leads out of the region."""
    homes = _Homes(blocks, flow, outer)
    heads = list(dict.fromkeys(homes.homes[number] for number in flow.line))
    index = {head: number for number, head in enumerate(heads)}
    segments = {number: index[head] for number, head in homes.homes.items()}
    return tuple(_segment(head, homes, segments) for head in heads)


class _Homes:
    """Finds the region of each block, named by the region's first block."""

    def __init__(self, blocks: Sequence[Block], flow: Flow, outer: frozenset[int]) -> None:
        self.blocks = blocks
        self.flow = flow
        self.outer = outer
        self.whole = {block: loop for loop in reversed(flow.loops) if self._is_whole(loop) for block in loop.blocks}
        self.homes: dict[int, int] = {}
        for number in flow.line:
            loop = self.whole.get(number)
            if loop is not None and number != loop.head:
                self.homes[number] = self.homes[loop.head]
            else:
                self.homes[number] = self._home(number, frozenset(loop.blocks if loop else ()))

    def _leads_out(self, number: int) -> bool:
        end = self.blocks[number].end
        return number in self.outer or isinstance(end, (Meet, Ask)) or (isinstance(end, Jump) and end.yields != "")

    def _is_whole(self, loop: Loop) -> bool:
        """Is the loop without waits, and entered only at its head?"""
        inside = frozenset(loop.blocks)
        others = inside - {loop.head}
        return not any(map(self._leads_out, inside)) and all(
            before in inside for number in others for before in self.flow.predecessors[number]
        )

    def _home(self, number: int, inside: frozenset[int]) -> int:
        before = [k for k in self.flow.predecessors[number] if k not in inside]
        homes = {number if self._leads_out(k) else self.homes.get(k, number) for k in before}
        home = homes.pop() if len(homes) == 1 else number
        if number == self.flow.line[0] or (self._leads_out(number) and not self._all_come(home, number)):
            return number
        return home

    def _all_come(self, head: int, number: int) -> bool:
        """Are the lanes at a block all those that entered the region?"""
        around = self.flow.around[head]
        loop = self.whole.get(head)
        around = around[: around.index(loop)] if loop is not None else around
        return self.flow.around[number] == around and self.flow.follows(head, number, around)


def _segment(head: int, homes: _Homes, segments: Mapping[int, int]) -> Segment:
    own = [number for number in homes.flow.line if homes.homes[number] == head]
    items: Order = tuple(dict.fromkeys(homes.whole.get(number, number) for number in own))
    blocks = {number: homes.blocks[number] for number in own}
    masks = _Masks(homes, items, frozenset(own)).found
    region = CodeRegion(items, blocks, masks, None, segments)
    reached = {k for block in blocks.values() for k in block.end.targets if region.leaves(k)}
    leaving = [
        n for n, block in blocks.items() if isinstance(block.end, Exit) or any(map(region.leaves, block.end.targets))
    ]
    body = tuple(stmt for block in blocks.values() for stmt in block.body)
    if (
        len(leaving) == 1
        and masks[leaving[0]] == region.first
        and all(map(region.leaves, blocks[leaving[0]].end.targets))
    ):
        end = blocks[leaving[0]].end.renumbered(segments.__getitem__)
        return Segment(segments[head], body, end, replace(region, tail=leaving[0]))
    at = next((block.end.at for block in reversed(blocks.values()) if block.end.at is not None), None)
    return Segment(segments[head], body, Leave(tuple(sorted(segments[k] for k in reached)), at=at), region)


class _Masks:
    """For each block and loop of a region the first one that the same lanes come to."""

    def __init__(self, homes: _Homes, items: Order, members: frozenset[int]) -> None:
        self.flow = homes.flow
        self.whole = homes.whole
        self.members = members
        self.found: dict[int, int] = {}
        self._first = items[0].head if isinstance(items[0], Loop) else items[0]
        self._go(items)

    def _go(self, items: Order) -> None:
        for item in items:
            if isinstance(item, Loop):
                around = self.flow.around[item.head]
                around = around[: around.index(item)]
                self.found[~item.head] = self._root(item.head, around, ~item.head)
                self.found[item.head] = item.head
                self._go(item.items[1:])
            else:
                self.found[item] = self._root(item, self.flow.around[item], item)

    def _root(self, number: int, around: tuple[Loop, ...], key: int) -> int:
        if number == self._first:
            return key
        before = self.flow.dominators[number]
        while before in self.members:
            inside = self.flow.around[before]
            if inside[: len(around)] != around:
                break
            if inside == around:
                return self.found[before] if self.flow.follows(before, number, around) else key
            loop = inside[len(around)]
            if before == loop.head:
                known = ~before in self.found and self.flow.follows(before, number, around)
                return self.found[~before] if known else key
            before = self.flow.dominators[before]
        return key
