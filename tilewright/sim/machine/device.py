"""The device on which a kernel runs: its memory, what it counts and prints, and what generated code asks of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from tilewright.errors import SimulationError
from tilewright.explain import Collected, Facts
from tilewright.explain.rules import broken
from tilewright.host import bytes_text
from tilewright.isa import Access, Sync
from tilewright.sim.machine.event import FenceEvent
from tilewright.sim.machine.facets import Facet
from tilewright.sim.machine.places import blocks_of, host_address
from tilewright.sim.machine.precedence import FORWARDS, Precedence
from tilewright.sim.machine.sites import Line
from tilewright.sim.machine.team import where_text
from tilewright.terms import barrier, told

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Mapping, Sequence

    from numpy.typing import NDArray

    from tilewright.errors import Span
    from tilewright.ir import Number
    from tilewright.isa import Fence, Lanes, ProxyFence, RegisterFence
    from tilewright.sim.machine.address import Address, Part
    from tilewright.sim.machine.arrays import Array, Bools, Ints, Shape, Value
    from tilewright.sim.machine.event import AccessEvent, Hook, MBarrierSignal, MeetingEvent
    from tilewright.sim.machine.memory import MemoryRows
    from tilewright.sim.machine.operation import Operation, Waiting
    from tilewright.sim.machine.sites import Site
    from tilewright.sim.machine.subject import Subject
    from tilewright.sim.machine.sync import MetWithout
    from tilewright.sim.machine.team import Team
    from tilewright.sim.machine.tmem import Taken
    from tilewright.sim.machine.unknown import Dependence, Doubt
    from tilewright.sim.machine.wave import Wave

__all__ = ["Device", "Events", "Everyone", "GridsMeet"]

# What a launch did to global memory, for the launch behind it that may begin before it has ended.
#
# A grid that is launched like that comes after nothing of the grid before until it waits for it, wherever it began:
# what it touches until then races with that grid. Source: PTX ISA, "griddepcontrol"; CUDA C++ Programming Guide,
# "Programmatic Dependent Launch".


MOST_SITES = 65535


@dataclass(eq=False)
class _Marks:
    """The bytes of a region of host memory: the number of the site that wrote each last, and of one that read it; 0 for
    none.
    """

    start: int
    writes: NDArray[np.uint16]
    reads: NDArray[np.uint16]


@dataclass(eq=False)
class Footprint:
    """What a grid did: the bytes that it wrote and read, and where. has_trigger: does it let others begin early?

    waits: has a thread waited for the grid before? holds_back: does a CTA let others begin only after it has waited?
    """

    kernel: str
    has_trigger: bool = False
    waits: bool = False
    holds_back: bool = False
    regions: dict[int, _Marks] = field(default_factory=dict)
    sites: list[Site] = field(default_factory=list)
    numbers: dict[Site, int] = field(default_factory=dict)

    def add(self, site: Site, block: Array, offsets: Ints, width: int, *, write: bool) -> None:
        """A site touches so many bytes from each of the offsets of a block of global memory on."""
        start = host_address(block)
        if start not in self.regions:
            self.regions[start] = _Marks(start, *(np.zeros(block.nbytes, np.uint16) for _ in range(2)))
        if site not in self.numbers and len(self.sites) < MOST_SITES:
            self.sites.append(site)
            self.numbers[site] = len(self.sites)
        marks = self.regions[start]
        table = marks.writes if write else marks.reads
        where = (offsets.reshape(-1)[:, None] + np.arange(width)).reshape(-1)
        where = where[(where >= 0) & (where < table.size)]
        table[where] = self.numbers.get(site, 1)

    def met(self, block: Array, offsets: Ints, width: int, *, write: bool) -> tuple[Site, bool, int] | None:
        """The access of the grid before that an access meets, whether that wrote, and at which of the offsets."""
        first = host_address(block)
        where = offsets.reshape(-1)[:, None] + np.arange(width)
        for marks in self.regions.values():
            at = where + (first - marks.start)
            inside = (at >= 0) & (at < marks.writes.size)
            for table, wrote in ((marks.writes, True), (marks.reads, False)):
                if not (wrote or (write and self.has_trigger)):
                    continue  # reads are over where the grid before has ended
                sites = np.where(inside, table[np.where(inside, at, 0)], 0).any(1)
                if sites.any():
                    k = int(np.flatnonzero(sites)[0])
                    number = int(table[at[k][inside[k]]].max())
                    return self.sites[number - 1], wrote, k
        return None


@dataclass(eq=False)
class GridsMeet:
    """What a run knows of the launches around; its own is ``footprint``. before: of those that may still run where it
    begins, the last first. unfinished: of those that may still run when its wait is over, as the one behind them never
    waits. alone: nothing is known, so that what threads touch before their wait may be touched by others, too: told of
    a kernel that "waits", or, where its launch is "early" for sure, of any; of one in a "sequence" as of an early one
    only where it never waits. arguments: what may be read by others, too.
    """

    footprint: Footprint
    before: tuple[Footprint, ...] = ()
    unfinished: tuple[Footprint, ...] = ()
    alone: str = ""
    arguments: frozenset[str] = frozenset()

    def next(self, footprint: Footprint) -> GridsMeet:
        """What the launch behind this one knows, if it may begin before this one ends."""
        mine, early = self.footprint, self.before
        passed = early if early and not mine.holds_back and (mine.has_trigger or not mine.waits) else ()
        return GridsMeet(footprint, (mine, *passed), () if mine.waits else self.before)


HOLDERS = {"laneid": "lane", "warpid": "warp", "wid_in_wg": "warp", "wgid": "warpgroup", "tid": "thread"}
_SHUFFLE = "T.cuda.shfl_sync(0xffffffff, x, lane) by the whole warp, which gives the x of another lane"
_MEMORY = told("shared memory: Tx.cta.copy(shared, R), {}, then shared[i, j]", barrier("cta"))
ELSEWHERE = {"lane": _SHUFFLE, "warp": _MEMORY, "warpgroup": _MEMORY, "thread": f"{_SHUFFLE}; or {_MEMORY}"}
"""A hint: how a thread gets an element that another thread holds."""


class Events:
    """The events of a run. A check overrides those that it needs."""

    escapes: Callable[..., None] | None = None
    """Gets the lanes of a site that are outside of its buffer."""

    def watch(self, site: Site) -> Hook | None:
        """The function that is called before each access at a site, or None."""
        return None

    def begin(self, run: Device) -> None:
        """A run starts."""

    def start(self, wave: Wave) -> None:
        """A wave of CTAs starts."""

    def reached(self, event: AccessEvent) -> None:
        """Lanes are about to touch what is at addresses of the cluster's window."""

    def released(self, event: MeetingEvent) -> None:
        """Warps have arrived at a barrier."""

    def acquired(self, event: MeetingEvent) -> None:
        """A barrier is complete: warps that wait there go on."""

    def forgotten(self, wave: Wave, rows: Ints, barrier: int) -> None:
        """No thread will wait any more for what was released at a barrier, kept in ``rows``."""

    def all_met(self, wave: Wave, ctas: slice) -> None:
        """All warps of these CTAs have met at once."""

    def warps_met(self, team: Team) -> None:
        """The lanes of each active warp have met."""

    def fenced(self, event: FenceEvent) -> None:
        """Threads have fenced."""

    def depends(self, team: Team, word: str) -> None:
        """Threads waited for the grids that theirs depends on ("wait"), or let dependent ones begin ("launch")."""

    def done_by_warpgroup(self, team: Team, value: Array, at: Span | None) -> None:
        """Warps did what all of their warpgroup have to do, as often and with the same values."""

    def signalled(self, event: MBarrierSignal) -> None:
        """Lanes made, ended, arrived at or saw the end of a phase of m-barriers."""

    def changed(self, team: Team, olds: Lanes) -> None:
        """Atomics have taken place. olds: what they have found."""

    def issued(self, operation: Operation) -> None:
        """An asynchronous operation was issued."""

    def completing(self, operation: Operation) -> None:
        """An operation is about to take place."""

    def awaited(self, wave: Wave, waiting: Waiting) -> None:
        """Threads have waited for what they issued to a group."""

    def freed(self, wave: Wave, place: tuple[int, int], taken: Taken, at: Span | None) -> None:
        """A warp, ``place`` is its row and number, is about to give columns of tensor memory back."""

    def stuck(self, wave: Wave, waited: Sequence[tuple[int, int]]) -> str:
        """A hint where no thread can go on, or an empty text. waited: rows and addresses of m-barriers."""
        return ""

    def outlived(self, operation: Operation, ended: Bools) -> None:
        """An operation is still under way when no thread can go on. ended: (CTAs,), whose threads have all ended."""

    def ended(self, wave: Wave) -> None:
        """All CTAs of a wave are done."""

    def finish(self, run: Device) -> None:
        """The run is over."""


