"""Protocols by which GPUs exchange data, each with places where a mistake can be put: a step left out, or weakened.

A protocol is a function from steps to a kernel. A step is a word: how strong an access is, in which scope; whether a
barrier stands there. Without changes each protocol is right.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilewright import T

RANKS, THREADS = 3, 64
WORDS = THREADS  # of each rank's share


@dataclass(frozen=True)
class Steps:
    """The steps of a protocol, right ones if nothing is said. tell, hear: order and scope of a signal and a wait.

    before, after: does the CTA meet before it signals, and after it has waited? reader: who reads the data: all
    threads, or the one that has waited. late: is data stored after the signal? early: is it read before the wait?
    """

    tell: tuple[str, str] = ("release", "sys")
    hear: tuple[str, str] = ("acquire", "sys")
    fence: str = ""
    before: bool = True
    after: bool = True
    late: bool = False
    early: bool = False
    leaves: int = -1
    more: dict[str, Any] = field(default_factory=dict)

    def has(self, name: str, default: Any = True) -> Any:
        """What a protocol of its own says of a step."""
        return self.more.get(name, default)


@T.inline
def signal(pad, to, slot, value, steps):
    if steps.fence == "system":
        T.cuda.thread_fence_system()
    if steps.fence == "device":
        T.cuda.thread_fence()
    T.ptx.st(pad.peer(to).ptr_to([slot]), T.uint32(value), sem=steps.tell[0], scope=steps.tell[1])


@T.inline
def wait(pad, slot, value, steps):
    while T.ptx.ld(pad.ptr_to([slot]), sem=steps.hear[0], scope=steps.hear[1]) != T.uint32(value):
        pass
    if steps.fence:
        T.cuda.thread_fence_system()


@T.inline
def met(pad, round, rank, thread, steps):
    """All ranks meet: each tells every other one, in a slot for the round and itself."""
    if steps.before:
        T.cuda.cta_sync()
    if thread < RANKS and thread != rank and rank != steps.leaves:
        signal(pad, thread, round * RANKS + rank, 1, steps)
        wait(pad, round * RANKS + thread, 1, steps)
    if steps.after:
        T.cuda.cta_sync()


def x_of(kind="float32", words=WORDS):
    return T.SymmetricBuffer((words,), kind, ranks=RANKS)


def pad_of(rounds):
    return T.SymmetricBuffer((rounds * RANKS,), "uint32", ranks=RANKS)


def one_shot(steps: Steps):
    """Every rank writes its data, all meet, every rank adds up what it reads from all; then all meet again."""

    @T.prim_func
    def one_shot_all_reduce(x: x_of(), pad: pad_of(2), out: T.Buffer((WORDS,), "float32")):
        T.cta_id([1])
        thread, rank = T.thread_id([THREADS]), T.rank_id([RANKS])
        x[thread] = T.cast(rank + thread, "float32")
        met(pad, 0, rank, thread, steps)
        total: T.float32 = 0.0
        for source in range(RANKS):
            total = total + x.peer(source)[thread]
        out[thread] = total
        if steps.has("end"):
            met(pad, 0 if steps.has("reuses", False) else 1, rank, thread, steps)
        x[thread] = 0.0

    return one_shot_all_reduce


def two_shot(steps: Steps):
    """Each rank adds up a share of all ranks' data, and stores the sums in the memory of all."""
    each = WORDS // RANKS

    @T.prim_func
    def two_shot_all_reduce(x: x_of(), y: x_of(), pad: pad_of(2), out: T.Buffer((WORDS,), "float32")):
        T.cta_id([1])
        thread, rank = T.thread_id([THREADS]), T.rank_id([RANKS])
        x[thread] = T.cast(rank + thread, "float32")
        met(pad, 0, rank, thread, steps)
        if thread < each:
            total: T.float32 = 0.0
            for source in range(RANKS):
                total = total + x.peer(source)[rank * each + thread]
            for to in range(RANKS):
                y.peer(to)[rank * each + thread] = total
        if steps.has("second"):
            met(pad, 1, rank, thread, steps)
        if thread < each * RANKS:
            out[thread] = y[thread]

    return two_shot_all_reduce


