"""The sum of an array of middle length over several GPUs: `two_shot` by the packets of `one_shot`.

Every GPU sends the others their shares in packets, adds up its own as theirs come, sends the sums in packets to all,
and stores those that it gets. Nobody signals and nobody meets, for twice the bytes in the wires.
"""

from __future__ import annotations

from functools import cache

import tilewright as tw
from tilewright.kernels.one_shot import MOST_CTAS, receive, send, summed
from tilewright.kernels.two_shot import Shares
from tilewright.lang import T

THREADS = 512
PACKETS = 4096  # of a CTA, to and from each GPU


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
