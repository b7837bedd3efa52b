"""A picture before it is drawn: cells in rows and columns, each with its words and its colour key.

Text, terminal, SVG, HTML and JSON all draw the same `Grid`, so that they never disagree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tilewright.errors import LayoutError, choices
from tilewright.layout import SCOPES, Axis, ComposeLayout, Layout, Table, TileLayout, threads
from tilewright.view.terminal import public

if TYPE_CHECKING:
    from tilewright.dtypes import DType

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
        from tilewright.view.html import html

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
