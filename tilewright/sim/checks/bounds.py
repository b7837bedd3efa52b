"""Accesses outside of a buffer, and addresses that are no multiple of the access's width. An address outside is never
followed; with this check it is an error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tilewright.errors import SimulationError
from tilewright.sim.checks.base import Check, hear, register
from tilewright.sim.machine import ARENA, buffer_name, coordinate_text, first_of, first_warp, where_text
from tilewright.terms import Term, operation, told

if TYPE_CHECKING:
    from tilewright.errors import Span
    from tilewright.ir import Within
    from tilewright.sim.machine import AccessEvent, Address, Bools, Hook, Ints, Operation, Place, Site, Subject, Team


# Addresses that are no multiple of the access's width, at which hardware faults.


class Alignment(Check):
    def watch(self, site: Site) -> Hook | None:
        if site.width == 1:
            return None
        low = site.width - 1

        def look(event: AccessEvent) -> None:
            for at in event.every:
                if at.bits & low:
                    misaligned(self.program, site, event.team, event.team.full, at)

        return look


def misaligned(program: Subject, site: Site, team: Team, lanes: Bools, at: Address) -> None:
    """Raise SimulationError for the first of some lanes whose address is misaligned."""
    full = np.broadcast_to(at.full(), team.shape)
    bad = np.broadcast_to(lanes & (full & (site.width - 1) != 0), team.shape)
    if not bad.any() or site.place is None:
        return
    address = first_of(full, bad)
    what, place = told("{}: a misaligned address in {}", operation(site.op), site.place.name), site.place
    element, allowed = coordinate_text(program, site, address), f"a multiple of {site.width} bytes"
    number = f"byte {address - place.start * (place.space != 'global')}"
    is_named = element != f"{buffer_name(program, site, address)}, {number}"
    shown = f"{element}{f', {number}' * is_named}, in {where_text(team, bad)}"
    raise team.error("alignment", what, bad, site.at, given=shown, allowed=allowed, buffer=place.name, place=element)


register("alignment", "addresses that are no multiple of the access's width", Alignment)


# Accesses outside of a buffer. An address outside is never followed; with this check it is an error.


class Bounds(Check):
    """The check of buffers' bounds: sites call `escapes` for lanes whose access is outside."""

    def escapes(self, site: Site, team: Team, outside: Bools, at: Address) -> None:
        """Tells of the first warp with lanes outside; hardware looks at the alignment before that.

        Raises SimulationError for writes, as a GPU would stop there or change other bytes, and for instructions that
        give lanes parts of each other's rows.
        """
        if "alignment" in self.program.checks:
            misaligned(self.program, site, team, outside, at)
        error = escape(self.program, site, team, outside, at)
        if site.write or site.op != "load":
            raise error
        team.wave.run.tell(error, str(site.at))  # such a lane reads zeros

    def watch(self, site: Site) -> Hook | None:
        """Of writes: they go nowhere where no thread may write."""
        if site.place is None or not (site.place.constant and site.write):
            return None

        def refuse(event: AccessEvent) -> None:
            assert site.place is not None
            raise written_constant(site.op, site.place, where_text(event.team, event.team.full), site.at)

        return refuse

    def issued(self, operation: Operation) -> None:
        """The same of what an asynchronous unit writes."""
        for access in operation.touched:
            for window, there in access.windows() if access.writes and access.space == "global" else ():
                place = self.program.places.globals[window]
                if place.constant and there.any():
                    who = operation.issuers.name(0)
                    raise written_constant(operation.name, place, who, operation.instruction.at)


def written_constant(op: str, place: Place, who: str, at: Span | None) -> SimulationError:
    """The error for a write to constant memory, or to a kernel's parameters."""
    return SimulationError(
        told("{} writes {}, which no thread may write while the kernel runs", Term("operation", (op,)), place.name),
        given=who,
        allowed="reads of constant memory (`__constant__`, .const) and of the kernel's parameters (.param)",
        hint="a variable of global memory (`__device__`, .global), or a copy of it in registers",
        at=at,
        kind="bounds",
        buffer=place.name,
    )