def all_gather(steps: Steps):
    """Each rank stores its data in the memory of all others."""
    words = WORDS * RANKS + (0 if steps.has("room") else -1)

    @T.prim_func
    def all_gather(every: x_of(words=words), pad: pad_of(1), out: T.Buffer((WORDS * RANKS,), "float32")):
        T.cta_id([1])
        thread, rank = T.thread_id([THREADS]), T.rank_id([RANKS])
        for to in range(RANKS):
            if not steps.late:
                every.peer(to)[rank * WORDS + thread] = T.cast(rank * 100 + thread, "float32")
        if steps.early:
            for source in range(RANKS):
                out[source * WORDS + thread] = every[source * WORDS + thread]
        met(pad, 0, rank, thread, steps)
        for to in range(RANKS):
            if steps.late:
                every.peer(to)[rank * WORDS + thread] = T.cast(rank * 100 + thread, "float32")
        for source in range(RANKS):
            if not steps.early:
                out[source * WORDS + thread] = every[source * WORDS + thread]

    return all_gather


def reduce_scatter(steps: Steps):
    """Each rank stores the parts of its data where their owners add them up, in a place for each source."""

    @T.prim_func
    def reduce_scatter(parts: x_of(words=WORDS * RANKS), pad: pad_of(1), out: T.Buffer((WORDS,), "float32")):
        T.cta_id([1])
        thread, rank = T.thread_id([THREADS]), T.rank_id([RANKS])
        for to in range(RANKS):
            where = T.meta_var(rank * WORDS + thread if steps.has("apart") else thread)
            parts.peer(to)[where] = T.cast(rank + to + thread, "float32")
        met(pad, 0, rank, thread, steps)
        total: T.float32 = 0.0
        for source in range(RANKS):
            total = total + parts[source * WORDS + thread]
        out[thread] = total

    return reduce_scatter


def all_to_all(steps: Steps):
    """Tokens go to the rank of their expert, with their number as the signal of each source."""

    @T.prim_func
    def all_to_all_of_experts(
        tokens: T.Buffer((WORDS,), "float32"), expert: T.Buffer((WORDS,), "int32"),
        inbox: x_of(words=WORDS * RANKS), counts: T.SymmetricBuffer((RANKS,), "uint32", ranks=RANKS),
        out: T.Buffer((RANKS,), "float32"),
    ):  # fmt: skip
        T.cta_id([1])
        thread, rank = T.thread_id([THREADS]), T.rank_id([RANKS])
        sent = T.alloc_shared((RANKS,), "uint32")
        if thread < RANKS:
            sent[thread] = T.uint32(0)
        T.cuda.cta_sync()
        to: T.let = expert[thread]
        place: T.let = T.cuda.atomic_add(sent.ptr_to([to]), T.uint32(1))
        inbox.peer(to)[rank * WORDS + T.cast(place, "int32")] = tokens[thread]
        if steps.before:
            T.cuda.cta_sync()
        if thread < RANKS:
            signal(counts, thread, rank, sent[thread] + T.uint32(1), steps)
            found: T.uint32 = T.uint32(0)
            while found == T.uint32(0):
                found = T.ptx.ld(counts.ptr_to([thread]), sem=steps.hear[0], scope=steps.hear[1])
            total: T.float32 = 0.0
            for i in range(T.cast(found, "int32") - 1):
                total = total + inbox[thread * WORDS + i]
            out[thread] = total

    return all_to_all_of_experts


def signal_pads(steps: Steps):
    """torch's barrier: a signal is put where none is, by compare-and-swap, and taken away by who waits for it."""
    put = steps.has("put", ("release", "sys"))
    take = steps.has("take", ("acquire", "sys"))

    @T.prim_func
    def barriers_with_signal_pads(x: x_of(), pad: pad_of(1), out: T.Buffer((WORDS,), "float32")):
        T.cta_id([1])
        thread, rank = T.thread_id([THREADS]), T.rank_id([RANKS])
        for round in range(3):
            x[thread] = T.cast(rank * 10 + round, "float32")
            T.cuda.cta_sync()
            for half in range(2):
                if thread < RANKS and thread != rank and not (rank == steps.leaves and round == 2):
                    there, here = pad.peer(thread).ptr_to([rank]), pad.ptr_to([thread])
                    while T.ptx.atom.cas(there, T.uint32(0), T.uint32(1), sem=put[0], scope=put[1]) != T.uint32(0):
                        pass
                    if steps.has("takes"):
                        while T.ptx.atom.cas(here, T.uint32(1), T.uint32(0), sem=take[0], scope=take[1]) != T.uint32(1):
                            pass
                    else:
                        while T.ptx.ld(pad.ptr_to([thread]), sem="acquire", scope="sys") != T.uint32(1):
                            pass
                T.cuda.cta_sync()
                if half == 0:
                    out[thread] = x.peer((rank + 1) % RANKS)[thread]
                    T.cuda.cta_sync()

    return barriers_with_signal_pads


