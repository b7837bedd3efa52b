"""A matrix product at the speed of the vendor's library, on Hopper: its kernel, a page long.

One warp has tiles of A and B copied into a ring of stages (`load`); two warpgroups multiply what has arrived
(`multiply`) and have it stored (`store`). Each CTA stays and goes from tile to tile of C; the ring goes on over them,
so that the next tile is on its way while this one is being stored. Two CTAs of a cluster lie below each other: each
loads half of the tile of B for both.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import tilewright as tw
from tilewright.dtypes import dtype
from tilewright.kernels.arrays import Array, expect, kind_of, like, multiprocessors
from tilewright.kernels.operators import Arrays, Operator
from tilewright.lang import T, Tx
from tilewright.layout import wgmma_fragment

__all__ = ["Tiles", "matmul", "product"]

KINDS = ("bfloat16", "float16")
ROW_BYTES = 128  # of a stage along K, and of a slab: the width of the swizzle


@dataclass(frozen=True, slots=True)
class Tiles:
    """m, n: a CTA's tile of C. groups: warpgroups that share its rows. stages: of the ring. cluster: CTAs, one below
    the other. band: rows of clusters that are walked down before the walk goes right, as many as the L2 cache likes.
    """

    m: int = 128
    n: int = 256
    groups: int = 2
    stages: int = 4
    cluster: int = 2
    band: int = 8

    @property
    def registers(self) -> tuple[int, int]:
        """Of each thread that copies, and that multiplies."""
        return {1: (24, 240), 2: (40, 232), 3: (32, 160)}[self.groups]

    @property
    def all_ctas(self) -> int | None:
        """The mask of a copy that comes to all CTAs of the cluster."""
        return 2**self.cluster - 1 if self.cluster > 1 else None

    def walk(self, m: Any, n: Any, cluster: Any, clusters: Any) -> Any:
        """The tiles of a cluster, one after the other, while a kernel is parsed. `Any`: values of the language."""
        rows, columns = T.ceildiv(m, self.m * self.cluster), T.ceildiv(n, self.n)
        walk = T.ClusterPersistentScheduler2D("tile", rows, columns, clusters, self.band)
        walk.init(cluster)
        return walk


@T.inline
def load(put, ring_a, ring_b, A, B, row, column, rank, tiles, steps):
    """One thread fills the stages with a row of tiles of A and a row of tiles of B, along K."""
    depth, part = T.meta_var((ring_a.shape[2], tiles.n // tiles.cluster))
    for i in range(steps):
        at: T.let = i * depth
        first: T.let = column + rank * part
        put.acquire()
        Tx.copy_async(ring_a[put.stage], A[row : row + tiles.m, at : at + depth], mbar=put.full)
        into = ring_b[put.stage, rank * part : rank * part + part, :]
        Tx.copy_async(into, B[first : first + part, at : at + depth], mbar=put.full, cta_mask=tiles.all_ctas)
        put.advance()


@T.inline
def multiply(D, take, ring_a, ring_b, first, steps):
    """A warpgroup multiplies its rows of A by all of B, stage after stage; one product is under way all the time."""
    for i in T.serial(steps, unroll=False):
        take.wait()
        T.ptx.wgmma.fence()
        Tx.wg.gemm_async(D, ring_a[take.stage, first : first + D.shape[0], :], ring_b[take.stage], i != 0)
        T.ptx.wgmma.commit_group()
        T.ptx.wgmma.wait_group(1)  # the product before this one is done
        take.release(take.last, pred=i != 0)
        take.advance()
    T.ptx.wgmma.wait_group(0)
    take.release(take.last)


@T.inline
def store(C, D, slabs, who, warp, row, column):
    """A warpgroup stores its tile, slab by slab: one is written while the one before it is on its way to C."""
    many, high, wide = T.meta_var(slabs.shape[1:])
    part = T.alloc_local((high, wide), C.dtype, layout=wgmma_fragment(high, wide))
    for i in T.unroll(D.shape[1] // wide):
        slab = slabs[who, i % many]
        if warp == 0 and T.ptx.elect_sync():
            T.ptx.cp_async.bulk.wait_group(many - 1, read=True)  # the slab has been read
        T.cuda.warpgroup_sync(1 + who)
        Tx.wg.cast(part, D[:, i * wide : i * wide + wide])
        Tx.wg.copy(slab, part)
        T.ptx.fence.proxy_async("shared::cta")
        T.cuda.warpgroup_sync(1 + who)
        if warp == 0 and T.ptx.elect_sync():
            Tx.copy_async(C[row : row + high, column + i * wide : column + i * wide + wide], slab)
            T.ptx.cp_async.bulk.commit_group()


@cache
def product(tiles: Tiles, kind: str, result: str) -> tw.Executable:
    """C = A @ B.T"""
    depth, wide = (ROW_BYTES * 8 // dtype(name).bits for name in (kind, result))  # of a stage, and of a slab
    rows = tiles.m // tiles.groups

    @T.prim_func
    def matmul(a: T.handle, b: T.handle, c: T.handle, clusters: T.int32):
        m, n, k, a_pitch, b_pitch, c_pitch = T.int32(), T.int32(), T.int32(), T.int32(), T.int32(), T.int32()
        A = T.match_buffer(a, (m, k), kind, strides=(a_pitch, 1))
        B = T.match_buffer(b, (n, k), kind, strides=(b_pitch, 1))
        C = T.match_buffer(c, (m, n), result, strides=(c_pitch, 1))
        for pitch, each in ((a_pitch, depth), (b_pitch, depth), (c_pitch, wide)):
            T.assume(pitch % (each // 8) == 0)
        T.func_attr({"min_blocks": 1})
        cluster, rank = T.cluster_id([clusters]), T.cta_id_in_cluster([tiles.cluster])
        group, warp = T.warpgroup_id([1 + tiles.groups]), T.warp_id_in_wg([4])
        pool = T.SMEMPool()
        ring_a = pool.alloc_mma((tiles.stages, tiles.m, depth), kind)
        ring_b = pool.alloc_mma((tiles.stages, tiles.n, depth), kind)
        slabs = pool.alloc_mma((tiles.groups, 2 - tiles.n // wide % 2, 64, wide), result)  # in turns, also over tiles
        ring = T.Pipeline(pool, tiles.stages, consumers=4 * tiles.groups, cluster=tiles.cluster)
        T.ptx.fence.mbarrier_init()
        T.cuda.cluster_sync()
        steps: T.let = T.ceildiv(k, depth)

        with T.WarpgroupRole(group, 0, tiles.registers[0]):
            if warp == 0 and T.ptx.elect_sync():
                put, walk = ring.producer((tiles.m + tiles.n) * ROW_BYTES), tiles.walk(m, n, cluster, clusters)
                while walk.valid():
                    row: T.let = (walk.m_idx * tiles.cluster + rank) * tiles.m
                    load(put, ring_a, ring_b, A, B, row, walk.n_idx * tiles.n, rank, tiles, steps)
                    walk.next_tile()
                put.drain()
        with T.WarpgroupRole(group, (1, 1 + tiles.groups), tiles.registers[1], increase=True):
            who: T.let = group - 1
            take, walk = ring.consumer(), tiles.walk(m, n, cluster, clusters)
            D = T.alloc_local((rows, tiles.n), "float32", layout=wgmma_fragment(rows, tiles.n))
            while walk.valid():
                multiply(D, take, ring_a, ring_b, who * rows, steps)
                own: T.let = (walk.m_idx * tiles.cluster + rank) * tiles.m + who * rows
                store(C, D, slabs, who, warp, own, walk.n_idx * tiles.n)
                walk.next_tile()
            if warp == 0 and T.ptx.elect_sync():
                T.ptx.cp_async.bulk.wait_group(0)

    return tw.compile(matmul, target="sm_90a")


def outputs(a: Array, b: Array) -> Arrays:
    for name, array in (("a", a), ("b", b)):
        expect(name, array, KINDS)
    return (like(a, (a.shape[0], b.shape[1])),)


def run(results: Arrays, args: Arrays) -> None:
    a, b, (c,) = args[0], args[1].T, results
    tiles = Tiles()
    exe = product(tiles, kind_of(a), kind_of(c))
    across = -(-a.shape[0] // (tiles.m * tiles.cluster)) * -(-b.shape[0] // tiles.n)
    exe(a, b, c, min(across, multiprocessors(a) // tiles.cluster))


FORWARD = Operator("matmul", "(Tensor a, Tensor b) -> Tensor", outputs, run)


def matmul(a: Array, b: Array) -> Array:
    """The matrix product of a, (M, K), and b, (K, N)."""
    return FORWARD(a, b)
