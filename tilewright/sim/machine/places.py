"""Where a buffer of a lowered kernel lives, the one address space in which all of them have an address, and how reports
name what is there.

Each global buffer has a window of 2**40 bytes to itself, so that the gaps between buffers are wide; the CTA's shared
memory and the thread's local memory have one window each. A window's number is the address shifted right by 40. Buffers
whose arguments share memory share a window, in which they overlap as the arguments do.
"""

from __future__ import annotations

import ctypes
from bisect import bisect_right
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from tilewright import ir
from tilewright.errors import SimulationError
from tilewright.host import inside_of
from tilewright.ir import Load, Var, const_value, rewrite
from tilewright.ir.buffer import index_at, is_dealt_out
from tilewright.isa import Signal, bind
from tilewright.sim.machine.memory import UNITS, MemoryRows
from tilewright.terms import Operand, Term, told

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tilewright.errors import Span
    from tilewright.ir import Expr
    from tilewright.sim.machine import Array, Bools, Device, Ints, Look, Operation, Site, Subject, UnitView, Wave

__all__ = [
    "ALONE", "ARENA", "OFFSET_BITS", "SHARED_WINDOW", "WINDOW_BITS", "Group", "Place", "Ranks", "buffer_name",
    "coordinate_text", "element_text", "pointer_to", "split",
]  # fmt: skip

# From a byte of a buffer back to the logical coordinate that a kernel's author thinks in.


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
    name, element, indices = element_at(program, place, address, at)
    if indices is not None:
        return f"{name}[{', '.join(map(str, indices))}]"
    byte, indexed = address - place.start, program.kernel.indexed.get(name)
    if indexed is not None and (text := indexed.element_at(byte)) is not None:
        return text
    return f"{name}, byte {byte}" if element is None else f"element {element} of {name}"


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
    return name, element, index_at(buffer, element) if buffer.layout is not None else None


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


# The error for a unit that leaves a buffer: which element it comes to, and what there is room for.


def escaped(
    operation: Operation, use: UnitView, place: Place, first: int, size: int, outside: Bools
) -> SimulationError:
    """The first row with a place outside. first: the buffer's first byte, as ``one`` counts. outside: (m, places)."""
    row = int(outside.any(1).argmax())
    issuers, name = operation.issuers, place.name
    program = issuers.wave.run.program
    at = use.at.reshape(len(outside), -1)[row]
    counts = np.broadcast_to(use.width if use.nbytes is None else use.nbytes, use.shape)[row].reshape(-1)
    start, wrong = int(at[0]), int(at[outside[row]][0])
    base = place.base - place.start if place.pitch else first - place.start
    shown = [element_text(program, place, byte - base) for byte in (wrong, start)]
    room = first + size - start
    is_run = bool((np.diff(at) == use.width).all())
    much = f"{int(counts.sum())} bytes " + (f"from {shown[1]} on" if is_run else f"that begin at {shown[1]}")
    verb = "signals" if isinstance(use.effect, Signal) else "writes" if use.writes else "reads"
    return SimulationError(
        told("{} {} outside of {}", Term("operation", (operation.instruction.bound.instruction.name,)), verb, name),
        given=f"{shown[0]}, of {much}, in {issuers.name(int(use.issuer[row]))}",
        allowed=program.extent_text(place, size, issuers.wave.run.scalars),
        hint=f"at most {room} bytes from {shown[1]} on, or a larger {name}" if is_run and room > 0 else None,
        at=issuers.at,
        kind="bounds",
        buffer=name,
        operation=operation.name,
        threads=(issuers.thread_at(int(use.issuer[row])),),
    )


# Windows of the address space, and the places of buffers in them.


WINDOW_BITS = 40
OFFSET_BITS = 24  # of a shared address
LOCAL_WINDOW, SHARED_WINDOW = 126, 127
MULTICAST = 1 << WINDOW_BITS - 1  # in a window: set in an address that names a place of each GPU
ARENA = "shared memory"
TMEM_MEMORY = "tensor memory"

Group: TypeAlias = tuple[tuple[str, int], ...]
"""Buffers whose memory overlaps, from low to high: name, and bytes from the first one's beginning."""


class OfRank(NamedTuple):
    """What each of several GPUs has of a buffer: bytes; how far they are apart in the window; may others reach them?"""

    nbytes: int
    pitch: int
    shared: bool


@dataclass(frozen=True, slots=True)
class Ranks:
    """The GPUs that run a kernel. parts: of several, what each has of the buffers, by name."""

    count: int = 1
    parts: tuple[tuple[str, OfRank], ...] = ()


ALONE = Ranks()


