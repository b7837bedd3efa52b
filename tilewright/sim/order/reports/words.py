"""Words that reports share: threads, elements of shared memory, and the names of fences, as a kernel has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.errors import SimulationError
from tilewright.explain import OtherAccess, place_of
from tilewright.sim.machine import Device, Wave, element_text
from tilewright.terms import Term, told

if TYPE_CHECKING:
    from tilewright.errors import Span


def grid_thread_text(wave: Wave, cta: int, thread: int) -> str:
    """``CTA (0, 0, 0), warp 1, lane 2`` of a CTA of the grid, also of another wave."""
    return wave.thread_name(cta - wave.first, thread)


def shared_text(wave: Wave, byte: int) -> str:
    """The element of shared memory that has a byte: ``bar[0]``."""
    return element_text(wave.run.program, wave.run.places.shared_at(byte), byte)


def not_yet_written(
    run: Device,
    reader: tuple[str | Term, Span | None, str],
    writer: tuple[str | Term, Span | None, str],
    place: str,
    barrier: str | Term,
    hint: str | None = None,
    buffer: str | None = None,
) -> SimulationError:
    """The error for a place whose reader has found nothing there, before the writer that it races with; each is what
    accesses it, where, and who that is. barrier: what belongs between them. buffer: that of the place.
    """
    run.unwritten = "found"
    first, then = (at.line if at else 0 for at in (writer[1], reader[1]))
    return SimulationError(
        told("race: {} reads {}, which {} has not written yet", reader[0], place, writer[0]),
        given=f"{reader[1]}: {reader[2]}\nwritten at {writer[1]}: {writer[2]}",
        allowed="a value that has been written, by an access that is known to come before",
        hint=hint or told("line {} before line {}, and {} between them", first, then, barrier),
        at=reader[1],
        kind="races",
        place=place,
        other=OtherAccess(str(writer[0]), "written", **place_of(writer[1])),
        buffer=buffer,
    )
