"""Arguments whose rows are further apart than they are long: strides that a buffer declares, and those of an array."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from typing import TYPE_CHECKING

from tilewright.ir.buffer import Buffer
from tilewright.ir.evaluate import evaluate
from tilewright.ir.expr import Number, Value, Var, const_value
from tilewright.layout import INTS, TileLayout, m

if TYPE_CHECKING:
    from tilewright.ir.arrays import ArrayInfo

__all__ = ["differing", "steps_of", "strides_of", "symbolic_strides"]


def strides_of(buffer: Buffer) -> tuple[Value, ...] | None:
    """Elements from one index of each dimension to the next; None where the layout is more than that."""
    layout = buffer.layout
    if not isinstance(layout, TileLayout) or layout.replica or layout.offset or const_value(buffer.elem_offset) != 0:
        return None
    alike = len(layout.shard) == len(buffer.shape) and all(
        it.axis == m and INTS.equal(it.extent, extent) for it, extent in zip(layout.shard, buffer.shape, strict=True)
    )
    return tuple(it.stride for it in layout.shard) if alike else None


def steps_of(buffer: Buffer, info: ArrayInfo) -> tuple[float, ...] | None:
    """The strides of an array of the buffer's rank, in elements of the buffer; None where its items are no elements."""
    lanes, strides = buffer.dtype.lanes, info.steps
    if lanes > 1 and len(strides) == len(buffer.shape) + 1 and strides[-1] == 1:
        return tuple(stride / lanes for stride in strides[:-1])
    return strides if lanes == 1 and buffer.dtype.bits >= 8 and len(strides) == len(buffer.shape) else None


def symbolic_strides(buffer: Buffer, info: ArrayInfo) -> Iterator[tuple[bool, str, int, float]]:
    """The strides of an array where the buffer declares a symbol: (is the extent 0 or 1, name, dimension, elements).

    The stride of an extent of one is arbitrary. It is used only if no other array gives the symbol a value, and is at
    least as long as its row.
    """
    steps, extents = steps_of(buffer, info) or (), info.shape
    for axis, (stride, step) in enumerate(zip(strides_of(buffer) or (), steps, strict=False)):
        if isinstance(stride, Var):
            idle = extents[axis] <= 1
            yield idle, stride.name, axis, max(step, prod(extents[axis + 1 : len(buffer.shape)])) if idle else step


def differing(
    buffer: Buffer, steps: tuple[float, ...], shape: tuple[int, ...], values: Mapping[str, Number]
) -> tuple[int, ...] | None:
    """The strides that the buffer declares, where the array has others; those of extents of one mean nothing."""
    wanted = tuple(int(evaluate(stride, values)) for stride in strides_of(buffer) or ())
    same = all(n == 1 or a == b for n, a, b in zip(shape, steps, wanted, strict=True))
    return None if same or 0 in shape else wanted
