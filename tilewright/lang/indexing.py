"""``buf[i, a:b]`` in the text of a kernel: an element or a region, with what is known about the index checked."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from math import inf

from tilewright.errors import KernelError
from tilewright.ir import Buffer, Const, Expr, Load, Region, whole_indices
from tilewright.lang.builder import KernelBuilder

__all__ = ["element"]


def element(builder: KernelBuilder, buffer: Buffer, index: object) -> Load | object:
    """``buffer[index]``: an element or a region, with what is known about the index checked."""
    indices = index if isinstance(index, tuple) else (index,)
    if listed := next((part for part in indices if isinstance(part, (tuple, list))), None):
        given = ", ".join(map(str, listed))
        raise KernelError(
            f"an index of {buffer.name} is one value", given=given, hint="one of them, by its number: t[0]"
        )
    made = buffer[indices]
    if isinstance(made, Region) and made.buffer is not buffer:  # of a view, that None and steps make
        made = Region(builder.declared(made.buffer), made.box)
    places = [part for part in whole_indices(indices, len(buffer.shape)) if part is not None]
    for dim, (part, extent) in enumerate(zip(places, buffer.shape, strict=False)):  # the rest is whole
        for value, past in _bounds(part):
            _check_index(buffer, dim, value, extent, past=past)
    return made


def part_of_region(builder: KernelBuilder, region: Region, index: object) -> Load | object:
    """``region[index]``: a part of a region, or an element, counted from where the region begins."""
    indices = index if isinstance(index, tuple) else (index,)
    if len(indices) > len(region.box) or any(part is None or part is Ellipsis for part in indices):
        raise KernelError(f"`{region}` has {len(region.box)} dimensions", given=f"{len(indices)} indices",
                          allowed="one for each, or fewer: the rest is whole")  # fmt: skip
    parts: list[object] = []
    for dim, (start, extent) in enumerate(region.box):
        part = indices[dim] if dim < len(indices) else slice(None)
        if not isinstance(part, slice):
            parts.append(start + part)
            continue
        if part.step is not None:
            raise KernelError(f"a part of `{region}` has no step", given=f"{part.step}", allowed="start:stop")
        stop = extent if part.stop is None else part.stop
        parts.append(slice(start + (part.start or 0), start + stop))
    return element(builder, region.buffer, tuple(parts))


def _bounds(part: object) -> Iterator[tuple[object, float]]:
    """The numbers of an index; with each, how far past the end it may be: a region may end anywhere, as a tile call
    may leave out what is outside.
    """
    if isinstance(part, slice):
        yield from ((value, past) for value, past in ((part.start, 1), (part.stop, inf)) if value is not None)
    else:
        yield part, 0


def _check_index(buffer: Buffer, dim: int, value: object, extent: object, *, past: float) -> None:
    if isinstance(value, Expr) and not value.dtype.is_integer:
        raise KernelError(f"an index of {buffer.name} is an integer", given=f"`{value}` of {value.dtype}")
    number = value.value if isinstance(value, Const) else value
    if isinstance(number, Expr) or not isinstance(extent, int):
        return
    if not hasattr(number, "__index__") or isinstance(number, bool):
        raise KernelError(f"an index of {buffer.name} is an integer", given=f"{value!r}")
    if not 0 <= (place := operator.index(number)) < extent + past:
        shape = ", ".join(map(str, buffer.shape))
        raise KernelError(
            f"index {number} is outside {buffer.name}",
            given=f"{number} in dimension {dim} of ({shape})",
            allowed=f"0 to {extent if past else extent - 1}",
            hint=f"{extent + place}, which counts from the end" if -extent <= place < 0 else None,
        )
