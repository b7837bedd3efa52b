"""Proxy fences: between what threads and asynchronous units do to shared and to global memory, and between threads that
change a tensor map and those that use it.

Source: PTX ISA, "membar, fence: fence.proxy.tensormap", "Memory Consistency Model: Proxies".
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tilewright.explain.rules import LackingFence
from tilewright.isa import ProxyFence
from tilewright.sim.machine import WINDOW_BITS, AccessEvent, Actors, FenceEvent, Ints, Operation, UnitView
from tilewright.sim.order.knowledge.fences import FencePoints, Stamps
from tilewright.sim.order.knowledge.known import FENCED, SEEN, Known
from tilewright.sim.order.knowledge.locations import place_in
from tilewright.sim.order.reports.rules import unfenced_copy, unfenced_global, unfenced_map, unfenced_shared

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from tilewright.isa import Access
    from tilewright.sim.order.asynchronous.operations import Operations
    from tilewright.sim.order.knowledge.clocks import Clocks
    from tilewright.sim.order.knowledge.known import Flags, Times
    from tilewright.sim.order.races.places import TaggedPlaces
    from tilewright.sim.order.races.records import Log

# Accesses of threads and of asynchronous units to the same shared memory, and the proxy fences between them.
#
# The units of a CTA see stores of threads to its memory only after a fence in that CTA, by the thread itself or by one
# that comes after the store; the operation comes after the fence. For stores of a CTA to its own memory a pair of half
# fences does as well: one that releases there, and one in any CTA of the cluster that acquires and comes after it.
# Loads need the same before a unit overwrites the bytes. Kernels are published without the fence after loads.
#
# Source: PTX ISA, "Memory Consistency Model: Proxies", "Async proxy".


UNIT = 16  # bytes of shared memory that share one entry


@dataclass(frozen=True, eq=False, slots=True)
class HalfFence:
    """A fence that releases: of the thread of a CTA, at a time. until: up to when each warp of the cluster is covered;
    parts: numbers of operations' parts that are.
    """

    row: int
    thread: int
    time: int
    until: Times
    parts: Ints


class SharedStores:
    """What the units may not see yet of what threads stored. Up to when there were fences, clocks say: the issuer of an
    operation knows those that come before it. log: of shared memory.

    stored: (CTAs, warps of the cluster, units), the time of a warp's last store there; 0 for none. loaded: the same of
    loads, where units may overwrite what was loaded. last: (CTAs, warps, 32), the time of a thread's last access.
    """

    def __init__(self, operations: Operations, touched: Iterable[Access], log: Log) -> None:
        self.operations = operations
        self.log = log
        self.clocks = clocks = operations.clocks
        wave = clocks.wave
        writing = {one.proxy for one in touched if one.write and one.space == "shared"}
        units = -(-max(wave.run.shared_bytes, 1) // UNIT)
        self.stored = np.zeros((wave.ctas, wave.run.cluster_ctas * wave.run.warps, units), np.int32)
        # zeros_like would touch all of it
        self.loaded = np.zeros(self.stored.shape, np.int32) if "async" in writing else None
        self.last = np.zeros((wave.ctas, wave.run.warps, 32), np.int32)
        self.halves: list[HalfFence] = []
        self._may_copy = "generic" in writing
        self._noted: set[str] = set()  # of the two

    def _warp(self, rows: Ints, warps: Ints) -> Ints:
        """The number of warps of CTAs in their cluster."""
        return np.asarray(self.clocks.wave.rank(rows) * self.clocks.wave.run.warps + warps)

    def accessed(self, event: AccessEvent) -> None:
        """Threads have touched shared memory."""
        table = self.stored if event.site.write else self.loaded
        if event.site.how.is_signal or table is None:
            return
        (rows, warps, lanes), (home, offset) = event.team.threads, event.places
        units = offset // UNIT
        inside = units < table.shape[-1]
        table[home[inside], self._warp(rows, warps)[inside], units[inside]] = event.time
        self.last[rows, warps, lanes] = event.time
        self._noted.add("stored" if event.site.write else "loaded")

    def fenced(self, event: FenceEvent, fence: ProxyFence) -> None:
        """Threads have fenced: their own stores, and those that they come after."""
        if fence.proxy != "async":
            return
        who = event.team.actors
        if fence.side == "acquire":
            self._acquired(who)
            return
        until = self._known_warps(who)
        seen = self.clocks.flags_of(who.rows, self.clocks.knower[32 * who.warps + who.lanes.argmax(1)]) & SEEN
        if fence.side == "release":
            self.clocks.wave.tick()
            for k, row, thread in who.each():
                self.halves.append(HalfFence(row, thread, self.clocks.wave.now, until[k], np.flatnonzero(seen[k])))
            return
        if fence.space != "global":
            self._cover(who, who.rows, until, np.asarray(seen * FENCED))

    def _known_warps(self, who: Actors) -> Times:
        """(n, warps of the cluster): up to when lanes come after all that each warp did. A thread of which they know
        the last access did nothing since.
        """
        clocks, wave = self.clocks, self.clocks.wave
        first = who.rows - wave.rank(who.rows)
        last = self.last[first[:, None] + np.arange(wave.run.cluster_ctas)].reshape(len(who), -1)
        known = clocks.times_of_shared(clocks.published(who))
        return np.asarray(np.where(known >= last, clocks.wave.now, known).reshape(len(who), -1, 32).min(-1))

    def _acquired(self, who: Actors) -> None:
        """Complete the fence of each releasing half that these threads come after."""
        clocks, count = self.clocks, len(who)
        knowers = clocks.knower[32 * who.warps + who.lanes.argmax(1)]
        for half in self.halves:
            homes = np.full(count, half.row)
            after = clocks.cluster_of(who.rows) == clocks.cluster_of(homes)
            cta, thread, time = (np.full(count, of) for of in (half.row + clocks.wave.first, half.thread, half.time))
            after &= clocks.knows(who.rows, knowers, cta, thread, time, also=clocks.of_shared)
            flags = np.zeros((count, clocks.parts.shape[-1]), clocks.parts.dtype)
            flags[:, half.parts[clocks.forgotten[half.parts] <= half.time]] = FENCED
            self._cover(who[after], homes[after], np.tile(half.until, (count, 1))[after], flags[after])

    def _cover(self, who: Actors, homes: Ints, until: Times, flags: Flags) -> None:
        """These lanes come after fences in the CTAs ``homes``, and so do all that come after them."""
        threads = np.zeros((len(who), self.clocks.width), np.int32)
        first = self.clocks.proxied + self.clocks.wave.rank(homes) * until.shape[1]
        np.put_along_axis(threads, first[:, None] + np.arange(until.shape[1]), until, axis=1)
        self.clocks.learn(who, Known(threads, flags, self.clocks.cluster_of(who.rows)))

    def _fenced(self, operation: Operation, one: UnitView) -> Times:
        """(m, ..., warps of the cluster): up to when fences before an operation come after what each warp did where
        ``one`` is. A warpgroup's product begins in each of its warps.
        """
        clocks = self.clocks
        rows, threads = operation.issuers.each()
        known = clocks.known[clocks.at(rows), clocks.knower[threads], clocks.proxied :].min(1)  # of every warp
        size, warps = clocks.wave.run.cluster_ctas, clocks.size // 32
        upto = known[:, : size * warps].reshape(-1, size, warps)
        return np.asarray(upto[one.along(one.issuer), clocks.wave.rank(one.rows)])

    def unfenced_by(self, operation: Operation) -> Iterator[LackingFence]:
        """The stores that an operation which begins now may not see, in words, and the missing fence."""
        for one in operation.touched:
            if one.proxy != "async" or one.space != "shared":
                continue
            yield from self._unfenced_copies(operation, one)
            for table, did in ((self.stored, "stored"), (self.loaded if one.writes else None, "loaded")):
                if table is None or did not in self._noted:
                    continue
                unfenced = table.transpose(0, 2, 1)[one.rows, one.at // UNIT] * one.touches[..., None]
                if unfenced.any() and (unfenced := unfenced * (unfenced > self._fenced(operation, one))).any():
                    *where, writer = map(int, np.argwhere(unfenced)[0])
                    row, time = int(one.rows[tuple(where)]), int(unfenced[(*where, writer)])
                    at = self.log.line_at(row + self.clocks.wave.first, time)
                    yield unfenced_shared(self.clocks, one, tuple(where), did, writer, at)

    def _unfenced_copies(self, operation: Operation, one: UnitView) -> Iterator[LackingFence]:
        """Stores of operations through the generic proxy, as of ``cp.async``, that the units may not see, in words."""
        parts, board = self.operations.parts, self.operations.scoreboard
        copies = [part.number for part in parts.values() if part.writes_shared_as_threads_do] if self._may_copy else []
        if copies:
            board.part()
            known, issuer = board.flags_of_issuers(operation), one.along(one.issuer)
        for rows, units in board.units_of(one) if copies else ():
            number = np.where(one.touches, board.filling[rows, units], 0)
            unfenced = np.isin(number, copies) & (known[issuer, number] & FENCED == 0)
            if unfenced.any():
                place = tuple(np.argwhere(unfenced)[0].tolist())
                yield unfenced_copy(self.clocks.wave, one, int(one.at[place]), parts[int(number[place])])


# Accesses of threads and of asynchronous units to the same global memory, and the proxy fences between them.
#
# A unit sees what threads stored, and may overwrite what they stored or loaded, after a proxy fence in the CTA that
# issues the operation: the fence comes after the access, and the operation after the fence. A fence in another CTA, the
# one that stored, does not count. What units of another CTA did needs that fence, too, as threads tell of it. In
# practice kernels work without it, so its absence is a warning.
#
# Of tensor maps in global memory: a thread that has changed one passes a fence that releases it; a thread that uses it
# comes after that fence, and passes one that acquires these 128 bytes. Each scope holds the other thread.
#
# Source: PTX ISA, "Memory Consistency Model: Proxies", "Async proxy"; NVIDIA's model of mixed proxies.


MAP_BYTES = 128


class GlobalAccesses:
    """The proxy fences of a wave between what threads have done to global memory, tensor maps too, and what units do
    there. buffers: by window. released, acquired: fences of maps; of those that acquire, by row and address, the ones
    that come after a release of all changes of that map.
    """

    def __init__(self, clocks: Clocks, buffers: Mapping[int, TaggedPlaces]) -> None:
        self.clocks = clocks
        self.buffers = buffers
        self.fences, self.released = FencePoints(clocks), FencePoints(clocks)
        self.acquired: dict[tuple[int, int], FencePoints] = defaultdict(lambda: FencePoints(clocks))

    def fenced(self, event: FenceEvent, fence: ProxyFence) -> None:
        """Threads have fenced: all that they did, the maps that they changed, or one that they are going to use."""
        team, where = event.team, event.where
        if (fence.proxy, fence.side) == ("async", "both") and fence.space in ("", "global") and self.buffers:
            self.fences.add(team.actors)
        if fence.proxy != "tensormap":
            return
        if where is None:
            self.released.add(team.actors, str(fence.scope))
            return
        at = np.broadcast_to(where.full(), team.shape)
        for _, row, thread in team.actors.each():
            address = int(at[place_in(team, row, thread)])
            if not len(self.released.left(row, thread, self._changes(address), scope=str(fence.scope))):
                self.acquired[row, address].add(Actors.threads(np.array([row]), np.array([thread])))

    def unfenced_by(self, operation: Operation) -> Iterator[LackingFence]:
        """The accesses that an operation which begins now may not come after, in words, and the missing fence."""
        yield from self._unfenced_maps(operation)
        for one in operation.touched:
            if one.proxy != "async" or one.space in ("shared", "tmem"):
                continue
            for window, there in one.windows():
                places, at = self.buffers.get(window), one.at[there] & (1 << WINDOW_BITS) - 1
                reach = int(at.min()), int(at.max()) + one.width
                if places is None or places.is_untouched(reach, "", write=one.writes):
                    continue
                units = (at // places.grain)[:, None] + np.arange(max(one.width // places.grain, 1))
                issuer = np.broadcast_to(one.along(one.issuer), one.at.shape)[there]
                for k in np.unique(issuer).tolist():
                    row, thread = int(operation.issuers.rows[k]), int(operation.issuers.threads[k])
                    for write in (True, False) if one.writes else (True,):
                        own = row + self.clocks.wave.first
                        at_issuer = units[issuer == k].reshape(-1)
                        done = places.last(at_issuer, write=write, home=own, combines=one.combines)
                        left = self.fences.left(row, thread, done, home=row) if len(done) else done
                        if len(left):
                            last = int(left.ctas[0]), int(left.threads[0])
                            did = "stored" if write else "loaded"
                            yield unfenced_global(self.clocks.wave, one, window, did, last, own)

    def _changes(self, address: int) -> Stamps:
        """The changes of a map by threads."""
        window, offset = divmod(address, 1 << WINDOW_BITS)
        if (places := self.buffers.get(window)) is None:
            return Stamps.none()
        return places.last(np.arange(offset // places.grain, (offset + MAP_BYTES) // places.grain), write=True)

    def _unfenced_maps(self, operation: Operation) -> Iterator[LackingFence]:
        """The map whose change an operation that begins now may not see, in words, and the missing fences."""
        for one in operation.consulted:
            for k, address in zip(one.issuer.tolist(), one.at.reshape(len(one.issuer), -1)[:, 0].tolist(), strict=True):
                row, thread = int(operation.issuers.rows[k]), int(operation.issuers.threads[k])
                if len(left := self._changes(address)):
                    left = self.acquired[row, address].left(row, thread, left)
                if len(left):
                    yield unfenced_map(self.clocks.wave, address, (int(left.ctas[0]), int(left.threads[0])))
