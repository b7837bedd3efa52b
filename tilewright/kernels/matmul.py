"""A matrix product at the speed of the vendor's library, on Hopper: its kernel, a page long.

One warp issues copies of tiles of A and B into a ring of stages (`load`); two warpgroups multiply the tiles that have
arrived (`multiply`) and store the results (`store`). Each CTA stays and goes from tile to tile of C; the ring goes on
over them, so that the next tile is on its way while this one is being stored. The warpgroups share the rows of a tile
or, where K is short, take whole tiles in turns: one multiplies while the other stores. Two CTAs of a cluster lie below
each other: each loads half of the tile of B for both; of four, in a square, half of that of A, too. `forms` has the
arrays, the sizes of tiles and the epilogue.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import tilewright as tw
from tilewright.dtypes import dtype
from tilewright.kernels.forms import MatmulKind, MatmulOperand, TilePlace, Tiles, TileTurns
from tilewright.lang import T, Tx
from tilewright.layout import S, TileLayout, laneid, tx, wgmma_fragment


@T.inline
def load(put, A, B, place, rank, first, end):
    """One thread fills the stages with the tiles of A and B along K, its CTA's part of B for all CTAs above and below,
    and that of A for those beside.
    """
    of_a, of_b = T.meta_var(place.tiles.sharers(rank))
    for i in range(first, end):
        put.acquire()
        A.load(put, place.batch, place.row, i, of_a[0], place.tiles.beside, of_a[1])
        B.load(put, place.batch, place.column, i, of_b[0], place.tiles.cluster, of_b[1])
        T.trace("load")
        put.advance()


@T.inline
def multiply(D, take, A, B, first, steps, turns=None):
    """A warpgroup multiplies its rows of A by all of B, stage after stage; one product is under way all the time."""
    if turns:
        turns.take()
    for i in T.serial(steps, unroll=False):
        take.wait()
        T.ptx.wgmma.fence()
        a, b = A.stage(take.stage, first, D.shape[0]), B.stage(take.stage, 0, D.shape[1])
        Tx.wg.gemm_async(D, a, b, i != 0, transA=A.turned, transB=B.turned)
        T.ptx.wgmma.commit_group()
        T.ptx.wgmma.wait_group(1)  # the product before this one is done
        take.release(take.last, pred=i != 0)
        T.trace("product")
        take.advance()
    if turns:
        turns.pass_on()
    T.ptx.wgmma.wait_group(0)
    take.release(take.last)


@T.inline
def store(C, D, slabs, turn, finish, place, who, warp):
    """A warpgroup stores its tile, slab after slab: one is written while those before it are on their way to C."""
    upright = T.meta_var(place.form.upright(slabs))
    many, high, wide = T.meta_var(upright.shape[1:])
    across = T.meta_var(D.shape[1] // wide)
    part = T.alloc_local((high, wide), C.dtype, layout=wgmma_fragment(high, wide))
    for i in T.unroll(D.shape[0] // high * across):
        below, right = T.meta_var((i // across * high, i % across * wide))
        if warp == 0 and T.ptx.elect_sync():
            T.ptx.cp_async.bulk.wait_group(many - 1, read=True)  # the slab has been read
        finish.arrived()
        T.cuda.warpgroup_sync(1 + who)
        part[:] = finish(D[below : below + high, right : right + wide], place, who, below, right)
        Tx.wg.copy(upright[who, turn.stage], part)
        T.ptx.fence.proxy_async("shared::cta")
        T.cuda.warpgroup_sync(1 + who)
        if warp == 0 and T.ptx.elect_sync():
            Tx.copy_async(place.of(C, below, high, right, wide, as_it_lies=True), slabs[who, turn.stage])
            T.ptx.cp_async.bulk.commit_group()
        turn.advance()  # from tile to tile


@cache
def product(tiles: Tiles, form: MatmulKind) -> tw.Executable:
    """C = A @ B.T, and what follows."""
    rows, stages = tiles.rows, form.stages(tiles)

    @T.prim_func
    def matmul(a: T.handle, b: T.handle, c: T.handle, bias: T.handle, residual: T.handle, scale_a: T.handle,
               scale_b: T.handle, clusters: T.int32):  # fmt: skip
        batch, m, n, k = T.int32() if form.batched or form.partial else None, T.int32(), T.int32(), T.int32()
        T.func_attr({"min_blocks": tiles.resident})
        many = T.meta_var(tiles.clusters(clusters, batch, m, n))
        cluster, rank = T.cluster_id([many]), T.cta_id_in_cluster([tiles.ctas])
        group, warp, thread = T.warpgroup_id([1 + tiles.groups]), T.warp_id_in_wg([4]), T.thread_id_in_wg([128])
        pool = T.SMEMPool()
        A = MatmulOperand(form, 0, pool, (a, batch, m, k), stages, tiles.m)
        B = MatmulOperand(form, 1, pool, (b, batch, n, k), stages, tiles.n)
        C, slabs = form.result(c, batch, m, n), form.slabs(pool, tiles)
        finish = form.epilogue(pool, tiles, (bias, residual, scale_a, scale_b), (batch, m, n))
        ring = T.Pipeline(pool, stages, consumers=4 * tiles.sharing, cluster=tiles.cluster * tiles.beside)
        split = Split(pool, tiles, form, rank)
        split.ready(ring)

        with T.WarpgroupRole(group, 0, tiles.registers[0]):
            T.ptx.griddepcontrol.wait()
            if warp == 0 and T.ptx.elect_sync():
                split.expect()
                put, place = ring.producer(A.stage_bytes + B.stage_bytes), TilePlace(tiles, form, batch, m, n, many)
                place.begin(cluster, split.below, 0, split.right)
                while place.valid():
                    load(put, A, B, place, split.rank, *T.meta_var(split.steps(place, T.ceildiv(k, A.depth))))
                    place.next()
                T.ptx.griddepcontrol.launch_dependents()
                put.drain()
        with T.WarpgroupRole(group, (1, 1 + tiles.groups), tiles.registers[1], increase=True):
            T.ptx.griddepcontrol.wait()
            who, turn, take = T.meta_var(group - 1), T.PipelineState(tiles.slabs, 0), ring.consumer()
            place = TilePlace(tiles, form, batch, m, n, many)
            turns = T.meta_var(TileTurns(place, who, take, lambda: split.count(place, T.ceildiv(k, A.depth))))
            D = T.alloc_local((rows, tiles.n), "float32", layout=wgmma_fragment(rows, tiles.n))
            turns.begin(cluster, split.below, split.right + split.part * split.share)
            while place.valid():
                finish.fetch(place, who)
                multiply(D, take, A, B, turns.above, split.count(place, T.ceildiv(k, A.depth)), turns)
                sums = T.meta_var(split.added(D, who, thread))
                if split.stores:
                    store(C, sums, slabs, turn, finish, place, who, warp)
                turns.next()
            if warp == 0 and T.ptx.elect_sync():
                T.ptx.cp_async.bulk.wait_group(0, read=True)  # shared memory ends with the CTA

    return tw.compile(matmul, target="sm_90a", fast_math=bool(form.activation))


# A tile whose K is divided among the CTAs of a cluster, used while the kernel is parsed.
#
# Each sends the others their share of its sums, by stores that an m-barrier there counts, and adds up its own share,
# part after part: the same bits every time. Sums travel as threads hold them, so that nothing is moved about within a
# CTA.


@T.meta_class
class Split:
    """The part of K of a CTA, and the columns of the tile that it stores. All CTAs make one before any `exchange`.

    rank: of the CTA in its cluster. `Any`: values of the language.
    """

    def __init__(self, pool: Any, tiles: Tiles, form: MatmulKind, rank: Any) -> None:
        self.parts = tiles.parts
        self.part: Any = rank if self.parts > 1 else 0
        self.rank: Any = 0 if self.parts > 1 else rank  # of the CTA among those that share A or B
        (beside, _), (self.below, _) = tiles.sharers(self.rank)
        self.right = beside * tiles.n  # columns of the cluster's tiles before this one's
        self.share = tiles.share(form.unit(tiles))  # columns
        self.stores = self.part * self.share < tiles.n
        self.rows = tiles.rows
        if self.parts == 1:
            return
        assert (tiles.cluster, tiles.beside, self.rows) == (1, 1, 64), "a cluster shares A and B, or it shares K"
        vector = min(4, self.share // 2)
        self.arrived, self.is_lent, self.lent = T.TMABar(pool, 1), tiles.lends, T.MBarrier(pool, 1)
        self.arrived.init(1)
        if self.is_lent:
            self.lent.init(4 * tiles.groups * self.parts)  # all warps that multiply
            pool.move_base_to(0)
        self.inbox = pool.alloc((tiles.groups, self.parts, self.share // 2 // vector, 128, vector), "float32", align=16)

    def ready(self, ring: Any) -> None:
        """All threads wait until the barriers are made, those of the ring and of the other CTAs."""
        ring.ready()
        if self.parts > 1:
            T.cuda.cluster_sync()

    def steps(self, place: Any, number: Any) -> tuple[Any, Any]:
        """Where the CTA's part of a tile begins, and where it ends, of so many steps along K."""
        first, end = place.steps(number)
        many = end - first
        return first + self.part * many // self.parts, first + (self.part + 1) * many // self.parts

    def count(self, place: Any, number: Any) -> Any:
        """How many steps that are."""
        first, end = self.steps(place, number)
        return end - first

    def expect(self) -> None:
        """One thread announces the sums that will come."""
        if self.parts > 1:
            with T.If(self.stores), T.Then():
                self.arrived.arrive(0, 4 * math.prod(self.inbox.shape))

    def added(self, sums: Any, who: Any, thread: Any) -> Any:
        """A warpgroup's sums over all of K, of the columns that the CTA stores."""
        if self.parts == 1:
            return sums
        total = T.alloc_local((self.rows, self.share), "float32", layout=wgmma_fragment(self.rows, self.share))
        self.exchange(sums.local(), total.local(), who, thread, sums.shape[1] // self.share)
        return total

    @T.inline
    def exchange(self, mine, total, who, thread, shares):  # type: ignore[no-untyped-def]  # kernel text
        """Send every CTA its share; then wait for one's own, and add it up."""
        runs, vector = T.meta_var((self.inbox.shape[2], self.inbox.shape[4]))
        if self.is_lent:
            if T.ptx.elect_sync():
                for to in T.unroll(self.parts):
                    self.lent.arrive(0, to)
            self.lent.wait(0, 0)
        for to in T.unroll(shares):
            told = T.ptx.mapa(self.arrived.ptr_to([0]), to)
            for i in T.unroll(runs):
                there = T.ptx.mapa(self.inbox.ptr_to([who, self.part, i, thread, 0]), to)
                values = T.meta_var([mine[(to * runs + i) * vector + j] for j in range(vector)])
                T.ptx.st_async.vec(vector, there, told, *values)
        if self.stores:
            self.arrived.wait(0, 0)
            for i in T.unroll(runs):
                for j in T.unroll(vector):
                    total[i * vector + j] = self.inbox[who, 0, i, thread, j]
                    for part in range(1, self.parts):
                        total[i * vector + j] = total[i * vector + j] + self.inbox[who, part, i, thread, j]


# Sums of parts of K become a matrix product: they are added up part after part, the same bits every time.
#
# Any CTA of `matmul` may have multiplied a part; its sums are in global memory, in float32.


HIGH, WIDE, VECTOR = 8, 128, 4  # rows and columns that a CTA adds up; elements of an access


@cache
def combine(count: int, kind: str, bias_kind: str = "") -> tw.Executable:
    """C is the sum of so many parts, and a bias for each column if there is one."""
    lanes = S[(HIGH, WIDE // VECTOR, VECTOR) : (32 @ tx, 1 @ tx, 1)]
    line = S[(WIDE // VECTOR, VECTOR) : (1 @ laneid, 1)]

    @T.prim_func
    def matmul_combine(parts: T.handle, bias: T.handle, c: T.handle):
        m, n, many, pitch, c_pitch = T.int32(), T.int32(), T.int64(), T.int32(), T.int32()
        PARTS = T.match_buffer(parts, (count, m, n), "float32", strides=(many, pitch, 1))
        C = T.match_buffer(c, (m, n), kind, strides=(c_pitch, 1))
        BIAS = T.match_buffer(bias, (n,), bias_kind, align=dtype(bias_kind).bits // 8) if bias_kind else None
        for step in (many, pitch, c_pitch):
            T.assume(step % VECTOR == 0)
        right, below = T.cta_id([T.ceildiv(n, WIDE), T.ceildiv(m, HIGH)])
        T.warp_id([HIGH])
        T.lane_id([32])
        columns = T.meta_var(slice(right * WIDE, right * WIDE + WIDE))
        rows = T.meta_var(slice(below * HIGH, below * HIGH + HIGH))
        sums = T.meta_var([T.alloc_local((HIGH, WIDE), "float32", layout=TileLayout(lanes)) for _ in range(count)])
        T.ptx.griddepcontrol.launch_dependents()
        T.ptx.griddepcontrol.wait()
        for part in tuple(range(count)):
            Tx.cta.copy(sums[part], PARTS[part, rows, columns], fill=0)
        for part in tuple(range(1, count)):
            sums[0][:] = sums[0] + sums[part]
        if bias_kind:
            more = T.alloc_local((WIDE,), bias_kind, layout=TileLayout(line))
            Tx.warp.copy(more, BIAS[columns], fill=0)
            Tx.add(sums[0].local(), sums[0].local(), more.local())
        results = T.alloc_local((HIGH, WIDE), kind, layout=TileLayout(lanes))
        results[:] = sums[0]
        Tx.cta.copy(C[rows, columns], results, clip=True)

    return tw.compile(matmul_combine, target="sm_90a")
