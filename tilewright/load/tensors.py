"""Tensors as the kernels of torch extensions take them by value: a pointer with sizes and strides, made of an array.

Source: torch's TensorAccessor.h and TensorInfo.cuh, as far as kernels read them.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from tilewright import host
from tilewright.errors import ArgumentError, described

__all__ = ["as_fields"]

INDICES = (np.int32, np.int64)
_ACCESSOR = re.compile(r"\b(?:Packed)?TensorAccessor(?:32|64)?\s*<")
_INFO = re.compile(r"\bTensorInfo\s*<")
MOST_DIMENSIONS = 25  # that a TensorInfo has room for


def as_fields(value: Any, kind: str, size: int, name: str) -> Any:
    """An array as the fields of the accessor that a parameter is; what is none of both stays as it is.

    kind: the parameter's type, as it is written. size: its bytes, which say how wide its indices are.
    Raises ArgumentError for an array of other dimensions.
    """
    is_info = _INFO.search(kind) is not None
    if not (is_info or _ACCESSOR.search(kind)) or not host.is_array(value, f"argument {name}"):
        return value
    info = host.array_info(value)
    room = MOST_DIMENSIONS if is_info else len(info.shape)
    for index in INDICES:
        numbers = [*_filled(info.shape, room), *_filled(info.steps, room)]
        made = (value, *map(index, numbers), *([np.int32(len(info.shape))] if is_info else []))
        if -(-(8 + len(numbers) * index().itemsize + 4 * is_info) // 8) * 8 == size:
            return made
    raise ArgumentError(f"argument {name} has other dimensions", given=described(value), allowed=kind)


def _filled(extents: tuple[int, ...], room: int) -> tuple[int, ...]:
    return (*extents, *(0,) * (room - len(extents)))
