"""Does a layout place a buffer's elements: as many as the shape has, inside the storage, each in its own place?"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.errors import KernelError, LayoutError
from tilewright.ir.buffer import Buffer, Region
from tilewright.ir.expr import const_value
from tilewright.layout import Axis, Layout, TCol, TileLayout, TLane, Value, m

__all__ = ["check_placement", "check_written"]

COUNTED = {
    "local": ("thread", "block", "device"),
    "shared": ("block", "device"),
    "shared.dyn": ("block", "device"),
    "tmem": ("block", "device"),
    "global": ("device",),
}
"""By memory space: the kinds of axes that lead to other storage. Places in it are told apart by `PLACES`."""

PLACES = {"tmem": (TLane, TCol)}
UNITS = {"local": "in register slot", "tmem": "in column"}


def check_placement(buffer: Buffer) -> None:
    """Raises KernelError where the layout has another size than the shape, or does not fit storage of its own.

    A view and a parameter name memory that is there: their elements may overlap, as those of a broadcast row do.
    """
    layout = buffer.layout
    if layout is None:
        return
    buffer.check_size()
    if buffer.data is not None or buffer.space in ("global", "tmem") or _is_dense(layout):
        return
    try:
        layout.verify_well_formed()
    except LayoutError as error:
        raise KernelError(
            f"the layout of {buffer.name}: {error.what}", given=error.given, allowed=error.allowed
        ) from None
    _check_start(buffer, layout)
    _check_apart(buffer, layout, [0] * len(buffer.shape), buffer.shape)


def _is_dense(layout: Layout) -> bool:
    """Is each element just behind the one before it, from 0 on?"""
    if not isinstance(layout, TileLayout) or layout.replica or layout.offset:
        return False
    size = 1
    for it in reversed(layout.shard):
        if it.axis is not m or it.stride != size or type(it.extent) is not int:
            return False
        size *= it.extent
    return True


def check_written(region: Region) -> None:
    """Raises KernelError where a tile call would write two elements to one place: the layout of a view may do that."""
    buffer, layout = region.buffer, region.buffer.layout
    if layout is None or layout.collision(_counts(buffer)) is None:
        return
    try:
        part = layout.part(buffer.shape, region.box)
    except LayoutError:
        return
    _check_apart(buffer, part, [start for start, _ in region.box], region.extents)


def _counts(buffer: Buffer) -> Callable[[Axis], bool]:
    places, kinds = PLACES.get(buffer.space, (m,)), COUNTED[buffer.space]
    return lambda axis: axis in places or axis.kind in kinds


def _check_apart(buffer: Buffer, layout: Layout, starts: Sequence[Value], extents: Sequence[Value]) -> None:
    """No two elements of a region of ``extents`` from ``starts``, which has this layout, are in one place."""
    found = layout.collision(_counts(buffer))
    if found is None:
        return
    word, _, unit = UNITS.get(buffer.space, "at address").partition(" ")
    pair = (_element(buffer, index, starts, extents) for index in (found.first, found.second))
    axis, *_ = reversed(PLACES.get(buffer.space, (m,)))
    others = [f"{name} {value}" for name, value in found.place.items() if name != axis.name]
    raise KernelError(
        f"{buffer.name} has two elements {word} one {unit}",
        given=f"{' and '.join(pair)} {word} {unit} {found.place.get(axis.name, 0)}"
        f"{' of ' + ', '.join(others) if others else ''}, by {layout}",
        allowed=f"one element {word} each {unit}, on axis {axis}; copies of one are replicas: + R[extents : strides]",
    )


def _check_start(buffer: Buffer, layout: Layout) -> None:
    tile = layout.parted(buffer.shape)[1]  # a swizzle keeps the sign of an address
    low = const_value(tile.cosize(m) - tile.span(m))
    if low is not None and low < 0:
        raise KernelError(
            f"the layout of {buffer.name} begins before its storage",
            given=f"an element at {low}, by {layout}",
            allowed="offsets of at least 0",
            hint=f"{layout} + {-low}" if isinstance(layout, TileLayout) else None,
        )


def _element(buffer: Buffer, index: Value, starts: Sequence[Value], extents: Sequence[Value]) -> str:
    """The logical coordinate of the region's element ``index`` in row-major order."""
    digits: list[str] = []
    for start, extent in zip(reversed(starts), reversed(extents), strict=True):
        digits.insert(0, str(start + index % extent))
        index //= extent
    return f"{buffer.name}[{', '.join(digits)}]"