class Everyone(Events):
    """Hands each event on to the checks that hear of it."""

    def __init__(self, checks: Sequence[Events]) -> None:
        self.checks = checks
        for name, deaf in vars(Events).items():
            if not name.startswith("_"):
                hear = [getattr(check, name) for check in checks if getattr(type(check), name) is not deaf]
                setattr(self, name, partial(_each, hear))


def _each(hear: Sequence[Callable[..., None]], *event: object) -> None:
    for check in hear:
        check(*event)


MOST_BYTES = 1 << 20  # CUDA C++ Programming Guide, "Formatted Output": the default size of printf's buffer


@dataclass(slots=True)
class Printed:
    """The output of a run. lost: lines beyond `MOST_BYTES`, which are not even made; at: the first that lost some."""

    lines: list[str] = field(default_factory=list)
    nbytes: int = 0
    lost: int = 0
    at: Span | None = None

    def add(self, count: int, line: Callable[[int], str], at: Span | None) -> None:
        """``count`` lines that the kernel's line ``at`` prints."""
        for number in range(count):
            if self.nbytes >= MOST_BYTES:
                self.at = self.at or at
                self.lost += count - number
                return
            self.lines.append(line(number))
            self.nbytes += len(self.lines[-1])

    def warnings(self) -> list[str]:
        """What is missing."""
        kept = f"the first {len(self.lines):,} are kept, {bytes_text(MOST_BYTES)} as on a GPU"
        return [f"{self.at}: printf: {len(self.lines) + self.lost:,} lines, of which {kept}"] if self.lost else []


