"""What comes before and after the products of attention's gradients: sums of rows, and dQ from its float32 sums."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import e, gcd, log2
from typing import Any

import tilewright as tw
from tilewright.lang import T, Tx
from tilewright.layout import R, S, TileLayout, tx, wgmma_fragment

__all__ = ["LOG2E", "BackwardKind", "convert", "prepare"]

LOG2E = log2(e)


@dataclass(frozen=True, slots=True)
class BackwardKind:
    """kind: elements. d, dv: of a key and of a value, padded to tiles. queries, keys: of a tile. first, last: is a
    query's first, or last, key bounded? stages: of Q and dO, and of dS. softcap: are scores bent? ordered: are
    the parts of dQ added in the order of the keys?
    """

    kind: str
    d: int
    dv: int
    queries: int
    keys: int = 128
    first: bool = False
    last: bool = False
    stages: tuple[int, int] = (2, 2)
    softcap: bool = False
    ordered: bool = False

    def array(self, pointer: Any, batch: Any, heads: Any, rows: Any, columns: Any) -> Any:
        """An argument whose rows begin at multiples of 16 bytes."""
        steps = [T.int64() for _ in range(3)]
        found = T.match_buffer(pointer, (batch, heads, rows, columns), self.kind, strides=(*steps, 1))
        for step in steps:
            T.assume(step % 8 == 0)
        return found

    def sees(self, key: Any, query: Any, n: Any, low: Any, high: Any) -> Any:
        """Is a key, of n, one of those that a query sees, from query + low to query + high?"""
        found = key < n
        if self.first:
            found = found & (key >= query + low)
        return found & (key <= query + high) if self.last else found

    @property
    def is_wide(self) -> bool:
        """Have both warpgroups all keys, and half of the columns of dK and dV each, or half of the keys?"""
        return self.keys == 64

    def rows(self, who: Any) -> Any:
        """The first of a warpgroup's keys, in a tile."""
        return 0 if self.is_wide else who * 64

    def columns(self, who: Any, width: int) -> tuple[slice, int]:
        """A warpgroup's columns of dK or dV, and how many."""
        return (slice(who * (width // 2), who * (width // 2) + width // 2), width // 2) if self.is_wide else (
            slice(0, width), width)  # fmt: skip

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


@cache
def prepare(form: BackwardKind, has_slope: bool = False) -> tw.Executable:
    """Delta and LSE of each query in base 2, and zeros for the sums of dQ. has_slope: has LSE a slope of its own, dlse?

    As dS = P (dP - sum(dO * O) + dLSE), it is taken off Delta.
    """
    lanes = gcd(form.dv // 8, 32)  # of a row
    rows = form.queries
    high = 256 // lanes
    held = TileLayout(S[(rows // high, high, form.dv // 8 // lanes, lanes, 8) :
                        (form.dv // lanes, lanes @ tx, 8, 1 @ tx, 1)])  # fmt: skip
    each = TileLayout(S[(rows // high, high, 1) : (1, lanes @ tx, 1)] + R[lanes : 1 @ tx])

    @T.prim_func
    def attention_prepare(o: T.handle, do: T.handle, lse: T.handle, dlse: T.handle, lse2: T.handle, delta: T.handle,
                          sums: T.handle, turns: T.handle):  # fmt: skip
        batch, heads, m, dv, tiles = T.int32(), T.int32(), T.int32(), T.int32(), T.int32()
        OUT, DO = [form.array(x, batch, heads, m, dv) for x in (o, do)]
        LSE = T.match_buffer(lse, (batch, heads, m), "float32")
        DLSE = T.match_buffer(dlse, (batch, heads, m), "float32") if has_slope else None
        LSE2, DELTA = [T.match_buffer(x, (batch, heads, tiles, rows), "float32") for x in (lse2, delta)]
        SUMS = T.match_buffer(sums, (batch, heads, tiles, rows * form.d), "float32")
        TURNS = T.match_buffer(turns, (batch, heads, tiles), "int32") if form.ordered else None
        T.assume(dv % 8 == 0)
        tile, head, b = T.cta_id([tiles, heads, batch])
        thread = T.thread_id([256])
        first: T.let = tile * rows
        x, y = [T.alloc_local((rows, form.dv), form.kind, layout=held) for _ in "xy"]
        both = T.alloc_local((rows, form.dv), "float32", layout=held)
        Tx.cta.copy(x, OUT[b, head, first : first + rows, 0 : form.dv], fill=0)
        Tx.cta.copy(y, DO[b, head, first : first + rows, 0 : form.dv], fill=0)
        both[:] = x * y
        total = T.alloc_local((rows, 1), "float32", layout=each)
        total[:] = T.sum(both, axis=1, keepdims=True)
        if has_slope:
            slope = T.alloc_local((rows, 1), "float32", layout=each)
            Tx.cta.copy(slope[:, 0], DLSE[b, head, first : first + rows], fill=0)
            total[:] = total - slope
        DELTA[b, head, tile, :] = total[:, 0]
        Tx.cta.fill(SUMS[b, head, tile, :], 0.0)
        if form.ordered and thread == 0:
            TURNS[b, head, tile] = 0
        if thread < rows:
            known: T.float32 = T.infinity("float32")  # so that a query past the end has no weights
            if first + thread < m:
                known = LSE[b, head, first + thread] * LOG2E
            LSE2[b, head, tile, thread] = T.select(known == -T.infinity("float32"), 0.0, known)

    return tw.compile(attention_prepare, target="sm_90a")


@cache
def convert(form: BackwardKind) -> tw.Executable:
    """dQ of its sums."""

    @T.prim_func
    def attention_convert(sums: T.handle, dq: T.handle, scale: T.float32):
        batch, heads, m, d, tiles = T.int32(), T.int32(), T.int32(), T.int32(), T.int32()
        SUMS = T.match_buffer(sums, (batch, heads, tiles, *form.sums), "float32")
        DQ = form.array(dq, batch, heads, m, d)
        T.assume(d % 8 == 0)
        tile, head, b = T.cta_id([tiles, heads, batch])
        who, thread = T.warpgroup_id([2]), T.thread_id_in_wg([128])
        part = T.alloc_local(form.part, "float32", layout=wgmma_fragment(*form.part))
        mine = T.meta_var(part.local())
        runs = T.meta_var(form.part[1] // 8)
        for piece in tuple(range(form.pieces)):
            for j in T.unroll(runs):
                for i in T.vectorized(4):
                    mine[4 * j + i] = SUMS[b, head, tile, who, piece * runs + j, thread, i]
            part[:] *= scale
            rows, columns = T.meta_var(form.place(who, piece, tile * form.queries))
            Tx.wg.copy(DQ[b, head, rows, columns], part, clip=True)

    return tw.compile(attention_convert, target="sm_90a")
