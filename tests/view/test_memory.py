"""The memory side of a layout: each element is drawn in the cell that the layout's table names, and nothing else is."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tilewright.dtypes import dtype
from tilewright.errors import LayoutError
from tilewright.layout import ComposeLayout, F, Layout, P, R, S, SwizzleLayout, TCol, TileLayout, TLane, laneid
from tilewright.view.grid import layout_grid, memory_grid


def held(words: str) -> list[tuple[int, ...]]:
    """The coordinates that a cell's words stand for."""
    found = []
    for run in words.split(" "):
        first, _, last = run.partition("..")
        *outer, inner = map(int, first.split(","))
        found += [(*outer, i) for i in range(inner, int(last or inner) + 1)]
    return found


@pytest.mark.parametrize(
    ("layout", "shape", "kind"),
    [
        (TileLayout(S[(32, 16) : (1 @ TLane, 1 @ TCol)] + R[4 : 32 @ TLane]), (32, 16), "uint8"),
        (TileLayout(S[(4, 16, 8) : (32 @ TLane, 1 @ TLane, 1 @ TCol)]), (64, 8), "float32"),
        (TileLayout(S[(128, 12) : (1 @ TLane, 2 @ TCol)]), (128, 12), "float16"),
        (TileLayout(S[(8, 8) : (40, 1)]), (8, 8), "float16"),
        (ComposeLayout(SwizzleLayout(3, 3, 3), S[8, 64]), (8, 64), "float16"),
        (TileLayout(S[(4, 8) : (1, 4)]), (4, 8), "float64"),
    ],
)
def test_every_cell_holds_what_the_table_says(layout: Layout, shape: tuple[int, ...], kind: str) -> None:
    grid = memory_grid(layout, shape, dtype(kind))
    bits = dtype(kind).bits
    expected: dict[tuple[int, int], set[tuple[int, ...]]] = {}
    table = layout.table(shape)
    for place in np.ndindex(*shape):
        for r in range(next(iter(table.values())).shape[-1]):
            at = {name: int(values[(*place, r)]) for name, values in table.items()}
            bit = at["m"] * bits if "m" in at else at.get("TCol", 0) * bits
            row, bit = divmod(bit, 1024) if "m" in at else (at.get("TLane", 0), bit)
            expected.setdefault((row, bit // 32), set()).add(place)
    found = {
        (i, j): set(held(cell.words))
        for i, row in enumerate(grid.rows)
        for j, cell in enumerate(row)
        if cell.words != "-"
    }
    assert found == expected


def test_tensor_memory_has_128_lanes_and_only_the_columns_in_use() -> None:
    grid = memory_grid(TileLayout(S[(32, 16) : (1 @ TLane, 1 @ TCol)]), (32, 16), dtype("uint8"))
    assert (len(grid.rows), len(grid.columns)) == (128, 4)
    assert {cell.words for row in grid.rows[32:] for cell in row} == {"-"}


def test_colours_tell_rows_apart() -> None:
    grid = memory_grid(TileLayout(S[(32, 4) : (1 @ TLane, 1 @ TCol)] + R[4 : 32 @ TLane]), (32, 4), dtype("int32"))
    assert [grid.rows[lane][0].key for lane in (0, 5, 37, 127)] == [0, 5, 5, 31]


def test_neighbours_in_a_cell_are_told_as_a_run() -> None:
    cell = memory_grid(S[(2, 8) : (8, 1)], (2, 8), dtype("uint8")).rows[0][1]
    assert cell.words == "0,4..7"


@pytest.mark.parametrize(
    ("layout", "shape", "words"),
    [
        (S[(8, 4) : (4 @ laneid, 1 @ laneid)], (8, 4), "registers have no memory"),
        (TileLayout(S[(4, 4) : (40 @ TLane, 1 @ TCol)] + 20 @ TLane), (4, 4), "beyond the memory"),
        (S[(1024, 128) : (128, 1)], (1024, 128), "too large for a picture"),
    ],
)
def test_what_cannot_be_drawn_says_why(layout: Layout, shape: tuple[int, ...], words: str) -> None:
    with pytest.raises(LayoutError, match=re.escape(words)):
        memory_grid(layout, shape, dtype("float16"))


def test_a_layout_without_axes_is_drawn_at_0():
    assert memory_grid(S[()], (1, 1), dtype("float16")).rows[0][0].words == "0,0"
    assert layout_grid(S[()], (1,)).rows[0][0].words == "0"


def test_memory_of_other_axes_has_no_picture():
    with pytest.raises(LayoutError, match="no picture of memory has the axis P"):
        memory_grid(S[(4, 4) : (1 @ P, 1 @ F)], (4, 4), dtype("float16"))


def test_replicas_count_in_the_size_of_a_picture():
    with pytest.raises(LayoutError, match="too large for a picture"):
        layout_grid(S[4:1] + R[1 << 30 : 1], (4,))
