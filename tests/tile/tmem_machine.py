"""Tensor-memory instructions by the manual's words, for the tests of this room: plain loops, no rows.

Tensor memory is a dict from (lane, byte of the lane) to where that byte came from: a byte of shared memory, or of a
thread's registers. A copy is right exactly if the right numbers arrive.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from tests.tile.kernels import whole_number
from tests.tile.machine import Ints, Machine, Pointer
from tilewright import isa
from tilewright.ir import AddressOf, AllocBuffer, Call, Const, DeclBuffer, Expr, Load, Stmt

COPY_SHAPES = {  # rows, bytes of a row
    ("128x256b", ""): (128, 32),
    ("128x128b", ""): (128, 16),
    ("64x128b", "warpx2::02_13"): (64, 16),
    ("64x128b", "warpx2::01_23"): (64, 16),
    ("32x128b", "warpx4"): (32, 16),
    ("4x256b", ""): (4, 32),
}
REGISTERS = {"32x32b": 1, "16x64b": 1, "16x128b": 2, "16x256b": 4, "16x32bx2": 1}  # of each lane, per num
PITCH = {0: 16, 1: 32, 2: 64, 3: 128}  # bytes from row to row, by swizzle mode


def lanes_of(shape: str, multicast: str, row: int) -> list[int]:
    """The lanes that row ``row`` goes to."""
    if shape == "4x256b":
        return [32 * row]
    if multicast == "warpx4":
        return [row, row + 32, row + 64, row + 96]
    if multicast == "warpx2::02_13":
        return [row, row + 64]
    if multicast == "warpx2::01_23":
        first = row if row < 32 else row + 32
        return [first, first + 32]
    return [row]


def swizzled(mode: int, address: int) -> int:
    """Bits 7, 8 and 9 flip bits 4, 5 and 6: one of them, two, or all."""
    for bit in range(mode):
        address ^= (address >> (7 + bit) & 1) << (4 + bit)
    return address


def source_of(start: int, leading: int, stride: int, mode: int, row: int, byte: int) -> int:
    """The shared address of a byte of a row, by the fields of a K-major descriptor, in bytes."""
    linear = start + row % 8 * PITCH[mode] + row // 8 * stride
    linear += byte if mode else byte // 16 * leading + byte % 16
    return swizzled(mode, linear)


def cell_of(shape: str, register: int, lane: int, split: int = 0) -> tuple[int, int]:
    """The lane and column of a register of a lane of the warp."""
    t, j = lane % 4, register
    if shape == "32x32b":
        return lane, j
    if shape == "16x64b":
        return lane // 4 + 8 * (lane % 2), 2 * j + lane // 2 % 2
    if shape == "16x128b":
        return lane // 4 + 8 * (j % 2), t + 4 * (j // 2)
    if shape == "16x256b":
        return lane // 4 + 8 * (j // 2 % 2), 2 * t + j % 2 + 8 * (j // 4)
    return lane % 16, j + lane // 16 * split


def half_cells_of(shape: str, register: int, lane: int, split: int = 0) -> Iterator[tuple[int, int]]:
    """The two columns whose low halves a register holds with pack and unpack: as if each had two columns of its own."""
    row, column = cell_of(shape, register, lane)
    first = 2 * column + (split if lane >= 16 else 0)
    yield from ((row, first), (row, first + 1))


@dataclass
class TmemMachine(Machine):
    """`Machine` with tensor memory. base: the address that the allocation gave. arena: where shared buffers begin.

    written: (lane, byte) of tensor memory -> its contents. issued: the instructions, as (name, modifiers).
    """

    base: int = 0
    arena: dict[str, int] = field(default_factory=dict)
    written: dict[tuple[int, int], tuple[str, int]] = field(default_factory=dict)
    issued: list[tuple[str, dict[str, object]]] = field(default_factory=list)
    descriptors: dict[str, tuple[int, int, int, int]] = field(default_factory=dict)

    def statement(self, stmt: Stmt, active: np.ndarray) -> None:
        if not isinstance(stmt, (AllocBuffer, DeclBuffer)):
            super().statement(stmt, active)

    def value(self, expr: object) -> Ints | Pointer:
        if isinstance(expr, Load) and expr.buffer.dtype == "uint32":
            return np.full(self.threads, self.base)
        return super().value(expr)

    def instruction(self, call: object, active: np.ndarray) -> None:
        assert isinstance(call, Call)
        bound = isa.bind(call)
        self.issued.append((call.op, dict(bound.mods)))
        name = call.op.rpartition(".")[2]
        getattr(self, f"_{name}")(bound, active)

    # Copies from shared memory

    def _encode_matrix_descriptor(self, bound: isa.Bound, active: np.ndarray) -> None:
        (register,), (place,) = bound.operands["desc"], bound.operands["ptr"]
        assert active.all(), "a descriptor is encoded where every thread has it"
        pointer = self.value(place)
        assert isinstance(pointer, Pointer)
        start = self.arena[pointer.buffer.name] + int(pointer.offset[0]) * pointer.buffer.dtype.bits // 8
        fields = (self._number(bound.operands["ldo"][0]), self._number(bound.operands["sdo"][0]))
        assert start % 16 == 0
        assert isinstance(register, AddressOf | Load)
        swizzle = whole_number(bound.mods["swizzle"])
        self.descriptors[register.buffer.name] = (start, 16 * fields[0], 16 * fields[1], swizzle)

    def _cp(self, bound: isa.Bound, active: np.ndarray) -> None:
        assert active.sum() == 1, "one thread issues a copy"
        thread = int(np.flatnonzero(active)[0])
        address = int(np.asarray(self.value(bound.operands["taddr"][0]))[thread])
        moved = bound.operands["desc"][0]
        assert isinstance(moved, Call)
        register, units = isa.bind(moved).operands["desc"][0], isa.bind(moved).operands["units"][0]
        assert isinstance(register, AddressOf | Load)
        start, leading, stride, mode = self.descriptors[register.buffer.name]
        start += 16 * int(np.asarray(self.value(units))[thread])
        shape, multicast = str(bound.mods["shape"]), str(bound.mods["multicast"])
        rows, width = COPY_SHAPES[shape, multicast]
        for row in range(rows):
            for lane in lanes_of(shape, multicast, row):
                for byte in range(width):
                    place = ((address >> 16) + lane, 4 * (address & 0xFFFF) + byte)
                    assert place not in self.written, "two instructions write one place, in no order"
                    self.written[place] = ("shared", source_of(start, leading, stride, mode, row, byte))

    # Registers

    def _ld(self, bound: isa.Bound, active: np.ndarray) -> None:
        self._registers(bound, active, load=True)

    def _st(self, bound: isa.Bound, active: np.ndarray) -> None:
        self._registers(bound, active, load=False)

    def _registers(self, bound: isa.Bound, active: np.ndarray, *, load: bool) -> None:
        address = np.asarray(self.value(bound.operands["taddr"][0]))
        pointers = [self.value(place) for place in bound.operands["r"]]
        for thread in np.flatnonzero(active).tolist():
            warp, lane = divmod(thread, 32)
            assert active[32 * warp : 32 * warp + 32].all(), "a warp is split"
            first = int(address[thread])
            assert first == address[32 * warp], "one address for a warp"
            assert (first >> 16) // 32 == warp % 4, "a warp reaches its own quarter"
            for number, pointer in enumerate(pointers):
                assert isinstance(pointer, Pointer)
                self._register(bound, thread, lane, first, number, pointer, load=load)

    def _register(
        self, bound: isa.Bound, thread: int, lane: int, first: int, number: int, pointer: Pointer, *, load: bool
    ) -> None:
        shape = str(bound.mods["shape"])
        halves = bool(bound.mods["pack" if load else "unpack"])
        splits = bound.operands.get("split", ())
        split = self._number(splits[0]) if splits else 0
        cells = half_cells_of(shape, number, lane, split) if halves else [cell_of(shape, number, lane, split)]
        start = int(pointer.offset[thread]) * pointer.buffer.dtype.bits // 8
        assert start % 4 == 0, "a register begins at a multiple of 32 bits"
        width = 2 if halves else 4
        for part, (row, column) in enumerate(cells):
            for byte in range(width):
                place = ((first >> 16) + row, 4 * ((first & 0xFFFF) + column) + byte)
                slot = (thread << 20) + start + width * part + byte
                if load:
                    assert slot not in self.loaded, "two instructions write one register"
                    self.loaded[slot] = place
                else:
                    assert place not in self.written, "two threads write one place"
                    self.written[place] = ("register", slot)

    loaded: dict[int, tuple[int, int]] = field(default_factory=dict)

    def _number(self, expr: Expr) -> int:
        known = self.value(expr)
        assert isinstance(expr, Const) or np.all(np.asarray(known) == np.asarray(known)[0])
        return int(np.asarray(known)[0])
