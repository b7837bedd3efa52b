"""What comes before and after the products of attention's gradients: sums of rows, and dQ from its float32 sums."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import e, gcd, log2
from typing import Any

import tilewright as tw
from tilewright.kernels.attention_forms import packed_sequence
from tilewright.kernels.forms import strided
from tilewright.lang import T, Tx
from tilewright.layout import R, S, TileLayout, tid_in_wg, tx, wgmma_fragment

LOG2E = log2(e)
LEAST = 1e-37  # a weight that is as good as none
AT_ONCE = 16  # columns of a bias
DS, FULL, EMPTY, STORE = 1, 2, 4, 7  # named barriers: dS is there; of each warpgroup, its part of dQ is there, or has
# been read, and its part of dK or dV is there


@dataclass(frozen=True, slots=True)
class BackwardKind:
    """kind: elements. d, dv: of a key and of a value, padded to tiles. queries, keys: of a tile. first, last: is a
    query's first, or last, key bounded? stages: of Q, of dO, and of dS. softcap: are scores bent? ordered: are
    the parts of dQ added in the order of the keys? bias: the elements of what is added to the scores, "" where there
    is none. packed: are sequences one after the other, in a batch of one?
    """

    kind: str
    d: int
    dv: int
    queries: int
    keys: int = 128
    first: bool = False
    last: bool = False
    stages: tuple[int, int, int] = (2, 2, 2)
    softcap: bool = False
    ordered: bool = False
    bias: str = ""
    packed: bool = False

    def array(self, pointer: Any, batch: Any, heads: Any, rows: Any, columns: Any) -> Any:
        """An argument whose rows begin at multiples of 16 bytes."""
        return strided(pointer, (1 if self.packed else batch, heads, rows, columns), self.kind)

    def result(self, pointer: Any, batch: Any, heads: Any, rows: Any, columns: Any) -> Any:
        """A result, without gaps."""
        return T.match_buffer(pointer, (1 if self.packed else batch, heads, rows, columns), self.kind)

    def by_rows(self, pointer: Any, batch: Any, heads: Any, rows: Any) -> Any:
        """An argument of one number for each query."""
        return T.match_buffer(pointer, (1 if self.packed else batch, heads, rows), "float32")

    def starts(self, pointers: tuple[Any, ...], batch: Any) -> list[Any]:
        """Where packed sequences of queries, and of keys, begin, and the last one ends."""
        return [T.match_buffer(pointer, (batch + 1,), "int32") for pointer in pointers] if self.packed else []

    def added(self, pointer: Any, batch: Any, heads: Any, keys: Any, queries: Any) -> Any:
        """What is added to the scores, turned as these are, with any strides; None if nothing is."""
        steps = tuple(T.int64() for _ in range(4)) if self.bias else ()
        return T.match_buffer(pointer, (batch, heads, keys, queries), self.bias, strides=steps) if self.bias else None

    def sees(self, key: Any, query: Any, n: Any, low: Any, high: Any) -> Any:
        """Is a key, of n, one of those that a query sees, from query + low to query + high?"""
        mask = key < n
        if self.first:
            mask = mask & (key >= query + low)
        return mask & (key <= query + high) if self.last else mask

    def is_cut(self, key: Any, query: Any, n: Any, low: Any, high: Any) -> Any:
        """Is there, from this key and this query of a warpgroup's tile on, a key that a query does not see?"""
        cut = key + 64 > n
        if self.first:
            cut = cut | (key < query + self.queries - 1 + low)
        return cut | (key + 63 > query + high) if self.last else cut

    @property
    def is_wide(self) -> bool:
        """Has one warpgroup S and dV, and the other dP and dK, or each all of these of half of the keys?"""
        return self.keys == 64

    @property
    def by_columns(self) -> TileLayout:
        """One number for each query of a warpgroup's scores, which are turned."""
        return TileLayout(S[(1, self.queries // 8, 4, 2) : (1, 2, 1 @ tid_in_wg, 1)]
                          + R[(4, 8) : (32 @ tid_in_wg, 4 @ tid_in_wg)])  # fmt: skip

    @property
    def part(self) -> tuple[int, int]:
        """Rows and columns of a piece of dQ that a warpgroup has: half of the rows, or all and some of the columns."""
        return (64, self.d) if self.queries == 128 else (64, min(64, self.d // 2))

    @property
    def pieces(self) -> int:
        """Of a warpgroup, one after the other."""
        return self.d // 2 // self.part[1] if self.queries == 64 else 1

    def place(self, who: Any, piece: int = 0, first: Any = 0) -> tuple[slice, slice]:
        """Where a piece lies, in a tile of dQ whose first row is given."""
        rows, columns = self.part
        down, right = (who * rows, 0) if self.queries == 128 else (0, (who * self.pieces + piece) * columns)
        return slice(first + down, first + down + rows), slice(right, right + columns)

    @property
    def sums(self) -> tuple[int, ...]:
        """The shape of a tile of the sums of dQ: for each warpgroup the runs of its threads, of four numbers."""
        return 2, self.pieces * self.part[1] // 8, 128, 4


@T.meta_class
class BackwardPlace:
    """A sequence, ``batch``: its dimension ``at`` of the arrays, where it begins there, and its lengths. low, high: the
    first and the last key that query 0 sees. `Any`: values of the language.
    """

    def __init__(self, form: BackwardKind, starts: list[Any], batch: Any, m: Any, n: Any) -> None:
        self.form, self.batch, self.at = form, batch, 0 if form.packed else batch
        self.start_q, self.start_k, self.m, self.n = (0, 0, m, n)
        if form.packed:
            self.start_q, self.start_k, self.m, self.n = (T.local_scalar("int32") for _ in "qkmn")
            self.start_q, self.start_k, self.m, self.n = packed_sequence(starts, batch)

    def first_of(self, i: Any, low: Any) -> Any:
        """The first tile of keys that some query of tile i sees."""
        return T.max(i * self.form.queries + low, 0) // self.form.keys if self.form.first else 0


@T.inline
def multiply(D, A, B, accum, turn_a=False, turn_b=False):
    """Issue a product of a warpgroup."""
    T.ptx.wgmma.fence()
    Tx.wg.gemm_async(D, A, B, accum, transA=turn_a, transB=turn_b)
    T.ptx.wgmma.commit_group()


@T.inline
def put(form, near, dq, who, thread, is_first):
    """A warpgroup's piece of dQ goes to shared memory, where the last one has been read."""
    mine = T.meta_var(dq.local())
    if not is_first:
        T.ptx.bar.sync(EMPTY + who, 160)
    for j in T.unroll(form.part[1] // 8):
        for x in T.vectorized(4):
            near.dq[who, j, thread, x] = mine[4 * j + x]


@T.inline
def show(who):
    """The piece of dQ is there."""
    T.ptx.fence.proxy_async("shared::cta")
    T.ptx.bar.arrive(FULL + who, 160)


@T.inline
def hand_over(form, near, dq, who, thread, is_first):
    """A warpgroup's piece of dQ goes to shared memory, and on from there."""
    put(form, near, dq, who, thread, is_first)
    show(who)


@T.inline
def store(form, place, array, head, key, sums, slab, who, thread):
    """A warpgroup stores the sums of 64 keys by way of shared memory, the last ones of a packed sequence directly."""
    part = T.alloc_local(sums.shape, array.dtype, layout=wgmma_fragment(*sums.shape))
    part[:] = sums
    is_inside = T.meta_var(key + 64 <= place.n if form.packed else True)
    T.ptx.bar.sync(DS, 256)  # nobody reads keys and values any more
    Tx.wg.copy(slab, part)
    T.ptx.fence.proxy_async("shared::cta")
    T.cuda.warpgroup_sync(STORE + who)
    if thread == 0:
        if is_inside:
            first: T.let = place.start_k + key
            Tx.copy_async(array[place.at, head, first : first + 64, 0 : sums.shape[1]], slab)
        T.ptx.cp_async.bulk.commit_group()
        T.ptx.cp_async.bulk.wait_group(0, read=True)
    if form.packed and not is_inside:
        mine = T.meta_var(part.local())
        for half in T.unroll(2):
            row: T.let = key + thread // 32 * 16 + thread % 32 // 4 + 8 * half
            for j in T.unroll(sums.shape[1] // 8):
                column: T.let = 8 * j + thread % 4 * 2
                if (row < place.n) & (column < array.shape[3]):
                    for x in T.vectorized(2):
                        array[place.at, head, place.start_k + row, column + x] = mine[4 * j + 2 * half + x]


@T.inline
def add_bias(form, tile, bias, mine, key, query, factor):
    """The bias of a tile, times a factor, is added; few columns at a time, as registers are scarce."""
    array, head = T.meta_var(bias)
    many = T.meta_var(AT_ONCE // 2 if form.is_wide else AT_ONCE)
    part = T.alloc_local((64, many), form.bias, layout=wgmma_fragment(64, many))
    for j in tuple(range(0, form.queries, many)):
        first = T.meta_var(query + j)
        Tx.wg.copy(part, array[mine.at, head, key : key + 64, first : first + many], fill=0)
        tile[:, j : j + many] = tile[:, j : j + many] + part * factor


@T.inline
def weigh(form, s, level, seen, numbers):
    """Scores become weights."""
    (mine, bias, key, query, low, high), (c, bend) = T.meta_var(seen), T.meta_var(numbers)
    bent = T.meta_var((T.tanh(s * bend) if form.softcap else s) * c)
    if form.bias:
        s[:] = bent - level
        add_bias(form, s, bias, mine, key, query, LOG2E)
        s[:] = T.exp2(s)
    else:
        s[:] = T.exp2(bent - level)
    if form.is_cut(key, query, mine.n, low, high):
        Tx.wg.select(s, s, 0.0, lambda i, j: form.sees(key + i, query + j, mine.n, low, high))  # 0, whatever the score


@T.inline
def slopes(form, ds, s, dp, delta_of, level, seen, c):
    """dS = P * (dP - Delta), times 1 - tanh^2 of bent scores: a weight tells of which score it is."""
    ds[:] = s * (dp - delta_of)
    if form.softcap:
        dp[:] = T.log2(T.max(s, LEAST)) + level  # where there is a weight
        if form.bias:
            add_bias(form, dp, seen[1], seen[0], seen[2], seen[3], -LOG2E)
        dp[:] = T.min(dp * (1.0 / c), 1.0)  # tanh
        ds[:] = ds * (1.0 - dp * dp)


def by_octets(form: BackwardKind) -> tuple[TileLayout, TileLayout]:
    """Rows of O in the registers of 256 threads, 8 columns at a time, and a number for each row."""
    lanes, rows = gcd(form.dv // 8, 32), form.queries  # lanes: of a row
    high = 256 // lanes
    held = S[(rows // high, high, form.dv // 8 // lanes, lanes, 8) : (form.dv // lanes, lanes @ tx, 8, 1 @ tx, 1)]
    return TileLayout(held), TileLayout(S[(rows // high, high, 1) : (1, lanes @ tx, 1)] + R[lanes : 1 @ tx])


@cache
def prepare(form: BackwardKind, has_slope: bool = False, *, clears: bool = True) -> tw.Executable:
    """Delta and LSE of each query in base 2, and zeros for the sums of dQ. has_slope: has LSE a slope of its own, dlse?
    clears: are there such sums?

    As dS = P (dP - sum(dO * O) + dLSE), it is taken off Delta.
    """
    rows, (held, layout) = form.queries, by_octets(form)

    @T.prim_func
    def attention_prepare(o: T.handle, do: T.handle, lse: T.handle, dlse: T.handle, starts_q: T.handle, lse2: T.handle,
                          delta: T.handle, sums: T.handle, turns: T.handle):  # fmt: skip
        batch, heads, m, dv, tiles = [T.int32() for _ in range(5)]
        OUT, DO = [form.array(x, batch, heads, m, dv) for x in (o, do)]
        LSE = form.by_rows(lse, batch, heads, m)
        DLSE = form.by_rows(dlse, batch, heads, m) if has_slope else None
        starts = T.meta_var(form.starts((starts_q,), batch))
        LSE2, DELTA = [T.match_buffer(x, (batch, heads, tiles, rows), "float32") for x in (lse2, delta)]
        SUMS = T.match_buffer(sums, (batch, heads, tiles, rows * form.d), "float32") if clears else None
        TURNS = T.match_buffer(turns, (batch, heads, tiles, 2), "int32") if form.ordered else None
        T.assume(dv % 8 == 0)
        (tile, head, b), thread = T.cta_id([tiles, heads, batch]), T.thread_id([256])
        place = BackwardPlace(form, starts, b, m, m)
        first: T.let = tile * rows
        row: T.let = place.start_q + first
        x, y = [T.alloc_local((rows, form.dv), form.kind, layout=held) for _ in "xy"]
        both = T.alloc_local((rows, form.dv), "float32", layout=held)
        Tx.cta.copy(x, OUT[place.at, head, row : row + rows, 0 : form.dv], fill=0)
        Tx.cta.copy(y, DO[place.at, head, row : row + rows, 0 : form.dv], fill=0)
        both[:] = x * y
        total = T.alloc_local((rows, 1), "float32", layout=layout)
        total[:] = T.sum(both, axis=1, keepdims=True)
        if has_slope:
            slope = T.alloc_local((rows, 1), "float32", layout=layout)
            Tx.cta.copy(slope[:, 0], DLSE[place.at, head, row : row + rows], fill=0)
            total[:] = total - slope
        DELTA[b, head, tile, :] = total[:, 0]
        if clears:
            Tx.cta.fill(SUMS[b, head, tile, :], 0.0)
        if form.ordered and thread < 2:
            TURNS[b, head, tile, thread] = 0
        if thread < rows:
            level: T.float32 = T.infinity("float32")  # so that a query past the end has no weights
            if first + thread < place.m:
                level = LSE[place.at, head, row + thread] * LOG2E
            LSE2[b, head, tile, thread] = T.select(level == -T.infinity("float32"), 0.0, level)

    return tw.compile(attention_prepare, target="sm_90a")


@cache
def convert(form: BackwardKind) -> tw.Executable:
    """dQ of its sums: a thread has 8 columns of two rows at a time, which lie together in the order of the sums."""
    runs = form.sums[1]

    @T.prim_func
    def attention_convert(sums: T.handle, dq: T.handle, starts_q: T.handle, scale: T.float32):
        batch, heads, m, d, tiles = T.int32(), T.int32(), T.int32(), T.int32(), T.int32()
        SUMS = T.match_buffer(sums, (batch, heads, tiles, *form.sums), "float32")
        DQ = form.result(dq, batch, heads, m, d)
        T.assume(d % 8 == 0)
        starts = T.meta_var(form.starts((starts_q,), batch))
        (tile, head, b), thread = T.cta_id([tiles, heads, batch]), T.thread_id([256])
        place = BackwardPlace(form, starts, b, m, m)
        start: T.let = place.start_q
        many: T.let = place.m
        taken, part = T.alloc_local((16,), "float32"), T.alloc_local((2, 8), form.kind)
        for turn in T.unroll(64 * runs // 256):
            unit: T.let = turn * 256 + thread
            who, quad, run = T.meta_var((unit // (32 * runs), unit // runs % 32, unit % runs))
            for t in T.unroll(4):
                for x in T.vectorized(4):
                    taken[4 * t + x] = SUMS[b, head, tile, who, run, 4 * quad + t, x]
            rows, columns = T.meta_var(form.place(who, 0, tile * form.queries))
            column: T.let = columns.start + 8 * run
            for half in T.unroll(2):
                for x in T.unroll(8):
                    part[half, x] = taken[x // 2 * 4 + half * 2 + x % 2] * scale
                row: T.let = rows.start + quad // 8 * 16 + quad % 8 + 8 * half
                if (row < many) & (column < d):
                    Tx.copy(DQ[place.at, head, start + row, column : column + 8], part[half, :])

    return tw.compile(attention_convert, target="sm_90a")
