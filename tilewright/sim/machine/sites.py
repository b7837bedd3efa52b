"""A site: one place of a kernel that touches memory. Every load and store goes through one.

It knows the buffer where that is certain before the kernel runs; a pointer that is only known at run time finds its
buffer by the window it points into. Before memory is touched, bounds are looked at (an address outside is never
followed), the access is counted (instructions, bytes, and passes of shared memory for a warp:
`tilewright.isa.machine.passes`), and the hooks of the checks see it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from tilewright.errors import SimulationError
from tilewright.isa import Touch
from tilewright.isa.machine import EVERY, at_one_place, default_phase, passes
from tilewright.records import NotebookText
from tilewright.records import replace as counted_as
from tilewright.sim.machine.address import Address, Part
from tilewright.sim.machine.arrays import Bits
from tilewright.sim.machine.event import AccessEvent, Hook, Written
from tilewright.sim.machine.facets import View, by_window, harmless, together
from tilewright.sim.machine.places import LOCAL_WINDOW, OFFSET_BITS, SHARED_WINDOW, WINDOW_BITS, Place
from tilewright.sim.machine.team import Team, first_of, where_text
from tilewright.terms import operation, told

if TYPE_CHECKING:
    from tilewright.errors import Span
    from tilewright.sim.machine import Array, Bools, Events, Ints


__all__ = ["COUNTED", "EVERY", "FAR", "Counts", "Line", "Site", "default_phase", "wavefronts"]


@dataclass(slots=True)
class Line:
    """One place of the kernel that touches one buffer. accesses: of lanes; warps: that did so.

    For an asynchronous operation, accesses are those of the unit that carries it out: cells of tensor memory, and rows
    of 16 bytes that a copy reads. The wavefronts of those are not documented.
    """

    at: Span | None
    op: str
    buffer: str
    space: str
    write: bool
    accesses: int = 0
    warps: int = 0
    nbytes: int = 0
    wavefronts: int = 0
    ideal_wavefronts: int = 0

    @property
    def bank_conflicts(self) -> int:
        """Passes beyond the ideal."""
        return self.wavefronts - self.ideal_wavefronts

    def add(self, other: Line, times: int = 1) -> None:
        """Count what another line has counted: for one CTA, and for so many that do the same."""
        for name in COUNTED:
            setattr(self, name, getattr(self, name) + times * getattr(other, name))


COUNTED = ("accesses", "warps", "nbytes", "wavefronts", "ideal_wavefronts")


@dataclass(slots=True)
class Counts(NotebookText):
    """The counts of a run. instructions: warps that executed each kind; bytes_read, bytes_written: per memory, which is
    global, shared or tmem.
    """

    instructions: dict[str, int] = field(default_factory=dict)
    bytes_read: dict[str, int] = field(default_factory=dict)
    bytes_written: dict[str, int] = field(default_factory=dict)
    lines: list[Line] = field(default_factory=list)

    def summary(self) -> str:
        """In one line: instructions of warps, bytes of each memory, and passes of shared memory."""
        moved = [
            f"{space} {self.bytes_read.get(space, 0)} bytes read, {self.bytes_written.get(space, 0)} written"
            for space in dict.fromkeys((*self.bytes_read, *self.bytes_written))
            if space != "local"
        ]
        beyond = sum(line.bank_conflicts for line in self.lines)
        passes = [f"{self.wavefronts} passes of shared memory, {beyond} by bank conflicts"] if self.wavefronts else []
        return "; ".join([f"{sum(self.instructions.values())} instructions of warps", *moved, *passes])

    def table(self) -> list[str]:
        """A row for each line of the kernel that touches memory."""
        lines = [line for line in self.lines if line.space != "local" and line.accesses]
        rows = [("line", "buffer", "access", "bytes", "passes", "beyond the ideal")]
        rows += [
            (str(line.at or ""), line.buffer, "write" if line.write else "read", str(line.nbytes),
             str(line.wavefronts or ""), str(line.bank_conflicts or ""))
            for line in lines
        ]  # fmt: skip
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return ["  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)).rstrip() for row in rows]

    def __repr__(self) -> str:
        return f"<Counts: {self.summary()}>"

    def _notebook_text(self) -> str:
        """What a notebook shows: the counts of each line."""
        return "\n".join([repr(self), *self.table()])

    @property
    def wavefronts(self) -> int:
        """Passes of shared memory, of all lines."""
        return sum(line.wavefronts for line in self.lines)

    @property
    def ideal_wavefronts(self) -> int:
        """The fewest that these accesses could take."""
        return sum(line.ideal_wavefronts for line in self.lines)

    @property
    def bank_conflicts(self) -> int:
        """Passes beyond the ideal, of all lines."""
        return sum(line.bank_conflicts for line in self.lines)

    def __str__(self) -> str:
        rows: list[tuple[str, ...]] = [
            ("instruction", "warps"),
            *((name, f"{n:,}") for name, n in sorted(self.instructions.items())),
        ]
        text = [*_aligned(rows), ""]
        spaces = sorted({*self.bytes_read, *self.bytes_written})
        rows3: list[tuple[str, ...]] = [("memory", "bytes read", "bytes written")]
        rows3 += [(s, f"{self.bytes_read.get(s, 0):,}", f"{self.bytes_written.get(s, 0):,}") for s in spaces]
        text += [*_aligned(rows3), ""]
        head = ("line", "access", "buffer", "lanes", "wavefronts", "ideal", "conflicts")
        return "\n".join([*text, *_aligned([head, *map(_row, self.lines)])])


def _row(line: Line) -> tuple[str, ...]:
    shared = (f"{line.wavefronts:,}", f"{line.ideal_wavefronts:,}", f"{line.bank_conflicts:,}")
    passes = shared if line.ideal_wavefronts else ("", "", "")
    verb = "write" if line.write else "read"
    return (str(line.at or ""), f"{line.op} {verb}", line.buffer, f"{line.accesses:,}", *passes)


def _aligned(rows: list[tuple[str, ...]]) -> list[str]:
    """Columns side by side, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [cell.rjust(w) if cell[:1].isdigit() else cell.ljust(w) for cell, w in zip(row, widths, strict=True)]
        lines.append("  ".join(cells).rstrip())
    return lines


