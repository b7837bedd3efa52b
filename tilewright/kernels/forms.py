"""Variants of the matrix product's kernel: tiles, arrays and the epilogue; and the parts that all variants share, used
while the kernel is parsed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.dtypes import dtype
from tilewright.isa import ARCHS
from tilewright.lang import T, Tx

SWIZZLES = {16: 0, 32: 1, 64: 2, 128: 3}  # by the bytes of a row
ROW_BYTES = 128  # bytes of a stage along K, and of a slab's row: the width of the swizzle
SHARED_BYTES, KEPT_BYTES = ARCHS["sm_90"].sm_shared_bytes, 1024  # of a multiprocessor; of each CTA, for the system
REGISTERS = {(2, 1): (40, 232), (3, 1): (32, 160), (2, 2): (24, 104)}  # by warpgroups and resident CTAs
MOST_BESIDE = 128 * 128  # sums of a tile that the CTAs of a cluster exchange in memory beside the ring
ACTIVATIONS: dict[str, Callable[[Any], Any]] = {"": lambda x: x, "relu": T.relu, "gelu": T.gelu, "silu": T.silu}


def strided(pointer: Any, shape: Sequence[Any], kind: str, *, steps: Sequence[Any] = (), aligned: bool = True) -> Any:
    """An argument whose last dimension has no gaps. steps: from one to the next along the others, any if left out.
    aligned: do rows begin at multiples of 16 bytes, as the copy engine asks? `Any`: values of the language.
    """
    steps = steps or [T.int64() for _ in shape[1:]]
    view = T.match_buffer(pointer, tuple(shape), kind, strides=(*steps, 1))
    for step in steps if aligned else ():
        T.assume(step % (128 // dtype(kind).bits) == 0)
    return view


@dataclass(frozen=True, slots=True)
class Tiles:
    """m, n: a CTA's tile of C. cluster: CTAs, one below the other, which share B; beside: columns of such CTAs in a
    cluster, of which those of a row share A. parts: of K, one for each CTA of a cluster, which all have the same tile.
    apart: parts of K, each multiplied as above by CTAs anywhere, and added up by the kernel `combine`. resident: CTAs
    of a multiprocessor. pingpong: do two warpgroups take whole tiles in turns, so that one multiplies while the other
    stores, and do not share the rows of one? band: rows of clusters that are walked down before the walk goes right, as
    many as the L2 cache likes. stages: of the ring, at most. slabs: of a warpgroup, where C is stored from.
    """

    m: int = 128
    n: int = 256
    cluster: int = 2
    beside: int = 1
    parts: int = 1
    apart: int = 1
    resident: int = 1
    pingpong: bool = False
    band: int = 8
    stages: int = 16
    slabs: int = 2

    @property
    def ctas(self) -> int:
        """CTAs of a cluster."""
        return self.cluster * self.beside * self.parts

    def sharers(self, rank: Any) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
        """The number of a CTA among those that share A, and these as bits; the same of B. None: the first ones."""
        if self.beside == 1:
            return (0, None), (rank, None)
        below, right = rank % self.cluster, rank // self.cluster
        row = sum(1 << self.cluster * number for number in range(self.beside))
        return (right, row << below), (below, 2**self.cluster - 1 << right * self.cluster)

    @property
    def groups(self) -> int:
        """Warpgroups that multiply: of 64 rows each, of 256 rows 128, unless they take turns."""
        return 2 if self.pingpong else 3 if self.m == 192 else min(2, self.m // 64)

    @property
    def sharing(self) -> int:
        """Warpgroups that share the rows of a tile."""
        return 1 if self.pingpong else self.groups

    @property
    def rows(self) -> int:
        """Rows of a tile that a warpgroup has."""
        return self.m // self.sharing

    @property
    def registers(self) -> tuple[int | None, int | None]:
        """The registers of each thread that copies, and of each that multiplies; None: as many as at the start."""
        return REGISTERS.get((self.groups, self.resident), (None, None))

    def clusters(self, asked: Any, batch: Any, m: Any, n: Any) -> Any:
        """How many there are: as many as the caller says, or, where their CTAs share K, one for each tile."""
        if self.parts == 1:
            return asked
        down = T.ceildiv(m, self.m)
        return (down if batch is None else down * batch) * T.ceildiv(n, self.n)

    @property
    def lends(self) -> bool:
        """Does the ring lend its memory to the sums that are exchanged? They would leave it too few stages."""
        return self.parts > 1 and self.m * self.n > MOST_BESIDE

    def share(self, unit: int) -> int:
        """Columns of a tile that a CTA of a cluster adds up and stores: multiples of ``unit``."""
        return max(unit, self.n // self.parts)


@dataclass(frozen=True, slots=True)
class MatmulKind:
    """a, b, c: elements of the arrays, "tf32" of float32 that is multiplied. turned: of A, B and C, whether rows are
    contiguous in memory along M or N instead of K, C along M. batched: is there a dimension before? partial: has C
    one, for the parts of K whose sums it has? bias, residual: their elements, "" where there is none. scales: "tensor",
    a number for A and one for B; "rows", one for each row of A and of B; or "".
    """

    a: str
    b: str
    c: str
    turned: tuple[bool, bool, bool] = (False, False, False)
    batched: bool = False
    partial: bool = False
    bias: str = ""
    residual: str = ""
    activation: str = ""
    scales: str = ""

    def array(self, pointer: Any, batch: Any, shape: Sequence[Any], kind: str) -> Any:
        """An argument whose rows begin at multiples of 16 bytes."""
        pitch = T.int32()
        if batch is None:
            return strided(pointer, shape, kind, steps=(pitch,))
        return strided(pointer, (batch, *shape), kind, steps=(T.int64(), pitch))

    def unit(self, tiles: Tiles) -> int:
        """Columns of a slab: what divides a tile, and a row of a slab holds; or, where C is turned, rows of C.

        Rows of 16 bytes times an odd number lie in different banks as they are, those of 32, 64 and 128 swizzled.
        """
        bits, columns = dtype(self.c).bits, tiles.n // tiles.parts
        wides = [wide for wide in range(8, ROW_BYTES * 8 // bits + 1, 8) if wide == 8 or columns % wide == 0]
        return max(wide for wide in wides if self.turned[2] or wide * bits // 128 % 2 or wide * bits // 8 in SWIZZLES)

    def slabs(self, pool: Any, tiles: Tiles) -> Any:
        """Where a warpgroup's tile is stored from, 64 rows and a unit of columns at a time: in C's order."""
        wide, nbytes = self.unit(tiles), dtype(self.c).bits // 8
        every = (tiles.groups, tiles.slabs)
        shape = (*every, wide, 64) if self.turned[2] else (*every, 64, wide)
        row_bytes = min(ROW_BYTES, shape[-1] * nbytes)
        if row_bytes in SWIZZLES:
            return pool.alloc_mma(shape, self.c, SWIZZLES[row_bytes])
        return pool.alloc(shape, self.c, align=128)

    def stages(self, tiles: Tiles) -> int:
        """How many stages of the ring fit beside all else in shared memory."""
        slabs = tiles.groups * tiles.slabs * 64 * self.unit(tiles) * dtype(self.c).bits // 8
        lines = tiles.n * dtype(self.bias).bits // 8 + 64 if self.bias else 0
        lines += 4 * (tiles.n + tiles.m) + 64 if self.scales == "rows" else 0
        sums = 4 * 64 * tiles.parts * tiles.share(self.unit(tiles)) if tiles.parts > 1 and not tiles.lends else 0
        room = SHARED_BYTES // tiles.resident - KEPT_BYTES - slabs - tiles.groups * (lines + sums) - 512
        return min(tiles.stages, room // ((tiles.m + tiles.n) * ROW_BYTES))

    def part(self, array: Any, batch: Any, *places: slice) -> Any:
        """A region of an argument."""
        return array[(batch, *places) if len(array.shape) > len(places) else places]

    def result(self, pointer: Any, batch: Any, m: Any, n: Any, kind: str = "") -> Any:
        """C, or what is as large, as it lies in memory: M x N, or, turned, N x M."""
        return self.array(pointer, batch, (n, m) if self.turned[2] else (m, n), kind or self.c)

    def upright(self, array: Any) -> Any:
        """An array that lies like C, as M x N."""
        last = len(array.shape) - 1
        return array.permute(*range(last - 1), last, last - 1) if self.turned[2] else array

    def epilogue(self, pool: Any, tiles: Tiles, arguments: Sequence[Any], extents: Sequence[Any]) -> Epilogue:
        """The epilogue, with those arguments that the form has."""
        bias, residual, scale_a, scale_b = arguments
        batch, m, n = extents
        along = (m, 1) if self.turned[2] else (1, n)  # C turned is the product of the weights, with a bias for each row
        rows, columns = (1, 1) if self.scales == "tensor" else (m, n)
        lines = [None, None] if self.scales == "tensor" else [None, batch] if self.turned[2] else [batch, None]  # of a
        return Epilogue(
            self,
            self.bias and EpilogueLine(pool, tiles, bias, along, self.bias),
            self.residual and self.upright(self.result(residual, batch, m, n, self.residual)),
            self.scales and EpilogueLine(pool, tiles, scale_a, (rows, 1), "float32", lines[0]),
            self.scales and EpilogueLine(pool, tiles, scale_b, (1, columns), "float32", lines[1]),
        )


@T.meta_class
class EpilogueLine:
    """A number for each row or column of C, or one for all. The numbers of a tile are copied to shared memory while it
    is multiplied, for each warpgroup its own. batch: how many there are of all that. `Any`: values of the language.
    """

    def __init__(
        self, pool: Any, tiles: Tiles, pointer: Any, shape: Sequence[Any], kind: str, batch: Any = None
    ) -> None:
        every = tuple(shape) if batch is None else (batch, *shape)
        self.array = T.match_buffer(pointer, every, kind, align=dtype(kind).bits // 8)
        self.extents = [1 if isinstance(extent, int) else size for extent, size in
                        zip(shape, (tiles.rows, tiles.n), strict=True)]  # fmt: skip
        self.is_one = self.extents == [1, 1]
        self.is_async = not self.is_one and dtype(kind).bits == 32  # what ``cp.async`` copies
        self.near: Any = None if self.is_one else pool.alloc((tiles.groups, *self.extents), kind, align=16)

    def fetch(self, place: Any, who: Any) -> None:
        """A warpgroup issues the copy of its tile's numbers, by ``cp.async`` where elements are wide enough."""
        if self.is_one:
            return
        corner = (place.row, place.column)
        part = tuple(slice(at, at + extent) if extent > 1 else slice(0, 1)
                     for at, extent in zip(corner, self.extents, strict=True))  # fmt: skip
        part = part if len(self.array.shape) == 2 else (place.batch, *part)
        if self.is_async:
            Tx.wg.copy_async(self.near[who], self.array[part], fill=0, dispatch="ldgsts")
        else:
            Tx.wg.copy(self.near[who], self.array[part], fill=0)

    def of(self, who: Any, below: Any, high: int, right: Any, wide: int) -> Any:
        """The numbers of a part of the tile."""
        if self.is_one:
            return self.array[0:1, 0:1]
        part = zip((below, right), (high, wide), self.extents, strict=True)
        return self.near[(who, *(slice(at, at + many) if extent > 1 else slice(0, 1) for at, many, extent in part))]


