"""The proxy fence: what threads store is seen by the asynchronous units only after it.

Practice gets away without it before a copy to tensor memory, so that leaving it out is a warning. Shared memory that a
warp has stored to is remembered until that warp fences, or another does that is known to come after the store. An
m-barrier that an asynchronous unit arrives at needs a fence as well, after it was made and by anyone of its CTA.
Source: PTX ISA, "Memory Consistency Model: Proxies", "Async proxy"; "mbarrier.init".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.isa import INSTRUCTIONS, Fence, ProxyFence
from tilewright.sim.checks.base import Check
from tilewright.sim.checks.coordinates import element_text
from tilewright.sim.checks.phases import signals_of
from tilewright.sim.masks import spread
from tilewright.sim.remote import split

if TYPE_CHECKING:
    from tilewright.sim.address import Address
    from tilewright.sim.batch import Batch
    from tilewright.sim.checks.clocks import Clocks
    from tilewright.sim.execution import Execution
    from tilewright.sim.masks import Mask
    from tilewright.sim.pending import Operation
    from tilewright.sim.program import Program
    from tilewright.sim.sites import Hook, Site
    from tilewright.sim.wave import Wave

__all__ = ["Proxies"]

ASYNC = ProxyFence("async")
INIT = Fence("release", "cluster", "mbarrier.init")
WIDE = ("cluster", "gpu", "sys")  # fences that an m-barrier may be seen through
UNIT = 16  # bytes of shared memory that are remembered together


class Stored:
    """since: (CTAs, warps, units), the epoch of a warp's last store there that it has not fenced; 0 for none.

    made: (CTAs, words), m-barriers that were made since the last fence.
    """

    def __init__(self, wave: Wave) -> None:
        units = -(-max(wave.run.shared_bytes, 1) // UNIT)
        self.since = np.zeros((wave.ctas, wave.run.warps, units), np.int64)
        self.made = np.zeros((wave.ctas, 2 * units), np.bool_)


class Proxies(Check):
    """The part of the race check that is about the two ways to shared memory."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.warned: set[object] = set()

    def begin(self, run: Execution) -> None:
        self.warned = set()

    def start(self, wave: Wave) -> None:
        if self.program.has_asynchronous:
            wave.checks["proxies"] = Stored(wave)

    @staticmethod
    def _epochs(wave: Wave) -> Clocks:
        clocks: Clocks = wave.checks["races"].clocks
        return clocks

    def watch(self, site: Site) -> Hook | None:
        assert site.place is not None
        if not self.program.has_asynchronous or site.place.space != "shared" or not site.write or site.atomic:
            return None

        def store(batch: Batch, mask: Mask, at: Address) -> None:
            since = batch.wave.checks["proxies"].since
            active = mask.full
            rows, own = batch.rows_and_warps(active)
            units = spread(at.full(), batch.shape)[active] // UNIT
            clocks = self._epochs(batch.wave)
            inside = units < since.shape[-1]
            epochs = clocks.epoch[0 if clocks.is_collapsed else rows, own]
            since[rows[inside], own[inside], units[inside]] = epochs[inside]

        return store

    def signalled(self, batch: Batch, mask: Mask, barrier: Any, kind: str, found: Any) -> None:
        if kind == "init" and (stored := batch.wave.checks.get("proxies")) is not None:
            signals = signals_of(batch, mask, barrier, kind, found)
            stored.made[signals.home, signals.offset >> 3] = True

    def fenced(self, batch: Batch, mask: Mask, fence: Fence | ProxyFence) -> None:
        reach = fence.proxy if isinstance(fence, ProxyFence) else fence.scope
        if reach not in ("async", *WIDE) or "proxies" not in batch.wave.checks:
            return
        stored = batch.wave.checks["proxies"]
        rows, own = batch.rows_and_warps(mask.full.any(-1))
        stored.made[rows] = False
        if reach == "async":
            clocks = self._epochs(batch.wave)
            stored.since[rows, own] = 0
            for row, known in zip(rows, clocks.seen[0 if clocks.is_collapsed else rows, own], strict=True):
                since = stored.since[row]
                since[since <= known[:, None]] = 0

    def issued(self, operation: Operation) -> None:
        wave = operation.batch.wave
        if "proxies" not in wave.checks or operation.instruction.at in self.warned:
            return
        stored = wave.checks["proxies"]
        for rows, address, _ in operation.footprint.shared:
            unfenced = stored.since.transpose(0, 2, 1)[rows, address // UNIT]
            if unfenced.any():
                *where, warp = np.argwhere(unfenced)[0]
                source = self.program.places.shared_at(int(address[tuple(where)])).name
                what = f"reads {source}, stored by warp {warp} without a proxy fence"
                self._warn(operation, what, "the stores", ASYNC)
        for _, rows, address in operation.footprint.arrivals if not self.warned else ():
            home, offset = split(wave, rows, address)
            if (made := stored.made[home, offset >> 3]).any():
                byte = int(offset[made][0])
                what = element_text(self.program, self.program.places.shared_at(byte), byte)
                self._warn(operation, f"arrives at {what}, made without a fence after it", "mbarrier.init", INIT)

    def _warn(self, operation: Operation, what: str, after: str, wanted: Fence | ProxyFence) -> None:
        forms = (
            (name, form, mods) for name, row in INSTRUCTIONS.items() for form in row.forms for mods in form.all_mods()
        )
        fence = next(name for name, form, mods in forms if form.fence_of(mods) == wanted)
        self.warned.add(operation.instruction.at)
        operation.batch.wave.run.warnings.append(
            f"{operation.instruction.at}: {operation.name} {what}; T.{fence}() belongs between {after} and the barrier"
        )
