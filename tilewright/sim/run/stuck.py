"""The error when no thread can go on: which threads wait where, for what, and what may be missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tilewright.errors import SimulationError
from tilewright.explain import Way, advised, either, insert, operand, other_parity
from tilewright.ir.launch import LANE, WARP
from tilewright.isa import phase_state
from tilewright.sim.machine.batch import first_of, first_warp, lanes_text, numbers, threads_of
from tilewright.sim.machine.places import element_text, pointer_to, split
from tilewright.sim.machine.sync import Crossing, Polling
from tilewright.terms import Operand, Told, barrier, call, meeting, operation, strong, told

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tilewright.errors import Span
    from tilewright.sim.machine import Batch, Wave
    from tilewright.sim.run.execution import Execution

MOST_LINES = 32


def stuck(run: Execution, kind: str, what: str, batches: list[Batch], others: list[Batch]) -> SimulationError:
    """The error: ``batches`` are to blame, the others wait as well."""
    lines = [*_ended(run, (*batches, *others)), *(line for wait in (*batches, *others) for line in _places(run, wait))]
    first = min(batches, key=lambda batch: batch.segment)
    ordered = [first, *batches]
    missing, hint = next(filter(None, map(_tmem, ordered)), (_missing(ordered), None))
    if hint is None:
        waited = _awaited(ordered + others)  # the check of order knows more than an m-barrier's signals
        ideas = (check.stuck(batch.wave, waited) for batch in batches for check in reversed(run.checks))
        hint = next(filter(None, ideas), None)
        if hint is not None and waited:
            hint = either(
                hint, *[(other_parity(_at_line(batch)),) for batch in ordered if _asked(batch) and _at_line(batch)]
            )
        hint = hint or _apart([*batches, *others]) or _together(run, first) or _told(ordered)
    if run.not_begun and run.room() < run.cluster_ctas:
        most = run.watch.limits.ctas
        missing = (
            f"{most} CTAs at once, as the GPU has room for; {run.not_begun} have not begun, and those wait for them"
        )
        hint = f"a grid of at most {most} CTAs that each do more, or CTAs of fewer threads, registers or shared bytes"
    return SimulationError(
        f"{kind}: {what}",
        given=told("\n".join("{}" for _ in lines[:MOST_LINES]), *lines[:MOST_LINES]),
        allowed=missing,
        hint=hint,
        at=_at(run, first),
        kind=kind,
        threads=tuple(thread for batch in _polling(batches, others) for thread in threads_of(batch, batch.mask.full)),
    )


def _polling(batches: list[Batch], others: list[Batch]) -> list[Batch]:
    """Those that wait for what other threads tell, as the rest may wait for them; all where there are none."""
    return [batch for batch in (*batches, *others) if batch.meeting is None] or batches


def _ended(run: Execution, waiting: Sequence[Batch]) -> Iterator[str]:
    """The GPUs among several whose threads have all ended, so that they tell nobody anything any more."""
    left = {int(rank) for batch in waiting for rank in batch.ranks[batch.mask.full.any((1, 2))].reshape(-1)}
    if run.ranks > 1 and not run.not_begun and (gone := sorted({*range(run.ranks)} - left)):
        yield f"rank{'s' * (len(gone) > 1)} {', '.join(map(str, gone))}: all threads have ended"


def _apart(batches: Sequence[Batch]) -> Told | None:
    """A hint, where threads of a CTA wait at barriers of different numbers."""
    waiting = dict[int, tuple[int, int]]()  # by line, the number and how many threads it is for
    for batch in batches:
        if isinstance(batch.meeting, Crossing) and batch.meeting.barrier is not None and batch.meeting.place.at:
            number = int(batch.meeting.barrier[0, 0])
            expected = int(batch.wave.barriers.expected[batch.ctas.start, number])
            waiting[batch.meeting.place.at.line] = number, expected
    if len({number for number, _ in waiting.values()}) < 2:
        return None
    (first, (here, _)), (then, (other, _)), *_ = waiting.items()
    text = (
        f"one barrier for both: line {first} waits at barrier {here}, line {then} at barrier {other}; or each of them "
        "by all of its threads"
    )
    pairs = [(here, there) for here in waiting for there in waiting if waiting[here][0] != waiting[there][0]]
    ways = [(operand(here, "id", waiting[there][0]),) for here, there in pairs]
    ways += [(insert(told("{}", call("ptx.bar.sync", *waiting[there])), here),) for here, there in pairs]
    return advised(text, "barrier", "cta", tuple(waiting), ways=ways)


def _together(run: Execution, batch: Batch) -> Told | None:
    """A hint: a place where all threads that a barrier waits for come by."""
    if not isinstance(batch.meeting, Crossing):
        return None
    name = batch.meeting.place.name
    parting = run.program.text.kept_apart(batch.meeting.place.at, LANE | WARP)
    if parting is None:
        return None
    counted = ", or the number of threads that come by as its count" if name.startswith("ptx.bar") else ""
    text = told("{} once, outside of the condition of line {}{}", meeting(name), parting.line, counted)
    return advised(text, "barrier", "cta", ways=[(insert(told("{}", barrier("cta")), 0),)] * (name == "cuda.cta_sync"))


def _told(batches: list[Batch]) -> Told | None:
    """A hint: what would end a wait for other threads' signals."""
    for batch in batches:
        if mbarriers := [*_asked(batch), *batch.wave.unmet]:
            return _arrivals(batch.wave, *mbarriers[0], _at_line(batch))
        if batch.meeting is None:
            return told("a store to what the loop reads, by a thread that does not wait: {}", strong("st", "release"))
    return None


