"""From a byte of a buffer back to the logical coordinate that a kernel's author thinks in."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tilewright.errors import LayoutError
from tilewright.ir import Load, Var, const_value, rewrite
from tilewright.terms import Operand

if TYPE_CHECKING:
    from tilewright.errors import Span
    from tilewright.ir import Buffer, Expr
    from tilewright.sim.machine.places import Place
    from tilewright.sim.machine.sites import Site
    from tilewright.sim.machine.subject import Subject
    from tilewright.sim.machine.wave import Wave

__all__ = [
    "authored_text",
    "buffer_name",
    "coordinate_text",
    "element_at",
    "element_text",
    "is_dealt_out",
    "pointer_to",
]

MOST_ELEMENTS = 1 << 22


def coordinate_text(program: Subject, site: Site, address: int) -> str:
    """The element at an address of its window, see `element_text`; a pointer may lead to any shared buffer."""
    assert site.place is not None
    at_large = site.place is program.places.arena
    return element_text(program, program.places.shared_at(address) if at_large else site.place, address, site.at)


def element_text(program: Subject, place: Place, address: int, at: Span | None = None) -> str:
    """``A[3, 17]`` where the layout has that element, else ``element 40 of A``; of a pool the element of a buffer that
    it dealt out, of several over one place that of the line ``at``. Of several GPUs ``A[3, 17] of rank 1``.
    """
    if place.pitch:
        rank, byte = divmod(address - place.start, place.pitch)
        whole = replace(place, pitch=0)
        return f"{element_text(program, whole, place.start + byte, at)} of rank {rank}"
    name, element, found = element_at(program, place, address, at)
    if element is None:
        return f"{name}, byte {address - place.start}"
    return f"element {element} of {name}" if found is None else f"{name}[{', '.join(map(str, found))}]"


def element_at(
    program: Subject, place: Place, address: int, at: Span | None = None
) -> tuple[str, int | None, tuple[int, ...] | None]:
    """The buffer that has an address, the number of the element there, and its indices; None where they are unknown."""
    view = program.view_at(place.name, address - place.start, at)
    name, first = (view.buffer.name, place.start + view.start) if view is not None else (place.name, place.start)
    buffer = program.authored.get(name)
    if buffer is None:
        return name, None, None
    element = (address - first) * 8 // buffer.dtype.bits
    return name, element, _logical(buffer, element) if buffer.layout is not None else None


def pointer_to(wave: Wave, byte: int) -> Operand | None:
    """``bar.ptr_to([0])``: the address of the element of shared memory that has a byte; None without indices."""
    name, _, indices = element_at(wave.run.program, wave.run.places.shared_at(byte), byte)
    return None if indices is None else Operand(f"{name}.ptr_to([{', '.join(map(str, indices))}])")


def authored_text(program: Subject, expr: Expr) -> str:
    """An expression of the lowered kernel with the elements of buffers as their author counts them."""

    def shown(part: Expr) -> Expr | None:
        place = program.places.of(part.buffer) if isinstance(part, Load) else None
        if not isinstance(part, Load) or place is None:
            return None
        authored, index = program.authored.get(part.buffer.name), const_value(part.indices[0])
        if authored is None or len(authored.shape) < 2 or is_dealt_out(authored):
            return None
        byte = None if index is None else place.start + int(index) * authored.dtype.bits // 8
        return Var(f"{authored.name}[...]" if byte is None else element_text(program, place, byte), part.dtype)

    return str(rewrite(expr, shown))


def buffer_name(program: Subject, site: Site, address: int) -> str | None:
    """The buffer that has a byte which a site touches; in shared memory without buffers the variable there."""
    if site.place is None:
        return site.line.buffer or None
    place = program.places.shared_at(address) if site.place is program.places.arena else site.place
    byte = (address - place.start) % place.pitch if place.pitch else address - place.start
    view = program.view_at(place.name, byte, site.at)
    return view.buffer.name if view is not None else place.name


def is_dealt_out(buffer: Buffer) -> bool:
    """Does its layout deal the elements out to threads, so that each has a part?"""
    return buffer.layout is not None and any(axis.is_thread() for axis in buffer.layout.parted(buffer.shape)[1].axes)


def _logical(buffer: Buffer, element: int) -> tuple[int, ...] | None:
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
    found = np.argwhere(memory == element)
    return tuple(map(int, found[0][:-1])) if len(found) else _continued(first, element)


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
