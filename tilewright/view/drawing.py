"""Grids drawn. As SVG: one rectangle and one word per cell, heads around them, no scripts and no fonts of its own.
Grids and texts as HTML, for notebooks: styles inline, no scripts, readable on a light and on a dark page.
"""

from __future__ import annotations

import colorsys
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
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

if TYPE_CHECKING:
    from rich.table import Table

    from tilewright.isa.atoms import CopyAtom, MmaAtom


# One colour per key, the same in a terminal, in SVG and in HTML: light tints that dark text stays readable on.


GOLDEN = 0.61803398875  # part of a turn from key to key, so that neighbours get hues far apart


def tint(key: int) -> str:
    """``#rrggbb`` for a colour key; white for -1.

    >>> tint(-1), tint(0)
    ('#ffffff', '#f2a6a6')
    """
    if key < 0:
        return "#ffffff"
    hue = key * GOLDEN % 1
    lightness = 0.80 if key // 8 % 2 == 0 else 0.87
    red, green, blue = colorsys.hls_to_rgb(hue, lightness, 0.75)
    return f"#{round(red * 255):02x}{round(green * 255):02x}{round(blue * 255):02x}"


LETTER, LINE, PAD = 7.0, 22.0, 10.0  # pixels: width of a letter at 11 px, height of a row, room around words
TALL, PANEL = 64, 32  # rows: more than so many fold, into panels of so many
HEADS = 2 * LINE  # pixels: the title and the column heads


@public
def svg(*grids: Grid) -> str:
    """The grids, one below the other, as one complete SVG document; a tall one folds into panels side by side."""
    if not grids:
        raise ArgumentError("there is no grid to draw", given="no grid", allowed="one at least")
    stripes = [_panels(grid) for grid in grids]
    sizes = [[_size(panel) for panel in panels] for panels in stripes]
    width = max(sum(wide for wide, _ in row) for row in sizes)
    height = sum(max(high for _, high in row) for row in sizes)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}"'
        f' viewBox="0 0 {width:g} {height:g}"'
        ' font-family="ui-monospace, Menlo, Consolas, monospace" font-size="11">',
        f"<title>{escape(', '.join(grid.title for grid in grids), quote=False)}</title>",
        f'<rect width="{width:g}" height="{height:g}" fill="#ffffff"/>',
    ]
    is_one = sum(map(len, stripes)) == 1
    top = 0.0
    for panels, row in zip(stripes, sizes, strict=True):
        left = 0.0
        for panel, (wide, _) in zip(panels, row, strict=True):
            drawn = _drawn(panel)
            lines += drawn if is_one else [f'<g transform="translate({left:g} {top:g})">', *drawn, "</g>"]
            left += wide
        top += max(high for _, high in row)
    return "\n".join([*lines, "</svg>"]) + "\n"


def _panels(grid: Grid) -> list[Grid]:
    """The parts of a grid that stand side by side, since all its rows would not fit a screen."""
    if len(grid.rows) <= TALL:
        return [grid]
    parts = [grid.above(start + PANEL).below(start) for start in range(0, len(grid.rows), PANEL)]
    return [parts[0], *(replace(part, title="") for part in parts[1:])]


def _name_width(grid: Grid) -> float:
    return max(map(len, (grid.corner, *grid.names))) * LETTER + PAD


def _cell_width(grid: Grid) -> float:
    words = (cell.words for row in grid.rows for cell in row)
    return max(map(len, (*words, *grid.columns)), default=1) * LETTER + PAD


def _size(grid: Grid) -> tuple[float, float]:
    """Width and height of a grid, with its title and the room around it."""
    table = _name_width(grid) + _cell_width(grid) * len(grid.columns)
    return max(table, len(grid.title) * LETTER) + PAD, HEADS + LINE * len(grid.rows) + PAD


def _drawn(grid: Grid) -> list[str]:
    name_width, cell_width = _name_width(grid), _cell_width(grid)
    return [
        _text(grid.title, PAD / 2, LINE * 0.7, "start", "font-weight='bold'"),
        *_heads(grid, name_width, cell_width),
        *_cells(grid, name_width, cell_width),
    ]


def _text(text: str, x: float, y: float, anchor: str = "middle", more: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" {more}>{escape(text, quote=False)}</text>'.replace(
        "'", '"'
    )


def _heads(grid: Grid, name_width: float, cell_width: float) -> Iterator[str]:
    grey = "fill='#666666'"
    yield _text(grid.corner, PAD / 2, LINE * 1.7, "start", grey)
    for i, name in enumerate(grid.columns):
        yield _text(name, name_width + cell_width * (i + 0.5), LINE * 1.7, more=grey)
    for i, name in enumerate(grid.names):
        yield _text(name, PAD / 2, HEADS + LINE * (i + 0.7), "start", grey)


def _cells(grid: Grid, name_width: float, cell_width: float) -> Iterator[str]:
    for i, row in enumerate(grid.rows):
        for j, cell in enumerate(row):
            x, y = name_width + cell_width * j, HEADS + LINE * i
            place = f'x="{x:g}" y="{y:g}" width="{cell_width:g}" height="{LINE:g}"'
            yield f'<rect {place} fill="{tint(cell.key)}" stroke="#ffffff"/>'
            yield _text(cell.words, x + cell_width / 2, y + LINE * 0.68)


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
    return f'<p style="{FONT}">Cut: the first {sizes[0]} of {sizes[1]}. tilewright.view.drawing draws all of them.</p>'


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
