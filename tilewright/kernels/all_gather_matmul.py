"""A matrix product whose A is spread over several GPUs by rows: each gets the others' rows while it multiplies its own.

It is the kernel of `matmul`, with three warps more at work. These copy the rows of the other GPUs, block after block,
beginning with the next rank's, and count each block when it is there; the warp that issues the copies to the ring waits
for the count of a tile's block. The tiles of C are walked from the own rows on, so that the wires are never waited for
but at the beginning. No GPU ends before all others have read its rows.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import tilewright as tw
from tilewright.kernels.copiers import AT_ONCE, COPIERS, REGISTERS, Copier, GatherCounts, gather, reached
from tilewright.kernels.forms import MatmulKind, MatmulOperand, TilePlace, Tiles
from tilewright.kernels.matmul import multiply, store
from tilewright.lang import T, Tx
from tilewright.layout import wgmma_fragment


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
def load(put, A, B, shard, place, rank, steps, mine, arrived, wanted):
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
def tiles_of(C, A, B, slabs, finish, ring, place, who, warp, cluster, below, steps):
    """A warpgroup multiplies its part of all tiles of a CTA, and stores them."""
    tiles = T.meta_var(place.tiles)
    rows = T.meta_var(tiles.m // tiles.groups)
    turn, take = T.PipelineState(tiles.slabs, 0), ring.consumer()
    D = T.alloc_local((rows, tiles.n), "float32", layout=wgmma_fragment(rows, tiles.n))
    place.begin(cluster, below, who * rows)
    while place.valid():
        multiply(D, take, A, B, who * rows, steps)
        store(C, D, slabs, turn, finish, place, who, warp)
        place.next()
    if warp == 0 and T.ptx.elect_sync():
        T.ptx.cp_async.bulk.wait_group(0, read=True)  # shared memory ends with the CTA


@T.inline
def loads_of(put, A, B, shard, place, cluster, below, steps, rank, arrived, wanted):
    """One thread fills the ring for all tiles of a CTA."""
    place.begin(cluster, below)
    while place.valid():
        load(put, A, B, shard, place, below, steps, rank, arrived, wanted)
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
                loads_of(put, A, B, shard, place, cluster, below, steps, rank, arrived, wanted)
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
