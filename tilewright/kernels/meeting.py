"""Cooperation of warps that share rows: they exchange numbers, read weights, and prefetch rows. Weights are arguments
with one element for each column; for rows that begin anywhere there is a copy for each shift, so that what belongs to a
whole access of a row is one whole access, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import tilewright as tw
from tilewright.dtypes import dtype
from tilewright.ir.launch import special
from tilewright.kernels.arrays import Array, kind_of, like
from tilewright.kernels.operators import Launches
from tilewright.kernels.rows import ACCESS_BYTES, Rows
from tilewright.lang import T, Tx
from tilewright.layout import R, S, TileLayout, laneid

PLACES = 8  # of a `Meeting`, for rows that a CTA takes one after the other


class Meeting:
    """The exchange of a few numbers between the warps that share a row. `Any`: the language's expressions.

    Each warp stores its numbers, together, in the shared memory of each CTA of the cluster, where an m-barrier counts
    their bytes.
    Each row has a place and an m-barrier of its own; where a CTA stays for all rows, it has `PLACES`, and the CTAs meet
    before one is used again.
    """

    def __init__(self, rows: Rows, numbers: int) -> None:
        self.rows, self.members, self.places = rows, rows.cluster * rows.warps, PLACES if rows.stays else rows.turns
        self.wide = numbers if rows.cluster == 1 else 1 << (numbers - 1).bit_length()  # of a store to a cluster
        self.nbytes = self.members * self.wide * 4
        if rows.by_warps:
            return
        self.told = T.alloc_shared((self.places, self.members, self.wide), "float32", align=ACCESS_BYTES)
        if rows.cluster > 1:
            self.bars = T.alloc_shared((self.places,), "uint64")
            with T.If(special("tid") == 0), T.Then():
                for place in range(self.places):
                    T.ptx.mbarrier.init(self.bars.ptr_to([place]), 1)
                T.ptx.fence.mbarrier_init()
                self._expect()
            T.ptx.barrier.cluster.arrive(sem="relaxed")  # no CTA may be stored to before it has come so far
            if rows.in_turns:
                T.ptx.barrier.cluster.wait()

    def of(self, turn: Any, *values: Any) -> list[Any]:
        """These float32 values of each warp that shares the row, as tiles of the calling warp. By all threads."""
        rank, lane, warps = special("cluster_ctarank"), special("laneid"), self.rows.warps
        warp, place = special("warpid"), turn % self.places if self.rows.stays else turn
        if self.rows.cluster == 1:
            with T.If(lane == 0), T.Then():
                for number, value in enumerate(values):
                    T.ptx.st(self.told.ptr_to([place, warp, number]), value, space="shared")
            T.cuda.cta_sync()
            return self._tiles(place, len(values))
        if self.rows.stays:
            with T.If((turn > 0) & (place == 0)), T.Then():
                T.ptx.barrier.cluster.wait()
        self._send(place, rank * warps + warp, lane, values)
        T.ptx.mbarrier.try_wait(self.bars.ptr_to([place]), turn // self.places & 1 if self.rows.stays else 0)
        tiles = self._tiles(place, len(values))
        if self.rows.stays:
            with T.If((place == self.places - 1) & (turn + 1 < self.rows.turns)), T.Then():
                with T.If(special("tid") == 0), T.Then():
                    self._expect()
                T.ptx.barrier.cluster.arrive()
        return tiles

    def _expect(self) -> None:
        """One thread announces the numbers of the next rows, to all m-barriers."""
        for place in range(self.places):
            T.ptx.mbarrier.arrive.expect_tx(self.bars.ptr_to([place]), self.nbytes)

    def _send(self, place: Any, member: Any, lane: Any, values: tuple[Any, ...]) -> None:
        if not self.rows.in_turns:
            T.ptx.barrier.cluster.wait()
        with T.If(lane < self.rows.cluster), T.Then():
            there = T.ptx.mapa(self.told.ptr_to([place, member, 0]), lane)
            told = T.ptx.mapa(self.bars.ptr_to([place]), lane)
            if self.wide == 1:
                T.ptx.st_async(there, values[0], told)
            else:
                T.ptx.st_async.vec(self.wide, there, told, *values, *values[: self.wide - len(values)])

    def _tiles(self, place: Any, numbers: int) -> list[Any]:
        """The lanes of a warp divide the numbers; several have the same one where there are fewer."""
        lanes = min(self.members & -self.members, 32)  # the largest power of two that divides the members
        runs, again = self.members // lanes, R[32 // lanes : lanes @ laneid]
        all_of_them = S[(runs, lanes, self.wide) : (self.wide, 1 @ laneid, 1)] + again
        wide = T.alloc_buffer((self.members, self.wide), "float32", scope="local", layout=TileLayout(all_of_them))
        Tx.warp.copy(wide, self.told[place, :, :])
        spec = S[(runs, lanes) : (1, 1 @ laneid)] + again
        tiles = []
        for number in range(numbers):
            tile = T.alloc_buffer((self.members,), "float32", scope="local", layout=TileLayout(spec))
            for run in range(runs):
                at = run * self.wide + number
                Tx.copy(tile.local()[run : run + 1], wide.local()[at : at + 1])
            tiles.append(tile)
        return tiles


class Direct:
    """Rows of a matrix, where they are. `Any`: the language's expressions."""

    def __init__(self, rows: Rows, matrix: Any, first: Any, extents: tuple[Any, Any]) -> None:
        self.rows, self.matrix, self.first, self.extents = rows, matrix, first, extents
        self.out: Any = rows.tile(str(matrix.dtype)) if rows.staged else None

    def begin(self, row: Any) -> Rows:
        """Begin with the rows at ``row``: their distribution."""
        self.rows = self.rows.of_row(row)
        return self.rows

    def take(self, tile: Any, row: Any, part: Any, fill: Any = 0) -> None:
        """Bring a part of the rows at ``row`` to registers; ``fill`` is the value of elements outside."""
        there = self.rows.aligned(self.matrix, row, part)
        if not self.rows.shifted:
            self.rows.scope.copy(tile, there, fill=fill)
            return
        with T.If(self.rows.is_cut(part, self.extents[1])):  # where a row begins and ends
            with T.Then():
                self.rows.scope.copy(tile, there, fill=fill)
                self.rows.clear_outside(tile, part, self.extents[1], fill)
            with T.Else():
                self.rows.scope.copy(tile, self.rows.of(self.matrix, row, part))

    def place(self, matrix: Any, row: Any, part: Any, tile: Any) -> Any:
        """Where a part of the results for ``matrix`` is to be stored, before `put`: there, or in a tile of float32."""
        return tile if self.rows.shifted else self.rows.of(matrix, row, part)

    def put(self, matrix: Any, row: Any, part: Any, tile: Any) -> None:
        """Store what `place` has in registers: only the stores ask whether they are inside of the row."""
        if not self.rows.shifted:
            return
        with T.If(self.rows.is_cut(part, self.extents[1])):
            with T.Then():
                out = self.rows.tile(str(matrix.dtype))
                self.rows.scope.cast(out, tile)
                self.rows.scope.copy(self.rows.of(matrix, row, part), out, clip=True)
            with T.Else():
                out = self.rows.tile(str(matrix.dtype))
                self.rows.scope.cast(out, tile)
                self.rows.scope.copy(self.rows.of(matrix, row, part), out)

    def element(self, row: Any, column: Any) -> Any:
        """An element of the calling thread's row."""
        return self.matrix[self.rows.mine(row), column]

    def end(self, matrix: Any) -> None:
        """All results are stored."""


