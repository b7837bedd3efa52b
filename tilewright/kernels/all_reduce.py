"""The sum of an array over several GPUs: two kernels, for short arrays and for long ones.

`one_shot` sends every GPU the whole array in packets of data and a number, so that who waits for the number has the
data: one way through the wires, no barrier. `two_shot` sends every GPU its share, signals, adds up the own share, and
sends the sums to all: less data for each wire, one way more. Both add in the order of ranks, the same on every GPU.

A CTA has places and a count of calls of its own, so that it works with its namesakes on other GPUs alone, and a replay
of a CUDA graph is a call like any other.
"""

from __future__ import annotations

from functools import cache

import tilewright as tw
from tilewright.dtypes import dtype
from tilewright.lang import T

__all__ = ["MOST_CTAS", "PACKETS", "SHARE", "THREADS", "one_shot", "two_shot"]

THREADS, MOST_CTAS = 512, 64
PACKETS = 4096  # of a CTA, 4 bytes of data each, and as many of their number
SHARE = 1 << 13  # words of 4 bytes of a CTA that it gets from each GPU at most


@T.inline
def added(total, words, kind):
    """Adds words, 4 bytes each, to sums of float32."""
    each = words.view(kind)
    for i in T.unroll(total.shape[0]):
        total[i] = total[i] + T.cast(each[i], "float32")


@T.inline
def rounded(words, total, kind):
    """The words that sums are in an array of ``kind``."""
    each = words.view(kind)
    for i in T.unroll(total.shape[0]):
        each[i] = T.cast(total[i], kind)


@T.inline
def cleared(total):
    for i in T.unroll(total.shape[0]):
        total[i] = 0.0


@T.inline
def called(calls, cta, thread):
    """The number of this call, from 1 on; the next one of this CTA is one more."""
    number: T.let = calls[cta] + T.uint32(1)
    T.cuda.cta_sync()
    if thread == 0:
        calls[cta] = number
    return number


@cache
def one_shot(ranks: int, kind: str) -> tw.Executable:
    """out = the sum of x over all ranks. words: of 4 bytes, pairs of them; calls: of each CTA, 0 at first."""
    per_pair = 64 // dtype(kind).bits

    @T.prim_func
    def all_reduce_one_shot(
        x: T.handle, out: T.handle, calls: T.Buffer((MOST_CTAS,), "uint32"),
        inbox: T.SymmetricBuffer((2, ranks, MOST_CTAS, PACKETS), "uint64", ranks=ranks), ctas: T.int32,
    ):  # fmt: skip
        words = T.int32()
        given, found = T.match_buffer(x, (words,), "uint32"), T.match_buffer(out, (words,), "uint32")
        T.assume(words % 2 == 0)
        cta, thread, rank = T.cta_id([ctas]), T.thread_id([THREADS]), T.rank_id([ranks])
        number: T.let = called(calls, cta, thread)
        half: T.let = T.cast(number % T.uint32(2), "int32")
        pairs: T.let = (words // 2 + ctas - 1) // ctas  # of a CTA
        packets, own = T.alloc_local((ranks, 2), "uint64"), T.alloc_local((2,), "uint32")
        total = T.alloc_local((per_pair,), "float32")
        for i in range(thread, pairs, THREADS):
            at: T.let = 2 * (cta * pairs + i)
            if at < words:
                data: T.let = given.vload([at], "uint32x2")
                mark: T.let = T.cast(number, "uint64") << 32
                for step in T.unroll(1, ranks):
                    there = inbox.peer((rank + step) % ranks)
                    T.ptx.st.vec(
                        there.ptr_to([half, rank, cta, 2 * i]), T.cast(data.x, "uint64") | mark,
                        T.cast(data.y, "uint64") | mark, type="b64", vec=2, sem="relaxed", scope="sys",
                    )  # fmt: skip
        for i in range(thread, pairs, THREADS):
            at: T.let = 2 * (cta * pairs + i)
            if at < words:
                missing: T.bool = True
                while missing:
                    missing = False
                    for source in T.unroll(ranks):
                        if source != rank:
                            both: T.let = T.ptx.ld.reg(inbox.ptr_to([half, source, cta, 2 * i]), type="u64", vec=2,
                                                       sem="relaxed", scope="sys")  # fmt: skip
                            packets[source, 0] = both.x
                            packets[source, 1] = both.y
                            late: T.let = (both.x >> 32 != T.cast(number, "uint64")) or (
                                both.y >> 32 != T.cast(number, "uint64"))  # fmt: skip
                            missing = missing or late
                cleared(total)
                for source in T.unroll(ranks):
                    if source == rank:
                        data: T.let = given.vload([at], "uint32x2")
                        own[0] = data.x
                        own[1] = data.y
                    else:
                        own[0] = T.cast(packets[source, 0], "uint32")
                        own[1] = T.cast(packets[source, 1], "uint32")
                    added(total, own, kind)
                rounded(own, total, kind)
                found.vstore([at], T.uint32x2(own[0], own[1]))

    return tw.compile(all_reduce_one_shot, target="sm_90a")


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
def two_shot(ranks: int, kind: str) -> tw.Executable:
    """out = the sum of x over all ranks. words: of 4 bytes, runs of four of them; calls: of each CTA, 0 at first."""
    per_run = 128 // dtype(kind).bits

    @T.prim_func
    def all_reduce_two_shot(
        x: T.handle, out: T.handle, calls: T.Buffer((MOST_CTAS,), "uint32"),
        inbox: T.SymmetricBuffer((ranks, MOST_CTAS, SHARE), "uint32", ranks=ranks),
        sums: T.SymmetricBuffer((ranks, MOST_CTAS, SHARE), "uint32", ranks=ranks),
        signals: T.SymmetricBuffer((2, MOST_CTAS, ranks), "uint32", ranks=ranks), ctas: T.int32,
    ):  # fmt: skip
        words = T.int32()
        given, found = T.match_buffer(x, (words,), "uint32"), T.match_buffer(out, (words,), "uint32")
        T.assume(words % 4 == 0)
        cta, thread, rank = T.cta_id([ctas]), T.thread_id([THREADS]), T.rank_id([ranks])
        number: T.let = called(calls, cta, thread)
        runs: T.let = (words // 4 + ranks * ctas - 1) // (ranks * ctas)  # of a CTA in each share
        own, total = T.alloc_local((4,), "uint32"), T.alloc_local((per_run,), "float32")
        for step in T.unroll(1, ranks):
            to: T.let = (rank + step) % ranks
            for i in range(thread, runs, THREADS):
                at: T.let = 4 * ((to * ctas + cta) * runs + i)
                if at < words:
                    inbox.peer(to).vstore([rank, cta, 4 * i], given.vload([at], "uint32x4"))
        met(signals, 0, cta, rank, ranks, thread, number)
        for i in range(thread, runs, THREADS):
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
            for i in range(thread, runs, THREADS):
                at: T.let = 4 * ((source * ctas + cta) * runs + i)
                if at < words:
                    found.vstore([at], sums.vload([source, cta, 4 * i], "uint32x4"))

    return tw.compile(all_reduce_two_shot, target="sm_90a")
