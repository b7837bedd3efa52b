"""Matrix products that are spread over several GPUs: the rows of A are gathered, or the sums of C scattered, while
warps multiply.

Both are the kernel of `matmul` with three warps more at work, the copiers of a CTA: the warpgroup that copies tiles to
the ring needs one warp for that. First how copiers wait, and gather; then a product each.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import tilewright as tw
from tilewright.dtypes import dtype
from tilewright.kernels.forms import MatmulKind, MatmulOperand, TilePlace, Tiles
from tilewright.kernels.matmul import load, multiply, store
from tilewright.kernels.shots import added, cleared, rounded
from tilewright.lang import T, Tx
from tilewright.layout import wgmma_fragment

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


# A matrix product whose A is spread over several GPUs by rows: each gets the others' rows while it multiplies its own.
#
# It is the kernel of `matmul`, with three warps more at work. These copy the rows of the other GPUs, block after block,
# beginning with the next rank's, and count each block when it is there; the warp that issues the copies to the ring
# waits for the count of a tile's block. The tiles of C are walked from the own rows on, so that the wires are never
# waited for but at the beginning. No GPU ends before all others have read its rows.


@T.meta_class
class RotatedPlace(TilePlace):
    """The tiles of C, from a row of tiles on, ``first``; ``block`` is that of a tile. `Any`: values of the language."""

    def __init__(self, tiles: Tiles, form: MatmulKind, m: Any, n: Any, clusters: Any, first: Any) -> None:
        super().__init__(tiles, form, None, m, n, clusters)
        self.first = first
        self.block = T.local_scalar("int32")

    def _settle(self) -> None:
        ahead = self.walk.m_idx + self.first
        self.block = T.if_then_else(ahead >= self.rows, ahead - self.rows, ahead)
        self.row = self.block * (self.tiles.m * self.tiles.cluster) + self.shift
        self.column = self.walk.n_idx * self.tiles.n + self.right


@T.inline
def load_far(put, A, B, place, rank, steps, shard, mine, arrived, wanted):
    """One thread fills the stages with the tiles of A and B along K: A's from the own rows, or from where they came."""
    first: T.let = mine * shard.shape[0]
    is_local: T.let = place.row >= first and place.row < first + shard.shape[0]
    if not is_local:
        reached(arrived.ptr_to([place.block]), wanted, "gpu")
        T.ptx.fence.proxy_async("global")
    for i in T.serial(steps, unroll=False):
        put.acquire()
        here, right = T.meta_var((A.ring[put.stage, :, :], slice(i * A.depth, i * A.depth + A.depth)))
        if is_local:
            Tx.copy_async(here, shard[place.row - first : place.row - first + place.tiles.m, right], mbar=put.full)
        else:
            Tx.copy_async(here, A.array[place.row : place.row + place.tiles.m, right], mbar=put.full)
        B.load(put, None, place.column, i, rank, place.tiles.cluster)
        put.advance()