def ring(steps: Steps):
    """Data goes around: each rank hands on what it got from the one before, and waits until its own was taken."""

    @T.prim_func
    def ring_pass(x: x_of(), pad: pad_of(1), taken: T.SymmetricBuffer((1,), "uint32", ranks=RANKS),
                  out: T.Buffer((WORDS,), "float32")):  # fmt: skip
        T.cta_id([1])
        thread, rank = T.thread_id([THREADS]), T.rank_id([RANKS])
        value: T.float32 = T.cast(rank * 100 + thread, "float32")
        total: T.float32 = value
        for step in range(1, RANKS):
            x.peer((rank + 1) % RANKS)[thread] = value
            T.cuda.cta_sync()
            if thread == 0:
                T.ptx.st(pad.peer((rank + 1) % RANKS).ptr_to([0]), T.cast(step, "uint32"), sem=steps.tell[0],
                         scope=steps.tell[1])  # fmt: skip
                while T.ptx.ld(pad.ptr_to([0]), sem=steps.hear[0], scope=steps.hear[1]) < T.cast(step, "uint32"):
                    pass
            T.cuda.cta_sync()
            value = x[thread]
            total = total + value
            if steps.has("acknowledges"):
                T.cuda.cta_sync()
                if thread == 0:
                    T.ptx.st(taken.peer((rank + RANKS - 1) % RANKS).ptr_to([0]), T.cast(step, "uint32"),
                             sem="release", scope="sys")  # fmt: skip
                    while T.ptx.ld(taken.ptr_to([0]), sem="acquire", scope="sys") < T.cast(step, "uint32"):
                        pass
                T.cuda.cta_sync()
        out[thread] = total

    return ring_pass


@T.inline
def counted(there, rank, how, scope):
    if how == "red":
        T.ptx.red.add(there, T.uint32(1), sem="release", scope=scope)
    elif how == "st":
        T.ptx.st(there, T.uint32(1), sem="release", scope="sys")
    elif rank == 1:  # one of the chain is too narrow
        T.ptx.red.add(there, T.uint32(1), sem="release", scope="gpu")
    else:
        T.ptx.red.add(there, T.uint32(1), sem="release", scope="sys")


def counter(steps: Steps):
    """Every rank writes a part of rank 0's data, and counts itself there; rank 0 waits for the count."""
    how, scope = steps.has("count", "red"), steps.has("scope", "sys")

    @T.prim_func
    def counter_of_arrivals(x: x_of(words=WORDS * RANKS), arrived: T.SymmetricBuffer((1,), "uint32", ranks=RANKS),
                            out: T.Buffer((WORDS,), "float32")):  # fmt: skip
        T.cta_id([1])
        thread, rank = T.thread_id([THREADS]), T.rank_id([RANKS])
        x.peer(0)[rank * WORDS + thread] = T.cast(rank + thread, "float32")
        if steps.before:
            T.cuda.cta_sync()
        if thread == 0:
            counted(arrived.peer(0).ptr_to([0]), rank, how, scope)
        if rank == 0:
            if thread == 0:
                while T.ptx.ld(arrived.ptr_to([0]), sem="acquire", scope="sys") != T.uint32(RANKS):
                    pass
            if steps.after:
                T.cuda.cta_sync()
            out[thread] = x[thread] + x[WORDS + thread] + x[2 * WORDS + thread]

    return counter_of_arrivals


def bulk_to_peer(steps: Steps):
    """A unit copies shared memory to a peer; the flag follows once the copy is complete, not only read."""
    read = steps.has("read", False)

    @T.prim_func
    def bulk_store_to_a_peer(x: x_of(), pad: pad_of(1), out: T.Buffer((WORDS,), "float32")):
        T.cta_id([1])
        thread, rank = T.thread_id([THREADS]), T.rank_id([RANKS])
        tile = T.alloc_shared((WORDS,), "float32", align=128)
        tile[thread] = T.cast(rank * 100 + thread, "float32")
        if steps.has("proxy"):
            T.ptx.fence.proxy_async("shared::cta")
        T.cuda.cta_sync()
        if thread == 0:
            T.ptx.cp_async.bulk.s2g(x.peer((rank + 1) % RANKS).ptr_to([0]), tile.ptr_to([0]), 4 * WORDS)
            T.ptx.cp_async.bulk.commit_group()
            T.ptx.cp_async.bulk.wait_group(0, read=read)
            signal(pad, (rank + 1) % RANKS, rank, 1, steps)
            wait(pad, (rank + RANKS - 1) % RANKS, 1, steps)
        if steps.after:
            T.cuda.cta_sync()
        out[thread] = x[thread]
        T.cuda.cta_sync()
        if thread == 0:
            T.ptx.cp_async.bulk.wait_group(0, read=False)

    return bulk_store_to_a_peer


