"""Graphs with fewer blocks: ways without a branch are one block, empty ones none.

Code that is not optimised calls a function for each step of a library; with their bodies in place of the calls most
blocks have one way in and one way out.
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.ir import Block, Graph, Jump, Kernel

__all__ = ["straightened"]


def straightened(kernel: Kernel) -> Kernel:
    """The same kernel; a graph that it has loses blocks that others go on with anyway."""
    return kernel if kernel.graph is None else replace(kernel, graph=_joined(kernel.graph))


def _joined(graph: Graph) -> Graph:
    blocks = list(graph.blocks)
    beyond = [_beyond(blocks, number) for number in range(len(blocks))]
    blocks = [Block(each.body, each.end.renumbered(beyond.__getitem__)) for each in blocks]
    coming = [0] * len(blocks)
    reached = _reached(blocks)
    for number in reached:
        for to in blocks[number].end.targets:
            coming[to] += 1
    kept: dict[int, Block] = {}
    swallowed: set[int] = set()
    for number in reached:
        if number in swallowed:
            continue
        parts, end = [blocks[number].body], blocks[number].end
        while isinstance(end, Jump) and not end.yields and coming[end.to] == 1 and end.to not in (0, number):
            swallowed.add(end.to)
            kept.pop(end.to, None)
            parts.append(blocks[end.to].body)
            end = blocks[end.to].end
        kept[number] = Block(tuple(stmt for part in parts for stmt in part), end)
    numbers = {number: place for place, number in enumerate(sorted(kept))}
    made = (Block(kept[number].body, kept[number].end.renumbered(numbers.__getitem__)) for number in sorted(kept))
    return replace(graph, blocks=tuple(made))


def _beyond(blocks: list[Block], number: int) -> int:
    """The block at which threads arrive that go on with this one: the first that does anything."""
    seen = {number}
    while number and not blocks[number].body and isinstance(end := blocks[number].end, Jump) and not end.yields:
        if end.to in seen:
            break
        seen.add(number := end.to)
    return number


def _reached(blocks: list[Block]) -> list[int]:
    """The blocks to which a way leads, in the order in which it does."""
    found, left = {0: None}, [0]
    while left:
        for to in reversed(blocks[left.pop()].end.targets):
            if to not in found:
                found[to] = None
                left.append(to)
    return [*found]
