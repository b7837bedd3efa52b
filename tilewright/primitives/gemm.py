"""gemm: the product of two matrices, scaled and added to a third."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tilewright.primitives.elements import matrices_of
from tilewright.primitives.table import Clipped, Factor, Seen, primitive

DIMENSIONS = {"D": "MN", "A": "MK", "B": "KN", "C": "MN"}


def sides_of_matrix(name: str, keywords: Mapping[str, object]) -> str:
    """What the two dimensions of an operand count, in their order: "MK", or "KM" of a transposed A; "" of a number."""
    names = DIMENSIONS.get(name, "")
    return names[::-1] if keywords.get(f"transpose_{name}") else names


@primitive(shapes=matrices_of(sides_of_matrix))
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
