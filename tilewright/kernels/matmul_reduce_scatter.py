"""A matrix product whose K is spread over several GPUs: each adds up the rows of C that are its own, and keeps those.

It is the kernel of `matmul`, with three warps more. Each GPU computes its part of all sums, block of rows by block,
those of every owner in turn, and tells the owner. The three warps wait until all GPUs have told of a block, read it
there, and add in the order of ranks: blocks are exchanged while others are multiplied, with the same bits every time.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import tilewright as tw
from tilewright.dtypes import dtype
from tilewright.kernels.copiers import COPIERS, REGISTERS, Copier, reached
from tilewright.kernels.forms import MatmulKind, MatmulOperand, TilePlace, Tiles
from tilewright.kernels.matmul import load, multiply, store
from tilewright.kernels.one_shot import added, cleared, rounded
from tilewright.lang import T
from tilewright.layout import wgmma_fragment


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
def loads_of(put, A, B, place, cluster, below, steps):
    """One thread fills the ring for all tiles of a CTA."""
    place.begin(cluster, below)
    while place.valid():
        load(put, A, B, place, below, 0, steps)
        place.next()
    put.drain()


@T.inline
def tiles_of(partial, A, B, slabs, finish, ring, place, who, warp, cluster, below, steps, done):
    """A warpgroup multiplies its part of all tiles of a CTA, stores them, and tells the owner of each."""
    tiles = T.meta_var(place.tiles)
    rows = T.meta_var(tiles.m // tiles.groups)
    turn, take = T.PipelineState(tiles.slabs, 0), ring.consumer()
    D = T.alloc_local((rows, tiles.n), "float32", layout=wgmma_fragment(rows, tiles.n))
    place.begin(cluster, below, who * rows)
    while place.valid():
        multiply(D, take, A, B, who * rows, steps)
        store(partial, D, slabs, turn, finish, place, who, warp)
        if warp == 0 and T.ptx.elect_sync():
            T.ptx.cp_async.bulk.wait_group(0, read=False)  # it has been written
            told = T.meta_var(done.peer(place.owner).ptr_to([place.block]))
            T.ptx.red.add(told, T.uint32(1), sem="release", scope="sys")
        place.next()


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
