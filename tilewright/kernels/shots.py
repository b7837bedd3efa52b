"""The sum of an array over several GPUs: of a short one each sends the others all of it, and adds up what it gets; of a
longer one its share, see `two_shot`.

Data of short arrays travels in packets with the number of the call, so that who reads the number has the data: one way
through the wires, and no barrier. Packets of the next call go to other places, as some GPU may still wait for this
one's; those of the call after that cannot come before. All add in the order of ranks, and get the same bits.

A CTA has places and a count of calls of its own, so that it works with its namesakes on other GPUs alone, and a replay
of a CUDA graph is a call like any other.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import tilewright as tw
from tilewright.dtypes import dtype
from tilewright.lang import T

THREADS, MOST_CTAS = 512, 64
PACKETS = 4096  # of a CTA, for each GPU where shares are sent: 4 bytes of data each, and as many of their number


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


# The sum of a long array over several GPUs: each adds up a share of it, and sends the sums to all others.
#
# Every GPU sends the others their shares, and signals; adds up its own, in the order of ranks, and sends the sums; then
# stores those that it gets. That is less data for each wire than in `one_shot`, and one way more. A CTA works with its
# namesakes on other GPUs alone. No place is written again before it was read: the signals of this call say so.


HALF = 256  # threads of a CTA for arrays that keep fewer CTAs busy
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
def summed_runs(inbox, mine, at, place, rank, kind):
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
                sum: T.let = summed_runs(inbox, source, at, (cta, 4 * i), rank, kind)
                sums.vstore([at], sum)
                for step in T.unroll(1, ranks):
                    outbox.peer((rank + step) % ranks).vstore([rank, cta, 4 * i], sum)
        met(signals, 1, cta, rank, thread, number)
        for step in T.unroll(1, ranks):
            kept(sums, outbox, (rank + step) % ranks, shares, thread, threads)
        if thread == 0:
            calls[cta] = number

    return tw.compile(all_reduce_two_shot, target="sm_90a")


# The sum of an array of middle length over several GPUs: `two_shot` by the packets of `one_shot`.
#
# Every GPU sends the others their shares in packets, adds up its own as theirs come, sends the sums in packets to all,
# and stores those that it gets. Nobody signals and nobody meets, for twice the bytes in the wires.


@T.inline
def words_of(source, at):
    """Two words from a place on; zeros beyond the array."""
    words = T.alloc_local((2,), "uint32")
    words[0] = T.uint32(0)
    words[1] = T.uint32(0)
    if at < source.shape[0]:
        words.vstore([0], source.vload([at], "uint32x2"))
    return words.vload([0], "uint32x2")


@T.inline
def spread(sums, packets, rank, shares, i):
    """The sums of the others' shares are stored."""
    for source in T.unroll(packets.shape[0]):
        at: T.let = shares.begin(source, i)
        if source != rank and at < sums.shape[0]:
            low, high = T.meta_var([T.cast(packets[source, k], "uint32") for k in range(2)])
            sums.vstore([at], T.uint32x2(low, high))


@cache
def two_shot_packets(ranks: int, kind: str, threads: int = THREADS) -> tw.Executable:
    """y = the sum of x over all ranks, both as words of 4 bytes, pairs of them; calls: of each CTA, 0 at first."""

    @T.prim_func
    def all_reduce_two_shot_packets(
        x: T.handle, y: T.handle, calls: T.Buffer((MOST_CTAS,), "uint32"),
        inbox: T.SymmetricBuffer((2, ranks, MOST_CTAS, PACKETS), "uint64", ranks=ranks),
        outbox: T.SymmetricBuffer((2, ranks, MOST_CTAS, PACKETS), "uint64", ranks=ranks), ctas: T.int32,
    ):  # fmt: skip
        words = T.int32()
        source, sums = T.match_buffer(x, (words,), "uint32"), T.match_buffer(y, (words,), "uint32")
        T.assume(words % 2 == 0)
        cta, thread, rank = T.cta_id([ctas]), T.thread_id([threads]), T.rank_id([ranks])
        number: T.let = calls[cta] + T.uint32(1)
        half: T.let = T.cast(number % T.uint32(2), "int32")
        pairs: T.let = (words // 2 + ranks * ctas - 1) // (ranks * ctas)  # of a CTA in each share
        shares = Shares(cta, ctas, pairs, 2)
        packets = T.alloc_local((ranks, 2), "uint64")
        for i in range(thread, pairs, threads):
            for step in T.unroll(1, ranks):
                to: T.let = (rank + step) % ranks
                send(inbox, to, half, rank, cta, 2 * i, words_of(source, shares.begin(to, i)), number)
        for i in range(thread, pairs, threads):
            at: T.let = shares.begin(rank, i)
            receive(packets, inbox, half, rank, cta, 2 * i, number)
            pair: T.let = words_of(source, at)
            sum: T.let = summed(packets, pair, rank, kind)
            for step in T.unroll(1, ranks):
                send(outbox, (rank + step) % ranks, half, rank, cta, 2 * i, sum, number)
            if at < words:
                sums.vstore([at], sum)
        for i in range(thread, pairs, threads):
            receive(packets, outbox, half, rank, cta, 2 * i, number)
            spread(sums, packets, rank, shares, i)
        T.cuda.cta_sync()
        if thread == 0:
            calls[cta] = number

    return tw.compile(all_reduce_two_shot_packets, target="sm_90a")
