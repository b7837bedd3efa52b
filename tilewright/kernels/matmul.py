"""A matrix product at the speed of the vendor's library, on Hopper: its kernel, a page long.

One warp issues copies of tiles of A and B into a ring of stages (`load`); two warpgroups multiply the tiles that have
arrived (`multiply`) and store the results (`store`). Each CTA stays and goes from tile to tile of C; the ring goes on
over them, so that the next tile is on its way while this one is being stored. Two CTAs of a cluster lie below each
other: each loads half of the tile of B for both; of four, in a square, half of that of A, too. `forms` has the arrays,
the sizes of tiles and the epilogue.
"""

from __future__ import annotations

from functools import cache

import tilewright as tw
from tilewright.kernels.forms import MatmulKind, MatmulOperand, TilePlace, Tiles, TileTurns
from tilewright.kernels.split import Split
from tilewright.lang import T, Tx
from tilewright.layout import wgmma_fragment


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
