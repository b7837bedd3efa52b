"""Copy atoms as pictures: one grid for each matrix, its rows as they lie in shared memory, each cell its holder."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tilewright.dtypes import dtype
from tilewright.view.grid import Grid, layout_grid

if TYPE_CHECKING:
    from tilewright.isa.atoms import CopyAtom

__all__ = ["atom_grids"]

ROW_BITS = 128  # what one address names


def atom_grids(atom: CopyAtom, *, by: str = "lane") -> list[Grid]:
    """The register side of an atom: who holds each element of each matrix after a load, or before a store.

    Row i is the 16-byte row of address i (the lane that supplies it), columns are its elements.
    """
    loads = any(operand.written for operand in atom.instruction.operands)
    layout = atom.destination if loads else atom.source
    columns = ROW_BITS // atom.element_bits
    total = int(layout.size()) // columns
    whole = layout_grid(layout, (total, columns), dtype(f"uint{atom.element_bits}"), by=by)
    height = 16 if "m16n16" in atom.mnemonic.split(".") else 8
    return [_matrix(whole, atom, first, height) for first in range(0, total, height)]


def _matrix(whole: Grid, atom: CopyAtom, first: int, height: int) -> Grid:
    names = tuple(f"Addr{row}" for row in range(first, first + height))
    title = f"{atom.name}, matrix {first // height}"
    return replace(whole, title=title, rows=whole.rows[first : first + height], names=names, corner="Address / Index")
