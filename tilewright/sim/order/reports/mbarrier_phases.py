"""What is wrong with the wait for an m-barrier: it is for another phase, or for another m-barrier."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.isa import Signal, phase_state
from tilewright.sim.order.reports.words import shared_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tilewright.errors import Span
    from tilewright.sim.order.asynchronous.parts import OperationPart
    from tilewright.sim.order.knowledge.actors import Thread
    from tilewright.sim.order.knowledge.clocks import Clocks
    from tilewright.sim.order.knowledge.signal_history import PastSignal
    from tilewright.sim.order.races.clash import Clash

__all__ = ["let_pass", "too_early", "too_soon"]


def _signals_of(clash: Clash, who: Thread, *, waits: bool) -> list[PastSignal]:
    """The arrivals, or the waits, of the warp of a thread of a race, the newest first."""
    first, (cta, thread) = clash.batch.wave.first, who
    return list(clash.access.clocks.signal_history.of(cta - first, thread // 32, waits=waits))


def too_early(clash: Clash) -> str | None:
    """What is wrong with the m-barrier between the threads of a race: a wait for another phase, or an arrival that
    comes before the access that it is to cover.
    """
    other, at = clash.other, clash.site.at
    if other is None or other.site.at is None or at is None:
        return None
    for wait in _signals_of(clash, clash.later, waits=True):
        arrivals = [one for one in _signals_of(clash, clash.earlier, waits=False) if one.where == wait.where]
        name = shared_text(clash.batch.wave, wait.where[1])
        for arrival in reversed(arrivals):
            if arrival.time >= other.time and arrival.phase == wait.phase:
                return _other_phase(name, wait, f"line {arrival.line} arrives at", at.line)
        if before := next((one for one in arrivals if one.time < other.time), None):
            return (
                f"the arrival of line {before.line} at {name} behind line {other.site.at.line}"
                ": a wait covers what comes before an arrival, not what comes after it"
            )
    return None


def let_pass(clash: Clash, later: Iterable[tuple[str, int]]) -> str | None:
    """The wait that let the earlier thread of a race pass though nobody had arrived yet, where the later one does.

    later: the m-barriers that the later thread will arrive at, by name, and the lines.
    """
    wave, history = clash.batch.wave, clash.access.clocks.signal_history
    if clash.other is None or clash.other.site.at is None:
        return None
    program, told = wave.run.program, dict(later)
    mine = {one.where: one.line for one in _signals_of(clash, clash.later, waits=False)}
    for wait in _signals_of(clash, clash.earlier, waits=True):
        line = mine.get(wait.where, told.get(program.places.shared_at(wait.where[1]).name))
        arrived = any(one.phase == wait.phase - 1 & 3 for one in history.at(wait.where, waits=False))
        if line is not None and not arrived:
            name = shared_text(wave, wait.where[1])
            return _other_phase(name, wait, f"line {line} arrives at", clash.other.site.at.line)
    return None


def _other_phase(name: str, wait: PastSignal, told: str, line: int) -> str:
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
    waits = list(clocks.signal_history.of(place[0], warp, waits=True))
    if not waits or at is None or earlier.at is None:
        return None
    name = shared_text(wave, offset)
    wait = next((one for one in waits if one.where == (row, offset)), None)
    if wait is None:
        other = shared_text(wave, waits[0].where[1])
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