@dataclass(frozen=True, slots=True)
class Place:
    """The storage of a buffer. window: its number; start: bytes from there; nbytes: -1 until the arguments are known.

    unit: of a local buffer, the bytes of a thread that lie together. constant: may no thread write there?
    pitch: of several GPUs, the bytes from where one of them has it to where the next one does. own: of those, does none
    reach that of another?
    """

    name: str
    space: str  # global, shared, local or tensor
    window: int
    start: int = 0
    nbytes: int = -1
    unit: int = 4
    constant: bool = False
    pitch: int = 0
    own: bool = False

    @property
    def base(self) -> int:
        """The generic address of its first byte."""
        return (self.window << WINDOW_BITS) + self.start

    def outside(self, at: Ints, width: int, ranks: Ints) -> Bools:
        """Which accesses of a buffer that several GPUs have leave what one of them has? ranks: of the threads."""
        rank, byte = np.divmod(at - self.start, self.pitch)
        outside = (rank < 0) | (byte + width > self.nbytes)
        return outside | (rank != ranks) if self.own else outside


class BufferPlaces:
    """The places of a kernel, by buffer name and by window. groups: arguments that share memory."""

    def __init__(self, kernel: ir.Kernel, groups: tuple[Group, ...] = (), ranks: Ranks = ALONE) -> None:
        self.by_name: dict[str, Place] = {}
        of_ranks = dict(ranks.parts)
        for number, buffer in enumerate(kernel.buffers, start=1):
            place = Place(buffer.name, "global", number, constant=buffer.constant)
            if (part := of_ranks.get(buffer.name)) is not None:
                place = replace(place, nbytes=part.nbytes, pitch=part.pitch, own=not part.shared)
            self.by_name[buffer.name] = place
        self.globals = {place.window: place for place in self.by_name.values()}
        for group in groups:
            self._overlap(group)
        units = _units(kernel)
        local = 0
        for stmt in ir.statements(kernel.body):
            if not isinstance(stmt, ir.AllocBuffer):
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
        self._shared = [place for place in self.by_name.values() if place.space == "shared"]

    def _overlap(self, group: Group) -> None:
        window = self.by_name[group[0][0]].window
        for name, offset in group:
            del self.globals[self.by_name[name].window]
            self.by_name[name] = Place(name, "global", window, offset)
        is_alone = len(group) == 1
        self.globals[window] = self.by_name[group[0][0]] if is_alone else Place(_name_of(group), "global", window)

    def of(self, buffer: ir.Buffer) -> Place | None:
        """The storage of a buffer that owns some; None for a view."""
        return self.by_name.get(buffer.name)

    @property
    def stored(self) -> list[Place]:
        """The buffers that a CTA has for itself."""
        return [place for place in self.by_name.values() if place.space != "global"]

    @cached_property
    def locals(self) -> list[Place]:
        """The local buffers of a thread, in the order of their addresses."""
        return [place for place in self.by_name.values() if place.space == "local"]

    @cached_property
    def local_starts(self) -> list[int]:
        """Where each of `locals` begins in its window."""
        return [place.start for place in self.locals]

    def at(self, window: int, offset: int) -> Place:
        """The place that holds a byte of a window, or comes nearest below."""
        if window == SHARED_WINDOW:
            return self.arena
        if window == LOCAL_WINDOW:
            return self.locals[max(0, bisect_right(self.local_starts, offset) - 1)]
        return self.globals[window]

    def shared_at(self, byte: int) -> Place:
        """The shared buffer that has a byte; all of shared memory for none."""
        return next((p for p in self._shared if p.start <= byte < p.start + p.nbytes), self.arena)

    def holding(self, space: str, byte: int) -> Place:
        """The place in a memory that has a byte: an offset in shared memory, or a generic address."""
        if space == "tmem":
            return self.tmem
        return self.shared_at(byte) if space == "shared" else self.at(byte >> WINDOW_BITS, 0)

    def has_window(self, window: int) -> bool:
        """Does any memory of the kernel have this window?"""
        return window == SHARED_WINDOW or window in self.globals or (window == LOCAL_WINDOW and bool(self.locals))


def multicast_steps(run: Device, address: Ints, at: Span | None) -> list[int]:
    """For each GPU what leads from multicast addresses of one buffer to its places. Raises SimulationError."""
    window = np.unique(address >> WINDOW_BITS)
    place = run.places.globals.get(int(window[0])) if len(window) == 1 else None
    if place is None or not place.pitch or not (address & MULTICAST).all():
        raise SimulationError(
            "T.multimem takes an address of all GPUs",
            given=f"address {int(address.flat[0]):#x}" + (f", in {place.name}" if place is not None else ""),
            allowed="a pointer into x.multicast(), of a symmetric argument x",
            at=at,
        )
    return [rank * place.pitch - MULTICAST for rank in range(run.ranks)]


