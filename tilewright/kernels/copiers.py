"""Warps of a product's kernel that move data between GPUs while others multiply: how they wait, and how they gather.

The warpgroup that copies tiles to the ring needs one warp for that. The other three are the copiers of a CTA.
"""

from __future__ import annotations

from tilewright.lang import T

COPIERS, AT_ONCE = 96, 4  # threads of a CTA that copy; words of 16 bytes that each has on their way
REGISTERS = (56, 224)  # of each thread that copies, and of each that multiplies


@T.inline
def reached(count, wanted, scope):
    """Wait until a count, which only grows, is as high."""
    while T.reinterpret("int32", T.ptx.ld(count, sem="acquire", scope=scope) - wanted) < 0:
        pass


@T.inline
def copied(here, far, to, first, size, cta, ctas, thread, at_once):
    """The copiers of a CTA copy its share of a block: words of 16 bytes, several of each thread on their way."""
    words = T.alloc_local((at_once, 4), "uint32")
    for turn in T.serial(T.ceildiv(size, ctas * COPIERS * at_once), unroll=False):
        i: T.let = (turn * ctas + cta) * (COPIERS * at_once) + thread
        for j in T.unroll(at_once):
            if i + j * COPIERS < size:
                words.vstore([j, 0], far.vload([first + i + j * COPIERS, 0], "uint32x4"))
        for j in T.unroll(at_once):
            if i + j * COPIERS < size:
                here.vstore([to + i + j * COPIERS, 0], words.vload([j, 0], "uint32x4"))


@T.inline
def gather(shard, near, arrived, ready, finished, rank, blocks, cta, ctas, thread, number, at_once):
    """The copiers of a CTA get its share of every block of the other GPUs."""
    lane, ranks, m, k = T.meta_var((thread % 32, shard.peers, *shard.shape))
    size: T.let = m // blocks * (k // 8)  # words of 16 bytes in a block
    here = T.decl_buffer((ranks * m * (k // 8), 4), "uint32", data=near.data, align=16)
    if cta == 0 and thread < ranks and thread != rank:
        T.ptx.st(ready.peer(thread).ptr_to([rank]), number, sem="release", scope="sys")
    for step in T.serial(1, ranks, unroll=False):
        source: T.let = (rank + step) % ranks
        if lane == 0:
            reached(ready.ptr_to([source]), number, "sys")
        T.cuda.warp_sync()
        far = T.decl_buffer((m * (k // 8), 4), "uint32", data=shard.peer(source).data, align=16)
        for block in T.serial(blocks, unroll=False):
            copied(here, far, (source * blocks + block) * size, block * size, size, cta, ctas, thread, at_once)
            T.cuda.warp_sync()
            if lane == 0:
                T.ptx.red.add(arrived.ptr_to([source * blocks + block]), T.uint32(1), sem="release", scope="gpu")
        if lane == 0:
            T.ptx.red.add(finished.peer(source).ptr_to([0]), T.uint32(1), sem="release", scope="sys")
