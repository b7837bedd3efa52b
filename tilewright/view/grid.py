"""A picture of a layout, of memory or of an atom before it is drawn: cells in rows and columns, each with its words and
its colour key.

Text, terminal, SVG, HTML and JSON all draw the same `Grid`, so that they never disagree.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.dtypes import DType, dtype
from tilewright.errors import ArgumentError, LayoutError, choices
from tilewright.isa import CopyAtom, MmaAtom, WgmmaAtom
from tilewright.layout import SCOPES, Axis, ComposeLayout, Layout, Table, TileLayout, threads
from tilewright.public import Public, instances

public = Public(
    ArgumentError,
    {
        "Layout": instances("a layout", Layout),
        "DType": instances("a dtype of tilewright", DType),
        "CopyAtom": instances("a copy atom", CopyAtom),
        "MmaAtom": instances("an mma", MmaAtom),
        "WgmmaAtom": instances("a wgmma", WgmmaAtom),
    },
)
"""The decorator of this room's public functions."""

COLOURINGS = ("lane", "register", "bank")
MOST_CELLS = 1 << 16
LONGEST_ROW = 64  # cells, where a layout without a shape of its own is folded


@dataclass(frozen=True, slots=True)
class Cell:
    """words: what stands in it. key: equal keys have equal colours; -1 for none."""

    words: str
    key: int = -1


@public.kind_of("a grid, as layout_grid makes one")
@dataclass(frozen=True, slots=True)
class Grid:
    """Rows of cells. title: one line above. corner, columns, names: the heads. key_name: what colours distinguish."""

    title: str
    rows: tuple[tuple[Cell, ...], ...]
    columns: tuple[str, ...]
    names: tuple[str, ...]
    corner: str = "row / column"
    key_name: str = ""

    @property
    def keys(self) -> list[int]:
        """The colour keys that occur, in order."""
        return sorted({cell.key for row in self.rows for cell in row if cell.key >= 0})

    @public
    def above(self, stop: int) -> Grid:
        """The rows up to ``stop``, with their names."""
        return replace(self, rows=self.rows[:stop], names=self.names[:stop])

    @public
    def below(self, start: int) -> Grid:
        """The rows from ``start`` on, with their names."""
        return replace(self, rows=self.rows[start:], names=self.names[start:])

    @public
    def between(self, start: int, stop: int) -> Grid:
        """The columns from ``start`` up to ``stop``, with their heads."""
        return replace(self, columns=self.columns[start:stop], rows=tuple(row[start:stop] for row in self.rows))

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from tilewright.view.drawing import html

        return html(self)


