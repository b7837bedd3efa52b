"""gemm_async: begins to multiply two matrices; the tensor cores go on meanwhile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np

from tilewright.primitives.shapes import matrices_of
from tilewright.primitives.table import In, InOut, Role, primitive

__all__ = ["gemm_async"]

Condition = Annotated[Any, Role("condition", tile=False, value=True)]
DIMENSIONS = {"D": "MN", "A": "MK", "B": "NK"}


def sides_of_matrix(name: str, keywords: Mapping[str, object]) -> str:
    """What the two dimensions of an operand count, in their order: "MK", or K first of what is ``trans``."""
    return DIMENSIONS[name][:: -1 if keywords.get(f"trans{name}") else 1]


@primitive(shapes=matrices_of(sides_of_matrix))
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