def _arrivals(wave: Wave, row: int, address: int, line: int) -> Told:
    """The statements that end the phase of an m-barrier."""
    state = phase_state(wave.shared.view(8)[row, address >> 3])
    came = int(state.expected) - int(state.pending)
    if not came and not state.tx:
        text = f"an arrival by each of {int(state.expected)}; or a wait for the other parity, of a phase that is over"
        ways = [*[(other_parity(line),)] * bool(line), *arrival_anywhere(wave, address)]
        return advised(text, "wait", "cta", (line,), ways=ways)
    if not state.pending:
        fewer = call("ptx.mbarrier.arrive.expect_tx", Operand("bar"), Operand("n"))
        return told("a copy that brings the {} bytes; or fewer in {}", int(state.tx), fewer)
    init = call("ptx.mbarrier.init", Operand("bar"), came)
    text = told("{}, as {} arrive; or {} arrivals more", init, came, int(state.pending))
    inits = wave.run.program.text.inits(wave.run.places.shared_at(address).name)
    fewer_ways = [(operand(line_of, "count", count - int(state.pending)),) for line_of, count in inits if count]
    return advised(text, "count", "cta", ways=[*fewer_ways, *arrival_anywhere(wave, address)])


def arrival_anywhere(wave: Wave, address: int) -> list[Way]:
    """One arrival more, wherever it belongs."""
    bar = pointer_to(wave, address)
    return [] if bar is None else [(insert(told("{}", call("ptx.mbarrier.arrive", bar)), 0),)]


def _at_line(batch: Batch) -> int:
    at = batch.meeting.place.at if batch.meeting else None
    return at.line if at else 0


def _at(run: Execution, batch: Batch) -> Span | None:
    return batch.meeting.place.at if batch.meeting else run.program.spans.get(batch.segment)


def _places(run: Execution, batch: Batch) -> list[str]:
    """The places of a batch: one line for all CTAs that have the same lanes there."""
    what = operation(batch.meeting.place.name) if batch.meeting else "a loop that polls memory"
    alike: dict[bytes, list[int]] = {}
    active = batch.mask.full
    for cta in np.flatnonzero(active.any((1, 2))):
        alike.setdefault(active[cta].tobytes(), []).append(int(cta))
    at = _at(run, batch) or "somewhere"
    return [told("{}: {}: {}", at, what, _who(batch, ctas[0], len(ctas))) for ctas in alike.values()]


def _who(batch: Batch, cta: int, ctas: int) -> str:
    row = numbers(batch.ctas)[cta]
    active = batch.mask.full[cta]
    numbers_of = np.array(numbers(batch.warps))
    warps = ", ".join(map(str, numbers_of[active.any(-1)]))
    some = active[active.any(-1)][0]
    more = f" and {ctas - 1} more CTAs" if ctas > 1 else ""
    return f"CTA {batch.wave.cta_name(row)}{more}, warp {warps}, {lanes_text(some)}"


def _missing(batches: list[Batch]) -> str | None:
    """The hint for the first batch for which there is one."""
    for batch in batches:
        if isinstance(batch.meeting, Crossing) and batch.meeting.barrier is not None:
            number = int(batch.meeting.barrier[0, 0])
            row = batch.ctas.start
            state = batch.wave.barriers
            expected, arrived = int(state.expected[row, number]), int(state.arrived[row, number])
            return f"{expected} threads at barrier {number}; {arrived} have arrived"
        if mbarriers := [*_asked(batch), *batch.wave.unmet]:
            return _phase_text(batch.wave, *mbarriers[0])
    return None


def _tmem(batch: Batch) -> tuple[str, str] | None:
    """What a batch that asks for tensor memory waits for, and what to do about it."""
    asks = isinstance(batch.meeting, Polling) and batch.meeting.mbarrier is None
    return batch.wave.columns.waited_for() if asks else None


def _awaited(batches: list[Batch]) -> list[tuple[int, int]]:
    """Rows and addresses of the m-barriers that threads of the first one's wave wait for."""
    places = [where for batch in batches if batch.wave is batches[0].wave for where in _asked(batch)]
    return list(dict.fromkeys([*places, *batches[0].wave.unmet]))


def _asked(batch: Batch) -> list[tuple[int, int]]:
    """Row and shared address of the m-barrier that the first lane waits for, if it waits for one."""
    polling = batch.meeting
    if not isinstance(polling, Polling) or polling.mbarrier is None:
        return []
    waiting = batch.mask.full & ~polling.passed
    row, address = numbers(batch.ctas)[first_warp(waiting)[0]], first_of(polling.mbarrier.full(), waiting)
    rows, offsets = split(batch.wave, np.array([row]), np.array([address]))  # of another CTA, where the address says so
    return [(int(rows[0]), int(offsets[0]))]


def _phase_text(wave: Wave, row: int, address: int) -> str:
    """What an m-barrier still waits for."""
    program = wave.run.program
    name = element_text(program, program.places.shared_at(address), address)
    state = phase_state(wave.shared.view(8)[row, address >> 3])
    bytes_too = f", {int(state.tx)} bytes to come" if state.tx else ""
    return (
        f"the end of a phase of the m-barrier {name} of CTA {wave.cta_name(row)}: "
        f"{int(state.pending)} of {int(state.expected)} arrivals are missing"
        f"{bytes_too}; the running phase has parity {int(state.phase) % 2}"
    )
