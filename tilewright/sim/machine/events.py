"""The events of a run, as methods that checks override."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tilewright.errors import Span
    from tilewright.isa import Fence, Lanes, ProxyFence, RegisterFence, Signal
    from tilewright.sim.machine.address import Address
    from tilewright.sim.machine.arrays import Bools, Ints
    from tilewright.sim.machine.batch import Batch
    from tilewright.sim.machine.device import Device
    from tilewright.sim.machine.masks import Mask
    from tilewright.sim.machine.operation import Operation
    from tilewright.sim.machine.pending import Waiting
    from tilewright.sim.machine.sites import Site
    from tilewright.sim.machine.sync import BarrierSite
    from tilewright.sim.machine.tmem import Taken
    from tilewright.sim.machine.wave import Wave

__all__ = ["Events"]


class Events:
    """The events of a run. A check overrides those that it needs."""

    def begin(self, run: Device) -> None:
        """A run starts."""

    def start(self, wave: Wave) -> None:
        """A wave of CTAs starts."""

    def reached(self, site: Site, batch: Batch, mask: Mask, at: Address) -> None:
        """Lanes are about to touch what is at addresses of the cluster's window."""

    def released(
        self, wave: Wave, ctas: Ints, warps: slice, here: Bools, barrier: int, rows: Ints, sync: BarrierSite
    ) -> None:
        """The warps ``here`` (CTAs, warps) have arrived at a barrier, kept in ``rows``."""

    def acquired(self, wave: Wave, ctas: Ints, waiting: Bools, barrier: int, rows: Ints) -> None:
        """A barrier is complete: the warps ``waiting`` (CTAs, all warps) go on."""

    def forgotten(self, wave: Wave, rows: Ints, barrier: int) -> None:
        """No thread will wait any more for what was released at a barrier, kept in ``rows``."""

    def all_met(self, wave: Wave, ctas: slice, warps: slice | None) -> None:
        """All warps of these CTAs have met at once."""

    def warps_met(self, batch: Batch, mask: Mask) -> None:
        """The lanes of each active warp have met."""

    def fenced(self, batch: Batch, mask: Mask, fence: Fence | ProxyFence, where: Address | None = None) -> None:
        """A thread ordered its own accesses, those of the bytes ``where`` alone if it says so."""

    def fenced_registers(self, batch: Batch, mask: Mask, fence: RegisterFence) -> None:
        """A warp ordered what it did to its registers."""

    def signalled(
        self, batch: Batch, mask: Mask, barrier: Lanes, signal: Signal, found: Lanes, at: Span | None
    ) -> None:
        """Lanes made, ended, arrived at or saw the end of a phase of the m-barriers at shared addresses ``barrier``.

        found: what `execute` returned: the words before an arrival, or before bytes were counted.
        """

    def issued(self, operation: Operation) -> None:
        """An asynchronous operation was issued."""

    def completing(self, operation: Operation) -> None:
        """An operation is about to take place."""

    def awaited(self, wave: Wave, waiting: Waiting) -> None:
        """Threads have waited for what they issued to a group."""

    def freed(self, wave: Wave, place: tuple[int, int], taken: Taken, at: Span | None) -> None:
        """A warp, ``place`` is its row and number, is about to give columns of tensor memory back."""

    def stuck(self, wave: Wave, waited: Sequence[tuple[int, int]]) -> str:
        """A hint where no thread can go on, or an empty text. waited: rows and addresses of m-barriers."""
        return ""

    def outlived(self, operation: Operation, ended: Bools) -> None:
        """An operation is still under way when no thread can go on. ended: (CTAs,), whose threads have all ended."""

    def ended(self, wave: Wave) -> None:
        """All CTAs of a wave are done."""

    def finish(self, run: Device) -> None:
        """The run is over."""