class Coming(Direct):
    """The rows of a matrix that a CTA takes in turns: copies of those ahead are on their way to shared memory.

    Each thread issues the copies of its own elements, and waits for those alone.
    """

    def __init__(self, rows: Rows, matrix: Any, first: Any, extents: tuple[Any, Any]) -> None:
        super().__init__(rows, matrix, first, extents)
        self.stages = T.alloc_shared((rows.ahead, rows.part), str(matrix.dtype), align=128)
        for turn in range(rows.ahead):
            self.call(first + turn * rows.step, turn)

    def call(self, row: Any, slot: Any) -> None:
        """Issue the copy of the CTA's share of a row, if there is one."""
        with T.If(row < T.min(self.first + self.rows.turns * self.rows.step, self.extents[0])), T.Then():
            share = self.rows.aligned(self.matrix, row)
            Tx.cta.copy_async(self.stages[slot : slot + 1, :], share, fill=0, dispatch="ldgsts")
        T.ptx.cp_async.commit_group()

    def take(self, tile: Any, row: Any, part: Any, fill: Any = 0) -> None:
        """Wait for a row, load it to registers, and issue the copy of another one to its place."""
        slot = (row - self.first) // self.rows.step % self.rows.ahead
        T.ptx.cp_async.wait_group(self.rows.ahead - 1)
        near = self.stages[slot : slot + 1, :]
        Tx.cta.copy(tile, near, dispatch="reg")  # ldmatrix reads other threads' copies
        if self.rows.shifted or fill != 0:
            self.rows.clear_outside(tile, 0, self.extents[1], fill)
        self.call(row + self.rows.ahead * self.rows.step, slot)


