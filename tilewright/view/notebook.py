"""HTML of layouts and atoms for notebooks: their ``_repr_html_`` call it."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

from tilewright.dtypes import dtype
from tilewright.errors import LayoutError
from tilewright.layout import Layout, TileLayout
from tilewright.layout.facts import as_int
from tilewright.view.grid import MOST_CELLS, Cell, Grid, layout_grid, picture_shape
from tilewright.view.html import html, preformatted
from tilewright.view.terminal import public

if TYPE_CHECKING:
    from tilewright.isa.atoms import CopyAtom
    from tilewright.isa.majorness import MmaAtom
    from tilewright.isa.wgmma_atoms import WgmmaAtom

# Atoms as pictures: for a copy one grid for each matrix, its rows as in shared memory, each cell with its holder; for
# an mma one for each operand.


ROW_BITS = 128  # bits of the 16 bytes that one address names


def _is_load(atom: CopyAtom) -> bool:
    """Does it write registers? Then its destination is theirs, else its source."""
    return any(operand.written for operand in atom.instruction.operands)


def _has_memory(atom: CopyAtom) -> bool:
    """movmatrix goes from register to register: it has no addresses."""
    return "shared" in atom.mnemonic.split(".")


@public
def atom_grids(atom: CopyAtom, *, by: str = "lane") -> list[Grid]:
    """The register side of an atom: the thread that holds each element of each matrix after a load, or before a store.

    Row i is the 16-byte row of address i (the lane that supplies it), columns are its elements.
    """
    layout = atom.destination if _is_load(atom) else atom.source
    whole = _whole(atom, layout, by)
    height = 16 if "m16n16" in atom.mnemonic.split(".") else 8
    return [_matrix(whole, atom, first, height) for first in range(0, len(whole.rows), height)]


def _whole(atom: CopyAtom, layout: TileLayout, by: str) -> Grid:
    """The grid of an instruction: all its matrices below one another."""
    columns = ROW_BITS // atom.element_bits
    return layout_grid(layout, (int(layout.size()) // columns, columns), dtype(f"uint{atom.element_bits}"), by=by)


def _matrix(whole: Grid, atom: CopyAtom, first: int, height: int) -> Grid:
    names = tuple(f"Addr{row}" for row in range(first, first + height))
    title = f"{atom.name}, matrix {first // height}"
    return replace(whole, title=title, rows=whole.rows[first : first + height], names=names, corner="Address / Index")


@public
def opposite_grid(atom: CopyAtom) -> Grid:
    """The side that `atom_grids` leaves out: which thread's address names each row in shared memory.

    T8V1 is element 1 of the row at the address of thread 8. Threads whose addresses only repeat others are left out.
    An atom without addresses goes from registers to registers: then this is its source, in words such as T8V1:R0.
    """
    layout = atom.source if _is_load(atom) else atom.destination
    whole = _whole(atom, TileLayout(layout.shard), "lane")
    side = "source" if _is_load(atom) else "destination"
    if not _has_memory(atom):
        return replace(whole, title=f"{atom.name}, {side} in registers")
    rows = tuple(tuple(Cell(cell.words.partition(":")[0], cell.key) for cell in row) for row in whole.rows)
    names = tuple(f"Addr{row}" for row in range(len(rows)))
    title = f"{atom.name}, {side} in shared memory"
    return replace(whole, title=title, rows=rows, names=names, corner="Address / Index")


@public
def mma_grids(mma: MmaAtom | WgmmaAtom, *, by: str = "lane") -> list[Grid]:
    """The grids of the operands in registers: which lane, or thread of a warpgroup, and register hold each element."""
    grids = []
    for operand, (corner, shape) in mma.shapes.items():
        kind = mma.element(operand)
        grid = layout_grid(mma.fragment(operand), shape, dtype(kind), by=by)
        grids.append(replace(grid, title=f"{mma.name}, {operand}: {kind}", corner=corner))
    return grids


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
