"""The accesses of a run: the addresses of each warp, once for each pattern, and the sectors of global memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from tilewright.isa.machine import BANK_BYTES, BANKS, SECTOR_BYTES, default_phase
from tilewright.sim.machine.device import Events

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tilewright.errors import Span
    from tilewright.sim import Program
    from tilewright.sim.machine.address import Address
    from tilewright.sim.machine.event import AccessEvent, Hook
    from tilewright.sim.machine.sites import Site
    from tilewright.sim.machine.team import Team


IDLE = -1
"""Stands for the address of a lane that takes no part."""

MOST_PATTERNS = 8192
"""The most patterns of one site; later accesses are not recorded, and the advice says so."""


@dataclass(slots=True)
class Accesses:
    """The accesses of one site to one shared buffer.

    patterns: byte offsets from the start of the buffer of the 32 lanes of a warp, `IDLE` in those that take no part,
    and how many warps had that pattern. width: bytes of a lane. phase: lanes that are served together. pairs: a load,
    whose phases double where partners read the same place. is_matrix: rows of matrices, which must stay whole.
    """

    at: Span | None
    op: str
    place: str
    write: bool
    width: int
    lanes: int
    phase: int
    pairs: bool
    is_matrix: bool
    patterns: dict[bytes, int] = field(default_factory=dict)
    left_out: int = 0

    @property
    def rows(self) -> NDArray[np.int64]:
        """The patterns, (n, 32)."""
        return np.frombuffer(b"".join(self.patterns), np.int64).reshape(-1, 32)

    @property
    def times(self) -> NDArray[np.int64]:
        """How many warps had each pattern."""
        return np.fromiter(self.patterns.values(), np.int64, len(self.patterns))


@dataclass(slots=True)
class Sectors:
    """The 32-byte sectors of global memory that one site touches, and the fewest that would hold its bytes."""

    at: Span | None
    op: str
    place: str
    write: bool
    touched: int = 0
    ideal: int = 0
    step: int = 0
    """Bytes between neighbouring lanes, in the pattern with most sectors."""

    width: int = 0
    """Bytes of each of these lanes' accesses."""

    which: set[int] = field(default_factory=set)
    """The numbers of the sectors that were touched."""


@dataclass(slots=True)
class AccessRecorder(Events):
    """The accesses and sectors of a run, which fill while it goes on."""

    accesses: list[Accesses] = field(default_factory=list)
    sectors: list[Sectors] = field(default_factory=list)

    def watch(self, site: Site) -> Hook | None:
        """Records what the site touches."""
        place = site.place
        if place is None or place.space not in ("shared", "global"):
            return None
        if place.space == "global":
            self.sectors.append(Sectors(site.at, site.op, place.name, site.write))
            return _counting(self.sectors[-1], site.width)
        is_matrix = bool(site.how.phase)  # only rows of matrices have one
        phase, pairs = site.how.phase or default_phase(site.width), not (site.write or is_matrix)
        noted = Accesses(site.at, site.op, place.name, site.write, site.width, site.how.lanes, phase, pairs, is_matrix)
        self.accesses.append(noted)
        return _noting(noted, place.start)


def record(program: Program) -> tuple[list[Accesses], list[Sectors]]:
    """The accesses and sectors of the next run of ``program``; both lists fill while it runs."""
    recording = AccessRecorder()
    program.compiled.subscribe(recording)
    return recording.accesses, recording.sectors


def _rows(team: Team, at: Address) -> tuple[NDArray[np.int64], int]:
    """The addresses of each warp with `IDLE` for idle lanes, (n, 32), and how many warps each row stands for."""
    full = at.full()
    shape = full.shape if team.array is None else np.broadcast_shapes(full.shape, team.array.shape)
    rows = np.broadcast_to(full, (*shape[:-1], 32))
    if team.array is not None:
        rows = np.where(np.broadcast_to(team.array, rows.shape), rows, IDLE)
    rows = rows.reshape(-1, 32)
    return np.ascontiguousarray(rows, np.int64), team.shape[0] * team.shape[1] // (shape[0] * shape[1])


def _noting(into: Accesses, start: int) -> Hook:
    def note(event: AccessEvent) -> None:
        for rows, times in (_rows(event.team, at) for at in event.every):
            rows = np.where(rows == IDLE, IDLE, rows - start)
            rows[:, into.lanes :] = IDLE
            for row in rows:
                key = row.tobytes()
                if key in into.patterns or len(into.patterns) < MOST_PATTERNS:
                    into.patterns[key] = into.patterns.get(key, 0) + times
                else:
                    into.left_out += times

    return note


def _counting(into: Sectors, width: int) -> Hook:
    def count(event: AccessEvent) -> None:
        for rows, times in (_rows(event.team, at) for at in event.every):
            active = rows != IDLE
            first = np.where(active, rows // SECTOR_BYTES, IDLE)
            last = np.where(active, (rows + width - 1) // SECTOR_BYTES, IDLE)
            touched = _different(np.concatenate([first, last], 1) if width > 1 else first)
            into.which.update(np.unique(np.concatenate([first[active], last[active]])).tolist())
            ideal = -(-_different(np.where(active, rows // width, IDLE)) * width // SECTOR_BYTES)
            into.touched += int(touched.sum()) * times
            into.ideal += int(ideal.sum()) * times
            worst = rows[int((touched - ideal).argmax())]
            if (worst[:2] != IDLE).all() and (touched > ideal).any():
                into.step, into.width = int(worst[1] - worst[0]), width

    return count


def _different(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many different numbers each row has, `IDLE` left out."""
    ordered = np.sort(rows, 1)
    new = ordered[:, 1:] != ordered[:, :-1]
    count: NDArray[np.int64] = (new & (ordered[:, 1:] != IDLE)).sum(1) + (ordered[:, 0] != IDLE)
    return count


def cause(accesses: Iterable[Accesses]) -> str:
    """The lanes of the worst pattern that conflict in one bank: words for a line of the kernel."""
    worst = (1, "")
    for site in accesses:
        groups = site.rows[:, : site.lanes].reshape(-1, min(site.phase, site.lanes))
        for row in np.unique(groups, axis=0):
            lanes = np.flatnonzero(row != IDLE)
            words = row[lanes] // BANK_BYTES
            for bank in np.unique(words % BANKS):
                meeting = lanes[words % BANKS == bank]
                different = len(np.unique(words[words % BANKS == bank]))
                if different > worst[0]:
                    worst = different, f"{_lanes(meeting)} ask bank {bank} for {different} different words"
    return worst[1]


def _lanes(numbers: NDArray[np.int64]) -> str:
    shown = ", ".join(map(str, numbers[:4].tolist()))
    return f"lanes {shown}, ..." if len(numbers) > 4 else f"lanes {shown}"