class InShared(Direct):
    """The rows of a warp, which lie one after the other: copied to shared memory as one piece, and back likewise.

    How long they are is known to the compiler: only a thread's last element may be outside of its row.
    """

    def __init__(self, rows: Rows, matrix: Any, first: Any, extents: tuple[Any, Any]) -> None:
        super().__init__(rows, matrix, first, extents)
        kind, taken = str(matrix.dtype), rows.at_once * rows.turns
        self.memory = T.alloc_shared((rows.warps, taken * rows.staged), kind, align=128)
        self.all = extents[0] - first >= taken
        self.counts = taken * rows.staged, T.max(extents[0] - first, 0) * rows.staged
        with T.If(~self.all), T.Then():  # rows that are not there are read, too
            Tx.warp.fill(self.memory[special("warpid"), :], 0)
            T.cuda.warp_sync()
        self._piece(lambda count: (self._near(0, (count,)), self._there(matrix, count)))
        T.cuda.warp_sync()

    def _piece(self, regions: Any) -> None:
        """A copy of the warp's rows: of as many as it is made for, or of those that there are."""
        many, few = self.counts
        with T.If(self.all):
            with T.Then():
                Tx.warp.copy(*regions(many))
            with T.Else():
                Tx.warp.copy(*regions(few))

    def _there(self, matrix: Any, count: Any) -> Any:
        """So many elements of a matrix, from the warp's first row on."""
        begin = matrix.ptr_to([self.first, 0])
        return T.decl_buffer((count,), str(matrix.dtype), data=begin, align=16)[:count]

    def _near(self, begin: Any, shape: tuple[Any], step: int = 1) -> Any:
        """Elements in shared memory that are so many apart."""
        data, kind = self.memory.ptr_to([special("warpid"), begin]), str(self.memory.dtype)
        align = 16 if step == 1 else dtype(kind).bits // 8
        return T.decl_buffer(shape, kind, data=data, strides=(step,), align=align, scope="shared")[: shape[0]]

    def _begin(self, row: Any) -> Any:
        """Where the row of the calling thread begins."""
        return (row - self.first) * self.rows.staged

    def take(self, tile: Any, row: Any, part: Any, fill: Any = 0) -> None:
        """Bring rows to registers, without a branch, for which the compiler would make all that follows twice."""
        threads, (full, rest) = self.rows.threads, self.rows.last_run
        lane, mine = special("laneid") % threads, tile.local()
        begin = self._begin(self.rows.mine(row)) + lane
        Tx.copy(mine[:full], self._near(begin, (full,), threads))
        if rest:
            place = begin + T.select(lane < rest, full, full - 1) * threads  # others' elements may be results by now
            Tx.copy(mine[full:], self._near(place, (1,), threads))
            Tx.select(mine[full:], mine[full:], fill, lambda _: lane < rest)

    def place(self, matrix: Any, row: Any, part: Any, tile: Any) -> Any:
        """Registers: `put` stores them."""
        return self.out

    def put(self, matrix: Any, row: Any, part: Any, tile: Any) -> None:
        """Store results where the rows were, as each thread has read what it stores."""
        mine, warp, threads = self.out.local(), special("warpid"), self.rows.threads
        lane, (full, rest) = special("laneid") % threads, self.rows.last_run
        begin = self._begin(self.rows.mine(row)) + lane

        def store(k: int) -> None:
            at = begin + k * threads
            Tx.copy(self.memory[warp, at : at + 1], mine[k : k + 1])

        with T.If(self.rows.mine(row) < self.extents[0]), T.Then():
            for k in range(full):
                store(k)
            if rest:
                with T.If(lane < rest), T.Then():
                    store(full)

    def element(self, row: Any, column: Any) -> Any:
        """An element of the calling thread's row."""
        return self.memory[special("warpid"), self._begin(self.rows.mine(row)) + column]

    def end(self, matrix: Any) -> None:
        """Copy the results to where they belong."""
        T.cuda.warp_sync()
        self._piece(lambda count: (self._there(matrix, count), self._near(0, (count,))))


def coming(rows: Rows, matrix: Any, first: Any, extents: tuple[Any, Any]) -> Direct:
    """Where kernels take rows from, and store results to."""
    return (InShared if rows.staged else Coming if rows.ahead else Direct)(rows, matrix, first, extents)


