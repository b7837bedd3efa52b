"""How it is seen: one `Grid`, drawn as text, in a terminal, as SVG, HTML or JSON."""

from tilewright.view.atoms import atom_grids
from tilewright.view.grid import Cell, Grid, layout_grid
from tilewright.view.html import as_json, html, preformatted
from tilewright.view.svg import svg
from tilewright.view.text import plain, rich_table

__all__ = ["Cell", "Grid", "as_json", "atom_grids", "html", "layout_grid", "plain", "preformatted", "rich_table", "svg"]