@dataclass(frozen=True, slots=True)
class Epilogue:
    """The arguments of an epilogue; "" for those that it has not. `Any`: buffers."""

    form: MatmulKind
    bias: Any
    residual: Any
    scale_a: Any
    scale_b: Any

    @property
    def lines(self) -> list[EpilogueLine]:
        """Those that there are."""
        return [line for line in (self.bias, self.scale_a, self.scale_b) if line]

    @property
    def is_async(self) -> bool:
        """Is there a copy to wait for?"""
        return any(line.is_async for line in self.lines)

    def fetch(self, place: Any, who: Any) -> None:
        """Issue the copies that the tile of a warpgroup needs."""
        for line in self.lines:
            line.fetch(place, who)
        if self.is_async:
            T.ptx.cp_async.commit_group()

    def arrived(self) -> None:
        """Wait for the thread's own copies; a barrier must follow."""
        if self.is_async:
            T.ptx.cp_async.wait_group(0)

    def __call__(self, sums: Any, place: Any, who: Any, below: Any, right: Any) -> Any:
        """The results for a part of the sums, as a tile. The part begins so far below and right of the place."""
        high, wide = sums.extents
        part = (who, below, high, right, wide)
        values = sums
        if self.form.scales:
            values = values * self.scale_a.of(*part) * self.scale_b.of(*part)
        if self.form.bias:
            values = values + self.bias.of(*part)
        values = ACTIVATIONS[self.form.activation](values)
        return values + place.of(self.residual, below, high, right, wide) if self.form.residual else values


