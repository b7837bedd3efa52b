"""The shape of control flow: an order of blocks in which each loop is contiguous, and their dominators.

Blocks are numbers here; ``successors[k]`` are those that come after block k, and block 0 is entered first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

__all__ = ["END", "Flow", "Loop", "Order"]


@dataclass(frozen=True, eq=False)  # a loop is itself: to compare or to hash one would go into all inner loops
class Loop:
    """Blocks that reach each other, the head first. ``items`` are ordered as if no edge led back to the head."""

    head: int
    items: Order

    @cached_property
    def blocks(self) -> tuple[int, ...]:
        """All blocks, those of inner loops too."""
        return tuple(blocks_of(self.items))


Order: TypeAlias = "tuple[int | Loop, ...]"


END = -1  # where threads end, as a block


def blocks_of(order: Order) -> Iterator[int]:
    """The blocks of an order, one after the other."""
    for item in order:
        if isinstance(item, Loop):
            yield from item.blocks
        else:
            yield item


class Flow:
    """The control flow that the successors of each block make. Unreachable blocks are left out of everything."""

    def __init__(self, successors: Sequence[Sequence[int]]) -> None:
        self.successors = successors
        self.order = _ordered(_reached(0, successors, frozenset(range(len(successors)))), successors)
        self.line = tuple(blocks_of(self.order))
        self.rank = {block: rank for rank, block in enumerate(self.line)}
        self.predecessors: dict[int, list[int]] = {block: [] for block in self.line}
        for block in self.line:
            for after in dict.fromkeys(successors[block]):
                self.predecessors[after].append(block)
        self.around: dict[int, tuple[Loop, ...]] = {}  # the loops around each block, the outermost first
        self._nest(self.order, ())

    def _nest(self, order: Order, around: tuple[Loop, ...]) -> None:
        for item in order:
            if isinstance(item, Loop):
                self._nest(item.items, (*around, item))
            else:
                self.around[item] = around

    @cached_property
    def loops(self) -> tuple[Loop, ...]:
        """Every loop, an outer one before those inside of it."""
        return tuple(dict.fromkeys(loop for block in self.line for loop in self.around[block]))

    def leads_back(self, block: int, after: int) -> bool:
        """Is this edge one to the head of a loop from inside of it?"""
        return self.rank[after] <= self.rank[block]

    @cached_property
    def dominators(self) -> dict[int, int]:
        """For each block the nearest one that every way to it passes; the first block has itself."""
        return _nearest(self.line, self.predecessors)

    @cached_property
    def _strict_joins(self) -> dict[int, int]:
        """For each block the nearest one that every way from it passes, `END` where that is the end of the thread.

        An endless loop counts as ending at its head.
        """
        ahead = {block: [*self.successors[block]] or [END] for block in self.line}
        for loop in self.loops:
            inside = set(loop.blocks)
            if all(k in inside for block in inside for k in self.successors[block]):
                ahead[loop.head].append(END)
        return _joins(ahead)

    @cached_property
    def _joins_of_the_rest(self) -> dict[int, int]:
        """The joins if threads that end anywhere but in the last such block are left out."""
        ahead = {block: [*self.successors[block]] for block in self.line}
        last = next((block for block in reversed(self.line) if not ahead[block]), None)
        if last is None:
            return self._strict_joins
        ahead[last] = [END]
        return _joins(ahead)

    @cached_property
    def joins(self) -> dict[int, int]:
        """For each block where all its threads meet next, but for those that have ended by then; else `END`."""
        found = {}
        for block in self.line:
            join = self._joins_of_the_rest.get(block, END)
            early = join != END and all(
                self.rank[k] < self.rank[join] for after in self.successors[block] for k in self._until(after, join)
            )
            found[block] = join if early else self._strict_joins[block]
        return found

    def between(self, block: int) -> list[int]:
        """For each successor of a branch the blocks that are reached from there before the ways join, as bits."""
        stop = self._stops[block]
        return [sum(1 << k for k in self._until(after, stop)) for after in self.successors[block]]

    @cached_property
    def _stops(self) -> dict[int, int]:
        return {block: self._stop(block) for block in self.line}

    def _stop(self, block: int) -> int:
        """The join of a branch; `END` where some paths reach it in a later iteration of a loop than others do."""
        join = self.joins[block]
        for loop in self.around[block]:
            if join not in (END, loop.head) and loop in self.around[join]:
                turns = (self._turn(block, after, join) for after in self.successors[block])
                if any(loop.head in turn for turn in turns):
                    return END
        return join

    def _until(self, start: int, stop: int) -> set[int]:
        found: set[int] = set()
        todo = [start]
        while todo:
            block = todo.pop()
            if block != stop and block not in found:
                found.add(block)
                todo += self.successors[block]
        return found

    def _turn(self, before: int, start: int, stop: int) -> set[int]:
        """The blocks up to a stop in one turn of each loop, with the heads to which back edges lead."""
        found, ends = set(), set()
        todo = [(before, start)]
        while todo:
            last, block = todo.pop()
            if block == stop or self.leads_back(last, block):
                ends.add(block)
            elif block not in found:
                found.add(block)
                todo += [(block, after) for after in self.successors[block]]
        return (found | ends) - {END}


Edges: TypeAlias = "Sequence[Sequence[int]] | dict[int, list[int]]"


def _reached(entry: int, successors: Edges, among: frozenset[int]) -> list[int]:
    """The blocks among these that are reached from ``entry``, in reverse post-order."""
    done: list[int] = []
    seen = {entry}
    stack = [(entry, iter(successors[entry][::-1]))]
    while stack:
        block, rest = stack[-1]
        after = next((k for k in rest if k in among and k not in seen), None)
        if after is None:
            done.append(block)
            stack.pop()
        else:
            seen.add(after)
            stack.append((after, iter(successors[after][::-1])))
    return done[::-1]


def _joins(ahead: dict[int, list[int]]) -> dict[int, int]:
    """Dominators of the graph turned round."""
    ahead = {**ahead, END: []}
    back: dict[int, list[int]] = {block: [] for block in ahead}
    for block, after in ahead.items():
        for k in after:
            back[k].append(block)
    found = _nearest(_reached(END, back, frozenset(ahead)), ahead)
    del found[END]
    return found


def _ordered(line: list[int], successors: Edges) -> Order:
    """Blocks in reverse post-order as an order in which each loop is one piece: Kosaraju's components, one by one."""
    inside = frozenset(line)
    back: dict[int, list[int]] = {block: [] for block in line}
    for block in line:
        for after in successors[block]:
            if after in inside:
                back[after].append(block)
    items: list[int | Loop] = []
    taken: set[int] = set()
    for block in line:
        if block in taken:
            continue
        piece = frozenset(_reached(block, back, inside - taken))
        taken |= piece
        if len(piece) == 1 and block not in back[block]:
            items.append(block)
        else:
            inner = _reached(block, successors, piece)
            items.append(Loop(block, (block, *_ordered(inner[1:], successors))))
    return tuple(items)


def _nearest(line: Sequence[int], before: dict[int, list[int]]) -> dict[int, int]:
    """The nearest dominator of each block. Source: Cooper, Harvey, Kennedy, "A Simple, Fast Dominance Algorithm"."""
    rank = {block: number for number, block in enumerate(line)}
    found = {line[0]: line[0]}
    changed = True
    while changed:
        changed = False
        for block in line[1:]:
            known = [k for k in before[block] if k in found]
            nearest = known[0]
            for other in known[1:]:
                while nearest != other:
                    if rank[nearest] > rank[other]:
                        nearest = found[nearest]
                    else:
                        other = found[other]
            changed |= found.get(block) != nearest
            found[block] = nearest
    return found
