"""Tensors as the kernels of torch extensions take them by value: a pointer with sizes and strides, made of an array.

Source: torch's TensorAccessor.h and TensorInfo.cuh, as far as kernels read them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright import host

INDICES = (np.int32, np.int64)
MOST_DIMENSIONS = 25  # that a TensorInfo has room for


def as_fields(value: Any, size: int, name: str) -> Any:
    """An array as the fields of the accessor, or of the TensorInfo, that a structure of ``size`` bytes is; what is none
    of both stays as it is.
    """
    if isinstance(value, host.DESCRIBED) or not host.is_array(value, f"argument {name}"):
        return value
    info = host.array_info(value)
    rank = len(info.shape)
    for index in INDICES:
        for room, more in ((rank, ()), (MOST_DIMENSIONS, (np.int32(rank),))):
            numbers = [*_filled(info.shape, room), *_filled(info.steps, room)]
            unpadded = 8 + len(numbers) * index().itemsize + 4 * len(more)
            if -(-unpadded // 8) * 8 == size and rank:
                return (value, *map(index, numbers), *more)
    return value


def _filled(extents: Sequence[float], room: int) -> tuple[int, ...]:
    return (*map(int, extents), *(0,) * (room - len(extents)))
