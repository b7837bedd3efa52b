"""What is told when nobody can go on: who waits where, for what, and what might be missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tilewright.errors import SimulationError
from tilewright.isa import phase_state
from tilewright.sim.batch import lanes_text, numbers
from tilewright.sim.checks.coordinates import element_text
from tilewright.sim.sync import Asking

if TYPE_CHECKING:
    from tilewright.errors import Span
    from tilewright.sim.batch import Batch
    from tilewright.sim.chunk import Chunk
    from tilewright.sim.execution import Execution

__all__ = ["stuck"]

MOST_LINES = 32


def stuck(run: Execution, what: str, batches: list[Batch], others: list[Batch]) -> SimulationError:
    """The error: ``batches`` are to blame, the others wait as well."""
    lines = [line for batch in (*batches, *others) for line in _places(run, batch)]
    first = min(batches, key=lambda batch: batch.piece)
    ordered = [first, *batches]
    missing, hint = next(filter(None, map(_tensor_memory, ordered)), (_missing(ordered), None))
    if hint is None:
        ideas = (check.stuck(batch.chunk) for batch in batches for check in run.checks)
        hint = next(filter(None, ideas), None)
    return SimulationError(what, given="\n".join(lines[:MOST_LINES]), allowed=missing, hint=hint, at=_at(run, first))


def _at(run: Execution, batch: Batch) -> Span | None:
    return batch.meeting.place.at if batch.meeting else run.program.spans.get(batch.piece)


def _places(run: Execution, batch: Batch) -> list[str]:
    """Where a batch stands: one line for all CTAs that have the same lanes there."""
    what = batch.meeting.place.name if batch.meeting else "a loop that polls memory"
    alike: dict[bytes, list[int]] = {}
    active = batch.mask.full
    for cta in np.flatnonzero(active.any((1, 2))):
        alike.setdefault(active[cta].tobytes(), []).append(int(cta))
    at = _at(run, batch) or "somewhere"
    return [f"{at}: {what}: {_who(batch, ctas[0], len(ctas))}" for ctas in alike.values()]


def _who(batch: Batch, cta: int, ctas: int) -> str:
    row = numbers(batch.ctas)[cta]
    active = batch.mask.full[cta]
    own = np.array(numbers(batch.warps))
    warps = ", ".join(map(str, own[active.any(-1)]))
    some = active[active.any(-1)][0]
    more = f" and {ctas - 1} more CTAs" if ctas > 1 else ""
    return f"CTA {batch.chunk.cta_name(row)}{more}, warp {warps}, {lanes_text(some)}"


def _missing(batches: list[Batch]) -> str | None:
    """What the first that can say so waits for."""
    for batch in batches:
        if batch.meeting and batch.meeting.has_arrived:
            number = int(batch.meeting.barrier[0, 0])
            row = batch.ctas.start
            state = batch.chunk.barriers
            expected, arrived = int(state.expected[row, number]), int(state.arrived[row, number])
            return f"{expected} threads at barrier {number}; {arrived} have arrived"
        if isinstance(batch.meeting, Asking) and batch.meeting.mbarrier is not None:
            return _phase_text(batch.chunk, *_asked(batch))
        if batch.chunk.unmet:
            return _phase_text(batch.chunk, *batch.chunk.unmet[0])
    return None


def _tensor_memory(batch: Batch) -> tuple[str, str] | None:
    """What a batch that asks for tensor memory waits for, and what to do about it."""
    if not isinstance(batch.meeting, Asking) or batch.meeting.mbarrier is not None:
        return None
    return batch.chunk.columns.waited_for()


def _asked(batch: Batch) -> tuple[int, int]:
    """Row and shared address of the m-barrier that the first lane waits for."""
    cta, warp, lane = np.argwhere(batch.mask.full & ~batch.meeting.passed)[0]
    address = np.broadcast_to(batch.meeting.mbarrier.full(), batch.shape)[cta, warp, lane]
    return numbers(batch.ctas)[cta], int(address)


def _phase_text(chunk: Chunk, row: int, address: int) -> str:
    """What an m-barrier still waits for."""
    program = chunk.run.program
    name = element_text(program, program.places.shared_at(address), address)
    state = phase_state(chunk.shared.view(8)[row, address >> 3])
    bytes_too = f", {int(state.tx)} bytes to come" if state.tx else ""
    return (
        f"the end of a phase of the m-barrier {name} of CTA {chunk.cta_name(row)}: "
        f"{int(state.pending)} of {int(state.expected)} arrivals are missing"
        f"{bytes_too}; the running phase has parity {int(state.phase) % 2}"
    )
