"""Counting: instructions, bytes, and passes of shared memory for a warp: `tilewright.isa.machine.passes`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tilewright.isa.machine import EVERY, at_one_place, default_phase, passes
from tilewright.records import NotebookText

if TYPE_CHECKING:
    from tilewright.errors import Span
    from tilewright.sim.machine import Address, Bools

__all__ = ["COUNTED", "EVERY", "Counts", "Line", "default_phase", "wavefronts"]


@dataclass(slots=True)
class Line:
    """One place of the kernel that touches one buffer. accesses: of lanes; warps: that did so.

    For an asynchronous operation, accesses are those of the unit that carries it out: cells of tensor memory, and rows
    of 16 bytes that a copy reads. The wavefronts of those are not documented.
    """

    at: Span | None
    op: str
    buffer: str
    space: str
    write: bool
    accesses: int = 0
    warps: int = 0
    nbytes: int = 0
    wavefronts: int = 0
    ideal_wavefronts: int = 0

    @property
    def bank_conflicts(self) -> int:
        """Passes beyond the ideal."""
        return self.wavefronts - self.ideal_wavefronts

    def add(self, other: Line, times: int = 1) -> None:
        """Count what another line has counted: for one CTA, and for so many that do the same."""
        for name in COUNTED:
            setattr(self, name, getattr(self, name) + times * getattr(other, name))


COUNTED = ("accesses", "warps", "nbytes", "wavefronts", "ideal_wavefronts")


@dataclass(slots=True)
class Counts(NotebookText):
    """The counts of a run. instructions: warps that executed each kind; bytes_read, bytes_written: per memory, which is
    global, shared or tmem.
    """

    instructions: dict[str, int] = field(default_factory=dict)
    bytes_read: dict[str, int] = field(default_factory=dict)
    bytes_written: dict[str, int] = field(default_factory=dict)
    lines: list[Line] = field(default_factory=list)

    def summary(self) -> str:
        """In one line: instructions of warps, bytes of each memory, and passes of shared memory."""
        moved = [
            f"{space} {self.bytes_read.get(space, 0)} bytes read, {self.bytes_written.get(space, 0)} written"
            for space in dict.fromkeys((*self.bytes_read, *self.bytes_written))
            if space != "local"
        ]
        beyond = sum(line.bank_conflicts for line in self.lines)
        passes = [f"{self.wavefronts} passes of shared memory, {beyond} by bank conflicts"] if self.wavefronts else []
        return "; ".join([f"{sum(self.instructions.values())} instructions of warps", *moved, *passes])

    def table(self) -> list[str]:
        """A row for each line of the kernel that touches memory."""
        lines = [line for line in self.lines if line.space != "local" and line.accesses]
        rows = [("line", "buffer", "access", "bytes", "passes", "beyond the ideal")]
        rows += [
            (str(line.at or ""), line.buffer, "write" if line.write else "read", str(line.nbytes),
             str(line.wavefronts or ""), str(line.bank_conflicts or ""))
            for line in lines
        ]  # fmt: skip
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return ["  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)).rstrip() for row in rows]

    def __repr__(self) -> str:
        return f"<Counts: {self.summary()}>"

    def _notebook_text(self) -> str:
        """What a notebook shows: the counts of each line."""
        return "\n".join([repr(self), *self.table()])

    @property
    def wavefronts(self) -> int:
        """Passes of shared memory, of all lines."""
        return sum(line.wavefronts for line in self.lines)

    @property
    def ideal_wavefronts(self) -> int:
        """The fewest that these accesses could take."""
        return sum(line.ideal_wavefronts for line in self.lines)

    @property
    def bank_conflicts(self) -> int:
        """Passes beyond the ideal, of all lines."""
        return sum(line.bank_conflicts for line in self.lines)

    def __str__(self) -> str:
        rows: list[tuple[str, ...]] = [
            ("instruction", "warps"),
            *((name, f"{n:,}") for name, n in sorted(self.instructions.items())),
        ]
        text = [*_aligned(rows), ""]
        spaces = sorted({*self.bytes_read, *self.bytes_written})
        rows3: list[tuple[str, ...]] = [("memory", "bytes read", "bytes written")]
        rows3 += [(s, f"{self.bytes_read.get(s, 0):,}", f"{self.bytes_written.get(s, 0):,}") for s in spaces]
        text += [*_aligned(rows3), ""]
        head = ("line", "access", "buffer", "lanes", "wavefronts", "ideal", "conflicts")
        return "\n".join([*text, *_aligned([head, *map(_row, self.lines)])])


def _row(line: Line) -> tuple[str, ...]:
    shared = (f"{line.wavefronts:,}", f"{line.ideal_wavefronts:,}", f"{line.bank_conflicts:,}")
    passes = shared if line.ideal_wavefronts else ("", "", "")
    verb = "write" if line.write else "read"
    return (str(line.at or ""), f"{line.op} {verb}", line.buffer, f"{line.accesses:,}", *passes)


def _aligned(rows: list[tuple[str, ...]]) -> list[str]:
    """Columns side by side, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [cell.rjust(w) if cell[:1].isdigit() else cell.ljust(w) for cell, w in zip(row, widths, strict=True)]
        lines.append("  ".join(cells).rstrip())
    return lines


def wavefronts(
    at: Address, lanes: int, width: int, phase: int, active: Bools | None, *, pairs: bool = False
) -> tuple[int, int]:
    """(passes, fewest possible passes) of one access, summed over the warps and CTAs that ``at`` tells apart.

    lanes: how many of each warp count. pairs: is it a load, whose phases double where partners ask for the same? Kept
    with the address where it consists of one part, since adding a multiple of 128 bytes to it changes nothing.
    """
    if not at.parts:
        return at_one_place(lanes, 2 * phase if pairs and phase < 32 else phase, active)
    if len(at.parts) != 1 or active is not None:
        return passes(at.full(), lanes, width, phase, active, pairs=pairs)
    kept = at.parts[0].wavefronts
    key = (at.start % EVERY, lanes, width, phase, pairs)
    if key not in kept:
        kept[key] = passes(at.full(), lanes, width, phase, None, pairs=pairs)
    return kept[key]
