"""What the kernel of a matrix product is made for: tiles, arrays and what follows the product; and its parts that are
the same for all of them, used while the kernel is parsed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.dtypes import dtype
from tilewright.lang import T, Tx

__all__ = ["ACTIVATIONS", "ROW_BYTES", "Form", "Operand", "Place", "Tiles"]

ROW_BYTES = 128  # bytes of a stage along K, and of a slab's row: the width of the swizzle
ACTIVATIONS: dict[str, Callable[[Any], Any]] = {"": lambda x: x, "relu": T.relu, "gelu": T.gelu, "silu": T.silu}


@dataclass(frozen=True, slots=True)
class Tiles:
    """m, n: a CTA's tile of C. groups: warpgroups that share its rows. stages: of the ring. cluster: CTAs, one below
    the other. band: rows of clusters that are walked down before the walk goes right, as many as the L2 cache likes.
    slabs: of a warpgroup, where C is stored from; at_once: how many of them are written between two barriers. resident:
    CTAs of a multiprocessor.
    """

    m: int = 128
    n: int = 256
    groups: int = 2
    stages: int = 4
    cluster: int = 2
    band: int = 8
    slabs: int = 2
    at_once: int = 1
    resident: int = 1

    @property
    def registers(self) -> tuple[int | None, int | None]:
        """Of each thread that copies, and that multiplies; None: as many as the kernel begins with."""
        return {(2, 1): (40, 232), (3, 1): (32, 160)}.get((self.groups, self.resident), (None, None))

    def slabs_of(self, wide: int) -> int:
        """Slabs of so many columns; one, where tiles have no multiple of them: turns go on from tile to tile."""
        return self.slabs if self.m // self.groups // 64 * (self.n // wide) % self.slabs == 0 else self.at_once

    @property
    def all_ctas(self) -> int | None:
        """The mask of a copy that comes to all CTAs of the cluster."""
        return 2**self.cluster - 1 if self.cluster > 1 else None


@dataclass(frozen=True, slots=True)
class Form:
    """a, b, c: elements of the arrays, "tf32" of float32 that is multiplied. turned: of A, B and C, whether rows are
    contiguous in memory along M or N instead of along K, C along M. batched: is there a dimension before? bias,
    residual: their elements, "" where there is none. scales: "tensor", a number for A and one for B; "rows", one for
    each row of A and of B; or "".
    """

    a: str
    b: str
    c: str
    turned: tuple[bool, bool, bool] = (False, False, False)
    batched: bool = False
    bias: str = ""
    residual: str = ""
    activation: str = ""
    scales: str = ""

    def array(self, pointer: Any, batch: Any, shape: Sequence[Any], kind: str) -> Any:
        """An argument whose rows begin at multiples of 16 bytes."""
        pitch, shape = T.int32(), tuple(shape)
        steps: tuple[Any, ...] = (pitch,)
        if self.batched:
            steps, shape = (T.int64(), pitch), (batch, *shape)
        found = T.match_buffer(pointer, shape, kind, strides=(*steps, 1))
        for step in steps:
            T.assume(step % (128 // dtype(kind).bits) == 0)
        return found

    def part(self, array: Any, batch: Any, *places: slice) -> Any:
        """A region of an argument."""
        return array[(batch, *places) if self.batched else places]

    def result(self, pointer: Any, batch: Any, m: Any, n: Any, kind: str = "") -> Any:
        """C, or what is as large, M x N."""
        if not self.turned[2]:
            return self.array(pointer, batch, (m, n), kind or self.c)
        return self.array(pointer, batch, (n, m), kind or self.c).permute(*((0, 2, 1) if self.batched else (1, 0)))

    def epilogue(self, bias: Any, residual: Any, scale_a: Any, scale_b: Any, batch: Any, m: Any, n: Any) -> Epilogue:
        """What follows the product, of those arguments that there are."""
        along = (m, 1) if self.turned[2] else (1, n)  # C turned is the product of the weights, with a bias for each row
        one = self.scales == "tensor"
        return Epilogue(
            self,
            self.bias and T.match_buffer(bias, along, self.bias, align=dtype(self.bias).bits // 8),
            self.residual and self.result(residual, batch, m, n, self.residual),
            self.scales and T.match_buffer(scale_a, (1 if one else m, 1), "float32", align=4),
            self.scales and T.match_buffer(scale_b, (1, 1 if one else n), "float32", align=4),
        )


@dataclass(frozen=True, slots=True)
class Epilogue:
    """The arguments of what follows a product; "" for those that there are not. `Any`: buffers."""

    form: Form
    bias: Any
    residual: Any
    scale_a: Any
    scale_b: Any

    def __call__(self, sums: Any, place: Any, below: Any, right: Any) -> Any:
        """What becomes of a part of the sums, which begins so far below and right of the place, as a tile."""
        high, wide = sums.extents
        rows = slice(place.row + below, place.row + below + high)
        columns = slice(place.column + right, place.column + right + wide)
        found = sums
        if self.form.scales:
            found = found * self._of(self.scale_a, rows, columns) * self._of(self.scale_b, rows, columns)
        if self.form.bias:
            found = found + self._of(self.bias, rows, columns)
        found = ACTIVATIONS[self.form.activation](found)
        return found + self.form.part(self.residual, place.batch, rows, columns) if self.form.residual else found

    def _of(self, array: Any, rows: slice, columns: slice) -> Any:
        """The piece of a row or column of numbers that belongs to a part of C."""
        whole = slice(0, 1)
        return array[whole if array.shape[0] == 1 else rows, whole if array.shape[1] == 1 else columns]


class Operand:
    """A or B: the array, rows x K, and its tiles in the stages of the ring. `Any`: values of the language."""

    def __init__(self, form: Form, which: int, pool: Any, argument: Sequence[Any], stages: int, rows: int) -> None:
        pointer, batch, extent, k = argument
        kind, self.turned, self.form = (form.a, form.b)[which], form.turned[which], form
        self.depth = ROW_BYTES * 8 // dtype(kind).bits
        self.array = form.array(pointer, batch, (k, extent) if self.turned else (extent, k), kind)
        tile = (self.depth, rows) if self.turned else (rows, self.depth)
        self.ring = pool.alloc_mma((stages, *tile), kind)

    def stage(self, number: Any, first: Any, rows: int) -> Any:
        """Rows of the tile in a stage."""
        part = slice(first, first + rows)
        return self.ring[(number, slice(None), part) if self.turned else (number, part, slice(None))]

    def load(self, put: Any, batch: Any, row: Any, first: Any, rows: int, step: Any, mask: int | None = None) -> None:
        """One thread has rows of the array copied to rows of the tile, in a step along K."""
        part, along = slice(row, row + rows), slice(step * self.depth, step * self.depth + self.depth)
        source = self.form.part(self.array, batch, *((along, part) if self.turned else (part, along)))
        Tx.copy_async(self.stage(put.stage, first, rows), source, mbar=put.full, cta_mask=mask)


@T.meta_class
class Place:
    """The tiles of C that a CTA has, one after the other: where this one begins, ``batch``, ``row`` and ``column``."""

    def __init__(self, tiles: Tiles, form: Form, batch: Any, m: Any, n: Any, clusters: Any) -> None:
        self.tiles, self.form = tiles, form
        self.rows = T.ceildiv(m, tiles.m * tiles.cluster)
        every = self.rows * batch if form.batched else self.rows
        self.walk = T.ClusterPersistentScheduler2D("tile", every, T.ceildiv(n, tiles.n), clusters, tiles.band)
        self.batch = T.local_scalar("int32") if form.batched else None
        self.row, self.column = T.local_scalar("int32"), T.local_scalar("int32")

    def begin(self, cluster: Any, rank: Any, below: Any = 0) -> None:
        """Begin with the first tile of the cluster; ``below``: rows further down, where a warpgroup has part of it."""
        self.shift = rank * self.tiles.m + below
        self.walk.init(cluster)
        self._settle()

    def valid(self) -> Any:
        """Is there a tile left?"""
        return self.walk.valid()

    def next(self) -> None:
        """Go on to the next tile."""
        self.walk.next_tile()
        self._settle()

    def _settle(self) -> None:
        down = self.walk.m_idx
        if self.form.batched:
            self.batch = down // self.rows
            down = down - self.batch * self.rows
        self.row = down * (self.tiles.m * self.tiles.cluster) + self.shift
        self.column = self.walk.n_idx * self.tiles.n

    def of(self, array: Any, below: Any, high: int, right: Any, wide: int) -> Any:
        """A part of the tile in C."""
        rows = slice(self.row + below, self.row + below + high)
        return self.form.part(array, self.batch, rows, slice(self.column + right, self.column + right + wide))
