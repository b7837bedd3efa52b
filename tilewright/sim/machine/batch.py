"""A batch: a team that is at one segment of a kernel, with its values. Plain data that splits, merges and prints.

All arrays of a batch broadcast to its ``shape``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from tilewright.sim.machine.address import Part
from tilewright.sim.machine.arrays import Value
from tilewright.sim.machine.team import Look, Team, covering, numbers, within

if TYPE_CHECKING:
    from tilewright.sim.machine import BarrierSite, Bools, Crossing, Polling, Shape, Wave

__all__ = ["Batch", "merged"]

Environment = dict[str, Value]


class SpecialValues(dict[str, Value]):
    """The special registers of a batch, each made when first read, of the smallest shape."""

    def __init__(self, wave: Wave, ctas: slice, warps: slice) -> None:
        super().__init__()
        self.place = (wave, ctas, warps)

    def __missing__(self, name: str) -> Value:
        wave, *where = self.place
        self[name] = value = wave.special(name, *where)
        return value


@dataclass(eq=False)
class Batch:
    """env: values of the live variables by name. parts: address parts of these CTAs that were made before;
    thread_parts: those that depend on the warps only, kept for good. part: of those of a wave that begin apart; batches
    of two parts are merged only where a collective needs lanes of both.
    """

    team: Team
    env: Environment = field(default_factory=dict)
    segment: int = 0
    parts: dict[int, Part] = field(default_factory=dict)
    meeting: Crossing | Polling | None = None  # what it waits for: see `tilewright.sim.machine.sync`
    again: bool = False
    part: int = 0

    def __post_init__(self) -> None:
        self.wave, self.shape = self.team.wave, self.team.shape
        self.ctas, self.warps = self.team.ctas, self.team.warps
        self.special = SpecialValues(self.wave, self.ctas, self.warps)
        self.thread_parts: dict[int, Part] = self.wave.run.thread_parts(self.warps)

    @property
    def place(self) -> BarrierSite:
        """Where it waits."""
        assert self.meeting is not None
        return self.meeting.place

    def narrowed(self, team: Team, segment: int, *, waits: bool = False) -> Batch:
        """These lanes as a batch of their own, at ``segment``. waits: for what the whole batch waits for?"""
        active = team.full
        ctas = covering(np.flatnonzero(active.any((1, 2))))
        warps = covering(np.flatnonzero(active.any((0, 2))))
        rest = active[ctas, warps]
        env = {name: _taken(value, ctas, warps) for name, value in self.env.items()}
        meeting = self.meeting.narrowed(ctas, warps) if waits and self.meeting is not None else None
        look = Look(self.wave, within(self.ctas, ctas), within(self.warps, warps), rest.shape)
        return Batch(Team.of(look, rest), env, segment, meeting=meeting, part=self.part)

    def parted(self, some: Bools, segment: int) -> tuple[Batch, Batch]:
        """These lanes as a batch at ``segment``, and the others, which go on waiting."""
        rest = Team(self.team.look, self.team.full & ~some)
        return self.narrowed(Team(self.team.look, some), segment), self.narrowed(rest, self.segment, waits=True)

    def parting(self, some: Bools) -> tuple[Batch, list[Batch]]:
        """These lanes as a batch of their own, and the others, if there are any."""
        if np.count_nonzero(some) == self.team.lane_count:
            return self, []
        going, rest = self.parted(some, self.segment)
        return going, [rest]

    def apart(self, parts: list[Bools]) -> list[Batch]:
        """A batch of its own for each of these sets of its threads."""
        if len(parts) == 1:
            return [self]
        every = [self.narrowed(Team(self.team.look, part), self.segment) for part in parts]
        for number, batch in enumerate(every):
            batch.part = number
        return every


def _taken(value: Value, ctas: slice, warps: slice) -> Value:
    if not isinstance(value, np.ndarray) or value.ndim < 3:
        return value
    return value[ctas if value.shape[0] > 1 else slice(None), warps if value.shape[1] > 1 else slice(None)]


def merged(a: Batch, b: Batch, axes: dict[str, int]) -> Batch | None:
    """Two batches at one segment as one, or None where a value that must be equal in all of its lanes is not.

    axes: over what each live variable may vary; the others are dead and dropped.
    """
    env: Environment = {}
    both = a.team.in_wave() | b.team.in_wave()
    ctas, warps = covering(np.flatnonzero(both.any((1, 2)))), covering(np.flatnonzero(both.any((0, 2))))
    shape = (len(numbers(ctas)), len(numbers(warps)), 32)
    for name, over in axes.items():
        if a.env[name] is None and b.env[name] is None:  # no bit unknown in either
            env[name] = a.env[name]
            continue
        joined = _joined_value(a, b, name, over, (ctas, warps, shape))
        if joined is None:
            return None
        env[name] = joined
    rest = both[ctas, warps]
    team = Team.of(Look(a.wave, ctas, warps, shape), rest)
    part = min(a.part, b.part)
    return Batch(team, env, a.segment, meeting=a.meeting, again=a.again, part=part)


def _joined_value(a: Batch, b: Batch, name: str, over: int, where: tuple[slice, slice, Shape]) -> Value | None:
    x, y = a.env[name], b.env[name]
    x, y = y.dtype.type(0) if x is None else x, x.dtype.type(0) if y is None else y
    if not over or not isinstance(x, np.ndarray) or not isinstance(y, np.ndarray):
        return x if _equal(x, y) else _spread_value(a, b, (x, y), where) if over else None
    return _spread_value(a, b, (x, y), where)


def _spread_value(a: Batch, b: Batch, values: tuple[Value, Value], where: tuple[slice, slice, Shape]) -> Value:
    """Both values in the places of their own lanes."""
    ctas, warps, shape = where
    wave = (a.wave.ctas, a.wave.run.warps, 32)
    x = np.asarray(values[0])
    total = np.zeros((*wave, *x.shape[3:]), x.dtype)
    for batch, value in ((a, values[0]), (b, values[1])):
        window = total[batch.ctas, batch.warps]
        active = batch.team.full
        window[active] = np.broadcast_to(value, (*batch.shape, *x.shape[3:]))[active]
    return total[ctas, warps].reshape(*shape, *x.shape[3:])


def _equal(x: Value, y: Value) -> bool:
    return x is y or (np.shape(x) == np.shape(y) and bool(np.all(x == y)))
