"""Grids and texts as HTML, for notebooks: styles inline, no scripts, readable on a light and on a dark page."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from html import escape
from math import prod
from typing import TYPE_CHECKING

from tilewright.errors import ArgumentError, LayoutError
from tilewright.host import aligned, widths_of
from tilewright.layout import Layout
from tilewright.layout.axes import as_int
from tilewright.view.grid import (
    MOST_CELLS,
    Grid,
    atom_grids,
    layout_grid,
    mma_grids,
    opposite_grid,
    picture_shape,
    public,
)
from tilewright.view.svg import tint

if TYPE_CHECKING:
    from rich.table import Table

    from tilewright.isa.atoms import CopyAtom, MmaAtom

# Grids as text: plain columns for a pipe, coloured cells for a terminal.


def _words(grid: Grid) -> list[list[str]]:
    """The words of each line, its name first."""
    rows = ([name, *(cell.words for cell in row)] for name, row in zip(grid.names, grid.rows, strict=True))
    return [[grid.corner, *grid.columns], *rows]


@public
def plain(grid: Grid) -> str:
    """The grid in aligned columns under its title; every line ends without spaces."""
    return "\n".join([grid.title, *aligned(_words(grid))])


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
    names, *columns = (chars + 1 for chars in widths_of(_words(grid)))
    starts, used = [0], names
    for i, wide in enumerate(columns):
        if i > starts[-1] and (used + wide > width or i - starts[-1] == most):
            starts.append(i)
            used = names
        used += wide
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


MOST_ROWS, MOST_COLUMNS = 64, 64  # rows and columns of a table that people still read

FONT = "font-family:ui-monospace,Menlo,Consolas,monospace;font-size:12px"
TABLE = f"{FONT};border-collapse:collapse;width:auto;margin:4px 0"
CAPTION = "caption-side:top;text-align:left;font-weight:bold;white-space:nowrap;padding:2px 0"
HEAD = "font-weight:normal;opacity:.7;text-align:left;white-space:nowrap;padding:1px 8px 1px 0"
COLUMN = "font-weight:normal;opacity:.7;text-align:center;padding:1px 6px"
CELL = "color:#000;text-align:center;white-space:nowrap;padding:1px 6px;border:1px solid #fff"

# Highlights of a dispatch report: a style, and the words that have it once they are escaped.
STYLES = {
    "font-weight:bold": r"(?m)^\S+\.py:\d+(?=: )",
    "color:#1a7f37;font-weight:bold": r"(?m)^  \w+/\w+(?=: )",  # green on white and on black
    "opacity:.65": r"(?m)^  not \w+: .*$",
}


@public
def html(grid: Grid) -> str:
    """The grid as a table; of one too large to look at the first rows and columns, and a sentence that says so."""
    shown = grid.above(MOST_ROWS).between(0, MOST_COLUMNS)
    columns = "".join(f'<th style="{COLUMN}">{escape(name)}</th>' for name in shown.columns)
    rows = "".join(
        f'<tr style="background:none"><th style="{HEAD}">{escape(name)}</th>'
        + "".join(f'<td style="background:{tint(c.key)};{CELL}">{escape(c.words)}</td>' for c in row)
        + "</tr>"
        for name, row in zip(shown.names, shown.rows, strict=True)
    )
    return (
        f'<div style="overflow-x:auto"><table style="{TABLE}"><caption style="{CAPTION}">{escape(grid.title)}</caption>'
        f'<tr style="background:none"><th style="{HEAD}">{escape(grid.corner)}</th>{columns}</tr>{rows}</table>'
        f"{_left_out(grid, shown)}</div>"
    )


def _left_out(grid: Grid, shown: Grid) -> str:
    if shown == grid:
        return ""
    sizes = [f"{len(part.rows)} rows and {len(part.columns)} columns" for part in (shown, grid)]
    return f'<p style="{FONT}">Cut: the first {sizes[0]} of {sizes[1]}. tilewright.view.svg draws all of them.</p>'


@public
def preformatted(text: str) -> str:
    """Text as it stands, with the places and choices of a dispatch report marked."""
    words = escape(text)
    for style, pattern in STYLES.items():
        words = re.sub(pattern, rf'<span style="{style}">\g<0></span>', words)
    return f'<pre style="{FONT};line-height:1.4;overflow-x:auto">{words}</pre>'


@public
def as_json(*grids: Grid, facts: Mapping[str, str] | None = None) -> str:
    """Grids for programs: title, heads, and for each row the words and keys of its cells. One alone is an object; with
    ``facts``, these and all grids under "grids".
    """
    objects = [_as_object(grid) for grid in grids]
    if not objects and facts is None:
        raise ArgumentError("there is no grid to write down", given="no grid", allowed="one at least, or facts")
    return json.dumps(objects[0] if facts is None else {**facts, "grids": objects}, indent=1)


def _as_object(grid: Grid) -> dict[str, object]:
    rows = [
        {"name": name, "cells": [{"words": c.words, "key": c.key} for c in row]}
        for name, row in zip(grid.names, grid.rows, strict=True)
    ]
    return {
        "title": grid.title,
        "corner": grid.corner,
        "columns": grid.columns,
        "coloured_by": grid.key_name,
        "rows": rows,
    }


# What notebooks show: the ``_repr_html_`` of layouts and atoms call it.


@public
def layout_html(layout: Layout) -> str:
    """The picture of a layout; the reason, with its text, where it has no picture."""
    if as_int(layout.size()) is None:
        return _undrawn(layout, "its size is symbolic")
    shape = picture_shape(layout)
    if prod(shape) > MOST_CELLS:
        return _undrawn(layout, f"{prod(shape)} elements are more than the {MOST_CELLS} of a picture")
    try:
        return html(layout_grid(layout, shape))
    except LayoutError as error:  # a stride or an offset is symbolic
        return _undrawn(layout, f"{error.given} in it, not {error.allowed}")


def _undrawn(layout: Layout, reason: str) -> str:
    return preformatted(f"{layout}\nNot drawn: {reason}.")


@public
def atom_html(atom: CopyAtom) -> str:
    """An atom in words, the registers of each matrix, and the other side."""
    return preformatted(str(atom)) + "".join(map(html, [*atom_grids(atom), opposite_grid(atom)]))


@public
def mma_html(mma: MmaAtom) -> str:
    """An mma in words, and the fragments of its operands."""
    return preformatted(str(mma)) + "".join(map(html, mma_grids(mma)))
