"""Many small loads of matrices as one large one.

A kernel fills its fragments by loops around one ``ldmatrix``, compiled code by many of them side by side. Each gathers
a few rows for every warp, at a fixed cost that is larger than the gather. All that only reads shared memory and writes
registers, so all addresses are known before the first row is read: one gather fetches the rows of all turns, and
neighbouring registers are written at once. Warps with the same addresses get the same: rows are fetched for one of
them, and the registers remember it (`Registers.alike`). So do CTAs whose shared memory has the same bytes there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from tilewright.ir import AddressOf, Attr, Call, DeclBuffer, Evaluate, Expr, For, Load, Stmt, const_value, walk
from tilewright.isa import WHOLE_WARP, Form, bind
from tilewright.sim.machine.address import Address
from tilewright.sim.machine.masks import Mask
from tilewright.sim.machine.uniform import Uniform

if TYPE_CHECKING:
    from tilewright.sim.machine.address import Part
    from tilewright.sim.machine.arrays import Ints
    from tilewright.sim.machine.batch import Batch
    from tilewright.sim.machine.counts import Line
    from tilewright.sim.machine.instructions import CompiledInstruction, RegisterFile
    from tilewright.sim.machine.sites import Site

__all__ = ["Loads", "Turn", "is_load", "is_loop_of_loads", "load_all"]

MOST_PLANS = 64
MOST_TURNS = 32  # loads whose rows are fetched at once

Turn = tuple["Loads", Address, Address]  # of one load: the rows in shared memory, and its first register


# The loads of a loop, or of a run of statements, as one


@dataclass(frozen=True, eq=False, slots=True)
class LoadGroup:
    """Turns in which the same warps are alike. addresses: (1, warps that are not alike * turns, 32). span: of the
    bytes that they read, where few others lie between them.

    sinks: registers that follow each other, their address, and the turns that load them.
    """

    addresses: Ints
    span: slice | None
    alike: Uniform
    turns: int
    sinks: tuple[tuple[RegisterFile, Address, slice], ...]

    def ctas(self, batch: Batch) -> Uniform:
        """Which CTAs have the same bytes there: it is known, or they are compared."""
        if self.span is not None and batch.shape[0] > 1:
            shared = batch.wave.shared
            alike = shared.alike(batch.ctas, self.span.start, self.span.stop)
            alike = alike or Uniform.of_rows(shared.data[batch.ctas, self.span].view(np.uint64))
            if alike.firsts is not None:
                return alike
        return Uniform.nobody(batch.shape[0])


@dataclass(frozen=True, eq=False, slots=True)
class LoadPlan:
    """What some turns load. parts: what the addresses of the turns consist of; plans are found by the identity of
    these, so that they must live as long. counts: of one CTA, by the lines that count; none where checks look.
    """

    groups: tuple[LoadGroup, ...]
    parts: tuple[Part, ...]
    counts: tuple[tuple[Line, Line], ...]


@dataclass(frozen=True, eq=False, slots=True)
class Loads:
    """One load of a kernel; the first of several is called with all turns, once their addresses are known."""

    instruction: CompiledInstruction
    plans: dict[tuple[object, ...], LoadPlan] = field(default_factory=dict)

    @property
    def site(self) -> Site:
        """Its access to shared memory."""
        return self.instruction.accesses[0][1]

    def __call__(self, batch: Batch, mask: Mask, turns: list[Turn]) -> None:
        if not self._at_once(batch, mask, turns):
            for loads, source, target in turns:
                loads.instruction(batch, mask, (source,), (target,), (None,))

    def _at_once(self, batch: Batch, mask: Mask, turns: list[Turn]) -> bool:
        """Load what all turns load; False, and nothing done, where it has to go turn by turn."""
        if mask.array is not None or len(turns) < 2:
            return False
        plan = self._plan(batch, turns)
        if plan is None or not self._is_harmless(batch, plan):
            return False
        self._touch(batch, mask, turns, plan)
        for group in plan.groups:
            ctas = group.ctas(batch)
            look = batch.firsts(ctas)
            rows = self.instruction.meaning(look, Mask(look.shape), (group.addresses,), batch.wave.run.plain)
            words = rows.reshape(len(rows), -1, group.turns, *rows.shape[-2:])
            for sink, at, some in group.sinks:
                part = words[:, :, some].reshape(*words.shape[:2], sink.count, 32)
                sink.store(batch, mask, at, part, alike=(ctas, group.alike))
                if self.instruction.with_shadows and not sink.is_initialised(batch, at):
                    sink.store_flags(batch, mask, at, None)
        return True

    @staticmethod
    def _touch(batch: Batch, mask: Mask, turns: list[Turn], plan: LoadPlan) -> None:
        """The checks and counts of every load; where there are no checks, the counts of all."""
        for line, of_one in plan.counts:
            line.add(of_one, batch.shape[0])
        for loads, source, _ in () if plan.counts else turns:
            loads.site.touch(batch, mask, source)

    def _is_harmless(self, batch: Batch, plan: LoadPlan) -> bool:
        """Is it certain that no check reports these loads: no register is in flight, all bytes are initialised?"""
        sinks = [each for group in plan.groups for each in group.sinks]
        if batch.wave.pending.loading or not all(sink.is_inside(at.start) for sink, at, _ in sinks):
            return False
        if not self.instruction.with_shadows:
            return True
        width = self.site.width
        return all(batch.wave.shadows.is_sound(group.addresses, width) for group in plan.groups)

    # Conditions

    def _is_known(self, turn: Turn) -> bool:
        """Is the address the same in all CTAs and in every run, and does it lead to the CTA's own memory? Is the
        instruction the same?
        """
        loads, source, target = turn
        is_kept = all(part.kept for part in source.parts) and not source.varies_by_cta
        mine, other = self.instruction.bound, loads.instruction.bound
        is_same = loads is self or (mine.form is other.form and mine.mods == other.mods)
        return is_kept and is_same and not target.parts and not self.instruction.is_elsewhere(0, source.hi)

    def _plan(self, batch: Batch, turns: list[Turn]) -> LoadPlan | None:
        """None where the turns cannot be done at once. Parts of the same identity were looked at before."""
        key = (batch.shape[1], *map(_key, turns))
        if key not in self.plans:
            if not all(map(self._is_known, turns)):
                return None
            if len(self.plans) >= MOST_PLANS:
                self.plans.clear()
            parts = tuple(part for _, source, _ in turns for part in source.parts)
            self.plans[key] = LoadPlan(tuple(self._groups(batch, turns)), parts, tuple(_counts(batch, turns)))
        return self.plans[key]

    def _groups(self, batch: Batch, turns: list[Turn]) -> Iterator[LoadGroup]:
        full = [np.broadcast_to(source.full(), (1, batch.shape[1], 32)) for _, source, _ in turns]
        for alike, those in groupby(range(len(turns)), lambda number: Uniform.of_rows(full[number][0])):
            some = list(those)
            addresses = alike.once(np.stack([full[number] for number in some], axis=2)).reshape(1, -1, 32)
            sinks = tuple(_sinks([turns[number] for number in some]))
            yield LoadGroup(addresses, self._span(addresses), alike, len(some), sinks)

    def _span(self, addresses: Ints) -> slice | None:
        """The bytes from the first to the last that is read, if at least half of them are."""
        read = np.unique(addresses[..., : self.site.lanes])
        first, last = int(read[0]), int(read[-1]) + self.site.width
        return slice(first, last) if last - first <= 2 * self.site.width * len(read) else None


def _sinks(turns: list[Turn]) -> Iterator[tuple[RegisterFile, Address, slice]]:
    first = 0
    (sink,) = turns[0][0].instruction.sinks
    for last, (loads, _, target) in enumerate([*turns[1:], turns[0]], 1):
        (other,) = loads.instruction.sinks
        after = turns[last - 1][2].start + sink.count * sink.width
        if last == len(turns) or target.start != after or other.places[0] != sink.places[0]:
            yield replace(sink, count=sink.count * (last - first)), turns[first][2], slice(first, last)
            first, sink = last, other


def _counts(batch: Batch, turns: list[Turn]) -> Iterator[tuple[Line, Line]]:
    """What one CTA adds to each line by all turns, if no check looks at them, and all are inside of their buffers."""
    sites = {id(loads.site): loads.site for loads, _, _ in turns}
    if any(site.hooks or site.place is None for site in sites.values()):
        return
    if not all(loads.site.contains(batch, source) for loads, source, _ in turns):
        return
    for site in sites.values():
        counter = replace(site)
        for loads, source, _ in turns:
            if loads.site is site:
                counter.count(batch.single, Mask(batch.single.shape), source)
        yield site.line, counter.line


def _key(turn: Turn) -> tuple[int, ...]:
    loads, source, target = turn
    return (id(loads), source.start, target.start, len(target.parts), *map(id, source.parts))


def load_all(batch: Batch, mask: Mask, turns: list[Turn]) -> None:
    """Do the loads of several turns; generated code calls it after the last one."""
    if turns:
        turns[0][0](batch, mask, turns)


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
    return turns <= MOST_TURNS and is_load(stmt)


def is_load(stmt: Stmt) -> bool:
    """Is it a load of matrices at an address that depends on no memory?"""
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
    nodes = [node for expr in exprs for node in walk(expr)]
    computed = (bind(node).form.meaning.of_lanes for node in nodes if isinstance(node, Call))
    return not any(isinstance(node, Load) for node in nodes) and all(computed)