@T.meta_class
class MatmulOperand:
    """A or B: the array, rows x K, and its tiles in the stages of the ring. `Any`: values of the language."""

    def __init__(
        self, form: MatmulKind, which: int, pool: Any, argument: Sequence[Any], stages: int, rows: int
    ) -> None:
        pointer, batch, extent, k = argument
        kind, self.turned, self.form = (form.a, form.b)[which], form.turned[which], form
        self.depth = depth = ROW_BYTES * 8 // dtype(kind).bits
        lead = batch if form.batched else None
        self.array = form.array(pointer, lead, (k, extent) if self.turned else (extent, k), kind)
        tile, swizzled = ((depth, rows), math.gcd(depth, rows)) if self.turned else ((rows, depth), depth)
        self.ring = pool.alloc_mma((stages, *tile), kind, SWIZZLES[swizzled * ROW_BYTES // depth])
        self.stage_bytes = tile[0] * tile[1] * dtype(kind).bits // 8

    def stage(self, number: Any, first: Any, rows: int) -> Any:
        """Rows of the tile in a stage."""
        part = slice(first, first + rows)
        return self.ring[(number, slice(None), part) if self.turned else (number, part, slice(None))]

    def load(
        self, put: Any, batch: Any, row: Any, step: Any, rank: Any = 0, ctas: int = 1, mask: Any = None
    ) -> None:  # fmt: skip
        """One thread issues the copy of the tile that begins at a row of the array, in a step along K; each of so many
        CTAs of a cluster a part of it, for all of them: those of the mask, if they are not the first ones.
        """
        high, wide = self.ring.shape[1] // ctas, self.ring.shape[2]
        down, right = (step * self.depth, row) if self.turned else (row, step * self.depth)
        first = rank * high
        source = self.form.part(self.array, batch, slice(down + first, down + first + high), slice(right, right + wide))
        here = self.ring[put.stage, first : first + high, :]
        mask = 2**ctas - 1 if mask is None else mask
        Tx.copy_async(here, source, mbar=put.full, cta_mask=mask if ctas > 1 else None)


@T.meta_class
class TilePlace:
    """The tiles of C that a CTA has, one after the other: where this one begins, ``batch``, ``row`` and ``column``."""

    def __init__(self, tiles: Tiles, form: MatmulKind, batch: Any, m: Any, n: Any, clusters: Any) -> None:
        self.tiles, self.form, self.layers = tiles, form, batch
        self.rows = T.ceildiv(m, tiles.m * tiles.cluster)
        every = self.rows if batch is None else self.rows * batch
        self.walk = T.ClusterPersistentScheduler2D(
            "tile", every, T.ceildiv(n, tiles.n * tiles.beside), clusters, tiles.band
        )
        self.batch: Any = None if batch is None else T.local_scalar("int32")
        self.row, self.column = T.local_scalar("int32"), T.local_scalar("int32")

    def begin(self, cluster: Any, rank: Any, below: Any = 0, right: Any = 0) -> None:
        """Begin with the first tile of the cluster; below, right: where in the tile a warpgroup's part of it begins."""
        self.shift, self.right = rank * self.tiles.m + below, right
        self.walk.init(cluster)
        self._settle()

    def valid(self) -> Any:
        """Is there a tile left?"""
        return self.walk.valid()

    def is_followed(self) -> Any:
        """Is there a tile behind this one?"""
        return self.walk.tile + self.walk.clusters < self.walk.rows * self.walk.columns

    def next(self) -> None:
        """Go on to the next tile."""
        self.walk.next_tile()
        self._settle()

    def steps(self, number: Any) -> tuple[Any, Any]:
        """Where this tile's part of K begins, and where it ends, of so many steps along K."""
        if not self.form.partial:
            return 0, number
        return self.batch * number // self.layers, (self.batch + 1) * number // self.layers

    def _settle(self) -> None:
        down = self.walk.m_idx
        if self.layers is not None:
            self.batch = down // self.rows
            down = down - self.batch * self.rows
        self.row = down * (self.tiles.m * self.tiles.cluster) + self.shift
        self.column = self.walk.n_idx * (self.tiles.n * self.tiles.beside) + self.right

    def of(self, array: Any, below: Any, high: int, right: Any, wide: int, *, as_it_lies: bool = False) -> Any:
        """A part of the tile in C, upright or not."""
        rows = slice(self.row + below, self.row + below + high)
        columns = slice(self.column + right, self.column + right + wide)
        places = (columns, rows) if as_it_lies and self.form.turned[2] else (rows, columns)
        return self.form.part(array, self.batch, *places)


class TileTurns:
    """The tiles of a warpgroup: all of its CTA, whose rows warpgroups share, or every second one, where two take turns.

    Then each multiplies once the other has issued its products, and leaves out the other's tile and its stages of the
    ring, of which ``steps`` says how many. A warpgroup that ran ahead would take the phase before the last one of a
    stage for the one that it waits for.
    """

    FIRST_BARRIER = 3  # behind those of `store`

    def __init__(self, place: TilePlace, who: Any, take: Any, steps: Callable[[], Any]) -> None:
        self.place, self.who, self.stages, self.steps = place, who, take, steps
        self.turns = T.WarpgroupTurns(2, self.FIRST_BARRIER) if place.tiles.pingpong else None
        self.above = 0 if self.turns else who * place.tiles.rows  # rows of a tile before the warpgroup's

    def begin(self, cluster: Any, below: Any, right: Any) -> None:
        """Begin with the first tile of the cluster, or with the second one; as `TilePlace.begin`."""
        self.place.begin(cluster, below, self.above, right)
        if self.turns:
            self.turns.begin(self.who)
            with T.If(self.who == 1), T.Then():
                self._leave_out()

    def take(self) -> None:
        """Wait until the other one has issued all products of its tile."""
        if self.turns:
            self.turns.take(self.who)

    def pass_on(self) -> None:
        """All products of the tile are issued: the other one may begin with the next tile, if there is one."""
        if self.turns:
            with T.If(self.place.is_followed()), T.Then():
                self.turns.pass_on(self.who)

    def next(self) -> None:
        """Go on to the next tile."""
        self.place.next()
        if self.turns:
            self._leave_out()

    def _leave_out(self) -> None:
        stages = self.stages
        after = stages.stage + self.steps()
        stages.phase = stages.phase ^ (after // stages.depth & 1)
        stages.stage = after % stages.depth
        self.place.next()
