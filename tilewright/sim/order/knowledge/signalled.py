"""The last arrivals and waits at m-barriers, so that a report names the wait that let a thread go on too early."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tilewright.isa import Signal, phase_state
from tilewright.sim.machine.coordinates import element_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tilewright.errors import Span
    from tilewright.sim.machine.wave import Wave
    from tilewright.sim.order.asynchronous.operations import OperationPart
    from tilewright.sim.order.knowledge.channels import Signals
    from tilewright.sim.order.knowledge.clocks import Clocks
    from tilewright.sim.order.races.judge import Clash

__all__ = ["Moment", "Signalled", "let_pass", "too_early", "too_soon"]

KEPT = 1024  # moments of a wave


@dataclass(frozen=True, eq=False, slots=True)
class Moment:
    """Warps arrive at m-barriers, or find a phase there over. time: of the clocks."""

    signals: Signals
    at: Span | None
    time: int
    waits: bool


@dataclass(frozen=True, eq=False, slots=True)
class _One:
    """The part of one warp in a moment. where: row and offset of the m-barrier. phase: the one that it ran then."""

    line: int
    time: int
    where: tuple[int, int]
    phase: int
    lanes: list[bool]


class Signalled:
    """The last such moments of a wave."""

    def __init__(self) -> None:
        self._last: deque[Moment] = deque(maxlen=KEPT)

    def note(self, signals: Signals, at: Span | None, time: int, *, waits: bool) -> None:
        """One more."""
        self._last.append(Moment(signals, at, time, waits))

    def of(self, row: int, warp: int, *, waits: bool) -> Iterator[_One]:
        """The arrivals, or the waits, of a warp; the newest first."""
        for moment in reversed(self._last):
            if moment.waits is waits and moment.at is not None:
                who, signals = moment.signals.who, moment.signals
                for k in np.flatnonzero((who.rows == row) & (who.warps == warp)).tolist():
                    where = int(signals.home[k]), int(signals.offset[k])
                    yield _One(moment.at.line, moment.time, where, int(signals.phase[k]), who.lanes[k].tolist())

    def has_arrival(self, where: tuple[int, int], phase: int) -> bool:
        """Is it known that a thread arrived for such a phase of an m-barrier?"""
        each = (one.signals for one in self._last if not one.waits)
        return any(bool(((s.home == where[0]) & (s.offset == where[1]) & (s.phase == phase)).any()) for s in each)


def _named(wave: Wave, offset: int) -> str:
    program = wave.run.program
    return element_text(program, program.places.shared_at(offset), offset)


def too_early(clash: Clash) -> str | None:
    """What is wrong with the m-barrier between the threads of a race: a wait for another phase, or an arrival that
    comes before the access that it is to cover.
    """
    wave, known = clash.batch.wave, clash.access.clocks.signalled
    other, at = clash.other, clash.site.at
    if other is None or other.site.at is None or at is None:
        return None
    arrivals = list(known.of(clash.other_cta - wave.first, clash.other_thread // 32, waits=False))
    for wait in known.of(clash.cta - wave.first, clash.thread // 32, waits=True):
        for arrival in reversed([one for one in arrivals if one.where == wait.where]):
            if arrival.time >= other.time and arrival.phase == wait.phase:
                return _other_phase(_named(wave, wait.where[1]), wait, f"line {arrival.line} arrives at", at.line)
        if any(one.where == wait.where and one.time < other.time for one in arrivals):
            arrival = next(one for one in arrivals if one.where == wait.where and one.time < other.time)
            return (
                f"the arrival of line {arrival.line} at {_named(wave, wait.where[1])} behind line {other.site.at.line}"
                ": a wait covers what comes before an arrival, not what comes after it"
            )
    return None


def let_pass(clash: Clash, later: Iterable[tuple[str, int]]) -> str | None:
    """The wait that let the earlier thread of a race pass though nobody had arrived yet, where the later one does.

    later: the m-barriers that the later thread will arrive at, by name, and the lines.
    """
    wave, known = clash.batch.wave, clash.access.clocks.signalled
    if clash.other is None or clash.other.site.at is None:
        return None
    program, told = wave.run.program, dict(later)
    mine = {one.where: one.line for one in known.of(clash.cta - wave.first, clash.thread // 32, waits=False)}
    for wait in known.of(clash.other_cta - wave.first, clash.other_thread // 32, waits=True):
        line = mine.get(wait.where, told.get(program.places.shared_at(wait.where[1]).name))
        if line is not None and not known.has_arrival(wait.where, wait.phase - 1 & 3):
            name = _named(wave, wait.where[1])
            return _other_phase(name, wait, f"line {line} arrives at", clash.other.site.at.line)
    return None


def _other_phase(name: str, wait: _One, told: str, line: int) -> str:
    parity = wait.phase & 1
    return (
        f"a wait for parity {parity} of {name}, of the phase that {told}, before line {line}: "
        f"the wait of line {wait.line} is for parity {1 - parity}, of a phase that counts as over"
    )


def too_soon(earlier: OperationPart, clocks: Clocks, place: tuple[int, int], at: Span | None) -> str | None:
    """What is wrong with the wait for an operation that signals an m-barrier, where the knower at ``place`` (its row
    and number) goes on too soon; None where it does not wait at all, or where nothing is known.
    """
    operation, wave = earlier.operation, earlier.operation.batch.wave
    where = [found for one in operation.signals for found in zip(one.rows.tolist(), one.at.tolist(), strict=True)]
    row, offset = next((found for found in where if found[0] == place[0]), where[0])
    warp = next((thread // 32 for thread, knower in clocks.alone.items() if knower == place[1]), place[1])
    waits = list(clocks.signalled.of(place[0], warp, waits=True))
    if not waits or at is None or earlier.at is None:
        return None
    name = _named(wave, offset)
    wait = next((one for one in waits if one.where == (row, offset)), None)
    if wait is None:
        other = _named(wave, waits[0].where[1])
        told = f"which the {operation.name} of line {earlier.at.line} signals"
        return f"a wait for {name}, {told}, before line {at.line}: the wait of line {waits[0].line} is for {other}"
    if operation not in wave.pending.queue:
        return (
            None
            if all(wait.lanes)
            else f"T.cuda.warp_sync() behind the wait of line {wait.line}, which some lanes make"
        )
    state = phase_state(wave.shared.view(8)[row, offset >> 3])
    if not state.tx and any(one.effect.kind == "bytes" for one in operation.signals if isinstance(one.effect, Signal)):
        return (
            f"T.ptx.mbarrier.arrive.expect_tx({name}, bytes) where a thread arrives there: nobody has announced "
            f"the bytes of line {earlier.at.line}, so that the wait of line {wait.line} ends without them"
        )
    if wait.phase == state.phase:
        return _other_phase(name, wait, f"the {operation.name} of line {earlier.at.line} completes", at.line)
    return None
