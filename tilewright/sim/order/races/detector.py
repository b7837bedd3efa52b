"""Every access of a run: does it race with an earlier one? Then it is remembered for later ones."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd
from typing import TYPE_CHECKING

from tilewright.sim.machine.coordinates import buffer_name
from tilewright.sim.machine.dependence import Doubt, Moment
from tilewright.sim.order.knowledge.locations import Locations
from tilewright.sim.order.races.accesses import EQUAL
from tilewright.sim.order.races.clash import DEPENDENT
from tilewright.sim.order.races.judge import clash_with_reads, lost_store
from tilewright.sim.order.races.places import TaggedPlaces
from tilewright.sim.order.races.tickets import Tickets
from tilewright.sim.order.races.volatile_reads import VolatileReads
from tilewright.sim.order.reports.race import report, warned, warning

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from tilewright.sim.machine.address import Address
    from tilewright.sim.machine.batch import Batch
    from tilewright.sim.machine.masks import Mask
    from tilewright.sim.machine.places import Place
    from tilewright.sim.machine.sites import Site
    from tilewright.sim.machine.subject import Subject
    from tilewright.sim.machine.wave import Wave
    from tilewright.sim.order.races.accesses import AccessRecord
    from tilewright.sim.order.races.clash import Clash, Pairs
    from tilewright.sim.order.wave import WaveOrder

__all__ = ["RaceDetector"]


@dataclass(frozen=True, slots=True)
class ToldRace:
    """A race that was told. lines: of both accesses. until: the time of the later one, in its wave."""

    key: tuple[object, ...]
    buffer: str
    lines: frozenset[str]
    wave: Wave
    until: int

    def brings(self, clash: Clash, buffer: str, lines: frozenset[str]) -> bool:
        """Does another race at the same buffer follow from it? It has no other lines, or what would have put these two
        accesses in order does so for those as well, as a barrier just before the later access would.
        """
        if buffer != self.buffer:
            return False
        crosses = clash.other is not None and clash.other.time < self.until <= clash.access.time
        return lines <= self.lines or (crosses and clash.batch.wave is self.wave)


ANYWHERE = 0  # where pointers of run time write


class RaceDetector:
    """Of one run. buffers: global ones by window, as those that overlap share one. warned: lines and their buffers."""

    def __init__(self, program: Subject, orders: Mapping[Wave, WaveOrder]) -> None:
        self.program = program
        self.orders = orders
        self.buffers: dict[int, TaggedPlaces] = {}
        self.locations = Locations(keeps_states=program.decides)
        self.volatile = VolatileReads(orders, program.sites)
        self.tickets = Tickets(orders, self.locations)
        self.warned: set[tuple[str, str]] = set()
        self.told: list[ToldRace] = []
        self.written = {site.place.window if site.place else ANYWHERE for site in program.sites if site.write}
        touched = (one for bound in program.operations for one in bound.form.touched)
        if any(one.write and one.space not in ("tmem", "shared") for one in touched):
            self.written.add(ANYWHERE)  # by addresses that are no operands

    def is_written(self, window: int) -> bool:
        """May anything write to a buffer?"""
        return not self.written.isdisjoint((window, ANYWHERE))

    def grain(self, window: int) -> int:
        """The narrowest access that may touch a place of a window, in bytes."""
        sites = [site for site in self.program.sites if site.place is None or site.place.window == window]
        starts = [site.place.start for site in sites if site.place and site.place.space == "global"]
        return gcd(min((site.width for site in sites), default=4), *starts)

    def buffer(self, place: Place, batch: Batch) -> TaggedPlaces:
        """The places of a global buffer."""
        if (window := place.window) not in self.buffers:
            nbytes = batch.wave.run.blocks[place.name].nbytes
            self.buffers[window] = TaggedPlaces(f"window {window}", nbytes, self.grain(window), is_global=True)
        return self.buffers[window]

    def access(self, places: TaggedPlaces, site: Site, batch: Batch, mask: Mask, at: Address) -> None:
        """Lanes touch places. Where that races with an earlier access it is told; in any case it is remembered."""
        order = self.orders[batch.wave]
        access = places.access(order.clocks, site, *batch.busy(mask, at))
        if (dependence := batch.wave.run.dependence) is not None:
            dependence.comes(site, access.time)
        self._judge(access)
        places.remember(access, reads=not site.write)
        self.locations.touched(access, order.fences)
        if site.sem != "weak":
            self.volatile.counted(access)
            self.tickets.counted(access)

    def at_once(self, site: Site, batch: Batch, mask: Mask, every: tuple[Address, ...]) -> bool:
        """Record accesses of shared memory that follow each other as one; False, and nothing done, where one may race,
        or concern more than later accesses.
        """
        order = self.orders[batch.wave]
        places, concerned = order.shared, order.operations is not None or bool(order.mbarriers.alive)
        if concerned or places.is_global or site.sem != "weak" or places.name in self.locations.memories:
            return False
        access = places.access(order.clocks, site, batch, mask, every[0])
        access.more = every[1:]
        if not places.is_surely_free(access):
            return False
        if site.write:
            places.write_later(access)
        places.remember(access, reads=not site.write)
        return True

    def _judge(self, access: AccessRecord) -> None:
        """Raises SimulationError where an access races with an earlier one. If it writes, it is recorded."""
        alike, unknown = self.meet(access)
        self._report(self.volatile.read(access, unknown))
        if not access.site.write:
            return
        if access.site.sem != "weak":
            access.places.keep_frail(access)
        lost = access.places.write(access)
        if lost is not None:
            self._report(lost_store(access, *lost))
        many = lost[0] if lost is not None else None
        if unknown is not None and len(unknown) and (alike or access.site.sem != "weak"):
            lanes = unknown.lanes(access.look.shape)
            many = lanes if many is None else many | lanes
        if many is not None:
            access.places.mark_many(access, many)

    def meet(self, access: AccessRecord) -> tuple[bool, Pairs | None]:
        """Raises SimulationError where it races; returns earlier writes that it does not know of, and whether it writes
        the same as they did, which is tolerated.
        """
        if access.places.is_calm(access.clocks, write=access.site.write):
            return False, None
        found = access.places.writes_before(access)
        clash, unknown = self.tickets.clash_of(access, found) if found is not None else (None, None)
        self._report(clash)
        found = access.places.reads_before(access) if access.site.write else None
        self._report(clash_with_reads(access, found) if found is not None else None)
        return clash is not None and clash.excuse == EQUAL, unknown

    def _report(self, clash: Clash | None) -> None:
        """Tells of a race; warns where both wrote the same, or only a scope is missing after reads."""
        if clash is None:
            return
        if clash.is_benign:
            self._warn(clash)
        else:
            self._tell(clash)

    def _warn(self, clash: Clash) -> None:
        key = (str(clash.site.at), clash.site.line.buffer)
        if key not in self.warned:
            self.warned.add(key)
            topic = ("race", clash.excuse, clash.ends, clash.site.line.buffer)
            facts = warned(self.program, clash)
            clash.batch.wave.run.warn(warning(self.program, clash), *topic, facts=facts)

    def _may_depend(self, clash: Clash, key: Hashable) -> bool:
        """Does what is stored perhaps depend, by shuffles, on what the other lane has read? That is noted, and another
        run finds out.
        """
        run = clash.batch.wave.run
        if not (self.program.with_shadows and self.program.kernel.compiled and clash.may_depend()):
            return False
        if run.excused is not None:
            return key in run.excused
        own, other = (cta * run.warps * 32 + thread for cta, thread in (clash.later, clash.earlier))
        assert clash.other is not None, "it may depend"
        read, store = Moment(clash.other.site, clash.other.time, other), Moment(clash.site, clash.access.time, own)
        if key not in run.doubts:
            excused = replace(clash, excuse=DEPENDENT)
            excuse = warning(self.program, excused), warned(self.program, excused)
            run.doubts[key] = Doubt(key, read, store, excuse)
        return True

    def _tell(self, clash: Clash) -> None:
        """A race is a finding of its own, or one more at the same two lines, or it follows from one told before."""
        run, other = clash.batch.wave.run, clash.other
        buffer = buffer_name(self.program, clash.site, clash.access.shown_address(clash.lane)) or ""
        lines = frozenset({str(clash.site.at), str(other.site.at if other is not None else None)})
        key = ("races", buffer, lines)
        if run.findings.again(key):
            return
        if self._may_depend(clash, key):
            return
        if cause := next((each for each in self.told if each.brings(clash, buffer, lines)), None):
            run.findings.followed(cause.key)
            return
        if run.unwritten == "used" and ("poison", buffer) in run.findings.entries:
            run.findings.followed(("poison", buffer))  # told as that race by the run that looks for the writer
            return
        self.told.append(ToldRace(key, buffer, lines, clash.batch.wave, clash.access.time))
        error = report(self.program, clash, self.orders, self.buffers, self.locations)
        if run.unwritten == "found":
            raise error
        run.findings.tell(key, error)
