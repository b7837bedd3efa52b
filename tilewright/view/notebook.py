"""HTML of layouts and atoms for notebooks: their ``_repr_html_`` call it."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from tilewright.errors import LayoutError
from tilewright.layout import Layout
from tilewright.layout.facts import as_int
from tilewright.view.atoms import atom_grids, mma_grids, opposite_grid
from tilewright.view.grid import MOST_CELLS, layout_grid, picture_shape
from tilewright.view.html import html, preformatted
from tilewright.view.public import public

if TYPE_CHECKING:
    from tilewright.isa.atoms import CopyAtom
    from tilewright.isa.majorness import MmaAtom

__all__ = ["atom_html", "layout_html", "mma_html"]


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
