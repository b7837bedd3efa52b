"""Layouts around tensor memory: the fragments of its loads and stores, and where scale factors lie in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tilewright.dtypes import dtype
from tilewright.errors import LayoutError, choices
from tilewright.layout.axes import TCol, TLane, laneid, tid_in_wg, wid_in_wg
from tilewright.layout.facts import listed, product, public
from tilewright.layout.iters import Iter, several
from tilewright.layout.tile import TileLayout

__all__ = ["sf_smem_layout", "sf_tmem_layout", "tcgen05_atom_layout"]

CELL_BITS = 32


class TmemAtom(NamedTuple):
    """How a shape distributes 16 rows by some 32-bit columns: iters over lanes, and over registers (axis ``m``).

    registers: how many each lane holds of them; the next columns go to the registers after these.
    """

    rows: tuple[Iter, ...]
    columns: tuple[Iter, ...]
    registers: int


ATOMS = {
    "16x64b": TmemAtom((Iter(2, 1, laneid), Iter(8, 4, laneid)), (Iter(2, 2, laneid),), 1),
    "16x128b": TmemAtom((Iter(2, 1), Iter(8, 4, laneid)), (Iter(4, 1, laneid),), 2),
    "16x256b": TmemAtom((Iter(2, 2), Iter(8, 4, laneid)), (Iter(4, 1, laneid), Iter(2, 1)), 4),
}
BLOCKS = {"32x32b": 1, "16x32bx2": 2}  # cells of a row that belong together, where no atom says so
SHAPES = ("32x32b", *ATOMS, "16x32bx2")


@public
def tcgen05_atom_layout(shape_name: str, shape: Sequence[int], element: str) -> TileLayout:
    """The registers of a tile of tensor memory that a warp or a warpgroup loads or stores with one of the shapes.

    shape_name: "32x32b", "16x64b", "16x128b", "16x256b" or "16x32bx2" (its halves half the columns apart).
    shape: rows and columns of elements, which are packed in cells of 32 bits. A warp has 32 rows, a warpgroup 128; the
    shapes of 16 lanes also take 16 rows, and 64 with 16 in each warp, which is datapath F. 32 rows of such a shape are
    two instructions, the registers of the second after those of the first.

    >>> tcgen05_atom_layout("32x32b", (128, 8), "float32")
    S[(128, 8):(1@tid_in_wg, 1)]
    >>> tcgen05_atom_layout("16x256b", (16, 8), "float32")  # the accumulator of an m16n8 product
    S[(2, 8, 4, 2):(2, 4@laneid, 1@laneid, 1)]

    Raises LayoutError for rows that no warp or warpgroup has, and for columns that are no whole blocks.
    """
    if shape_name not in SHAPES:
        raise LayoutError(f"unknown shape {shape_name!r}", given=shape_name, allowed=choices(shape_name, SHAPES))
    per_cell = CELL_BITS // dtype(element).bits
    if not per_cell:
        raise LayoutError(f"{element} in tensor memory", given=element, allowed="elements of at most 32 bits")
    if len(shape) != 2:
        raise LayoutError("a fragment has rows and columns", given=listed(shape), allowed="two extents: (128, 64)")
    rows, columns = shape
    warps, rows_of_warp = _warps(shape_name, rows)
    block = BLOCKS.get(shape_name) or product(it.extent for it in ATOMS[shape_name].columns)
    if columns <= 0 or columns % (block * per_cell):
        whole = "a cell" if block == 1 else f"{block} cells"
        raise LayoutError(
            f"{columns} columns of {element} with {shape_name}",
            given=f"shape {listed(shape)}",
            allowed=f"columns a multiple of {block * per_cell}, {whole} of 32 bits",
        )
    if shape_name == "32x32b":
        return TileLayout([Iter(rows, 1, tid_in_wg if warps == 4 else laneid), Iter(columns, 1)])
    cells = columns // per_cell
    atom = _halves(cells) if shape_name == "16x32bx2" else ATOMS[shape_name]
    repeats = Iter(cells // block, atom.registers)
    warp = (Iter(warps, 1, wid_in_wg), Iter(rows_of_warp // 16, cells // 2))
    dealt = (*warp, *atom.rows, *((repeats,) if atom.registers else ()), *atom.columns)
    registers = TileLayout([it for it in dealt if it.extent != 1])
    return registers.unpack(per_cell) if per_cell > 1 else registers


def _warps(shape_name: str, rows: int) -> tuple[int, int]:
    """How many warps share the rows, and how many each has."""
    shares = {32: (1, 32), 128: (4, 32)}
    if shape_name != "32x32b":
        shares |= {16: (1, 16), 64: (4, 16)}
    if rows not in shares:
        raise LayoutError(
            f"{rows} rows with {shape_name}", given=rows, allowed=", ".join(map(str, sorted(shares))) + " rows"
        )
    return shares[rows]


def _halves(cells: int) -> TmemAtom:
    """16x32bx2: a row in each lane; lanes 16 and on have the second half of its columns."""
    return TmemAtom((Iter(16, 1, laneid),), (Iter(2, 16, laneid), Iter(cells // 2, 1)), 0)


@public
def sf_tmem_layout(
    rows: int, SF_K: int, sf_per_mma: int = 4, sf_reuse: int = 1, pipe_depth: int | None = None
) -> TileLayout:
    """Where block-scale factors of 8 bits lie in tensor memory: ``rows`` of A or B by ``SF_K`` blocks along K.

    The scale of row r and block k is in lanes ``r % 32 + 32 * q``, once in each quarter q. A cell has the blocks of as
    many products as fit into it and divide ``SF_K``: with b blocks in a cell, it is byte ``k % b`` of the cell in
    column ``r // 32 + rows // 32 * (k // b)``. sf_per_mma: blocks of one product. sf_reuse: elements in a row that
    share a scale. pipe_depth: the number of such tiles, one behind the other, which is then the first dimension.

    >>> sf_tmem_layout(128, SF_K=4, sf_per_mma=4)
    S[(4, 32, 4):(4@TCol, 1@TLane, 1@TCol)] + R[4:32@TLane]

    Sources: PTX ISA, "TensorCore 5th Generation: Scale factor layouts"; NVIDIA/cutlass,
    include/cute/atom/mma_traits_sm100.hpp and include/cutlass/detail/sm100_blockscaled_layout.hpp.
    """
    _check_scales(rows, 32, SF_K, sf_per_mma, sf_reuse, pipe_depth)
    in_cell = next(power * sf_per_mma for power in (4, 2, 1)
                   if power * sf_per_mma <= 4 and SF_K % (power * sf_per_mma) == 0)  # fmt: skip
    groups = SF_K // in_cell
    shard = [
        Iter(pipe_depth or 1, rows // 8 * groups, TCol),
        Iter(rows // 32, 4, TCol),
        Iter(32, 1, TLane),
        Iter(groups, rows // 8, TCol),
    ]
    cell = [Iter(in_cell, 1, TCol), *several(Iter(sf_reuse, 0, TCol))]
    return TileLayout([*several(*shard), *cell], [Iter(4, 32, TLane)])


@public
def sf_smem_layout(
    rows: int, SF_K: int, sf_per_mma: int = 4, sf_reuse: int = 1, pipe_depth: int | None = None
) -> TileLayout:
    """The same factors in shared memory, as ``tcgen05.cp.32x128b.warpx4`` brings them to tensor memory.

    A block of 128 rows by 4 blocks along K has 512 bytes; the scale of row r and block k is byte
    ``16 * (r % 32) + 4 * (r % 128 // 32) + k % 4`` of its block. The blocks along K come first, then those of rows.

    >>> sf_smem_layout(128, SF_K=8)
    S[(4, 32, 2, 4):(4, 16, 512, 1)]

    Source: NVIDIA/cutlass, include/cutlass/detail/sm100_blockscaled_layout.hpp.
    """
    _check_scales(rows, 128, SF_K, sf_per_mma, sf_reuse, pipe_depth)
    if SF_K % 4:
        raise LayoutError(f"{SF_K} scale factors along K", given=f"SF_K={SF_K}", allowed="a multiple of 4")
    shard = [
        Iter(pipe_depth or 1, rows * SF_K),
        Iter(rows // 128, 128 * SF_K),
        Iter(4, 4),
        Iter(32, 16),
        Iter(SF_K // 4, 512),
        Iter(4, 1),
        Iter(sf_reuse, 0),
    ]
    return TileLayout(several(*shard))


def _check_scales(rows: int, multiple: int, SF_K: int, sf_per_mma: int, sf_reuse: int, pipe_depth: int | None) -> None:
    if rows <= 0 or rows % multiple:
        raise LayoutError(f"scale factors of {rows} rows", given=rows, allowed=f"a multiple of {multiple}")
    if sf_per_mma not in (1, 2, 4):
        raise LayoutError(f"{sf_per_mma} scale factors for a product", given=sf_per_mma, allowed="1, 2, 4")
    if SF_K <= 0 or SF_K % sf_per_mma:
        raise LayoutError(
            f"{SF_K} scale factors along K, {sf_per_mma} for a product",
            given=f"SF_K={SF_K}",
            allowed=f"a multiple of {sf_per_mma}",
        )
    for name, count in (("sf_reuse", sf_reuse), ("pipe_depth", 1 if pipe_depth is None else pipe_depth)):
        if count < 1:
            raise LayoutError(f"{name}={count}", given=count, allowed="1 or more")
