"""Pictures of layouts: one `Grid`, drawn as text, in a terminal, as SVG, HTML or JSON.

In the order in which to read:

    grid              layouts, memories and atoms as rows of cells
    drawing           a grid drawn, as SVG and as HTML
    boxes             how the copy engine moves a tile
    look              the page of a recorded run
"""

from tilewright.view.drawing import (
    as_json,
    atom_html,
    fitting,
    html,
    layout_html,
    mma_html,
    plain,
    preformatted,
    rich_table,
    svg,
)
from tilewright.view.grid import (
    COLOURINGS,
    Cell,
    Grid,
    atom_grids,
    layout_grid,
    memory_grid,
    mma_grids,
    opposite_grid,
    picture_shape,
)

__all__ = [
    "COLOURINGS", "Cell", "Grid", "as_json", "atom_grids", "atom_html", "fitting", "html", "layout_grid", "layout_html",
    "memory_grid", "mma_grids", "mma_html", "opposite_grid", "picture_shape", "plain", "preformatted", "rich_table",
    "svg",
]  # fmt: skip