def storage_bytes(buffer: ir.Buffer) -> int:
    """Bytes of a flat buffer, 4-bit elements packed two to a byte."""
    extent = ir.const_value(buffer.shape[0])
    if extent is None:
        raise SimulationError(f"the size of {buffer.name} must be a constant", given=f"{buffer.shape[0]} elements")
    return -(-int(extent) * buffer.dtype.bits // 8)


def _together(buffer: ir.Buffer) -> int:
    """Bytes of a local buffer without accesses by name that lie together: as many as its alignment promises."""
    return max(4, min(buffer.align, max(UNITS)))


def _units(kernel: ir.Kernel) -> dict[str, int]:
    """For each local buffer how many bytes are kept together: its elements', or those of the widest plain copy."""
    units: dict[str, int] = {}
    for stmt in ir.statements(kernel.body):
        for expr in ir.expressions(stmt):
            for name, width in _widths(expr):
                units[name] = max(units.get(name, 4), width)
    return units


def _widths(expr: ir.Expr) -> Iterator[tuple[str, int]]:
    if isinstance(expr, ir.Load) and expr.buffer.dtype.bits // 8 in UNITS:
        yield expr.buffer.root.name, expr.buffer.dtype.bits // 8
    if isinstance(expr, ir.Call) and (form := bind(expr).form).is_copy:
        bound = bind(expr)
        for access in form.accesses:
            for operand in bound.operands[access.operand]:
                if isinstance(operand, ir.AddressOf):
                    yield operand.buffer.root.name, bound.count(access.nbytes)


# Arguments that share memory: which they are, and their one block of bytes.


def groups_of(arrays: Mapping[str, Array], *, views: bool = False) -> tuple[Group, ...]:
    """The buffers that overlap others, by name; C-contiguous arrays. views: those, too, that begin in the middle of an
    array, at no multiple of the bytes that an allocation begins at.

    >>> a = np.zeros(10, np.int32)
    >>> groups_of({"A": a[:6], "B": a[4:], "C": np.zeros(3)})
    ((('A', 0), ('B', 16)),)
    """
    ordered = sorted((host_address(array), name) for name, array in arrays.items() if array.nbytes)
    groups: list[list[tuple[str, int]]] = []
    first = end = 0
    for address, name in ordered:
        if not groups or address >= end:
            groups.append([])
            first = address
        groups[-1].append((name, address - first))
        end = max(end, address + arrays[name].nbytes)
    inside = {name: inside_of(array) for name, array in arrays.items() if views}
    groups = [[(name, inside.get(name, 0))] if len(group) == 1 else group for group in groups for name, _ in group[:1]]
    return tuple(tuple(group) for group in groups if len(group) > 1 or group[0][1])


def _name_of(group: Group) -> str:
    """What a report calls the memory of all of them."""
    return " and ".join(name for name, _ in group)


def blocks_of(arrays: Mapping[str, Array], groups: tuple[Group, ...]) -> dict[str, MemoryRows]:
    """The block with each buffer's bytes, by name; the buffers of a group have one together, as has the group."""
    blocks = {name: MemoryRows.of(array) for name, array in arrays.items()}
    for group in groups:
        start = host_address(arrays[group[0][0]]) - group[0][1]
        nbytes = max(offset + arrays[name].nbytes for name, offset in group)
        together = memoryview((ctypes.c_uint8 * nbytes).from_address(start))
        block = MemoryRows.of(np.frombuffer(together, np.uint8))
        blocks |= {_name_of(group): block} | {name: block for name, _ in group}
    return blocks


def host_address(array: Array) -> int:
    """Where an array begins in the memory of the host."""
    return int(array.__array_interface__["data"][0])


# Shared memory across the CTAs of a cluster.
#
# A shared address has its offset in bits 0 to 23. Above them an address of the cluster's window has 1 + the rank of its
# CTA; 0 is the thread's own CTA, so that an own address is an address of the cluster's window as well.


def on_rank(address: Ints, rank: Ints) -> Ints:
    """The address of an offset in the shared memory of the CTA with this rank."""
    offset = address.astype(np.int64) & (1 << OFFSET_BITS) - 1
    addresses: Ints = offset | rank.astype(np.int64) + 1 << OFFSET_BITS
    return addresses


def split(wave: Wave, rows: Ints, address: Ints) -> tuple[Ints, Ints]:
    """Row in the wave and offset of each address that a thread of CTA ``rows`` gives."""
    rank = (address >> OFFSET_BITS) - 1
    return np.where(rank >= 0, rows - wave.rank(rows) + rank, rows), address & (1 << OFFSET_BITS) - 1


def across(look: Look, block: MemoryRows, address: Ints) -> Ints:
    """Addresses of the cluster's window, counted from the own CTA's first byte: the CTAs follow each other."""
    if not int(address.max()) >> OFFSET_BITS:
        return address
    rows = look.rows(1)
    there, offset = split(look.wave, rows, address)
    return offset + (there - rows) * block.pitch if block.rows > 1 else offset
