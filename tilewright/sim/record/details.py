"""The statements of some warps one by one: lanes, values, the addresses that they touch, the registers that change."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from tilewright.sim.record.recording import Step, Steps

if TYPE_CHECKING:
    from tilewright.sim.machine import Array, Bools, Device, Ints, Value, Wave

POWERS = 1 << np.arange(32, dtype=np.uint64)


@dataclass(slots=True)
class OpenStep:
    """A step that its statement's effects are still added to."""

    seq: int
    row: int
    lanes: int
    value: Array | None = None
    touched: list[tuple[int, Ints]] = field(default_factory=list)
    registers: list[tuple[int, int, Array]] = field(default_factory=list)
    tmem: tuple[int, int, Array] | None = None


class Detailed:
    """The steps of one warp while they are written. room: bytes that may still be kept; tmem: what tensor memory
    held, by CTA; all of them share both.
    """

    def __init__(self, cta: int, warp: int, room: list[int], tmem: dict[int, Array]) -> None:
        self.cta = cta
        self.warp = warp
        self.room = room
        self.tmem = tmem
        self.steps: list[OpenStep] = []
        self.before: dict[str, Array] = {}
        self.is_whole = True
        self.may_change = True  # may the last statement have changed registers?

    def begin(self, seq: int, row: int, lanes: Bools, wave: Wave, *, computes: bool) -> None:
        """Another statement; what the last one did to registers is added to it. computes: does it change none?"""
        if self.may_change:
            self.settle(wave)
        self.may_change = not computes
        self.room[0] -= 16
        if self.room[0] < 0:
            self.is_whole = False
            return
        self.steps.append(OpenStep(seq, row, int(POWERS[lanes].sum())))

    def keep(self, value: Value, i: int, j: int) -> None:
        """The value that the statement gives its variable; i, j: the warp's place in a batch."""
        array = np.asarray(value)
        if not self.steps or not self.is_whole or array.dtype.kind not in "biuf" or array.ndim > 4:
            return
        if array.ndim >= 3:
            array = array[i if len(array) > 1 else 0, j if array.shape[1] > 1 else 0]
        kept = np.array(array.reshape(-1) if array.ndim != 2 else array)
        self.room[0] -= kept.nbytes
        self.steps[-1].value = kept

    def touch(self, site: int, addresses: Ints) -> None:
        """The addresses of an access of the statement."""
        if self.steps and self.is_whole:
            lanes = np.array(np.broadcast_to(addresses, 32))
            self.room[0] -= lanes.nbytes
            self.steps[-1].touched.append((site, lanes))

    def settle(self, wave: Wave) -> None:
        """Adds the registers that have changed since the last statement began."""
        if not self.is_whole or not wave.registers:
            return
        if "tmem" in vars(wave) and self.steps:
            self._settle_tmem(wave.tmem[self.cta - wave.first].T, self.steps[-1])
        for number, (name, registers) in enumerate(wave.registers.items()):
            view = registers.view(min(4, registers.unit))[self.cta - wave.first, self.warp]
            before = self.before.get(name)
            if before is None or not np.array_equal(view, before):
                self.before[name] = view.copy()
                if before is not None and self.steps:
                    self._changed(self.steps[-1], number, view, before)

    def _settle_tmem(self, now: Array, step: OpenStep) -> None:
        """The cells that have changed since any warp looked last. now: (lanes, columns)."""
        before = self.tmem.get(self.cta)
        changed = now != (0 if before is None else before)
        if changed.any():
            self.tmem[self.cta] = now.copy()
            lanes, columns = np.flatnonzero(changed.any(1)), np.flatnonzero(changed.any(0))
            box = now[lanes[0] : lanes[-1] + 1, columns[0] : columns[-1] + 1].copy()
            step.tmem = int(lanes[0]), int(columns[0]), box
            self.room[0] -= box.nbytes

    def _changed(self, step: OpenStep, number: int, view: Array, before: Array) -> None:
        """The words of a buffer that differ. view: (units, 32, words of a unit)."""
        now, was = (np.swapaxes(state, 1, 2).reshape(-1, 32) for state in (view, before))
        changed = np.flatnonzero((now != was).any(1))
        step.registers += [(number, int(word), now[word].copy()) for word in changed]
        self.room[0] -= 140 * len(changed)

    def done(self, run: Device) -> Steps:
        """All of them."""
        names = tuple(place.name for place in run.places.locals)
        steps = (Step(step.seq, step.row, step.lanes, step.value, tuple(step.touched), tuple(step.registers), step.tmem)
                 for step in self.steps)  # fmt: skip
        return Steps(self.cta, self.warp, names, tuple(steps), self.is_whole)
