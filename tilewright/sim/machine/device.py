"""The device on which a kernel runs: its memory, what it counts and prints, and what generated code asks of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tilewright.errors import SimulationError
from tilewright.isa import Access, RegisterFence, Sync
from tilewright.sim.machine.counts import Line
from tilewright.sim.machine.facets import Facet, where_text
from tilewright.sim.machine.overlaps import blocks_of
from tilewright.sim.machine.precedence import FORWARDS
from tilewright.sim.machine.printed import Printed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tilewright.errors import Span
    from tilewright.ir import Number
    from tilewright.isa import Fence, ProxyFence
    from tilewright.sim.machine.address import Address, Part
    from tilewright.sim.machine.arrays import Array, Shape, Value
    from tilewright.sim.machine.batch import Batch, Look
    from tilewright.sim.machine.events import Events
    from tilewright.sim.machine.masks import Mask
    from tilewright.sim.machine.operation import Operation
    from tilewright.sim.machine.places import Place
    from tilewright.sim.machine.precedence import Precedence
    from tilewright.sim.machine.subject import Subject
    from tilewright.sim.machine.wave import Storage

__all__ = ["Device"]

HOLDERS = {"laneid": "lane", "warpid": "warp", "wid_in_wg": "warp", "wgid": "warpgroup", "tid": "thread"}
_SHUFFLE = "T.cuda.shfl_sync(0xffffffff, x, lane) by the whole warp, which gives the x of another lane"
_MEMORY = "shared memory: Tx.cta.copy(shared, R), T.cuda.cta_sync(), then shared[i, j]"
ELSEWHERE = {"lane": _SHUFFLE, "warp": _MEMORY, "warpgroup": _MEMORY, "thread": f"{_SHUFFLE}; or {_MEMORY}"}
"""A hint: how a thread gets an element that another thread holds."""


class Device:
    """The device of one run of a program. checks: they get its events. steps: how many it has made. scalars: the values
    of parameters and symbols.

    exists: (1, warps, 32), the threads of a CTA. lines: what asynchronous operations move.
    """

    scalars: Mapping[str, Number]

    def __init__(
        self,
        program: Subject,
        arrays: Mapping[str, Array],
        grid: Shape,
        checks: Sequence[Events],
        precedence: Precedence = FORWARDS,
    ) -> None:
        """arrays: by the name of the buffer."""
        self.program = program
        self.precedence = precedence
        self.places = program.places
        self.blocks = blocks_of(arrays, program.groups)
        self.sizes = {name: block.nbytes for name, block in self.blocks.items()} | {
            name: array.nbytes for name, array in arrays.items()
        }
        self.checks = checks
        self.grid = grid
        self.cluster = program.launch.cluster
        self.cluster_ctas = self.cluster[0] * self.cluster[1] * self.cluster[2]
        self.threads = program.launch.threads
        self.warps = program.launch.warps
        self.shared_bytes = program.launch.shared_bytes
        self.exists = (np.arange(self.warps * 32) < self.threads).reshape(1, self.warps, 32)
        self.warnings: list[str] = []
        self.printed = Printed()
        self.steps = 0
        self.tally = [0] * len(program.tallies)
        self.lines: dict[tuple[object, ...], Line] = {}

    @property
    def ctas(self) -> int:
        """CTAs of the grid."""
        return self.grid[0] * self.grid[1] * self.grid[2]

    def thread_parts(self, warps: slice) -> dict[int, Part]:
        """Address parts that depend on thread numbers only, kept for all runs of the program."""
        return self.program.thread_parts.setdefault((warps.start, warps.stop, warps.step), {})

    @staticmethod
    def plain(batch: Look, place: Place) -> Storage:
        """The bytes of a place, as opposed to their shadow."""
        return batch.wave.storage(place)

    def ordered(
        self,
        batch: Batch,
        mask: Mask,
        what: Sync | Fence | ProxyFence | RegisterFence,
        at: Span | None,
        where: Address | None = None,
    ) -> None:
        """A fence, perhaps of the bytes ``where`` alone; or a barrier of whole warps without diverged lanes."""
        if not isinstance(what, Sync):
            for check in self.checks:
                if isinstance(what, RegisterFence):
                    check.fenced_registers(batch, mask, what)
                else:
                    check.fenced(batch, mask, what, where)
            return
        if not batch.has_whole_warps(mask):
            raise SimulationError(
                "divergence: a warp meets without all of its lanes",
                given=f"{mask.lanes} of {mask.warps * 32} lanes active",
                allowed="all lanes of the warp",
                at=at,
            )
        for check in self.checks:
            check.warps_met(batch, mask)

    def assumed(self, batch: Batch, mask: Mask, holds: Value, said: tuple[str, str], at: Span | None) -> None:
        """Check an assumption of a kernel, or of a layout about an element's thread. said: its text and the element."""
        fails = mask.narrowed(~holds if isinstance(holds, np.ndarray | np.bool_) else not holds)
        if fails is None:
            return
        text, place = said
        if not place:
            Facet(batch, mask, at, self.plain).fault(f"`{text}` does not hold", fails.full)
        cta, warp = map(int, np.argwhere(fails.full.any(-1))[0])
        word = next((word for name, word in HOLDERS.items() if f"T.{name}" in text), "thread")
        raise SimulationError(
            f"{place} lies in the registers of another {word}",
            given=where_text(batch, cta, warp, fails.full[cta, warp]),
            allowed=f"elements that the {word} itself holds, where {text}",
            hint=ELSEWHERE[word],
            at=at,
        )

    def moves(self, operation: Operation) -> None:
        """Counts the bytes that an asynchronous operation is going to read and write."""
        at, op = operation.instruction.at, operation.instruction.bound.instruction.name
        for one in operation.touched:
            if isinstance(one.effect, Access) and one.effect.computed and one.places.size:  # others have a site
                where = (self.places.holding(one.space, int(one.places.flat[0])).name, one.space, one.writes)
                line = self.lines.setdefault((at, op, *where), Line(at, op, *where))
                line.accesses += one.count
                line.nbytes += one.bytes_moved
                line.warps += operation.mask.warps
