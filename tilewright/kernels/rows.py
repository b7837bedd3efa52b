"""How the rows of a matrix are distributed to threads: the class of shapes that a kernel is compiled for; and how the
elements of arrays are, whichever rows they are in.

A row stays in the registers of some lanes of a warp, of a CTA, or of the CTAs of a cluster: it is read once and written
once, by accesses of up to 16 bytes, several of them on their way at a time. A row that is too long for that is gone
through part by part, and read again where it is needed again. Nothing outside of a row is read or written, so that one
kernel serves all rows of nearly one length.

The CTAs of a cluster have a share of a row each. Each warp computes with its part as if it were a row, and sends the
others its results, a few numbers (`meeting`); then all have those of the whole row.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from tilewright.dtypes import dtype
from tilewright.ir.arguments import ArrayInfo
from tilewright.ir.launch import special
from tilewright.isa import PORTABLE_CLUSTER, clusters_on
from tilewright.kernels.arrays import Array, has_clusters, info_of, matrix, multiprocessors
from tilewright.lang import T, Tx
from tilewright.lang.builder import current
from tilewright.layout import R, S, TileLayout, laneid, tx

ACCESS_BYTES = 16
MOST_KEPT = 32768  # elements of a row that stays in registers
# Elements of a row at most, and the threads that share it if an element has four bytes, or two: where a row is read and
# written; with weights beside it; where it is only read. A multiprocessor is to have 64 KB of rows on their way.
# `make tune`: of 16 cases the estimate has another choice 1 % faster in none.
SHORT = ((32, 4, 4), (64, 8, 8), (256, 16, 16), (512, 32, 32))
LAST = (MOST_KEPT, 1024, 1024)
# Two accesses of each thread take 36 to 40 registers where warps are no multiple of 4, and fewer such CTAs fit, once
# they have more threads than this: softmax of rows of 5120 and 7168 bfloat16 has 0.930 and 0.923 of copy_'s rate, with
# half the threads 0.976 and 0.985 (an H200, 2026-12-01).
EVEN = 256
RESIDENT = {(512, 32): 2, (1024, 32): 1}  # CTAs that must fit, by threads and elements of each
# Rows beyond the first of these elements, up to the second, are shared by the CTAs of a cluster, each with so many.
# Such a CTA has these threads at least, and a thread so many elements at most.
MOST_ALONE, MOST_SHARED, SHARE, MOST_CTAS = 16384, 262144, 8192, 16
SHARE_THREADS, SHARE_HELD = 128, 64
MANY, TURNS = 256, 4  # that many long rows are taken in turns of so many
WARPS = 4  # of a CTA, where each has rows of its own
PART = 16  # elements that a thread has of a part
# Many long rows that are only read: threads that go through one, and accesses of 16 bytes of each to a part, by the
# bytes of an element, and whether rows begin anywhere; and of the longest.
READ_ONCE = {(2, True): (192, 3), (2, False): (256, 2), (4, True): (128, 4), (4, False): (128, 4)}
LONGEST, LONGEST_READ = 131072, (512, 2)
LEAST_COPIED = 4  # bytes that cp.async moves
# Rows that begin anywhere, of more elements than the second, are read from whole lines of the cache on, of so many
# accesses of 16 bytes.
LINE, LEAST_LINED = 8, 4096
SHIFTED_SHARE = 6400  # elements of a CTA of a cluster that takes such rows in turns
SHIFTED_RUNS = 7  # accesses of a thread, of a row that begins anywhere and that CTAs of a cluster share
# Of those with weights and biases, by the elements of an access: how many, of shorter and of longer rows.
SHIFTED_TURNS = {4: (9, 8), 8: (7, 8)}
# Threads of a multiprocessor that must fit, of those rows: with 127 registers of a thread in place of 96 layer_norm of
# 50257 bfloat16 has 0.751 of copy_'s rate in place of 0.85 (an H200, 2026-12-01).
SHIFTED_RESIDENT = {4: 0, 8: 640}
# Of those with weights and biases and four bytes each, beyond the short ones, of so many elements at most: CTAs of a
# cluster that stays for all rows, accesses of a thread, threads of a multiprocessor.
MOST_SHIFTED_STAYING, SHIFTED_STAYING = 102400, (16, 5, 640)
# Rows that are brought to shared memory together: elements at most, bytes of those of a warp, and how often its threads
# go on to other rows.
MOST_STAGED, STAGED_BYTES, STAGED_TURNS = 256, 4864, 4
STAGED = ((3, 2), (48, 4), (112, 8), (256, 16))


@dataclass(frozen=True, slots=True, eq=False)
class RowUse:
    """What a kernel does with rows. threads: that share one, by its elements at most, for elements of four bytes and of
    two. is_read: are rows only read? has_weights, has_biases: beside them. staged: threads of a row in shared memory at
    least, by its elements at most, for accesses of four elements and of eight. least_shifted: elements of rows that
    begin anywhere and are taken as such, of two bytes each, at least.
    staying: of many long rows, by the bytes of an element: of more than so many elements; CTAs of a cluster that stays
    for all rows, their threads, CTAs of a multiprocessor, rows on their way, and are weights kept in shared memory?
    """

    threads: tuple[tuple[int, int, int], ...]
    is_read: bool = False
    has_weights: bool = False
    has_biases: bool = False
    staged: Mapping[int, tuple[tuple[int, int], ...]] = field(default_factory=lambda: {4: STAGED, 8: STAGED})
    least_shifted: int = MOST_STAGED
    staying: Mapping[int, tuple[tuple[int, int, int, int, int, bool], ...]] = field(default_factory=dict)


WITH_WEIGHTS = (*SHORT, (1024, 64, 64), (2048, 256, 128), (4096, 512, 256), (8192, 512, 256), (16384, 512, 256), LAST)
PLAIN = RowUse(
    (*SHORT, (1024, 64, 64), (2048, 256, 128), (4096, 512, 256), (8192, 512, 512), (16384, 512, 512), LAST),
    least_shifted=1024,
)
WEIGHTED = RowUse(
    WITH_WEIGHTS, has_weights=True,
    staying={2: ((131072, 8, 512, 1, 2, False),), 4: ((131072, 16, 352, 1, 2, False),)},
)  # fmt: skip
BIASED = RowUse(
    WITH_WEIGHTS, has_weights=True, has_biases=True,
    staying={2: ((131072, 8, 512, 1, 1, True), (65536, 8, 256, 2, 1, True)),
             4: ((131072, 16, 352, 1, 1, True), (65536, 8, 512, 1, 2, False))},
)  # fmt: skip
SUMMED = RowUse((*SHORT, (1024, 64, 64), (2048, 256, 128), (4096, 512, 512), (8192, 512, 256), (16384, 512, 256), LAST))
READ = RowUse(
    (*SHORT, (1024, 32, 32), (1536, 64, 32), (2048, 64, 64), (4096, 128, 128), (6144, 256, 128), (16384, 256, 256),
     LAST),
    is_read=True,
    staged={4: ((3, 2), (48, 4), (160, 8), (256, 16)), 8: ((3, 2), (160, 4), (256, 8))},
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Rows:
    """threads: that share a row. runs: accesses of each of them to a row, or to a part of it. vector: elements of an
    access. whole: are rows whole vectors? long: does a row have several parts? resident: CTAs that a multiprocessor
    must have room for, 0: any number. cluster: CTAs that share a row. exact: are rows whole parts, so that nothing is
    outside? turns: rows that a CTA takes one after the other. stays: clusters of the grid, if they take all rows in
    turns. ahead: rows that are on their way meanwhile, to shared memory. early: are weights read before the rows? near:
    are they kept in shared memory then, and not in registers?
    flat: is there one row, or are there rows of one part without gaps between them? shifted: do rows begin anywhere, in
    arrays that begin at 16 bytes? Then accesses begin at the last multiple of ``grain`` accesses before each row, which
    is ``shift`` elements before it (`of_row`; ``pitch`` elements are from a row to the next); what is outside of the
    row is not stored. staged: elements of a row, if the rows of a warp, without gaps between them, are brought to
    shared memory as one piece; else 0.
    """

    threads: int
    runs: int
    vector: int
    whole: bool
    long: bool = False
    resident: int = 0
    cluster: int = 1
    turns: Any = 1
    stays: int = 0
    ahead: int = 0
    early: bool = False
    near: bool = False
    flat: bool = False
    exact: bool = False
    shifted: bool = False
    grain: int = 1
    pitch: Any = 0
    shift: Any = 0
    staged: int = 0

    @property
    def by_warps(self) -> bool:
        """Each warp has rows of its own."""
        return self.threads <= 32

    @property
    def at_once(self) -> int:
        """Rows that a warp, or a CTA, has at a time."""
        return max(1, 32 // self.threads)

    @property
    def of_a_cta(self) -> Any:
        """Rows that a CTA has: at a time, or one after the other."""
        return (WARPS * self.at_once if self.by_warps else 1) * self.turns

    @property
    def spacing(self) -> int:
        """Elements at multiples of which accesses begin, of rows that begin anywhere."""
        return self.grain * self.vector

    @property
    def in_turns(self) -> bool:
        """Does a CTA take several rows?"""
        return self.stays > 0 or self.turns > 1

    @property
    def step(self) -> int:
        """From a row that a CTA takes to the next. Rows that are ``spacing`` apart have the same shift; those of a
        multiple of ``vector`` one that differs by whole accesses.
        """
        return self.stays or (self.at_once if self.by_warps else self.spacing if self.shifted and self.turns > 1 else 1)

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
        view = T.match_buffer(pointer, tuple(shape), kind, strides=(pitch, 1), align=self.access_bytes(kind))
        if not self.shifted and not self.staged:
            T.assume(pitch == self.part if self.flat and not self.long else pitch % self.vector == 0)
        return view

    def line(self, pointer: Any, columns: Any, kind: str) -> Any:
        """An argument with one element for each column."""
        if self.shifted:  # one for each shift: `for_shifts`
            return T.match_buffer(pointer, self.line_shape, kind, align=self.access_bytes(kind))
        nbytes = dtype(kind).bits // 8 if self.staged else self.access_bytes(kind)
        return T.match_buffer(pointer, (columns,), kind, align=nbytes)

    @property
    def line_shape(self) -> tuple[int, int]:
        """Of an argument with one element for each column: a copy for each shift of less than an access, and `room`."""
        return self.vector, self.part * self.cluster + self.room

    @property
    def room(self) -> int:
        """Elements of the accesses that the largest shift begins before the row."""
        return self.spacing - self.vector

    @property
    def is_early(self) -> bool:
        """May a kernel begin before its lines are shifted? GPUs that have clusters know how to wait."""
        return self.shifted and self.cluster > 1

    def numbers(self, pointer: Any, rows: Any, kind: str) -> Any:
        """An argument with one element for each row."""
        return T.match_buffer(pointer, (rows,), kind, align=dtype(kind).bits // 8)

    def first(self, ctas: Any, columns: Any) -> Any:
        """The first row of the calling warp or CTA, of so many CTAs."""
        if self.whole:
            T.assume(columns % self.vector == 0)
        if self.staged:
            T.assume(columns == self.staged)
        elif self.exact:
            T.assume(columns % self.part == 0 if self.long else columns == self.part * self.cluster)
        elif not self.long:
            T.assume(columns <= self.part * self.cluster - (self.spacing - 1 if self.shifted else 0))
        if self.resident:
            T.func_attr({"min_blocks": self.resident})
        if self.cluster > 1:
            T.cta_id_in_cluster([self.cluster])
        if self.cluster > PORTABLE_CLUSTER:
            T.func_attr({"non_portable_cluster": True})
        cta = T.cluster_id([ctas]) if self.cluster > 1 else T.cta_id([ctas])
        warp = T.warp_id([self.warps])
        T.lane_id([32])
        if self.stays:
            return cta
        if self.by_warps:
            return cta * self.of_a_cta + warp * (self.at_once * self.turns)
        return cta // self.step * (self.turns * self.step) + cta % self.step if self.step > 1 else cta * self.turns

    def begun(self, first: Any, pitch: Any, rows: Any = None) -> Rows:
        """The same, of rows from ``first`` on that are ``pitch`` elements apart, of so many in all: with the shift that
        all rows of a CTA have, and with the turns of a CTA that stays.
        """
        begun = replace(self, pitch=pitch)
        if self.shifted and not self.moves:
            begun = replace(begun, shift=current("Rows.begun").bind("shift", self._shift(first, pitch)))
        if self.stays:
            turns = T.ceildiv(T.max(rows - first, 0), self.stays)
            begun = replace(begun, turns=current("Rows.begun").bind("turns", turns))
        return begun

    @property
    def moves(self) -> bool:
        """Have the rows of a CTA shifts that differ?"""
        return self.shifted and self.in_turns and self.step % self.spacing > 0

    def of_row(self, row: Any) -> Rows:
        """The same, of one row: with its shift."""
        return replace(self, shift=current("Rows.of_row").bind("shift", self.shift_of(row))) if self.moves else self

    def shift_of(self, row: Any) -> Any:
        """How many elements before a row its accesses begin."""
        return self._shift(row, self.pitch) if self.moves else self.shift

    def _shift(self, row: Any, pitch: Any) -> Any:
        return (row % self.spacing) * (pitch % self.spacing) % self.spacing

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
        if self.stays:
            return self.stays
        apart = 1 if self.by_warps else self.step
        return T.ceildiv(rows, self.of_a_cta * apart) * apart

    def at(self, row: Any) -> slice:
        """The rows that the calling warp or CTA has at a time."""
        return slice(row, row + self.at_once)

    def mine(self, row: Any) -> Any:
        """The row of the calling thread, among those that its warp or CTA has at a time."""
        return row + special("laneid") // self.threads if self.at_once > 1 else row

    def parts(self, columns: Any) -> Any:
        """A loop over the numbers of a row's parts."""
        return T.serial(T.ceildiv(columns + self.shift, self.part)) if self.long else (0,)

    def begin(self, part: Any) -> Any:
        """The first column of a part, or of the CTA's share; a negative one is before the row."""
        return self.share(part) - self.shift if self.shifted else self.share(part)

    def share(self, part: Any) -> Any:
        """How many elements of a row others have before it, or before the CTA's share of it."""
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
        first = self.begin(part) + special("warpid") * of_a_warp
        begins = [first + run for run in range(0, self.part, self.threads * self.vector)]
        inside = ((T.max(begin, 0) if self.shifted else begin, begin + of_a_warp) for begin in begins)
        return sum(T.max(T.min(columns, end) - begin, 0) for begin, end in inside)

    @property
    def speaks(self) -> Any:
        """Is the CTA the one of its cluster that stores the results of a row?"""
        return True if self.cluster == 1 else special("cluster_ctarank") == 0

    def following(self) -> Any:
        """A loop over the numbers of the rows that a CTA takes."""
        return T.serial(self.turns) if self.in_turns else (0,)

    def of(self, matrix: Any, row: Any, part: Any) -> Any:
        """A part of the rows at ``row``, as a region of a matrix."""
        if not self.shifted:
            return matrix[self.at(row), self.columns(part)]
        return self._row(matrix, row, matrix.shape[1], self.shift, before=self.shift)[:, self.columns(part)]

    def aligned(self, matrix: Any, row: Any, part: Any = 0) -> Any:
        """A part of the rows at ``row``, or of the CTA's share, to read: in whole accesses, so that it may begin in the
        row before and end in the one behind it.
        """
        if not self.shifted:
            return matrix[self.at(row), self.columns(part)]
        shift, begin = self.shift_of(row), self.share(part)  # a row that is on its way has a shift of its own
        end = matrix.shape[1] + shift
        whole = T.ceildiv(end, self.vector) * self.vector
        end = T.select(row + 1 < matrix.shape[0], whole, end)
        return self._row(matrix, row, end, shift)[:, begin : begin + self.part]

    def _row(self, matrix: Any, row: Any, columns: Any, shift: Any, before: Any = 0) -> Any:
        """A row as a buffer that begins so many elements behind where its accesses begin."""
        data, align = matrix.ptr_to([row, -shift]), self.access_bytes(str(matrix.dtype))
        # The stride of the only row is 1, and not n, so that no offset has 64 bits.
        return T.decl_buffer((1, columns), data=data, strides=(1, 1), elem_offset=before, align=align)

    def access_bytes(self, kind: str) -> int:
        """Bytes of an access to elements of this dtype."""
        return ACCESS_BYTES if self.staged else min(ACCESS_BYTES, self.vector * dtype(kind).bits // 8)

    def is_cut(self, part: Any, columns: Any) -> Any:
        """Are some elements of a part, or of the CTA's share, outside of the row?"""
        begin = self.begin(part)
        return (begin < 0) | (begin + self.part > columns)

    def clear_outside(self, tile: Any, part: Any, columns: Any, value: Any = 0.0) -> None:
        """Set the elements beyond the end of their rows to this value."""
        if self.exact:
            return
        if self.staged:
            full, rest = self.last_run
            if rest:
                with T.If(special("laneid") % self.threads >= rest), T.Then():
                    Tx.fill(tile.local()[full:], value)
            return
        if not self.shifted:
            step = self.vector if self.whole else 1  # one test for an access
            self.scope.select(tile, tile, value, lambda i, j: self.begin(part) + j // step * step < columns)
            return
        with T.If(self.is_cut(part, columns)), T.Then():
            for run in range(self.runs):
                mine, first = tile.local()[run * self.vector :][: self.vector], self.column(part, run * self.vector)
                with T.If((first < 0) | (first + self.vector > columns)), T.Then():
                    Tx.select(mine, mine, value, lambda k: (k >= -first) & (k < columns - first))  # noqa: B023  # parsed here

    def tile(self, kind: str = "float32") -> Any:
        """A part of the rows that a warp or a CTA has at a time, in registers."""
        return self._tile((self.runs, self.threads, self.vector), kind)

    @property
    def last_run(self) -> tuple[int, int]:
        """Of rows that are staged: accesses that all threads have, and threads that have one more."""
        return divmod(self.staged, self.threads)

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


def dealt(*arrays: Array, most: int = MOST_KEPT, clusters: bool = False, use: RowUse = PLAIN) -> Rows:
    """The distribution of these arrays' rows, in accesses that all of them allow. One dimension: for all rows.

    most: elements of a row that stays in the registers of a CTA. clusters: may the CTAs of a cluster share a row, and
    does the kernel take rows by `coming`? use: what it does with them.
    """
    infos = [info_of(array) for array in arrays]
    columns, vector = arrays[0].shape[-1], common_vector(arrays)
    item_bytes = dtype(infos[0].dtype).bits // 8
    many = multiprocessors(arrays[0]) if len(arrays[0].shape) > 1 and arrays[0].shape[0] >= MANY else 0
    shares = clusters and has_clusters(arrays[0])
    wide = widest_vector(infos)
    begins = [(info.address or 0) % (wide * dtype(info.dtype).bits // 8) for info in infos]
    if clusters and vector < wide and not any(begins):
        if 1 < columns <= MOST_STAGED and all(info.is_contiguous for info in infos):
            return staged(columns, wide, use)
        alike = len({int(step) % wide for info in infos for step in info.steps[:-1]}) == 1
        least = use.least_shifted if wide == 8 else MOST_STAGED
        if alike and least < columns <= (MOST_SHARED if shares else MOST_ALONE):
            return shifted(columns, wide, shares, use, many)
    return chosen(columns, vector, item_bytes, most, shares, use, many)


def widest_vector(infos: Sequence[ArrayInfo]) -> int:
    """Elements of an access of 16 bytes to the widest of these arrays."""
    return ACCESS_BYTES // max(dtype(info.dtype).bits // 8 for info in infos)


def common_vector(arrays: Sequence[Array]) -> int:
    """Elements of the widest access that the addresses and the pitches of all arrays allow."""
    infos = [info_of(array) for array in arrays]
    vector = widest_vector(infos)
    for info in infos:
        nbytes = dtype(info.dtype).bits // 8
        places = ((info.address or 0) // nbytes, *(int(step) for step in info.steps[:-1]))
        vector = math.gcd(vector, *places)
    return vector


@cache
def chosen(
    columns: int, vector: int, item_bytes: int = 4, most: int = MOST_KEPT, clusters: bool = False,
    use: RowUse = PLAIN, many: int = 0,
) -> Rows:  # fmt: skip
    """The distribution of rows of so many elements, by the tables.

    many: how many multiprocessors take turns at the rows, 0 where there are too few rows for that.
    """
    whole = columns % vector == 0
    if clusters and many and columns > MOST_ALONE and use.is_read:
        threads, runs = LONGEST_READ if columns > LONGEST else READ_ONCE[item_bytes, False]
        return Rows(threads, runs * ACCESS_BYTES // (item_bytes * vector), vector, whole, long=True)
    if clusters and MOST_ALONE < columns <= MOST_SHARED:
        rows = shared(columns, vector, item_bytes, use)
        if many and vector * item_bytes >= LEAST_COPIED:
            rows = in_turns(rows, columns, item_bytes, use, many)
    elif columns > most:
        rows = Rows(LAST[1], PART // vector, vector, whole, long=True)
    else:
        threads, runs = alone(columns, vector, item_bytes, use)
        rows = Rows(threads, runs, vector, whole, resident=RESIDENT.get((threads, runs * vector), 0))
    return replace(rows, exact=columns % (rows.part * rows.cluster) == 0)


def alone(columns: int, vector: int, item_bytes: int, use: RowUse) -> tuple[int, int]:
    """The threads of a CTA that has a row, as the use says or fewer if none idles then, and the accesses of each."""
    most = next(row for row in use.threads if columns <= row[0])[1 if item_bytes > 2 else 2]
    vectors = -(-columns // vector)
    runs = -(-vectors // most)
    for threads in range(most, max(most // 4, 31), -32):
        crowded = item_bytes == 2 and threads > EVEN and threads % 128 > 0 and vectors == 2 * threads
        if columns % vector == 0 and vectors % threads == 0 and not crowded:
            return threads, vectors // threads
    return (most if most <= 32 else -(-vectors // (runs * 32)) * 32), runs


@cache
def shifted(columns: int, vector: int, clusters: bool, use: RowUse, many: int) -> Rows:
    """The distribution of rows that begin anywhere: a row that has so many elements may take an access more. many: as
    for `chosen`.
    """
    cluster, weights, ahead = 1, use.has_weights, False
    grain = LINE if columns > LEAST_LINED else 1
    runs = 4 if columns <= 2048 else 5
    if clusters and columns > MOST_ALONE:
        if use.is_read and many:
            return Rows(*READ_ONCE[ACCESS_BYTES // vector, True], vector, False, long=True, shifted=True, grain=grain)
        short = columns <= 2 * MOST_ALONE
        ahead = many > 0 and (use.has_biases or (vector == 8 and (weights or not short)))
        share = SHIFTED_SHARE if ahead else SHARE
        cluster = min(power_of_two(columns / share), MOST_CTAS)
        runs = (4 if short else 5) if weights or vector == 8 else SHIFTED_RUNS
        runs *= 8 // vector if weights and (ahead or short) else 1
        if many and use.has_biases and vector == 4 and 2 * MOST_ALONE < columns <= MOST_SHIFTED_STAYING:
            return shifted_staying(columns, vector, grain, many)
    taken = columns + grain * vector - 1
    threads = -(-taken // (vector * cluster * runs * 32)) * 32
    rows = Rows(threads, runs, vector, False, cluster=cluster, shifted=True, grain=grain)
    if not ahead:
        return rows
    if use.has_biases:
        resident = SHIFTED_RESIDENT[vector] // threads if not short else 0
        return replace(rows, turns=SHIFTED_TURNS[vector][not short], ahead=1, early=True, near=True, resident=resident)
    return replace(rows, turns=TURNS, ahead=2 if weights else 1, early=weights)


def shifted_staying(columns: int, vector: int, grain: int, processors: int) -> Rows:
    """The same, of clusters that stay for all rows: so many that their rows' shifts differ by whole accesses."""
    cluster, runs, most = SHIFTED_STAYING
    threads = -(-(columns + grain * vector - 1) // (vector * cluster * runs * 32)) * 32
    resident = max(1, most // threads)
    stays = at_once(cluster, processors) * resident // vector * vector
    return Rows(threads, runs, vector, False, cluster=cluster, shifted=True, grain=grain, resident=resident,
                stays=max(vector, stays), ahead=1, early=True, near=True)  # fmt: skip


@cache
def staged(columns: int, vector: int, use: RowUse) -> Rows:
    """The distribution of short rows without gaps between them, of which a warp has whole accesses: as many as a
    multiprocessor has memory for beside those of others.
    """
    least = next(threads for most, threads in use.staged[vector] if columns <= most)
    item_bytes, ways = ACCESS_BYTES // vector, [threads for threads in (2, 4, 8, 16, 32) if least <= threads <= columns]
    threads = next((many for many in ways if wavefronts(columns, many, item_bytes) <= 2), ways[-1])
    turns = max(1, vector * threads // 32)
    while turns < STAGED_TURNS and 2 * turns * (32 // threads) * columns * item_bytes <= STAGED_BYTES:
        turns *= 2
    return Rows(threads, -(-columns // threads), 1, True, turns=turns, staged=columns, early=use.has_weights)


def wavefronts(columns: int, threads: int, item_bytes: int) -> int:
    """Of an access of a warp to shared memory, where so many threads have neighbouring elements of each row."""
    words = {(lane // threads * columns + lane % threads) * item_bytes // 4 for lane in range(32)}
    banks = [word % 32 for word in words]
    return max(map(banks.count, banks))


def shared(columns: int, vector: int, item_bytes: int, use: RowUse) -> Rows:
    """The distribution of a row to the CTAs of a cluster."""
    cluster = min(power_of_two(columns / SHARE), MOST_CTAS)
    least = SHARE_THREADS if item_bytes == 2 or use.is_read else 2 * SHARE_THREADS
    threads = max(least, power_of_two(columns / (cluster * SHARE_HELD)))
    runs = -(-columns // (cluster * threads * vector))
    return Rows(threads, runs, vector, columns % vector == 0, cluster=cluster, early=use.has_weights)


def in_turns(rows: Rows, columns: int, item_bytes: int, use: RowUse, processors: int) -> Rows:
    """The same for many rows: a cluster takes several, so that it reads weights once; of the longest rows all clusters
    that run at once stay for all rows.
    """
    for beyond, cluster, threads, resident, ahead, near in use.staying.get(item_bytes, ()):
        runs, rest = divmod(columns, cluster * threads * rows.vector)
        runs += rest > 0
        leaves_registers = runs * rows.vector < SHARE_HELD or not rest
        if columns > beyond and leaves_registers and rows.vector * item_bytes == ACCESS_BYTES:
            return replace(rows, threads=threads, runs=runs, resident=resident, cluster=cluster,
                           stays=at_once(cluster, processors) * resident, ahead=ahead, near=near)  # fmt: skip
    return replace(rows, turns=TURNS, ahead=4 // item_bytes) if use.has_biases else rows


def at_once(cluster: int, processors: int) -> int:
    """How many clusters of so many CTAs run at the same time, with one CTA on each multiprocessor."""
    return max(1, int(clusters_on(processors, cluster)))


def power_of_two(least: float) -> int:
    """The smallest one that is not below."""
    return 1 << math.ceil(math.log2(least))


# How the elements of arrays are distributed to CTAs, whichever rows they are in: for elementwise kernels.


BLOCK_THREADS = {1 << 17: 128, 1 << 63: 256}  # of a CTA of an elementwise kernel, by the bytes of an array at most


def blocks(*arrays: Array) -> tuple[Rows, list[Array]]:
    """For elementwise kernels: the distribution of parts of rows, and the arrays as matrices. Arrays without gaps count
    as one row, or as rows of one part.
    """
    views = [matrix(array) for array in arrays]
    infos = [info_of(view) for view in views]
    size, contiguous = infos[0].size, all(info.is_contiguous for info in infos)
    nbytes = size * dtype(infos[0].dtype).bits // 8
    threads = next(threads for most, threads in BLOCK_THREADS.items() if nbytes <= most)
    rows = Rows(threads, 1, common_vector(views), whole=False, long=True)
    if contiguous and size % rows.part == 0:
        views = [view.reshape(-1, rows.part) for view in views]
        return replace(rows, whole=True, long=False, exact=True, flat=True), views
    if contiguous and size < 1 << 31:
        views, rows = [view.reshape(1, -1) for view in views], replace(rows, flat=True)
    columns = views[0].shape[-1]
    return replace(rows, whole=columns % rows.vector == 0, exact=columns % rows.part == 0), views
