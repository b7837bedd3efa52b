"""Attention at the speed of the chip, on Hopper: its kernel, a page long.

One warp issues copies: of a tile of queries, and of tiles of keys and values, the last ones first, into two rings. Each
of two or three warpgroups has 64 of the queries. While the tensor cores multiply the next scores, and the last weights
by their values, its threads turn scores into weights; meanwhile another group has its turn at the tensor cores. A CTA
stays and goes from tile to tile; the rings go on over them. `attention_forms` has the masks and the sizes of tiles.
"""

from __future__ import annotations  # noqa: I001  # the names of a page, on two lines

import math
from functools import cache

import tilewright as tw
from tilewright.kernels.attention_forms import (
    LANES, REGISTERS, ROW, ROWS, AttentionKind, AttentionPlace, AttentionTiles,
    bring, hand_over, leave, multiply, rings_of, store, store_levels,
)  # fmt: skip
from tilewright.lang import T, Tx
from tilewright.layout import wgmma_fragment

LN2 = math.log(2)


@T.inline
def bring_all(near, far, puts, place):
    """Issue the copies of a tile of queries, and of its tiles of keys and values; keys are one tile ahead."""
    put_q, put_k, put_v = T.meta_var(puts)
    last = T.meta_var(place.begin + place.steps - 1)
    row = T.meta_var(place.start_q + place.row)
    bring(near[1], far[1], put_k, place, last, place.start_k)
    put_q.acquire()
    T.trace("free")
    Tx.copy_async(near[0], far[0][place.at, place.head, row : row + place.tiles.queries, :], mbar=put_q.full)
    put_q.advance()
    for i in T.serial(place.steps - 1, unroll=False):
        bring(near[1], far[1], put_k, place, last - 1 - i, place.start_k)
        bring(near[2], far[2], put_v, place, last - i, place.start_v, place.form.narrow)
    bring(near[2], far[2], put_v, place, place.begin, place.start_v, place.form.narrow)


@T.inline
def score(scores, mine, keys, take_k, last, take_v, turns, who):
    """In the group's turn the next scores begin, and ``last``: weights times values. Then the scores are there."""
    take_k.wait()
    if turns:
        turns.take(who)
    multiply(scores, mine, keys[take_k.stage], False, False)
    if last:
        take_v.wait()
        multiply(last[0], last[1], last[2][take_v.stage], True, last[3])
    if turns:
        turns.pass_on(who)
    T.ptx.wgmma.wait_group(1 if last else 0)
    leave(take_k)
    T.trace("scores")


