"""The proxy fence: what threads store is seen by the asynchronous units only after it.

Practice gets away without it before a copy to tensor memory, so that leaving it out is a warning. Shared memory that a
warp has stored to is remembered until that warp fences, or another does that is known to come after the store.
Source: PTX ISA, "Memory Consistency Model: Proxies", "Async proxy".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tilewright.isa import INSTRUCTIONS
from tilewright.sim.batch import numbers
from tilewright.sim.checks.base import Check
from tilewright.sim.masks import spread

if TYPE_CHECKING:
    from tilewright.sim.address import Address
    from tilewright.sim.batch import Batch
    from tilewright.sim.checks.clocks import Clocks
    from tilewright.sim.chunk import Chunk
    from tilewright.sim.execution import Execution
    from tilewright.sim.masks import Mask
    from tilewright.sim.pending import Operation
    from tilewright.sim.program import Program
    from tilewright.sim.sites import Hook, Site

__all__ = ["Proxies"]

UNIT = 16  # bytes of shared memory that are remembered together


class Stored:
    """since: (CTAs, warps, units), the epoch of a warp's last store there that it has not fenced; 0 for none."""

    def __init__(self, chunk: Chunk) -> None:
        units = -(-max(chunk.run.shared_bytes, 1) // UNIT)
        self.since = np.zeros((chunk.ctas, chunk.run.warps, units), np.int64)


class Proxies(Check):
    """The part of the race check that is about the two ways to shared memory."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.warned: set[object] = set()

    def begin(self, run: Execution) -> None:
        self.warned = set()

    def start(self, chunk: Chunk) -> None:
        if self.program.has_asynchronous:
            chunk.checks["proxies"] = Stored(chunk)

    @staticmethod
    def _epochs(chunk: Chunk) -> Clocks:
        clocks: Clocks = chunk.checks["races"].clocks
        return clocks

    def watch(self, site: Site) -> Hook | None:
        assert site.place is not None
        if not self.program.has_asynchronous or site.place.space != "shared" or not site.write or site.atomic:
            return None

        def store(batch: Batch, mask: Mask, at: Address) -> None:
            since = batch.chunk.checks["proxies"].since
            active = mask.full
            ctas, warps, _ = np.nonzero(active)
            rows, own = np.array(numbers(batch.ctas))[ctas], np.array(numbers(batch.warps))[warps]
            units = spread(at.full(), batch.shape)[active] // UNIT
            clocks = self._epochs(batch.chunk)
            inside = units < since.shape[-1]
            epochs = clocks.epoch[0 if clocks.is_collapsed else rows, own]
            since[rows[inside], own[inside], units[inside]] = epochs[inside]

        return store

    def fenced(self, batch: Batch, mask: Mask, reach: str) -> None:
        if reach != "async" or "proxies" not in batch.chunk.checks:
            return
        since, clocks = batch.chunk.checks["proxies"].since, self._epochs(batch.chunk)
        for cta, warp in np.argwhere(mask.full.any(-1)).tolist():
            row, own = numbers(batch.ctas)[cta], numbers(batch.warps)[warp]
            known = clocks.seen[0 if clocks.is_collapsed else row, own]
            since[row, own] = 0
            since[row][since[row] <= known[:, None]] = 0

    def issued(self, operation: Operation) -> None:
        chunk = operation.batch.chunk
        if "proxies" not in chunk.checks or operation.instruction.at in self.warned:
            return
        since = chunk.checks["proxies"].since
        for rows, address, _ in operation.footprint.shared:
            unfenced = since.transpose(0, 2, 1)[rows, address // UNIT]
            if not unfenced.any():
                continue
            self.warned.add(operation.instruction.at)
            *where, warp = np.argwhere(unfenced)[0]
            fence = next(name for name, row in INSTRUCTIONS.items() if row.forms[0].fence == "async")
            what = self._buffer(int(address[tuple(where)]))
            chunk.run.warnings.append(
                f"{operation.instruction.at}: {operation.name} reads {what}, stored by warp {warp} without a proxy "
                f"fence; T.{fence}() belongs between the stores and the barrier"
            )

    def _buffer(self, byte: int) -> str:
        for place in self.program.places.by_name.values():
            if place.space == "shared" and place.start <= byte < place.start + place.nbytes:
                return place.name
        return f"byte {byte} of shared memory"
