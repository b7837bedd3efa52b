"""What the warps of a chunk know of its asynchronous operations, and what those have touched last.

See `tilewright.sim.checks.completion` for how it is used.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.isa import phase_state
from tilewright.sim.batch import numbers
from tilewright.sim.checks.phases import Phases
from tilewright.sim.remote import split
from tilewright.sim.tensor import COLUMNS, LANES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from tilewright.errors import Span
    from tilewright.sim.address import Address
    from tilewright.sim.batch import Batch
    from tilewright.sim.chunk import Chunk
    from tilewright.sim.masks import Bools, Mask
    from tilewright.sim.pending import Operation

__all__ = ["NOTHING", "UNIT", "Knowledge", "Loading", "Part", "Stretch", "Told", "Warp", "barriers_of", "both"]

UNIT = 16  # bytes of shared memory that one number stands for
Told = tuple[int, int]  # what is complete, and what of it is in order
NOTHING: Told = (0, 0)


def both(a: Told, b: Told) -> Told:
    return a[0] | b[0], a[1] | b[1]


@dataclass
class Warp:
    """What a warp knows: sets of operation numbers, see the top of this file."""

    seen: int = 0
    offered: int = 0
    heard: int = 0
    ordered: int = 0

    def told(self) -> Told:
        """What others learn by meeting this warp."""
        return self.seen, self.offered | self.heard

    def learns(self, told: Told) -> None:
        self.seen |= told[0]
        self.heard |= told[1]


@dataclass(eq=False)
class Part:
    """What one thread or warp has issued of an operation. actor: its place among those of the operation.

    commit: the first one after it, of the same thread.
    """

    number: int
    operation: Operation
    actor: int
    commit: Operation | None = None

    @property
    def bit(self) -> int:
        return 1 << self.number

    @property
    def place(self) -> tuple[int, int]:
        """Row and warp."""
        return self.operation.actors[self.actor]

    @property
    def thread(self) -> tuple[int, int] | None:
        """Row and thread of who issued it alone."""
        return self.operation.thread(self.actor)

    @property
    def at(self) -> Span | None:
        return self.operation.instruction.at

    @property
    def who(self) -> str:
        return self.operation.who(self.actor)


@dataclass(frozen=True, slots=True)
class Stretch:
    """Some bytes of a local buffer, from an address on that each lane may have its own of."""

    name: str
    start: Address
    nbytes: int

    def overlaps(self, other: Stretch) -> bool:
        """May a byte be in both?"""
        below = self.start.lo < other.start.hi + other.nbytes and other.start.lo < self.start.hi + self.nbytes
        return self.name == other.name and below


@dataclass(eq=False)
class Loading:
    """Registers in flight: of an operation's sinks, until its warps wait. warps: (CTAs, warps) that have not yet."""

    operation: Operation
    warps: Bools

    def stretches(self) -> Iterator[Stretch]:
        """The registers themselves."""
        for file, address in zip(self.operation.instruction.sinks, self.operation.sinks, strict=True):
            reach = file.width * (file.count if file.run else 1)
            for place, start in zip(file.places, [address] if file.run else list(address), strict=False):
                yield Stretch(place.name, start, reach)


class Knowledge:
    """All that is known in a chunk."""

    def __init__(self, chunk: Chunk) -> None:
        self.chunk = chunk
        self.parts: dict[int, Part] = {}
        self.warps: defaultdict[tuple[int, int], Warp] = defaultdict(Warp)
        self.meetings: dict[tuple[int, int], Told] = {}
        self.mbarriers: Phases[Told] = Phases(both)
        self.writers = np.zeros((chunk.ctas, LANES, COLUMNS), np.int32)
        self.readers = [np.zeros((chunk.ctas, LANES, COLUMNS), np.int32) for _ in range(-(-chunk.run.warps // 4))]
        self.holders = np.zeros((chunk.ctas, -(-max(chunk.run.shared_bytes, 1) // UNIT)), np.int32)
        self.loading: list[Loading] = []

    @property
    def touched(self) -> list[tuple[NDArray[np.int32], str]]:
        """Who wrote each cell last, then who in each warpgroup read it last, and how a message says that."""
        return [(self.writers, "written"), *((readers, "read") for readers in self.readers)]


def barriers_of(
    batch: Batch, mask: Mask, barrier: Any, kind: str, found: Any
) -> list[tuple[int, int, tuple[int, int], int]]:
    """Row and warp of who signals, row and offset of the m-barrier, and its phase then; each once."""
    active = mask.full
    ctas, warps, _ = np.nonzero(active)
    rows = np.array(numbers(batch.ctas))[ctas]
    address = np.broadcast_to(barrier, active.shape)[active].astype(np.int64)
    home, offset = split(batch.chunk, rows, address)
    words = batch.chunk.shared.view(8)[home, offset >> 3]
    if kind == "arrive":
        words = np.broadcast_to(found, active.shape)[active]
    phases = phase_state(words).phase
    own = np.array(numbers(batch.warps))[warps]
    all_of_them = zip(rows.tolist(), own.tolist(), home.tolist(), offset.tolist(), phases.tolist(), strict=True)
    return [(row, warp, (at, byte), phase) for row, warp, at, byte, phase in dict.fromkeys(all_of_them)]
