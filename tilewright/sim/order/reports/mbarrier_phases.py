"""What is wrong with the wait for an m-barrier: it is for another phase, or for another m-barrier."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.explain import advised, instruction, move, operand, other_parity
from tilewright.isa import Signal, phase_state
from tilewright.sim.machine import pointer_to
from tilewright.sim.order.reports.words import shared_text
from tilewright.terms import Operand, Told, barrier, call, told

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tilewright.errors import Span
    from tilewright.sim.order.asynchronous.scoreboard import OperationPart
    from tilewright.sim.order.knowledge.clocks import Clocks, Thread
    from tilewright.sim.order.knowledge.signal_history import PastSignal
    from tilewright.sim.order.races.clash import Clash


def _signals_of(clash: Clash, who: Thread, *, waits: bool) -> list[PastSignal]:
    """The arrivals, or the waits, of the warp of a thread of a race, the newest first."""
    first, (cta, thread) = clash.team.wave.first, who
    return list(clash.access.clocks.signal_history.of(cta - first, thread // 32, waits=waits))


def too_early(clash: Clash) -> Told | None:
    """What is wrong with the m-barrier between the threads of a race: a wait for another phase, or an arrival that
    comes before the access that it is to cover.
    """
    other, at = clash.other, clash.site.at
    if other is None or other.site.at is None or at is None:
        return None
    for wait in _signals_of(clash, clash.later, waits=True):
        arrivals = [one for one in _signals_of(clash, clash.earlier, waits=False) if one.where == wait.where]
        name = shared_text(clash.team.wave, wait.where[1])
        for arrival in reversed(arrivals):
            if arrival.time >= other.time and arrival.phase == wait.phase:
                return _other_phase(name, wait, f"line {arrival.line} arrives at", at.line)
        if before := next((one for one in arrivals if one.time < other.time), None):
            first, last = before.line, other.site.at.line
            text = (
                f"the arrival of line {first} at {name} behind line {last}"
                ": a wait covers what comes before an arrival, not what comes after it"
            )
            return advised(text, "arrival", "cta", (last,), ways=[(move(first, last + 1, last + 1),)])
    return None


def let_pass(clash: Clash, later: Iterable[tuple[str, int]]) -> Told | None:
    """The wait that let the earlier thread of a race pass though nobody had arrived yet, where the later one does.

    later: the m-barriers that the later thread will arrive at, by name, and the lines.
    """
    wave, history = clash.team.wave, clash.access.clocks.signal_history
    if clash.other is None or clash.other.site.at is None:
        return None
    program, tells = wave.run.program, dict(later)
    mine = {one.where: one.line for one in _signals_of(clash, clash.later, waits=False)}
    for wait in _signals_of(clash, clash.earlier, waits=True):
        line = mine.get(wait.where, tells.get(program.places.shared_at(wait.where[1]).name))
        arrived = any(one.phase == wait.phase - 1 & 3 for one in history.at(wait.where, waits=False))
        if line is not None and not arrived:
            name = shared_text(wave, wait.where[1])
            return _other_phase(name, wait, f"line {line} arrives at", clash.other.site.at.line)
    return None


def _other_phase(name: str, wait: PastSignal, tells: str, line: int) -> Told:
    parity = wait.phase & 1
    text = (
        f"a wait for parity {parity} of {name}, of the phase that {tells}, before line {line}: "
        f"the wait of line {wait.line} is for parity {1 - parity}, of a phase that counts as over"
    )
    return advised(text, "wait", "cta", (wait.line,), ways=[(other_parity(wait.line),)])


def too_soon(earlier: OperationPart, clocks: Clocks, place: tuple[int, int], at: Span | None) -> Told | None:
    """What is wrong with the wait for an operation that signals an m-barrier, where the knower at ``place`` (its row
    and number) goes on too soon; None where it does not wait at all, or where nothing is known.
    """
    operation, wave = earlier.operation, earlier.operation.team.wave
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
        signals, wrong = f"which the {operation.name} of line {earlier.at.line} signals", waits[0].line
        text = f"a wait for {name}, {signals}, before line {at.line}: the wait of line {wrong} is for {other}"
        ways = [(operand(wrong, "ptr", bar),)] if (bar := pointer_to(wave, offset)) is not None else []
        return advised(text, "wait", "cta", (wrong,), ways=ways)
    if operation not in wave.pending.queue:
        if all(wait.lanes):
            return None
        text = told("{} behind the wait of line {}, which some lanes make", barrier("warp"), wait.line)
        return advised(text, "barrier", "warp", (wait.line, at.line), barrier("warp"))
    state = phase_state(wave.shared.view(8)[row, offset >> 3])
    if not state.tx and any(one.effect.kind == "bytes" for one in operation.signals if isinstance(one.effect, Signal)):
        text = told(
            "{} where a thread arrives there: nobody has announced the bytes of line {}, so that the wait of line {} "
            "ends without them",
            *(call("ptx.mbarrier.arrive.expect_tx", Operand(name), Operand("bytes")), earlier.at.line, wait.line),
        )
        nbytes = sum(int(operation.amounts(one).sum()) for one in operation.signals)
        told_by = {one.line for one in clocks.signal_history.at((row, offset), waits=False) if one.line}
        ways = [(instruction(line, "ptx.mbarrier.arrive.expect_tx", nbytes),) for line in sorted(told_by)]
        return advised(text, "count", "cta", (earlier.at.line,), ways=ways)
    if wait.phase == state.phase:
        return _other_phase(name, wait, f"the {operation.name} of line {earlier.at.line} completes", at.line)
    return None
