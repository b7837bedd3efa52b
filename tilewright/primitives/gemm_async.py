"""gemm_async: begins to multiply two matrices; the tensor cores go on meanwhile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np

from tilewright.layout.facts import Facts, as_int
from tilewright.primitives.shapes import shown
from tilewright.primitives.table import In, InOut, Mismatch, Role, Shape, Tile, primitive

__all__ = ["gemm_async"]

Condition = Annotated[Any, Role("condition", tile=False, value=True)]
DIMENSIONS = {"D": "MN", "A": "MK", "B": "NK"}


def three_matrices(
    tiles: Mapping[str, Tile], facts: Facts, keywords: Mapping[str, object]
) -> Mapping[str, Shape] | Mismatch:
    """Two dimensions each, those of 1 aside: D is M x N, A is M x K and B is N x K, or K first of what is ``trans``."""
    sizes: dict[str, object] = {}
    for name, tile in tiles.items():
        long = [extent for extent in tile.extents if as_int(extent) != 1]
        names = DIMENSIONS[name][:: -1 if keywords.get(f"trans{name}") else 1]
        if len(long) != 2:
            return Mismatch(f"{tile.name} is no matrix", shown(tile), f"two extents above 1: {', '.join(names)}")
        for dim, extent in zip(names, long, strict=True):
            if not facts.equal(sizes.setdefault(dim, extent), extent):
                given = ", ".join(f"{key} {shown(each)}" for key, each in tiles.items())
                return Mismatch(f"the extents of {dim} differ", given, "D (M, N), A (M, K), B (N, K)")
    return {name: tile.extents for name, tile in tiles.items()}


@primitive(shapes=three_matrices)
def gemm_async(
    D: InOut,
    A: In,
    B: In,
    accum: Condition = False,
    *,
    transA: bool = False,
    transB: bool = False,
    negate: bool = False,
    sync: bool = False,
) -> None:
    """The call begins to compute `D = A @ B.T`, or `D += A @ B.T` where `accum`; waiting for it is the caller's.

    transA: `A` is K x M. transB: `B` is K x N. That names the order of the indices; the layout alone says in which
    order a memory has the elements. negate: the product is subtracted. sync: the call fences, commits and waits too.
    """
    left, right = A.T if transA else A, B if transB else B.T
    exact = np.int64 if D.dtype.kind in "iu" else np.float64
    product = left.astype(exact) @ right.astype(exact)
    D[...] = ((D if accum else 0) + (-product if negate else product)).astype(D.dtype)
