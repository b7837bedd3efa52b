"""Events, frozen, and the same for every check that hears of them: threads are about to touch memory (which threads,
which bytes, when, and what they write); they fence; warps come to a barrier, or go on behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from tilewright.sim.machine.address import Address, Part
from tilewright.sim.machine.arrays import Bits, Bools, Ints
from tilewright.sim.machine.places import split
from tilewright.sim.machine.team import Actors, numbers, spread

if TYPE_CHECKING:
    from tilewright.isa import Fence, ProxyFence, RegisterFence
    from tilewright.sim.machine import BarrierSite, Site, Team, Wave

__all__ = ["AccessEvent", "FenceEvent", "Hook", "MeetingEvent"]

Written: TypeAlias = "Bits | Callable[[Address], Bits] | None"
"""What a plain store is about to write; by its address, where there are several."""


class _Fields(NamedTuple):
    site: Site
    team: Team
    every: tuple[Address, ...]
    time: int
    bits: Written = None


class AccessEvent(_Fields):  # a tuple: many are made, and to freeze an object field by field takes time
    """every: addresses of accesses that follow each other, in the site's buffer; of a remote site those of the
    cluster's window. time: of the first of them in its wave, the others have the next ones. bits: what is about to be
    written.
    """

    @property
    def at(self) -> Address:
        """The first address."""
        return self.every[0]

    def each(self) -> Iterator[AccessEvent]:
        """The accesses one by one."""
        every = (self._replace(every=(at,), time=self.time + k) for k, at in enumerate(self.every))
        return iter((self,)) if len(self.every) == 1 else every

    @cached_property
    def span(self) -> tuple[int, int]:
        """The first byte, and the one after the last, of all lanes, active or not."""
        return min(at.lo for at in self.every), max(at.hi for at in self.every) + self.site.width

    @cached_property
    def homes(self) -> tuple[Ints, Ints]:
        """(CTAs, warps, 32): row of the CTA whose memory that is, and address there."""
        shape, at = self.team.shape, spread(self.at.full(), self.team.shape)
        rows = np.broadcast_to(self.team.look.rows(1), shape)
        return split(self.team.wave, rows, at) if self.site.is_remote else (rows, at)

    @cached_property
    def places(self) -> tuple[Ints, Ints]:
        """The same of each thread, (n,)."""
        home, address = self.homes
        return home[self.team.full], address[self.team.full]

    def in_cluster(self, pitch: int) -> Address:
        """Addresses where the memories of CTAs follow each other, ``pitch`` bytes apart."""
        if not self.site.is_remote:
            return Address(self.at.start, *self.at.parts, Part(self.team.look.rows(pitch)))
        home, offset = self.homes
        return Address(0, Part(home * pitch + offset))

    def to_write(self, at: Address, ctas: slice) -> Bits | None:
        """What lanes of some of the CTAs are about to write at an address; None of what is no plain store."""
        bits, taken = self.bits(at) if callable(self.bits) else self.bits, numbers(ctas)
        if bits is None or np.ndim(bits) < 3 or len(bits) in (1, len(taken)):
            return bits
        return bits[np.searchsorted(numbers(self.team.ctas), taken)]


Hook: TypeAlias = Callable[[AccessEvent], None]


class FenceEvent(NamedTuple):
    """Threads ordered their own accesses, those of the bytes ``where`` alone if it says so; or warps what they did to
    their registers.
    """

    team: Team
    fence: Fence | ProxyFence | RegisterFence
    where: Address | None


class MeetingEvent(NamedTuple):
    """Warps at a barrier. here: (n, warps), those of the CTAs in rows ``ctas``. barrier, rows: its number and, for each
    of these CTAs, the row under which what is released there is kept.
    """

    wave: Wave
    site: BarrierSite
    ctas: Ints
    here: Bools
    barrier: int
    rows: Ints

    @property
    def who(self) -> tuple[Ints, Actors]:
        """Of each warp the number of its CTA among these; and the warps."""
        which, warps = self.here.nonzero()
        return which, Actors.whole_warps(self.ctas[which], warps)
