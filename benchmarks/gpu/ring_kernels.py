"""The ring of `kernels.matmul` without what it stores: what `figures` measures of copies, and of products beside them.

Each CTA has one tile of C and goes along K again and again; all CTAs together have 12 tiles below each other, and 11
beside (10 of four CTAs of a cluster).
"""

from functools import cache

import tilewright as tw
from tilewright.kernels.forms import MatmulKind, MatmulOperand, Tiles
from tilewright.kernels.matmul import load, multiply
from tilewright.lang import T
from tilewright.layout import wgmma_fragment

DOWN, ACROSS = 12, {1: 11, 2: 11, 4: 10}


class RepeatedPlace:
    """The tile of a CTA, as `kernels.matmul.load` asks for it. `Any`: values of the language."""

    def __init__(self, tiles, cluster, rank):
        across = ACROSS[tiles.ctas]
        self.tiles, self.batch = tiles, None
        self.row = (cluster // across * tiles.cluster + rank) * tiles.m
        self.column = cluster % across * tiles.n


@cache
def ring(tiles: Tiles, *, loads: bool, multiplies: bool) -> tw.Executable:
    """The ring of `kernels.matmul.product`. loads, multiplies: or do only barriers take part?"""
    form = MatmulKind("bfloat16", "bfloat16", "bfloat16")
    rows, stages = tiles.m // tiles.groups, form.stages(tiles)
    many = DOWN * ACROSS[tiles.ctas] // tiles.ctas

    @T.prim_func
    def looped(a: T.handle, b: T.handle, out: T.handle, times: T.int32):
        m, n, k = T.int32(), T.int32(), T.int32()
        C = T.match_buffer(out, (1,), "float32")
        T.func_attr({"min_blocks": tiles.resident})
        cluster, rank = T.cluster_id([many]), T.cta_id_in_cluster([tiles.ctas])
        group, warp = T.warpgroup_id([1 + tiles.groups]), T.warp_id_in_wg([4])
        T.thread_id_in_wg([128])
        pool = T.SMEMPool()
        A = MatmulOperand(form, 0, pool, (a, None, m, k), stages, tiles.m)
        B = MatmulOperand(form, 1, pool, (b, None, n, k), stages, tiles.n)
        ring = T.Pipeline(pool, stages, consumers=4 * tiles.groups, cluster=tiles.cluster * tiles.beside)
        ring.ready()
        with T.WarpgroupRole(group, 0, tiles.registers[0]):
            if warp == 0 and T.ptx.elect_sync():
                put = ring.producer(A.stage_bytes + B.stage_bytes if loads else 0)
                place = T.meta_var(RepeatedPlace(tiles, cluster, rank))
                for _ in T.serial(times, unroll=False):
                    if loads:
                        load(put, A, B, place, rank, 0, T.ceildiv(k, A.depth))
                    else:
                        for _ in T.serial(0, T.ceildiv(k, A.depth), unroll=False):
                            put.acquire()
                            put.advance()
                put.drain()
        with T.WarpgroupRole(group, (1, 1 + tiles.groups), tiles.registers[1], increase=True):
            take, total = ring.consumer(), times * T.ceildiv(k, A.depth)
            if multiplies:
                D = T.alloc_local((rows, tiles.n), "float32", layout=wgmma_fragment(rows, tiles.n))
                multiply(D, take, A, B, (group - 1) * rows, total)
                all_sums = T.local_scalar("float32")
                all_sums = 0.0
                for i in T.unroll(rows * tiles.n // 128):
                    all_sums = all_sums + D.local()[i]
                if all_sums == 12345.0:
                    C[0] = all_sums
            else:
                for _ in T.serial(0, total, unroll=False):
                    take.wait()
                    take.release(take.stage)
                    take.advance()

    return tw.compile(looped, target="sm_90a")
