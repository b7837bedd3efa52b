"""The sum of a long array over several GPUs: each adds up a share of it, and sends the sums to all others.

Every GPU sends the others their shares, and signals; adds up its own, in the order of ranks, and sends the sums; then
stores those that it gets. That is less data for each wire than in `one_shot`, and one way more. A CTA works with its
namesakes on other GPUs alone. No place is written again before it was read: the signals of this call say so.
"""

from __future__ import annotations

from functools import cache

import tilewright as tw
from tilewright.dtypes import dtype
from tilewright.kernels.one_shot import MOST_CTAS, added, cleared, rounded
from tilewright.lang import T

__all__ = ["SHARE", "THREADS", "two_shot"]

THREADS = 512
SHARE = 1 << 13  # words of 4 bytes of a CTA that it gets from each GPU at most


@T.inline
def met(signals, round, cta, rank, ranks, thread, number):
    """All GPUs' CTAs with this number come after what each has written before."""
    T.cuda.cta_sync()
    if thread < ranks and thread != rank:
        T.ptx.st(signals.peer(thread).ptr_to([round, cta, rank]), number, sem="release", scope="sys")
        while T.ptx.ld(signals.ptr_to([round, cta, thread]), sem="acquire", scope="sys") != number:
            pass
    T.cuda.cta_sync()


@cache
def two_shot(ranks: int, kind: str, threads: int = THREADS, share: int = SHARE) -> tw.Executable:
    """out = the sum of x over all ranks. words: of 4 bytes, runs of four of them; calls: of each CTA, 0 at first. share: as `SHARE`,
    the room of each.
    """
    per_run = 128 // dtype(kind).bits

    @T.prim_func
    def all_reduce_two_shot(
        x: T.handle, out: T.handle, calls: T.Buffer((MOST_CTAS,), "uint32"),
        inbox: T.SymmetricBuffer((ranks, MOST_CTAS, share), "uint32", ranks=ranks),
        sums: T.SymmetricBuffer((ranks, MOST_CTAS, share), "uint32", ranks=ranks),
        signals: T.SymmetricBuffer((2, MOST_CTAS, ranks), "uint32", ranks=ranks), ctas: T.int32,
    ):  # fmt: skip
        words = T.int32()
        given, found = T.match_buffer(x, (words,), "uint32"), T.match_buffer(out, (words,), "uint32")
        T.assume(words % 4 == 0)
        cta, thread, rank = T.cta_id([ctas]), T.thread_id([threads]), T.rank_id([ranks])
        number: T.let = calls[cta] + T.uint32(1)
        runs: T.let = (words // 4 + ranks * ctas - 1) // (ranks * ctas)  # of a CTA in each share
        own, total = T.alloc_local((4,), "uint32"), T.alloc_local((per_run,), "float32")
        for step in T.unroll(1, ranks):
            to: T.let = (rank + step) % ranks
            for i in range(thread, runs, threads):
                at: T.let = 4 * ((to * ctas + cta) * runs + i)
                if at < words:
                    inbox.peer(to).vstore([rank, cta, 4 * i], given.vload([at], "uint32x4"))
        met(signals, 0, cta, rank, ranks, thread, number)
        for i in range(thread, runs, threads):
            at: T.let = 4 * ((rank * ctas + cta) * runs + i)
            if at < words:
                cleared(total)
                for source in T.unroll(ranks):
                    if source == rank:
                        own.vstore([0], given.vload([at], "uint32x4"))
                    else:
                        own.vstore([0], inbox.vload([source, cta, 4 * i], "uint32x4"))
                    added(total, own, kind)
                rounded(own, total, kind)
                found.vstore([at], own.vload([0], "uint32x4"))
                for step in T.unroll(1, ranks):
                    sums.peer((rank + step) % ranks).vstore([rank, cta, 4 * i], own.vload([0], "uint32x4"))
        met(signals, 1, cta, rank, ranks, thread, number)
        for step in T.unroll(1, ranks):
            source: T.let = (rank + step) % ranks
            for i in range(thread, runs, threads):
                at: T.let = 4 * ((source * ctas + cta) * runs + i)
                if at < words:
                    found.vstore([at], sums.vload([source, cta, 4 * i], "uint32x4"))
        if thread == 0:
            calls[cta] = number

    return tw.compile(all_reduce_two_shot, target="sm_90a")
