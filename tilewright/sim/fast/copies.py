"""Copies from global to shared memory: the turns of a loop, or a run of statements, at once, and once for all CTAs that
make the same; and many small loads of matrices as one large one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from tilewright.ir import AddressOf, Call, Evaluate, Expr, Load, Stmt, walk
from tilewright.isa import WHOLE_WARP, Form, bind
from tilewright.sim.machine import FAR, WINDOW_BITS, Address, Line, Part, Team, Uniform, spread

if TYPE_CHECKING:
    from tilewright.sim.machine import Bits, CompiledInstruction, Ints, RegisterFile, Site


# Copies from global to shared memory: the turns of a loop, or a run of statements, at once, and once for all CTAs that
# make the same.
#
# The CTAs in a row of a grid load the same tile: their addresses in global memory are equal, and so are those in shared
# memory, each in its own CTA. Such copies read for one of them, in the order in which the bytes lie in shared memory,
# and give the bytes to all; shared memory remembers who has the same (`MemoryRows.fill`). In which order the reads are
# is found once for each pattern of addresses.


MOST_PLANS = 64

CopyTurn = tuple["Copies | None", Address, Address]  # of one copy: where it reads, and where it writes


@dataclass(frozen=True, eq=False, slots=True)
class FillPlan:
    """What some turns copy. order: where a CTA reads the bytes that follow each other in shared memory, from the first
    turn's start on. parts: of all addresses that depend on threads alone; plans are found by the identity of these.
    counts: of the reads and the writes of one CTA.
    """

    order: Part
    parts: tuple[Part, ...]
    counts: tuple[Line, Line]


@dataclass(frozen=True, eq=False, slots=True)
class Copies:
    """A plain copy of a kernel: what is found at its source goes to its target, often a buffer of shared memory.

    of_windows: where a pointer of run time says from where, the same from the buffer of each window.
    """

    source: Site
    target: Site
    with_shadows: bool
    plans: dict[tuple[int, ...], FillPlan | None] = field(default_factory=dict)
    of_windows: dict[int, Copies] = field(default_factory=dict)

    def __call__(self, team: Team, turns: list[CopyTurn]) -> None:
        plan = self._plan(team, turns) if team.array is None and self._is_plain(team, turns) else None
        if plan is None:
            for _, source, target in turns:
                self.one(team, source, target)
            return
        self._touch(team, turns, plan)
        self._fill(team, turns, plan)

    def one(self, team: Team, source: Address, target: Address, *, is_sound: bool = False) -> None:
        """One copy, with its flags. is_sound: is all of what it reads initialised?"""
        view = self.source.view(team, source)
        bits, flags = view.load(), view.flags() if self.with_shadows and not is_sound else None
        view = self.target.view(team, target, bits)
        view.store(bits)
        if self.with_shadows:
            view.store_flags(flags, (self.source, source))

    def of_sound(self, team: Team, turns: list[CopyTurn]) -> bool:
        """The same of compiled code; False, and nothing done, where what it reads may be uninitialised."""
        if self.with_shadows and team.wave.run.dependence is not None:
            return False
        if self.source.place is not None and self.source.place.space == "shared":
            ((_, found, target),) = turns
            if self.with_shadows and not team.wave.shadows.shared.are_set(found.lo, found.hi + self.source.width):
                return False
            self.one(team, found, target, is_sound=True)
            return True
        own = self
        if self.source.place is None:
            window = self._window(team, turns)
            if window is None:
                return False
            if window not in self.of_windows:
                source = self.source.inside(team, window, Address(0))
                self.of_windows[window] = Copies(source, self.target, self.with_shadows)
            own, start = self.of_windows[window], window << WINDOW_BITS
            turns = [(own, source.shifted(-start), target) for _, source, target in turns]
        own(team, turns)
        return True

    @staticmethod
    def _window(team: Team, turns: list[CopyTurn]) -> int | None:
        """The window of the one global buffer that all turns read."""
        (window, *others) = {end >> WINDOW_BITS for _, at, _ in turns for end in (at.lo, at.hi + FAR)}
        return window if not others and window in team.wave.run.places.globals else None

    def _touch(self, team: Team, turns: list[CopyTurn], plan: FillPlan) -> None:
        """The checks and counts of every copy."""
        source, target = self.source, self.target
        assert source.place is not None
        memory, read_at = team.wave.storage(source.place), {at.start: read for _, read, at in turns}

        def copied(at: Address) -> Bits:
            return memory.load(team.look, read_at[at.start], source.width)

        source.touch_all(team, [read for _, read, _ in turns], plan.counts[0])
        target.touch_all(team, [at for *_, at in turns], plan.counts[1], copied)

    def _fill(self, team: Team, turns: list[CopyTurn], plan: FillPlan) -> None:
        source, target, (_, read, first), (*_, last) = self.source, self.target, turns[0], turns[-1]
        assert source.place is not None
        alike, start, end = read.alike(team.shape[0]), first.lo, last.hi + target.width
        look, of_ctas = team.look.firsts(alike), [part for part in read.firsts(alike).parts if part not in plan.parts]
        units = team.wave.storage(source.place).load(look, Address(read.start, *of_ctas, plan.order), source.width)
        team.wave.shared.fill(team.ctas, start, spread(units[:, 0], (look.shape[0], units.shape[2])), alike)
        if self.with_shadows and not team.wave.shadows.shared.are_set(start, end):
            for *_, at in turns:
                target.unseen(team, at).store_flags(None)

    def _is_plain(self, team: Team, turns: list[CopyTurn]) -> bool:
        """Are all addresses inside of their buffers, and aligned?"""
        sides = [(self.source, source) for _, source, _ in turns] + [(self.target, at) for _, _, at in turns]
        return all(site.contains(team, at) and not at.bits & (site.width - 1) for site, at in sides)

    def _plan(self, team: Team, turns: list[CopyTurn]) -> FillPlan | None:
        """None where the turns have to go one by one."""
        _, first, _ = turns[0]
        parts = [part for _, source, target in turns for part in (*source.parts, *target.parts)]
        if any(source.parts != first.parts for _, source, _ in turns) or not all(part.kept for part in parts):
            return None
        starts = [number for _, source, target in turns for number in (source.start - first.start, target.start)]
        some = [part for part in parts if len(part.values) == 1]
        key = (team.shape[1], *starts, *map(id, some))
        if key not in self.plans:
            if len(self.plans) >= MOST_PLANS:
                self.plans.clear()
            self.plans[key] = self._planned(team, turns, tuple(some))
        return self.plans[key]

    def _planned(self, team: Team, turns: list[CopyTurn], parts: tuple[Part, ...]) -> FillPlan | None:
        (_, first, start), width, shape = turns[0], self.target.width, (1, *team.shape[1:])
        if any(part.values.shape[1:] != (1, 1) for part in first.parts if len(part.values) > 1):
            return None
        read = spread(Address(0, *(part for part in first.parts if len(part.values) == 1)).full(), shape).reshape(-1)
        found, end = [], start.lo
        for _, source, target in turns:
            order = target.parts[0].order(width) if len(target.parts) == 1 else None
            if order is None or target.shape != shape or target.lo != end:
                return None
            found.append(read[order] + source.start - first.start)
            end = target.hi + width
        sides = (self.source, [read for _, read, _ in turns]), (self.target, [at for *_, at in turns])
        counts = [site.counts_of_one(team, every) for site, every in sides]
        return FillPlan(Part(np.concatenate(found).reshape(1, 1, -1), kept=True), parts, (counts[0], counts[1]))


# Many small loads of matrices as one large one.
#
# A kernel fills its fragments by loops around one ``ldmatrix``, compiled code by many of them side by side. Each
# gathers a few rows for every warp, at a fixed cost that is larger than the gather. All that only reads shared memory
# and writes registers, so all addresses are known before the first row is read: one gather fetches the rows of all
# turns, and neighbouring registers are written at once. Warps with the same addresses get the same: rows are fetched
# for one of them, and the registers remember it (`Registers.alike`). So do CTAs whose shared memory has the same bytes
# there.


Turn = tuple["Loads", Address, Address]  # of one load: the rows in shared memory, and its first register


# The loads of a loop, or of a run of statements, as one


@dataclass(frozen=True, eq=False, slots=True)
class LoadGroup:
    """Turns in which the same warps are alike. addresses: (1, warps that are not alike * turns, 32). reach: the first
    byte that they read, and the end of the last. span: of the bytes that they read, where few others lie between them.

    sinks: registers that follow each other, their address, and the turns that load them.
    """

    addresses: Ints
    reach: tuple[int, int]
    span: slice | None
    alike: Uniform
    turns: int
    sinks: tuple[tuple[RegisterFile, Address, slice], ...]

    def ctas(self, team: Team) -> Uniform:
        """Which CTAs have the same bytes there: it is known, or they are compared."""
        if self.span is not None and team.shape[0] > 1:
            shared = team.wave.shared
            alike = shared.alike(team.ctas, self.span.start, self.span.stop)
            alike = alike or Uniform.of_rows(shared.data[team.ctas, self.span].view(np.uint64))
            if alike.firsts is not None:
                return alike
        return Uniform.nobody(team.shape[0])


@dataclass(frozen=True, eq=False, slots=True)
class LoadPlan:
    """What some turns load. parts: what the addresses of the turns consist of; plans are found by the identity of
    these, so that they must live as long. accesses: of each site, with what they add to the counts of one CTA; none
    where one may be outside of its buffer.
    """

    groups: tuple[LoadGroup, ...]
    parts: tuple[Part, ...]
    accesses: tuple[tuple[Site, list[Address], Line], ...]


@dataclass(frozen=True, eq=False, slots=True)
class Loads:
    """One load of a kernel; the first of several is called with all turns, once their addresses are known."""

    instruction: CompiledInstruction
    plans: dict[tuple[object, ...], LoadPlan] = field(default_factory=dict)

    @property
    def site(self) -> Site:
        """Its access to shared memory."""
        return self.instruction.accesses[0][1]

    def __call__(self, team: Team, turns: list[Turn]) -> None:
        if not self._at_once(team, turns):
            for loads, source, target in turns:
                loads.instruction(team, (source,), (target,), (None,))

    def _at_once(self, team: Team, turns: list[Turn]) -> bool:
        """Load what all turns load; False, and nothing done, where it has to go turn by turn."""
        if team.array is not None or len(turns) < 2:
            return False
        plan = self._plan(team, turns)
        if plan is None or not self._is_harmless(team, plan):
            return False
        self._touch(team, turns, plan)
        for group in plan.groups:
            ctas = group.ctas(team)
            look = team.look.firsts(ctas)
            rows = self.instruction.meaning(Team(look), (group.addresses,), team.wave)
            words = rows.reshape(len(rows), -1, group.turns, *rows.shape[-2:])
            for sink, at, some in group.sinks:
                part = words[:, :, some].reshape(*words.shape[:2], sink.count, 32)
                sink.check(team, at)
                sink.write(team.wave, team, at, part, (ctas, group.alike))
                if self.instruction.with_shadows and not sink.is_initialised(team, at):
                    sink.write(team.wave.shadows, team, at, None)
        return True

    @staticmethod
    def _touch(team: Team, turns: list[Turn], plan: LoadPlan) -> None:
        """The checks and counts of every load."""
        for site, every, of_one in plan.accesses:
            site.touch_all(team, every, of_one)
        for loads, source, _ in () if plan.accesses else turns:
            loads.site.touch(team, source)

    def _is_harmless(self, team: Team, plan: LoadPlan) -> bool:
        """Is it certain that no check reports these loads: no register is in flight, all bytes are initialised?"""
        sinks = [each for group in plan.groups for each in group.sinks]
        if team.wave.pending.loading or not all(sink.is_inside(at.start) for sink, at, _ in sinks):
            return False
        if not self.instruction.with_shadows:
            return True
        return all(team.wave.shadows.shared.are_set(*group.reach) for group in plan.groups)

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

    def _plan(self, team: Team, turns: list[Turn]) -> LoadPlan | None:
        """None where the turns cannot be done at once. Parts of the same identity were looked at before."""
        key = (team.shape[1], *map(_key, turns))
        if key not in self.plans:
            if not all(map(self._is_known, turns)):
                return None
            if len(self.plans) >= MOST_PLANS:
                self.plans.clear()
            parts = tuple(part for _, source, _ in turns for part in source.parts)
            self.plans[key] = LoadPlan(tuple(self._groups(team, turns)), parts, tuple(_accesses(team, turns)))
        return self.plans[key]

    def _groups(self, team: Team, turns: list[Turn]) -> Iterator[LoadGroup]:
        full = [np.broadcast_to(source.full(), (1, team.shape[1], 32)) for _, source, _ in turns]
        for alike, those in groupby(range(len(turns)), lambda number: Uniform.of_rows(full[number][0])):
            some = list(those)
            addresses = alike.once(np.stack([full[number] for number in some], axis=2)).reshape(1, -1, 32)
            sinks = tuple(_sinks([turns[number] for number in some]))
            reach = int(addresses.min()), int(addresses.max()) + self.site.width
            yield LoadGroup(addresses, reach, self._span(addresses), alike, len(some), sinks)

    def _span(self, addresses: Ints) -> slice | None:
        """The bytes from the first to the last that is read, if at least half of them are."""
        read = np.unique(addresses[..., : self.site.how.lanes])
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


def _accesses(team: Team, turns: list[Turn]) -> Iterator[tuple[Site, list[Address], Line]]:
    """The accesses of each site, with their counts, if they are all inside of their buffers."""
    if any(loads.site.place is None or not loads.site.contains(team, source) for loads, source, _ in turns):
        return
    for site, those in groupby(turns, lambda turn: turn[0].site):
        every = [source for _, source, _ in those]
        yield site, every, site.counts_of_one(team, every)


def _key(turn: Turn) -> tuple[int, ...]:
    loads, source, target = turn
    return (id(loads), source.start, target.start, len(target.parts), *map(id, source.parts))


def is_load(stmt: Stmt) -> bool:
    """Is it a load of matrices at an address that depends on no memory?"""
    if not isinstance(stmt, Evaluate) or not isinstance(stmt.value, Call):
        return False
    bound = bind(stmt.value)
    if not _loads_matrices(bound.form) or bound.instruction.lanes != WHOLE_WARP or len(bound.read) != 1:
        return False
    registers = [index for one in bound.operands["r"] if isinstance(one, (Load, AddressOf)) for index in one.indices]
    return says_no_memory(*bound.operands["p"], *registers)


def _loads_matrices(form: Form) -> bool:
    moves = form.meaning.moves and form.meaning.on == "shared" and not form.concerns_operations
    return moves and [access.write for access in form.accesses] == [False]


def says_no_memory(*exprs: Expr) -> bool:
    """Do expressions depend on no memory?"""
    nodes = [node for expr in exprs for node in walk(expr)]
    computed = (bind(node).form.meaning.of_lanes for node in nodes if isinstance(node, Call))
    return not any(isinstance(node, Load) for node in nodes) and all(computed)
