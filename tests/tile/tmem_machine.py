"""Tensor-memory instructions by the manual's words, for the tests of this room: plain loops, no rows.

Tensor memory is a dict from (lane, byte of the lane) to where that byte came from: a byte of shared memory, or of a
thread's registers. A copy is right exactly if the right numbers arrive.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tests.isa.descriptor_oracles import byte_address
from tests.isa.tmem_oracles import SIZES, lanes_of_row, reached
from tests.tile.kernels import whole_number
from tests.tile.machine import Ints, Machine, Pointer
from tilewright import isa
from tilewright.ir import AddressOf, AllocBuffer, Call, Const, DeclBuffer, Expr, Load, Stmt


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
        rows, width = SIZES[shape]
        for row in range(rows):
            for lane in lanes_of_row(shape, multicast, row):
                for byte in range(width):
                    place = ((address >> 16) + lane, 4 * (address & 0xFFFF) + byte)
                    assert place not in self.written, "two instructions write one place, in no order"
                    self.written[place] = ("shared", byte_address(start, leading, stride, mode, row, byte))

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
        row, columns = reached(shape, lane, number, split, halves)
        start = int(pointer.offset[thread]) * pointer.buffer.dtype.bits // 8
        assert start % 4 == 0, "a register begins at a multiple of 32 bits"
        width = 2 if halves else 4
        for part, column in enumerate(columns):
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
