"""The sum of a short array over several GPUs: each sends the others all of it, and adds up what it gets.

Data travels in packets with the number of the call, so that who finds the number has the data: one way through the
wires, and no barrier. Packets of the next call go to other places, as some GPU may still wait for this one's; those of
the call after that cannot come before. All add in the order of ranks, and get the same bits.

A CTA has places and a count of calls of its own, so that it works with its namesakes on other GPUs alone, and a replay
of a CUDA graph is a call like any other. `two_shot` is for longer arrays.
"""

from __future__ import annotations

from functools import cache

import tilewright as tw
from tilewright.dtypes import dtype
from tilewright.lang import T

__all__ = ["MOST_CTAS", "PACKETS", "THREADS", "added", "cleared", "one_shot", "rounded"]

THREADS, MOST_CTAS = 512, 64
PACKETS = 4096  # of a CTA, 4 bytes of data each, and as many of their number


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
        number: T.let = calls[cta] + T.uint32(1)
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
        T.cuda.cta_sync()
        if thread == 0:
            calls[cta] = number

    return tw.compile(all_reduce_one_shot, target="sm_90a")
