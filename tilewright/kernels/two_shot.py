"""The sum of a long array over several GPUs: each adds up a share of it, and sends the sums to all others.

Every GPU sends the others their shares, and signals; adds up its own, in the order of ranks, and sends the sums; then
stores those that it gets. That is less data for each wire than in `one_shot`, and one way more. A CTA works with its
namesakes on other GPUs alone. No place is written again before it was read: the signals of this call say so.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import tilewright as tw
from tilewright.dtypes import dtype
from tilewright.kernels.one_shot import MOST_CTAS, added, cleared, rounded
from tilewright.lang import T

THREADS, HALF = 512, 256  # of a CTA, for long arrays and for those that keep fewer CTAs busy
SHARE = 1 << 13  # words of 4 bytes of a CTA that it gets from each GPU at most


@T.inline
def met(signals, round, cta, rank, thread, number):
    """What this CTA's namesakes on all GPUs have written before comes first."""
    T.cuda.cta_sync()
    if thread < signals.peers and thread != rank:
        T.ptx.st(signals.peer(thread).ptr_to([round, cta, rank]), number, sem="release", scope="sys")
        while T.ptx.ld(signals.ptr_to([round, cta, thread]), sem="acquire", scope="sys") != number:
            pass
    T.cuda.cta_sync()


@T.meta_class
class Shares:
    """The array as a share for each GPU, in which each CTA has some runs of ``wide`` words. `Any`: as in a kernel."""

    def __init__(self, cta: Any, ctas: Any, runs: Any, wide: int) -> None:
        self.cta, self.ctas, self.runs, self.wide = cta, ctas, runs, wide

    def begin(self, owner: Any, run: Any) -> Any:
        """Where a run of this CTA begins, of a GPU's share."""
        return self.wide * ((owner * self.ctas + self.cta) * self.runs + run)


@T.inline
def sent(inbox, source, to, rank, shares, thread, threads):
    """The CTA's runs of another GPU's share go there."""
    for i in range(thread, shares.runs, threads):
        at: T.let = shares.begin(to, i)
        if at < source.shape[0]:
            inbox.peer(to).vstore([rank, shares.cta, 4 * i], source.vload([at], "uint32x4"))


@T.inline
def kept(sums, outbox, source, shares, thread, threads):
    """The sums that another GPU has sent are stored."""
    for i in range(thread, shares.runs, threads):
        at: T.let = shares.begin(source, i)
        if at < sums.shape[0]:
            sums.vstore([at], outbox.vload([source, shares.cta, 4 * i], "uint32x4"))


@T.inline
def summed(inbox, mine, at, place, rank, kind):
    """The sums of four words of all GPUs; the own ones begin at ``at``, the others' at a place of their inbox."""
    words, total = T.alloc_local((4,), "uint32"), T.alloc_local((128 // dtype(kind).bits,), "float32")
    cleared(total)
    for source in T.unroll(inbox.peers):
        if source == rank:
            words.vstore([0], mine.vload([at], "uint32x4"))
        else:
            words.vstore([0], inbox.vload([source, *place], "uint32x4"))
        added(total, words, kind)
    rounded(words, total, kind)
    return words.vload([0], "uint32x4")


@cache
def two_shot(ranks: int, kind: str, threads: int = THREADS, share: int = SHARE) -> tw.Executable:
    """y = the sum of x over all ranks, both as words of 4 bytes, runs of four; calls: of each CTA, 0 at first.

    share: the room that each CTA has for words of each GPU.
    """

    @T.prim_func
    def all_reduce_two_shot(
        x: T.handle, y: T.handle, calls: T.Buffer((MOST_CTAS,), "uint32"),
        inbox: T.SymmetricBuffer((ranks, MOST_CTAS, share), "uint32", ranks=ranks),
        outbox: T.SymmetricBuffer((ranks, MOST_CTAS, share), "uint32", ranks=ranks),
        signals: T.SymmetricBuffer((2, MOST_CTAS, ranks), "uint32", ranks=ranks), ctas: T.int32,
    ):  # fmt: skip
        words = T.int32()
        source, sums = T.match_buffer(x, (words,), "uint32"), T.match_buffer(y, (words,), "uint32")
        T.assume(words % 4 == 0)
        cta, thread, rank = T.cta_id([ctas]), T.thread_id([threads]), T.rank_id([ranks])
        number: T.let = calls[cta] + T.uint32(1)
        runs: T.let = (words // 4 + ranks * ctas - 1) // (ranks * ctas)  # of a CTA in each share
        shares = Shares(cta, ctas, runs, 4)
        for step in T.unroll(1, ranks):
            sent(inbox, source, (rank + step) % ranks, rank, shares, thread, threads)
        met(signals, 0, cta, rank, thread, number)
        for i in range(thread, runs, threads):
            at: T.let = shares.begin(rank, i)
            if at < words:
                sum: T.let = summed(inbox, source, at, (cta, 4 * i), rank, kind)
                sums.vstore([at], sum)
                for step in T.unroll(1, ranks):
                    outbox.peer((rank + step) % ranks).vstore([rank, cta, 4 * i], sum)
        met(signals, 1, cta, rank, thread, number)
        for step in T.unroll(1, ranks):
            kept(sums, outbox, (rank + step) % ranks, shares, thread, threads)
        if thread == 0:
            calls[cta] = number

    return tw.compile(all_reduce_two_shot, target="sm_90a")
