"""Grids as SVG: one rectangle and one word per cell, heads around them, no scripts and no fonts of its own."""

from __future__ import annotations

import colorsys
from dataclasses import replace
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from tilewright.errors import ArgumentError
from tilewright.view.grid import Grid, public

if TYPE_CHECKING:
    from collections.abc import Iterator

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
HEAD = 2 * LINE  # pixels: the title and the column heads


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
        f"<title>{escape(', '.join(grid.title for grid in grids))}</title>",
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
    return max(table, len(grid.title) * LETTER) + PAD, HEAD + LINE * len(grid.rows) + PAD


def _drawn(grid: Grid) -> list[str]:
    name_width, cell_width = _name_width(grid), _cell_width(grid)
    return [
        _words(grid.title, PAD / 2, LINE * 0.7, "start", "font-weight='bold'"),
        *_heads(grid, name_width, cell_width),
        *_cells(grid, name_width, cell_width),
    ]


def _words(text: str, x: float, y: float, anchor: str = "middle", more: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" {more}>{escape(text)}</text>'.replace("'", '"')


def _heads(grid: Grid, name_width: float, cell_width: float) -> Iterator[str]:
    grey = "fill='#666666'"
    yield _words(grid.corner, PAD / 2, LINE * 1.7, "start", grey)
    for i, name in enumerate(grid.columns):
        yield _words(name, name_width + cell_width * (i + 0.5), LINE * 1.7, more=grey)
    for i, name in enumerate(grid.names):
        yield _words(name, PAD / 2, HEAD + LINE * (i + 0.7), "start", grey)


def _cells(grid: Grid, name_width: float, cell_width: float) -> Iterator[str]:
    for i, row in enumerate(grid.rows):
        for j, cell in enumerate(row):
            x, y = name_width + cell_width * j, HEAD + LINE * i
            place = f'x="{x:g}" y="{y:g}" width="{cell_width:g}" height="{LINE:g}"'
            yield f'<rect {place} fill="{tint(cell.key)}" stroke="#ffffff"/>'
            yield _words(cell.words, x + cell_width / 2, y + LINE * 0.68)
