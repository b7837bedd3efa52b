"""A grid that begins before the one before it has ended: what it touches until its threads have waited for that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tilewright.errors import SimulationError
from tilewright.explain import OtherAccess, advised, place_of
from tilewright.isa import INSTRUCTIONS
from tilewright.sim.checks.base import Check
from tilewright.sim.machine import buffer_name, coordinate_text, threads_of, where_text
from tilewright.terms import call, operation, told

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tilewright.errors import Span
    from tilewright.sim.machine import AccessEvent, Bools, Hook, Ints, Operation, Site, Subject, Team, Wave
    from tilewright.sim.machine.device import Device, Footprint, GridsMeet
    from tilewright.sim.order.engine import Order
    from tilewright.terms import Told


@dataclass(frozen=True)
class Other:
    """What an access meets: a site of a grid before, and whether that wrote. late: may that run on behind a wait?"""

    site: Site
    wrote: bool
    grid: Footprint
    meets: GridsMeet
    late: bool


class Grids(Check):
    """Records what a grid does to global memory, and looks at what it does before its wait for the grid before.

    waited: by wave, (CTAs, warps, 32), the time at which each thread has waited, 0 for not yet. eager: by wave,
    the CTAs that have let others begin before they waited. seen, early: of a launch alone, the sites that each wave has
    executed, and what is told of those that some lane has executed before its wait.
    """

    def __init__(self, program: Subject) -> None:
        super().__init__(program)
        self.run: Device | None = None
        self.order: Order | None = None
        self.waited: dict[Wave, Ints] = {}
        self.eager: dict[Wave, Bools] = {}
        self.seen: set[tuple[Site, int]] = set()
        self.early: dict[tuple[Span | None, bool], SimulationError] = {}

    def begin(self, run: Device) -> None:
        self.run, self.waited, self.eager, self.seen, self.early = run, {}, {}, set(), {}
        self.order = next((check for check in run.checks if hasattr(check, "orders")), None)  # type: ignore[assignment]  # Order

    @property
    def meets(self) -> GridsMeet | None:
        """What is known of the launches around, if they are of interest."""
        return self.run.grids if self.run is not None else None

    def watch(self, site: Site) -> Hook | None:
        if site.place is None or site.place.space != "global":
            return None

        def hook(event: AccessEvent) -> None:
            if (meets := self.meets) is not None:
                for at in event.every:
                    offsets = np.broadcast_to(at.full(), event.team.shape)
                    self._touched(meets, site, event.team, event.team.full, offsets)

        return hook

    def _touched(self, meets: GridsMeet, site: Site, team: Team, lanes: Bools, offsets: Ints) -> None:
        assert site.place is not None
        if meets.alone:
            self._alone(site, team, lanes, offsets)
        if meets.alone not in ("", "sequence"):
            return
        block = team.wave.run.blocks[site.place.name].data
        meets.footprint.add(site, block, offsets[lanes], site.width, write=site.write)
        for grid, late, early in self._before(meets, team, lanes):
            if met := grid.met(block, offsets[early], site.width, write=site.write):
                lane = tuple(np.argwhere(early)[met[2]].tolist())
                alone = np.zeros(early.shape, np.bool_)
                alone[lane] = True
                facts = _about(self.program, site, int(offsets[lane])) | {"threads": threads_of(team, alone)}
                what = told("{} {} {}", operation(site.op), "writes" if site.write else "reads", facts["place"])
                other, who = Other(*met[:2], grid, meets, late), where_text(team, alone)
                _tell(team.wave.run, what, who, site.at, other, facts)

    def _before(self, meets: GridsMeet, team: Team, lanes: Bools) -> Iterator[tuple[Footprint, bool, Bools]]:
        """The grids that may still run; may they behind a wait, too? And the lanes that come before their end."""
        for late, grids in ((False, meets.before), (True, meets.unfinished)):
            early = lanes if late or not grids else lanes & ~self._has_waited(team, lanes)
            yield from ((grid, late, early) for grid in grids if early.any())

    def _alone(self, site: Site, team: Team, lanes: Bools, offsets: Ints) -> None:
        """Notes that a site is executed before the wait for a launch of which nothing is known."""
        assert self.meets is not None
        if (site, team.wave.first) in self.seen or not (site.write or _root(site) in self.meets.arguments):
            return
        self.seen.add((site, team.wave.first))
        early = lanes & ~self._has_waited(team, lanes)
        if early.any() and (site.at, site.write) not in self.early:
            offset = int(offsets[early][0])
            self.early[site.at, site.write] = _too_early(self.program, site, team, early, offset)

    def finish(self, run: Device) -> None:
        meets = self.meets
        if meets is None or not (meets.footprint.waits or meets.alone in ("early", "sequence")):
            return
        written = {_root(site) for site, _ in self.seen if site.write}  # no weights, which may be read early
        changed = {site.at for site, _ in self.seen if not site.write and _root(site) in written}
        for (at, write), error in self.early.items():
            if write or at in changed or meets.alone == "early" or not meets.footprint.waits:
                run.tell(error, str(at))
            else:
                run.warn(f"{at}: {error.what}", "early", str(at), facts={"line": at.line} if at else {})

    def _has_waited(self, team: Team, lanes: Bools) -> Bools:
        """The lanes that have waited, or come after a thread of their CTA that has."""
        times = self.waited.get(team.wave)
        if times is None:
            return np.zeros(team.shape, np.bool_)
        own = times[team.ctas, team.warps] > 0
        if own[lanes].all() or self.order is None:
            return np.asarray(own)
        clocks, found = self.order.orders[team.wave].clocks, own.copy()
        others = lanes & ~own
        for place, row, warp, lane in zip(np.argwhere(others).tolist(), *team.look.places(others), strict=True):
            at = times[row].reshape(-1)
            (thread,) = np.nonzero(at)
            rows, knowers = np.full(len(thread), row), np.full(len(thread), clocks.knower[32 * warp + lane])
            found[tuple(place)] = clocks.knows(rows, knowers, rows + team.wave.first, thread, at[thread]).any()
        return np.asarray(found)

    def depends(self, team: Team, word: str) -> None:
        meets, wave, now = self.meets, team.wave, 1
        if word == "wait" and self.order is not None:  # also where nobody asks: other runs then have the same times
            clocks = self.order.orders[wave].clocks
            now = clocks.wave.tick()
        if meets is None:
            return
        if word != "wait":
            meets.footprint.has_trigger = True
            eager = self.eager.setdefault(wave, np.zeros(wave.ctas, np.bool_))
            times = self.waited.get(wave)
            early = team.full if times is None else team.full & (times[team.ctas, team.warps] == 0)
            eager[team.ctas] |= early.any((1, 2))
            return
        times = self.waited.setdefault(wave, np.zeros((wave.ctas, wave.run.warps, 32), np.int64))
        part = times[team.ctas, team.warps]
        np.copyto(part, now, where=team.full & (part == 0))

    def issued(self, operation: Operation) -> None:
        """What a unit will touch counts as done by its issuer."""
        meets = self.meets
        if meets is None:
            return
        team = operation.team
        for one in operation.touched:
            for window, there in one.windows() if one.space == "global" else ():
                place = self.program.places.globals[window]
                site = next((each for each in self.program.sites if each.at == operation.instruction.at), None)
                offsets = one.at[there] & (1 << 40) - 1
                block = team.wave.run.blocks[place.name].data
                if site is None:
                    continue
                meets.footprint.add(site, block, offsets, one.width, write=one.writes)
                for grid, late, early in self._before(meets, team, team.full):
                    if met := grid.met(block, offsets, one.width, write=one.writes):
                        writes = any(each.writes and each.space == "global" for each in operation.touched)
                        what = f"{operation.name} {'writes' if writes else 'reads'} {place.name}"
                        facts = {"buffer": place.name, "threads": threads_of(team, early)}
                        other, who = Other(*met[:2], grid, meets, late), operation.issuers.name(0)
                        _tell(team.wave.run, what, who, operation.instruction.at, other, facts)

    def ended(self, wave: Wave) -> None:
        times, meets = self.waited.pop(wave, None), self.meets
        eager = self.eager.pop(wave, np.zeros(wave.ctas, np.bool_))
        if times is not None and meets is not None:
            waits = (times > 0).any((1, 2))
            meets.footprint.waits |= bool(waits.any())
            meets.footprint.holds_back |= bool((waits & ~eager).any())


def _root(site: Site) -> str:
    """The argument that a site's array is, or is in."""
    return str(site.line.buffer).partition(".")[0].partition("[")[0]


