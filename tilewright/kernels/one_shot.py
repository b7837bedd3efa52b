"""The sum of a short array over several GPUs: each sends the others all of it, and adds up what it gets.

Data travels in packets with the number of the call, so that who reads the number has the data: one way through the
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

THREADS, MOST_CTAS = 512, 64
PACKETS = 4096  # of a CTA, 4 bytes of data each, and as many of their number


@T.inline
def added(total, words, kind):
    """Adds words, 4 bytes each, to sums of float32."""
    numbers = words.view(kind)
    for i in T.unroll(total.shape[0]):
        total[i] = total[i] + T.cast(numbers[i], "float32")


@T.inline
def rounded(words, total, kind):
    """The words that sums are in an array of ``kind``."""
    numbers = words.view(kind)
    for i in T.unroll(total.shape[0]):
        numbers[i] = T.cast(total[i], kind)


@T.inline
def cleared(total):
    for i in T.unroll(total.shape[0]):
        total[i] = 0.0


@T.inline
def send(inbox, to, half, rank, cta, place, data, number):
    """Two words go to another GPU, each with the number of the call."""
    mark: T.let = T.cast(number, "uint64") << 32
    low: T.let = T.cast(data.x, "uint64") | mark
    high: T.let = T.cast(data.y, "uint64") | mark
    there = inbox.peer(to).ptr_to([half, rank, cta, place])
    T.ptx.st.vec(there, low, high, type="b64", vec=2, sem="relaxed", scope="sys")


@T.inline
def receive(packets, inbox, half, rank, cta, place, number):
    """Wait for the two words of all other GPUs, of which loads are on their way together."""
    missing: T.bool = True
    while missing:
        missing = False
        for source in T.unroll(inbox.peers):
            if source != rank:
                here = inbox.ptr_to([half, source, cta, place])
                pair: T.let = T.ptx.ld(here, type="u64", vec=2, sem="relaxed", scope="sys")
                packets[source, 0] = pair.x
                packets[source, 1] = pair.y
                mark: T.let = T.cast(number, "uint64")
                missing = missing or pair.x >> 32 != mark or pair.y >> 32 != mark


@T.inline
def summed(packets, data, rank, kind):
    """The sums of two words of all GPUs; ``data`` are the own ones."""
    words, total = T.alloc_local((2,), "uint32"), T.alloc_local((64 // dtype(kind).bits,), "float32")
    cleared(total)
    for source in T.unroll(packets.shape[0]):
        words[0] = T.if_then_else(source == rank, data.x, T.cast(packets[source, 0], "uint32"))
        words[1] = T.if_then_else(source == rank, data.y, T.cast(packets[source, 1], "uint32"))
        added(total, words, kind)
    rounded(words, total, kind)
    return T.uint32x2(words[0], words[1])


@cache
def one_shot(ranks: int, kind: str) -> tw.Executable:
    """y = the sum of x over all ranks, both as words of 4 bytes, pairs of them; calls: of each CTA, 0 at first."""

    @T.prim_func
    def all_reduce_one_shot(
        x: T.handle, y: T.handle, calls: T.Buffer((MOST_CTAS,), "uint32"),
        inbox: T.SymmetricBuffer((2, ranks, MOST_CTAS, PACKETS), "uint64", ranks=ranks), ctas: T.int32,
    ):  # fmt: skip
        words = T.int32()
        source, sums = T.match_buffer(x, (words,), "uint32"), T.match_buffer(y, (words,), "uint32")
        T.assume(words % 2 == 0)
        cta, thread, rank = T.cta_id([ctas]), T.thread_id([THREADS]), T.rank_id([ranks])
        number: T.let = calls[cta] + T.uint32(1)
        half: T.let = T.cast(number % T.uint32(2), "int32")
        pairs: T.let = (words // 2 + ctas - 1) // ctas  # of a CTA
        packets = T.alloc_local((ranks, 2), "uint64")
        for i in range(thread, pairs, THREADS):
            at: T.let = 2 * (cta * pairs + i)
            if at < words:
                data: T.let = source.vload([at], "uint32x2")
                for step in T.unroll(1, ranks):
                    send(inbox, (rank + step) % ranks, half, rank, cta, 2 * i, data, number)
        for i in range(thread, pairs, THREADS):
            at: T.let = 2 * (cta * pairs + i)
            if at < words:
                receive(packets, inbox, half, rank, cta, 2 * i, number)
                data: T.let = source.vload([at], "uint32x2")
                sums.vstore([at], summed(packets, data, rank, kind))
        T.cuda.cta_sync()
        if thread == 0:
            calls[cta] = number

    return tw.compile(all_reduce_one_shot, target="sm_90a")
