"""How the rows of a matrix are dealt out to threads: the class of shapes that a kernel is compiled for.

A row of up to `MOST_KEPT` elements stays in the registers of a CTA, or of some lanes of a warp: it is read once and
written once, by accesses of up to 16 bytes, several of them on their way at a time. A longer row is gone through part
by part, and read again where it is needed again. What is outside of a row is neither read nor written, so that one
kernel serves all rows of nearly one length.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from tilewright.dtypes import dtype
from tilewright.ir.special import special
from tilewright.kernels.arrays import Array, info_of, kind_of, matrix
from tilewright.lang import T, Tx
from tilewright.layout import R, S, TileLayout, laneid, tx

__all__ = ["MOST_KEPT", "Rows", "blocks", "chosen", "dealt"]

ACCESS_BYTES = 16
MOST_KEPT = 32768  # elements of a row that stays in registers
# (elements of a row at most, threads that share it, CTAs that a multiprocessor must have room for if an element has two
# bytes, or four). A multiprocessor is to have 64 KB of rows on their way and more: as many CTAs as that takes.
TABLE = ((32, 4, 0, 0), (64, 8, 0, 0), (256, 16, 0, 0), (1024, 32, 0, 0), (2048, 128, 16, 0), (4096, 256, 8, 0),
         (8192, 512, 4, 0), (16384, 512, 2, 2), (MOST_KEPT, 1024, 1, 1))  # fmt: skip
WARPS = 4  # of a CTA, where each has rows of its own
PART = 16  # elements that a thread has of a part
BLOCK_THREADS, BLOCK_RUNS = 256, 2  # of an elementwise kernel: threads of a CTA, and accesses of each to each array


@dataclass(frozen=True, slots=True)
class Rows:
    """threads: that share a row. runs: accesses of each of them to a row, or to a part of it. vector: elements of an
    access. whole: are rows whole vectors? long: does a row have several parts? resident: CTAs that a multiprocessor
    must have room for, 0: any number. exact: are rows whole parts, so that nothing is outside?
    """

    threads: int
    runs: int
    vector: int
    whole: bool
    long: bool = False
    resident: int = 0
    exact: bool = False

    @property
    def by_warps(self) -> bool:
        """Each warp has rows of its own."""
        return self.threads <= 32

    @property
    def at_once(self) -> int:
        """Rows that a warp, or a CTA, has at a time."""
        return max(1, 32 // self.threads)

    @property
    def of_a_cta(self) -> int:
        """Rows that a CTA has at a time."""
        return WARPS * self.at_once if self.by_warps else 1

    @property
    def part(self) -> int:
        """Elements of a row, or of a part of it, that its threads hold."""
        return self.threads * self.runs * self.vector

    @property
    def scope(self) -> Any:
        """Whose tile calls they are. `Any`: a namespace of the language."""
        return Tx.warp if self.by_warps else Tx.cta

    # For kernels, while they are parsed

    def matrix(self, pointer: Any, shape: Sequence[Any], kind: str, pitch: Any) -> Any:
        """An argument whose rows are ``pitch`` elements apart."""
        align = min(ACCESS_BYTES, self.vector * dtype(kind).bits // 8)
        found = T.match_buffer(pointer, tuple(shape), kind, strides=(pitch, 1), align=align)
        T.assume(pitch % self.vector == 0)
        return found

    def line(self, pointer: Any, columns: Any, kind: str) -> Any:
        """An argument with one element for each column."""
        return T.match_buffer(pointer, (columns,), kind, align=min(ACCESS_BYTES, self.vector * dtype(kind).bits // 8))

    def numbers(self, pointer: Any, rows: Any, kind: str) -> Any:
        """An argument with one element for each row."""
        return T.match_buffer(pointer, (rows,), kind, align=dtype(kind).bits // 8)

    def first(self, ctas: Any, columns: Any) -> Any:
        """The first row of the calling warp or CTA, of so many CTAs."""
        if self.whole:
            T.assume(columns % self.vector == 0)
        if self.exact:
            T.assume(columns % self.part == 0 if self.long else columns == self.part)
        elif not self.long:
            T.assume(columns <= self.part)
        if self.resident:
            T.func_attr({"min_blocks": self.resident})
        cta = T.cta_id([ctas])
        warp = T.warp_id([WARPS if self.by_warps else self.threads // 32])
        T.lane_id([32])
        return cta * self.of_a_cta + warp * self.at_once if self.by_warps else cta

    def block(self, rows: Any, columns: Any) -> tuple[Any, Any]:
        """The row and the part of it that are the calling CTA's, where each CTA has one part of one row."""
        if not self.long:
            return self.first(rows, columns), 0
        parts = T.ceildiv(columns, self.part)
        cta = self.first(rows * parts, columns)
        return cta // parts, cta % parts

    def ctas(self, rows: Any) -> Any:
        """CTAs that have all rows at once."""
        return T.ceildiv(rows, self.of_a_cta)

    def at(self, row: Any) -> slice:
        """The rows that the calling warp or CTA has at a time."""
        return slice(row, row + self.at_once)

    def mine(self, row: Any) -> Any:
        """Of the rows that the calling warp or CTA has at a time, the one that the thread shares."""
        return row + special("laneid") // self.threads if self.at_once > 1 else row

    def parts(self, columns: Any) -> Any:
        """The numbers of a row's parts, to go through."""
        return T.serial(T.ceildiv(columns, self.part)) if self.long else (0,)

    def columns(self, part: Any) -> slice:
        """The columns of a part."""
        return slice(part * self.part, part * self.part + self.part)

    def clear_outside(self, tile: Any, part: Any, columns: Any) -> None:
        """Make the elements 0 that are beyond the end of their rows."""
        step = self.vector if self.whole else 1  # one question for an access
        if not self.exact:
            self.scope.select(tile, tile, 0.0, lambda i, j: part * self.part + j // step * step < columns)

    def tile(self, kind: str = "float32") -> Any:
        """A part of the rows that a warp or a CTA has at a time, in registers."""
        return self._tile((self.runs, self.threads, self.vector), kind)

    def line_tile(self, kind: str) -> Any:
        """A part of an argument with one element for each column: each thread has what belongs to its part of a row."""
        lane = laneid if self.by_warps else tx
        spec = S[(self.runs, self.threads, self.vector) : (self.vector, 1 @ lane, 1)]
        again = R[self.at_once : self.threads @ lane]
        layout = TileLayout(spec + again) if self.at_once > 1 else TileLayout(spec)
        return T.alloc_buffer((self.part,), kind, scope="local", layout=layout)

    def own(self, kind: str = "float32") -> Any:
        """One element of each thread."""
        return self._tile((1, self.threads, 1), kind)

    def each(self, kind: str = "float32") -> Any:
        """One element for each row, in the registers of all threads that share the row."""
        if self.at_once == 1:
            return T.alloc_local((1,), kind)
        layout = TileLayout(S[(self.at_once,) : (self.threads @ laneid,)] + R[self.threads : 1 @ laneid])
        return T.alloc_buffer((self.at_once,), kind, scope="local", layout=layout)

    def _tile(self, shape: tuple[int, int, int], kind: str) -> Any:
        lane = laneid if self.by_warps else tx
        runs, threads, vector = shape
        layout = S[(self.at_once, runs, threads, vector) : (threads @ lane, vector, 1 @ lane, 1)]
        return T.alloc_buffer((self.at_once, runs * threads * vector), kind, scope="local", layout=TileLayout(layout))


def dealt(*arrays: Array, most: int = MOST_KEPT) -> Rows:
    """How the rows of these arrays are dealt out, in accesses that all of them allow. One dimension: for all rows.

    most: elements of a row that stays in registers.
    """
    return chosen(arrays[0].shape[-1], common_vector(arrays), dtype(kind_of(arrays[0])).bits // 8, most)


def common_vector(arrays: Sequence[Array]) -> int:
    """Elements of the widest access that the addresses and the pitches of all arrays allow."""
    found = [info_of(array) for array in arrays]
    vector = ACCESS_BYTES // max(dtype(info.dtype).bits // 8 for info in found)
    for info in found:
        nbytes = dtype(info.dtype).bits // 8
        places = ((info.address or 0) // nbytes, *(int(step) for step in info.steps[:-1]))
        vector = math.gcd(vector, *places)
    return vector


@cache
def chosen(columns: int, vector: int, item_bytes: int = 4, most: int = MOST_KEPT) -> Rows:
    """What the table says of rows of so many elements."""
    whole = columns % vector == 0
    if columns > most:
        found = Rows(TABLE[-1][1], PART // vector, vector, whole, long=True)
    else:
        threads, *resident = next(row for limit, *row in TABLE if columns <= limit)
        found = Rows(threads, -(-columns // (threads * vector)), vector, whole, resident=resident[item_bytes > 2])
    return replace(found, exact=columns % found.part == 0)


def blocks(*arrays: Array) -> tuple[Rows, list[Array]]:
    """For elementwise kernels: how parts of rows are dealt out, and the arrays as matrices; where each is without gaps,
    with a part as a row, or as one row.
    """
    views = [matrix(array) for array in arrays]
    infos = [info_of(view) for view in views]
    found = Rows(BLOCK_THREADS, BLOCK_RUNS, common_vector(views), whole=False, long=True)
    if all(info.is_contiguous for info in infos) and infos[0].size % found.part == 0:
        return replace(found, whole=True, long=False, exact=True), [view.reshape(-1, found.part) for view in views]
    if all(info.is_contiguous for info in infos) and infos[0].size < 1 << 31:
        views = [view.reshape(1, -1) for view in views]
    columns = views[0].shape[-1]
    return replace(found, whole=columns % found.vector == 0, exact=columns % found.part == 0), views
