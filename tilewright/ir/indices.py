"""What stands in the brackets of a buffer: ``...``, None and steps, as regions of views have them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from tilewright.dtypes import INT32, INT64
from tilewright.errors import KernelError, described
from tilewright.ir.build import as_expr, cast
from tilewright.ir.expr import Expr, Value, Within, const_value
from tilewright.ir.sums import distance
from tilewright.layout import TileLayout

if TYPE_CHECKING:
    from tilewright.ir.buffer import Buffer

__all__ = ["as_index", "owed_of_row", "spread", "step_of", "whole_indices"]


def whole_indices(indices: tuple[object, ...], rank: int) -> tuple[object, ...]:
    """The indices with whole dimensions in the place of ``...``, or at the end."""
    count = sum(part is not None and part is not Ellipsis for part in indices)
    rest = [slice(None)] * (rank - count)
    place = next((k for k, part in enumerate(indices) if part is Ellipsis), len(indices))
    after = indices[place + 1 :]
    if Ellipsis in [part for part in after if part is Ellipsis]:
        raise KernelError("an index has one `...`", given="two", allowed="A[..., 0]")
    return (*indices[:place], *rest, *after)


def step_of(part: object) -> int:
    """The step of an index. Raises KernelError for one that is no positive number."""
    step = const_value(part.step) if isinstance(part, slice) and part.step is not None else 1
    if not isinstance(step, int) or step < 1:
        raise KernelError("the step of a region", given=str(part.step), allowed="a positive Python int")  # type: ignore[attr-defined]  # a slice
    return step


def spread(buffer: Buffer, indices: tuple[object, ...]) -> tuple[Buffer, tuple[object, ...]]:
    """A view with a dimension of 1 for each None, and two for each step: the remainder first, then the quotient."""
    rests: list[tuple[int, object]] = []
    shape: list[Value] = []
    made: list[object] = []
    order: list[int] = []
    split: list[Value] = []
    own = iter(buffer.shape)
    for part in indices:
        if part is None:
            order.append(len(split))
            split.append(1)
            shape.append(1)
            made.append(slice(None))
            continue
        extent, step = next(own), step_of(part)
        order.append(len(split))
        if step == 1:
            split.append(extent)
            shape.append(extent)
            made.append(part)
            continue
        assert isinstance(part, slice), "numbers have no step"
        if const_value(extent) is None or int(const_value(extent) or 0) % step:
            raise KernelError(f"a region of {buffer.name} with step {step}", given=f"a dimension of {extent}",
                              allowed=f"a number that is a multiple of {step}")  # fmt: skip
        start: Value = 0 if part.start is None else part.start
        stop: Value = extent if part.stop is None else part.stop
        rests.append((len(split) + 1, start % step))
        split += [extent // step, step]
        shape.append(extent // step)
        made.append(slice(start // step, start // step + (distance(start, stop) + (step - 1)) // step))
    if not rests:
        return buffer.view(*shape), tuple(made)
    assert isinstance(buffer.layout, TileLayout), "asked"
    grouped, separators = buffer.layout.group(split)
    layout = grouped.permute_by_groups(separators, [*(place for place, _ in rests), *order])
    fronts = [split[place] for place, _ in rests]
    view = buffer._viewed(f"{buffer.name}_steps", (*fronts, *shape), layout)
    return view, (*(rest for _, rest in rests), *made)


def as_index(value: object, of: str = "") -> Value:
    """An index, with at least the bits of an int32: what strides make of it must not wrap where it did not."""
    if isinstance(value, Expr):
        return cast(value, INT32) if value.dtype.is_integer and value.dtype.bits < 32 else value
    if isinstance(value, np.integer):  # which wraps where Python's do not
        return int(value)
    if isinstance(value, int) and value.bit_length() > 64:
        given = described(value)
        raise KernelError(
            f"an index{of and f' of {of}'} has {value.bit_length():,} bits", given=given, allowed="at most 64 bits"
        )
    if not hasattr(type(value), "__index__"):
        allowed = "an int or an integer expression"
        raise KernelError(f"an index{of and f' of {of}'} is an integer", given=described(value), allowed=allowed)
    return value  # type: ignore[return-value]  # it has an index


def owed_of_row(buffer: Buffer, first: Value, count: int) -> Iterator[Within]:
    """That the elements of a vector do not run into the next row, where they are neighbours of one row."""
    extent, known, dim = const_value(buffer.shape[-1]), const_value(first), len(buffer.shape) - 1
    if extent != 1 and buffer.layout is not None:
        second = buffer.layout.place(*(0 for _ in range(dim)), 1, shape=buffer.shape)
        if const_value(second.get("m", 0)) != 1:
            return
    if extent is not None and known is not None and known + count > extent:
        raise KernelError(
            f"a vector of {count} elements runs over the end of its row of {buffer.name}",
            given=f"{max(int(known), int(extent))} is outside, of {known}..{known + count - 1}",
            allowed=f"0 to {extent - 1} in dimension {dim}",
            hint=f"{buffer.name}.view(...) of longer rows, where the next one is meant",
        )
    yield Within(as_expr(as_index(first)), as_expr(buffer.shape[-1], INT64), buffer.name, dim, span=count)