def bulk_from_peer(steps: Steps):
    """A peer's threads write, and a unit reads that: the proxies are fenced by who has waited."""

    @T.prim_func
    def bulk_load_of_what_a_peer_wrote(x: x_of(), pad: pad_of(1), out: T.Buffer((WORDS,), "float32")):
        T.cta_id([1])
        thread, rank = T.thread_id([THREADS]), T.rank_id([RANKS])
        tile = T.alloc_shared((WORDS,), "float32", align=128)
        bar = T.alloc_shared((1,), "uint64")
        if thread == 0:
            T.ptx.mbarrier.init(bar.ptr_to([0]), 1)
        x.peer((rank + 1) % RANKS)[thread] = T.cast(rank * 100 + thread, "float32")
        T.cuda.cta_sync()
        if thread == 0:
            signal(pad, (rank + 1) % RANKS, rank, 1, steps)
            wait(pad, (rank + RANKS - 1) % RANKS, 1, steps)
            if steps.has("proxy"):
                T.ptx.fence.proxy_async("global")
            T.ptx.mbarrier.arrive.expect_tx(bar.ptr_to([0]), 4 * WORDS)
            T.ptx.cp_async.bulk.g2s_cluster(tile.ptr_to([0]), x.ptr_to([0]), 4 * WORDS, bar.ptr_to([0]))
        T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)
        out[thread] = tile[thread]

    return bulk_load_of_what_a_peer_wrote


def elected(steps: Steps):
    """A warp writes, and one lane signals for it; a warp of the peer waits by one lane."""

    @T.prim_func
    def warps_and_a_lane_each(x: x_of(words=32), pad: pad_of(1), out: T.Buffer((32,), "float32")):
        T.cta_id([1])
        lane, rank = T.thread_id([32]), T.rank_id([RANKS])
        x.peer((rank + 1) % RANKS)[lane] = T.cast(rank * 100 + lane, "float32")
        if steps.before:
            T.cuda.warp_sync()
        if lane == 0:
            signal(pad, (rank + 1) % RANKS, rank, 1, steps)
            wait(pad, (rank + RANKS - 1) % RANKS, 1, steps)
        if steps.after:
            T.cuda.warp_sync()
        out[lane] = x[lane]

    return warps_and_a_lane_each


def packets(steps: Steps):
    """Data and its number in one access: who finds the number has the data. Two places, by turns."""
    halves = 2 if steps.has("halves") else 1
    split = steps.has("split", False)

    @T.prim_func
    def packets_of_data_and_number(inbox: T.SymmetricBuffer((2, RANKS, WORDS), "uint64", ranks=RANKS),
                                   out: T.Buffer((WORDS,), "uint32")):  # fmt: skip
        T.cta_id([1])
        thread, rank = T.thread_id([THREADS]), T.rank_id([RANKS])
        total: T.uint32 = T.uint32(0)
        for turn in range(1, 4):
            mark: T.let = T.cast(turn, "uint64") << 32
            for to in range(RANKS):
                there = T.meta_var(inbox.peer(to))
                if split:
                    there[turn % halves, rank, thread] = T.cast(rank + thread, "uint64") | mark
                else:
                    T.ptx.st(there.ptr_to([turn % halves, rank, thread]), T.cast(rank + thread, "uint64") | mark,
                             sem="relaxed", scope=steps.tell[1])  # fmt: skip
            for source in range(RANKS):
                found: T.uint64 = T.uint64(0)
                while found >> 32 != T.cast(turn, "uint64"):
                    found = T.ptx.ld(inbox.ptr_to([turn % halves, source, thread]), sem="relaxed", scope=steps.hear[1])
                total = total + T.cast(found & T.uint64(0xFFFFFFFF), "uint32")
        out[thread] = total

    return packets_of_data_and_number


