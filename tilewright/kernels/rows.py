"""How the rows of a matrix are distributed to threads: the class of shapes that a kernel is compiled for.

A row stays in the registers of some lanes of a warp, of a CTA, or of the CTAs of a cluster: it is read once and written
once, by accesses of up to 16 bytes, several of them on their way at a time. A row that is too long for that is gone
through part by part, and read again where it is needed again. Nothing outside of a row is read or written, so that one
kernel serves all rows of nearly one length.

The CTAs of a cluster have a share of a row each. Each warp computes with its part as if it were a row, and sends the
others its results, a few numbers (`meeting`); then all have those of the whole row.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from tilewright.dtypes import dtype
from tilewright.host import device_of
from tilewright.ir import Buffer
from tilewright.ir.special import special
from tilewright.kernels.arrays import Array, info_of, kind_of, matrix
from tilewright.lang import T, Tx
from tilewright.layout import R, S, TileLayout, laneid, tx

__all__ = ["MOST_KEPT", "Rows", "blocks", "chosen", "dealt"]

ACCESS_BYTES = 16
MOST_KEPT = 32768  # elements of a row that stays in registers
# Elements of a row at most, and the threads that share it if an element has four bytes, or two: where a row is read and
# written; with weights beside it; where it is only read. A multiprocessor is to have 64 KB of rows on their way.
SHORT = ((32, 4, 4), (64, 8, 8), (256, 16, 16), (512, 32, 32))
LAST = (MOST_KEPT, 1024, 1024)
TABLES = {
    "plain": (*SHORT, (1024, 64, 64), (2048, 256, 128), (4096, 512, 256), (8192, 512, 512), (16384, 512, 512), LAST),
    "weighted": (*SHORT, (1024, 64, 64), (2048, 256, 128), (4096, 512, 256), (8192, 512, 256), (16384, 512, 256), LAST),
    "summed": (*SHORT, (1024, 64, 64), (2048, 256, 128), (4096, 512, 512), (8192, 512, 256), (16384, 512, 256), LAST),
    "reduced": (*SHORT, (1024, 32, 32), (2048, 64, 64), (4096, 128, 128), (8192, 256, 256), (16384, 256, 256), LAST),
}
TABLES["biased"] = TABLES["weighted"]
RESIDENT = {(512, 32): 2, (1024, 32): 1}  # CTAs that must fit, by threads and elements of each
# Rows beyond the first of these elements, up to the second, are shared by the CTAs of a cluster, each with so many.
# Such a CTA has these threads at least, and a thread so many elements at most.
MOST_ALONE, MOST_SHARED, SHARE, MOST_CTAS = 16384, 262144, 8192, 16
SHARE_THREADS, SHARE_HELD = 128, 64
MANY, TURNS = 256, 4  # that many long rows are taken in turns of so many
WARPS = 4  # of a CTA, where each has rows of its own
PART = 16  # elements that a thread has of a part
BLOCK_THREADS = {1 << 17: 128, 1 << 63: 256}  # of a CTA of an elementwise kernel, by the bytes of an array at most


@dataclass(frozen=True, slots=True)
class Rows:
    """threads: that share a row. runs: accesses of each of them to a row, or to a part of it. vector: elements of an
    access. whole: are rows whole vectors? long: does a row have several parts? resident: CTAs that a multiprocessor
    must have room for, 0: any number. cluster: CTAs that share a row. exact: are rows whole parts, so that nothing is
    outside? turns: rows that a CTA takes one after the other. ahead: rows that are on their way meanwhile, to shared
    memory. early: are weights read before the rows? flat: is there one row,
    or are there rows of one part without gaps between them?
    """

    threads: int
    runs: int
    vector: int
    whole: bool
    long: bool = False
    resident: int = 0
    cluster: int = 1
    turns: int = 1
    ahead: int = 0
    early: bool = False
    flat: bool = False
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
        """Rows that a CTA has: at a time, or one after the other."""
        return WARPS * self.at_once if self.by_warps else self.turns

    @property
    def warps(self) -> int:
        """Of a CTA."""
        return WARPS if self.by_warps else self.threads // 32

    @property
    def part(self) -> int:
        """Elements of a row, of a CTA's share of it, or of a part of it, that threads hold."""
        return self.threads * self.runs * self.vector

    @property
    def scope(self) -> Any:
        """The namespace of the tile calls. `Any`: a namespace of the language."""
        return Tx.warp if self.by_warps else Tx.cta

    # For kernels, while they are parsed

    def matrix(self, pointer: Any, shape: Sequence[Any], kind: str, pitch: Any) -> Any:
        """An argument whose rows are ``pitch`` elements apart."""
        align = min(ACCESS_BYTES, self.vector * dtype(kind).bits // 8)
        found = T.match_buffer(pointer, tuple(shape), kind, strides=(pitch, 1), align=align)
        T.assume(pitch == self.part if self.flat and not self.long else pitch % self.vector == 0)
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
            T.assume(columns % self.part == 0 if self.long else columns == self.part * self.cluster)
        elif not self.long:
            T.assume(columns <= self.part * self.cluster)
        if self.resident:
            T.func_attr({"min_blocks": self.resident})
        if self.cluster > 1:
            T.cta_id_in_cluster([self.cluster])
        cta = T.cluster_id([ctas]) if self.cluster > 1 else T.cta_id([ctas])
        warp = T.warp_id([self.warps])
        T.lane_id([32])
        return cta * self.of_a_cta + warp * self.at_once if self.by_warps else cta * self.turns

    def block(self, rows: Any, columns: Any) -> tuple[Any, Any]:
        """The row and the part of it of the calling CTA, where each CTA has one part of one row."""
        if not self.long:
            return self.first(rows, columns), 0
        parts = T.ceildiv(columns, self.part)
        if self.flat:
            T.assume(rows == 1)
            return 0, self.first(parts, columns)
        cta = self.first(rows * parts, columns)
        return cta // parts, cta % parts

    def ctas(self, rows: Any) -> Any:
        """CTAs, or clusters, of the grid."""
        return T.ceildiv(rows, self.of_a_cta)

    def at(self, row: Any) -> slice:
        """The rows that the calling warp or CTA has at a time."""
        return slice(row, row + self.at_once)

    def mine(self, row: Any) -> Any:
        """The row of the calling thread, among those that its warp or CTA has at a time."""
        return row + special("laneid") // self.threads if self.at_once > 1 else row

    def parts(self, columns: Any) -> Any:
        """A loop over the numbers of a row's parts."""
        return T.serial(T.ceildiv(columns, self.part)) if self.long else (0,)

    def begin(self, part: Any) -> Any:
        """The first column of a part, or of the CTA's share."""
        return (part * self.cluster + special("cluster_ctarank") if self.cluster > 1 else part) * self.part

    def columns(self, part: Any) -> slice:
        """The columns of a part, or of the CTA's share."""
        begin = self.begin(part)
        return slice(begin, begin + self.part)

    def column(self, part: Any, number: Any) -> Any:
        """The column of an element of the calling thread, by its number among those of a part."""
        lane = special("laneid") % self.threads if self.by_warps else special("tid")
        run, place = number // self.vector, number % self.vector
        return self.begin(part) + (run * self.threads + lane) * self.vector + place

    def inside(self, part: Any, columns: Any) -> Any:
        """How many elements of a part the calling warp has; of a row, where it has rows of its own."""
        if self.by_warps:
            return columns
        of_a_warp = 32 * self.vector
        if self.exact:
            return of_a_warp * self.runs
        left = columns - self.begin(part) - special("warpid") * of_a_warp
        runs = range(0, self.part, self.threads * self.vector)
        return sum(T.max(T.min(left - run, of_a_warp), 0) for run in runs)

    @property
    def speaks(self) -> Any:
        """Is the CTA the one of its cluster that stores the results of a row?"""
        return True if self.cluster == 1 else special("cluster_ctarank") == 0

    def following(self) -> Any:
        """A loop over the numbers of the rows that a CTA takes."""
        return T.serial(self.turns) if self.turns > 1 else (0,)

    def clear_outside(self, tile: Any, part: Any, columns: Any, value: Any = 0.0) -> None:
        """Set the elements beyond the end of their rows to this value."""
        step = self.vector if self.whole else 1  # one test for an access
        if not self.exact:
            self.scope.select(tile, tile, value, lambda i, j: self.begin(part) + j // step * step < columns)

    def take(self, tile: Any, source: Any, row: Any, part: Any, fill: Any = 0) -> None:
        """Bring a part of the rows at ``row`` to registers; ``fill`` is the value of elements outside. source: a
        matrix, or `Coming` rows of one.
        """
        if isinstance(source, Buffer):
            self.scope.copy(tile, source[self.at(row), self.columns(part)], fill=fill)
        else:
            source.take(tile, row, fill)

    def tile(self, kind: str = "float32") -> Any:
        """A part of the rows that a warp or a CTA has at a time, in registers."""
        return self._tile((self.runs, self.threads, self.vector), kind)

    def line_tile(self, kind: str) -> Any:
        """A part of an argument with one element for each column: each thread has those of its part of a row."""
        lane = laneid if self.by_warps else tx
        spec = S[(self.runs, self.threads, self.vector) : (self.vector, 1 @ lane, 1)]
        again = R[self.at_once : self.threads @ lane]
        layout = TileLayout(spec + again) if self.at_once > 1 else TileLayout(spec)
        return T.alloc_buffer((self.part,), kind, scope="local", layout=layout)

    def own(self, kind: str = "float32") -> Any:
        """One element of each thread."""
        return self._tile((1, self.threads, 1), kind)

    def lanes(self, kind: str = "float32") -> Any:
        """One element of each thread, as a tile of its warp."""
        return (
            self.own(kind)
            if self.by_warps
            else T.alloc_buffer((32,), kind, scope="local", layout=TileLayout(S[32 : 1 @ laneid]))
        )

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


def dealt(*arrays: Array, most: int = MOST_KEPT, clusters: bool = False, table: str = "plain") -> Rows:
    """The distribution of these arrays' rows, in accesses that all of them allow. One dimension: for all rows.

    most: elements of a row that stays in the registers of a CTA. clusters: may the CTAs of a cluster share a row?
    table: of `TABLES`.
    """
    item_bytes = dtype(kind_of(arrays[0])).bits // 8
    shares = clusters and has_clusters(arrays[0])
    many = len(arrays[0].shape) > 1 and arrays[0].shape[0] >= MANY
    return chosen(arrays[0].shape[-1], common_vector(arrays), item_bytes, most, shares, table, many)


def has_clusters(array: Array) -> bool:
    """Does the GPU of this array launch clusters? The simulator does."""
    device = device_of(array)
    if device == "cpu":
        return True
    from tilewright.cuda import driver

    return driver.device(int(device.partition(":")[2])).capability >= 90


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
def chosen(
    columns: int, vector: int, item_bytes: int = 4, most: int = MOST_KEPT, clusters: bool = False,
    table: str = "plain", many: bool = False,
) -> Rows:  # fmt: skip
    """The distribution of rows of so many elements, by the tables. many: are there enough rows to take turns?"""
    whole = columns % vector == 0
    if clusters and MOST_ALONE < columns <= MOST_SHARED:
        found = shared(columns, vector, item_bytes, table)
        if many and (ahead := rows_ahead(columns, item_bytes, table)):
            found = replace(found, turns=TURNS, ahead=ahead)
    elif columns > most:
        found = Rows(LAST[1], PART // vector, vector, whole, long=True)
    else:
        threads = next(row for row in TABLES[table] if columns <= row[0])[1 if item_bytes > 2 else 2]
        runs = -(-columns // (threads * vector))
        found = Rows(threads, runs, vector, whole, resident=RESIDENT.get((threads, runs * vector), 0))
    return replace(found, exact=columns % (found.part * found.cluster) == 0)


def shared(columns: int, vector: int, item_bytes: int, table: str) -> Rows:
    """The distribution of a row to the CTAs of a cluster."""
    cluster = min(power_of_two(columns / SHARE), MOST_CTAS)
    least = SHARE_THREADS if item_bytes == 2 or table == "reduced" else 2 * SHARE_THREADS
    threads = max(least, power_of_two(columns / (cluster * SHARE_HELD)))
    runs = -(-columns // (cluster * threads * vector))
    return Rows(threads, runs, vector, columns % vector == 0, cluster=cluster, early=table in ("weighted", "biased"))


def rows_ahead(columns: int, item_bytes: int, table: str) -> int:
    """How many rows are on their way where a cluster takes several; 0 where it is to take one.

    A cluster takes several rows so that it reads weights once, and where one row is too little work.
    """
    if table == "biased":
        return 4 // item_bytes
    return int((table == "weighted" and columns > SHARE * MOST_CTAS) or (table == "reduced" and item_bytes == 2))


def power_of_two(least: float) -> int:
    """The smallest one that is not below."""
    return 1 << math.ceil(math.log2(least))


def blocks(*arrays: Array) -> tuple[Rows, list[Array]]:
    """For elementwise kernels: the distribution of parts of rows, and the arrays as matrices. Arrays without gaps count
    as one row, or as rows of one part.
    """
    views = [matrix(array) for array in arrays]
    infos = [info_of(view) for view in views]
    size, contiguous = infos[0].size, all(info.is_contiguous for info in infos)
    nbytes = size * dtype(infos[0].dtype).bits // 8
    threads = next(threads for most, threads in BLOCK_THREADS.items() if nbytes <= most)
    found = Rows(threads, 1, common_vector(views), whole=False, long=True)
    if contiguous and size % found.part == 0:
        views = [view.reshape(-1, found.part) for view in views]
        return replace(found, whole=True, long=False, exact=True, flat=True), views
    if contiguous and size < 1 << 31:
        views, found = [view.reshape(1, -1) for view in views], replace(found, flat=True)
    columns = views[0].shape[-1]
    return replace(found, whole=columns % found.vector == 0, exact=columns % found.part == 0), views
