"""From logical coordinates to flat storage: what a buffer views, and the offset of an element in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilewright.dtypes import INT32, DType
from tilewright.errors import KernelError
from tilewright.ir import AddressOf, Buffer, Expr, Value, Var, const_value
from tilewright.ir.intervals import limits
from tilewright.ir.widths import is_far, joined, settled, widened
from tilewright.records import replace

if TYPE_CHECKING:
    from tilewright.ir.ranges import RangeFacts

__all__ = ["Storage", "offset_of", "owner_coordinates", "storage_of"]


@dataclass(frozen=True, slots=True)
class Storage:
    """The flat buffer in which a buffer's elements lie, and the element offset of its logical zero there.

    views: the flat buffers of other dtypes on the way, outermost last; each needs a declaration. far: some element is
    beyond an offset of 32 bits.
    """

    flat: Buffer
    offset: Value = 0
    views: tuple[Buffer, ...] = ()
    far: bool = False

    def index(self, offset: Value, facts: RangeFacts) -> Expr:
        """The index in ``flat`` of what is ``offset`` elements from the buffer's logical zero."""
        return settled(joined(self.offset, offset, self.far, facts), facts)


def storage_of(buffer: Buffer, facts: RangeFacts) -> Storage:
    """Follow a view to the storage it lies in.

    A view of the same dtype is an offset; one of another dtype, or over a bare pointer, stays a buffer of its own.
    """
    if buffer.data is None or (buffer.space == "global" and isinstance(buffer.data, Var)):
        return Storage(replace(buffer.flat(), elem_offset=0), buffer.elem_offset, far=is_far(buffer, facts))
    if not isinstance(buffer.data, AddressOf):
        pointer = buffer.data + buffer.elem_offset * buffer.dtype.bits // 8
        view = replace(buffer.flat(), data=pointer, elem_offset=0)
        return Storage(view, 0, (view,), is_far(buffer, facts))
    parent = storage_of(buffer.data.buffer, facts)
    offset = offset_of(buffer.data.buffer, buffer.data.indices, facts)
    start = joined(parent.offset, offset, parent.far, facts)
    if buffer.dtype == parent.flat.dtype:
        return replace(parent, offset=joined(start, buffer.elem_offset, parent.far, facts))
    start = joined(start, _rescaled(buffer, parent.flat.dtype), parent.far, facts)
    address = AddressOf(parent.flat, (settled(start, facts),))
    view = replace(buffer.flat(), data=address, elem_offset=0)
    return Storage(view, 0, (*parent.views, view), is_far(buffer, facts))


def _rescaled(view: Buffer, unit: DType) -> Value:
    """The ``elem_offset`` of a view in elements of what it views.

    Raises KernelError where the view would start between two of them.
    """
    if view.dtype.bits % unit.bits == 0:
        return view.elem_offset * (view.dtype.bits // unit.bits)
    ratio = unit.bits // view.dtype.bits
    known = const_value(view.elem_offset)
    if known is None or int(known) % ratio:
        raise KernelError(
            f"{view.name} starts inside an element of what it views",
            given=f"elem_offset {view.elem_offset} of {view.dtype}",
            allowed=f"a multiple of {ratio}: whole elements of {unit}",
        )
    return int(known) // ratio


def offset_of(buffer: Buffer, indices: tuple[Expr, ...], facts: RangeFacts) -> Value:
    """Elements from a buffer's logical zero to ``indices``, by its layout; flat buffers are indexed by it already."""
    if not indices:
        return 0
    if buffer.layout is None:
        return indices[0]
    if is_far(buffer, facts):
        wide = _applied(buffer, tuple(widened(index, facts) for index in indices), facts)
        if not (isinstance(wide, Expr) and facts.ideal(wide).inside(limits(INT32))):
            return wide
    return _applied(buffer, indices, facts)


def _applied(buffer: Buffer, indices: tuple[Expr, ...], facts: RangeFacts) -> Value:
    assert buffer.layout is not None
    offset: Value = buffer.layout.place(*indices, shape=buffer.shape, facts=facts).get("m", 0)
    return offset


def owner_coordinates(buffer: Buffer, indices: tuple[Expr, ...], facts: RangeFacts) -> dict[str, Value]:
    """The coordinates, by axis, of the thread that holds an element in its registers."""
    if buffer.layout is None or buffer.space != "local":
        return {}
    place = buffer.layout.place(*indices, shape=buffer.shape, facts=facts)
    return {axis: value for axis, value in place.items() if axis != "m"}
