"""Many small loads of matrices as one large one.

A kernel fills its fragments by loops around one ``ldmatrix``. Each gathers a few rows for every warp, at a fixed cost
that is larger than the gather. Such a loop only reads shared memory and writes registers, so all its addresses are
known before the first row is read: one gather fetches the rows of all turns, and neighbouring registers are written at
once. Warps with the same addresses get the same: rows are fetched for one of them, and the registers remember it
(`Registers.alike`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from tilewright.ir import AddressOf, Attr, Call, DeclBuffer, Evaluate, Expr, For, Load, Stmt, const_value, walk
from tilewright.isa import WHOLE_WARP, Form, bind
from tilewright.sim.machine.address import Address
from tilewright.sim.machine.uniform import UniformWarps

if TYPE_CHECKING:
    from tilewright.sim.machine.address import Part
    from tilewright.sim.machine.arrays import Ints
    from tilewright.sim.machine.batch import Batch
    from tilewright.sim.machine.instructions import CompiledInstruction, RegisterFile
    from tilewright.sim.machine.masks import Mask

__all__ = ["Loads", "Turn", "is_loop_of_loads", "load_all"]

MOST_PLANS = 64
MOST_TURNS = 32  # loads whose rows are fetched at once

Turn = tuple[Address, Address]  # of one load: the rows in shared memory, and its first register


# The loads of a loop as one


@dataclass(frozen=True, eq=False, slots=True)
class LoadPlan:
    """What the turns of a loop load. addresses: (1, warps that are not alike * turns, 32).

    sinks: registers that follow each other, their address, and the turns that load them. parts: what the addresses of
    the turns consist of; plans are found by the identity of these, so that they must live as long.
    """

    addresses: Ints
    alike: UniformWarps
    sinks: tuple[tuple[RegisterFile, Address, slice], ...]
    parts: tuple[Part, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Loads:
    """One load of a kernel, in a loop: called with all turns of it, once their addresses are known."""

    instruction: CompiledInstruction
    plans: dict[tuple[object, ...], LoadPlan] = field(default_factory=dict)

    def __call__(self, batch: Batch, mask: Mask, turns: list[Turn]) -> None:
        if not self._at_once(batch, mask, turns):
            for source, target in turns:
                self.instruction(batch, mask, (source,), (target,), (None,))

    def _at_once(self, batch: Batch, mask: Mask, turns: list[Turn]) -> bool:
        """Load what all turns load; False, and nothing done, where it has to go turn by turn."""
        if mask.array is not None or len(turns) < 2 or not all(map(self._is_known, turns)):
            return False
        plan = self._plan(batch, turns)
        if not self._is_harmless(batch, plan):
            return False
        for source, _ in turns:
            self.instruction.accesses[0][1].touch(batch, mask, source)
        rows = self.instruction.meaning(batch, mask, (plan.addresses,), batch.wave.run.plain)
        words = rows.reshape(len(rows), -1, len(turns), *rows.shape[-2:])
        for sink, at, some in plan.sinks:
            part = words[:, :, some].reshape(*words.shape[:2], sink.count, 32)
            sink.store(batch, mask, at, part, alike=plan.alike)
            if self.instruction.with_shadows and not sink.is_initialised(batch, at):
                sink.store_flags(batch, mask, at, None)
        return True

    def _is_harmless(self, batch: Batch, plan: LoadPlan) -> bool:
        """Is it certain that no check reports these loads: no register is in flight, all bytes are initialised?"""
        if batch.wave.pending.loading or not all(sink.is_inside(at.start) for sink, at, _ in plan.sinks):
            return False
        if not self.instruction.with_shadows:
            return True
        width = self.instruction.accesses[0][1].width
        return batch.wave.shadows.is_sound(plan.addresses, width)

    # Conditions

    def _is_known(self, turn: Turn) -> bool:
        """Is the address the same in all CTAs and in every run, and does it lead to the CTA's own memory?"""
        source, target = turn
        is_kept = all(part.kept for part in source.parts) and not source.varies_by_cta
        return is_kept and not target.parts and not self.instruction.is_elsewhere(0, source.hi)

    def _plan(self, batch: Batch, turns: list[Turn]) -> LoadPlan:
        key = (batch.shape[1], *(number for source, target in turns for number in (*_key(source), target.start)))
        if key not in self.plans:
            if len(self.plans) >= MOST_PLANS:
                self.plans.clear()
            self.plans[key] = self._planned(batch, turns)
        return self.plans[key]

    def _planned(self, batch: Batch, turns: list[Turn]) -> LoadPlan:
        full = [np.broadcast_to(source.full(), (1, batch.shape[1], 32)) for source, _ in turns]
        every = np.stack(full, axis=2)
        alike = UniformWarps.among(every)
        addresses = alike.once(every).reshape(1, -1, 32)
        parts = tuple(part for source, _ in turns for part in source.parts)
        return LoadPlan(addresses, alike, tuple(self._sinks([target.start for _, target in turns])), parts)

    def _sinks(self, starts: list[int]) -> Iterator[tuple[RegisterFile, Address, slice]]:
        (sink,) = self.instruction.sinks
        nbytes = sink.count * sink.width
        first = 0
        for last in range(1, len(starts) + 1):
            if last == len(starts) or starts[last] != starts[last - 1] + nbytes:
                yield replace(sink, count=sink.count * (last - first)), Address(starts[first]), slice(first, last)
                first = last


def _key(source: Address) -> Iterable[int]:
    return (source.start, *map(id, source.parts))


def load_all(batch: Batch, mask: Mask, turns: list[tuple[Loads, Address, Address]]) -> None:
    """Do the loads of a loop; generated code calls it after the last turn."""
    if turns:
        turns[0][0](batch, mask, [turn[1:] for turn in turns])


# Loops of loads in a kernel


def is_loop_of_loads(loop: For) -> bool:
    """Is it a loop (or a nest) of few turns, each of them one load at addresses that depend on no memory?"""
    turns = 1
    stmt: Stmt = loop
    while isinstance(stmt, For):
        start, stop = const_value(stmt.start), const_value(stmt.stop)
        inner = [one for one in stmt.body if not isinstance(one, (Attr, DeclBuffer))]
        if start is None or stop is None or len(inner) != 1:
            return False
        turns *= len(range(int(start), int(stop), stmt.step))
        (stmt,) = inner
    return turns <= MOST_TURNS and _is_load(stmt)


def _is_load(stmt: Stmt) -> bool:
    if not isinstance(stmt, Evaluate) or not isinstance(stmt.value, Call):
        return False
    bound = bind(stmt.value)
    if not _loads_matrices(bound.form) or bound.instruction.lanes != WHOLE_WARP or len(bound.read) != 1:
        return False
    registers = [index for one in bound.operands["r"] if isinstance(one, (Load, AddressOf)) for index in one.indices]
    return _says_no_memory(*bound.operands["p"], *registers)


def _loads_matrices(form: Form) -> bool:
    moves = form.meaning.moves and form.meaning.on == "shared" and not form.concerns_operations
    return moves and [access.write for access in form.accesses] == [False]


def _says_no_memory(*exprs: Expr) -> bool:
    return not any(isinstance(node, (Load, Call)) for expr in exprs for node in walk(expr))
