"""Ready-made layouts: the warpgroup row, tensor-memory datapaths, and the swizzled tiles of shared memory."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

from tilewright.dtypes import dtype
from tilewright.errors import LayoutError, choices, described
from tilewright.layout.axes import (
    INTS,
    Axis,
    Facts,
    OnAxis,
    TCol,
    TLane,
    Value,
    laneid,
    listed,
    product,
    public,
    tid_in_wg,
    warpid,
    wid_in_wg,
)
from tilewright.layout.base import Layout
from tilewright.layout.iters import Iter, fuse, regroup, several
from tilewright.layout.swizzle import ComposeLayout, SwizzleLayout
from tilewright.layout.tile import TileLayout

__all__ = [
    "SwizzleMode", "mma_atom_layout", "mma_fragment_layout", "mma_shared_layout", "sf_smem_layout", "sf_tmem_layout",
    "sp_meta_smem_layout", "sp_meta_tmem_layout", "tcgen05_atom_layout", "tma_shared_layout", "tmem_datapath_layout",
    "wg_local_layout", "wgmma_fragment",
]  # fmt: skip

# Layouts around tensor memory: the fragments of its loads and stores, and where scale factors lie in it.


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


@public
def sp_meta_tmem_layout(rows: int, nbytes: int, element: str) -> TileLayout:
    """Where the metadata of a sparse A lie in tensor memory: ``rows`` by ``nbytes`` bytes, two codes in each.

    element: of A. For elements of 16 and 32 bits a product takes 4 bytes of each row, which a cell has for two rows;
    two products share columns, and the selector says which is meant. For narrower ones it takes 8, in the row's lane.

    >>> sp_meta_tmem_layout(128, 16, "bfloat16")
    S[(4, 2, 2, 8, 4, 2, 2):(32@TLane, 16@TLane, 2@TCol, 1@TLane, 4@TCol, 8@TLane, 1@TCol)]
    >>> sp_meta_tmem_layout(128, 16, "float8_e4m3fn")
    S[(128, 16):(1@TLane, 1@TCol)]

    Source: as in CuTe's traits, NVIDIA/cutlass, include/cute/atom/mma_traits_sm100_frag.hpp.
    """
    step = _check_metadata(rows, nbytes, element)
    if step == 8:
        return TileLayout(several(Iter(rows // 128, nbytes, TCol), Iter(128, 1, TLane), Iter(nbytes, 1, TCol)))
    block = Iter(rows // 128, -(-nbytes // 8) * 8, TCol)  # whole pairs of columns
    lanes = (Iter(4, 32, TLane), Iter(2, 16, TLane), Iter(2, 2, TCol), Iter(8, 1, TLane))
    return TileLayout(several(block, *lanes, Iter(nbytes // 4, 4, TCol), Iter(2, 8, TLane), Iter(2, 1, TCol)))


@public
def sp_meta_smem_layout(rows: int, nbytes: int, element: str) -> TileLayout:
    """The same metadata in shared memory, as ``tcgen05.cp.128x128b`` brings them to tensor memory, 16 bytes of each
    lane at a time.

    >>> sp_meta_smem_layout(128, 16, "float8_e4m3fn")
    S[(128, 16):(16, 1)]
    """
    step = _check_metadata(rows, nbytes, element)
    if nbytes % 16:
        raise LayoutError(f"{nbytes} bytes of metadata", given=nbytes, allowed="a multiple of 16, which a copy brings")
    block, far, near = Iter(rows // 128, 128 * nbytes), Iter(nbytes // 16, 2048), 16 // step
    if step == 8:
        return TileLayout(several(block, Iter(128, 16), far, Iter(16, 1)))
    lanes = (Iter(4, 512), Iter(2, 256), Iter(2, 2), Iter(8, 16))
    return TileLayout(several(block, *lanes, far, Iter(near, 4), Iter(2, 128), Iter(2, 1)))


def _check_metadata(rows: int, nbytes: int, element: str) -> int:
    """The bytes of a row that a product takes."""
    if rows <= 0 or rows % 128:
        raise LayoutError(f"metadata of {rows} rows", given=rows, allowed="a multiple of 128")
    step = 4 if dtype(element).bits > 8 else 8
    if nbytes <= 0 or nbytes % step:
        raise LayoutError(f"{nbytes} bytes of metadata", given=nbytes, allowed=f"a multiple of {step} for {element}")
    return step


@public.kind_of("a SwizzleMode")
class SwizzleMode(IntEnum):
    """How the 16-byte units of a row of shared memory are permuted; the value is the number of address bits XORed."""

    SWIZZLE_NONE = 0
    SWIZZLE_32B_ATOM = 1
    SWIZZLE_64B_ATOM = 2
    SWIZZLE_128B_ATOM = 3

    @classmethod
    def _missing_(cls, value: object) -> SwizzleMode:
        raise LayoutError(
            f"unknown swizzle mode {described(value)}",
            given=described(value),
            allowed=", ".join(f"{mode.name} = {mode}" for mode in cls),
        )

    @property
    def row_bytes(self) -> int:
        """Bytes of one row of the pattern."""
        return 16 << self.value


@public
def wg_local_layout(cols: int, rows: int = 128) -> TileLayout:
    """Thread r of a warpgroup holds row r, its columns in registers, and row r of each further 128 rows.

    >>> wg_local_layout(64)
    S[(128, 64):(1@tid_in_wg, 1)]
    """
    if rows > 128 and rows % 128:
        raise LayoutError(f"{rows} rows for a warpgroup", given=rows, allowed="at most 128, or a multiple of 128")
    lanes = min(rows, 128)
    turns = [Iter(rows // 128, cols)] if rows > 128 else []
    return TileLayout([*turns, Iter(lanes, 1, tid_in_wg), Iter(cols, 1)])


@public
def wgmma_fragment(rows: int, columns: int, operand: str = "D", element: str = "float32") -> TileLayout:
    """Which thread of a warpgroup holds which element of D, or of A in registers, of ``wgmma``; 64 rows or a multiple.

    Of each 64 rows, warp w holds rows 16w to 16w + 15. Slots count elements, the low bits of the first register first.
    ``element`` is the dtype of A; D has the same layout for elements of 32 and of 16 bits.

    >>> wgmma_fragment(64, 128)
    S[(4, 2, 8, 16, 4, 2):(32@tid_in_wg, 2, 4@tid_in_wg, 4, 1@tid_in_wg, 1)]
    >>> wgmma_fragment(64, 16, "A", "bfloat16")
    S[(4, 2, 8, 2, 4, 2):(32@tid_in_wg, 2, 4@tid_in_wg, 4, 1@tid_in_wg, 1)]

    Source: PTX ISA, "Register Fragments" of wgmma.mma_async.
    """
    if operand not in ("A", "D"):
        raise LayoutError(f"no fragment of wgmma's {operand}", given=operand, allowed=choices(operand, "AD"))
    held = 2 if operand == "D" else _elements(element, 4)  # neighbours of a row that a thread has
    across = 4 * held * (1 if operand == "D" else 2)  # columns that the fragment comes in
    if rows < 1 or columns < 1 or rows % 64 or columns % across:
        raise LayoutError(
            f"a fragment of {rows} x {columns} of wgmma's {operand}",
            given=f"{rows} rows, {columns} columns",
            allowed=f"multiples of 64 rows and {across} columns",
        )
    blocks = [Iter(rows // 64, columns // 2)] if rows > 64 else []
    height = [Iter(4, 32, tid_in_wg), Iter(2, held), Iter(8, 4, tid_in_wg)]
    width = [Iter(columns // (4 * held), 2 * held), Iter(4, 1, tid_in_wg), Iter(held, 1)]
    return TileLayout([*blocks, *height, *(width if held > 1 else width[:-1])])


DATAPATHS: dict[str, tuple[tuple[int, OnAxis], ...]] = {
    "D": ((128, OnAxis(1, TLane)),),
    "F": ((4, OnAxis(32, TLane)), (16, OnAxis(1, TLane))),
    "B": ((64, OnAxis(1, TLane)),),
}
"""Accumulator rows to lanes of tensor memory. Source: PTX ISA, "Data path layout organization": D is M = 128 of one CTA
(lane = row), F is M = 64 (lane = row % 16 + 32 * (row / 16)), B is a CTA's half of M = 128 of two (lane = row, and the
second half of the columns 64 lanes further)."""


@public
def tmem_datapath_layout(datapath: str, rows: int, cols: int, sub_slab: int = 0) -> TileLayout:
    """Where an accumulator of ``rows`` by ``cols`` lies in tensor memory; columns count elements.

    D: 128 rows, row r in lane r. F: 64 rows, row r in lane ``r % 16 + 32 * (r // 16)``, with ``sub_slab=1`` 16 lanes
    further, where a second tile has room. B: 64 rows, row r in lane r, the second half of the columns in lane r + 64.

    >>> tmem_datapath_layout("F", 64, 256)
    S[(4, 16, 256):(32@TLane, 1@TLane, 1@TCol)]
    >>> tmem_datapath_layout("B", 64, 256)
    S[(64, 2, 128):(1@TLane, 64@TLane, 1@TCol)]
    """
    if datapath not in DATAPATHS:
        raise LayoutError(f"unknown datapath {datapath!r}", given=datapath, allowed=choices(datapath, DATAPATHS))
    lanes = [Iter(extent, step.value, step.axis) for extent, step in DATAPATHS[datapath]]
    height = product(it.extent for it in lanes)
    if rows != height:
        raise LayoutError(f"datapath {datapath} with {rows} rows", given=rows, allowed=f"{height} rows")
    halves = 2 if datapath == "B" else 1
    if cols <= 0 or cols % halves:
        raise LayoutError(f"datapath {datapath} with {cols} columns", given=cols, allowed=f"a multiple of {halves}")
    if sub_slab not in ((0, 1) if datapath == "F" else (0,)):
        raise LayoutError(f"sub_slab={sub_slab} of datapath {datapath}", given=sub_slab, allowed="0, of F also 1")
    columns = [*([Iter(halves, 64, TLane)] if halves > 1 else []), Iter(cols // halves, 1, TCol)]
    return TileLayout([*lanes, *columns], (), [OnAxis(16, TLane)] if sub_slab else ())


@public
def mma_fragment_layout(
    operand: str, shape: Sequence[int], element: str, warps: tuple[int, int] = (1, 1), axis: Axis = warpid
) -> TileLayout:
    """The fragment of operand "A" (M x K), "B" (K x N), "C" or "D" (M x N) of ``mma.sync``, for a tile of any size.

    warps: how many share D along M and along N; each warp, a number on ``axis``, holds the parts of A and B that it
    needs. Lane 4g+t has the rows 8r+g of A, C and D, and the columns 8c+g of B; a register holds neighbours along K.

    >>> mma_fragment_layout("A", (64, 32), "float16")
    S[(4, 2, 8, 2, 2, 4, 2):(16, 2, 4@laneid, 8, 4, 1@laneid, 1)]
    >>> mma_fragment_layout("B", (32, 64), "float16", warps=(2, 4))
    S[(2, 2, 4, 2, 4, 2, 8):(4, 2, 1@laneid, 1, 1@warpid, 8, 4@laneid)] + R[2:4@warpid]

    Raises LayoutError for an unknown operand, and a shape that does not consist of such pieces.
    """
    if operand not in FRAGMENTS:
        raise LayoutError(f"mma has no operand {operand!r}", given=operand, allowed=choices(operand, FRAGMENTS))
    if len(shape) != 2 or len(warps) != 2:
        text = f"shape {listed(shape)}, warps {listed(warps)}"
        raise LayoutError("no fragment of mma", given=text, allowed="two extents, two numbers of warps")
    rows, columns = shape
    per_register = max(1, _elements(element, 8) // 2)  # a float64 has two
    unit = 4 * per_register  # along K: what a register of each lane of a group makes up
    along, across = (Iter(warps[0], warps[1], axis), Iter(warps[1], 1, axis))
    parts = {"M": (along, 16), "N": (across, 8), "K": (Iter(1, 1), unit)}
    sizes = dict(zip(FRAGMENTS[operand], (rows, columns), strict=True))
    for name, extent in sizes.items():
        share, piece = parts[name]
        if extent < 1 or extent % (share.extent * piece):
            spread = f" for each of {share.extent} warps" if share.extent != 1 else ""
            allowed = f"{name} a multiple of {piece}{spread}"
            raise LayoutError(
                f"{operand} of {listed(shape)} is no fragment", given=f"{name} = {extent}", allowed=allowed
            )
    return _fragment(operand, sizes, per_register, along, across)


FRAGMENTS = {"A": "MK", "B": "KN", "C": "MN", "D": "MN"}


def _fragment(operand: str, sizes: dict[str, int], per_register: int, along: Iter, across: Iter) -> TileLayout:
    """The pieces of the dimensions, each with its stride: what one instruction reads has neighbouring slots."""
    by_m, by_n = int(along.extent), int(across.extent)
    g, t = Iter(8, 4, laneid), Iter(4, 1, laneid)
    if operand in "CD":
        columns = sizes["N"] // by_n // 8
        m = [*several(along, Iter(sizes["M"] // by_m // 16, 4 * columns)), Iter(2, 2), g]
        return TileLayout([*m, *several(across, Iter(columns, 4)), t, Iter(2, 1)])
    halves = 2 if sizes["K"] % (8 * per_register) == 0 else 1
    steps = sizes["K"] // (4 * per_register * halves)
    high = 2 * per_register if operand == "A" else per_register  # from the low half of K to the high one
    k = [*several(Iter(steps, high * halves)), Iter(halves, high), t, Iter(per_register, 1)]
    slots = steps * high * halves
    if operand == "A":
        m = [*several(along, Iter(sizes["M"] // by_m // 16, slots)), Iter(2, per_register), g]
        return TileLayout([*m, *k], several(across))
    return TileLayout([*k, *several(across, Iter(sizes["N"] // by_n // 8, slots)), g], several(along))


@public
def mma_atom_layout(element: str, mode: SwizzleMode | int) -> Layout:
    """The K-major atom that mma instructions read: 8 rows of 16, 32, 64 or 128 bytes, their 16-byte units swizzled.

    Source: PTX ISA, "Canonical layouts" and "Swizzling modes": byte address ``a ^= (a >> 3) & 0x10, 0x30, 0x70``.

    >>> mma_atom_layout("float16", SwizzleMode.SWIZZLE_128B_ATOM)
    ComposeLayout(SwizzleLayout(per_element=3, swizzle_len=3, atom_len=3), S[(8, 64):(64, 1)])
    """
    swizzle = SwizzleMode(mode)
    unit = _elements(element, 16)
    row = unit << swizzle
    rows = TileLayout([Iter(8, row), Iter(row, 1)])
    return ComposeLayout(SwizzleLayout(unit.bit_length() - 1, swizzle, 3), rows) if swizzle else rows


@public
def mma_shared_layout(element: str, mode: SwizzleMode | int, shape: Sequence[Value], facts: Facts = INTS) -> Layout:
    """A K-major tile of shared memory as mma instructions read it and the tensor memory accelerator writes it.

    The last two entries of ``shape`` are rows and columns. Columns are cut into stripes as wide as the swizzle row
    (16, 32, 64 or 128 bytes); the rows of a stripe follow one another, then the next stripe; leading dimensions are
    outermost. Mode 0 has stripes of 16 bytes, the unswizzled core matrices; a single stripe is plain row major.

    >>> mma_shared_layout("float16", 3, (64, 128)).tile
    S[(64, 2, 64):(64, 4096, 1)]

    Raises LayoutError unless rows are a multiple of 8 and columns of the swizzle row.
    """
    swizzle = SwizzleMode(mode)
    width = _elements(element, swizzle.row_bytes)
    if len(shape) < 2 or not facts.divides(8, shape[-2]) or not facts.divides(width, shape[-1]):
        raise LayoutError(
            f"shape {listed(shape)} of {element} does not admit {swizzle.name}",
            given=f"{listed(shape)}",
            allowed=f"rows a multiple of 8, columns a multiple of {width} elements ({swizzle.row_bytes} bytes)",
            hint=_fitting(element, shape, width),
        )
    ones = [1] * (len(shape) - 2)
    stripe = [*ones, shape[-2], width]
    layout = mma_atom_layout(element, swizzle).tile_to(stripe, [*ones, 8, width], facts)
    return _compact(layout.tile_to(shape, stripe, facts), shape, facts)


tma_shared_layout = mma_shared_layout
READY = (
    mma_atom_layout, mma_fragment_layout, mma_shared_layout, tmem_datapath_layout, wg_local_layout, wgmma_fragment,
)  # fmt: skip
"""The functions that texts of layouts may call."""


def _fitting(element: str, shape: Sequence[Value], width: int) -> str | None:
    """What would fit where a mode does not: the widest mode that does, else the next larger tile of the mode.

    width: of the mode's row, in elements.
    """
    if len(shape) < 2 or not all(isinstance(extent, int) and extent > 0 for extent in shape):
        return None
    *outer, rows, columns = shape
    for mode in reversed(SwizzleMode):
        if rows % 8 == 0 and columns % _elements(element, mode.row_bytes) == 0:
            return f'mma_shared_layout("{element}", SwizzleMode.{mode.name}, {listed(shape)})'
    larger = (*outer, -(-rows // 8) * 8, -(-columns // width) * width)
    return f"a tile of {listed(larger)}, of which {listed(shape)} is used"


def _compact(layout: Layout, shape: Sequence[Value], facts: Facts) -> Layout:
    """The layout with each dimension's iters fused, dimensions kept apart."""
    swizzle, tile = layout.parted(shape)
    groups = regroup(tile.shard, shape, facts)
    fused = TileLayout([it for group in groups for it in fuse(group, facts) or group[-1:]])
    return fused if swizzle is None else swizzle.after(fused)


def _elements(element: str, nbytes: int) -> int:
    """Elements in so many bytes; 16 bytes are a power of two of them for every type in the table.

    Raises LayoutError for a type of which not even one fits.
    """
    bits = dtype(element).bits
    if not 0 < bits <= nbytes * 8:
        raise LayoutError(f"{element} in {nbytes} bytes", given=f"{bits} bits", allowed=f"1 to {nbytes * 8} bits")
    return nbytes * 8 // bits
