"""Does a layout place a buffer's elements: as many as the shape has, inside the storage, each in its own place?"""

from __future__ import annotations

from math import prod

from tilewright.errors import KernelError, LayoutError
from tilewright.ir import Buffer, const_value
from tilewright.layout import Axis, Collision, Layout, TileLayout, Value, m

__all__ = ["check_placement"]

TELLS_APART = {
    "local": ("thread", "block", "device"),
    "shared": ("block", "device"),
    "shared.dyn": ("block", "device"),
}
"""By the space of storage: the kinds of axes that lead to other storage; axis m leads to another place in it."""

UNITS = {"local": "in register slot", "shared": "at address", "shared.dyn": "at address"}


def check_placement(buffer: Buffer) -> None:
    """Raises KernelError where the layout has another size than the shape, or does not fit storage of its own.

    A view and a parameter name memory that is there: their elements may overlap, as those of a broadcast row do.
    """
    layout = buffer.layout
    if layout is None:
        return
    _check_size(buffer, layout)
    if buffer.data is not None or buffer.space not in TELLS_APART:
        return
    try:
        layout.verify_well_formed()
    except LayoutError as error:
        raise KernelError(
            f"the layout of {buffer.name}: {error.what}", given=error.given, allowed=error.allowed
        ) from None
    _check_start(buffer, layout)
    if found := layout.collision(lambda axis: axis == m or axis.kind in TELLS_APART[buffer.space]):
        raise _collided(buffer, layout, found)


def _check_size(buffer: Buffer, layout: Layout) -> None:
    size, count = const_value(layout.size()), const_value(prod(buffer.shape))
    if size is not None and count is not None and size != count:
        raise KernelError(
            f"the layout of {buffer.name} does not fit its shape",
            given=f"{count} elements in ({', '.join(map(str, buffer.shape))}), {size} in {layout}",
            allowed="as many elements in both",
        )


def _check_start(buffer: Buffer, layout: Layout) -> None:
    low = const_value(layout.cosize(m) - layout.span(m))
    if low is not None and low < 0:
        raise KernelError(
            f"the layout of {buffer.name} begins before its storage",
            given=f"an element at {low}, by {layout}",
            allowed="offsets of at least 0",
            hint=f"{layout} + {-low}" if isinstance(layout, TileLayout) else None,
        )


def _collided(buffer: Buffer, layout: Layout, found: Collision) -> KernelError:
    word, _, unit = UNITS[buffer.space].partition(" ")
    first, second = (_element(buffer, index) for index in (found.first, found.second))
    where = [f"{name} {value}" for name, value in found.place.items() if Axis.get(name).is_thread()]
    return KernelError(
        f"{buffer.name} has two elements {word} one {unit}",
        given=f"{first} and {second} {word} {unit} {found.place.get('m', 0)}"
        f"{' of ' + ', '.join(where) if where and buffer.space == 'local' else ''}, by {layout}",
        allowed=f"one element {word} each {unit} on axis m; copies of one element are replicas: + R[extents : strides]",
    )


def _element(buffer: Buffer, index: Value) -> str:
    """The element's logical coordinate, from its row-major index."""
    digits: list[str] = []
    for extent in reversed(buffer.shape):
        digits.insert(0, str(index % extent))
        index //= extent
    return f"{buffer.name}[{', '.join(digits)}]"
