"""4-bit elements: two to a byte, the first in the low half. NumPy (ml_dtypes) holds one per byte."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilewright.dtypes import DType


def pack_subbyte(array: NDArray[np.generic]) -> NDArray[np.uint8]:
    """The elements of a one-per-byte array in row-major order, two to a byte; an odd last one leaves the high half 0.

    >>> pack_subbyte(np.array([0x1, 0x2, 0x3], np.uint8)).tolist()
    [33, 3]
    """
    nibbles = np.ascontiguousarray(array).reshape(-1).view(np.uint8) & 0xF
    if nibbles.size % 2:
        nibbles = np.append(nibbles, np.uint8(0))
    return (nibbles[0::2] | nibbles[1::2] << 4).astype(np.uint8)


def unpack_subbyte(packed: NDArray[np.generic], shape: tuple[int, ...], kind: DType) -> NDArray[np.generic]:
    """The elements of packed bytes as a one-per-byte array of ``shape``. Inverse of `pack_subbyte`.

    >>> from tilewright.dtypes import dtype
    >>> unpack_subbyte(np.array([0x72], np.uint8), (2,), dtype("float4_e2m1fn")).tolist()
    [1.0, 6.0]
    """
    data = np.ascontiguousarray(packed).reshape(-1).view(np.uint8)
    nibbles = np.stack([data & 0xF, data >> 4], axis=-1).reshape(-1)
    count = int(np.prod(shape, dtype=np.int64))
    return nibbles[:count].view(kind.numpy).reshape(shape)