def _too_early(program: Subject, site: Site, team: Team, early: Bools, offset: int) -> SimulationError:
    """The error for an access before the wait for a launch that may touch the same place."""
    facts, verb = _about(program, site, offset), "writes" if site.write else "reads"
    may = "read or write" if site.write else "have to write"
    return SimulationError(
        told("{} {} {} before the wait for the launch before, which may still {} it", operation(site.op), verb,
             facts["place"], may),
        given=f"{site.at}: {where_text(team, early)}",
        allowed="before that wait, what no launch before touches",
        hint=_before(site.at), at=site.at, kind="races", **facts,
    )  # fmt: skip


def _about(program: Subject, site: Site, offset: int) -> dict[str, object]:
    """What an access touches, as a finding has it."""
    return {"buffer": buffer_name(program, site, offset), "place": coordinate_text(program, site, offset)}


WAIT = next(call(name) for name in INSTRUCTIONS if name.endswith("griddepcontrol" + ".wait"))


def _before(at: Span | None) -> Told:
    return told("{} before line {}, by every thread or one before a barrier", WAIT, at.line if at else 0)


def _tell(run: Device, what: str, who: str, at: Span | None, other: Other, facts: Mapping[str, object]) -> None:
    did, line = "written" if other.wrote else "read", other.site.at
    last, kernel = other.meets.before[0], other.grid.kernel
    which = "the launch before" if other.grid is last else "an earlier launch"
    why = f"as {last.kernel} ends without a wait" if other.late else "before its wait for that launch"
    text = told("{} in {}, so that it ends after {}", WAIT, last.kernel, kernel) if other.late else _before(at)
    may = "write" if other.wrote else "read"
    error = SimulationError(
        told("race: {}, which {}, {}, may still have to {}", what, which, kernel, may),
        given=f"{at}: {who}, {why}\n{did} at {line}",
        allowed="of what the launch before writes nothing until a thread has waited for it, and met the others",
        hint=advised(text, "wait", None, (at.line,) if at and not other.late else (), WAIT),
        at=at,
        kind="races",
        other=OtherAccess(other.site.op, did, **place_of(line)),
        **facts,
    )
    run.tell(error, str(at), str(line))
