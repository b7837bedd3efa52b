"""Attention of a few queries to a long cache of keys and values, on Hopper: what a model does for each new token.

Time goes into reading keys and values, so that each is read once and always 100 KB of them are on their way to a
multiprocessor. All heads of queries that share one of keys, and all queries, are the rows of one tile (row s * G + g
is query s of head g of a group of at most G). The keys of a sequence are divided among CTAs, two of which share a
multiprocessor: in each a warp has the copy engine bring keys and values, page by page where there is a page table, and
a warpgroup multiplies. `combine` then adds up what the CTAs of a sequence have, each with the weight that its
logarithm of the sum of weights gives it.

`append` writes new keys and values behind those that the cache has.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

import tilewright as tw
from tilewright.dtypes import dtype
from tilewright.errors import ArgumentError, choices
from tilewright.kernels.arrays import Array, expect, kind_of, like, multiprocessors, public
from tilewright.kernels.attention import weigh
from tilewright.kernels.attention_calls import (
    EVERYWHERE,
    KINDS,
    check_dimensions,
    check_softcap,
    check_widths_and_heads,
    laid_out,
    upright,
    window_of,
)  # fmt: skip
from tilewright.kernels.attention_forms import LANES, ROW, ROWS, leave, multiply, swizzled
from tilewright.kernels.forms import strided
from tilewright.kernels.operators import Arrays, Launches, TorchOperator
from tilewright.kernels.products import filled
from tilewright.lang import T, Tx
from tilewright.layout import R, S, TileLayout, tx, wgmma_fragment

LN2 = math.log(2)
NEAR_BYTES = 112 << 10  # of a CTA, of which two share a multiprocessor
COPIES, PRODUCTS = 56, 200  # registers of a thread that copies, of one that multiplies
CLEARED = 5  # the named barrier of the warpgroup


@dataclass(frozen=True, slots=True)
class DecodeKind:
    """kind: elements of q, k and v; result: those of out. width, width_v: elements of a query and of a value. group:
    heads of queries in a tile, a power of two. chunk: rows that lie together in the cache, of a page. keys: of a tile.
    resident: CTAs of a multiprocessor. lengths: has each sequence as many keys as it says, not as many as the cache?
    first, last: has a query a first, a last key that it sees, beside those that there are? bent: are scores scaled
    before anything else, softcap: and then bent?
    """

    kind: str
    result: str
    width: int
    width_v: int
    group: int
    chunk: int
    keys: int = 64
    resident: int = 2
    paged: bool = False
    lengths: bool = False
    first: bool = False
    last: bool = False
    bent: bool = False
    softcap: bool = False

    @property
    def stage_bytes(self) -> tuple[int, int]:
        """Of a tile of keys and one of values."""
        nbytes = self.keys * dtype(self.kind).bits // 8
        return nbytes * self.width, nbytes * self.width_v

    @property
    def stages(self) -> int:
        queries = ROWS * self.width * dtype(self.kind).bits // 8
        return (NEAR_BYTES * 2 // self.resident - queries) // sum(self.stage_bytes)

    @property
    def box(self) -> tuple[int, int]:
        """Queries and heads of a tile."""
        return ROWS // self.group, self.group

    def array(self, pointer: Any, extents: tuple[Any, ...], kind: str = "", *, aligned: bool = False) -> Any:
        """An argument, of elements of q if no others are named; see `strided`."""
        return strided(pointer, extents, kind or self.kind, aligned=aligned)


@T.meta_class
class DecodePlace:
    """What a CTA does: the rows from query ``s`` and head ``g`` of a group on, the keys of tiles ``begin`` to ``end``.

    n: keys of the sequence. m: queries. `Any`: values of the language.
    """

    def __init__(self, form: DecodeKind, ids: Any, sizes: Any, window: Any, splits: Any) -> None:
        self.form, (self.split, part, self.batch) = form, ids
        self.m, group, self.n = sizes
        self.left, self.right = window
        across = T.ceildiv(group, form.group)
        down = T.ceildiv(self.m, form.box[0])
        self.head, self.s, self.g = (T.local_scalar("int32") for _ in "hsg")
        self.begin, self.end = (T.local_scalar("int32") for _ in "be")
        self.head = part // (across * down)
        self.s, self.g = part // across % down * form.box[0], part % across * form.group
        tiles = T.ceildiv(self.n, form.keys)
        before = T.min(T.max(self.s + self.n - self.m - self.left, 0) // form.keys, tiles) if form.first else 0
        self.begin = before + self.split * (tiles - before) // splits
        self.end = before + (self.split + 1) * (tiles - before) // splits

    def rows(self, array: Any, *at: Any) -> Any:
        """The CTA's rows, (queries, heads, width), of an array (..., m, heads of keys, group, width)."""
        down, across = self.form.box
        return array[(*at, self.batch, slice(self.s, self.s + down), self.head, slice(self.g, self.g + across))]

    def sees(self, key: Any) -> Any:
        """Of a tile whose first key is given: does row i see key j?"""

        def seen(i: Any, j: Any) -> Any:
            diagonal = self.s + i // self.form.group + self.n - self.m
            mask = key + j < self.n
            if self.form.last:
                mask = mask & (key + j <= diagonal + self.right)
            return mask & (key + j >= diagonal - self.left) if self.form.first else mask

        return seen

    def is_cut(self, key: Any) -> Any:
        """May a row not see all keys of a tile?"""
        mask = key + self.form.keys > (self.n - self.m + self.right + 1 if self.form.last else self.n)
        mask = mask | (key + self.form.keys > self.n)
        return mask | (key < self.n - self.left) if self.form.first else mask