@public
def picture_shape(layout: Layout) -> tuple[int, ...]:
    """The rows and columns in which a layout is drawn whose tile has no other shape.

    A tile layout of two iters has their extents. Where it has more, its iters are divided where the picture comes
    nearest to a square, rather wide than tall: the fragment of a matrix instruction becomes its matrix.

    >>> from tilewright.layout import S, laneid
    >>> picture_shape(S[(8, 4, 2) : (4 @ laneid, 1 @ laneid, 1)])
    (8, 8)
    """
    tile = layout.tile if isinstance(layout, ComposeLayout) else layout
    extents = tuple(int(extent) for extent in tile.extents) if isinstance(tile, TileLayout) else ()
    if len(extents) == 2:
        return extents
    if len(extents) > 2:
        shapes = [(prod(extents[:k]), prod(extents[k:])) for k in range(1, len(extents))]
        return min(shapes, key=lambda shape: (max(shape) / min(shape), -shape[1]))
    size = int(layout.size())
    return (size // LONGEST_ROW, LONGEST_ROW) if size > LONGEST_ROW and size % LONGEST_ROW == 0 else (size,)


def _check_shape(shape: Sequence[int]) -> None:
    """Raises LayoutError for a tile that no picture can show: without elements, or with too many."""
    text = f"{' x '.join(map(str, shape))} elements"
    if not shape or min(shape) < 1:
        raise LayoutError("the tile has no elements to draw", given=text, allowed="extents from 1 on")
    if prod(shape) > MOST_CELLS:
        raise LayoutError("the tile is too large for a picture", given=text, allowed=f"{MOST_CELLS} elements")


def picture_table(layout: Layout, shape: Sequence[int]) -> Table:
    """The places of a tile that a picture can show; without any axis, each element is at 0 of m.

    Raises LayoutError for a tile without elements, or with too many places.
    """
    copies = [it.extent for it in layout.parted(shape)[1].replica if isinstance(it.extent, int)]
    _check_shape((*shape, *copies))
    return layout.table(shape) or {"m": np.zeros((*shape, 1), np.int64)}


@public
def layout_grid(layout: Layout, shape: Sequence[int], kind: DType | None = None, *, by: str = "lane") -> Grid:
    """The grid of a tile of ``shape``: the lane, value and register of each element, or its offset in memory.

    kind: the element type; gives the 32-bit register of each slot. by: colour by "lane", "register" or "bank".
    Dimensions before the last two are stacked, one block of rows after another.
    Raises LayoutError for another colouring, and where the tile has more elements than fit a picture.
    """
    if by not in COLOURINGS:
        raise LayoutError(f"unknown colouring {by!r}", given=by, allowed=choices(by, COLOURINGS))
    extents = (1, *shape) if len(shape) == 1 else tuple(shape)
    table = picture_table(layout, extents)
    bits = kind.bits if kind is not None else 16
    words = _words(table, bits).reshape(-1, extents[-1])
    keys = _keys(table, bits, by).reshape(-1, extents[-1])
    columns = tuple(map(str, range(extents[-1])))
    return Grid(str(layout), cells(words, keys), columns, row_names(extents), key_name=by)


def cells(words: NDArray[Any], keys: NDArray[np.int64]) -> tuple[tuple[Cell, ...], ...]:
    """Rows of cells, from their words and their keys."""
    rows = zip(words, keys, strict=True)
    return tuple(tuple(Cell(str(w), int(k)) for w, k in zip(ws, ks, strict=True)) for ws, ks in rows)


def row_names(extents: Sequence[int]) -> tuple[str, ...]:
    """The index of each row of a tile: of all dimensions but the last."""
    return tuple(",".join(map(str, index)) for index in np.ndindex(*extents[:-1]))


def _is_threaded(table: Table) -> bool:
    return any(Axis.get(name).is_thread() for name in table)


def _words(table: Table, bits: int) -> NDArray[np.object_]:
    """``T4V1:R0`` for registers (thread, value, 32-bit register), the coordinates on each axis for memory."""
    shape = next(iter(table.values())).shape
    slots = table.get("m", np.zeros(shape, np.int64))
    if not _is_threaded(table):
        parts = [(name, values) for name, values in table.items()]
        words = [_coordinates([(name, values[..., r].ravel()) for name, values in parts]) for r in range(shape[-1])]
    else:
        thread = _threads(table)
        words = [
            [f"T{t}V{v}:R{v * bits // 32}" for t, v in zip(thread[..., r].ravel(), slots[..., r].ravel(), strict=True)]
            for r in range(shape[-1])
        ]
    joined = [" ".join(dict.fromkeys(group)) for group in zip(*words, strict=True)]
    return np.array(joined, dtype=object)


def _coordinates(parts: list[tuple[str, NDArray[np.int64]]]) -> list[str]:
    if [name for name, _ in parts] == ["m"]:
        return [str(value) for value in parts[0][1]]
    return [
        ",".join(f"{name}{value}" for name, value in zip([p[0] for p in parts], row, strict=True))
        for row in zip(*(p[1] for p in parts), strict=True)
    ]


def _threads(table: Table) -> NDArray[np.int64]:
    return threads(table, max((axis.scope for axis in map(Axis.get, table) if axis.is_thread()), key=SCOPES.index))


def _keys(table: Table, bits: int, by: str) -> NDArray[np.int64]:
    first = {name: values[..., 0] for name, values in table.items()}
    shape = next(iter(first.values())).shape
    slots = first.get("m", np.zeros(shape, np.int64))
    if by == "register":
        return slots * bits // 32
    if by == "bank" or not _is_threaded(table):
        return slots * bits // 32 % 32
    return _threads(table)[..., 0]


# The inverse picture of a layout: the elements at each place of memory.
#
# Tensor memory is drawn as its 128 lanes by 32-bit columns, shared memory as lines of 128 bytes, a column for each
# bank.


CELL_BITS = 32  # a cell of tensor memory, a bank of shared memory
BANKS = 32
TMEM_LANES = 128
TENSOR_AXES = ("TLane", "TCol")


@public
def memory_grid(layout: Layout, shape: Sequence[int], kind: DType) -> Grid:
    """The grid of the 32-bit cells of a tile of ``shape`` with their elements; the colour tells the tile's rows apart.

    A cell's words are coordinates, ``5,8..11`` for elements 8 to 11 of row 5, the lowest bits first; ``-`` where it
    holds none. Replicas are drawn as well. Tensor memory (axes TLane and TCol) has its 128 lanes as rows; memory
    without other axes (m) has a row for each 128 bytes.
    Raises LayoutError for a layout with thread axes, and where the memory is too large for a picture.
    """
    table = picture_table(layout, tuple(shape))
    is_tmem = "m" not in table
    drawn = TENSOR_AXES if is_tmem else ("m",)
    if others := [name for name in table if name not in drawn]:
        is_threaded = Axis.get(others[0]).is_thread()
        raise LayoutError(
            "registers have no memory to draw" if is_threaded else f"no picture of memory has the axis {others[0]}",
            given=f"{layout}, with the axis {others[0]}",
            allowed="a layout on m, or on TLane and TCol",
        )
    row, bit = _tmem_places(table, kind) if is_tmem else _shared_places(table, kind)
    column = bit // CELL_BITS
    heights, widths = (TMEM_LANES, int(column.max()) + 1) if is_tmem else (int(row.max()) + 1, BANKS)
    if int(row.max()) >= heights or row.min() < 0 or bit.min() < 0 or heights * widths > MOST_CELLS:
        raise LayoutError(
            "the layout reaches beyond the memory",
            given=f"rows {int(row.min())}..{int(row.max())}, columns {int(column.min())}..{int(column.max())}",
            allowed=f"{heights} rows, {MOST_CELLS // heights} columns",
        )
    filled = _filled(row, bit, shape)
    names = tuple(str(line if is_tmem else line * BANKS * CELL_BITS // 8) for line in range(heights))
    return Grid(
        str(layout),
        tuple(tuple(filled.get((r, c), Cell("-")) for c in range(widths)) for r in range(heights)),
        tuple(map(str, range(widths))),
        names,
        corner="lane / column" if is_tmem else "byte / bank",
        key_name="row",
    )


def _tmem_places(table: Table, kind: DType) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Lane, and bit within the lane, of each element and replica."""
    zero = np.zeros_like(next(iter(table.values())))
    return table.get("TLane", zero), table.get("TCol", zero) * kind.bits


def _shared_places(table: Table, kind: DType) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Line of 128 bytes, and bit within the line."""
    bit = table["m"] * kind.bits
    return bit // (BANKS * CELL_BITS), bit % (BANKS * CELL_BITS)


def _filled(row: NDArray[np.int64], bit: NDArray[np.int64], shape: Sequence[int]) -> dict[tuple[int, int], Cell]:
    """The cells that hold something, by row and column."""
    replicas = row.shape[-1]
    number = np.broadcast_to(np.arange(prod(shape))[:, None], (prod(shape), replicas)).reshape(-1)
    rows, bits = row.reshape(-1), bit.reshape(-1)
    order = np.lexsort((bits, rows))
    elements: dict[tuple[int, int], list[int]] = {}
    for r, b, n in zip(rows[order].tolist(), bits[order].tolist(), number[order].tolist(), strict=True):
        elements.setdefault((r, b // CELL_BITS), []).append(n)
    return {place: Cell(_elements(held, shape), held[0] // shape[-1]) for place, held in elements.items()}


def _elements(held: list[int], shape: Sequence[int]) -> str:
    """``5,8..11``: runs of neighbours in one row of the tile, joined."""
    return " ".join(_run(run, shape) for run in _runs(list(dict.fromkeys(held)), shape[-1]))


def _runs(numbers: list[int], width: int) -> Iterator[list[int]]:
    """Neighbouring numbers of one row."""
    for _, group in groupby(enumerate(numbers), lambda pair: (pair[1] - pair[0], pair[1] // width)):
        yield [number for _, number in group]


def _run(run: list[int], shape: Sequence[int]) -> str:
    first = ",".join(map(str, np.unravel_index(run[0], tuple(shape))))
    return first if len(run) == 1 else f"{first}..{run[-1] % shape[-1]}"


# Atoms as pictures: for a copy one grid for each matrix, its rows as in shared memory, each cell with its holder; for
# an mma one for each operand.


ROW_BITS = 128  # bits of the 16 bytes that one address names


def _is_load(atom: CopyAtom) -> bool:
    """Does it write registers? Then its destination is theirs, else its source."""
    return any(operand.written for operand in atom.instruction.operands)


def _has_memory(atom: CopyAtom) -> bool:
    """movmatrix goes from register to register: it has no addresses."""
    return "shared" in atom.mnemonic.split(".")


@public
def atom_grids(atom: CopyAtom, *, by: str = "lane") -> list[Grid]:
    """The register side of an atom: the thread that holds each element of each matrix after a load, or before a store.

    Row i is the 16-byte row of address i (the lane that supplies it), columns are its elements.
    """
    layout = atom.destination if _is_load(atom) else atom.source
    whole = _whole(atom, layout, by)
    height = 16 if "m16n16" in atom.mnemonic.split(".") else 8
    return [_matrix(whole, atom, first, height) for first in range(0, len(whole.rows), height)]


def _whole(atom: CopyAtom, layout: TileLayout, by: str) -> Grid:
    """The grid of an instruction: all its matrices below one another."""
    columns = ROW_BITS // atom.element_bits
    return layout_grid(layout, (int(layout.size()) // columns, columns), dtype(f"uint{atom.element_bits}"), by=by)


def _matrix(whole: Grid, atom: CopyAtom, first: int, height: int) -> Grid:
    names = tuple(f"Addr{row}" for row in range(first, first + height))
    title = f"{atom.name}, matrix {first // height}"
    return replace(whole, title=title, rows=whole.rows[first : first + height], names=names, corner="Address / Index")


@public
def opposite_grid(atom: CopyAtom) -> Grid:
    """The side that `atom_grids` leaves out: which thread's address names each row in shared memory.

    T8V1 is element 1 of the row at the address of thread 8. Threads whose addresses only repeat others are left out.
    An atom without addresses goes from registers to registers: then this is its source, in words such as T8V1:R0.
    """
    layout = atom.source if _is_load(atom) else atom.destination
    whole = _whole(atom, TileLayout(layout.shard), "lane")
    side = "source" if _is_load(atom) else "destination"
    if not _has_memory(atom):
        return replace(whole, title=f"{atom.name}, {side} in registers")
    rows = tuple(tuple(Cell(cell.words.partition(":")[0], cell.key) for cell in row) for row in whole.rows)
    names = tuple(f"Addr{row}" for row in range(len(rows)))
    title = f"{atom.name}, {side} in shared memory"
    return replace(whole, title=title, rows=rows, names=names, corner="Address / Index")


@public
def mma_grids(mma: MmaAtom | WgmmaAtom, *, by: str = "lane") -> list[Grid]:
    """The grids of the operands in registers: which lane, or thread of a warpgroup, and register hold each element."""
    grids = []
    for operand, (corner, shape) in mma.shapes.items():
        kind = mma.element(operand)
        grid = layout_grid(mma.fragment(operand), shape, dtype(kind), by=by)
        grids.append(replace(grid, title=f"{mma.name}, {operand}: {kind}", corner=corner))
    return grids
