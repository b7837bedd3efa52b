"""A matrix product at the speed of the vendor's library, on Hopper: its kernel, a page long.

One warp has tiles of A and B copied into a ring of stages (`load`); two warpgroups multiply what has arrived
(`multiply`) and have it stored (`store`). Each CTA stays and goes from tile to tile of C; the ring goes on over them,
so that the next tile is on its way while this one is being stored. Two CTAs of a cluster lie below each other: each
loads half of the tile of B for both. What is multiplied, and how large the tiles are, is in `forms`.
"""

from __future__ import annotations

from functools import cache

import tilewright as tw
from tilewright.dtypes import dtype
from tilewright.kernels.forms import ROW_BYTES, Form, Operand, Place, Tiles
from tilewright.lang import T, Tx
from tilewright.layout import wgmma_fragment

__all__ = ["product"]


@T.inline
def load(put, A, B, place, rank, tiles, steps):
    """One thread fills the stages with the tiles of A and B along K, its CTA's part of B for the whole cluster."""
    part = T.meta_var(tiles.n // tiles.cluster)
    for i in range(steps):
        put.acquire()
        A.load(put, place.batch, place.row, 0, tiles.m, i)
        B.load(put, place.batch, place.column + rank * part, rank * part, part, i, tiles.all_ctas)
        put.advance()


@T.inline
def multiply(D, take, A, B, first, steps):
    """A warpgroup multiplies its rows of A by all of B, stage after stage; one product is under way all the time."""
    for i in T.serial(steps, unroll=False):
        take.wait()
        T.ptx.wgmma.fence()
        a, b = A.stage(take.stage, first, D.shape[0]), B.stage(take.stage, 0, D.shape[1])
        Tx.wg.gemm_async(D, a, b, i != 0, transA=A.turned, transB=B.turned)
        T.ptx.wgmma.commit_group()
        T.ptx.wgmma.wait_group(1)  # the product before this one is done
        take.release(take.last, pred=i != 0)
        take.advance()
    T.ptx.wgmma.wait_group(0)
    take.release(take.last)


@T.inline
def store(C, D, slabs, finish, place, who, warp, at_once):
    """A warpgroup stores its tile, some slabs at once: they are written while those before are on their way to C."""
    many, high, wide = T.meta_var(slabs.shape[1:])
    across = T.meta_var(D.shape[1] // wide)
    part = T.alloc_local((high, wide), C.dtype, layout=wgmma_fragment(high, wide))
    for i in T.unroll(D.shape[0] // high * across // at_once):
        each = T.meta_var([i * at_once + j for j in range(at_once)])
        each = T.meta_var([(slabs[who, j % many], j // across * high, j % across * wide) for j in each])
        if warp == 0 and T.ptx.elect_sync():
            T.ptx.cp_async.bulk.wait_group(many // at_once - 1, read=True)  # the slabs have been read
        T.cuda.warpgroup_sync(1 + who)
        for slab, below, right in each:
            part[:] = finish(D[below : below + high, right : right + wide], place, below, right)
            Tx.wg.copy(slab, part)
        T.ptx.fence.proxy_async("shared::cta")
        T.cuda.warpgroup_sync(1 + who)
        if warp == 0 and T.ptx.elect_sync():
            for slab, below, right in each:
                Tx.copy_async(place.of(C, below, high, right, wide), slab)
            T.ptx.cp_async.bulk.commit_group()


@T.inline
def scatter(C, D, finish, place):
    """A warpgroup stores its tile of a C that is turned, by itself: few elements, which no slab has in their order."""
    part = T.alloc_local(D.shape, C.dtype, layout=D.layout)
    part[:] = finish(D[:, :], place, 0, 0)
    Tx.wg.copy(place.of(C, 0, D.shape[0], 0, D.shape[1]), part, clip=True)


@cache
def product(tiles: Tiles, form: Form) -> tw.Executable:
    """C = A @ B.T, and what follows."""
    rows, wide = tiles.m // tiles.groups, ROW_BYTES * 8 // dtype(form.c).bits

    @T.prim_func
    def matmul(a: T.handle, b: T.handle, c: T.handle, bias: T.handle, residual: T.handle, scale_a: T.handle,
               scale_b: T.handle, clusters: T.int32):  # fmt: skip
        batch, m, n, k = T.int32() if form.batched else None, T.int32(), T.int32(), T.int32()
        T.func_attr({"min_blocks": tiles.resident})
        cluster, rank = T.cluster_id([clusters]), T.cta_id_in_cluster([tiles.cluster])
        group, warp = T.warpgroup_id([1 + tiles.groups]), T.warp_id_in_wg([4])
        pool = T.SMEMPool()
        A = Operand(form, 0, pool, (a, batch, m, k), tiles.stages, tiles.m)
        B = Operand(form, 1, pool, (b, batch, n, k), tiles.stages, tiles.n)
        C, finish = form.result(c, batch, m, n), form.epilogue(bias, residual, scale_a, scale_b, batch, m, n)
        if not form.turned[2]:
            slabs = pool.alloc_mma((tiles.groups, tiles.slabs_of(wide), 64, wide), form.c)
        ring = T.Pipeline(pool, tiles.stages, consumers=4 * tiles.groups, cluster=tiles.cluster)
        ring.ready()
        steps: T.let = T.ceildiv(k, A.depth)

        with T.WarpgroupRole(group, 0, tiles.registers[0]):
            if warp == 0 and T.ptx.elect_sync():
                put, place = ring.producer((tiles.m + tiles.n) * ROW_BYTES), Place(tiles, form, batch, m, n, clusters)
                place.begin(cluster, rank)
                while place.valid():
                    load(put, A, B, place, rank, tiles, steps)
                    place.next()
                put.drain()
        with T.WarpgroupRole(group, (1, 1 + tiles.groups), tiles.registers[1], increase=True):
            who: T.let = group - 1
            take, place = ring.consumer(), Place(tiles, form, batch, m, n, clusters)
            D = T.alloc_local((rows, tiles.n), "float32", layout=wgmma_fragment(rows, tiles.n))
            place.begin(cluster, rank, who * rows)
            while place.valid():
                multiply(D, take, A, B, who * rows, steps)
                if form.turned[2]:
                    scatter(C, D, finish, place)
                else:
                    store(C, D, slabs, finish, place, who, warp, tiles.at_once)
                place.next()
            if warp == 0 and T.ptx.elect_sync():
                T.ptx.cp_async.bulk.wait_group(0)

    return tw.compile(matmul, target="sm_90a", fast_math=bool(form.activation))
