"""Pictures of layouts: one `Grid`, drawn as text, in a terminal, as SVG, HTML or JSON.

In the order in which to read:

    grid, memory      a layout as rows of cells; the inverse picture, the elements at each place of memory
    svg, html         a grid drawn; terminal: what commands print
    notebook, boxes   pictures of atoms; how the copy engine moves a tile
    look              the page of a recorded run
"""

from tilewright.view.grid import COLOURINGS, Cell, Grid, layout_grid, picture_shape
from tilewright.view.html import as_json, fitting, html, plain, preformatted, rich_table
from tilewright.view.memory import memory_grid
from tilewright.view.notebook import atom_grids, atom_html, layout_html, mma_grids, mma_html, opposite_grid
from tilewright.view.svg import svg

__all__ = [
    "COLOURINGS", "Cell", "Grid", "as_json", "atom_grids", "atom_html", "fitting", "html", "layout_grid", "layout_html",
    "memory_grid", "mma_grids", "mma_html", "opposite_grid", "picture_shape", "plain", "preformatted", "rich_table",
    "svg",
]  # fmt: skip
