"""Who knows that which asynchronous operation is complete, and may rely on it.

Operations on tensor memory keep no order among themselves. One of them may touch what another has written or read once
a chain of words leads from that one's completion to it: a commit that reports to an m-barrier, a wait that sees the
m-barrier's phase over (or, for a warp's own loads and stores, the wait of their kind), and between threads a meeting
with a fence on either side. This check follows the chain. What one thread or warp issued has a number of its own; each
warp has four sets of them, as bits:

    seen      complete, as the warp has seen or been told
    offered   what its fence before a meeting has put in order for others
    heard     what others have offered it
    ordered   what its fence after a meeting has put before all that it does now

Each cell of tensor memory remembers the operation that wrote it last and, for each warpgroup, the one that read it
last; each 16 bytes of shared memory the copy that reads them.

Source: PTX ISA, "TensorCore 5th Generation: Memory Consistency Model".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.errors import SimulationError
from tilewright.isa import phase_state
from tilewright.sim.batch import numbers
from tilewright.sim.checks.base import Check
from tilewright.sim.checks.chain import missing_commit, missing_link
from tilewright.sim.checks.knowledge import NOTHING, UNIT, Knowledge, Loading, Part, Stretch, barriers_of, both
from tilewright.sim.masks import spread
from tilewright.sim.remote import split
from tilewright.sim.tensor import cells_text

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tilewright.errors import Span
    from tilewright.sim.address import Address
    from tilewright.sim.batch import Batch, Look
    from tilewright.sim.chunk import Chunk
    from tilewright.sim.masks import Bools, Mask
    from tilewright.sim.pending import Operation
    from tilewright.sim.sites import Hook, Site
    from tilewright.sim.tensor import Taken

__all__ = ["Completion"]


class Completion(Check):
    """The part of the race check that is about asynchronous operations."""

    def start(self, chunk: Chunk) -> None:
        if self.program.has_asynchronous:
            chunk.checks["completion"] = Knowledge(chunk)

    @staticmethod
    def of(chunk: Chunk) -> Knowledge | None:
        found: Knowledge | None = chunk.checks.get("completion")
        return found if found is not None and found.parts else None

    # What warps learn

    def _each(self, batch: Look, active: Any) -> list[tuple[int, int]]:
        rows, warps = numbers(batch.ctas), numbers(batch.warps)
        return [(rows[cta], warps[warp]) for cta, warp in np.argwhere(active).tolist()]

    def awaited(self, batch: Batch, mask: Mask, group: str) -> None:
        known = self.of(batch.chunk)
        if known is None:
            return
        waiting = set(self._each(batch, mask.full.any(-1)))
        for part in known.parts.values():
            if part.operation.group == group and part.place in waiting:
                known.warps[part.place].seen |= part.bit
                known.warps[part.place].ordered |= part.bit
        for loading in known.loading:
            if loading.operation.group == group:
                loading.warps[batch.ctas, batch.warps] &= ~mask.full.any(-1)
        known.loading = [each for each in known.loading if each.warps.any()]
        batch.chunk.pending.loading = bool(known.loading)

    def fenced(self, batch: Batch, mask: Mask, reach: str) -> None:
        known = self.of(batch.chunk)
        if known is None or not reach.startswith("tensor"):
            return
        for place in self._each(batch, mask.full.any(-1)):
            warp = known.warps[place]
            if reach == "tensor.before":
                warp.offered |= warp.seen
            else:
                warp.ordered |= warp.heard

    def released(self, chunk: Chunk, ctas: NDArray, warps: slice, here: Bools, barrier: int, rows: NDArray) -> None:  # type: ignore[type-arg]
        known = self.of(chunk)
        if known is None:
            return
        for cta, warp in np.argwhere(here).tolist():
            told = known.warps[int(ctas[cta]), numbers(warps)[warp]].told()
            meeting = (barrier, int(rows[cta]))
            known.meetings[meeting] = both(known.meetings.get(meeting, NOTHING), told)

    def acquired(self, chunk: Chunk, ctas: NDArray, waiting: Bools, barrier: int, rows: NDArray) -> None:  # type: ignore[type-arg]
        known = self.of(chunk)
        if known is None:
            return
        for cta, warp in np.argwhere(waiting).tolist():
            known.warps[int(ctas[cta]), warp].learns(known.meetings.get((barrier, int(rows[cta])), NOTHING))
        for row in set(rows.tolist()):
            known.meetings.pop((barrier, row), None)

    def all_met(self, chunk: Chunk, ctas: slice, warps: slice | None) -> None:
        known = self.of(chunk)
        for row in numbers(ctas) if known is not None else ():
            assert known is not None
            own = [known.warps[row, warp] for warp in range(chunk.run.warps)]
            told = [warp.told() for warp in own]
            for warp in own:
                for each in told:
                    warp.learns(each)

    def signalled(self, batch: Batch, mask: Mask, barrier: Any, kind: str, found: Any) -> None:
        known = self.of(batch.chunk)
        if known is None or kind not in ("init", "arrive", "wait"):
            return
        for row, warp, place, phase in barriers_of(batch, mask, barrier, kind, found):
            if kind == "init":
                known.mbarriers.forget(place)
            elif kind == "wait":
                known.warps[row, warp].learns(known.mbarriers.over(place, phase) or NOTHING)
            else:
                known.mbarriers.arrived(place, phase, known.warps[row, warp].told())

    def completing(self, operation: Operation) -> None:
        """A commit reports, to whoever sees the phase over, all that its thread had issued before."""
        known = self.of(operation.batch.chunk)
        if known is None or not operation.is_commit:
            return
        for issuer, rows, address in operation.footprint.arrivals:
            for k, row, offset in zip(issuer.tolist(), *split(known.chunk, rows, address), strict=True):
                place = (int(row), int(offset))
                phase = int(phase_state(known.chunk.shared.view(8)[place[0], place[1] >> 3]).phase)
                before = self._issued_before(known, operation, k)
                known.mbarriers.arrived(place, phase, (before, before))

    @staticmethod
    def _issued_before(known: Knowledge, commit: Operation, k: int) -> int:
        total = 0
        for part in known.parts.values():
            reported = part.operation.group == commit.group and part.operation.number < commit.number
            total |= part.bit if reported and part.thread == commit.thread(k) else 0
        return total

    # What operations touch

    def issued(self, operation: Operation) -> None:
        known: Knowledge | None = operation.batch.chunk.checks.get("completion")
        if known is None:
            return
        if operation.is_commit:
            self._reports(known, operation)
            return
        first = len(known.parts) + 1
        parts = [Part(first + actor, operation, actor) for actor in range(len(operation.actors))]
        known.parts |= {part.number: part for part in parts}
        for cells in operation.footprint.read:
            self._touch(known, parts, cells, writes=False)
        for cells in operation.footprint.written:
            self._touch(known, parts, cells, writes=True)
        for rows, address, nbytes in operation.footprint.shared:
            for k in range(len(rows)):
                for byte in range(0, nbytes, UNIT):
                    known.holders[rows[k], address[k] + byte >> 4] = first + k * len(parts) // len(rows)
        if operation.instruction.sinks:
            loading = Loading(operation, operation.warps())
            for stretch in loading.stretches():
                self._check_in_flight(known, stretch, operation.batch, operation.mask, operation.instruction.at)
            known.loading.append(loading)
            operation.batch.chunk.pending.loading = True

    @staticmethod
    def _reports(known: Knowledge, commit: Operation) -> None:
        """A commit was issued: it will report all of its threads' operations that no other reports."""
        threads = {commit.thread(k) for k in range(len(commit.actors))}
        for part in known.parts.values():
            if part.commit is None and part.operation.group == commit.group and part.thread in threads:
                part.commit = commit

    def _touch(self, known: Knowledge, parts: list[Part], where: tuple[Any, Any, Any], *, writes: bool) -> None:
        """Has every operation that touched these cells before been put in order before this one?"""
        for k in range(len(where[0])):
            now = parts[k * len(parts) // len(where[0])]  # both CTAs of a pair take part for one thread
            cells = tuple(axis[k] for axis in where)
            for table, did in known.touched if writes else known.touched[:1]:
                for number in np.unique(table[cells]).tolist():
                    earlier = known.parts.get(number)
                    if earlier is not None and not self._is_ordered(known, earlier, now):
                        same = table[cells] == number
                        self._clash(known, earlier, now, cells_text(cells[1][same], cells[2][same]), did)
            (known.writers if writes else known.readers[now.place[1] // 4])[cells] = now.number

    @staticmethod
    def _is_ordered(known: Knowledge, earlier: Part, now: Part) -> bool:
        if earlier is now:
            return True  # it reads before it writes
        warp = known.warps[now.place]
        if warp.ordered & earlier.bit:
            return True
        if earlier.thread is None or earlier.thread != now.thread:
            return False
        in_order = earlier.operation.instruction.bound.instruction.name
        return in_order in now.operation.instruction.asynchronous.in_order_after or bool(warp.seen & earlier.bit)

    @staticmethod
    def _clash(known: Knowledge, earlier: Part, now: Part, cells: str, did: str) -> None:
        raise SimulationError(
            f"{now.operation.name} touches tensor memory that {earlier.operation.name} may still not have {did}",
            given=f"{cells}\n{now.at}: {now.who}\n{did} at {earlier.at}: {earlier.who}",
            allowed="an operation after that one is known to be complete",
            hint=missing_link(known, earlier, now.place, now.at),
            at=now.at,
        )

    def freed(self, batch: Look, row: int, taken: Taken, at: Span | None) -> None:
        known = self.of(batch.chunk)
        if known is None:
            return
        columns = slice(taken.first, taken.first + taken.columns)
        warp = numbers(batch.warps)[0]
        for table, did in known.touched:
            for number in np.unique(table[row, :, columns]).tolist():
                earlier = known.parts.get(number)
                if earlier is not None and not known.warps[row, warp].seen & earlier.bit:
                    raise SimulationError(
                        f"tensor memory is given back that {earlier.operation.name} may still not have {did}",
                        given=f"{at}: warp {warp}\n{did} at {earlier.at}: {earlier.who}",
                        allowed="dealloc after everyone has waited for their operations, and met",
                        hint=missing_link(known, earlier, (row, warp), at, fences=False),
                        at=at,
                    )
            table[row, :, columns] = 0

    def stuck(self, chunk: Chunk) -> str:
        known = self.of(chunk)
        return next((f for part in known.parts.values() if (f := missing_commit(part))), "") if known else ""

    # What threads touch

    def watch(self, site: Site) -> Hook | None:
        assert site.place is not None
        if not self.program.has_asynchronous:
            return None
        if site.place.space == "local":
            return lambda batch, mask, at: self._check_registers(site, batch, mask, at)
        if site.place.space == "shared" and site.write and not site.atomic:
            return lambda batch, mask, at: self._check_held(site, batch, mask, at)
        return None

    def _check_registers(self, site: Site, batch: Batch, mask: Mask, at: Address) -> None:
        known = self.of(batch.chunk)
        assert site.place is not None
        if known is not None and known.loading:
            self._check_in_flight(known, Stretch(site.place.name, at, site.width), batch, mask, site.at)

    def _check_in_flight(self, known: Knowledge, used: Stretch, batch: Look, mask: Mask, at: Span | None) -> None:
        for loading in known.loading:
            waiting = loading.warps[batch.ctas, batch.warps] & mask.full.any(-1)
            current = known.chunk.pending.current is loading.operation
            if current or not waiting.any() or not any(map(used.overlaps, loading.stretches())):
                continue
            place = self._each(batch, waiting)[0]
            earlier = next(p for p in known.parts.values() if p.operation is loading.operation and p.place == place)
            raise SimulationError(
                f"{used.name} is used while {earlier.operation.name} may not have filled it",
                given=f"{at}: CTA {known.chunk.cta_name(place[0])}, warp {place[1]}\nloaded at {earlier.at}",
                allowed="registers after the warp has waited for its loads",
                hint=missing_link(known, earlier, place, at),
                at=at,
            )

    def _check_held(self, site: Site, batch: Batch, mask: Mask, at: Address) -> None:
        known = self.of(batch.chunk)
        if known is None:
            return
        full = spread(at.full(), batch.shape)
        for (row, warp), address in self._by_warp(batch, mask, full):
            units = np.unique(np.concatenate((address >> 4, address + site.width - 1 >> 4)))
            for number in np.unique(known.holders[row, units[units < known.holders.shape[1]]]).tolist():
                earlier = known.parts.get(number)
                if earlier is not None and not known.warps[row, warp].seen & earlier.bit:
                    self._overwrites(known, site, earlier, (row, warp))

    def _by_warp(self, batch: Batch, mask: Mask, full: Any) -> list[tuple[tuple[int, int], Any]]:
        active = mask.full
        rows, warps = numbers(batch.ctas), numbers(batch.warps)
        return [
            ((rows[cta], warps[warp]), full[cta, warp][active[cta, warp]])
            for cta, warp in np.argwhere(active.any(-1)).tolist()
        ]

    @staticmethod
    def _overwrites(known: Knowledge, site: Site, earlier: Part, place: tuple[int, int]) -> None:
        raise SimulationError(
            f"{site.op} overwrites shared memory that {earlier.operation.name} may still be reading",
            given=f"{site.at}: CTA {known.chunk.cta_name(place[0])}, warp {place[1]}\n"
            f"read at {earlier.at}: {earlier.who}",
            allowed="a store after that copy is known to be complete",
            hint=missing_link(known, earlier, place, site.at, fences=False),
            at=site.at,
        )