@T.inline
def bring(form, near, far, pages, put, place, lane, block):
    """A warp issues the copies of a tile of keys or values, each lane of a chunk, beyond the last of that one."""
    many, page = T.meta_var((form.keys // form.chunk, far.shape[2]))
    last: T.let = T.max(place.n - 1, 0) // form.chunk * form.chunk
    for turn in T.unroll(-(-many // 32)):
        part: T.let = turn * 32 + lane
        row: T.let = part * form.chunk
        first: T.let = T.min(block * form.keys + row, last) if form.paged else block * form.keys
        which: T.let = pages[place.batch, first // page] if form.paged else place.batch
        at: T.let = first % page if form.paged else first
        if turn == 0:
            if lane == 0:
                put.acquire()
            T.cuda.warp_sync()
        if part < many:
            Tx.copy_async(near[put.stage, row : row + form.chunk, :], far[which, place.head, at : at + form.chunk, :],
                          mbar=put.full)  # fmt: skip
    put.advance()


@T.inline
def bring_all(form, near, far, rings, place, lane):
    """Keys are one tile ahead of their values."""
    (K, V, PAGES), sizes = T.meta_var(far), T.meta_var(form.stage_bytes)
    put_k, put_v = T.meta_var([ring.producer(size) for ring, size in zip(rings, sizes, strict=True)])
    if place.begin < place.end:
        bring(form, near[0], K, PAGES, put_k, place, lane, place.begin)
        for i in T.serial(place.begin + 1, place.end, unroll=False):
            bring(form, near[0], K, PAGES, put_k, place, lane, i)
            bring(form, near[1], V, PAGES, put_v, place, lane, i - 1)
        bring(form, near[1], V, PAGES, put_v, place, lane, place.end - 1)


@T.inline
def ask(form, far, place, thread):
    """The first keys and values come to the L2 cache while the kernel before this one ends: what that still writes is
    written there, too.
    """
    row: T.let = place.begin * form.keys + thread
    if row < T.min(place.end * form.keys, place.n):
        for array in far:
            nbytes = T.meta_var(array.shape[3] * dtype(form.kind).bits // 8)
            T.ptx.cp_async.bulk.prefetch(array.ptr_to([place.batch, place.head, row, 0]), nbytes)


@T.inline
def shape(form, scores, place, key, bend, cap):
    """Scores are bent, and those of keys that a row does not see are hidden."""
    if form.bent:
        scores[:] = scores * bend
    if form.softcap:
        scores[:] = T.tanh(scores) * cap
    if place.is_cut(key):
        Tx.wg.select(scores, scores, -T.infinity("float32"), place.sees(key))


@T.inline
def attend(form, queries, near, takes, state, place, numbers):
    """The warpgroup goes through the CTA's keys: sums of values, total weights, largest scores."""
    (scores, weights, sums, most, shrunk, total), (scale, bend, cap) = T.meta_var(state), T.meta_var(numbers)
    (keys, values), (take_k, take_v) = T.meta_var(near), T.meta_var(takes)
    take_k.wait()
    multiply(scores, queries, keys[take_k.stage], False, False)
    T.ptx.wgmma.wait_group(0)
    leave(take_k)
    shape(form, scores, place, place.begin * form.keys, bend, cap)
    weigh(scores, most, total, shrunk, scale, True)
    weights[:] = scores
    for i in T.serial(place.begin + 1, place.end, unroll=False):
        take_k.wait()
        multiply(scores, queries, keys[take_k.stage], False, False)
        take_v.wait()
        multiply(sums, weights, values[take_v.stage], True, True)
        T.ptx.wgmma.wait_group(1)
        leave(take_k)
        shape(form, scores, place, i * form.keys, bend, cap)
        weigh(scores, most, total, shrunk, scale, True)
        T.ptx.wgmma.wait_group(0)
        leave(take_v)
        sums[:] *= shrunk
        weights[:] = scores
    take_v.wait()
    if place.end * form.keys > place.n:  # nobody knows what comes behind: infinity, times a weight of 0, is NaN
        behind: T.let = place.n - (place.end - 1) * form.keys
        Tx.wg.fill(values[take_v.stage, behind : form.keys, :], 0.0)
        T.ptx.fence.proxy_async("shared::cta")
        T.cuda.warpgroup_sync(CLEARED)
    multiply(sums, weights, values[take_v.stage], True, True)
    T.ptx.wgmma.wait_group(0)


@T.inline
def store(form, far, state, place, scale):
    """The rows' results, and the logarithms of their sums: 0 and -inf where a row has seen no key."""
    (OUT, LSE), (_, _, sums, most, _, total) = T.meta_var(far), T.meta_var(state)
    whole = T.sum(total, axis=2, keepdims=True)
    share = T.select(whole > 0.0, 1.0 / whole, 0.0)
    sums[:] *= share.view(64, 1)
    most[:] = (most * scale + T.log2(whole.view(64, 1))) * LN2
    Tx.wg.copy(place.rows(OUT, place.split), sums.view(*form.box, form.width_v), clip=True)
    Tx.wg.copy(place.rows(LSE, place.split), most.view(*form.box, 1), clip=True)


@T.inline
def work(form, near, rings, queries, far, place, numbers):
    """A warpgroup brings its queries, goes through the CTA's keys, and stores what came out."""
    Tx.wg.copy(queries.view(*form.box, form.width), place.rows(far[0]), fill=0)
    T.ptx.fence.proxy_async("shared::cta")
    T.cuda.warpgroup_sync(CLEARED)
    takes = [ring.consumer() for ring in rings]
    scores = T.alloc_local((64, form.keys), "float32", layout=wgmma_fragment(64, form.keys))
    weights = T.alloc_local((64, form.keys), form.kind, layout=wgmma_fragment(64, form.keys, "A", form.kind))
    sums = T.alloc_local((64, form.width_v), "float32", layout=wgmma_fragment(64, form.width_v))
    most, shrunk = [T.alloc_local((64, 1), "float32", layout=ROW) for _ in "ms"]
    total = T.alloc_local((64, 1, 4, 1), "float32", layout=LANES)
    state = T.meta_var((scores, weights, sums, most, shrunk, total))
    most[:], total[:], sums[:] = -T.infinity("float32"), 0.0, 0.0
    if place.begin < place.end:
        attend(form, queries, near, takes, state, place, numbers)
    store(form, (far[1], far[2]), state, place, numbers[0])


@cache
def decode(form: DecodeKind) -> tw.Executable:
    """softmax(q k scale) v of the CTAs' keys, row by row. scale: that of the scores as they are weighed, times log2 e;
    bend: of scores before they are bent to cap tanh(x / cap), whose 1 / cap it has.
    """

    @T.prim_func
    def attention_decode(q: T.handle, k: T.handle, v: T.handle, out: T.handle, lse: T.handle, lengths: T.handle,
                         pages: T.handle, splits: T.int32, parts: T.int32, scale: T.float32, bend: T.float32,
                         cap: T.float32, left: T.int32, right: T.int32):  # fmt: skip
        batch, m, heads_kv, group, caches, n = [T.int32() for _ in range(6)]
        Q = form.array(q, (batch, m, heads_kv, group, form.width), aligned=True)
        K, V = [form.array(x, (caches, heads_kv, n, wide), aligned=True)
                for x, wide in ((k, form.width), (v, form.width_v))]  # fmt: skip
        OUT = form.array(out, (splits, batch, m, heads_kv, group, form.width_v), form.result, aligned=True)
        LSE = form.array(lse, (splits, batch, m, heads_kv, group, 1), "float32")
        LENGTHS = T.match_buffer(lengths, (batch,), "int32") if form.lengths else None
        PAGES = T.match_buffer(pages, (batch, T.int32()), "int32") if form.paged else None
        T.func_attr({"min_blocks": form.resident})
        ids = T.meta_var(T.cta_id([splits, parts * heads_kv, batch]))
        role, warp, lane = T.warpgroup_id([2]), T.warp_id_in_wg([4]), T.lane_id([32])
        thread = T.thread_id_in_wg([128])
        pool = T.SMEMPool()
        queries = swizzled(pool, (ROWS, form.width), form.kind)
        near = T.meta_var([swizzled(pool, (form.stages, form.keys, wide), form.kind)
                           for wide in (form.width, form.width_v)])  # fmt: skip
        rings = T.meta_var([T.Pipeline(pool, form.stages, consumers=4) for _ in "kv"])
        rings[1].ready()
        if form.lengths:
            T.ptx.griddepcontrol.wait()
        many: T.let = LENGTHS[ids[2]] if form.lengths else n
        place = T.meta_var(DecodePlace(form, ids, (m, group, many), (left, right), splits))
        if not form.lengths:
            ask(form, (K, V), place, role * 128 + thread)
            T.ptx.griddepcontrol.wait()

        with T.WarpgroupRole(role, 0, COPIES):
            if warp == 0:
                bring_all(form, near, (K, V, PAGES), rings, place, lane)
                T.ptx.griddepcontrol.launch_dependents()
        with T.WarpgroupRole(role, 1, PRODUCTS, increase=True):
            work(form, near, rings, queries, (Q, OUT, LSE), place, (scale, bend, cap))

    return tw.compile(attention_decode, target="sm_90a", fast_math=True)


@cache
def combine(kind: str, width: int, most: int) -> tw.Executable:
    """Results of several parts of the keys become one. most: at most as many parts, a power of two."""
    warps, vector = min(most, 4), math.gcd(width // 32, 4)
    spread = TileLayout(S[(most // warps, warps, width // 32 // vector, 32, vector) :
                          (width // 32, 32 @ tx, vector, 1 @ tx, 1)])  # fmt: skip
    levels_of = TileLayout(S[(most // warps, warps, 1) : (1, 32 @ tx, 1)] + R[32 : 1 @ tx])

    @T.prim_func
    def attention_combine(parts: T.handle, levels: T.handle, out: T.handle, lse: T.handle):
        splits, batch, heads, m = T.int32(), T.int32(), T.int32(), T.int32()
        PARTS = T.match_buffer(parts, (splits, batch, heads, m, width), "float32",
                               strides=(*[T.int64() for _ in "sbhm"], 1))  # fmt: skip
        LEVELS = T.match_buffer(levels, (splits, batch, heads, m), "float32")
        OUT = T.match_buffer(out, (batch, heads, m, width), kind, strides=(*[T.int64() for _ in "bhm"], 1))
        LSE = T.match_buffer(lse, (batch, heads, m), "float32")
        row, head, b = T.cta_id([m, heads, batch])
        T.thread_id([32 * warps])
        T.ptx.griddepcontrol.launch_dependents()
        T.ptx.griddepcontrol.wait()
        part = T.alloc_local((most, width), "float32", layout=spread)
        level = T.alloc_local((most, 1), "float32", layout=levels_of)
        Tx.cta.copy(part, PARTS[0:most, b, head, row, :], fill=0)
        Tx.cta.copy(level[:, 0], LEVELS[0:most, b, head, row], fill=-T.infinity("float32"))
        largest = T.max(level, axis=0, keepdims=True)
        base = T.select(largest > -T.infinity("float32"), largest, 0.0)
        level[:] = T.exp(level - base)
        total = T.sum(level, axis=0, keepdims=True)
        level[:] = level * T.select(total > 0.0, 1.0 / total, 0.0)
        whole = T.sum(part * level, axis=0)
        Tx.cta.copy(OUT[b, head, row, :], whole)
        level[:] = base + T.log(total)
        Tx.cta.copy(LSE[b, head, row, None], level[0:1, 0])

    return tw.compile(attention_combine, target="sm_90a", fast_math=True)


@cache
def append(kind: str, width: int, width_v: int, *, paged: bool) -> tw.Executable:
    """New keys and values go to the places behind those that a sequence has; ``after``: how many it then has."""

    @T.prim_func
    def attention_append(k: T.handle, v: T.handle, new_k: T.handle, new_v: T.handle, lengths: T.handle, pages: T.handle,
                         after: T.handle):  # fmt: skip
        batch, heads, caches, rows, m = [T.int32() for _ in range(5)]
        K, V = [T.match_buffer(x, (caches, heads, rows, wide), kind, strides=(*[T.int64() for _ in "bhs"], 1))
                for x, wide in ((k, width), (v, width_v))]  # fmt: skip
        NEW_K, NEW_V = [T.match_buffer(x, (batch, heads, m, wide), kind, strides=(*[T.int64() for _ in "bhs"], 1))
                        for x, wide in ((new_k, width), (new_v, width_v))]  # fmt: skip
        LENGTHS, AFTER = T.match_buffer(lengths, (batch,), "int32"), T.match_buffer(after, (batch,), "int32")
        PAGES = T.match_buffer(pages, (batch, T.int32()), "int32") if paged else None
        row, head, b = T.cta_id([m, heads, batch])
        thread = T.thread_id([32])
        T.ptx.griddepcontrol.wait()
        at: T.let = LENGTHS[b] + row
        if row == 0 and head == 0 and thread == 0:
            AFTER[b] = at + m
        room: T.let = rows * PAGES.shape[1] if paged else rows
        if at < room:
            which: T.let = PAGES[b, at // rows] if paged else b
            Tx.cta.copy(K[which, head, at % rows, :], NEW_K[b, head, row, :])
            Tx.cta.copy(V[which, head, at % rows, :], NEW_V[b, head, row, :])

    return tw.compile(attention_append)


# The operators

MOST_SPLITS = 128
TILES = {320: (64, 2), 448: (32, 2), 512: (32, 1)}
"""Keys of a tile and CTAs of a multiprocessor, by the elements of a key and its value at most. A product of 256 columns
needs more registers than threads of two CTAs may have.
"""
SPLITS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)


@dataclass(frozen=True, slots=True)
class DecodeCosts:
    """Times of a multiprocessor, in those in which it gets a tile of keys and values while all others get some.

    alone: of a tile, where only one CTA of the GPU works; crowded: where only those of one multiprocessor do. begun:
    what each CTA costs beside its tiles. combined: what the second kernel costs. uneven: how much later the
    last one ends than others, as a part of what it does. The numbers choose what was within 2 % of the fastest on an
    H200 (2026-11-28, `benchmarks.gpu.tune_attention`).
    """

    alone: float = 0.3
    crowded: float = 0.3
    begun: float = 1.5
    combined: float = 1.5
    uneven: float = 0.02

    def of(self, splits: int, works: int, tiles: int, processors: int, resident: int) -> float:
        """Of so many parts. works: tiles of rows. tiles: of keys. resident: CTAs of a multiprocessor at once."""
        ctas, share = works * splits, -(-tiles // splits)
        busiest = -(-ctas // processors) * share
        reading = max(works * tiles / processors, self.crowded * busiest, self.alone * share)
        started = self.begun * -(-ctas // (processors * resident))
        return reading + started + self.combined * (splits > 1) + self.uneven * share


COSTS = DecodeCosts()


@cache
def chosen_splits(works: int, tiles: int, processors: int, resident: int, costs: DecodeCosts) -> int:
    """In how many parts the keys are divided: those that cost the least."""
    return min((n for n in SPLITS if n <= max(1, tiles)),
               key=lambda n: costs.of(n, works, tiles, processors, resident))  # fmt: skip


def as_rows(array: Array, heads_kv: int) -> Array:
    """(..., heads, queries, width) as (..., queries, heads of keys, heads of a group, width)."""
    *outer, heads, m, width = array.shape
    return array.reshape(*outer, heads_kv, heads // heads_kv, m, width).swapaxes(-4, -2).swapaxes(-3, -2)


def outputs(
    q: Array, k: Array, v: Array, lengths: Array, pages: Array, layout: str, splits: int, longest: int, left: int,
    right: int, scale: float | None, softcap: float,
) -> Arrays:  # fmt: skip
    check_dimensions(layout, KINDS, q=q, k=k, v=v)
    check_softcap(softcap)
    if not 0 <= splits <= MOST_SPLITS:
        raise ArgumentError("no such number of parts", given=str(splits), allowed=f"1 to {MOST_SPLITS}, 0 to choose")
    window_of("", left, right, alike=False)
    expect("q", q, KINDS)
    for name, array in (("q", q), ("k", k), ("v", v)):
        expect(name, array, (kind_of(q),))
    check_widths_and_heads(layout, q, k, v, paged=pages is not None)
    batch, heads, m = upright(q, layout).shape[:3]
    if lengths is not None:
        expect("lengths", lengths, ("int32",), shape=(batch,))
    if pages is not None:
        expect("pages", pages, ("int32",))
        if lengths is None or len(pages.shape) != 2 or pages.shape[0] != batch:
            raise ArgumentError("the pages do not fit", given=f"shape {tuple(pages.shape)}, "
                                f"{'no lengths' if lengths is None else 'lengths'}",
                                allowed=f"({batch}, pages of a sequence), and lengths")  # fmt: skip
    return like(q, (*q.shape[:-1], v.shape[-1])), like(q, (batch, heads, m), "float32")


def run(results: Arrays, *args: Any) -> Launches:
    q, k, v, lengths, pages, layout, splits, longest, left, right, scale, softcap = args
    out, lse = results
    if 0 in lse.shape:
        return
    if 0 in k.shape or (pages is not None and 0 in pages.shape):
        filled(out, 0)
        filled(lse, -math.inf)
        return
    q, k, v = (laid_out(upright(array, layout)) for array in (q, k, v))
    (batch, heads, m, width), (_, heads_kv, rows, _) = q.shape, k.shape
    scale = width**-0.5 if scale is None else scale
    group, bent = min(ROWS, 1 << (heads // heads_kv - 1).bit_length()), softcap != 0 or scale <= 0
    keys, resident = next(sizes for most, sizes in TILES.items() if width + v.shape[3] <= most)
    parts = -(-m // (ROWS // group)) * -(-heads // heads_kv // group)
    longest = longest or (rows if pages is None else rows * pages.shape[1])
    works, tiles = parts * heads_kv * batch, -(-longest // keys)
    splits = splits or chosen_splits(works, tiles, multiprocessors(q), resident, COSTS)
    form = DecodeKind(
        kind_of(q), "float32" if splits > 1 else kind_of(q), width, v.shape[3], group,
        keys if pages is None else math.gcd(rows, keys), keys, resident, pages is not None, lengths is not None,
        left != EVERYWHERE, right != EVERYWHERE, bent, softcap != 0,
    )  # fmt: skip
    if splits > 1:
        into = like(q, (splits, batch, heads, m, v.shape[3]), "float32")
        levels = like(q, (splits, batch, heads, m), "float32")
    else:
        into, levels = upright(out, layout)[None], lse[None]
    bend = scale / (softcap or 1.0) if bent else 1.0
    yield decode(form), (
        as_rows(q, heads_kv), k, v, as_rows(into, heads_kv), as_rows(levels[..., None], heads_kv),
        0 if lengths is None else lengths, pages if form.paged else 0, splits, parts,
        (1.0 if bent else scale) * math.log2(math.e), bend, softcap or 1.0, left, right,
    )  # fmt: skip
    if splits > 1:
        most = 1 << (splits - 1).bit_length()
        yield combine(kind_of(out), v.shape[3], most), (into, levels, upright(out, layout), lse)


def run_append(results: Arrays, *args: Any) -> Launches:
    k, v, new_k, new_v, lengths, pages, layout = args
    k, v, new_k, new_v = (upright(array, layout) for array in (k, v, new_k, new_v))
    kernel = append(kind_of(k), k.shape[3], v.shape[3], paged=pages is not None)
    yield kernel, (k, v, new_k, new_v, lengths, 0 if pages is None else pages, results[0])


def lengths_after(k: Array, v: Array, new_k: Array, new_v: Array, lengths: Array, pages: Array, layout: str) -> Arrays:
    if lengths is None:
        raise ArgumentError("new keys come behind those that a sequence has", given="no lengths",
                            allowed="lengths, int32, how many keys each sequence has before")  # fmt: skip
    batch = lengths.shape[0]
    for name, array, held in (("new_k", new_k, k), ("new_v", new_v, v)):
        expect(name, array, (kind_of(k),))
        sizes, of_cache = tuple(upright(array, layout).shape), upright(held, layout).shape
        if len(sizes) != 4 or sizes[0] != batch or sizes[1] != of_cache[1] or sizes[3] != of_cache[3]:
            raise ArgumentError(f"{name} does not fit", given=f"shape {tuple(array.shape)}",
                                allowed=f"those of the cache, {tuple(held.shape)}, for {batch} sequences")  # fmt: skip
    return (like(lengths),)


APPEND = TorchOperator(
    "attention_append",
    "(Tensor(a!) k, Tensor(b!) v, Tensor new_k, Tensor new_v, Tensor lengths, Tensor? pages, str layout) -> Tensor",
    lengths_after,
    run_append,
    mutates=("k", "v"),
)
FORWARD = TorchOperator(
    "attention_decode",
    "(Tensor q, Tensor k, Tensor v, Tensor? lengths, Tensor? pages, str layout, int splits, int longest, int left,"
    " int right, float? scale, float softcap) -> (Tensor, Tensor)",
    outputs,
    run,
    runs_on_nothing=True,
)


def _check_cache(k: Array, lengths: Array, pages: Array, layout: str, more: int) -> None:
    """Raises ArgumentError for keys beyond the cache, where lengths and pages lie on the host; on a GPU nobody looks.

    more: keys that each sequence gets besides.
    """
    if not isinstance(lengths, np.ndarray) or lengths.ndim != 1 or not lengths.size or len(k.shape) != 4:
        return
    rows = upright(k, layout).shape[2]
    paged = isinstance(pages, np.ndarray) and pages.ndim == 2
    room, most = rows * (pages.shape[1] if paged else 1), int(lengths.max()) + more
    if int(lengths.min()) < 0 or most > room:
        raise ArgumentError(
            "the cache has no room for these keys", given=f"{most} keys of a sequence", allowed=f"0 to {room}"
        )
    for sequence, length in enumerate(lengths if paged else ()):
        used = pages[sequence, : -(-(int(length) + more) // max(rows, 1))]
        if used.size and not 0 <= used.min() <= used.max() < k.shape[0]:
            raise ArgumentError("there is no such page", given=f"{used.tolist()} of sequence {sequence}",
                                allowed=f"0 to {k.shape[0] - 1}")  # fmt: skip


@public
def attention_decode(
    q: Array, k: Array, v: Array, *, lengths: Array = None, pages: Array = None, new_k: Array = None,
    new_v: Array = None, causal: bool | str = False, window: tuple[int, int] | None = None,
    scale: float | None = None, softcap: float = 0.0, lse: bool = False, layout: str = "bhsd", longest: int = 0,
    splits: int = 0,
) -> Any:  # fmt: skip
    """Attention of the last queries of sequences to a cache of keys and values; options as those of `attention`.

    q: (B, H, S_q, D), for which few queries, 1 to 16, are usual. k: (B, H_kv, S, D). v: (B, H_kv, S, D_v). float16 or
    bfloat16, H a multiple of H_kv; layout "bshd": (B, S, H, D), of caches, too. lengths: (B,) int32, how many keys each
    sequence has in the cache; all, if left out. pages: (B, P) int32, where its keys are; k and v are then (pages, H_kv,
    rows of a page, D), of any number of rows. A sequence uses as many entries as its keys take.

    new_k, new_v: (B, H_kv, S_new, D) are first stored to the cache behind those that there are, and count as well.
    causal: the last query and the last key are beside each other: "bottom-right", or True. longest: no sequence has
    more keys; what the cache has room for if left out. splits: in how many parts keys are divided; chosen if 0.
    Nothing reads lengths and pages on the host, so that a graph may change them.

    Raises ArgumentError for arrays that do not fit.
    """
    if layout not in ("bhsd", "bshd"):
        raise ArgumentError("no such layout", given=repr(layout), allowed=choices(layout, ("bhsd", "bshd")))
    if causal not in (False, True, "bottom-right"):
        raise ArgumentError("no such alignment", given=f"causal={causal!r}", allowed='False, True, "bottom-right"')
    if (new_k is None) != (new_v is None):
        raise ArgumentError("new_k and new_v come together", given="one of them", allowed="both or none")
    left, right = (EVERYWHERE, EVERYWHERE) if window is None else window
    _check_cache(k, lengths, pages, layout, 0 if new_k is None else upright(new_k, layout).shape[2])
    if new_k is not None:
        lengths = APPEND(k, v, new_k, new_v, lengths, pages, layout)
    results = FORWARD(q, k, v, lengths, pages, layout, splits, longest, left, 0 if causal else right, scale, softcap)
    return results if lse else results[0]
