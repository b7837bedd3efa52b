"""What a race report says: both lines, the place, who, and what is missing between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tilewright.errors import SimulationError
from tilewright.sim.address import Address
from tilewright.sim.batch import numbers
from tilewright.sim.checks.clocks import COLLECTIVE, THREAD_BITS
from tilewright.sim.checks.coordinates import coordinate_text

if TYPE_CHECKING:
    from tilewright.sim.batch import Batch
    from tilewright.sim.checks.touches import Touch
    from tilewright.sim.masks import Mask
    from tilewright.sim.program import Program
    from tilewright.sim.sites import Site

__all__ = ["Clash", "Earlier", "report", "warning"]


class Earlier:
    """An access that a report may have to name: where it was, and who made it. Holds on to nothing larger."""

    __slots__ = ("at", "first", "mask", "rows", "site", "warps")

    def __init__(self, site: Site, batch: Batch, mask: Mask, at: Address) -> None:
        self.site = site
        self.rows, self.warps = numbers(batch.ctas), numbers(batch.warps)
        self.first = batch.wave.first
        self.mask = mask
        self.at = Address(at.start, *at.parts)

    def touched(self, cta: int, warp: int, lane: int | None, address: int, width: int) -> bool:
        """Did this thread (or any lane of the warp) touch these bytes here?"""
        if cta - self.first not in self.rows or warp not in self.warps:
            return False
        where = (self.rows.index(cta - self.first), self.warps.index(warp))
        shape = (len(self.rows), len(self.warps), 32)
        full = np.broadcast_to(self.at.full(), shape)[where]
        active = np.broadcast_to(self.mask.full, shape)[where]
        lanes = active & (full < address + width) & (full + self.site.width > address)
        return bool(lanes.any() if lane is None else lanes[lane])


@dataclass(frozen=True, eq=False, slots=True)
class Clash:
    """lane: (CTA, warp, lane) in the batch. tag: of the earlier access. log: accesses to look for it in."""

    touch: Touch
    lane: tuple[int, int, int]
    tag: int
    with_writer: bool
    log: tuple[Earlier, ...]
    equal_values: bool

    @property
    def site(self) -> Site:
        """Of this access."""
        return self.touch.site

    @property
    def batch(self) -> Batch:
        """Of this access."""
        return self.touch.batch

    @property
    def cta(self) -> int:
        """Of the grid, this access's."""
        return self.batch.wave.first + numbers(self.batch.ctas)[self.lane[0]]

    @property
    def warp(self) -> int:
        """Of its CTA, this access's."""
        return numbers(self.batch.warps)[self.lane[1]]

    @property
    def other_cta(self) -> int:
        """Of the grid, the earlier access's; a tag of shared memory names none, as it is the same."""
        return (self.tag >> 32) - 1 if self.tag >> 32 else self.cta

    @property
    def other_thread(self) -> int:
        """Of its CTA, the earlier access's."""
        return self.tag & (1 << THREAD_BITS) - 1

    @property
    def other_was_collective(self) -> bool:
        """Was the other access made by a warp together?"""
        return bool(self.tag & COLLECTIVE)

    def is_inside_warp(self) -> bool:
        """Are both accesses of one warp?"""
        return (self.other_cta, self.other_thread // 32) == (self.cta, self.warp)

    @property
    def address(self) -> int:
        """Where this access's bytes begin."""
        return int(np.broadcast_to(self.touch.at.full(), self.batch.shape)[self.lane])

    def earlier(self) -> Site | None:
        """Where the other access was, as far as it is remembered."""
        lane = None if self.other_was_collective else self.other_thread % 32
        for access in reversed(self.log):
            if access.site.write == self.with_writer and access.touched(
                self.other_cta, self.other_thread // 32, lane, self.address, self.site.width
            ):
                return access.site
        return None


def report(program: Program, clash: Clash) -> SimulationError:
    """The error that a race is."""
    site = clash.site
    verb = "writes" if site.write else "reads"
    other = clash.earlier()
    did = "written" if clash.with_writer else "read"
    where = f" at {other.at}" if other is not None and other.at else ""
    return SimulationError(
        f"race: {site.op} {verb} {coordinate_text(program, site, clash.address)}, which another thread has {did}",
        given=f"{site.at}: {_who(clash, clash.cta, clash.warp * 32 + clash.lane[2])}\n{did}{where}: {_other(clash)}",
        allowed="accesses that a barrier orders",
        hint=_missing(clash, other),
        at=site.at,
    )


def warning(program: Program, clash: Clash) -> str:
    """The warning that it is where both wrote the same."""
    place = coordinate_text(program, clash.site, clash.address)
    return (
        f"{clash.site.at}: {place} is written by {_other(clash)} and by "
        f"{_who(clash, clash.cta, clash.warp * 32 + clash.lane[2])}, unordered, with equal values"
    )


def _who(clash: Clash, cta: int, thread: int) -> str:
    wave = clash.batch.wave
    inside = wave.first <= cta < wave.first + wave.ctas
    name = wave.cta_name(cta - wave.first) if inside else f"number {cta}"
    return f"CTA {name}, warp {thread // 32}, lane {thread % 32}"


def _other(clash: Clash) -> str:
    who = _who(clash, clash.other_cta, clash.other_thread)
    return who.rpartition(",")[0] if clash.other_was_collective else who


def _missing(clash: Clash, other: Site | None) -> str:
    size = clash.batch.wave.run.cluster_ctas
    if clash.other_cta // size != clash.cta // size:
        return "no barrier orders CTAs: write different places, use atomics, or split the kernel in two"
    barrier = "T.cuda.warp_sync()" if clash.is_inside_warp() else "T.cuda.cta_sync()"
    if clash.other_cta != clash.cta:
        barrier = "T.cuda.cluster_sync()"
    if other is None or other.at is None or clash.site.at is None:
        return barrier
    if other is clash.site:
        return f"different places; or, in a loop, {barrier} between its turns at line {other.at.line}"
    if other.at.line == clash.site.at.line:
        return f"{barrier} at line {other.at.line}, between the two accesses"
    first, last = other.at.line, clash.site.at.line
    return f"{barrier} between line {first} and line {last}"