class Weights:
    """An argument with one element for each column. `Any`: the language's expressions."""

    def __init__(self, rows: Rows, line: Any, first: Any) -> None:
        self.rows, self.line, kind = rows, line, str(line.dtype)
        tile: Any = rows.tile(kind) if rows.shifted else rows.line_tile(kind) if rows.early else None
        self.tile = tile
        self.kept: Any = None
        if rows.is_early:
            T.ptx.griddepcontrol.wait()  # for the kernel that shifts the line; all before it have ended
        assert rows.near or not (rows.early and rows.moves), "registers have the weights of one shift"
        if rows.near and rows.moves:  # all accesses of the CTA's share
            self.kept = T.alloc_shared((1, rows.part + rows.room), kind, align=ACCESS_BYTES)
            rows.scope.copy(self.kept, self._region(rows.of_row(first), 0, rows.room))
            T.cuda.cta_sync()
            return
        if rows.early:
            rows.scope.copy(tile, self._region(rows, 0), fill=0)
        if rows.near:  # each thread stores and loads what is its own
            self.kept = T.alloc_shared(tile.shape, kind, align=ACCESS_BYTES)
            rows.scope.copy(self.kept, tile, dispatch="reg")

    def part(self, rows: Rows, part: Any) -> Any:
        """The weights of a part of a row."""
        if rows.near:
            begin = rows.room - rows.shift // rows.vector * rows.vector
            kept = self.kept[:, begin : begin + rows.part] if rows.moves else self.kept
            rows.scope.copy(self.tile, kept, dispatch="reg")
        elif rows.shifted and not rows.early:
            rows.scope.copy(self.tile, self._region(rows, part))  # whole accesses: copies reach beyond the row
        return self._region(rows, part) if self.tile is None else self.tile

    def _region(self, rows: Rows, part: Any, more: int = 0) -> Any:
        """The weights of a part of a row, and so many elements before it, of which all shifts need some."""
        if not rows.shifted:
            return self.line[rows.columns(part)]
        copy, begin = rows.shift % rows.vector, rows.share(part)
        if not more:
            begin = begin + rows.room - rows.shift // rows.vector * rows.vector
        return self.line[copy : copy + 1, begin : begin + rows.part + more]


class Numbers:
    """An argument with one element for each row. A warp that has several rows in shared memory reads those of all of
    them together, before the rows. `Any`: the language's expressions.
    """

    def __init__(self, rows: Rows, line: Any, first: Any, count: Any) -> None:
        self.rows, self.line, self.first = rows, line, first
        self.mine = rows.each(str(line.dtype))
        if rows.staged:
            lane, mine = special("laneid"), self.mine.local()
            Tx.fill(mine, -1)
            with T.If(first + lane < count), T.Then():
                Tx.copy(mine[0:1], line[first + lane : first + lane + 1])

    def of(self, row: Any) -> Any:
        """The number of the calling thread's row; -1 where there is none."""
        if not self.rows.staged:
            self.rows.scope.copy(self.mine, self.line[self.rows.at(row)], fill=-1)
            return self.mine.local()[0]
        return T.cuda.shfl_sync(0xFFFFFFFF, self.mine.local()[0], self.rows.mine(row) - self.first)


THREADS, HELD = 128, 4  # of a CTA, and elements of each


@cache
def shifting(vector: int, before: int, kind: str, count: int, *, early: bool) -> tw.Executable:
    """y[s, j] = w[j - before - s], and 0 where w has no such element; z likewise, of v, if there are two.

    early: may the kernel that follows begin, and wait for the results?
    """
    rows = Rows(THREADS, HELD, 1, True, long=True)

    @T.prim_func
    def shifted_lines(w: T.handle, v: T.handle, y: T.handle, z: T.handle) -> None:
        n, width = T.int32(), T.int32()
        lines = T.meta_var([T.match_buffer(line, (n,), kind, align=dtype(kind).bits // 8) for line in (w, v)[:count]])
        filled = T.meta_var([T.match_buffer(copies, (vector, width), kind) for copies in (y, z)[:count]])
        strip, shift, which = T.cta_id([T.ceildiv(width, rows.part), vector, count])
        T.thread_id([THREADS])
        if early:
            T.ptx.griddepcontrol.launch_dependents()
        begin: T.let = strip * rows.part
        first: T.let = begin - before - shift
        tile = rows.line_tile(kind)
        for number in tuple(range(count)):
            if which == number:
                Tx.cta.copy(tile, lines[number][first : first + rows.part], fill=0)
                Tx.cta.copy(filled[number][shift, begin : begin + rows.part], tile, clip=True)

    return tw.compile(shifted_lines)


def for_shifts(rows: Rows, *lines: Array) -> tuple[Array, ...]:
    """The arguments as a kernel of such rows takes them: new arrays for `shifted` to fill, if rows begin anywhere."""
    if not rows.shifted:
        return lines
    return tuple(like(line, rows.line_shape) for line in lines)


def shifted(rows: Rows, lines: Sequence[Array], filled: Sequence[Array]) -> Launches:
    """The launch that fills what `for_shifts` made: none to two arguments."""
    if rows.shifted and lines:
        kernel = shifting(rows.vector, rows.spacing - rows.vector, kind_of(lines[0]), len(lines), early=rows.is_early)
        more = (0,) * (2 - len(lines))
        yield kernel, (*lines, *more, *filled, *more)
