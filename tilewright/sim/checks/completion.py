"""Who knows that which asynchronous operation is complete, and may rely on it.

Operations on tensor memory keep no order among themselves. One of them may touch what another has written or read once
a chain of words leads from that one's completion to it: a commit that reports to an m-barrier, a wait that sees the
m-barrier's phase over (or, for a warp's own loads and stores, the wait of their kind), and between threads a meeting
with a fence on either side. This check follows the chain (`tilewright.sim.checks.knowledge` says in which words).

Each cell of tensor memory remembers the operation that wrote it last and, for each warpgroup, the one that has read it
since; each 16 bytes of shared memory the copies that read them. Whoever comes after the last writer comes after all
that the writer came after, so that nothing older need be kept.

Source: PTX ISA, "TensorCore 5th Generation: Memory Consistency Model".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.errors import SimulationError
from tilewright.isa import ProxyFence
from tilewright.sim.checks.base import Check
from tilewright.sim.checks.chain import missing_commit, missing_link
from tilewright.sim.checks.knowledge import (
    HEARD,
    ORDERED,
    SEEN,
    UNIT,
    Knowledge,
    Loading,
    Part,
    Report,
    Stretch,
    told,
)
from tilewright.sim.checks.phases import arrivals_of, signals_of
from tilewright.sim.masks import spread
from tilewright.sim.tmem import cell_number, cells_text

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tilewright.errors import Span
    from tilewright.isa import Fence
    from tilewright.sim.address import Address
    from tilewright.sim.batch import Batch, Look
    from tilewright.sim.masks import Bools, Mask
    from tilewright.sim.pending import Operation
    from tilewright.sim.sites import Hook, Site
    from tilewright.sim.tmem import Taken
    from tilewright.sim.wave import Wave

__all__ = ["Completion"]


class Completion(Check):
    """The part of the race check that is about asynchronous operations."""

    def start(self, wave: Wave) -> None:
        if self.program.has_asynchronous:
            wave.checks["completion"] = Knowledge(wave)

    @staticmethod
    def of(wave: Wave) -> Knowledge | None:
        """What is known in a wave, if any operation was issued there."""
        found: Knowledge | None = wave.checks.get("completion")
        return found if found is not None and found.parts else None

    # What warps learn

    def awaited(self, batch: Batch, mask: Mask, group: str) -> None:
        known = self.of(batch.wave)
        if known is None:
            return
        waiting = np.zeros(known.flags.shape[:2], np.bool_)
        waiting[batch.ctas, batch.warps] = mask.full.any(-1)
        for part, unseen in known.unseen:
            if part.operation.group == group:
                now = unseen & waiting[:, part.warp]
                known.flags[now, part.warp, part.number] |= SEEN | ORDERED
                unseen &= ~now
        known.unseen = [(part, unseen) for part, unseen in known.unseen if unseen.any()]
        for loading in known.loading:
            if loading.operation.group == group:
                loading.warps &= ~waiting
        known.loading = [each for each in known.loading if each.warps.any()]
        batch.wave.pending.loading = bool(known.loading)

    def fenced(self, batch: Batch, mask: Mask, fence: Fence | ProxyFence) -> None:
        known = self.of(batch.wave)
        if known is None or not isinstance(fence, ProxyFence) or fence.proxy != "tmem":
            return
        from_there = {"release": SEEN, "acquire": HEARD}[str(fence.side)]
        rows, warps = batch.rows_and_warps(mask.full.any(-1))
        own = known.flags[rows, warps]
        known.learns(rows, warps, (own & from_there) << 1)  # what is seen is offered, what was heard is ordered

    def released(self, wave: Wave, ctas: NDArray, warps: slice, here: Bools, barrier: int, rows: NDArray) -> None:  # type: ignore[type-arg]
        known = self.of(wave)
        if known is not None:
            each = np.where(here[..., None], told(known.flags[ctas, warps]), 0)
            known.tells(barrier, rows, np.bitwise_or.reduce(each, axis=1))

    def acquired(self, wave: Wave, ctas: NDArray, waiting: Bools, barrier: int, rows: NDArray) -> None:  # type: ignore[type-arg]
        known = self.of(wave)
        if known is not None and barrier in known.meetings:
            meeting = known.meetings[barrier]
            known.flags[ctas] |= np.where(waiting[..., None], meeting[rows][:, None], 0)

    def forgotten(self, wave: Wave, rows: NDArray, barrier: int) -> None:  # type: ignore[type-arg]
        known = self.of(wave)
        if known is not None and barrier in known.meetings:
            known.meetings[barrier][rows] = 0

    def all_met(self, wave: Wave, ctas: slice, warps: slice | None) -> None:
        known = self.of(wave)
        if known is not None:
            known.flags[ctas] |= np.bitwise_or.reduce(told(known.flags[ctas]), axis=1)[:, None]

    def signalled(self, batch: Batch, mask: Mask, barrier: Any, kind: str, found: Any) -> None:
        known = self.of(batch.wave)
        if known is None or kind not in ("init", "arrive", "wait"):
            return
        signals = signals_of(batch, mask, barrier, kind, found)
        if kind == "init":
            known.mbarriers.forget(signals)
        elif kind == "arrive":
            known.mbarriers.arrived(signals, told(known.flags[signals.rows, signals.warps]))
        else:
            for those, published in known.mbarriers.over(signals):
                known.learns(signals.rows[those], signals.warps[those], published)

    def completing(self, operation: Operation) -> None:
        """A commit reports, to whoever sees the phase over, all that its thread had issued before."""
        known = self.of(operation.batch.wave)
        if known is None or operation.number not in known.commits:
            return
        published = known.commits.pop(operation.number)
        for issuer, rows, address in operation.footprint.arrivals:
            known.mbarriers.arrived(arrivals_of(known.wave, rows, address), published[issuer])

    # What operations touch

    def issued(self, operation: Operation) -> None:
        known: Knowledge | None = operation.batch.wave.checks.get("completion")
        if known is None:
            return
        if operation.is_commit:
            self._reports(known, operation)
            return
        parts, own = known.new_parts(operation)
        for cells in operation.footprint.read:
            self._touch(known, operation, own, cells, writes=False)
        for cells in operation.footprint.written:
            self._touch(known, operation, own, cells, writes=True)
        for rows, address, nbytes in operation.footprint.shared:
            self._hold(known, operation, own, (rows, address, nbytes))
        if operation.instruction.sinks:
            loading = Loading(operation, parts, operation.warps())
            for stretch in loading.stretches():
                self._check_in_flight(known, stretch, operation.batch, operation.mask, operation.instruction.at)
            known.loading.append(loading)
            operation.batch.wave.pending.loading = True

    @staticmethod
    def _reports(known: Knowledge, commit: Operation) -> None:
        """A commit was issued: it will publish what its threads have issued, and know, by now.

        It is itself the fence before a meeting.
        """
        rows, threads = commit.rows, commit.threads
        flags = known.flags[rows, threads // 32]
        mine = np.where(known.of_threads(rows, threads, commit.group), SEEN, 0).astype(np.uint8)
        known.commits[commit.number] = told(flags | mine | (flags | mine) << 1 & 2 * SEEN)
        _, homes, address = commit.footprint.arrivals[0]
        parity = int(arrivals_of(known.wave, homes[:1], address[:1]).phase[0]) % 2
        who = frozenset(zip(rows.tolist(), threads.tolist(), strict=True))
        known.reports.append(Report(commit.number, commit.group, commit.instruction.at, who, parity))

    def _touch(
        self, known: Knowledge, operation: Operation, own: Any, where: tuple[Any, Any, Any], *, writes: bool
    ) -> None:
        """Has every operation that touched these cells before been put in order before this one?"""
        row, lane, column = (axis.reshape(len(axis), -1) for axis in where)
        cell = cell_number(row, lane, column)
        actor = np.arange(len(row)) * len(own) // len(row)  # both CTAs of a pair take part for one thread
        for table, did in known.touched if writes else known.touched[:1]:
            before = table.reshape(-1).take(cell)
            self._check_order(known, operation, own, (actor, lane, column, before), did)
        if not writes:
            for group in np.unique(warpgroup := operation.threads[actor] // 128):
                of_group = warpgroup == group
                known.readers[group].reshape(-1)[cell[of_group]] = own[actor][of_group][:, None]
            return
        last_to_first = np.arange(len(row))[::-1]  # of several that write a cell at once, the first stays
        known.writers.reshape(-1)[cell[last_to_first]] = own[actor][last_to_first][:, None]
        for readers in known.readers:
            readers.reshape(-1)[cell] = 0
        if len(own) > 1:
            self._check_order(
                known, operation, own, (actor, lane, column, known.writers.reshape(-1).take(cell)), "written"
            )

    def _check_order(
        self, known: Knowledge, now: Operation, own: Any, cells: tuple[Any, Any, Any, Any], did: str
    ) -> None:
        """cells: of each actor, and their lanes, columns, and the numbers of who has touched them."""
        actor, lane, column, before = cells
        for number in np.flatnonzero(np.bincount(before.reshape(-1))).tolist():
            in_order = self._are_ordered(known, number, now, own)
            if not in_order.all() and (wrong := ~in_order[actor][:, None] & (before == number)).any():
                k = int(np.argmax(wrong.any(1)))
                text = cells_text(lane[k][wrong[k]], column[k][wrong[k]])
                self._clash(known, known.parts[number], (now, int(actor[k])), text, did)

    @staticmethod
    def _are_ordered(known: Knowledge, number: int, now: Operation, own: Any) -> Bools:
        """Of each actor: does a part come before it? Some kinds of one thread keep their order by themselves, and what
        a thread itself has seen complete is; an operation reads before it writes.
        """
        flags = known.flags[now.rows, now.threads // 32, number]
        in_order: Bools = (flags & ORDERED != 0) | (own == number)
        earlier = known.parts.get(number)
        if earlier is not None and earlier.is_alone and now.is_bulk:
            same = (now.threads == earlier.thread) & (known.ranks[now.rows] == earlier.rank)
            by_itself = (
                earlier.operation.instruction.bound.instruction.name in now.instruction.asynchronous.in_order_after
            )
            in_order |= same & (by_itself | (flags & SEEN != 0))
        return in_order

    @staticmethod
    def _clash(known: Knowledge, earlier: Part, now: tuple[Operation, int], cells: str, did: str) -> None:
        operation, actor = now
        row, warp, at = int(operation.rows[actor]), int(operation.threads[actor]) // 32, operation.instruction.at
        raise SimulationError(
            f"{operation.name} touches tensor memory that {earlier.operation.name} may still not have {did}",
            given=f"{cells}\n{at}: {operation.who(actor)}\n{did} at {earlier.at}: {earlier.who(row)}",
            allowed="an operation after that one is known to be complete",
            hint=missing_link(known, earlier, (row, warp), at),
            at=at,
        )

    @staticmethod
    def _hold(known: Knowledge, operation: Operation, own: Any, source: tuple[Any, Any, int]) -> None:
        rows, address, nbytes = source
        actor = np.arange(len(rows)) * len(own) // len(rows)
        warps = operation.threads[actor] // 32
        for warp in np.unique(warps).tolist():
            of_warp = warps == warp
            now = own[actor[of_warp]].reshape(-1, *[1] * (rows.ndim - 1))
            for byte in range(0, nbytes, UNIT):
                known.holders_of(warp)[rows[of_warp], address[of_warp] + byte >> 4] = now

    def freed(self, wave: Wave, place: tuple[int, int], taken: Taken, at: Span | None) -> None:
        known = self.of(wave)
        if known is None:
            return
        row, warp = place
        columns = slice(taken.first, taken.first + taken.columns)
        for table, did in known.touched:
            before = table[row, columns]
            complete = known.flags[row, warp][before] & SEEN != 0
            if not complete.all():
                earlier = known.parts[int(before[~complete].min())]
                raise SimulationError(
                    f"tensor memory is given back that {earlier.operation.name} may still not have {did}",
                    given=f"{at}: CTA {wave.cta_name(row)}, warp {warp}\n{did} at {earlier.at}: {earlier.who(row)}",
                    allowed="dealloc after everyone has waited for their operations, and met",
                    hint=missing_link(known, earlier, (row, warp), at, fences=False),
                    at=at,
                )
            before[...] = 0

    def stuck(self, wave: Wave) -> str:
        known = self.of(wave)
        if known is None:
            return ""
        ideas = (missing_commit(known, part, int(part.operation.rows[0])) for part in known.parts.values())
        return next(filter(None, ideas), "")

    # What threads touch

    def watch(self, site: Site) -> Hook | None:
        assert site.place is not None
        if not self.program.has_asynchronous:
            return None
        if site.place.space == "local":
            return lambda batch, mask, at: self._check_registers(site, batch, mask, at)
        if site.place.space == "shared" and site.write:
            return lambda batch, mask, at: self._check_held(site, batch, mask, at)
        return None

    def _check_registers(self, site: Site, batch: Batch, mask: Mask, at: Address) -> None:
        known = self.of(batch.wave)
        assert site.place is not None
        if known is not None and known.loading:
            self._check_in_flight(known, Stretch(site.place.name, at, site.width), batch, mask, site.at)

    def _check_in_flight(self, known: Knowledge, used: Stretch, batch: Look, mask: Mask, at: Span | None) -> None:
        for loading in known.loading:
            waiting = loading.warps[batch.ctas, batch.warps] & mask.full.any(-1)
            current = known.wave.pending.current is loading.operation
            if current or not waiting.any() or not any(map(used.overlaps, loading.stretches())):
                continue
            rows, warps = batch.rows_and_warps(waiting)
            row, warp = int(rows[0]), int(warps[0])
            earlier = next(p for p in loading.parts if p.warp == warp and p.rank == known.ranks[row])
            raise SimulationError(
                f"{used.name} is used while {earlier.operation.name} may not have filled it",
                given=f"{at}: CTA {known.wave.cta_name(row)}, warp {warp}\nloaded at {earlier.at}",
                allowed="registers after the warp has waited for its loads",
                hint=missing_link(known, earlier, (row, warp), at),
                at=at,
            )

    def _check_held(self, site: Site, batch: Batch, mask: Mask, at: Address) -> None:
        known = self.of(batch.wave)
        if known is None or not known.holders:
            return
        rows, warps = batch.rows_and_warps(mask.full)
        address = spread(at.full(), batch.shape)[mask.full]
        for holders in known.holders.values():
            for byte in range(0, max(site.width, 1) + UNIT - 1, UNIT):
                unit = np.minimum(address + min(byte, site.width - 1) >> 4, holders.shape[1] - 1)
                number = holders[rows, unit]
                complete = known.flags[rows, warps, number] & SEEN != 0
                if not complete.all():
                    k = int(np.argmin(complete))
                    self._overwrites(known, site, known.parts[int(number[k])], (int(rows[k]), int(warps[k])))

    @staticmethod
    def _overwrites(known: Knowledge, site: Site, earlier: Part, place: tuple[int, int]) -> None:
        raise SimulationError(
            f"{site.op} overwrites shared memory that {earlier.operation.name} may still be reading",
            given=f"{site.at}: CTA {known.wave.cta_name(place[0])}, warp {place[1]}\n"
            f"read at {earlier.at}: {earlier.who(place[0])}",
            allowed="a store after that copy is known to be complete",
            hint=missing_link(known, earlier, place, site.at, fences=False),
            at=site.at,
        )
