"""What a matrix product in registers is besides its meaning: which elements lie where, and what they are widened to.

With this, products that follow each other on fragments side by side are one product of larger matrices.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.dtypes import dtype
from tilewright.isa.fragments import mma_fragment, mma_shape
from tilewright.layout import TileLayout

__all__ = ["Accumulator", "MatrixProduct", "Spots", "float_product", "spots_of"]

Spots = NDArray[np.int64]


@dataclass(frozen=True, eq=False, slots=True)
class MatrixProduct:
    """D = A * B + C, of any size along rows, columns and K: in exact products, summed in float32 in any order.

    left: (rows, K), right: (columns, K), total: (rows, columns): for each element its *spot*, which counts through the
    operand's registers, in each of them through the lanes, in each lane through the elements of the register.
    left_kind, right_kind: the dtypes of A and B, in float32's place "tf32"; C and D are float32.
    """

    left: Spots
    right: Spots
    total: Spots
    left_kind: str
    right_kind: str


@dataclass(frozen=True, eq=False, slots=True)
class Accumulator:
    """The matrix in the registers that an operation of warps updates.

    total: (rows, columns), for each element of a warp's part of it the register, times 32, and the lane. ``add(matrix,
    *found, *values, **keywords)`` is `AsyncMeaning.execute` on (n, rows of all warps, columns), in place; of sources
    that the issuers of a CTA have in common ``found`` has one row for these. element: of the matrix.
    """

    total: Spots
    element: np.dtype[Any]
    add: Callable[..., None]


def float_product(shape: str, left_kind: str, right_kind: str) -> MatrixProduct:
    """The product that ``mma.sync`` computes with sums in float32."""
    m, n, k = mma_shape(shape)
    return MatrixProduct(
        spots_of(mma_fragment(shape, "A", left_kind), (m, k), 32 // dtype(left_kind).bits),
        spots_of(mma_fragment(shape, "B", right_kind), (k, n), 32 // dtype(right_kind).bits).T,
        spots_of(mma_fragment(shape, "C", "float32"), (m, n), 1),
        left_kind,
        right_kind,
    )


def spots_of(fragment: TileLayout, shape: tuple[int, int], per_register: int) -> Spots:
    """A fragment's elements: its slots count the elements of a lane, the low bits of the first register first."""
    table = fragment.table(shape)
    lane, slot = (np.asarray(table[axis])[..., 0].astype(np.int64) for axis in ("laneid", "m"))
    return (slot // per_register * 32 + lane) * per_register + slot % per_register
