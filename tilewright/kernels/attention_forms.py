"""Variants of attention's kernel: which keys a query sees, tiles, and the parts that all variants share, used while the
kernel is parsed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import tilewright as tw
from tilewright.dtypes import dtype
from tilewright.isa import ARCHS
from tilewright.kernels.forms import SWIZZLES, strided
from tilewright.lang import T, Tx
from tilewright.layout import R, S, TileLayout, tid_in_wg, wgmma_fragment

HAND_OVER, STORE = 6, 10  # the first of the named barriers of warpgroups that write to shared memory
ROWS = 64  # queries of a warpgroup
SHARED_BYTES, BARRIER_BYTES = ARCHS["sm_90"].shared_bytes, 1024  # of a CTA; for barriers
REGISTERS = {1: (None, None), 2: (40, 232), 3: (32, 160)}  # by groups: of a thread that copies, of one that multiplies
ROW = TileLayout(S[(4, 2, 8) : (32 @ tid_in_wg, 1, 4 @ tid_in_wg)] + R[4 : 1 @ tid_in_wg])
"""One number for each row of a warpgroup's scores."""
LANES = TileLayout(S[(4, 2, 8, 4) : (32 @ tid_in_wg, 1, 4 @ tid_in_wg, 1 @ tid_in_wg)])
"""One for each of the four lanes that share a row."""


def packed_sequence(starts: Any, which: Any) -> tuple[Any, Any, Any, Any]:
    """Where a packed sequence begins, among queries and among keys, and its lengths. starts: of both, or of either."""
    firsts, lasts = [start[which] for start in starts], [start[which + 1] for start in starts]
    return firsts[0], firsts[-1], lasts[0] - firsts[0], lasts[-1] - firsts[-1]


