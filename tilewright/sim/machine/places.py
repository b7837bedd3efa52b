"""Where a buffer of a lowered kernel lives, and the one address space in which all of them have an address.

Each global buffer has a window of 2**40 bytes to itself, so that the gaps between buffers are wide; the CTA's shared
memory and the thread's local memory have one window each. A window's number is the address shifted right by 40. Buffers
whose arguments share memory share a window, in which they overlap as the arguments do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilewright.errors import SimulationError
from tilewright.ir import (
    AddressOf,
    AllocBuffer,
    Buffer,
    Call,
    DeclBuffer,
    Expr,
    Kernel,
    Load,
    code_of,
    const_value,
    expressions,
)
from tilewright.isa import bind
from tilewright.sim.machine.memory import UNITS
from tilewright.sim.machine.overlaps import Group, name_of

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["LOCAL_WINDOW", "SHARED_WINDOW", "WINDOW_BITS", "BufferPlaces", "Place", "storage_bytes"]

WINDOW_BITS = 40
LOCAL_WINDOW, SHARED_WINDOW = 126, 127
ARENA = "shared memory"
TMEM_MEMORY = "tensor memory"


@dataclass(frozen=True, slots=True)
class Place:
    """The storage of a buffer. window: its number; start: bytes from there; nbytes: -1 until the arguments are known.

    unit: of a local buffer, the bytes of a thread that lie together.
    """

    name: str
    space: str  # global, shared, local or tensor
    window: int
    start: int = 0
    nbytes: int = -1
    unit: int = 4

    @property
    def base(self) -> int:
        """The generic address of its first byte."""
        return (self.window << WINDOW_BITS) + self.start


class BufferPlaces:
    """The places of a kernel, by buffer name and by window. groups: arguments that share memory."""

    def __init__(self, kernel: Kernel, groups: tuple[Group, ...] = ()) -> None:
        self.by_name: dict[str, Place] = {}
        for number, buffer in enumerate(kernel.buffers, start=1):
            self.by_name[buffer.name] = Place(buffer.name, "global", number)
        self.globals = {place.window: place for place in self.by_name.values()}
        for group in groups:
            self._overlap(group)
        units = _units(kernel)
        local = 0
        for stmt in code_of(kernel):
            if not isinstance(stmt, AllocBuffer):
                continue
            name, nbytes = stmt.buffer.name, storage_bytes(stmt.buffer)
            if stmt.buffer.is_shared:
                self.by_name[name] = Place(name, "shared", SHARED_WINDOW, stmt.offset or 0, nbytes)
            elif stmt.buffer.space == "local":
                unit = units.get(name, _together(stmt.buffer))
                self.by_name[name] = Place(name, "local", LOCAL_WINDOW, local, nbytes, unit)
                local = -(-(local + nbytes) // 32) * 32
        shared_bytes = kernel.launch.shared_bytes if kernel.launch else 0
        self.arena = Place(ARENA, "shared", SHARED_WINDOW, 0, shared_bytes)
        self.tmem = Place(TMEM_MEMORY, "tmem", -1)

    def _overlap(self, group: Group) -> None:
        window = self.by_name[group[0][0]].window
        for name, offset in group:
            del self.globals[self.by_name[name].window]
            self.by_name[name] = Place(name, "global", window, offset)
        self.globals[window] = Place(name_of(group), "global", window)

    def of(self, buffer: Buffer) -> Place | None:
        """The storage of a buffer that owns some; None for a view."""
        return self.by_name.get(buffer.name)

    @property
    def stored(self) -> list[Place]:
        """The buffers that a CTA has for itself."""
        return [place for place in self.by_name.values() if place.space != "global"]

    @property
    def locals(self) -> list[Place]:
        """The local buffers of a thread."""
        return [place for place in self.by_name.values() if place.space == "local"]

    def at(self, window: int, offset: int) -> Place:
        """The place that holds a byte of a window, or comes nearest below."""
        if window == SHARED_WINDOW:
            return self.arena
        if window == LOCAL_WINDOW:
            return max((p for p in self.locals if p.start <= offset), key=lambda p: p.start, default=self.locals[0])
        return self.globals[window]

    def shared_at(self, byte: int) -> Place:
        """The shared buffer that has a byte; all of shared memory for none."""
        own = (place for place in self.by_name.values() if place.space == "shared")
        return next((p for p in own if p.start <= byte < p.start + p.nbytes), self.arena)

    def holding(self, space: str, byte: int) -> Place:
        """The place in a memory that has a byte: an offset in shared memory, or a generic address."""
        if space == "tmem":
            return self.tmem
        return self.shared_at(byte) if space == "shared" else self.at(byte >> WINDOW_BITS, 0)

    def has_window(self, window: int) -> bool:
        """Does any memory of the kernel have this window?"""
        return window == SHARED_WINDOW or window in self.globals or (window == LOCAL_WINDOW and bool(self.locals))


def storage_bytes(buffer: Buffer) -> int:
    """Bytes of a flat buffer, 4-bit elements packed two to a byte."""
    extent = const_value(buffer.shape[0])
    if extent is None:
        raise SimulationError(f"the size of {buffer.name} must be a constant", given=f"{buffer.shape[0]} elements")
    return -(-int(extent) * buffer.dtype.bits // 8)


def _together(buffer: Buffer) -> int:
    """Bytes of a local buffer without accesses by name that lie together: as many as its alignment promises."""
    return max(4, min(buffer.align, max(UNITS)))


def _units(kernel: Kernel) -> dict[str, int]:
    """For each local buffer how many bytes are kept together: its elements', or those of the widest plain copy."""
    units: dict[str, int] = {}
    views: dict[str, str] = {}
    for stmt in code_of(kernel):
        if isinstance(stmt, DeclBuffer) and isinstance(stmt.buffer.data, AddressOf):
            views[stmt.buffer.name] = stmt.buffer.data.buffer.name
        for expr in expressions(stmt):
            for name, width in _widths(expr):
                while name in views:
                    name = views[name]
                units[name] = max(units.get(name, 4), width)
    return units


def _widths(expr: Expr) -> Iterator[tuple[str, int]]:
    if isinstance(expr, Load) and expr.buffer.dtype.bits // 8 in UNITS:
        yield expr.buffer.name, expr.buffer.dtype.bits // 8
    if isinstance(expr, Call) and (form := bind(expr).form).is_copy:
        bound = bind(expr)
        for access in form.accesses:
            for operand in bound.operands[access.operand]:
                if isinstance(operand, AddressOf):
                    yield operand.buffer.name, form.count(access.nbytes, bound.mods)
