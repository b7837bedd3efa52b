"""Registers that an operation uses after its issue: a fence must stand before the issue. Registers that a warpgroup
takes or gives back: by all four of its warps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tilewright.errors import SimulationError
from tilewright.explain import advised
from tilewright.isa import INSTRUCTIONS, RegisterFence
from tilewright.sim.checks.base import Check, register
from tilewright.sim.machine import numbers
from tilewright.terms import call, told

if TYPE_CHECKING:
    from tilewright.errors import Span
    from tilewright.sim.machine.arrays import Array, Bools, Ints
    from tilewright.sim.machine.event import AccessEvent, FenceEvent, Hook
    from tilewright.sim.machine.operation import Operation
    from tilewright.sim.machine.places import Place
    from tilewright.sim.machine.sites import Site
    from tilewright.sim.machine.subject import Subject
    from tilewright.sim.machine.team import Team
    from tilewright.sim.machine.wave import Wave

WORD = 4


class Uses:
    """The accesses of a wave's warps to their registers since their last fence.

    last: by buffer, (CTAs, warps, words), the number of the site that touched a word last, 0 for none. fenced: (CTAs,
    warps) that have passed a fence at all. numbers: of the sites, from 1.
    """

    def __init__(self, wave: Wave) -> None:
        self.last: dict[str, Ints] = {}
        self.fenced: Bools = np.zeros((wave.ctas, wave.run.warps), np.bool_)
        self.numbers: dict[Site, int] = {}

    def of(self, place: Place) -> Ints:
        """The last accesses to the words of a buffer."""
        if place.name not in self.last:
            self.last[place.name] = np.zeros((*self.fenced.shape, -(-place.nbytes // WORD)), np.int64)
        return self.last[place.name]


class Unfenced(Check):
    def __init__(self, program: Subject) -> None:
        super().__init__(program)
        self.uses: dict[Wave, Uses] = {}  # of the waves that run
        self.is_needed = any(bound.form.issue and bound.form.issue.fenced for bound in program.operations)

    def start(self, wave: Wave) -> None:
        self.uses[wave] = Uses(wave)
        wave.pending.watched = self.is_needed

    def ended(self, wave: Wave) -> None:
        del self.uses[wave]

    def watch(self, site: Site) -> Hook | None:
        place = site.place
        if place is None or place.space != "local" or not self.is_needed:
            return None

        def hook(event: AccessEvent) -> None:
            team, (low, end) = event.team, event.span
            issuing, uses = team.wave.pending.issuing, self.uses[team.wave]
            issue = issuing.bound.form.issue if issuing is not None else None
            if issue is not None and issue.fenced:
                return
            words = slice((low - place.start) // WORD, -(-(end - place.start) // WORD))
            last = uses.of(place)[team.ctas, team.warps, words]
            number = uses.numbers.setdefault(site, len(uses.numbers) + 1)
            np.copyto(last, number, where=np.asarray(team.full.any(-1))[..., None])

        return hook

    def fenced(self, event: FenceEvent) -> None:
        team, uses = event.team, self.uses[event.team.wave]
        if not isinstance(event.fence, RegisterFence):
            return
        warps = np.asarray(team.full.any(-1))
        uses.fenced[team.ctas, team.warps] |= warps
        for last in uses.last.values():
            np.copyto(last[team.ctas, team.warps], 0, where=warps[..., None])

    def issued(self, operation: Operation) -> None:
        uses, issue = self.uses[operation.team.wave], operation.form.issue
        if issue is None or not issue.fenced:
            return
        rows, warps = (table[:, ::32] // unit for table, unit in zip(operation.issuers.each(), (1, 32), strict=True))
        never = ~uses.fenced[rows, warps]
        if never.any():
            error = _lacks(operation, never, f"before the first {operation.name} of a warp", "before it")
            operation.team.wave.run.tell(error, str(operation.instruction.at))
            return
        for place, address, nbytes, _ in operation.registers():
            first, end = address.lo - place.start, address.hi - place.start + nbytes
            users = uses.of(place)[rows, warps, first // WORD : -(-end // WORD)].max(-1)
            if users.any():
                at = [*uses.numbers][int(users.max()) - 1].at
                error = _lacks(operation, users > 0, f"after {place.name} was used at {at}", "in between")
                error.facts |= {"buffer": place.name}
                operation.team.wave.run.tell(error, str(operation.instruction.at), place.name)


class Reallocated(Check):
    """The four warps of a warpgroup have to give back and take registers as often, and as many.

    Source: PTX ISA, "Miscellaneous Instructions: setmaxnreg". Published kernels give each warp of a group a line of its
    own for that, so that the counts decide, not the place.
    """

    def __init__(self, program: Subject) -> None:
        super().__init__(program)
        self.counts: dict[Wave, dict[tuple[int, int], list[int]]] = {}  # of each row and warp
        self.at: Span | None = None

    def done_by_warpgroup(self, team: Team, value: Array, at: Span | None) -> None:
        self.at = self.at or at
        rows, warps = np.nonzero(team.full.any(-1))
        shown = np.broadcast_to(value, team.shape)[rows, warps].max(-1)
        where = zip(np.array(numbers(team.ctas))[rows], np.array(numbers(team.warps))[warps], shown, strict=True)
        for row, warp, count in where:
            self.counts.setdefault(team.wave, {}).setdefault((int(row), int(warp)), []).append(int(count))

    def ended(self, wave: Wave) -> None:
        counts = self.counts.pop(wave, {})
        for row, group in sorted({(row, warp // 4) for row, warp in counts}):
            sums = {warp: counts.get((row, warp), []) for warp in range(4 * group, min(4 * group + 4, wave.run.warps))}
            if len({tuple(taken) for taken in sums.values()}) > 1:
                took = "; ".join(f"warp {warp}: {', '.join(map(str, taken)) or 'none'}" for warp, taken in sums.items())
                wave.run.tell(_apart(f"CTA {wave.cta_name(row)}: {took}", self.at), str(self.at))
                return


def _apart(shown: str, at: Span | None) -> SimulationError:
    return SimulationError(
        "a part of a warpgroup gives back or takes registers, or other counts of them than the rest",
        given=shown,
        allowed="the same counts by all four warps, the first of which is a multiple of 4",
        hint="a condition that the warps of a warpgroup share",
        at=at,
        kind="registers",
    )


def _lacks(operation: Operation, where: Bools, what: str, place: str) -> SimulationError:
    kind = RegisterFence(operation.form.issue.group) if operation.form.issue else None
    rows = INSTRUCTIONS.items()
    fence = next(name for name, row in rows if any(form.register_fence == kind for form in row.forms))
    who = operation.who(issuer := int(np.flatnonzero(where.any(1))[0]))
    lines = (operation.instruction.at.line,) if operation.instruction.at else ()
    return operation.error(
        "registers",
        f"{operation.name} lacks a fence {what}",
        issuer,
        given=f"{operation.instruction.at}: {who}",
        allowed="a fence by each of the four warps between other uses of these registers and the operation",
        hint=advised(told("{} {}", call(fence), place), "fence", "warp", lines, call(fence)),
    )


register(
    "registers", "registers that operations go on using, without a fence after their last use", Unfenced, Reallocated
)
