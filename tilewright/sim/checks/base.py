"""What a check is: a name, and what it does at each event of a run.

Some are always on, as a machine that cannot go on has to say so; their rows here give them a name.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.errors import ArgumentError, choices, described

if TYPE_CHECKING:
    from tilewright.errors import Span
    from tilewright.isa import Fence, Lanes, ProxyFence, RegisterFence, Signal
    from tilewright.sim.machine.address import Address, Ints
    from tilewright.sim.machine.batch import Batch
    from tilewright.sim.machine.masks import Bools, Mask
    from tilewright.sim.machine.pending import Operation, Waiting
    from tilewright.sim.machine.sites import Hook, Site
    from tilewright.sim.machine.sync import BarrierSite
    from tilewright.sim.machine.tmem import Taken
    from tilewright.sim.machine.wave import Wave
    from tilewright.sim.run.execution import Execution
    from tilewright.sim.run.program import Program

__all__ = ["CHECKS", "Check", "checks_of", "parse_checks", "register"]

CHECKS: dict[str, str] = {}
"""What each check finds, by its name."""

_CLASSES: dict[str, tuple[type[Check], ...]] = {}
DEFAULT = ("bounds", "alignment", "deadlock")


class Check:
    """The events of a run. A check overrides those it needs."""

    def __init__(self, program: Program) -> None:
        self.program = program

    def watch(self, site: Site) -> Hook | None:
        """What to call before each access at a site, or None."""
        return None

    def begin(self, run: Execution) -> None:
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
        """Nobody will wait any more for what was released at a barrier, kept in ``rows``."""

    def all_met(self, wave: Wave, ctas: slice, warps: slice | None) -> None:
        """All warps of these CTAs have met at once."""

    def warps_met(self, batch: Batch, mask: Mask) -> None:
        """The lanes of each active warp have met."""

    def fenced(self, batch: Batch, mask: Mask, fence: Fence | ProxyFence | RegisterFence) -> None:
        """A thread ordered its own accesses."""

    def signalled(
        self, batch: Batch, mask: Mask, barrier: Lanes, signal: Signal, found: Lanes, at: Span | None
    ) -> None:
        """Lanes made, ended, arrived at or saw the end of a phase of the m-barriers at shared addresses ``barrier``.

        found: what `execute` returned: the words before an arrival.
        """

    def issued(self, operation: Operation) -> None:
        """An asynchronous operation was issued."""

    def completing(self, operation: Operation) -> None:
        """It is about to take place."""

    def awaited(self, wave: Wave, waiting: Waiting) -> None:
        """Threads have waited for what they issued to a group."""

    def freed(self, wave: Wave, place: tuple[int, int], taken: Taken, at: Span | None) -> None:
        """A warp, ``place`` is its row and number, is about to give columns of tensor memory back."""

    def stuck(self, wave: Wave) -> str:
        """What might be missing where nobody can go on; empty for no idea."""
        return ""

    def outlived(self, operation: Operation) -> None:
        """An operation is still under way though all threads of its wave have ended."""

    def ended(self, wave: Wave) -> None:
        """All CTAs of a wave are done."""

    def finish(self, run: Execution) -> None:
        """The run is over."""


def register(name: str, finds: str, *parts: type[Check]) -> None:
    """Adds a row to `CHECKS`; its parts where it is more than a name."""
    CHECKS[name] = finds
    _CLASSES[name] = parts


def checks_of(names: Iterable[str], program: Program) -> list[Check]:
    """The parts of the checks with these names, made for a program."""
    return [part(program) for name in sorted(names) for part in _CLASSES[name]]


def parse_checks(given: str | Iterable[str]) -> frozenset[str]:
    """The checks that are meant: "all", "none", "default", names with commas between them, or several names.

    >>> sorted(parse_checks("default"))
    ['alignment', 'bounds', 'deadlock']

    Raises ArgumentError with the choices for a name that is none.
    """
    several = isinstance(given, Iterable) and not isinstance(given, str | np.ndarray)
    names: list[Any] = list(given) if several else given.split(",") if isinstance(given, str) else [given]
    if odd := [name for name in names if not isinstance(name, str)]:
        raise ArgumentError(
            "a check is a name", given=described(odd[0]), allowed=choices("", ("all", "none", "default", *CHECKS))
        )
    found: set[str] = set()
    groups = {"all": tuple(CHECKS), "none": (), "default": DEFAULT}
    for name in (name.strip() for name in names):
        if name not in groups and name not in CHECKS:
            raise ArgumentError(f"unknown check {name!r}", given=repr(name), allowed=choices(name, (*groups, *CHECKS)))
        found.update(groups.get(name, (name,)))
    return frozenset(found)