@T.inline
def weigh(scores, most, total, shrunk, scale, sees, raised=0.0):
    """Scores become weights, times 2^raised; what was summed up counts ``shrunk``, as the largest score may grow."""
    if callable(sees):
        Tx.wg.select(scores, scores, -T.infinity("float32"), sees)
    larger = T.max(most, T.max(scores, axis=1, keepdims=True))
    base = T.select(larger > -T.infinity("float32"), larger, 0.0) if sees else larger  # a query may see no key
    shrunk[:] = T.exp2((most - base) * scale)
    most[:] = larger
    scores[:] = T.exp2(scores * scale - (base * scale - raised if raised else base * scale))
    of_lanes = T.meta_var(scores.view(64, scores.shape[1] // 8, 4, 2))  # a row is in four lanes: each sums its own
    total[:] = total * shrunk.view(64, 1, 1, 1) + T.sum(of_lanes, axis=(1, 3), keepdims=True)


@T.inline
def fill(rings, near, far, place, cluster, rank):
    """One thread copies what the CTA's tiles need."""
    sizes = T.meta_var(place.form.stage_bytes(place.tiles))
    puts = T.meta_var([ring.producer(size) for ring, size in zip(rings, sizes, strict=True)])
    place.first(cluster, rank)
    while place.walk.valid():
        bring_all(near, far, puts, place)
        place.next()
    if place.tiles.cluster > 1:
        puts[1].drain()
        puts[2].drain()


@T.inline
def attend(place, below, who, turns, takes, near, state, bias, numbers):
    """A warpgroup goes through all keys of its tile: sums of values, total weights, largest scores."""
    form, shared, turned = T.meta_var((place.form, place.tiles.shared_weights, not place.form.narrow))
    (take_q, take_k, take_v), (mine, keys, values) = T.meta_var(takes), T.meta_var(near)
    (scores, weights, sums, most, shrunk, total), (scale, bend, cap) = T.meta_var(state), T.meta_var(numbers)
    late, early = T.meta_var(place.hidden(below))
    block = T.local_scalar("int32")
    block = place.begin + place.steps - 1
    most[:], total[:], sums[:] = -T.infinity("float32"), 0.0, 0.0
    take_q.wait()
    score(scores, mine, keys, take_k, (), take_v, turns, who)
    form.shape(scores, bias, place, below, block, bend, cap)
    weigh(scores, most, total, shrunk, scale, place.sees(below, block), form.raised)
    hand_over(weights, scores, shared, who)
    for number, looks in ((late, True), (place.steps - 1 - late - early, False), (early, True)):
        for _ in T.serial(number, unroll=False):
            block = block - 1
            score(scores, mine, keys, take_k, (sums, weights, values, turned), take_v, turns, who)
            form.shape(scores, bias, place, below, block, bend, cap)
            weigh(scores, most, total, shrunk, scale, place.sees(below, block) if looks else form.bias, form.raised)
            T.ptx.wgmma.wait_group(0)  # the sums
            leave(take_v)
            sums[:] *= shrunk
            hand_over(weights, scores, shared, who)
    if form.has_room(place.tiles):
        leave(take_q)
    take_v.wait()
    multiply(sums, weights, values[take_v.stage], True, turned)
    T.ptx.wgmma.wait_group(0)
    leave(take_v)


@T.inline
def work(rings, near, slabs, handed, far, place, turns, cluster, rank, who, warp, thread, numbers):
    """A warpgroup attends to its queries of the CTA's tiles, and stores results and logarithms of sums."""
    form, tiles = T.meta_var((place.form, place.tiles))
    below = T.meta_var(who * ROWS)
    takes = [ring.consumer() for ring in rings]
    mine, slab = T.meta_var((near[0][below : below + ROWS, :], slabs[below : below + ROWS, : form.width_v]))
    scores = T.alloc_local((64, tiles.keys), "float32", layout=wgmma_fragment(64, tiles.keys))
    weights = T.meta_var(handed[below : below + ROWS, :]) if handed else T.alloc_local(
        (64, tiles.keys), form.kind, layout=wgmma_fragment(64, tiles.keys, "A", form.kind))  # fmt: skip
    sums = T.alloc_local((64, form.width_v), "float32", layout=wgmma_fragment(64, form.width_v))
    most, shrunk = [T.alloc_local((64, 1), "float32", layout=ROW) for _ in "ms"]
    total = T.alloc_local((64, 1, 4, 1), "float32", layout=LANES)
    state = T.meta_var((scores, weights, sums, most, shrunk, total))
    if turns:
        turns.begin(who)
    place.first(cluster, rank)
    while place.walk.valid():
        scaled = T.meta_var(place.scaled(*numbers))
        attend(place, below, who, turns, takes, (mine, near[1], near[2]), state, far[2], scaled)
        whole = T.sum(total, axis=2, keepdims=True)
        share = T.select(whole > 0.0, place.descale_v / whole, 0.0)
        sums[:] *= share.view(64, 1)
        store(far[0], place, below, slab, sums, who, warp, thread)
        if not form.has_room(tiles):
            if warp == 0 and T.ptx.elect_sync():
                T.ptx.cp_async.bulk.wait_group(0, read=True)  # the results, where the next queries come
            T.cuda.warp_sync()
            leave(takes[0])
        most[:] = (most * scaled[0] + T.log2(whole.view(64, 1)) - form.raised) * LN2
        store_levels(far[1], place, below, most)
        place.next()
    if warp == 0 and T.ptx.elect_sync():
        T.ptx.cp_async.bulk.wait_group(0, read=True)  # shared memory ends with the CTA


@cache
def forward(form: AttentionKind, tiles: AttentionTiles) -> tw.Executable:
    """softmax(q k scale) v, row by row. scale: that of the scores as they are weighed, times log2 e; bend, cap: of
    `AttentionKind.shape`.
    """

    @T.prim_func
    def attention(q: T.handle, k: T.handle, v: T.handle, out: T.handle, lse: T.handle, counter: T.handle,
                  bias: T.handle, starts_q: T.handle, starts_k: T.handle, dq: T.handle, dk: T.handle, dv: T.handle,
                  ctas: T.int32, section: T.int32, scale: T.float32, bend: T.float32, cap: T.float32,
                  left: T.int32, right: T.int32, bottom: T.int32):  # fmt: skip
        batch, heads, heads_kv, m, n = T.int32(), T.int32(), T.int32(), T.int32(), T.int32()
        Q, K = form.array(q, (batch, heads, m, form.width)), form.array(k, (batch, heads_kv, n, form.width))
        V = form.values(v, (batch, heads_kv, n))
        OUT = form.array(out, (batch, heads, m, form.width_v), form.result)
        LSE = T.match_buffer(lse, (batch, heads, m, 1), "float32")
        BIAS = form.added(bias, (batch, heads, m, n))
        sequences, starts = T.meta_var(form.sequences(starts_q, starts_k, batch))
        T.func_attr({"min_blocks": 1})  # so that the registers at entry are known
        cluster, rank = T.cluster_id([ctas]), T.cta_id_in_cluster([tiles.cluster])
        group, warp, thread = T.warpgroup_id([1 + tiles.groups]), T.warp_id_in_wg([4]), T.thread_id_in_wg([128])
        pool = T.SMEMPool()
        queries = form.near(pool, (tiles.queries, form.width))
        keys = form.near(pool, (tiles.stages, tiles.keys, form.width))
        values = form.near(pool, (tiles.stages, *form.turned(tiles.keys)))
        slabs = form.near(pool, (tiles.queries, form.width_v), form.result) if form.has_room(tiles) else queries
        handed = form.near(pool, (tiles.queries, tiles.keys)) if tiles.shared_weights else None
        rings, queue = T.meta_var(rings_of(pool, tiles, counter))
        rings[2].ready()
        near, far = T.meta_var(((queries, keys, values), (OUT, LSE, BIAS)))
        extents = T.meta_var((sequences, heads, heads_kv, m, n))
        settings = T.meta_var((form, tiles, extents, starts, (left, right, bottom), (ctas, section), queue,
                            form.descales((dq, dk, dv), sequences, heads_kv)))  # fmt: skip

        with T.WarpgroupRole(group, 0, REGISTERS[tiles.groups][0]):
            if warp == 0 and T.ptx.elect_sync():
                fill(rings, near, (Q, K, V), AttentionPlace(*settings, draws=True), cluster, rank)
        with T.WarpgroupRole(group, (1, 1 + tiles.groups), REGISTERS[tiles.groups][1], increase=True):
            who: T.let = group - 1
            place = AttentionPlace(*settings, draws=False)
            turns = T.meta_var(T.WarpgroupTurns(tiles.groups) if tiles.turns else None)
            work(rings, near, slabs, handed, far, place, turns, cluster, rank, who, warp, thread,
                 (scale, bend, cap))  # fmt: skip

    return tw.compile(attention, target="sm_90a", fast_math=True)
