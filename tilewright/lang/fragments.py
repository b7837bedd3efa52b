"""Registers of a warpgroup that hold a tile: a row for each thread, or the fragment of a tensor-memory instruction."""

from __future__ import annotations

from tilewright.errors import KernelError
from tilewright.ir import Buffer
from tilewright.lang.memory import alloc_local, extents
from tilewright.layout import tcgen05_atom_layout, wg_local_layout
from tilewright.layout.facts import listed

__all__ = ["EXPORTS"]


def alloc_tcgen05_ldst_frag(shape_name: str, shape: object, dtype: str = "float32") -> Buffer:
    """Registers for (rows, cols) of tensor memory, in the fragment of tcgen05.ld and st of this shape ("32x32b")."""
    known = [extent for extent in extents(shape, "a fragment of tensor memory") if isinstance(extent, int)]
    if len(known) != 2:
        raise KernelError(
            "a fragment of tensor memory has rows and columns",
            given=listed(extents(shape, "a fragment of tensor memory")),
            allowed="two Python ints: (128, 64)",
        )
    return alloc_local(known, dtype, layout=tcgen05_atom_layout(shape_name, known, dtype))


def wg_reg_tile(n: int, dtype: str = "float32") -> Buffer:
    """Registers for 128 rows of ``n`` elements, a row for each thread of a warpgroup."""
    return alloc_local((128, n), dtype, layout=wg_local_layout(n))


def alloc_cast_frag(src: Buffer, dtype: str) -> Buffer:
    """Registers for the elements of ``src`` as another dtype, each where it is in ``src``."""
    if src.space != "local":
        raise KernelError(f"{src.name} is no fragment", given=f"scope {src.space}", allowed="a buffer in registers")
    return alloc_local(src.shape, dtype, layout=src.layout)


EXPORTS: dict[str, object] = {
    "alloc_tcgen05_ldst_frag": alloc_tcgen05_ldst_frag,
    "wg_reg_tile": wg_reg_tile,
    "alloc_cast_frag": alloc_cast_frag,
}
"""The names of ``T`` that this file defines, with what they stand for."""
