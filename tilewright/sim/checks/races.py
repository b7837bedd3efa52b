"""Races: two accesses to one place, one of them a write, that no barrier orders.

Running all warps together hides a missing barrier; this check finds it. Every place of shared memory remembers its last
writer and, for each warp, its last reader; every place of a global buffer that the kernel writes its last writer and
its last two readers. A place is as wide as the narrowest access of the kernel there. Different CTAs are ordered by a
fence, an atomic, and a later atomic of the other; those of one cluster also by its barrier, and by m-barriers that one
tells and the other asks. Atomics do not race among themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.isa import Fence
from tilewright.sim.address import Address, Part
from tilewright.sim.batch import numbers
from tilewright.sim.checks.base import Check, register
from tilewright.sim.checks.clocks import ATOMIC, COLLECTIVE, Clocks
from tilewright.sim.checks.completion import Completion
from tilewright.sim.checks.global_places import GlobalPlaces
from tilewright.sim.checks.phases import Phases, arrivals_of, signals_of
from tilewright.sim.checks.proxies import Proxies
from tilewright.sim.checks.reports import Clash, report, warning
from tilewright.sim.checks.shared_places import TAG, SharedPlaces
from tilewright.sim.memory import WIDEST
from tilewright.sim.sites import Site

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tilewright.isa import ProxyFence
    from tilewright.sim.batch import Batch
    from tilewright.sim.execution import Execution
    from tilewright.sim.masks import Bools, Mask
    from tilewright.sim.pending import Operation
    from tilewright.sim.program import Program
    from tilewright.sim.sites import Hook
    from tilewright.sim.wave import Wave

__all__ = ["Races"]

ANYWHERE = ""  # where pointers of run time write


class Races(Check):
    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.globals: dict[str, GlobalPlaces] = {}
        self.order = 0  # of atomics on global memory

    def begin(self, run: Execution) -> None:
        self.globals = {}
        self.order = 0
        self.written = {site.place.name if site.place else ANYWHERE for site in self.program.sites if site.write}
        self.warned: set[tuple[str, str]] = set()
        self.releases: dict[int, list[tuple[int, int]]] = {}  # CTA -> (epoch, order) of each
        self.acquires: dict[int, int] = {}
        self.fences: set[int] = set()

    def start(self, wave: Wave) -> None:
        clocks = Clocks(wave)
        wave.checks["mbarriers"] = Phases(wave, clocks.width, np.maximum, np.int64)
        wave.checks["commits"] = {}
        wave.checks["races"] = SharedPlaces(wave, clocks, self._grain("shared", ""))

    def _grain(self, space: str, name: str) -> int:
        """The narrowest access that may touch a place, in bytes."""
        widths = [
            site.width
            for site in self.program.sites
            if site.place is None or (site.place.space == space and (not name or site.place.name == name))
        ]
        return min(widths, default=4)

    def watch(self, site: Site) -> Hook | None:
        assert site.place is not None
        if site.place.space == "local":
            return None
        flags = (ATOMIC if site.atomic else 0) | (COLLECTIVE if site.collective else 0)

        def shared(batch: Batch, mask: Mask, at: Address) -> None:
            batch.wave.checks["races"].touch(self, site, batch, mask, at, flags)

        def everywhere(batch: Batch, mask: Mask, at: Address) -> None:
            name = site.place.name if site.place else ""
            if not self.written & {name, ANYWHERE}:
                return
            if site.atomic and site.write:
                self._atomic(batch, mask)
            if name not in self.globals:
                self.globals[name] = GlobalPlaces(batch.wave.run.blocks[name].nbytes, self._grain("global", name))
            self.globals[name].touch(self, site, batch, mask, at, flags)

        return shared if site.place.space == "shared" else everywhere

    # Order between CTAs

    def fenced(self, batch: Batch, mask: Mask, fence: Fence | ProxyFence) -> None:
        if isinstance(fence, Fence) and fence.scope in ("gpu", "sys"):
            self.fences |= {batch.wave.first + int(row) for row in _active_rows(batch, mask)}

    def _atomic(self, batch: Batch, mask: Mask) -> None:
        """An atomic after a fence publishes what its CTA did; it also takes over what others have published."""
        clocks: Clocks = batch.wave.checks["races"].clocks
        for row in _active_rows(batch, mask):
            cta = batch.wave.first + int(row)
            self.order += 1
            self.acquires[cta] = self.order
            if cta in self.fences:
                epoch = int(clocks.epoch[0 if clocks.is_collapsed else row].max())
                self.releases.setdefault(cta, []).append((epoch, self.order))

    def published(self, cta: int, epoch: int, to: int) -> bool:
        """Has CTA ``to`` taken over what CTA ``cta`` did in ``epoch``?"""
        until = self.acquires.get(to, 0)
        return any(epoch <= released and order < until for released, order in self.releases.get(cta, ()))

    # Meetings

    def released(self, wave: Wave, ctas: NDArray, warps: slice, here: Bools, barrier: int, rows: NDArray) -> None:  # type: ignore[type-arg]
        wave.checks["races"].expand()
        wave.checks["races"].clocks.released(ctas, warps, here, barrier, rows)

    def acquired(self, wave: Wave, ctas: NDArray, waiting: Bools, barrier: int, rows: NDArray) -> None:  # type: ignore[type-arg]
        wave.checks["races"].clocks.acquired(ctas, waiting, barrier, rows)

    def forgotten(self, wave: Wave, rows: NDArray, barrier: int) -> None:  # type: ignore[type-arg]
        wave.checks["races"].clocks.forgotten(barrier, rows)

    def all_met(self, wave: Wave, ctas: slice, warps: slice | None) -> None:
        places: SharedPlaces = wave.checks["races"]
        if len(numbers(ctas)) < wave.ctas:
            places.expand()
        places.clocks.all_met(ctas)

    def warps_met(self, batch: Batch, mask: Mask) -> None:
        places: SharedPlaces = batch.wave.checks["races"]
        alike = batch.is_whole_wave and not mask.varies_by_cta
        if not alike:
            places.expand()
        places.clocks.warps_met(batch, mask.full, alike=alike)

    # m-barriers

    def signalled(self, batch: Batch, mask: Mask, barrier: Any, kind: str, found: Any) -> None:
        places: SharedPlaces = batch.wave.checks["races"]
        phases: Phases = batch.wave.checks["mbarriers"]
        if kind not in ("init", "arrive", "wait"):
            return
        places.expand()
        signals = signals_of(batch, mask, barrier, kind, found)
        if kind == "init":
            phases.forget(signals)
        elif kind == "arrive":
            phases.arrived(signals, places.clocks.published(signals.rows, signals.warps))
        else:
            for those, known in phases.over(signals):
                places.clocks.taken_over(signals.rows[those], signals.warps[those], known)

    def issued(self, operation: Operation) -> None:
        """Copies read shared memory for their thread; a commit publishes what its thread did before."""
        wave = operation.batch.wave
        places: SharedPlaces = wave.checks["races"]
        if operation.is_commit:
            places.expand()
            published = places.clocks.published(operation.rows, operation.threads // 32)
            wave.checks["commits"][operation.number] = published
        for rows, address, nbytes in operation.footprint.shared:
            self._read_for(places, operation, rows, address, nbytes)

    def _read_for(self, places: SharedPlaces, operation: Operation, rows: Any, address: Any, nbytes: int) -> None:
        batch, mask = operation.batch, operation.mask
        threads = len(operation.issuers.rows)
        if len(rows) != threads:  # a pair of CTAs: the thread's own is what its clock knows
            own = rows.reshape(threads, 2, -1)[:, :, 0] == operation.issuers.rows[:, None]
            address = address.reshape(*own.shape, *address.shape[1:])[own]
        address, nbytes = _in_runs(address.reshape(threads, -1), nbytes, WIDEST * places.grain // TAG.itemsize)
        place = self.program.places.shared_at(int(address.min()))
        if int(address.max()) + nbytes > place.start + place.nbytes:
            place = self.program.places.arena
        site = Site(operation.instruction.at, operation.name, place, nbytes, write=False)
        for column in address.T[::-1]:  # the last first: often of another warp, so that the wider barrier is told
            full = np.zeros(mask.shape, np.int64)
            full[mask.full] = column
            places.touch(self, site, batch, mask, Address(0, Part(full)), 0)

    def completing(self, operation: Operation) -> None:
        wave = operation.batch.wave
        for known in [wave.checks["commits"].pop(operation.number)] if operation.is_commit else ():
            for issuer, rows, address in operation.footprint.arrivals:
                wave.checks["mbarriers"].arrived(arrivals_of(wave, rows, address), known[issuer])

    # What was found

    def clash(self, clash: Clash) -> None:
        """Raises SimulationError; warns where both wrote the same."""
        if clash.equal_values:
            key = (str(clash.site.at), clash.site.line.buffer)
            if key not in self.warned:
                self.warned.add(key)
                clash.batch.wave.run.warnings.append(warning(self.program, clash))
            return
        raise report(self.program, clash)


def _in_runs(address: Any, nbytes: int, most: int) -> tuple[Any, int]:
    """Reads of ``nbytes`` at (threads, n) addresses, as fewer and wider ones where they are neighbours."""
    address = np.sort(address, axis=1)
    while 2 * nbytes <= most and address.shape[1] % 2 == 0:
        first, then = address[:, ::2], address[:, 1::2]
        if (first % (2 * nbytes)).any() or (then != first + nbytes).any():
            break
        address, nbytes = first, 2 * nbytes
    return address, nbytes


def _active_rows(batch: Batch, mask: Mask) -> Any:
    return np.array(numbers(batch.ctas))[mask.full.any((1, 2))]


# A store over what a copy is still reading lacks the wait for the copy; no barrier will do, and Completion knows.
register("races", "accesses to one place, one of them a write, that nothing orders", Completion, Races, Proxies)
