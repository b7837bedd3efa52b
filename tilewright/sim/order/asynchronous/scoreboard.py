"""The scoreboard of a wave: which parts of asynchronous operations each place still waits for.

Each cell of tensor memory remembers the part that wrote it last and, for each warpgroup, the one that has read it
since; each 16 bytes of shared memory the parts that read them, each register those that fill it. A thread that comes
after the last writer comes after all that the writer came after, so that nothing older need be kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tilewright.sim.machine.tmem import table_of_cells
from tilewright.sim.order.asynchronous.parts import OperationPart, Parts
from tilewright.sim.order.bounds import GLOBAL_OPERATIONS
from tilewright.sim.order.knowledge.known import FENCED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from tilewright.errors import Span
    from tilewright.sim.machine.arrays import Bools, Ints
    from tilewright.sim.machine.operation import Operation
    from tilewright.sim.machine.pending import Waiting
    from tilewright.sim.machine.units import Touched
    from tilewright.sim.order.knowledge.known import Flags

__all__ = ["Scoreboard"]


@dataclass(eq=False)
class Loading:
    """Registers in flight: of an operation's sinks, until its warps wait. warps: (CTAs, warps) that have not yet.

    used: those of them that have read a register already, which is told if they store before the wait. use: the first
    such read, the name of the registers and its line.
    """

    operation: Operation
    parts: list[OperationPart]
    warps: Bools
    used: Bools
    use: tuple[str, Span | None] = ("", None)

    def part(self, warp: int, rank: int) -> OperationPart:
        """The part of a warp of a CTA of that rank."""
        return next(part for part in self.parts if part.warp == warp and part.rank == rank)


class Scoreboard:
    """The parts that places of a wave remember, by their numbers.

    writers, readers: (CTAs, columns, lanes), the part that wrote a cell last, and the one that has read it since in
    each warpgroup.
    holders: for each warp that copies, (CTAs, units), the part that reads a unit of shared memory last; filling: the
    part that writes it; one row of these stands for all CTAs while those do the same.
    spans: of operations on shared memory, their first and last byte. in_global: those on global memory.
    """

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.wave = wave = parts.clocks.wave
        self.writers = table_of_cells(wave.ctas, np.int32)
        self.readers = [table_of_cells(wave.ctas, np.int32) for _ in range(-(-wave.run.warps // 4))]
        self.unit: int = wave.run.program.asynchronous_unit
        self.is_collapsed = wave.ctas > 1 and wave.run.cluster_ctas == 1
        self.holders: dict[int, NDArray[np.int32]] = {}
        self.filling = self._units()
        self.spans: dict[int, tuple[int, int]] = {}
        self.in_global: list[tuple[Operation, Ints]] = []
        self.loading: list[Loading] = []

    @property
    def touched(self) -> list[tuple[NDArray[np.int32], str]]:
        """The part that wrote each cell last, then the reader since in each warpgroup, and the words for a message."""
        return [(self.writers, "written"), *((readers, "read") for readers in self.readers)]

    def _units(self) -> NDArray[np.int32]:
        rows = 1 if self.is_collapsed else self.wave.ctas
        return np.zeros((rows, -(-max(self.wave.run.shared_bytes, 1) // self.unit) + 1), np.int32)

    def expand(self) -> None:
        """From now on every CTA has units of its own."""
        if self.is_collapsed:
            self.is_collapsed = False
            self.filling = self.filling.repeat(self.wave.ctas, axis=0)
            self.holders = {warp: table.repeat(self.wave.ctas, axis=0) for warp, table in self.holders.items()}

    def view(self, one: Touched) -> Touched:
        """What an operation touches as the tables of units have it: in one CTA, while all do the same."""
        if self.is_collapsed and one.ctas == slice(0, self.wave.ctas):
            return one.of_one_cta()
        self.expand()
        return one

    def flags_of_issuers(self, operation: Operation) -> Flags:
        """(n, numbers): what the issuers know of parts; of the issuers of one CTA what those of all CTAs know."""
        _, rows, _ = operation.issuers.actors
        flags = self.parts.clocks.flags_of(rows, self.parts.knowers(operation))
        if (each := operation.issuers.warps_each) > 1:  # all warps must know what a thread has issued, and be fenced
            of_warps = flags.reshape(len(operation.issuers.rows), each, -1)
            of_all, unfenced = np.bitwise_and.reduce(of_warps, axis=1), flags.dtype.type(FENCED)
            flags = np.where(self.parts.are_alone, of_all, of_warps[:, 0] & (of_all | ~unfenced))
        if not self.is_collapsed:
            return flags
        return np.asarray(np.bitwise_and.reduce(flags.reshape(self.wave.ctas, -1, flags.shape[1]), axis=0))

    def holders_of(self, warp: int) -> NDArray[np.int32]:
        """The part of each warp that reads each unit of shared memory last."""
        if warp not in self.holders:
            self.holders[warp] = self._units()
        return self.holders[warp]

    def units_of(self, one: Touched) -> Iterator[tuple[Ints, Ints]]:
        """Rows and numbers of all units of shared memory that a part of an operation touches, as many at a time as it
        has places; the last unit, which is none, for those that do not count.
        """
        last = self.filling.shape[1] - 1
        for byte in range(0, one.width, self.unit):
            yield one.rows, np.where(one.touches, np.minimum((one.at + byte) // self.unit, last), last)

    def used(self) -> Bools:
        """(numbers,): the parts that some place remembers."""
        used = np.zeros(self.parts.clocks.parts.shape[-1], np.bool_)
        taken = self.wave.columns.holder.any(0)
        for table, _ in self.touched:
            used[table[:, taken]] = True
        for table in (self.filling, *self.holders.values()):
            used[np.unique(table)] = True
        for _, own in self.in_global:
            used[own] = True
        used[[part.number for loading in self.loading for part in loading.parts]] = True
        return used

    def begun(self, operation: Operation, parts: list[OperationPart], own: Ints) -> None:
        """An operation begins: where it lies in shared and global memory, and which registers it uses."""
        spans = [one.reach for one in operation.touched if one.space == "shared" and one.count]
        if spans:
            self.spans[operation.number] = min(first for first, _ in spans), max(last for _, last in spans)
        if any(one.space in ("global", "generic") for one in operation.touched):
            self.in_global = [*self.in_global[-GLOBAL_OPERATIONS:], (operation, own)]
        if operation.instruction.sinks or operation.instruction.sources:
            rows, threads = operation.issuers.each()
            warps = np.zeros((self.wave.ctas, self.wave.run.warps), np.bool_)
            warps[rows, threads // 32] = True
            self.loading.append(Loading(operation, parts, warps, np.zeros_like(warps)))
            self.wave.pending.loading = True

    def hold(self, operation: Operation, own: Ints, one: Touched, where: tuple[Ints, Ints]) -> None:
        """Record the parts of each warp that read units of shared memory, ``where``: their rows and numbers."""
        each = operation.issuers.warps_each
        warps = operation.issuers.threads[one.issuer] // 32
        for warp in np.unique(warps).tolist():
            of_warp = warps == warp
            there = one.touches[of_warp]
            rows_of, units = (part[of_warp][there] for part in where)
            places, numbers = rows_of * self.filling.shape[1] + units, np.nonzero(there)[0]
            for k in range(each):
                self.holders_of(warp + k).reshape(-1)[places] = own[one.issuer[of_warp] * each + k][numbers]

    def awaited(self, waiting: Waiting) -> None:
        """Threads have waited: the registers of their operations are filled, or read."""
        for loading in self.loading:
            if waiting.effect.reads and loading.operation.instruction.sinks:
                continue
            rows, threads = loading.operation.issuers.each()
            over = np.broadcast_to(waiting.covers(loading.operation), rows.shape)
            loading.warps[rows[over], threads[over] // 32] = False
        self.loading = [each for each in self.loading if each.warps.any()]
        self.wave.pending.loading = bool(self.loading)

    def renumber(self, operation: Operation, old: Ints, new: Ints) -> None:
        """What an operation writes has other numbers, for each of its actors, from now on."""
        _, rows, _ = operation.issuers.actors
        if self.is_collapsed and (old != new).any():
            self.expand()
        for row, one, other in {*zip(rows.tolist(), old.tolist(), new.tolist(), strict=True)}:
            for table in (self.writers, self.filling):
                table[row][table[row] == one] = other
        self.in_global = [(each, new if each is operation else own) for each, own in self.in_global]

    def retire(self, operation: Operation, own: Ints, over: Bools, *, reads: bool) -> None:
        """Threads have seen that their part of an operation is complete, or has read its sources: no other thread needs
        it from now on.
        """
        mine = np.where(over, own, -1)
        if self.is_collapsed and (mine.reshape(self.wave.ctas, -1) != mine[: len(mine) // self.wave.ctas]).any():
            self.expand()
        for one in (self.view(one) for one in operation.touched if one.space == "shared"):
            tables = [*self.holders.values()] if reads else [self.filling, *self.holders.values()]
            for where in self.units_of(one):
                for table in tables:
                    table[where] = np.where(table[where] == one.along(mine[one.issuer]), 0, table[where])
