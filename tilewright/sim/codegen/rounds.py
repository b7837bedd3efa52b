"""A region as Python: its blocks one after the other, each under the mask of the lanes that come to it.

Names: ``go7`` holds the lanes that go on with block 7, None while there are none; ``to2`` those that leave for
segment 2. A loop takes turns for as long as lanes come back to its head: ``in5`` entered the loop of head 5, ``now5``
take this turn.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

from tilewright.ir import Branch, Exit, Jump
from tilewright.ir.flow import Loop
from tilewright.sim.codegen.axes import UNIFORM
from tilewright.sim.codegen.loops import reads_nothing, spins

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from tilewright.ir.flow import Order
    from tilewright.sim.codegen.functions import SegmentEmitter
    from tilewright.sim.codegen.regions import CodeRegion

__all__ = ["ENDLESS", "leaving", "written"]

ENDLESS = "for _ in run.watch.endless():"  # `while True`, under the watch of the limits


def leaving(segment: int) -> str:
    """The name of the mask of those that leave a region for a segment."""
    return f"to{segment}"


def written(e: SegmentEmitter, region: CodeRegion) -> None:
    """Writes the blocks of a region."""
    _Writer(e, region).region()


class _Writer:
    def __init__(self, e: SegmentEmitter, region: CodeRegion) -> None:
        self.e = e
        self.out = e.out
        self.r = region
        self.heads = {~key for key in region.masks if key < 0}
        self.inside: dict[int, frozenset[int]] = {}  # the blocks of the loop of each head
        self.find(region.items)

    def find(self, items: Order) -> None:
        for item in items:
            if isinstance(item, Loop):
                self.inside[item.head] = frozenset(item.blocks)
                self.find(item.items)

    def region(self) -> None:
        """Write the whole region."""
        r = self.r
        names = [f"go{n}" for n in r.blocks if r.masks[n] == n != r.first or n in self.heads]
        names += sorted({leaving(r.segments[k]) for n, p in r.blocks.items() if n != r.tail
                         for k in p.end.targets if r.leaves(k)})  # fmt: skip
        if names:
            self.out.line(" = ".join([*names, "None"]))
        self.items(r.items)

    def mask(self, key: int) -> str:
        """The name of the mask of a block, or of the lanes that enter a loop."""
        root = self.r.masks[key]
        if root == self.r.first:
            return "m0"
        if root < 0:
            return f"in{~root}"
        return f"now{root}" if root in self.heads else f"go{root}"

    def guarded(self, mask: str) -> AbstractContextManager[None]:
        """Open a block that is skipped while its mask has no lane."""
        return nullcontext() if mask == "m0" else self.out.block(f"if {mask} is not None:")

    def items(self, items: Order) -> None:
        for item in items:
            if isinstance(item, Loop):
                self.loop(item)
            else:
                with self.guarded(self.mask(item)):
                    self.block(item, self.mask(item))

    def loop(self, loop: Loop) -> None:
        """Turns for as long as lanes come back to the head."""
        go, key = f"go{loop.head}", ~loop.head
        if self.r.masks[key] == key != self.r.first:
            self.out.line(f"in{loop.head} = {go}")
        else:
            self.out.line(f"{go} = {self.mask(key)}")
        with self.guarded(self.mask(key)):
            self.out.at = self.r.blocks[loop.head].end.at
            with self.out.block(ENDLESS):
                self.out.line(f"now{loop.head} = {go}; {go} = None")
                self.block(loop.head, f"now{loop.head}")
                self.items(loop.items[1:])
                spent = [f"go{n}" for n in loop.blocks if self.r.masks[n] == n and n not in self.heads]
                if spent:
                    self.out.line(" = ".join([*spent, "None"]))
                self.out.line(f"if {go} is None: break")
                if spins(loop, self.r.blocks):  # who comes back here, comes back for ever
                    hoisted = reads_nothing(loop, self.r.blocks)
                    at = self.out.constant("A", self.out.at)
                    self.out.line(f"Turns({at}, leaves=False, hoisted={hoisted}).next(b, {go}, ())")

    def block(self, number: int, mask: str) -> None:
        """The statements of a block, and where its lanes go on."""
        self.e.whole = mask
        self.e.body(self.r.blocks[number].body, mask)
        if number != self.r.tail:
            self.route(number, mask)

    def route(self, number: int, mask: str) -> None:
        """Sends lanes on."""
        end = self.r.blocks[number].end
        self.out.at = end.at
        if isinstance(end, Exit) and self.e.program.tells_ends:
            self.out.line(f"b.wave.ended(b, {mask})")
        elif isinstance(end, Jump):
            if name := self.arrives(number, end.to):
                self.out.line(f"{name} = {mask}.joined({name})")
        elif isinstance(end, Branch):
            self.e.comes(number, mask)
            cond = self.out.named("c", self.e.sound(end.cond, mask, "a condition"))
            uniform = self.e.axes.of(end.cond) == UNIFORM
            for to, test in ((end.then, cond), (end.orelse, f"(not {cond})" if uniform else f"~{cond}")):
                name = self.arrives(number, to)
                if name and uniform:
                    self.out.line(f"if {test}: {name} = {mask}.joined({name})")
                elif name:
                    lanes = self.out.fresh("m")
                    self.out.line(f"{lanes} = {mask}.narrowed({test})")
                    self.out.line(f"if {lanes} is not None: {name} = {lanes}.joined({name})")

    def arrives(self, number: int, to: int) -> str | None:
        """The name of the mask that lanes are added to which go on with a block; None where it is known already."""
        if self.r.leaves(to):
            return leaving(self.r.segments[to])
        key = ~to if to in self.heads and number not in self.inside[to] else to
        return f"go{to}" if self.r.masks[key] == key else None
