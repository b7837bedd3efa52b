"""The error and the warning for bytes that are read as constants, and written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.errors import SimulationError
from tilewright.explain import OtherAccess
from tilewright.sim.machine.coordinates import coordinate_text
from tilewright.sim.order.reports.words import grid_thread_text
from tilewright.terms import Told, operation, told

if TYPE_CHECKING:
    from tilewright.sim.machine.wave import Wave
    from tilewright.sim.order.races.records import Record

__all__ = ["constant_rewritten", "constant_written"]


def constant_written(
    wave: Wave, read: Record, write: Record, reader: tuple[int, int], writer: tuple[int, int], address: int
) -> SimulationError:
    """A thread reads as a constant what another one writes. reader, writer: CTA of the grid, and thread."""
    one, other = (grid_thread_text(wave, *who) for who in (reader, writer))
    return SimulationError(
        _both(wave, read, address),
        given=f"{read.site.at}: {one}\nwritten{_at(write)}: {other}",
        allowed="reads through the cache of constants of what nobody writes while the kernel runs",
        hint="no __ldg, and no __restrict__ or const for an array that is written too",
        at=read.site.at,
        kind="races",
        threads=(wave.thread_at(*reader),),
        buffer=read.site.line.buffer or None,
        place=coordinate_text(wave.run.program, read.site, address),
        other=OtherAccess(write.site.op, "written", *_place(write), (wave.thread_at(*writer),)),
    )


def constant_rewritten(wave: Wave, read: Record, write: Record, address: int) -> Told:
    """The same of one thread that reads, and writes later."""
    what = _both(wave, read, address)
    return told(
        "{}: {}{}, the same thread later; another GPU may give it another value", read.site.at, what, _at(write)
    )


def _both(wave: Wave, read: Record, address: int) -> Told:
    place = coordinate_text(wave.run.program, read.site, address)
    what = operation(read.site.op)
    return told("{} reads {} as a constant (__ldg, .nc), and the kernel writes it", what, place)


def _at(write: Record) -> str:
    return f" at {write.site.at}" if write.site.at else ""


def _place(write: Record) -> tuple[str | None, int | None]:
    """The file and the line of a write."""
    at = write.site.at
    return (at.file, at.line) if at else (None, None)