def escape(program: Subject, site: Site, team: Team, outside: Bools, at: Address) -> SimulationError:
    """The error for the first warp with lanes outside of the site's buffer. at: bytes in its window."""
    assert site.place is not None
    lanes = np.broadcast_to(outside, (*team.shape[:2], outside.shape[2]))
    addresses = np.broadcast_to(at.full(), team.shape)[lanes]
    size = site.place.nbytes if site.place.nbytes >= 0 else team.wave.run.sizes[site.place.name]
    place, verb, (by, hint) = site.place, "writes" if site.write else "reads", site.advice
    if place.own and not place.outside(addresses[:1], site.width, addresses[:1] // place.pitch).any():
        return _of_another_rank(program, site, team, lanes, int(addresses[0]))
    span = _span(program, site, int(addresses[0]), int(addresses.max()) + site.width - 1, size)
    return team.error(
        "bounds",
        told("{} {} outside of {}", by or Term("operation", (site.op,)), verb, site.place.name),
        lanes,
        site.at,
        given=f"{span} in {where_text(team, lanes)}",
        allowed=program.extent_text(place, size, team.wave.run.scalars),
        hint=hint,
        buffer=site.place.name,
        place=coordinate_text(program, site, int(addresses[0])),
        numbers={"bytes": size, "last": int(addresses.max()) + site.width - 1 - site.place.start},
    )


def _of_another_rank(program: Subject, site: Site, team: Team, lanes: Bools, at: int) -> SimulationError:
    assert site.place is not None
    name, verb, place = site.place.name, "writes" if site.write else "reads", coordinate_text(program, site, at)
    what = told("{} {} {} on another GPU, which cannot be reached there", Term("operation", (site.op,)), verb, name)
    shown = f"{place} in {where_text(team, lanes)}"
    allowed = f"{name} on the GPU of the thread, or arrays in memory that all GPUs reach"
    hint = f"{name}: T.SymmetricBuffer(shape, dtype, ranks={team.wave.run.ranks}), and {name}.peer(rank)"
    facts = {"allowed": allowed, "hint": hint, "buffer": name, "place": place}
    return team.error("bounds", what, lanes, site.at, given=shown, **facts)


@dataclass(frozen=True, eq=False)
class ChosenPointer:
    """Looks at an access by a pointer that a run chooses, before it: it stays in the buffer that the pointer leads to.

    sites: the access, once for each buffer that the pointer may lead to; the last one where it leads to none of them.
    """

    sites: tuple[Site, ...]

    def __call__(self, team: Team, base: Address, at: Address) -> None:
        start, address = base.full(), at.full()
        left = team.full & (np.arange(32) < self.sites[0].how.lanes)
        for site in self.sites:
            place = site.place
            assert place is not None
            size = place.nbytes if place.nbytes >= 0 else team.wave.run.sizes[place.name]
            here = left if site is self.sites[-1] else left & (start >= place.base) & (start < place.base + size)
            outside = here & ((address < place.base) | (address + site.width > place.base + size))
            if outside.any():
                raise escape(team.wave.run.program, site, team, outside, at.shifted(place.start - place.base))
            left = left & ~here


def _span(program: Subject, site: Site, address: int, last: int, size: int) -> str:
    """All elements that an access takes, and the first of them that is outside: the first of all may well be inside.

    last: the last byte that any thread of the batch takes outside: of shared memory without a buffer it says how much
    is missing.
    """
    first, place = coordinate_text(program, site, address), site.place
    buffer = program.authored.get(place.name) if place is not None else None
    if place is not None and address < place.start and place.space == "global" and program.kernel.compiled:
        return f"{place.start - address:,} bytes before {place.name},"
    if place is not None and place.name == ARENA:
        return f"{ARENA}, bytes {address - place.start} to {last - place.start}"
    if place is None or buffer is None:
        return first
    indexed = program.kernel.indexed.get(place.name)
    step = indexed.strides[-1] if indexed is not None and indexed.strides else max(1, buffer.dtype.bits // 8)
    if step >= site.width:
        return first
    upto = coordinate_text(program, site, address + site.width - step)
    end = place.start + size
    outside = f" of which {coordinate_text(program, site, end)} is outside," if place.start <= address < end else ""
    return f"{first} to {upto}, {site.width} bytes,{outside}"


@dataclass(frozen=True, eq=False)
class Dimension:
    """Looks at one index of an access, before it. op: "" where a unit will read or write. lanes: how many lanes'
    indices count. span: elements that the access takes from there on.
    """

    within: Within
    at: Span | None
    op: str
    write: bool
    lanes: int
    span: int

    def __call__(self, team: Team, index: Address, end: int | Ints) -> None:
        extent = end - self.span + 1  # differs between CTAs where they load it
        if index.lo >= 0 and index.hi < (extent if isinstance(extent, int) else extent.min()):
            return
        full = index.full()
        outside = team.full & ((full < 0) | (full >= extent)) & (np.arange(32) < self.lanes)
        if outside.any():
            self._fault(team, np.broadcast_to(outside, team.shape), index, end)

    def _fault(self, team: Team, outside: Bools, at: Address, end: int | Ints) -> None:
        extent, number = first_of(end, outside), first_of(at.full(), outside)
        dim = self.within.dim
        first = number if number < 0 else max(number, extent)  # that is outside
        index = f"element {first} of storage" if dim == self.within.STORAGE else f"index {first} of dimension {dim}"
        if self.span > 1:
            index = f"{index}, of {number}..{number + self.span - 1},"
        where = where_text(team, outside)
        whole = bool((outside == team.full)[first_warp(outside)].all())
        if self.within.by and whole:  # a region's end: no lane is at fault
            where = where.rpartition(",")[0]
            index = f"{index}, where the region ends,"
        run = team.wave.run
        verb = "writes" if self.write else "reads" if self.op else "goes"
        shape = run.program.shape_text(self.within.name, run.scalars)
        error = team.error(
            "bounds",
            told("{} {} outside of {}", self.within.by or Term("operation", (self.op,)), verb, self.within.name),
            outside,
            self.at,
            given=f"{index} in {where}",
            allowed=f"0..{extent - 1}{shape and f', {shape}'}",
            hint=self.within.hint,
            buffer=self.within.name,
            numbers={"index": first, "extent": extent, "dimension": dim},
        )
        if self.write or self.op != "load":
            raise error
        run.tell(error, str(self.at))


register(
    "bounds",
    "accesses outside of a buffer or a dimension of it, elements that another thread owns, writes of constants",
    Bounds,
)
hear("bounds", index=Dimension, pointer=ChosenPointer)
