"""Events, frozen, and the same for every check that hears of them: threads are about to touch memory (which threads,
which bytes, when, and what they write); they fence; warps come to a barrier, or go on behind it; warps signal at
m-barriers: whose, where, in which phase.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from tilewright.isa import phase_of
from tilewright.sim.machine.address import Address, Part
from tilewright.sim.machine.arrays import Bits, Bools, Entries, Ints
from tilewright.sim.machine.places import split
from tilewright.sim.machine.team import Actors, numbers, spread

if TYPE_CHECKING:
    from tilewright.errors import Span
    from tilewright.isa import Fence, Lanes, ProxyFence, RegisterFence, Signal
    from tilewright.sim.machine import BarrierSite, Site, Team, Wave


__all__ = ["AccessEvent", "FenceEvent", "Hook", "MBarrierSignal", "MeetingEvent", "Signals", "arrivals_of", "visits_of"]


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


@dataclass(frozen=True, eq=False, slots=True)
class Signals(Entries):
    """Warps that signal, with their lanes. home, offset: the m-barrier's CTA and its place there, (n,).

    phase: the one that it runs then.
    """

    who: Actors
    home: Ints
    offset: Ints
    phase: Ints

    def places(self) -> list[tuple[int, int]]:
        """Row and offset of each m-barrier."""
        return list(zip(self.home.tolist(), self.offset.tolist(), strict=True))

    def of_threads(self) -> tuple[Ints, Ints, Ints, Ints]:
        """Row and number of each thread that signals; row and offset of its m-barrier."""
        which, rows, threads = self.who.every
        return rows, threads, self.home[which], self.offset[which]

    def groups(self) -> Iterator[tuple[int, int, Ints]]:
        """Offset, phase, and the signals that have both; in the order in which they come."""
        key = self.offset << 2 | self.phase
        keys, first, which = np.unique(key, return_index=True, return_inverse=True)
        for k in np.argsort(first):
            yield int(keys[k]) >> 2, int(keys[k]) & 3, np.flatnonzero(which == k)


def visits_of(team: Team, home: Ints) -> Signals:
    """The accesses of lanes to the shared memory of CTAs: each warp once for each CTA."""
    who, (ctas,) = _alike(*team.threads, home[team.full])
    return Signals(who, ctas, ctas, ctas)


def _alike(rows: Ints, warps: Ints, lanes: Ints, *values: Ints) -> tuple[Actors, Ints]:
    """The values that occur, with the lanes of the warp that have each; neighbouring lanes mostly agree."""
    columns = np.stack((rows, warps, *values))
    differs = np.ones(columns.shape[1], np.bool_)
    differs[1:] = (columns[:, 1:] != columns[:, :-1]).any(0)
    together = np.zeros((int(differs.sum()), 32), np.bool_)
    together[np.cumsum(differs) - 1, lanes] = True
    return Actors(columns[0, differs], columns[1, differs], together), columns[2:, differs]


def arrivals_of(wave: Wave, rows: Ints, home: Ints, offset: Ints) -> Signals:
    """The signals of asynchronous units, on behalf of CTAs ``rows``, at m-barriers of CTAs ``home``."""
    phase = phase_of(wave.shared.view(8)[home, offset >> 3])
    return Signals(Actors(rows, np.zeros_like(rows), np.zeros((len(rows), 32), np.bool_)), home, offset, phase)


@dataclass(frozen=True, eq=False)
class MBarrierSignal:
    """Lanes made, ended, arrived at or saw the end of a phase of m-barriers: what the machine tells of it.

    barrier: shared addresses. found: what `execute` returned: the words before an arrival, or before bytes were
    counted.
    """

    team: Team
    barrier: Lanes
    effect: Signal
    found: Lanes
    at: Span | None

    @cached_property
    def warps(self) -> Signals:
        """Each warp once for each m-barrier and phase."""
        wave, active = self.team.wave, self.team.full
        rows, warps, lanes = self.team.threads
        home, offset = split(wave, rows, np.broadcast_to(self.barrier, active.shape)[active].astype(np.int64))
        states = wave.shared.view(8)[home, offset >> 3]
        if self.effect.kind in ("arrive", "bytes"):
            states = np.broadcast_to(self.found, active.shape)[active]
        who, (home, offset, phase) = _alike(rows, warps, lanes, home, offset, phase_of(states))
        return Signals(who, home, offset, phase)
