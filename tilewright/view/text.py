"""Grids as text: plain columns for a pipe, coloured cells for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.view.colour import tint

if TYPE_CHECKING:
    from rich.table import Table

    from tilewright.view.grid import Grid

__all__ = ["plain", "rich_table"]


def plain(grid: Grid) -> str:
    """The grid in aligned columns under its title; every line ends without spaces."""
    lines = [
        [grid.corner, *grid.columns],
        *([name, *(c.words for c in row)] for name, row in zip(grid.names, grid.rows, strict=True)),
    ]
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    body = ("  ".join(word.ljust(width) for word, width in zip(line, widths, strict=True)).rstrip() for line in lines)
    return "\n".join([grid.title, *body])


def rich_table(grid: Grid) -> Table:
    """The grid as a table of `rich`, each cell on the tint of its key."""
    from rich.table import Table  # a terminal's business: not imported for a pipe
    from rich.text import Text

    table = Table(title=grid.title, title_justify="left", box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column(grid.corner, style="dim")
    for name in grid.columns:
        table.add_column(name, no_wrap=True)
    for name, row in zip(grid.names, grid.rows, strict=True):
        table.add_row(name, *(Text(c.words, style=f"black on {tint(c.key)}" if c.key >= 0 else "") for c in row))
    return table
