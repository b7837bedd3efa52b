"""The inverse picture of a layout: the elements at each place of memory.

Tensor memory is drawn as its 128 lanes by 32-bit columns, shared memory as lines of 128 bytes, a column for each bank.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from tilewright.errors import LayoutError
from tilewright.layout import Axis, Layout, Table
from tilewright.view.grid import MOST_CELLS, Cell, Grid, picture_table
from tilewright.view.terminal import public

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tilewright.dtypes import DType

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
    cells = _cells(row, bit, shape)
    names = tuple(str(line if is_tmem else line * BANKS * CELL_BITS // 8) for line in range(heights))
    return Grid(
        str(layout),
        tuple(tuple(cells.get((r, c), Cell("-")) for c in range(widths)) for r in range(heights)),
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


def _cells(row: NDArray[np.int64], bit: NDArray[np.int64], shape: Sequence[int]) -> dict[tuple[int, int], Cell]:
    """The cells that hold something, by row and column."""
    replicas = row.shape[-1]
    number = np.broadcast_to(np.arange(prod(shape))[:, None], (prod(shape), replicas)).reshape(-1)
    rows, bits = row.reshape(-1), bit.reshape(-1)
    order = np.lexsort((bits, rows))
    elements: dict[tuple[int, int], list[int]] = {}
    for r, b, n in zip(rows[order].tolist(), bits[order].tolist(), number[order].tolist(), strict=True):
        elements.setdefault((r, b // CELL_BITS), []).append(n)
    return {place: Cell(_words(held, shape), held[0] // shape[-1]) for place, held in elements.items()}


def _words(held: list[int], shape: Sequence[int]) -> str:
    """``5,8..11``: runs of neighbours in one row of the tile, joined."""
    return " ".join(_run(run, shape) for run in _runs(list(dict.fromkeys(held)), shape[-1]))


def _runs(numbers: list[int], width: int) -> Iterator[list[int]]:
    """Neighbouring numbers of one row."""
    for _, group in groupby(enumerate(numbers), lambda pair: (pair[1] - pair[0], pair[1] // width)):
        yield [number for _, number in group]


def _run(run: list[int], shape: Sequence[int]) -> str:
    first = ",".join(map(str, np.unravel_index(run[0], tuple(shape))))
    return first if len(run) == 1 else f"{first}..{run[-1] % shape[-1]}"
