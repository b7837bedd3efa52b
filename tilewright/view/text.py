"""Grids as text: plain columns for a pipe, coloured cells for a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tilewright.view.colour import tint
from tilewright.view.public import public

if TYPE_CHECKING:
    from rich.table import Table

    from tilewright.view.grid import Grid

__all__ = ["fitting", "plain", "rich_table"]

GAP = 2  # spaces between columns of plain text; a terminal has one


def _widths(grid: Grid) -> list[int]:
    """Characters of each column, that of the rows' names first."""
    names = max(map(len, (grid.corner, *grid.names)))
    return [
        names,
        *(max(len(head), *(len(row[i].words) for row in grid.rows)) for i, head in enumerate(grid.columns)),
    ]


@public
def plain(grid: Grid) -> str:
    """The grid in aligned columns under its title; every line ends without spaces."""
    lines = [
        [grid.corner, *grid.columns],
        *([name, *(c.words for c in row)] for name, row in zip(grid.names, grid.rows, strict=True)),
    ]
    widths = _widths(grid)
    gap = " " * GAP
    body = (gap.join(word.ljust(width) for word, width in zip(line, widths, strict=True)).rstrip() for line in lines)
    return "\n".join([grid.title, *body])


@public
def fitting(grid: Grid, width: int) -> Iterator[Grid]:
    """The grid in as many pieces, one below the other, as a terminal of ``width`` characters asks for.

    The pieces have as many columns each, as far as that goes: 8 columns of which 7 would fit become 4 and 4.
    """
    fewest = len(_cuts(grid, width, len(grid.columns)))
    cuts = _cuts(grid, width, -(-len(grid.columns) // fewest))
    for start, stop in zip(cuts, (*cuts[1:], len(grid.columns)), strict=True):
        yield grid.between(start, stop)


def _cuts(grid: Grid, width: int, most: int) -> list[int]:
    """The columns at which pieces begin that have as many columns as fit, but at most ``most``."""
    names, *columns = (each + 1 for each in _widths(grid))
    starts, used = [0], names
    for i, each in enumerate(columns):
        if i > starts[-1] and (used + each > width or i - starts[-1] == most):
            starts.append(i)
            used = names
        used += each
    return starts


@public
def rich_table(grid: Grid) -> Table:
    """The grid as a table of `rich`, without its title; each cell on the tint of its key."""
    from rich.table import Table  # a terminal's business: not imported for a pipe
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column(grid.corner, style="dim", no_wrap=True)
    for name in grid.columns:
        table.add_column(name, no_wrap=True)
    for name, row in zip(grid.names, grid.rows, strict=True):
        table.add_row(name, *(Text(c.words, style=f"black on {tint(c.key)}" if c.key >= 0 else "") for c in row))
    return table
