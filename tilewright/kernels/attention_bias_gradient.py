"""The gradient of what is added to attention's scores, on Hopper: dS = P * (dP - Delta), summed where it is repeated.

A CTA has a tile of the bias, 64 queries by 64 keys. It multiplies the scores and the slopes of weights of all tiles
whose sum that is, in a fixed order, so that the result is the same in each run: of all sequences or heads that share
the bias, and of all queries or keys where it has one for all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import tilewright as tw
from tilewright.kernels.attention_backward_rows import LOG2E
from tilewright.kernels.attention_forms import ROW, leave, multiply
from tilewright.kernels.forms import strided
from tilewright.lang import T, Tx
from tilewright.layout import wgmma_fragment

TILE = 64  # queries, and keys
WRITTEN = 1  # the named barrier of the warpgroup


@dataclass(frozen=True, slots=True)
class BiasKind:
    """kind: elements of queries. bias: of the bias. d: of a row, padded to tiles. summed: of batch, heads, queries and
    keys, is the bias the same for all of them? first, last: is a query's first, or last, key bounded? softcap: are
    scores bent?
    """

    kind: str
    bias: str
    d: int
    summed: tuple[bool, bool, bool, bool]
    first: bool = False
    last: bool = False
    softcap: bool = False

    def span(self, dimension: int, place: Any, many: Any) -> tuple[Any, Any]:
        """Which of so many a CTA goes through: its own, or all."""
        return (0, many) if self.summed[dimension] else (place, place + 1)

    def sees(self, query: Any, key: Any, n: Any, low: Any, high: Any) -> Any:
        """Of a tile: does query i see key j?"""

        def seen(i: Any, j: Any) -> Any:
            mask = key + j < n
            if self.first:
                mask = mask & (key + j >= query + i + low)
            return mask & (key + j <= query + i + high) if self.last else mask

        return seen


@T.inline
def load(form, near, far, ring, spans, group):
    """Issue the copies of all tiles of queries, keys, values and gradients of results."""
    put = ring.producer(4 * TILE * form.d * 2)
    for b in T.serial(*spans[0], unroll=False):
        for h in T.serial(*spans[1], unroll=False):
            for i in T.serial(*spans[2], unroll=False):
                for j in T.serial(*spans[3], unroll=False):
                    put.acquire()
                    for x in (0, 1, 2, 3):
                        head, row = T.meta_var(((h, h // group)[x % 2], (i, j)[x % 2] * TILE))
                        Tx.copy_async(near[x][put.stage], far[x][b, head, row : row + TILE, 0 : form.d], mbar=put.full)
                    put.advance()


@T.inline
def add_up(form, near, rows, bias, ring, spans, numbers, nothing, total):
    """The warpgroup adds up the slopes of scores of all tiles.

    nothing: 0 in shared memory, read for each tile. Without it the compiler computes the addresses of the bias once for
    all tiles, and holds them in 130 registers.
    """
    c, bend, low, high, n = T.meta_var(numbers)
    s, dp = [T.alloc_local((TILE, TILE), "float32", layout=wgmma_fragment(TILE, TILE)) for _ in "sp"]
    part = T.alloc_local((TILE, TILE), form.bias, layout=wgmma_fragment(TILE, TILE))
    level, delta = [T.alloc_local((TILE, 1), "float32", layout=ROW) for _ in "ld"]
    take = ring.consumer()
    total[:] = 0
    for b in T.serial(*spans[0], unroll=False):
        for h in T.serial(*spans[1], unroll=False):
            for i in T.serial(*spans[2], unroll=False):
                for j in T.serial(*spans[3], unroll=False):
                    take.wait()
                    row: T.let = i * TILE + nothing[0]
                    column: T.let = j * TILE + nothing[0]
                    multiply(s, near[0][take.stage], near[1][take.stage], False, False)
                    multiply(dp, near[2][take.stage], near[3][take.stage], False, False)
                    Tx.wg.copy(level[:, 0], rows[0][b, h, row : row + TILE], fill=T.infinity("float32"))
                    Tx.wg.copy(delta[:, 0], rows[1][b, h, row : row + TILE], fill=0)
                    Tx.wg.copy(part, bias[b, h, row : row + TILE, column : column + TILE], fill=0)
                    T.ptx.wgmma.wait_group(0)
                    leave(take)
                    s[:] = (T.tanh(s * bend) if form.softcap else s) * c
                    s[:] = T.exp2(s + part * LOG2E - level)
                    Tx.wg.select(s, s, 0.0, form.sees(row, column, n, low, high))
                    total[:] = total + s * (dp - delta)


@T.inline
def summed(form, near, thread, sums):
    """The sum that a thread has of a tile in shared memory: of a column, of a row, or in all threads of everything."""
    sums[0] = 0.0
    if thread < TILE:
        for x in T.serial(TILE, unroll=False):
            sums[0] = sums[0] + (near[x, thread] if form.summed[2] else near[thread, x])
    if form.summed[2] and form.summed[3]:
        T.cuda.warpgroup_sync(WRITTEN)
        if thread < TILE:
            near[0, thread] = sums[0]
        T.cuda.warpgroup_sync(WRITTEN)
        sums[0] = 0.0
        for x in T.serial(TILE, unroll=False):
            sums[0] = sums[0] + near[0, x]


@T.inline
def store(form, out, near, total, at, thread):
    """The tile, or its sums over queries, keys or both, by way of shared memory: each in the order of its elements."""
    b, h, row, column = T.meta_var(at)
    if not (form.summed[2] or form.summed[3]):
        Tx.wg.copy(out[b, h, row : row + TILE, column : column + TILE], total, clip=True)
    else:
        Tx.wg.copy(near, total)
        T.cuda.warpgroup_sync(WRITTEN)
        sums = T.alloc_local((1,), "float32")
        summed(form, near, thread, sums)
        i: T.let = row if form.summed[2] else row + thread
        j: T.let = column + thread if form.summed[2] and not form.summed[3] else column
        if (thread < (1 if form.summed[2] and form.summed[3] else TILE)) & (i < out.shape[2]) & (j < out.shape[3]):
            out[b, h, i, j] = T.cast(sums[0], form.bias)


@cache
def of_bias(form: BiasKind) -> tw.Executable:
    """The gradient of the bias; lse and delta as `prepare` leaves them, the rows of tiles one after the other."""

    @T.prim_func
    def attention_of_bias(q: T.handle, k: T.handle, v: T.handle, do: T.handle, lse: T.handle, delta: T.handle,
                          bias: T.handle, out: T.handle, c: T.float32, bend: T.float32, low: T.int32,
                          high: T.int32):  # fmt: skip
        batch, heads, heads_kv, m, n, d, d_v, padded = [T.int32() for _ in range(8)]
        shared = [T.int32() for _ in "bhmn"]
        Q, DO = [strided(x, (batch, heads, m, wide), form.kind) for x, wide in ((q, d), (do, d_v))]
        K, V = [strided(x, (batch, heads_kv, n, wide), form.kind) for x, wide in ((k, d), (v, d_v))]
        LSE, DELTA = [T.match_buffer(x, (batch, heads, padded), "float32") for x in (lse, delta)]
        BIAS = T.match_buffer(bias, (batch, heads, m, n), form.bias, strides=tuple(T.int64() for _ in "bhmn"))
        OUT = T.match_buffer(out, tuple(shared), form.bias)
        T.assume(d % 8 == 0)
        T.assume(d_v % 8 == 0)
        T.func_attr({"min_blocks": 1})
        tile_n, tile_m, both = T.cta_id([T.ceildiv(shared[3], TILE), T.ceildiv(shared[2], TILE), shared[0] * shared[1]])
        role, warp, thread = T.warpgroup_id([2]), T.warp_id_in_wg([4]), T.thread_id_in_wg([128])
        pool = T.SMEMPool()
        stages = T.meta_var(1 if form.d > 128 else 2)
        near = T.meta_var([pool.alloc_mma((stages, TILE, form.d), form.kind) for _ in "qkdv"])
        sums = pool.alloc((TILE, TILE + 4), "float32", align=16)
        nothing = pool.alloc((1,), "int32")
        if role == 0 and thread == 0:
            nothing[0] = 0
        ring = T.Pipeline(pool, stages, consumers=4)
        ring.ready()
        at: T.let = both // shared[1]
        head: T.let = both % shared[1]
        places, extents = T.meta_var(
            ((at, head, tile_m, tile_n), (batch, heads, T.ceildiv(m, TILE), T.ceildiv(n, TILE)))
        )
        spans = T.meta_var(
            [form.span(x, place, many) for x, (place, many) in enumerate(zip(places, extents, strict=True))]
        )

        with T.WarpgroupRole(role, 0, None):
            if warp == 0 and T.ptx.elect_sync():
                load(form, near, (Q, K, DO, V), ring, spans, heads // heads_kv)
        with T.WarpgroupRole(role, 1, None, increase=True):
            total = T.alloc_local((TILE, TILE), "float32", layout=wgmma_fragment(TILE, TILE))
            add_up(form, near, (LSE, DELTA), BIAS, ring, spans, (c, bend, low, high, n), nothing, total)
            store(form, OUT, sums[:, 0:TILE], total, (at, head, tile_m * TILE, tile_n * TILE), thread)

    return tw.compile(attention_of_bias, target="sm_90a", fast_math=True)