@T.inline
def tiles_of(C, A, B, slabs, finish, ring, place, who, warp, cluster, below, steps, done=None):
    """A warpgroup multiplies its part of all tiles of a CTA, and stores them. done: counts, by which the owner of each
    is told that it is there.
    """
    tiles = T.meta_var(place.tiles)
    rows = T.meta_var(tiles.m // tiles.groups)
    turn, take = T.PipelineState(tiles.slabs, 0), ring.consumer()
    D = T.alloc_local((rows, tiles.n), "float32", layout=wgmma_fragment(rows, tiles.n))
    place.begin(cluster, below, who * rows)
    while place.valid():
        multiply(D, take, A, B, who * rows, steps)
        store(C, D, slabs, turn, finish, place, who, warp)
        if done is not None:
            tell(done, place, warp)
        place.next()
    if done is None and warp == 0 and T.ptx.elect_sync():
        T.ptx.cp_async.bulk.wait_group(0, read=True)  # shared memory ends with the CTA


@T.inline
def loads_of(put, A, B, place, cluster, below, steps, far=None):
    """One thread fills the ring for all tiles of a CTA. far: of A whose rows come from other GPUs, see `load_far`."""
    place.begin(cluster, below)
    while place.valid():
        if far is None:
            load(put, A, B, place, below, 0, steps)
        else:
            load_far(put, A, B, place, below, steps, *far)
        place.next()
    put.drain()


@T.inline
def ended(told, calls, rank, blocks, wanted, number):
    """One copier waits until all CTAs have copied, so that they know the call's number, and all GPUs have read."""
    ranks = T.meta_var(told.ready.peers)
    last: T.let = (rank + ranks - 1) % ranks
    reached(told.arrived.ptr_to([last * blocks + blocks - 1]), wanted, "gpu")
    reached(told.finished.ptr_to([0]), wanted * T.uint32(ranks - 1), "sys")
    calls[0] = number


@cache
def gathered_product(tiles: Tiles, form: MatmulKind, ranks: int, at_once: int = AT_ONCE) -> tw.Executable:
    """C = (A of all ranks, one below the other) @ B.T. near: room for A, which the own rows are not copied to.

    arrived: a count for each block of rows; ready: a number for each rank; calls and finished: one number. They are of
    calls with these extents alone, and 0 before the first.
    """
    stages, high = form.stages(tiles), tiles.m * tiles.cluster

    @T.prim_func
    def all_gather_matmul(
        a: T.handle, b: T.handle, c: T.handle, near: T.handle, counts: T.handle, calls: T.Buffer((1,), "uint32"),
        ready: T.SymmetricBuffer((ranks,), "uint32", ranks=ranks),
        finished: T.SymmetricBuffer((1,), "uint32", ranks=ranks), clusters: T.int32,
    ):  # fmt: skip
        m, n, k, many = T.int32(), T.int32(), T.int32(), T.int32()
        T.func_attr({"min_blocks": tiles.resident})
        every, blocks, ctas = T.meta_var((m * ranks, m // high, clusters * tiles.cluster))
        cluster, below = T.cluster_id([clusters]), T.cta_id_in_cluster([tiles.cluster])
        group, warp, thread = T.warpgroup_id([1 + tiles.groups]), T.warp_id_in_wg([4]), T.thread_id_in_wg([128])
        rank, pool = T.rank_id([ranks]), T.SMEMPool()
        shard = T.match_symmetric(a, (m, k), form.a, ranks=ranks)
        arrived = T.match_buffer(counts, (many,), "uint32")
        T.assume(m % high == 0)
        T.assume(k % 8 == 0)
        A = MatmulOperand(form, 0, pool, (near, None, every, k), stages, tiles.m)
        B = MatmulOperand(form, 1, pool, (b, None, n, k), stages, tiles.n)
        C, slabs = form.result(c, None, every, n), form.slabs(pool, tiles)
        finish = form.epilogue(pool, tiles, (None,) * 4, (None, every, n))
        ring = T.Pipeline(pool, stages, consumers=4 * tiles.groups, cluster=tiles.cluster)
        number: T.let = calls[0] + T.uint32(1)
        wanted: T.let = number * T.cast(ctas * (COPIERS // 32), "uint32")
        ring.ready()
        steps = T.meta_var(T.ceildiv(k, A.depth))

        with T.WarpgroupRole(group, 0, REGISTERS[0]):
            if warp == 0 and T.ptx.elect_sync():
                put = ring.producer(A.stage_bytes + B.stage_bytes)
                place = RotatedPlace(tiles, form, every, n, clusters, rank * blocks)
                loads_of(put, A, B, place, cluster, below, steps, T.meta_var((shard, rank, arrived, wanted)))
            if warp > 0:
                copier = Copier(cluster * tiles.cluster + below, ctas, thread - 32, at_once)
                told = GatherCounts(arrived, ready, finished)
                gather(shard, A.array, told, rank, blocks, copier, number)
                if copier.cta == 0 and copier.thread == 0:
                    ended(told, calls, rank, blocks, wanted, number)
        with T.WarpgroupRole(group, (1, 1 + tiles.groups), REGISTERS[1], increase=True):
            place = RotatedPlace(tiles, form, every, n, clusters, rank * blocks)
            tiles_of(C, A, B, slabs, finish, ring, place, group - 1, warp, cluster, below, steps)

    return tw.compile(all_gather_matmul, target="sm_90a")


# A matrix product whose K is spread over several GPUs: each adds up the rows of C that are its own, and keeps those.
#
# It is the kernel of `matmul`, with three warps more. Each GPU computes its part of all sums, block of rows by block,
# those of every owner in turn, and tells the owner. The three warps wait until all GPUs have told of a block, read it
# there, and add in the order of ranks: blocks are exchanged while others are multiplied, with the same bits every time.


@T.meta_class
class ScatteredPlace(TilePlace):
    """The tiles of C, by turns of the owners of their rows, the next rank first. blocks: of each owner."""

    def __init__(self, tiles: Tiles, form: MatmulKind, m: Any, n: Any, clusters: Any, rank: Any, ranks: int) -> None:
        super().__init__(tiles, form, None, m, n, clusters)
        self.rank, self.ranks, self.blocks = rank, ranks, self.rows // ranks
        self.owner, self.block = T.local_scalar("int32"), T.local_scalar("int32")

    def _settle(self) -> None:
        self.owner = (self.walk.m_idx + self.rank + 1) % self.ranks
        self.block = self.walk.m_idx // self.ranks
        self.row = (self.owner * self.blocks + self.block) * (self.tiles.m * self.tiles.cluster) + self.shift
        self.column = self.walk.n_idx * self.tiles.n + self.right


@T.inline
def reduce(partial, out, done, finished, rank, blocks, wanted, reducer):
    """Three warps of a CTA add up its share of every block of the own rows, in words of 16 bytes."""
    ranks, (rows, n), kind = T.meta_var((partial.peers, partial.shape, str(out.dtype)))
    per_word = T.meta_var(128 // dtype(kind).bits)
    size: T.let = out.shape[0] // blocks * (n // per_word)
    lane: T.let = reducer.thread % 32
    parts, word = T.alloc_local((ranks, 4), "uint32"), T.alloc_local((4,), "uint32")
    total = T.alloc_local((per_word,), "float32")
    sums = T.decl_buffer((out.shape[0] * (n // per_word), 4), "uint32", data=out.data, align=16)
    for block in T.serial(blocks, unroll=False):
        if lane == 0:
            reached(done.ptr_to([block]), wanted, "sys")
        T.cuda.warp_sync()
        for turn in T.serial(reducer.turns(size), unroll=False):
            i: T.let = reducer.word(turn)
            if i < size:
                for source in T.unroll(ranks):
                    there = T.decl_buffer(
                        (rows * (n // per_word), 4), "uint32", data=partial.peer(source).data, align=16
                    )
                    parts.vstore([source, 0], there.vload([(rank * blocks + block) * size + i, 0], "uint32x4"))
                cleared(total)
                for source in T.unroll(ranks):
                    word.vstore([0], parts.vload([source, 0], "uint32x4"))
                    added(total, word, kind)
                rounded(word, total, kind)
                sums.vstore([block * size + i, 0], word.vload([0], "uint32x4"))
    T.cuda.warp_sync()
    if lane < ranks:
        T.ptx.red.add(finished.peer(lane).ptr_to([0]), T.uint32(1), sem="release", scope="sys")


@T.inline
def tell(done, place, warp):
    """The owner of a tile is told that it has been written."""
    if warp == 0 and T.ptx.elect_sync():
        T.ptx.cp_async.bulk.wait_group(0, read=False)  # it has been written
        told = T.meta_var(done.peer(place.owner).ptr_to([place.block]))
        T.ptx.red.add(told, T.uint32(1), sem="release", scope="sys")


@cache
def scattered_product(tiles: Tiles, form: MatmulKind, ranks: int) -> tw.Executable:
    """c = the own rows of the sum over all ranks of A @ B.T. partial: room for all rows.

    done: a count for each own block of rows; calls and finished: one number. They are of calls with these extents
    alone, and 0 before the first.
    """
    stages, high = form.stages(tiles), tiles.m * tiles.cluster

    @T.prim_func
    def matmul_reduce_scatter(
        a: T.handle, b: T.handle, c: T.handle, room: T.handle, counts: T.handle, calls: T.Buffer((1,), "uint32"),
        finished: T.SymmetricBuffer((1,), "uint32", ranks=ranks), clusters: T.int32,
    ):  # fmt: skip
        m, n, k, many = T.int32(), T.int32(), T.int32(), T.int32()
        T.func_attr({"min_blocks": tiles.resident})
        every, blocks, ctas = T.meta_var((m * ranks, m // high, clusters * tiles.cluster))
        cluster, below = T.cluster_id([clusters]), T.cta_id_in_cluster([tiles.cluster])
        group, warp, thread = T.warpgroup_id([1 + tiles.groups]), T.warp_id_in_wg([4]), T.thread_id_in_wg([128])
        rank, pool = T.rank_id([ranks]), T.SMEMPool()
        out = T.match_buffer(c, (m, n), form.c)
        partial = T.match_symmetric(room, (every, n), form.c, ranks=ranks)
        done = T.match_symmetric(counts, (many,), "uint32", ranks=ranks)
        T.assume(m % high == 0)
        T.assume(n % (128 // dtype(form.c).bits) == 0)
        A = MatmulOperand(form, 0, pool, (a, None, every, k), stages, tiles.m)
        B = MatmulOperand(form, 1, pool, (b, None, n, k), stages, tiles.n)
        slabs, finish = form.slabs(pool, tiles), form.epilogue(pool, tiles, (None,) * 4, (None, every, n))
        ring = T.Pipeline(pool, stages, consumers=4 * tiles.groups, cluster=tiles.cluster)
        number: T.let = calls[0] + T.uint32(1)
        wanted: T.let = number * T.cast(T.ceildiv(n, tiles.n) * (tiles.groups * tiles.cluster * ranks), "uint32")
        ring.ready()
        steps = T.meta_var(T.ceildiv(k, A.depth))

        with T.WarpgroupRole(group, 0, REGISTERS[0]):
            if warp == 0 and T.ptx.elect_sync():
                place = ScatteredPlace(tiles, form, every, n, clusters, rank, ranks)
                loads_of(ring.producer(A.stage_bytes + B.stage_bytes), A, B, place, cluster, below, steps)
            if warp > 0:
                reducer = Copier(cluster * tiles.cluster + below, ctas, thread - 32)
                reduce(partial, out, done, finished, rank, blocks, wanted, reducer)
                if reducer.cta == 0 and reducer.thread == 0:
                    reached(finished.ptr_to([0]), number * T.cast(ctas * (COPIERS // 32 * ranks), "uint32"), "sys")
                    calls[0] = number
        with T.WarpgroupRole(group, (1, 1 + tiles.groups), REGISTERS[1], increase=True):
            place = ScatteredPlace(tiles, form, every, n, clusters, rank, ranks)
            tiles_of(partial, A, B, slabs, finish, ring, place, group - 1, warp, cluster, below, steps, done)

    return tw.compile(matmul_reduce_scatter, target="sm_90a")