class Device:
    """The device of one run of a program. checks: they get its events. steps: how many it has made. scalars: the values
    of parameters and symbols. ranks: how many GPUs it consists of. rank_ctas: CTAs of the grid, which each GPU has;
    ctas: those of all GPUs: of one, rank by rank, they are neighbours. reach: by scope, the CTAs that it holds. wide:
    the scopes that hold all.

    exists: (1, warps, 32), the threads of a CTA. lines: what asynchronous operations move.
    topics, about: by a warning's text what it is about, and what is known of it, as fields of a `Finding`.
    unwritten: "used", where the use of a value that no thread had written has ended the run; "sought" in a run that
    looks for the thread that writes it later, and "found" where that has ended it.
    met_without: by the line of a barrier, that threads met there without some that had ended.
    doubts: races that a dependence of data may excuse, by their keys; dependence: of a run that finds out; excused: the
    keys of those that it does, once that is known.
    """

    scalars: Mapping[str, Number]

    def __init__(
        self,
        program: Subject,
        arrays: Mapping[str, Array],
        grid: Shape,
        everyone: Everyone,
        precedence: Precedence = FORWARDS,
    ) -> None:
        """arrays: by the name of the buffer, those of one GPU behind those of the one before it."""
        self.program = program
        self.precedence = precedence
        self.places = program.places
        self.blocks = blocks_of(arrays, program.groups)
        self.sizes = {name: block.nbytes for name, block in self.blocks.items()} | {
            name: array.nbytes for name, array in arrays.items()
        }
        self.checks = everyone.checks
        self.events: Events = everyone
        self.grid = grid
        self.ranks = program.ranks.count
        self.rank_ctas = grid[0] * grid[1] * grid[2]
        self.ctas = self.rank_ctas * self.ranks
        self.cluster = program.launch.cluster
        self.cluster_ctas = self.cluster[0] * self.cluster[1] * self.cluster[2]
        self.reach = {"cta": 1, "cluster": self.cluster_ctas, "gpu": max(1, self.rank_ctas)}
        self.wide = ("gpu", "sys") if self.ranks == 1 else ("sys",)
        self.threads = program.launch.threads
        self.warps = program.launch.warps
        self.shared_bytes = program.launch.shared_bytes
        self.exists = (np.arange(self.warps * 32) < self.threads).reshape(1, self.warps, 32)
        self.warnings: list[str] = []
        self.topics: dict[str, tuple[Hashable, ...]] = {}
        self.about: dict[str, Facts] = {}
        self.findings = Collected(1)
        self.printed = Printed()
        self.steps = 0
        # the way of each lane by the bits that it is about to read
        self.decides: Callable[[Array], Bools] | None = None
        self.unwritten = ""
        self.grids: GridsMeet | None = None  # what is known of the launches around, if they are of interest
        # has a thread looked at a clock? are passes of shared memory counted?
        self.has_clock, self.counts_passes = False, True
        self.doubts: dict[Hashable, Doubt] = {}
        self.dependence: Dependence | None = None
        self.met_without: dict[Span | None, MetWithout] = {}
        self.excused: Collection[Hashable] | None = None
        self.tally = [0] * len(program.tallies)
        self.lines: dict[tuple[object, ...], Line] = {}

    def take_cluster(self) -> int | None:
        """The number of the first CTA of a cluster that has not begun, and now will not; None where there is none."""
        return None

    def tell(self, error: SimulationError, *about: Hashable) -> None:
        """A finding after which the run goes on. Raises it once there are as many as wanted, or where it is what the
        run has looked for.

        about: what is at fault; findings of one kind that have it in common come from one mistake.
        """
        if self.unwritten == "found":
            raise error
        self.findings.tell((error.kind, *about), error)

    def warn(self, text: str, *topic: Hashable, facts: Facts | None = None) -> None:
        """Say something once.

        topic: what it is about, without threads, elements and lines: another run may tell of another of two accesses.
        """
        if text not in self.topics:
            self.warnings.append(text)
            self.topics[text] = topic
            self.about[text] = facts or {}

    def thread_parts(self, warps: slice) -> dict[int, Part]:
        """Address parts that depend on thread numbers only, kept for all runs of the program."""
        return self.program.thread_parts.setdefault((warps.start, warps.stop, warps.step), {})

    def global_block(self, window: int) -> tuple[str, MemoryRows | None]:
        """The name and the bytes of the global buffer in a window; no bytes where there is none."""
        place = self.places.globals.get(window)
        return ("global memory", None) if place is None else (place.name, self.blocks[place.name])

    def ordered(
        self,
        team: Team,
        what: Sync | Fence | ProxyFence | RegisterFence,
        at: Span | None,
        where: Address | None = None,
        *,
        members: Array | None = None,
    ) -> None:
        """A fence, perhaps of the bytes ``where`` alone; or a barrier of whole warps without diverged lanes.

        members: the masks that lanes give, of which those with the same one meet.
        """
        for part in team.parted(members) if members is not None else ():
            self.ordered(part, what, at)
        if members is not None:
            return
        if not isinstance(what, Sync):
            self.events.fenced(FenceEvent(team, what, where))
            return
        if not team.has_all_alive:
            raise broken("part of a warp", at=at, given=f"{team.lane_count} of {team.warp_count * 32} lanes active")
        self.events.warps_met(team)

    def assumed(self, team: Team, holds: Value, said: tuple[str, str], at: Span | None) -> None:
        """Check an assumption of a kernel, or of a layout about an element's thread. said: its text and the element."""
        fails = team.narrowed(~holds if isinstance(holds, np.ndarray | np.bool_) else not holds)
        if fails is None:
            return
        text, place = said
        if not place:
            Facet(team, at, team.wave).fault(f"`{text}` does not hold", fails.full)
        word = next((word for name, word in HOLDERS.items() if f"T.{name}" in text), "thread")
        raise SimulationError(
            f"{place} lies in the registers of another {word}",
            given=where_text(team, fails.full),
            allowed=f"elements that the {word} itself holds, where {text}",
            hint=ELSEWHERE[word],
            at=at,
        )

    def moves(self, operation: Operation) -> None:
        """Counts the bytes that an asynchronous operation is going to read and write."""
        at, op = operation.instruction.at, operation.instruction.bound.instruction.name
        for use in operation.touched:
            if isinstance(use.effect, Access) and use.effect.computed and use.places.size:  # others have a site
                where = (self.places.holding(use.space, int(use.places.flat[0])).name, use.space, use.writes)
                line = self.lines.setdefault((at, op, *where), Line(at, op, *where))
                line.accesses += use.count
                line.nbytes += use.bytes_moved
                line.warps += operation.team.warp_count