def wavefronts(
    at: Address, lanes: int, width: int, phase: int, active: Bools | None, *, pairs: bool = False
) -> tuple[int, int]:
    """(passes, fewest possible passes) of one access, summed over the warps and CTAs that ``at`` tells apart.

    lanes: how many of each warp count. pairs: is it a load, whose phases double where partners ask for the same? Kept
    with the address where it consists of one part, since adding a multiple of 128 bytes to it changes nothing.
    """
    if not at.parts:
        return at_one_place(lanes, 2 * phase if pairs and phase < 32 else phase, active)
    if len(at.parts) != 1 or active is not None:
        return passes(at.full(), lanes, width, phase, active, pairs=pairs)
    kept = at.parts[0].wavefronts
    key = (at.start % EVERY, lanes, width, phase, pairs)
    if key not in kept:
        kept[key] = passes(at.full(), lanes, width, phase, None, pairs=pairs)
    return kept[key]


PLAIN, MOVES = Touch(), Touch(moves=True)
FAR = 1 << WINDOW_BITS - 1  # in a window: no buffer is that long, so a pointer there is below the start of the next one


@dataclass(eq=False)
class Site:
    """op: what the kernel does here. place: None for a pointer of run time. width: bytes. how: it touches them.

    whole: of a narrower access the one that checks see. hooks: of the checks, called before each access; escapes:
    called with lanes outside of the buffer.
    """

    at: Span | None
    op: str
    place: Place | None
    width: int
    write: bool
    how: Touch = PLAIN
    asks: bool = False  # is it an m-barrier that it asks, once, and the kernel goes on whatever the answer?
    polls: bool = False  # does a loop wait until it finds here what another thread has written?
    compared: bool = False  # is what it finds compared with anything?
    over: Span | None = None  # of an operation: where its issuer has waited for it
    advice: tuple[str, str | None] = ("", None)  # the tile call, and what would let its region leave the buffer
    home: Place | None = None  # the shared buffer that an operand certainly points into, in whichever CTA
    is_remote: bool = False  # does it touch the shared memory of other CTAs, by addresses of the cluster's window?
    checks: Sequence[Events] = ()
    whole: Site | None = None
    line: Line = field(init=False)
    hooks: tuple[Hook, ...] = field(init=False)
    escapes: Callable[..., None] | None = field(init=False)
    _derived: dict[object, Site] = field(init=False, default_factory=dict)  # this site at a place, or of other bytes

    def __post_init__(self) -> None:
        name, space = (self.place.name, self.place.space) if self.place else ("", "")
        self.line = Line(self.at, self.op, name, space, self.write)
        self.subscribe(self.checks)

    def subscribe(self, checks: Sequence[Events]) -> None:
        """Have checks hear of its accesses."""
        self.checks = checks
        seen = self if self.whole is None else replace(self.whole, place=self.place, checks=())
        hooks = [check.watch(seen) for check in checks if not self.is_remote and self.place is not None]
        self.hooks = tuple(hook for hook in hooks if hook is not None)
        self.escapes = next((check.escapes for check in checks if check.escapes), None)

    @property
    def key(self) -> tuple[object, ...]:
        """What the site does: equal for two that nothing tells apart."""
        return tuple(getattr(self, row.name) for row in fields(self) if row.init and row.name != "checks")

    @cached_property
    def element(self) -> int:
        """Bytes of each operation that it consists of."""
        return self.how.element or self.width

    @property
    def shows(self) -> bool:
        """Does the kernel see here what others have written? A reduction reads, too, but gives no value."""
        return self.how.observes and (self.how.atomic or not self.write)

    # Before an access

    def reach(self, team: Team, at: Address, bits: Written = None) -> View:
        """Look at an access of lanes to the buffer, count it and tell the checks: what of it may go on."""
        assert self.place is not None
        guarded = not (self.is_remote or self.contains(team, at))
        if guarded:
            team = self._within(team, at)
        view = View(self.place, team, at, self.width, self, guarded)
        if self.is_remote:
            self._reach_far(team, at, bits)
        elif not guarded or team.full.any():
            if self.how.lanes < 32:
                view.team = team = self._counted(team)
            self.count(team, at)
            if self.hooks:
                self._tell(team, (at,), bits)
        return view

    def _reach_far(self, team: Team, at: Address, bits: Written) -> None:
        """Raises SimulationError for lanes beyond the shared memory of a CTA of the cluster, or beyond the cluster."""
        run, full = team.wave.run, at.full()
        offset = (full + (1 << OFFSET_BITS - 1) & (1 << OFFSET_BITS) - 1) - (1 << OFFSET_BITS - 1)  # below 0: in front
        rank, last = full - offset >> OFFSET_BITS, run.shared_bytes - self.width
        if self.home is not None:
            self.stay_home(team, offset, self.width)
        wrong = team.full & ((rank > run.cluster_ctas) | (offset < 0) | (offset > last) | (offset % self.width != 0))
        if wrong.any():
            byte = first_of(offset, wrong)
            what = told("{} at byte {} of the shared memory of a CTA in the cluster", operation(self.op), byte)
            shown = where_text(team, wrong)
            raise SimulationError(told("{}: it has {}", what, run.shared_bytes), given=shown, at=self.at)
        if self.home is None:  # by now it is certain that the offsets are in shared memory
            self.stay_home(team, offset, self.width)
        if not self.how.goes_on:
            if run.program.with_shadows:
                team.wave.shadows.shared.part()  # what it stores is in other rows
            run.events.reached(AccessEvent(self, team, (at,), team.wave.tick(), bits))

    def _tell(self, team: Team, every: tuple[Address, ...], bits: Written) -> None:
        """The checks hear of an access, or of some that follow each other."""
        wave, ticks = team.wave, 0 if self.line.space == "local" else len(every)
        event = AccessEvent(self, team, every, wave.now + 1, bits)
        wave.now += ticks
        for hook in self.hooks:
            hook(event)

    def _counted(self, team: Team) -> Team:
        """The lanes whose addresses count, where only some do."""
        return team.narrowed(np.arange(32).reshape(1, 1, 32) < self.how.lanes) or team

    def contains(self, team: Team, at: Address) -> bool:
        """Are all addresses inside of the buffer?"""
        place = self.place
        assert place is not None
        if place.pitch:
            return not place.outside(at.full(), self.width, team.look.ranks).any()
        return place.start <= at.lo and at.hi + self.width <= place.start + self._size(team)

    def _size(self, team: Team) -> int:
        """Bytes of the buffer."""
        assert self.place is not None
        return self.place.nbytes if self.place.nbytes >= 0 else team.wave.run.sizes[self.place.name]

    def _within(self, team: Team, at: Address) -> Team:
        """The team without the lanes outside of the buffer, which the check of bounds reports."""
        if self.is_remote:
            return team
        outside = self._outside(team, at)
        if outside.any() and self.escapes is not None:
            self.escapes(self, team, outside, at)
        return Team(team.look, team.full & ~outside) if outside.any() else team

    def _outside(self, team: Team, at: Address) -> Bools:
        """The active lanes that are outside of the buffer."""
        full, place = at.full(), self.known
        outside: Bools = team.full & ((full < place.start) | (full + self.width > place.start + self._size(team)))
        if place.pitch:
            outside = team.full & place.outside(full, self.width, team.look.ranks)
        return outside & (np.arange(32) < self.how.lanes) if self.how.lanes < 32 else outside

    def count(self, team: Team, at: Address) -> None:
        """Count an access that is inside of the buffer."""
        line = self.line
        line.accesses += team.lane_count
        line.warps += team.warp_count
        if line.space == "shared" and team.wave.run.counts_passes:
            everyone = team.array is None or team.lane_count == self.how.lanes * team.shape[0] * team.shape[1]
            active = None if everyone else team.array
            phase, pairs = self.how.phase or default_phase(self.width), not (self.write or self.how.phase)
            passes, ideal = wavefronts(at, self.how.lanes, self.width, phase, active, pairs=pairs)
            shape = at.shape if active is None else np.broadcast_shapes(at.shape, active.shape)
            times = (team.shape[0] // shape[0]) * (team.shape[1] // shape[1])
            line.wavefronts += passes * times
            line.ideal_wavefronts += ideal * times

    # Accesses

    def view(self, team: Team, at: Address, bits: Written = None) -> View:
        """Lanes access memory: where, to load or to store what is there. bits: what they are about to store."""
        if self.place is not None:
            return self.reach(team, at, bits)
        return together([site.reach(lanes, there, bits) for site, lanes, there in self.resolve(team, at)])

    def unseen(self, team: Team, at: Address) -> View:
        """The same of an access that was looked at before."""
        if self.place is not None:
            return View(self.place, team, _in_window(at), self.width, self)
        return together(
            [View(site.known, lanes, there, self.width, site) for site, lanes, there in self.resolve(team, at)]
        )

    def peek(self, team: Team, at: Address) -> Bits:
        """The bytes at an address that is about to be written; no access of the kernel's."""
        every = self._everywhere(team, at)
        inside = ((site.known, site._within(lanes, there), there) for site, lanes, there in every)
        views = [View(place, lanes, there, self.width, guarded=True) for place, lanes, there in inside]
        return together(views).load()

    @property
    def known(self) -> Place:
        """The buffer, of a site that has one."""
        assert self.place is not None
        return self.place

    def touch(self, team: Team, at: Address, bits: Written = None) -> None:
        """The checks and counts before an access whose meaning moves the bytes itself; lanes outside are an error."""
        for site, lanes, there in self._everywhere(team, at):
            if site.reach(lanes, there, bits).guarded and site.escapes is None and site._outside(lanes, there).any():
                what = told("{} outside of {}", operation(self.op), site.line.buffer)
                raise SimulationError(what, given=f"byte {int(there.full().max())}", at=self.at)

    def touch_all(self, team: Team, every: Sequence[Address], of_one: Line, bits: Written = None) -> None:
        """`touch` for accesses that follow each other, of which nothing is outside of the buffer, or misaligned.

        of_one: what they add to the counts of one CTA.
        """
        self.line.add(of_one, team.shape[0])
        if self.hooks:
            self._tell(self._counted(team) if self.how.lanes < 32 else team, tuple(every), bits)

    def counts_of_one(self, team: Team, every: Sequence[Address]) -> Line:
        """What accesses by all lanes add to the counts of one CTA, the same in all."""
        counter, everyone = replace(self, checks=()), Team(team.look.single)
        for at in every:
            counter.count(everyone, at)
        return counter.line

    def touch_sized(self, team: Team, at: Address, sizes: Array) -> None:
        """`touch` for an access of so many bytes in each lane; a lane with 0 touches nothing."""
        for size in np.unique(np.broadcast_to(sizes, team.shape)[team.full]).tolist():
            lanes = team.narrowed(sizes == size) if size else None
            if lanes is not None:
                if self.place is not None and self.place.space == "shared":
                    self.stay_home(lanes, at.full(), size)
                (self if size == self.width else self._sized(size)).touch(lanes, harmless(at, lanes))

    def stay_home(self, team: Team, offset: Ints, width: int) -> None:
        """Reports lanes that leave the buffer in shared memory which they point into. offset: in that of their CTA."""
        places, at = team.wave.run.places, np.broadcast_to(offset, team.shape)
        first, last = int(at[team.full].min()), int(at[team.full].max())
        home = self.home or places.shared_at(first)
        if self.escapes is None or (home.start <= first and last + width <= home.start + home.nbytes):
            return
        for start in np.unique(at[team.full]).tolist():
            home = self.home or places.shared_at(start)
            outside = team.full & (at == start)
            if not home.start <= start <= home.start + home.nbytes - width:
                site = replace(self, place=home, width=width, checks=())
                self.escapes(site, team, outside, Address(0, Part(at)))

    def _sized(self, nbytes: int) -> Site:
        """This site for a narrower access."""
        if nbytes not in self._derived:
            self._derived[nbytes] = replace(self, width=nbytes, whole=self)
        return self._derived[nbytes]

    def _everywhere(self, team: Team, at: Address) -> Iterable[tuple[Site, Team, Address]]:
        return self.resolve(team, at) if self.place is None else [(self, team, _in_window(at))]

    # Pointers of run time

    def resolve(self, team: Team, at: Address) -> Iterator[tuple[Site, Team, Address]]:
        """For each buffer that lanes point into: a site for it, those lanes, and their addresses in its window."""
        run, buffers = team.wave.run, team.wave.run.places.globals
        for window, lanes, there in by_window(team, at):
            if window == SHARED_WINDOW and there.hi >> OFFSET_BITS and run.cluster_ctas > 1:
                yield from self._in_cluster(lanes, there)
            elif window == LOCAL_WINDOW and len(run.places.local_starts) > 1:
                yield from self._in_locals(lanes, there)
            elif there.hi >= FAR and window + 1 in buffers and not (run.ranks > 1 and window in buffers):
                for near, rest in ((0, lanes.narrowed(there.full() < FAR)), (1, lanes.narrowed(there.full() >= FAR))):
                    if rest is not None:  # those far off are below the start of the next buffer
                        moved = harmless(there.shifted(-near << WINDOW_BITS), rest)
                        yield self.inside(rest, window + near, moved), rest, moved
            else:
                yield self.inside(lanes, window, there), lanes, there

    def _in_cluster(self, team: Team, at: Address) -> Iterator[tuple[Site, Team, Address]]:
        """The same for lanes that point into the shared memory of CTAs of the cluster: their own one, and others."""
        full = np.broadcast_to(at.full(), team.shape)
        rank = full >> OFFSET_BITS
        is_own = (rank == 0) | (rank == team.wave.rank(team.look.rows(1)) + 1)
        if (near := team.narrowed(is_own)) is not None:
            there = harmless(Address(0, Part(full & (1 << OFFSET_BITS) - 1)), near)
            if self.home is not None:
                self.stay_home(near, there.full(), self.width)
            yield self.inside(near, SHARED_WINDOW, there), near, there
        if (far := team.narrowed(~is_own)) is not None:
            yield self.elsewhere(team), far, harmless(Address(0, Part(full)), far)

    def _in_locals(self, team: Team, at: Address) -> Iterator[tuple[Site, Team, Address]]:
        """The same for lanes that point into variables of their threads, each perhaps into another one."""
        starts = team.wave.run.places.local_starts
        number = np.maximum(np.searchsorted(starts, at.full(), side="right") - 1, 0)
        for place in np.unique(np.broadcast_to(number, team.shape)[team.full]).tolist():
            if (lanes := team.narrowed(number == place)) is not None:
                there = harmless(at, lanes)
                yield self.inside(lanes, LOCAL_WINDOW, there), lanes, there

    def elsewhere(self, team: Team) -> Site:
        """This site as it touches the shared memory of other CTAs of the cluster."""
        if "elsewhere" not in self._derived:
            self._derived["elsewhere"] = replace(self, place=team.wave.run.places.arena, is_remote=True)
        return self._derived["elsewhere"]

    def inside(self, team: Team, window: int, at: Address) -> Site:
        """This site as it touches the buffer at a window's address."""
        places = team.wave.run.places
        if at.hi >= FAR and team.wave.run.ranks > 1 and (place := places.globals.get(window)) is not None:
            raise SimulationError(
                told("{} through an address of all GPUs", operation(self.op)),
                given=f"a pointer into the multicast view of {place.name}",
                allowed="T.multimem.ld_reduce, T.multimem.st, T.multimem.red",
                hint=f"{place.name}.peer(rank), or {place.name} itself",
                at=self.at,
            )
        if not places.has_window(window):
            what = told("{} through a pointer to nowhere", operation(self.op))
            shown = f"address {(window << WINDOW_BITS) + at.lo:#x}"
            allowed = "a pointer into a buffer of the kernel"
            raise team.error("bounds", what, team.full, self.at, given=shown, allowed=allowed)
        several = window == LOCAL_WINDOW
        place = places.at(window, int(np.broadcast_to(at.full(), team.shape)[team.full].min()) if several else 0)
        if place.name not in self._derived:
            self._derived[place.name] = replace(self, place=place)
        return self._derived[place.name]

    def lines(self) -> list[Line]:
        """What was counted here since `reset`, as lines that no later run changes."""
        others = [line for site in self._derived.values() for line in site.lines()]
        counted = self.line.accesses
        return [counted_as(self.line, nbytes=counted * self.width), *others] if counted else others

    def reset(self) -> None:
        """Count from zero again: a new run."""
        for name in COUNTED if self.line.accesses else ():
            setattr(self.line, name, 0)
        for site in self._derived.values():
            site.reset()


def _in_window(at: Address) -> Address:
    """A generic address as an offset in its window; an offset stays as it is."""
    window = at.lo + FAR >> WINDOW_BITS  # a pointer may be below the start of a buffer
    return at if window <= 0 else at.shifted(-(window << WINDOW_BITS))