@T.inline
def at_least(here, number, how):
    while T.ptx.ld(here, sem=how[0], scope=how[1]) < T.cast(number, "uint32"):
        pass


@T.inline
def numbered(there, number, how):
    T.ptx.st(there, T.cast(number, "uint32"), sem=how[0], scope=how[1])


def queue(steps: Steps):
    """Rank 0 sends rank 1 blocks through two places, each used again once its block was taken."""
    blocks, places = 5, 2
    credit = steps.has("credit", ("release", "sys"))

    @T.prim_func
    def queue_with_credits(x: x_of(words=2 * WORDS), full: T.SymmetricBuffer((1,), "uint32", ranks=RANKS),
                           empty: T.SymmetricBuffer((1,), "uint32", ranks=RANKS),
                           out: T.Buffer((WORDS,), "float32")):  # fmt: skip
        T.cta_id([1])
        thread, rank = T.thread_id([THREADS]), T.rank_id([RANKS])
        total: T.float32 = 0.0
        for block in range(blocks):
            at: T.let = block % places * WORDS + thread
            if rank == 0:
                if thread == 0 and block >= places and steps.has("waits"):
                    at_least(empty.ptr_to([0]), block - 1, ("acquire", "sys"))
                T.cuda.cta_sync()
                x.peer(1)[at] = T.cast(block * 100 + thread, "float32")
                T.cuda.cta_sync()
                if thread == 0:
                    numbered(full.peer(1).ptr_to([0]), block + 1, steps.tell)
            elif rank == 1:
                if thread == 0:
                    at_least(full.ptr_to([0]), block + 1, steps.hear)
                T.cuda.cta_sync()
                total = total + x[at]
                T.cuda.cta_sync()
                if thread == 0:
                    numbered(empty.peer(0).ptr_to([0]), block + 1, credit)
        out[thread] = total

    return queue_with_credits


def multimem(steps: Steps):
    """The switch adds: each rank reads the sums of its share, and stores them to all."""
    scope = steps.has("scope", "sys")

    @T.prim_func
    def multimem_all_reduce(x: x_of(), y: x_of(), pad: T.SymmetricBuffer((2,), "uint32", ranks=RANKS),
                            out: T.Buffer((WORDS,), "float32")):  # fmt: skip
        T.cta_id([1])
        thread, rank = T.thread_id([THREADS]), T.rank_id([RANKS])
        x[thread] = T.cast(rank + thread, "float32")
        for turn in range(2):
            T.cuda.cta_sync()
            if thread == 0:
                T.multimem.red(pad.multicast().ptr_to([turn]), T.uint32(1), sem=steps.tell[0], scope=scope)
                while T.ptx.ld(pad.ptr_to([turn]), sem="acquire", scope="sys") != T.uint32(RANKS):
                    pass
            T.cuda.cta_sync()
            if turn == 0 and thread // (WORDS // RANKS + 1) == rank:
                there = T.meta_var(x if steps.has("alone", False) else x.multicast())
                total: T.let = T.multimem.ld_reduce(there.ptr_to([thread]), sem="relaxed", scope="sys")
                T.multimem.st(y.multicast().ptr_to([thread]), total, sem="relaxed", scope="sys")
        out[thread] = y.multicast()[thread] if steps.has("plainly", False) else y[thread]

    return multimem_all_reduce


PROTOCOLS: dict[str, Callable[[Steps], object]] = {
    each.__name__: each
    for each in (one_shot, two_shot, all_gather, reduce_scatter, all_to_all, signal_pads, ring, counter, bulk_to_peer,
                 bulk_from_peer, elected, packets, queue, multimem)
}  # fmt: skip


def arguments(kernel) -> list[list[np.ndarray]]:
    """Arrays of zeros for each parameter that callers name, one for each rank; numbers of experts are dealt out."""
    found = []
    for buffer in kernel.buffers:
        if buffer.name.endswith("_peers"):
            continue
        kind = np.dtype(buffer.dtype.numpy)
        each = [np.zeros(tuple(map(int, buffer.shape)), kind) for _ in range(RANKS)]
        for rank, array in enumerate(each):
            if buffer.name == "expert":
                array[:] = (np.arange(array.size) * 7 + rank) % RANKS
            if buffer.name == "tokens":
                array[:] = np.arange(array.size) + 1000 * rank
        found.append(each)
    return found