def quotient(number: Any, by: Any) -> Any:
    """A quotient of numbers that are not below 0: half of the instructions of others. `Any`: values of the language."""
    return T.cast(T.cast(number, "uint32") // T.cast(by, "uint32"), "int32")


def slot_of(start: Any, sequence: Any, queries: int) -> Any:
    """The first of the tiles of a packed sequence, if each sequence has one more than it needs at most."""
    return start // queries + sequence


@T.inline
def find_sequence(place, starts, part, queries):
    """Which packed sequence has a tile: the last one whose tiles do not begin behind it."""
    end = T.local_scalar("int32")
    place.batch = 0
    end = starts.shape[0] - 1
    while end - place.batch > 1:
        half: T.let = (place.batch + end) // 2
        if slot_of(starts[half], half, queries) <= part:
            place.batch = half
        else:
            end = half


def swizzled(pool: Any, shape: tuple[int, ...], kind: str) -> Any:
    """Tiles in shared memory, with the widest swizzle that their rows have. `Any`: values of the language."""
    row = shape[-1] * dtype(kind).bits // 8
    return pool.alloc_mma(shape, kind, SWIZZLES[next(nbytes for nbytes in (128, 64, 32) if row % nbytes == 0)])


@dataclass(frozen=True, slots=True)
class AttentionTiles:
    """groups: warpgroups of a CTA, with 64 queries each. keys: of a stage. turns: do the groups take turns at the
    tensor cores? cluster: CTAs that share the stages, each with other queries of a head. dynamic: are tiles drawn from
    a counter? stages: of the rings of keys and of values. shared_weights: do the tensor cores read the weights in
    shared memory, instead of in registers?
    """

    groups: int = 2
    keys: int = 128
    turns: bool = True
    cluster: int = 1
    dynamic: bool = False
    stages: int = 2
    shared_weights: bool = False

    @property
    def queries(self) -> int:
        """Of a CTA."""
        return ROWS * self.groups


RAISED = 8.0
"""Weights of 8 bits count 2^8 times as much: they are at most 256, of at most 448, and small ones keep more bits."""


@dataclass(frozen=True, slots=True)
class AttentionKind:
    """kind: elements of q, k and v; result: those of out. width, width_v: elements of a query and of a value. first,
    last: has a query a first, a last key that it sees, beside those that there are? softcap: are scores bent? bias: the
    elements of what is added to the scores, "" where there is none. shaped: are scores scaled before anything else, as
    a scale below 0 asks for? packed: are sequences one after the other, in a batch of one?
    """

    kind: str
    result: str
    width: int
    width_v: int
    first: bool = False
    last: bool = False
    softcap: bool = False
    bias: str = ""
    shaped: bool = False
    packed: bool = False

    @property
    def narrow(self) -> bool:
        """Are queries, keys and values of 8 bits? Values then come turned, (batch, heads, width, keys)."""
        return self.kind == FLOAT8

    @property
    def raised(self) -> float:
        """To which power of 2 weights are raised."""
        return RAISED if self.narrow else 0.0

    def descales(self, pointers: tuple[Any, ...], batch: Any, heads: Any) -> list[Any]:
        """What 8-bit numbers of q, k and v are multiplied with, for each head of keys, with any strides."""
        if not self.narrow:
            return []
        return [T.match_buffer(x, (batch, heads), "float32", strides=(T.int64(), T.int64())) for x in pointers]

    def array(self, pointer: Any, shape: tuple[Any, ...], kind: str = "") -> Any:
        """An argument, (batch, heads, length, width), whose rows begin at multiples of 16 bytes."""
        return strided(pointer, shape, kind or self.kind)

    def turned(self, keys: Any) -> tuple[Any, Any]:
        """The dimensions of so many values."""
        return (self.width_v, keys) if self.narrow else (keys, self.width_v)

    def values(self, pointer: Any, shape: tuple[Any, ...]) -> Any:
        """The values, of (batch, heads, keys); turned ones may have more keys than there are."""
        *outer, keys = shape
        return self.array(pointer, (*outer, *self.turned(T.int32() if self.narrow else keys)))

    def added(self, pointer: Any, shape: tuple[Any, ...]) -> Any:
        """What is added to the scores, with any strides, 0 among them; None if nothing is."""
        steps = tuple(T.int64() for _ in shape) if self.bias else ()
        return T.match_buffer(pointer, shape, self.bias, strides=steps) if self.bias else None

    def sequences(self, starts_q: Any, starts_k: Any, batch: Any) -> tuple[Any, Any]:
        """How many there are, and where packed ones begin and end."""
        if not self.packed:
            return batch, ()
        ends = T.int32()
        return ends - 1, [T.match_buffer(pointer, (ends,), "int32") for pointer in (starts_q, starts_k)]

    @property
    def is_bent(self) -> bool:
        """Does anything happen to scores before they are weighed?"""
        return self.shaped or self.softcap or bool(self.bias)

    def shape(self, scores: Any, bias: Any, place: Any, below: Any, block: Any, bend: Any, cap: Any) -> None:
        """Scores, times ``bend``, go through cap tanh(x / cap), whose 1 / cap ``bend`` has; then comes the bias."""
        if self.is_bent:
            shape_scores(scores, bias, place, below, block, bend, cap)

    def near(self, pool: Any, shape: tuple[int, ...], kind: str = "") -> Any:
        """Tiles in shared memory."""
        return swizzled(pool, shape, kind or self.kind)

    def stage_bytes(self, tiles: AttentionTiles) -> tuple[int, ...]:
        """Of a tile of queries, of a stage of keys and of one of values."""
        nbytes = dtype(self.kind).bits // 8
        sizes = tiles.queries * self.width, tiles.keys * self.width, tiles.keys * self.width_v
        return tuple(size * nbytes for size in sizes)

    def has_room(self, tiles: AttentionTiles) -> bool:
        """Has shared memory room for results of its own? They take the place of their queries otherwise."""
        queries, keys, values = self.stage_bytes(tiles)
        results = tiles.queries * self.width_v * dtype(self.result).bits // 8
        results += tiles.queries * tiles.keys * dtype(self.kind).bits // 8 * tiles.shared_weights
        return queries + tiles.stages * (keys + values) + results + BARRIER_BYTES <= SHARED_BYTES


@T.meta_class
class AttentionPlace:
    """The tiles that a CTA has, one after the other: whose queries, ``batch`` and ``head``, from ``row`` on, and the
    ``steps`` through the keys, tile by tile backwards down to tile ``begin``.

    start_q, start_k: where a packed sequence begins. m, n: its lengths. shift: the key at which the window of query 0
    is aligned. `Any`: values of the language.
    """

    def __init__(
        self, form: AttentionKind, tiles: AttentionTiles, extents: Any, starts: Any, window: Any, walk: Any,
        queue: Any, descales: Any, *, draws: bool,
    ) -> None:  # fmt: skip
        self.form, self.tiles, self.starts = form, tiles, starts
        self.descales = () if draws else descales
        self.descale, self.descale_v = (T.local_scalar("float32") for _ in "kv") if self.descales else (1.0, 1.0)
        batch, self.heads, self.heads_kv, *self.lengths = extents
        slots = slot_of(self.lengths[0], batch, tiles.queries), self.heads
        parts = T.ceildiv(self.lengths[0], tiles.queries * tiles.cluster), batch * self.heads
        self.parts, rows = slots if form.packed else parts
        walked = ("tile", rows, self.parts, *walk)
        self.walk = (T.DynamicScheduler2D(*walked, queue=queue, draws=draws) if tiles.dynamic
                     else T.ClusterPersistentScheduler2D(*walked))  # fmt: skip
        self.left, self.right, self.bottom = window
        self.batch, self.head, self.row = (T.local_scalar("int32") for _ in "bhr")
        self.begin, self.steps, self.shift = (T.local_scalar("int32") for _ in "bss")
        self.start_q, self.start_k, self.m, self.n = (
            (T.local_scalar("int32") for _ in "qkmn") if form.packed else (0, 0, *self.lengths)
        )

    @property
    def start_v(self) -> Any:
        """Where the sequence's values begin."""
        return turned_start(self.start_k, self.batch) if self.form.narrow and self.form.packed else self.start_k

    def first(self, cluster: Any, rank: Any) -> None:
        """The first tile."""
        self.rank = rank
        self.walk.init(cluster)
        self._settle()
        skip_empty(self)

    def next(self) -> None:
        """The next tile."""
        self.walk.next_tile()
        self._settle()
        skip_empty(self)

    @property
    def at(self) -> Any:
        """The first dimension of the arrays."""
        return 0 if self.form.packed else self.batch

    @property
    def head_kv(self) -> Any:
        return quotient(self.head, quotient(self.heads, self.heads_kv))

    def _settle(self) -> None:
        every, part = self.walk.m_idx, self.walk.n_idx
        if self.form.last or self.form.packed:
            part = self.parts - 1 - part  # those with most keys begin first
        self.batch = quotient(every, self.heads)
        self.head = every - self.batch * self.heads
        if self.form.packed:
            find_sequence(self, self.starts[0], part, self.tiles.queries)
            self.start_q, self.start_k, self.m, self.n = packed_sequence(self.starts, self.batch)
            self.row = (part - slot_of(self.start_q, self.batch, self.tiles.queries)) * self.tiles.queries
        else:
            self.row = (part * self.tiles.cluster + self.rank) * self.tiles.queries
        if self.descales:
            which = T.min(self.batch, self.descales[0].shape[0] - 1)  # beyond the last tile, where no value counts
            descale_q, descale_k, descale_v = (scale[which, self.head_kv] for scale in self.descales)
            self.descale, self.descale_v = descale_q * descale_k, descale_v
        self.shift = (self.n - self.m) * self.bottom
        keys = self.tiles.keys
        end, first = self.n, 0
        if self.form.last:
            end = T.min(end, self.row + self.tiles.queries + self.shift + self.right)
        if self.form.first:
            first = T.max(self.row + self.shift - self.left, 0)
        self.steps = T.ceildiv(T.max(end, 1), keys)
        self.begin = T.min(first // keys, self.steps - 1)
        self.steps = self.steps - self.begin

    def scaled(self, scale: Any, bend: Any, cap: Any) -> tuple[Any, Any, Any]:
        """The numbers of `AttentionKind.shape` and of weights, for scores as the tensor cores give them."""
        if not self.descales:
            return scale, bend, cap
        return (scale, bend * self.descale, cap) if self.form.is_bent else (scale * self.descale, bend, cap)

    def is_inside(self, below: Any) -> Any:
        """Does a group's tile end before its packed sequence does? The copy engine knows the end of any other."""
        return self.row + below + ROWS <= self.m if self.form.packed else True

    def rows(self, array: Any, below: Any) -> Any:
        """The rows of a group's queries in an array."""
        first = self.start_q + self.row + below
        return array[self.at, self.head, first : first + ROWS, :]

    def hidden(self, below: Any) -> tuple[Any, Any]:
        """Of the steps after the first, how many must look which keys a group's queries see: at the beginning, and in
        the end. below: where in the tile the group's queries begin.
        """
        row, keys, more = self.row + below + self.shift, self.tiles.keys, self.steps - 1
        late, early = 0, 0
        if self.form.last:
            seen = T.max(T.min(self.n, row + self.right + 1), 0) // keys  # tiles that the last query sees all of
            late = T.min(T.max(self.begin + more - seen, 0), more)
        if self.form.first:
            first = T.ceildiv(T.max(row + ROWS - 1 - self.left, 0), keys)
            early = T.min(T.max(first - self.begin, 0), more - late)
        return late, early

    def sees(self, below: Any, block: Any) -> Any:
        """Of a tile of keys: does query i of a group see key j?"""
        first, row = block * self.tiles.keys, self.row + below + self.shift

        def seen(i: Any, j: Any) -> Any:
            mask = first + j < self.n
            if self.form.last:
                mask = mask & (first + j <= row + i + self.right)
            return mask & (first + j >= row + i - self.left) if self.form.first else mask

        return seen


@T.inline
def skip_empty(place):
    """Beyond tiles at the end of packed sequences that have no query."""
    if place.form.packed:
        while place.walk.valid() & (place.row >= place.m):
            place.walk.next_tile()
            place._settle()


def rings_of(pool: Any, tiles: AttentionTiles, counter: Any) -> tuple[list[Any], Any]:
    """The rings of queries, keys and values, and the queue of tiles, if they are drawn."""
    readers = 4 * tiles.groups
    queue = T.TileQueue(pool, T.match_buffer(counter, (1,), "int32"), readers) if tiles.dynamic else None
    pairs = [T.Pipeline(pool, tiles.stages, consumers=readers, cluster=tiles.cluster) for _ in "kv"]
    return [T.Pipeline(pool, 1, consumers=readers), *pairs], queue


@T.inline
def bring(near, far, put, place, block, start, turned=False):
    """Issue the copy of a tile of keys or values; each CTA of a cluster copies a part of it, for all of them."""
    ctas = T.meta_var(place.tiles.cluster)
    rows = T.meta_var(place.tiles.keys // ctas)
    part = T.meta_var(place.rank * rows)
    first = T.meta_var(start + block * place.tiles.keys + part)
    ours, theirs = T.meta_var(((slice(part, part + rows), slice(None)), (slice(first, first + rows), slice(None))))
    ours, theirs = T.meta_var((ours[::-1], theirs[::-1]) if turned else (ours, theirs))
    put.acquire()
    Tx.copy_async(near[(put.stage, *ours)], far[(place.at, place.head_kv, *theirs)],
                  mbar=put.full, cta_mask=2**ctas - 1 if ctas > 1 else None)  # fmt: skip
    put.advance()


@T.inline
def multiply(D, a, b, accum, turned):
    """Issue a product of a warpgroup."""
    T.ptx.wgmma.fence()
    Tx.wg.gemm_async(D, a, b, accum, transB=turned)
    T.ptx.wgmma.commit_group()


@T.inline
def leave(take):
    """The warp has read a stage, and goes on to the next."""
    take.release()
    take.advance()


@T.inline
def hand_over(weights, scores, shared, who):
    """The tensor cores get the weights: in registers, or by way of shared memory."""
    if weights.dtype == FLOAT8:
        as_float8(weights, scores)
    elif not shared:
        weights[:] = scores
    else:
        part = T.alloc_local(scores.shape, weights.dtype, layout=wgmma_fragment(*scores.shape))
        part[:] = scores
        T.cuda.warpgroup_sync(HAND_OVER + who)  # all warps' products have read the last ones
        Tx.wg.copy(weights, part)
        T.ptx.fence.proxy_async("shared::cta")
        T.cuda.warpgroup_sync(HAND_OVER + who)


@T.inline
def store_levels(out, place, below, part):
    """A warpgroup stores one number for each of its rows, of those that its sequence has."""
    many: T.let = place.m
    first: T.let = place.start_q
    row = T.meta_var(place.row + below)
    levels = T.decl_buffer((many, 1), data=out.ptr_to([place.at, place.head, first, 0]), strides=(1, 1))
    Tx.wg.copy(levels[row : row + 64, :], part, clip=True)


@T.inline
def store_rows(out, place, below, part, thread):
    """A warpgroup stores its rows from registers, two elements at a time, those that its sequence has."""
    mine, width = T.meta_var((part.local(), part.shape[1]))
    for half in T.unroll(2):
        row: T.let = place.row + below + thread // 32 * 16 + thread % 32 // 4 + 8 * half
        if row < place.m:
            for j in T.unroll(width // 8):
                for x in T.vectorized(2):
                    out[place.at, place.head, place.start_q + row, 8 * j + thread % 4 * 2 + x] = mine[
                        4 * j + 2 * half + x
                    ]


@T.inline
def store(out, place, below, slab, sums, who, warp, thread):
    """A warpgroup stores its results by way of a slab of shared memory, the last ones of a packed sequence directly."""
    part = T.alloc_local(sums.shape, out.dtype, layout=wgmma_fragment(*sums.shape))
    part[:] = sums
    if warp == 0 and T.ptx.elect_sync():
        T.ptx.cp_async.bulk.wait_group(0, read=True)  # the slab has been read
    T.cuda.warpgroup_sync(STORE + who)
    Tx.wg.copy(slab, part)
    T.ptx.fence.proxy_async("shared::cta")
    T.cuda.warpgroup_sync(STORE + who)
    if warp == 0 and T.ptx.elect_sync():
        if place.is_inside(below):
            Tx.copy_async(place.rows(out, below), slab)
        T.ptx.cp_async.bulk.commit_group()
    if place.form.packed and not place.is_inside(below):
        store_rows(out, place, below, part, thread)


@T.inline
def shape_scores(scores, bias, place, below, block, bend, cap):
    """`AttentionKind.shape`."""
    form = T.meta_var(place.form)
    scores[:] = scores * bend
    if form.softcap:
        scores[:] = T.tanh(scores) * cap
    if form.bias:
        part = T.alloc_local(scores.shape, form.bias, layout=wgmma_fragment(*scores.shape))
        row, column = T.meta_var((place.row + below, block * place.tiles.keys))
        Tx.wg.copy(part, bias[place.at, place.head, row : row + 64, column : column + scores.shape[1]], fill=0)
        scores[:] = scores + part


# What attention to 8-bit floats needs beside its kernel: values whose columns are contiguous.
#
# The tensor cores read 8-bit operands along what is summed over: here, along keys. A thread has the weights of keys 2
# t, 2 t + 1, 2 t + 8 and 2 t + 9 of each 16 (t: its number among the four that share a row), and gives them as those of
# keys 4 t to 4 t + 3 of a left operand in registers; so `turn` deals the keys of the values out in that order. A sum
# has no order, and no weight goes to another thread.


FLOAT8 = "float8_e4m3fn"
TURNED_KEYS = 64  # of a CTA: turned values have a multiple of these
RUN = 16  # keys that change places among each other
ORDER = [key + pair + 8 * half for key in range(0, 8, 2) for half in range(2) for pair in range(2)]
"""The keys that stand at the places of a run."""


@T.inline
def as_float8(weights, scores):
    """The operand of a thread's weights: of each 16 keys four for either of its two rows, two by one instruction."""
    pairs, mine = T.meta_var((weights.local().view("uint16"), scores.local()))
    for run in T.unroll(pairs.shape[0] // 4):
        for row in T.unroll(2):
            for half in T.unroll(2):
                first = T.meta_var(8 * run + 4 * half + 2 * row)
                pairs[4 * run + 2 * row + half] = T.ptx.cvt.pair(
                    mine[first + 1], mine[first], "e4m3x2", "f32", "rn", finite=True
                )


def turned_start(start: Any, sequence: Any) -> Any:
    """Where a packed sequence's turned values begin: at a multiple, behind those of all sequences before."""
    return (start // TURNED_KEYS + sequence) * TURNED_KEYS


@cache
def turn(width: int, *, packed: bool = False) -> tw.Executable:
    """Values, (batch, heads, n, width), become (batch, heads, width, n) in the keys' new order, with zeros behind.

    Those of packed sequences, of a batch of one, begin where `turned_start` says.
    """
    threads = 128
    padded = TileLayout(S[(TURNED_KEYS, width) : (width + 16, 1)])

    @T.prim_func
    def attention_turn(values: T.handle, turned: T.handle, starts: T.handle):
        batch, heads, n, more = T.int32(), T.int32(), T.int32(), T.int32()
        steps = [T.int64() for _ in "bhn"]
        VALUES = T.match_buffer(values, (batch, heads, n, width), FLOAT8, strides=(*steps, 1))
        TURNED = T.match_buffer(turned, (batch, heads, width, more), FLOAT8)
        STARTS = T.match_buffer(starts, (T.int32(),), "int32") if packed else None
        for step in steps:
            T.assume(step % 16 == 0)
        T.assume(more % TURNED_KEYS == 0)
        part, head, b = T.cta_id([more // TURNED_KEYS, heads, batch])
        thread = T.thread_id([threads])
        near = T.alloc_shared((TURNED_KEYS, width), FLOAT8, layout=padded, align=16)
        T.ptx.griddepcontrol.wait()
        first: T.let = part * TURNED_KEYS
        if packed:
            which = T.local_scalar("int32")
            which = 0
            while (which < STARTS.shape[0] - 2) & (turned_start(STARTS[which + 1], which + 1) <= first):
                which = which + 1
            start: T.let = STARTS[which]
            many: T.let = STARTS[which + 1] - start
            rows = T.decl_buffer((many, width), FLOAT8, data=VALUES.ptr_to([0, head, start, 0]), strides=(steps[2], 1))
            row: T.let = first - turned_start(start, which)
            Tx.cta.copy(near, rows[row : row + TURNED_KEYS, :], fill=0)
        else:
            Tx.cta.copy(near, VALUES[b, head, first : first + TURNED_KEYS, :], fill=0)
        T.cuda.cta_sync()
        run = T.alloc_local((RUN,), FLOAT8)
        for turn in T.unroll(-(-width // threads)):
            column: T.let = turn * threads + thread
            if column < width:
                for key in T.unroll(0, TURNED_KEYS, RUN):
                    for place, offset in tuple(enumerate(ORDER)):
                        run[place] = near[key + offset, column]
                    Tx.copy(TURNED[b, head, column, first + key : first + key + RUN], run)

    return tw.compile(attention_turn)
