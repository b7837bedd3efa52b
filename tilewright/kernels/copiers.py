"""Warps of a product's kernel that move data between GPUs while others multiply: how they wait, and how they gather.

The warpgroup that copies tiles to the ring needs one warp for that. The other three are the copiers of a CTA.
"""

from __future__ import annotations

from typing import Any

from tilewright.lang import T

COPIERS, AT_ONCE = 96, 4  # threads of a CTA that copy; words of 16 bytes that each has on their way
REGISTERS = (56, 224)  # of each thread that copies, and of each that multiplies


@T.inline
def reached(count, wanted, scope):
    """Wait until a count, which only grows, is as high."""
    while T.reinterpret("int32", T.ptx.ld(count, sem="acquire", scope=scope) - wanted) < 0:
        pass


@T.meta_class
class Copier:
    """A thread that copies: its CTA, of so many, its number in it, and how many words it has on their way at once."""

    def __init__(self, cta: Any, ctas: Any, thread: Any, at_once: int = 1) -> None:
        self.cta, self.ctas, self.thread, self.at_once = cta, ctas, thread, at_once

    def turns(self, size: Any) -> Any:
        """In how many turns all copiers have had so many words."""
        return T.ceildiv(size, self.ctas * (COPIERS * self.at_once))

    def word(self, turn: Any) -> Any:
        """Its first word of a turn."""
        return (turn * self.ctas + self.cta) * (COPIERS * self.at_once) + self.thread


@T.meta_class
class GatherCounts:
    """What GPUs tell each other: which blocks of rows have arrived, which ranks are ready, how many have finished."""

    def __init__(self, arrived: Any, ready: Any, finished: Any) -> None:
        self.arrived, self.ready, self.finished = arrived, ready, finished


@T.inline
def copied(here, far, to, first, size, copier):
    """The copiers of a CTA copy its share of a block: words of 16 bytes, several of each thread on their way."""
    at_once = T.meta_var(copier.at_once)
    words = T.alloc_local((at_once, 4), "uint32")
    for turn in T.serial(copier.turns(size), unroll=False):
        i: T.let = copier.word(turn)
        for j in T.unroll(at_once):
            if i + j * COPIERS < size:
                words.vstore([j, 0], far.vload([first + i + j * COPIERS, 0], "uint32x4"))
        for j in T.unroll(at_once):
            if i + j * COPIERS < size:
                here.vstore([to + i + j * COPIERS, 0], words.vload([j, 0], "uint32x4"))


@T.inline
def gather(shard, near, counts, rank, blocks, copier, number):
    """The copiers of a CTA get its share of every block of the other GPUs."""
    lane, ranks, m, k = T.meta_var((copier.thread % 32, shard.peers, *shard.shape))
    size: T.let = m // blocks * (k // 8)  # words of 16 bytes in a block
    here = T.decl_buffer((ranks * m * (k // 8), 4), "uint32", data=near.data, align=16)
    if copier.cta == 0 and copier.thread < ranks and copier.thread != rank:
        T.ptx.st(counts.ready.peer(copier.thread).ptr_to([rank]), number, sem="release", scope="sys")
    for step in T.serial(1, ranks, unroll=False):
        source: T.let = (rank + step) % ranks
        if lane == 0:
            reached(counts.ready.ptr_to([source]), number, "sys")
        T.cuda.warp_sync()
        far = T.decl_buffer((m * (k // 8), 4), "uint32", data=shard.peer(source).data, align=16)
        for block in T.serial(blocks, unroll=False):
            copied(here, far, (source * blocks + block) * size, block * size, size, copier)
            T.cuda.warp_sync()
            if lane == 0:
                T.ptx.red.add(counts.arrived.ptr_to([source * blocks + block]), T.uint32(1), sem="release", scope="gpu")
        if lane == 0:
            T.ptx.red.add(counts.finished.peer(source).ptr_to([0]), T.uint32(1), sem="release", scope="sys")
