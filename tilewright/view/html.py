"""Grids and reports as HTML, for notebooks."""

from __future__ import annotations

import json
from html import escape
from typing import TYPE_CHECKING

from tilewright.view.colour import tint

if TYPE_CHECKING:
    from tilewright.view.grid import Grid

__all__ = ["as_json", "html", "preformatted"]


def html(grid: Grid) -> str:
    """The grid as an HTML table with inline styles."""
    head = "".join(f"<th>{escape(name)}</th>" for name in (grid.corner, *grid.columns))
    rows = "".join(
        f"<tr><th>{escape(name)}</th>"
        + "".join(f'<td style="background:{tint(c.key)};color:#000">{escape(c.words)}</td>' for c in row)
        + "</tr>"
        for name, row in zip(grid.names, grid.rows, strict=True)
    )
    return f'<table style="font-family:monospace"><caption>{escape(grid.title)}</caption><tr>{head}</tr>{rows}</table>'


def preformatted(text: str) -> str:
    """Text as it stands."""
    return f'<pre style="line-height:1.3">{escape(text)}</pre>'


def as_json(grid: Grid) -> str:
    """The grid for programs: title, heads, and for each row the words and keys of its cells."""
    rows = [
        {"name": name, "cells": [{"words": c.words, "key": c.key} for c in row]}
        for name, row in zip(grid.names, grid.rows, strict=True)
    ]
    return json.dumps(
        {"title": grid.title, "columns": grid.columns, "coloured_by": grid.key_name, "rows": rows}, indent=1
    )
