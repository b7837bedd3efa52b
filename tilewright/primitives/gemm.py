"""gemm: the product of two matrices, scaled and added to a third."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tilewright.layout.facts import Facts, as_int
from tilewright.primitives.shapes import equal, shown
from tilewright.primitives.table import Factor, In, Mismatch, Out, Shape, Tile, primitive

__all__ = ["gemm", "sides_of_matrix"]

DIMENSIONS = {"D": "MN", "A": "MK", "B": "KN", "C": "MN"}


def sides_of_matrix(name: str, keywords: Mapping[str, object]) -> str:
    """What the two dimensions of an operand count, in their order: "MK", or "KM" of a transposed A."""
    names = DIMENSIONS[name]
    return names[::-1] if keywords.get(f"transpose_{name}") else names


def matrices(tiles: Mapping[str, Tile], facts: Facts, keywords: Mapping[str, object]) -> Mapping[str, Shape] | Mismatch:
    """Two dimensions each, those of 1 aside; M, N and K are the same wherever they occur."""
    sizes: dict[str, object] = {}
    for name, tile in tiles.items():
        if name not in DIMENSIONS:
            return Mismatch(f"{name} is a number", shown(tile), "a number, a scalar or one element: 0.5, x, x[0]")
        long = [extent for extent in tile.extents if as_int(extent) != 1]
        names = sides_of_matrix(name, keywords)
        if len(long) != 2:
            return Mismatch(f"{tile.name} is no matrix", shown(tile), f"two extents above 1: {', '.join(names)}")
        for dim, extent in zip(names, long, strict=True):
            if not equal(sizes.setdefault(dim, extent), extent, facts):
                given = ", ".join(f"{key} {shown(each)}" for key, each in tiles.items())
                wanted = ", ".join(f"{key} ({', '.join(sides_of_matrix(key, keywords))})" for key in tiles)
                return Mismatch(f"the extents of {dim} differ", given, wanted)
    return {name: tile.extents for name, tile in tiles.items()}


@primitive(shapes=matrices)
def gemm(
    D: Out,
    A: In,
    B: In,
    C: In = None,  # type: ignore[assignment]  # left out
    transpose_A: bool = False,
    transpose_B: bool = False,
    alpha: Factor = 1.0,
    beta: Factor = 0.0,
) -> None:
    """`D` becomes `alpha * A @ B + beta * C`; with `beta` 0 `C` is not read. `C` is `D` if left out.

    transpose_A: `A` is K x M. transpose_B: `B` is N x K. That names the order of the indices; the layout alone says in
    which order a memory has the elements. Sums are exact for integers, modulo 2**32. For floats, products are exact and
    sums have the type of `D`: an element is wrong by at most `(K + 4) * u` of `|alpha| * |A| @ |B| + |beta * C|`, with
    `u` 2**-21 for float32 and 2**-10 for float16.
    """
    left, right = (each.T if turned else each for each, turned in ((A, transpose_A), (B, transpose_B)))
    exact = np.int64 if D.dtype.kind in "iu" else np.float64
    product = alpha * (left.astype(exact) @ right.astype(exact))
    D[...] = (product if beta == 0 else product + beta * (D if C is None else C).astype(exact)).astype(D.dtype)
