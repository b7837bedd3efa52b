"""From a place in a buffer's storage back to the logical element that a kernel's author thinks in."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from tilewright.errors import LayoutError
from tilewright.ir.expr import const_value

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tilewright.ir.buffer import Buffer

MOST_ELEMENTS = 1 << 22


def is_dealt_out(buffer: Buffer) -> bool:
    """Does its layout deal the elements out to threads, so that each has a part?"""
    return buffer.layout is not None and any(axis.is_thread() for axis in buffer.layout.parted(buffer.shape)[1].axes)


def index_at(buffer: Buffer, element: int) -> tuple[int, ...] | None:
    """The coordinate of the element at storage offset ``element``; None where there is none, as in padding."""
    extents = [const_value(extent) for extent in buffer.shape]
    if buffer.layout is None or None in extents[1:]:
        return None
    shape = tuple(int(extent or 1) for extent in extents)  # one row stands for a symbolic number of rows
    if prod(shape) > MOST_ELEMENTS:
        shape = (1, *shape[1:])
    try:
        memory = buffer.layout.table(shape).get("m")
    except LayoutError:  # symbolic strides, or a layout that has no such shape
        return _row_major(shape, element) if buffer.layout.is_trivial() else None
    if memory is None:
        return None
    first = memory[..., 0]
    places = np.argwhere(memory == element)
    return tuple(map(int, places[0][:-1])) if len(places) else _continued(first, element)


def _row_major(shape: tuple[int, ...], element: int) -> tuple[int, ...]:
    inner = np.cumprod((1, *shape[:0:-1]))[::-1]
    return _digits([int(stride) for stride in inner], element)


def _digits(strides: list[int], element: int) -> tuple[int, ...]:
    coordinate = []
    for stride in strides:
        digit, element = divmod(element, stride)
        coordinate.append(digit)
    return tuple(coordinate)


def _continued(memory: NDArray[np.int64], element: int) -> tuple[int, ...] | None:
    """The coordinate outside of the shape where the layout, gone on with along its first dimension, has the element."""
    origin = memory[(0,) * memory.ndim]
    one_on = [
        tuple(min(step, n - 1) for step, n in zip(unit, memory.shape, strict=True))
        for unit in np.eye(memory.ndim, dtype=int)
    ]
    steps = [int(memory[place] - origin) for place in one_on]
    even = origin + np.tensordot(steps, np.indices(memory.shape), 1)
    if not (even == memory).all() or 0 in steps[1:] or steps != sorted(steps, reverse=True):
        return None
    steps[0] = steps[0] or int(memory.max()) + 1
    coordinate = _digits(steps, element - int(origin))
    inside = all(digit < n for digit, n in zip(coordinate[1:], memory.shape[1:], strict=True))
    return coordinate if inside else None
