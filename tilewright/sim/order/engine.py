"""The events of a run, and the changes that each makes to clocks, channels and places."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from tilewright.isa import Fence, ProxyFence, RegisterFence, Signal
from tilewright.sim.checks.base import Check, register
from tilewright.sim.machine import SHARED_WINDOW, AccessEvent, Hook, MeetingEvent, Site, arrivals_of, visits_of
from tilewright.sim.order.asynchronous.operations import (
    Operations,
    awaited,
    check_freed,
    check_global,
    check_in_flight,
    check_issue,
    check_shared,
    check_stored,
    places_of,
)
from tilewright.sim.order.grids import Grids
from tilewright.sim.order.knowledge.clocks import Clocks
from tilewright.sim.order.knowledge.fences import Fences
from tilewright.sim.order.knowledge.known import HEARD, ISSUED, SEEN, Ledger
from tilewright.sim.order.knowledge.phases import Phases, together
from tilewright.sim.order.proxies import GlobalAccesses, SharedStores
from tilewright.sim.order.races.detector import RaceDetector
from tilewright.sim.order.races.places import TaggedPlaces
from tilewright.sim.order.reports.handover import missing_commits
from tilewright.sim.order.rules import (
    CLUSTER,
    BarrierRules,
    ClusterMeetings,
    MBarrierRules,
    RemoteAccesses,
    check_constants,
    check_not_early,
    check_together,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tilewright.errors import Span
    from tilewright.isa import Lanes
    from tilewright.sim.machine import Device, FenceEvent, Ints, MBarrierSignal, Operation, Taken, Team, Waiting, Wave

# The order of one wave of CTAs: its clocks, channels and places.


PITCH = 256  # the shared memories of a cluster follow each other in multiples of so many bytes


class WaveOrder:
    """The order of a wave of CTAs.

    meetings: the knowledge that barriers hand on, by number; by ~number, to the same CTA alone. operations: where the
    kernel has asynchronous instructions; stores: where these touch shared memory through the async proxy. proxies: what
    hears of proxy fences, and asks for them.
    """

    def __init__(self, wave: Wave, grain: int, buffers: Mapping[int, TaggedPlaces]) -> None:
        asynchronous = wave.run.program.has_asynchronous
        self.clocks = Clocks(wave, has_parts=asynchronous)
        name, nbytes, ctas = wave.run.places.arena.name, wave.run.shared_bytes, wave.ctas
        self.shared = TaggedPlaces(name, nbytes, grain, ctas=ctas)
        if wave.run.cluster_ctas > 1:
            pitch = -(-max(nbytes, 1) // PITCH) * PITCH
            whole, own = ctas * pitch, f"{name} {wave.first}"
            self.shared = TaggedPlaces(own, whole, grain, pitch=pitch, arena=name)
        self.meetings: dict[int, Ledger] = defaultdict(lambda: Ledger(self.clocks))
        self.phases = Phases(self.clocks)
        self.fences = Fences(self.clocks)
        self.operations = Operations(self.clocks) if asynchronous else None
        self.barriers = BarrierRules(self.clocks)
        self.cluster = ClusterMeetings(self.clocks)
        self.mbarriers = MBarrierRules(self.clocks, self.cluster)
        self.remote = RemoteAccesses(self.clocks, self.cluster)

        self.stores: SharedStores | None = None
        self.proxies: list[SharedStores | GlobalAccesses] = []
        touched = [access for _, access in wave.run.program.touched]
        spaces = {access.space for access in touched if access.proxy == "async"}
        if self.operations is not None and "shared" in spaces:
            self.stores = SharedStores(self.operations, touched, self.shared.log)
            self.proxies.append(self.stores)
        if "global" in spaces:
            self.proxies.append(GlobalAccesses(self.clocks, buffers))


RELEASES, ACQUIRES = ("sc", "acq_rel", "release"), ("sc", "acq_rel", "acquire")  # fences


class Order(Check):
    """The race check. orders: of the waves that run. warned: lines of operations that lack a proxy fence."""

    orders: dict[Wave, WaveOrder]
    warned: set[str]

    def begin(self, run: Device) -> None:
        self.orders, self.warned, self.doubtful = {}, set(), False
        self.races = RaceDetector(self.program, self.orders)
        self.locations = self.races.locations
        self.strong = self.locations.strong

    def start(self, wave: Wave) -> None:
        self.orders[wave] = WaveOrder(wave, self.races.grain(SHARED_WINDOW), self.races.buffers)

    # Accesses

    def watch(self, site: Site) -> Hook | None:
        space = site.known.space
        if space == "local":
            return self._in_registers if self.program.has_asynchronous else None
        if site.how.goes_on or (site.how.atomic and not site.write):  # others need to find its write
            return None
        return self._in_global if space == "global" else self._in_shared

    def _in_global(self, event: AccessEvent) -> None:
        place, order = event.site.place, self.orders[event.team.wave]
        assert place is not None
        if event.site.write:
            check_stored(order.operations, event.team, event.site.at)
        for access in event.each() if self.races.is_written(place.window) else ():
            if order.operations is not None and order.operations.scoreboard.in_global:
                check_global(order.operations, access)
            self.races.access(self.races.buffer(place, access.team.wave), access)

    def _in_shared(self, event: AccessEvent) -> None:
        order = self.orders[event.team.wave]
        if event.site.write:
            check_stored(order.operations, event.team, event.site.at)
        if len(event.every) > 1 and self.races.at_once(event):
            return
        for access in event.each():
            check_shared(order.operations, access)
            order.mbarriers.touched(access)
            self.races.access(order.shared, access)
            if order.stores is not None:
                order.stores.accessed(access)

    def _in_registers(self, event: AccessEvent) -> None:
        operations = self.orders[event.team.wave].operations
        if operations is not None and operations.scoreboard.loading:
            check_in_flight(operations, event)

    def reached(self, event: AccessEvent) -> None:
        site, remote = event.site, self.orders[event.team.wave].remote
        if site.how.is_signal or (site.how.atomic and not site.write):
            return
        visits, byte = visits_of(event.team, event.homes[0]), int(event.places[1][0])
        early = remote.before_begin(visits.who, visits.home, byte, site.at)
        self._in_shared(event)
        remote.touched(visits, byte, site.at, arrives=False, early=early)

    def changed(self, team: Team, olds: Lanes) -> None:
        self.locations.found(team, olds)

    # Meetings

    def released(self, event: MeetingEvent) -> None:
        order, barrier, site, (which, who) = self.orders[event.wave], event.barrier, event.site, event.who
        orders, rows = site.sync is None or site.sync.orders, event.rows[which]
        if barrier >= CLUSTER:
            order.cluster.arrived(who, barrier)
        else:
            order.barriers.arrived(who, barrier, site.at)
            if site.sync is None or site.sync.scope == "cta":
                order.barriers.came_to(who, site)
        known = order.clocks.published(who)
        order.meetings[barrier].add(rows, known if orders else known.of_execution(order.clocks.size))
        for k in range(len(who)) if not orders else ():
            for pattern in order.fences.of(*who.places[k], who.bits[k]):
                key, row = (~barrier, who.rows) if pattern.scope == "cta" else (barrier, rows)
                order.meetings[key].add(row[k : k + 1], pattern.known)

    def acquired(self, event: MeetingEvent) -> None:
        order, barrier, (which, who) = self.orders[event.wave], event.barrier, event.who
        for key, own in ((barrier, event.rows[which]), (~barrier, who.rows)):
            if key in order.meetings:
                order.clocks.learn(who, order.meetings[key].of(own))
        if barrier >= CLUSTER:
            order.cluster.met(event.ctas[event.here.any(1)], barrier)
        else:
            order.barriers.met(event.ctas, event.here, barrier)

    def forgotten(self, wave: Wave, rows: Ints, barrier: int) -> None:
        meetings = self.orders[wave].meetings
        members = rows[:, None] + np.arange(wave.run.cluster_ctas if barrier >= CLUSTER else 1)
        for key, own in ((barrier, rows), (~barrier, members.reshape(-1))):
            if key in meetings:
                meetings[key].clear(own)

    def all_met(self, wave: Wave, ctas: slice) -> None:
        self.orders[wave].clocks.all_met(ctas)

    def warps_met(self, team: Team) -> None:
        self.orders[team.wave].clocks.warps_met(team)

    def fenced(self, event: FenceEvent) -> None:
        if isinstance(fence := event.fence, RegisterFence):
            return
        order, who = self.orders[event.team.wave], event.team.actors
        if isinstance(fence, Fence) and fence.scope == "warp":
            order.clocks.learn(who, order.clocks.published(who))
            return
        if isinstance(fence, Fence):
            sem = "" if fence.only == "mbarrier.init" else str(fence.sem)
            if fence.scope != "cta":
                order.mbarriers.fenced(who)
        else:
            sem = str(fence.side)  # of a pair: each is a fence of that kind too
            if fence.proxy == "tmem":
                alone = order.operations.parts.alone() if order.operations and sem == "release" else ()
                order.clocks.promote(who, SEEN if sem == "release" else HEARD | ISSUED, alone)
                return
        self.locations.awake |= bool(sem)
        if sem in ACQUIRES:
            self.locations.fenced(order.clocks, who, sem, str(fence.scope), of_shared=fence.is_of_shared)
        if isinstance(fence, ProxyFence):
            for proxy in order.proxies:
                proxy.fenced(event, fence)
        if sem in RELEASES:
            order.fences.passed(who, str(fence.scope), of_shared=fence.is_of_shared, is_sc=sem == "sc")

    # m-barriers

    def signalled(self, event: MBarrierSignal) -> None:
        wave, signal, at = event.team.wave, event.effect, event.at
        if signal.kind == "bytes" and wave.run.cluster_ctas == 1:
            return  # others' m-barriers alone are of interest
        order, signals = self.orders[wave], event.warps
        if signal.kind == "init":
            order.phases.forget(signals)
            order.mbarriers.initialised(signals, at)
        elif signal.kind == "inval":
            order.phases.forget(signals)
            order.mbarriers.ended(signals, at)
        elif signal.kind in ("arrive", "bytes"):
            order.mbarriers.used(("arrival", "an arrival at"), signals, at)
            if signal.kind == "arrive":
                order.clocks.signal_history.note(signals, at, order.clocks.wave.now, waits=False)
                check_not_early(wave, signals, order.phases.arrive(signals, signal, order.fences), at)
            byte = int(signals.offset[0])
            early = order.remote.before_begin(signals.who, signals.home, byte, at)
            order.remote.touched(signals, byte, at, arrives=True, early=early)
        else:
            order.clocks.signal_history.note(signals, at, order.clocks.wave.now, waits=True)
            order.mbarriers.used(("wait", "a wait at"), signals, at)
            order.remote.phase_over(signals)
            order.phases.wait(signals, signal, self.locations)

    # Asynchronous operations

    def issued(self, operation: Operation) -> None:
        order = self.orders[operation.team.wave]
        operations = order.operations
        assert operations is not None
        key, unfenced = str(operation.instruction.at), None
        if key not in self.warned:
            found = [each for proxy in order.proxies for each in proxy.unfenced_by(operation)]
            unfenced = min(found, key=lambda each: not each.is_wrong, default=None)
        order.mbarriers.issued(operation)
        if operation.issuers.lanes > 1:
            rows, threads = operation.issuers.each()
            order.phases.warps_met(rows[:, ::32].reshape(-1), threads[:, ::32].reshape(-1))
        if operation.is_commit:
            operations.commit(operation)
        else:
            check_issue(operations, operation)
        for one in (*operation.consulted, *operation.touched):
            for access in places_of(self.races, operation, one):
                self.races.meet(access)
        order.remote.issued(operation)
        if unfenced is not None:
            self.warned.add(key)
            run, name, at = operation.team.wave.run, operation.name, operation.instruction.at
            who = operation.issuers.thread_at(0)
            if unfenced.is_wrong:
                run.tell(unfenced.error(name, at, who, f"issued by {operation.who(0)}"), key, "unfenced")
            else:
                run.warn(unfenced.warning(name, at), "unfenced", name, facts=unfenced.facts(name, at, who))

    def completing(self, operation: Operation) -> None:
        """A commit publishes at the m-barrier all that its thread had issued before; a signal, its own operation."""
        wave = operation.team.wave
        operations = self.orders[wave].operations
        if operations is None or (found := operations.completed(operation)) is None:
            return
        known, after = found
        for one in operation.signals:
            assert isinstance(one.effect, Signal)
            if one.effect.at_issue:
                continue
            check_together(operation, one)
            signals = arrivals_of(wave, operation.issuers.rows[one.issuer], one.rows, one.at)
            signals, given, reach = together(signals, known[one.issuer], after[one.issuer])
            if operation.is_commit:
                self.orders[wave].remote.committed(operation, one, signals)
            early = self.orders[wave].phases.arrived(signals, given, reach, wide=True)
            if one.effect.kind == "arrive":
                check_not_early(wave, signals, early, operation.instruction.at, (operation, one))

    def awaited(self, wave: Wave, waiting: Waiting) -> None:
        if (operations := self.orders[wave].operations) is not None:
            awaited(self.races, operations, waiting)

    def freed(self, wave: Wave, place: tuple[int, int], taken: Taken, at: Span | None) -> None:
        operations = self.orders[wave].operations
        if operations is not None and operations.parts:
            check_freed(operations, place, taken, at)

    def ended(self, wave: Wave) -> None:
        order = self.orders.pop(wave)
        order.phases.closed()
        check_constants(self.program, self.races.buffers.values(), wave)
        self.doubtful |= order.phases.overtaken
        order.barriers.closed()
        order.remote.closed()
        if order.operations is not None:
            order.operations.remote.closed()
        for places in self.races.buffers.values():
            places.let_go()

    def stuck(self, wave: Wave, waited: Sequence[tuple[int, int]]) -> str:
        operations = self.orders[wave].operations
        return next(missing_commits(operations, waited), "") if operations is not None else ""


register("races", "accesses to one place, one of them a write, that nothing orders", Order, Grids)
