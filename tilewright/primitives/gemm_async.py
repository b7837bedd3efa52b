"""gemm_async: begins to multiply two matrices; the tensor cores go on meanwhile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import numpy as np

from tilewright.layout.facts import Facts, Value, as_int
from tilewright.primitives.elements import equal, matrices_of, shown
from tilewright.primitives.table import In, InOut, Mismatch, Role, Shape, Tile, primitive

Condition = Annotated[Any, Role("condition", tile=False, value=True)]
Scales = Annotated[Any, Role("in, may be left out", absent=True)]
DIMENSIONS = {"D": "MN", "A": "MK", "B": "NK", "SFA": "MS", "SFB": "NS"}
HALF = "H"  # of the columns of D: what each CTA of a pair has of B
BLOCKS = (16, 32)  # elements along K that share a scale
SCALE_TYPES = ("float8_e8m0fnu", "float8_e4m3fn")


def sides_of_matrix(name: str, keywords: Mapping[str, object]) -> str:
    """What the two dimensions of an operand count, in their order: "MK", or K first of what is ``trans``."""
    names = DIMENSIONS[name][:: -1 if keywords.get(f"trans{name}") else 1]
    return names.replace("N", HALF) if name == "B" and keywords.get("cta_group") == 2 else names


def multiplied_shapes(
    tiles: Mapping[str, Tile], facts: Facts, keywords: Mapping[str, object]
) -> Mapping[str, Shape] | Mismatch:
    """Matrices that fit; of a pair each CTA has half of B's columns; scales are for blocks of 16 or 32 along K."""
    if len(scales := [name for name in ("SFA", "SFB") if name in tiles]) == 1 or tiles.get("SFA") is tiles["D"]:
        return Mismatch("one side has scales", shown(tiles[scales[0]]), "SFA= and SFB=, or neither")
    found = matrices_of(sides_of_matrix)({name: tiles[name] for name in "DAB"}, facts, keywords)
    if isinstance(found, Mismatch):
        return found
    sizes = {
        dim: extent
        for name in "DAB"
        for dim, extent in zip(
            sides_of_matrix(name, keywords), (one for one in tiles[name].extents if as_int(one) != 1), strict=True
        )
    }
    if HALF in sizes and not equal(sizes["N"], 2 * sizes[HALF], facts):
        given = f"{shown(tiles['D'])}, {shown(tiles['B'])}"
        return Mismatch(
            "B of a pair has half of D's columns in each CTA", given, "half as many rows of B as columns of D"
        )
    return _with_scales(tiles, sizes, facts) if scales else found


def _with_scales(tiles: Mapping[str, Tile], sizes: dict[str, Value], facts: Facts) -> Mapping[str, Shape] | Mismatch:
    shapes = {name: scale_extents(tiles[name].extents) for name in ("SFA", "SFB")}
    for name, shape in shapes.items():
        if len(shape) != 2 or not all(
            equal(sizes.setdefault(dim, extent), extent, facts)
            for dim, extent in zip(DIMENSIONS[name], shape, strict=True)
        ):
            wanted = f"({sizes[DIMENSIONS[name][0]]}, {sizes.get('S', 'K / block')})"
            return Mismatch(f"the extents of {name} differ from those of the product", shown(tiles[name]), wanted)
    k, count = as_int(sizes["K"]), as_int(sizes["S"])
    if k is None or count is None or k % count or k // count not in BLOCKS:
        given = f"{shown(tiles['A'])}, {shown(tiles['SFA'])}"
        return Mismatch("scales are no blocks along K", given, "a scale for 16 or 32 elements along K")
    return {name: tile.extents for name, tile in tiles.items()}


def scale_extents(extents: Shape) -> Shape:
    """Rows and scales of each: leading extents of 1 aside."""
    lead = next((at for at, extent in enumerate(extents[:-2]) if as_int(extent) != 1), max(0, len(extents) - 2))
    return extents[lead:]


def typed_scales(tiles: Mapping[str, Tile], keywords: Mapping[str, object]) -> Mismatch | None:
    """Both sides have scales of one of the types that there are."""
    kinds = {name: str(tiles[name].dtype) for name in ("SFA", "SFB") if name in tiles}
    if not kinds or (len({*kinds.values()}) == 1 and kinds.get("SFA", SCALE_TYPES[0]) in SCALE_TYPES):
        return None
    given = ", ".join(f"{name} {kind}" for name, kind in kinds.items())
    return Mismatch("scales have other types", given, f"both {' or both '.join(SCALE_TYPES)}")


@primitive(shapes=multiplied_shapes, elements=typed_scales)
def gemm_async(
    D: InOut,
    A: In,
    B: In,
    accum: Condition = False,
    SFA: Scales = None,
    SFB: Scales = None,
    *,
    transA: bool = False,
    transB: bool = False,
    negate: bool = False,
    sync: bool = False,
    cta_group: Literal[1, 2] = 1,
    a_dtype: Literal["", "float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn"] = "",
    b_dtype: Literal["", "float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn"] = "",
) -> None:
    """The call begins to compute `D = A @ B.T`, or `D += A @ B.T` where `accum`; waiting for it is the caller's.

    `SFA` (M x K/block) and `SFB` (N x K/block) are scales: each block of 16 or 32 elements along K is multiplied by its
    own. transA: `A` is K x M. transB: `B` is K x N. That names the order of the indices; the layout alone says in which
    order a memory has the elements. negate: the product is subtracted. sync: the call fences, commits and waits too.
    cta_group: 2 for a product of a pair of CTAs, each of which has half of the rows of `A` and `D` and of the columns
    of `B`. a_dtype, b_dtype: the elements of bytes that are packed as TMA lays them, 16 at the low end of 16 bytes.
    """
    left, right = A.T if transA else A, B if transB else B.T
    exact = np.int64 if D.dtype.kind in "iu" else np.float64
    if SFA is not None:
        block = left.shape[1] // SFA.shape[1]
        left = left.astype(exact) * SFA.astype(exact).repeat(block, 1)
        right = right.astype(exact) * SFB.astype(exact).repeat(block, 1).T
    product = left.astype(exact) @ right.astype(exact)
    D[...] = ((D if accum else 0) + (-product if negate else product)).astype(D.dtype)
