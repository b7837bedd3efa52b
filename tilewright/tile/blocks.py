"""Registers as a matrix product sees them: which register holds which block of which matrix.

In an operand of ``mma`` lane 4g+t of a warp has neighbours of one row (or column): what lies along g, and what lies
along t and inside of a register, are two runs of numbers, the *block*. Products do not care in which order rows,
columns and steps along K come, only that the operands have the same ones: a layout fits if each of its registers is
such a block, and if for any two blocks that meet the operands have the registers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.ir import Expr, Value
from tilewright.tile.call import Side, TileCall
from tilewright.tile.dispatch import Decline
from tilewright.tile.owners import owners, registers_of
from tilewright.tile.walks import Ints

__all__ = ["Held", "Products", "RegisterBlocks", "blocks_of", "held_by_warps", "products_of"]


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """The part of a register region that each warp holds. elements: (warps, 32 lanes, registers, elements of a
    register), row-major numbers, -1 in warps that hold nothing. slots: where each register begins, to be added to
    ``base``. guard: holds in the warps that hold something; None where all do.
    """

    elements: Ints
    slots: Ints
    base: Value
    guard: Expr | None

    @property
    def warps(self) -> Ints:
        """The numbers of the warps that hold something."""
        return np.flatnonzero(self.elements[:, 0, 0, 0] >= 0)


def held_by_warps(call: TileCall, side: Side) -> Held:
    """The registers of each warp of the scope. Raises Decline unless whole warps hold whole 32-bit registers."""
    held = owners(call, side, loading=True)
    if held.space == "thread":
        raise Decline(f"each thread has all of {side.name}; a warp's registers share a matrix out")
    registers = registers_of(call, side, held, side.dtype.bits)
    each = held.space_threads // 32
    full = np.full((held.shared_by, each, *registers.shape[1:]), -1, np.int64)
    full[:, held.threads[::32] // 32] = registers
    per_register = registers.shape[3]
    return Held(
        full.reshape(-1, *registers.shape[1:]), held.slots[::per_register], held.base, held.guard(storing=False)
    )


@dataclass(frozen=True, slots=True, eq=False)
class RegisterBlocks:
    """The registers of an operand by their blocks. first: the slot of each by its block: numbers along g, and along t
    and inside of a register, of all warps, as bytes. along_g, inside: these numbers, in the order of the slots.
    warps: that hold the matrix. pairs: for each register of a lane its two runs.
    """

    side: Side
    warps: Ints
    pairs: tuple[tuple[Ints, Ints], ...]
    first: Mapping[tuple[bytes, bytes], int]
    along_g: Mapping[bytes, Ints]
    inside: Mapping[bytes, Ints]

    def slot(self, along_g: Ints, inside: Ints) -> int:
        """Where the register with this block begins. Raises Decline where there is none."""
        found = self.first.get((along_g.tobytes(), inside.tobytes()))
        if found is None:
            raise Decline(self._lacks(along_g, inside))
        return found

    def _lacks(self, along_g: Ints, inside: Ints) -> str:
        """The refusal that names the warp in which no register has these numbers."""
        for warp in range(len(along_g)):
            mine = {(rows[warp].tobytes(), others[warp].tobytes()) for rows, others in self.pairs}
            if (along_g[warp].tobytes(), inside[warp].tobytes()) not in mine:
                break
        rows, columns = (_spoken(each[warp]) for each in (along_g, inside))
        where = f" in warp {self.warps[warp]}" if len(self.warps) > 1 else ""
        return f"no register of {self.side.name} has {rows} for g and {columns} for t{where}, as the others have"


def _spoken(numbers: Ints) -> str:
    return ", ".join(map(str, numbers.tolist()))


def blocks_of(side: Side, held: Held, warps: Ints, columns: int, g: int, offset: int = 0) -> RegisterBlocks:
    """The blocks of a matrix with so many ``columns``, in these warps; dimension ``g`` of it goes along the lanes' g.

    offset: what to add to the numbers of the other dimension. Raises Decline where a register is no block.
    """
    count = len(held.slots)
    coordinates = np.stack(np.divmod(held.elements[warps], columns)).reshape(2, len(warps), 8, 4, count, -1)
    outer, inner = coordinates[g], coordinates[1 - g] + offset
    strays = (outer != outer[:, :, :1, :, :1]) | (inner != inner[:, :1])
    if strays.any():
        raise Decline(_astray(side, held, coordinates, strays, warps, g))
    first: dict[tuple[bytes, bytes], int] = {}
    pairs, along_g, inside = list[tuple[Ints, Ints]](), dict[bytes, Ints](), dict[bytes, Ints]()
    for register, slot in enumerate(held.slots.tolist()):
        rows = np.ascontiguousarray(outer[:, :, 0, register, 0])
        others = np.ascontiguousarray(inner[:, 0, :, register, :]).reshape(len(warps), -1)
        pairs.append((rows, others))
        first.setdefault((rows.tobytes(), others.tobytes()), slot)
        along_g.setdefault(rows.tobytes(), rows)
        inside.setdefault(others.tobytes(), others)
    return RegisterBlocks(side, warps, tuple(pairs), first, along_g, inside)


def _astray(side: Side, held: Held, coordinates: Ints, strays: Ints, warps: Ints, g: int) -> str:
    """The refusal that names a lane whose register is no block."""
    warp, lane_g, lane_t, register, part = np.argwhere(strays)[0].tolist()
    row, column = coordinates[:, warp, lane_g, lane_t, register, part].tolist()
    first = coordinates[:, warp, lane_g, 0, register, 0][g], coordinates[:, warp, 0, lane_t, register, part][1 - g]
    wanted = first if g == 0 else first[::-1]
    slot = int(held.slots[register]) + part
    lane = f"lane {4 * lane_g + lane_t}" + (f" of warp {warps[warp]}" if len(held.elements) > 1 else "")
    return (
        f"slot {slot} of {side.name} is element ({row}, {column}) in {lane}; mma has ({wanted[0]}, {wanted[1]}) there"
    )


@dataclass(frozen=True, slots=True, eq=False)
class Products:
    """The slots of each operand's registers. a: (tiles of M, steps of K, registers); b: (tiles of N, steps of K,
    registers), d: (tiles of M, tiles of N, registers). halves: runs of 16 bytes along K in a step.
    """

    a: Ints
    b: Ints
    d: Ints
    halves: int

    @property
    def count(self) -> int:
        """Instructions of a warp."""
        m, k, _ = self.a.shape
        return int(m * k * len(self.b))


def products_of(
    a: RegisterBlocks, b: RegisterBlocks, d: RegisterBlocks, per_register: int, halves: Sequence[int]
) -> Products:
    """How the registers of A, B and D meet. per_register: elements of D in one. halves: that an instruction may have.

    Raises Decline where one of them lacks a block that the others have.
    """
    rows, columns, along_k = list(a.along_g.values()), list(b.along_g.values()), list(a.inside.values())
    if len(rows) % 2:
        raise Decline(f"a warp has {8 * len(rows)} rows of {a.side.name}", allowed="a multiple of 16 rows")
    half = next(each for each in halves if len(along_k) % each == 0)
    left = np.array([[a.slot(row, k) for k in along_k] for row in rows])
    right = np.array([[b.slot(column, k) for k in along_k] for column in columns])
    parts = 2 // per_register
    total = np.array([
        [[d.slot(row, np.ascontiguousarray(column[:, part::parts])) for part in range(parts)] for column in columns]
        for row in rows
    ])  # fmt: skip
    for blocks, found in ((a, left), (b, right), (d, total)):
        if len(blocks.pairs) != found.size:
            name, count = blocks.side.name, len(blocks.pairs)
            raise Decline(f"a warp has {count} registers of {name}, and the other operands meet {found.size}")
    steps = len(along_k) // half
    m, n = len(rows) // 2, len(columns)
    left = left.reshape(m, 2, steps, half).transpose(0, 2, 3, 1).reshape(m, steps, -1)  # rows toggle first
    total = total.reshape(m, 2, n, parts).transpose(0, 2, 1, 3).reshape(m, n, -1)
    return Products(left, right.reshape(n, steps, half), total, half)
