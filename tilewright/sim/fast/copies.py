"""Copies from global to shared memory: the turns of a loop, or a run of statements, at once, and once for all CTAs that
make the same.

The CTAs in a row of a grid load the same tile: their addresses in global memory are equal, and so are those in shared
memory, each in its own CTA. Such copies read for one of them, in the order in which the bytes lie in shared memory, and
give the bytes to all; shared memory remembers who has the same (`MemoryRows.fill`). In which order the reads are is
found once for each pattern of addresses.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from tilewright.sim.machine import FAR, WINDOW_BITS, Address, Batch, Line, Mask, Move, Part, spread

MOST_PLANS = 64

Turn = tuple["Fills | None", Address, Address]  # of one copy: where it reads, and where it writes


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
class Fills:
    """A copy of a kernel into a buffer of shared memory. of_windows: where a pointer of run time says from where, the
    same from the buffer of each window.
    """

    move: Move
    plans: dict[tuple[int, ...], FillPlan | None] = field(default_factory=dict)
    of_windows: dict[int, Fills] = field(default_factory=dict)

    def __call__(self, batch: Batch, mask: Mask, turns: list[Turn]) -> None:
        plan = self._plan(batch, turns) if mask.array is None and self._is_plain(batch, turns) else None
        if plan is None:
            for _, source, target in turns:
                self.move(batch, mask, source, target)
            return
        self._touch(batch, mask, turns, plan)
        self._fill(batch, mask, turns, plan)

    def of_sound(self, batch: Batch, mask: Mask, turns: list[Turn]) -> bool:
        """The same of compiled code; False, and nothing done, where what it reads may be uninitialised."""
        if self.move.with_shadows and batch.wave.run.dependence is not None:
            return False
        own = self
        if self.move.source.place is None:
            window = self._window(batch, turns)
            if window is None:
                return False
            if window not in self.of_windows:
                source = self.move.source.inside(batch, window, Address(0), mask)
                self.of_windows[window] = Fills(replace(self.move, source=source))
            own, start = self.of_windows[window], window << WINDOW_BITS
            turns = [(own, source.shifted(-start), target) for _, source, target in turns]
        own(batch, mask, turns)
        return True

    @staticmethod
    def _window(batch: Batch, turns: list[Turn]) -> int | None:
        """The window of the one global buffer that all turns read."""
        (window, *others) = {end >> WINDOW_BITS for _, at, _ in turns for end in (at.lo, at.hi + FAR)}
        return window if not others and window in batch.wave.run.places.globals else None

    def _touch(self, batch: Batch, mask: Mask, turns: list[Turn], plan: FillPlan) -> None:
        """The checks and counts of every copy."""
        source, target = self.move.source, self.move.target
        assert source.place is not None
        memory, read_at = batch.wave.storage(source.place), {at.start: read for _, read, at in turns}
        source.touch_all(batch, mask, [read for _, read, _ in turns], plan.counts[0])
        target.pending = lambda at: memory.load(batch, read_at[at.start], source.width)
        target.touch_all(batch, mask, [at for *_, at in turns], plan.counts[1])
        target.pending = None

    def _fill(self, batch: Batch, mask: Mask, turns: list[Turn], plan: FillPlan) -> None:
        source, target, (_, read, first), (*_, last) = self.move.source, self.move.target, turns[0], turns[-1]
        assert source.place is not None
        alike, start, end = read.alike(batch.shape[0]), first.lo, last.hi + target.width
        look, of_ctas = batch.firsts(alike), [part for part in read.firsts(alike).parts if part not in plan.parts]
        units = batch.wave.storage(source.place).load(look, Address(read.start, *of_ctas, plan.order), source.width)
        batch.wave.shared.fill(batch.ctas, start, spread(units[:, 0], (look.shape[0], units.shape[2])), alike)
        if self.move.with_shadows and not batch.wave.shadows.shared.are_set(start, end):
            for *_, at in turns:
                target.store_flags(batch, mask, at, None)

    def _is_plain(self, batch: Batch, turns: list[Turn]) -> bool:
        """Are all addresses inside of their buffers, and aligned?"""
        sides = [(self.move.source, source) for _, source, _ in turns] + [(self.move.target, at) for _, _, at in turns]
        return all(site.contains(batch, at) and not at.bits & (site.width - 1) for site, at in sides)

    def _plan(self, batch: Batch, turns: list[Turn]) -> FillPlan | None:
        """None where the turns have to go one by one."""
        _, first, _ = turns[0]
        parts = [part for _, source, target in turns for part in (*source.parts, *target.parts)]
        if any(source.parts != first.parts for _, source, _ in turns) or not all(part.kept for part in parts):
            return None
        starts = [number for _, source, target in turns for number in (source.start - first.start, target.start)]
        some = [part for part in parts if len(part.values) == 1]
        key = (batch.shape[1], *starts, *map(id, some))
        if key not in self.plans:
            if len(self.plans) >= MOST_PLANS:
                self.plans.clear()
            self.plans[key] = self._planned(batch, turns, tuple(some))
        return self.plans[key]

    def _planned(self, batch: Batch, turns: list[Turn], parts: tuple[Part, ...]) -> FillPlan | None:
        (_, first, start), width, shape = turns[0], self.move.target.width, (1, *batch.shape[1:])
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
        sides = (self.move.source, [read for _, read, _ in turns]), (self.move.target, [at for *_, at in turns])
        counts = [site.counts_of_one(batch, every) for site, every in sides]
        return FillPlan(Part(np.concatenate(found).reshape(1, 1, -1), kept=True), parts, (counts[0], counts[1]))
