"""gemm and gemm_async: the product of two matrices, scaled and added to a third, at once or by the tensor cores."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray

from tilewright.layout.axes import Facts, Value, as_int
from tilewright.primitives.elements import equal, matrices_of, shown
from tilewright.primitives.table import Clipped, Factor, In, InOut, Mismatch, Role, Seen, Shape, Tile, primitive

# gemm: the product of two matrices, scaled and added to a third.


DIMENSIONS = {"D": "MN", "A": "MK", "B": "KN", "C": "MN"}


def sides_of_matrix(name: str, keywords: Mapping[str, object]) -> str:
    """What the two dimensions of an operand count, in their order: "MK", or "KM" of a transposed A; "" of a number."""
    names = DIMENSIONS.get(name, "")
    return names[::-1] if keywords.get(f"transpose_{name}") else names


@primitive(shapes=matrices_of(sides_of_matrix, "transpose_A", "transpose_B"))
def gemm(
    D: Clipped,
    A: Seen,
    B: Seen,
    C: Seen = None,  # type: ignore[assignment]  # left out
    transpose_A: bool = False,
    transpose_B: bool = False,
    alpha: Factor = 1.0,
    beta: Factor = 0.0,
) -> None:
    """`D` becomes `alpha * A @ B + beta * C`; with `beta` 0 `C` is not read. `C` is `D` if left out.

    transpose_A: `A` is K x M. transpose_B: `B` is N x K. That names the order of the indices; the layout alone says in
    which order a memory has the elements. Sums are exact for integers, modulo 2**32. For floats, products are exact and
    sums have the type of `D`: an element is wrong by at most `(K + 4) * u` of `|alpha| * |A| @ |B| + |beta * C|`, with
    `u` 2**-21 for float32 and 2**-10 for float16. What is outside of a buffer counts as zero, and is not stored.
    """
    left, right = (side.T if turned else side for side, turned in ((A, transpose_A), (B, transpose_B)))
    exact = np.int64 if D.dtype.kind in "iu" else np.float64
    product = alpha * (left.astype(exact) @ right.astype(exact))
    D[...] = (product if beta == 0 else product + beta * (D if C is None else C).astype(exact)).astype(D.dtype)


# gemm_async: begins to multiply two matrices; the tensor cores go on meanwhile.


Condition = Annotated[Any, Role("condition", tile=False, value=True)]
Absent = Annotated[Any, Role("in, may be left out", absent=True)]
ASYNC_DIMENSIONS = {"D": "MN", "A": "MK", "B": "NK", "SFA": "MS", "SFB": "NS"}
HALF = "H"  # of the columns of D: what each CTA of a pair has of B
STORED = "C"  # of the elements along K: the half of them that a sparse A has
BLOCKS = (16, 32)  # elements along K that share a scale
SCALE_TYPES = ("float8_e8m0fnu", "float8_e4m3fn")


def async_sides_of_matrix(name: str, keywords: Mapping[str, object], *, sparse: bool = False) -> str:
    """What the two dimensions of an operand count, in their order: "MK", or K first of what is ``trans``."""
    names = ASYNC_DIMENSIONS[name][:: -1 if keywords.get(f"trans{name}") else 1]
    names = names.replace("K", STORED) if sparse and name == "A" else names
    return names.replace("N", HALF) if name == "B" and keywords.get("cta_group") == 2 else names


def chunks_of(bits: int) -> tuple[int, ...]:
    """Elements along K of which a sparse A has half, and a code of 4 bits says which, by the bits of an element; 8 are
    those of products that take 4-bit elements two in a byte.
    """
    return {32: (2,), 4: (8, 4)}.get(bits, (4,))


def multiplied_shapes(
    tiles: Mapping[str, Tile], facts: Facts, keywords: Mapping[str, object]
) -> Mapping[str, Shape] | Mismatch:
    """Matrices that fit; of a pair each CTA has half of B's columns; scales are for blocks of 16 or 32 along K; a
    sparse A has half of its elements, and metadata.
    """
    if len(scales := [name for name in ("SFA", "SFB") if name in tiles]) == 1:
        return Mismatch("one side has scales", shown(tiles[scales[0]]), "SFA= and SFB=, or neither")
    sides_of = partial(async_sides_of_matrix, sparse="sp_meta" in tiles)
    fit = matrices_of(sides_of, "transA", "transB")({name: tiles[name] for name in "DAB"}, facts, keywords)
    if isinstance(fit, Mismatch):
        return fit
    sizes = {
        dim: extent
        for name in "DAB"
        for dim, extent in zip(
            sides_of(name, keywords), (extent for extent in tiles[name].extents if as_int(extent) != 1), strict=True
        )
    }
    if "sp_meta" in tiles and (trouble := _without_metadata(tiles, sizes, facts)):
        return trouble
    if HALF in sizes and not equal(sizes["N"], 2 * sizes[HALF], facts):
        text = f"{shown(tiles['D'])}, {shown(tiles['B'])}"
        return Mismatch(
            "B of a pair has half of D's columns in each CTA", text, "half as many rows of B as columns of D"
        )
    return _with_scales(tiles, sizes, facts) if scales else {name: tile.extents for name, tile in tiles.items()}


def _without_metadata(tiles: Mapping[str, Tile], sizes: Mapping[str, Value], facts: Facts) -> Mismatch | None:
    """Why a sparse A does not go with its metadata: bytes, two codes in each."""
    a, meta = tiles["A"], tiles["sp_meta"]
    if not equal(2 * sizes[STORED], sizes["K"], facts):
        text = f"{shown(a)}, {shown(tiles['B'])}"
        return Mismatch("a sparse A has half of the elements along K", text, "half as many along K in A as in B")
    shape, chunks = scale_extents(meta.extents), chunks_of(a.dtype.bits)
    wanted = [(sizes["M"], facts.simplify(sizes["K"] // (2 * chunk))) for chunk in chunks]
    if len(shape) != 2 or not any(all(map(partial(equal, facts=facts), shape, pair)) for pair in wanted):
        what = f"metadata of {a.dtype} are a code for each {' or '.join(map(str, chunks))} along K, two in a byte"
        return Mismatch(what, shown(meta), " or ".join(f"({rows}, {count})" for rows, count in wanted))
    return None


def _with_scales(tiles: Mapping[str, Tile], sizes: dict[str, Value], facts: Facts) -> Mapping[str, Shape] | Mismatch:
    shapes = {name: scale_extents(tiles[name].extents) for name in ("SFA", "SFB")}
    for name, shape in shapes.items():
        if len(shape) != 2 or not all(
            equal(sizes.setdefault(dim, extent), extent, facts)
            for dim, extent in zip(ASYNC_DIMENSIONS[name], shape, strict=True)
        ):
            wanted = f"({sizes[ASYNC_DIMENSIONS[name][0]]}, {sizes.get('S', 'K / block')})"
            return Mismatch(f"the extents of {name} differ from those of the product", shown(tiles[name]), wanted)
    k, count = as_int(sizes.get(STORED, sizes["K"])), as_int(sizes["S"])
    if k is None or count is None or k % count or k // count not in BLOCKS:
        text = f"{shown(tiles['A'])}, {shown(tiles['SFA'])}"
        return Mismatch("scales are no blocks along K", text, "a scale for 16 or 32 elements along K")
    return {name: tile.extents for name, tile in tiles.items()}


def scale_extents(extents: Shape) -> Shape:
    """Rows and scales of each: leading extents of 1 aside."""
    lead = next((at for at, extent in enumerate(extents[:-2]) if as_int(extent) != 1), max(0, len(extents) - 2))
    return extents[lead:]


def typed_scales(tiles: Mapping[str, Tile], keywords: Mapping[str, object]) -> Mismatch | None:
    """Both sides have scales of one of the types that there are; metadata are bytes."""
    if "sp_meta" in tiles and tiles["sp_meta"].dtype != "uint8":
        return Mismatch("metadata have another type", shown(tiles["sp_meta"]), "uint8, two codes in each")
    kinds = {name: str(tiles[name].dtype) for name in ("SFA", "SFB") if name in tiles}
    if not kinds or (len({*kinds.values()}) == 1 and kinds.get("SFA", SCALE_TYPES[0]) in SCALE_TYPES):
        return None
    text = ", ".join(f"{name} {kind}" for name, kind in kinds.items())
    return Mismatch("scales have other types", text, f"both {' or both '.join(SCALE_TYPES)}")


def expanded(A: NDArray[Any], metadata: NDArray[Any]) -> NDArray[Any]:
    """The full A, (M, K), from the half that is stored, (M, K/2), and its metadata, (M, bytes).

    A byte has two codes, the low one first. Of 32-bit elements a code names one of two, else two of four; of 4-bit ones
    these are pairs.

    >>> expanded(np.array([[5, 7, 1, 2]]), np.array([[0b0100_1100]], np.uint8))  # places 0 and 3, then 0 and 1
    array([[5., 0., 0., 7., 1., 2., 0., 0.]])
    """
    codes = np.stack((metadata & 15, metadata >> 4), axis=-1).reshape(len(metadata), -1).astype(np.int64)
    chunk = 2 * A.shape[1] // codes.shape[1]
    places = codes[..., None] >> 1 & 1 if chunk == 2 else np.stack((codes & 3, codes >> 2), axis=-1)
    together = 2 if chunk == 8 else 1
    full = np.zeros((*codes.shape, chunk // together, together))
    np.put_along_axis(full, places[..., None], A.astype(float).reshape(*places.shape, together), axis=-2)
    return full.reshape(len(A), -1)


@primitive(shapes=multiplied_shapes, elements=typed_scales)
def gemm_async(
    D: InOut,
    A: In,
    B: In,
    accum: Condition = False,
    SFA: Absent = None,
    SFB: Absent = None,
    sp_meta: Absent = None,
    *,
    transA: bool = False,
    transB: bool = False,
    negate: bool = False,
    negateA: bool = False,
    negateB: bool = False,
    scale_input_d: int = 0,
    ws: bool = False,
    collector: str = "",
    sync: bool = False,
    cta_group: Literal[1, 2] = 1,
    a_dtype: Literal["", "float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn"] = "",
    b_dtype: Literal["", "float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn"] = "",
) -> None:
    """The call begins to compute `D = A @ B.T`, or `D += A @ B.T` where `accum`; waiting for it is the caller's.

    `SFA` (M x K/block) and `SFB` (N x K/block) are scales: each block of 16 or 32 elements along K is multiplied by its
    own. transA: `A` is K x M. transB: `B` is K x N. That names the order of the indices; the layout alone says in which
    order a memory has the elements. sp_meta: bytes that say which half of the elements along K a sparse `A` has, (M,
    K/8), (M, K/4) for 32 and (M, K/16) for 4 bits: a code for each four, two or eight along K. negate: the product is
    subtracted. negateA, negateB: one side is negated. scale_input_d: what is added to, `D`, is divided by 2 to this
    power, at most 15. ws: the tensor cores may keep columns of `B` for later products. collector: what a buffer of
    theirs does with `A` ("a::fill", "a::use", "a::lastuse", "a::discard") or, with ws, with `B` ("b0::fill" to
    "b3::discard"); no value changes. sync: the call fences, commits and waits too.
    cta_group: 2 for a product of a pair of CTAs, each of which has half of the rows of `A` and `D` and of the columns
    of `B`. a_dtype, b_dtype: the elements of bytes that are packed as TMA lays them, 16 at the low end of 16 bytes.
    """
    left, right = A.T if transA else A, B if transB else B.T
    exact = np.int64 if D.dtype.kind in "iu" else np.float64
    left = left if sp_meta is None else expanded(left, sp_meta)
    if SFA is not None:
        block = left.shape[1] // SFA.shape[1]
        left = left.astype(exact) * SFA.astype(exact).repeat(block, 1)
        right = right.astype(exact) * SFB.astype(exact).repeat(block, 1).T
    product = left.astype(exact) @ right.astype(exact)
    before = np.ldexp(D.astype(exact), -scale_input_d) if scale_input_d else D
    signed = -product if negate ^ negateA ^ negateB else product
    D[...] = ((before if accum else 0) + signed).astype(D.dtype)
