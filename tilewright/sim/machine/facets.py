"""The machine as one instruction sees it: `tilewright.isa.machine`'s protocols for one team. A view is one way to touch
bytes: the places in one memory that the lanes of a team name, to be read, written or combined.

The same places are bytes in a wave's memories and flags in its shadows: `View.load` and `View.store` take either,
`View.flags` and `View.store_flags` do for an access of the kernel's what else belongs to that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from tilewright.errors import SimulationError
from tilewright.isa import ANY_LANES, WARPGROUP
from tilewright.sim.machine.address import Address, Part
from tilewright.sim.machine.arrays import Array, Bools
from tilewright.sim.machine.memory import SHIFT, UNITS, MemoryRows, combined, initialised
from tilewright.sim.machine.places import (
    OFFSET_BITS,
    SHARED_WINDOW,
    WINDOW_BITS,
    Place,
    across,
    element_text,
    multicast_steps,
    on_rank,
)
from tilewright.sim.machine.team import Team, numbers, spread
from tilewright.sim.machine.tmem import TmemFacet

if TYPE_CHECKING:
    from tilewright.errors import Span
    from tilewright.explain import Threads
    from tilewright.sim.machine import Bits, Ints, Memories, Site, Storage, Wave


__all__ = ["Facet", "Issuers", "View", "harmless"]


Origin = tuple["Site | None", Address | None]  # where bits come from


@dataclass(eq=False, slots=True)  # not frozen: one is made per access of a run, and freezing takes time
class View:
    """at: in the memory in which the buffer ``place`` lies; in shared memory also of another CTA of the cluster. width:
    bytes of each lane. site: of an access of the kernel's, there. guarded: may the addresses of lanes that are not
    active be anywhere? others: where pointers of run time lead into several buffers, the lanes in each of the others.
    """

    place: Place
    team: Team
    at: Address
    width: int
    site: Site | None = None
    guarded: bool = False
    others: Sequence[View] = ()

    def load(self, memories: Memories | None = None) -> Bits:
        """What each lane finds there; anything in lanes that are not active. May be a view of memory."""
        block = (memories or self.team.wave).storage(self.place)
        bits = block.load(self.team.look, self._within(block), self.width, self.team if self.guarded else None)
        return self._joined(bits, (view.load(memories) for view in self.others)) if self.others else bits

    def store(self, bits: Bits, memories: Memories | None = None) -> None:
        """Each active lane writes its bits; of several at one place the last wins."""
        block = (memories or self.team.wave).storage(self.place)
        at = self._within(block)
        if not self.guarded or self.team.lane_count:
            block.store(self.team, harmless(at, self.team) if self.guarded else at, self.width, bits)
        for view in self.others:
            view.store(bits, memories)

    def flags(self) -> Bits:
        """The flags of what is there; an argument's are all set, and what is outside or far off counts as such."""
        site, team, shadows, flags = self.site, self.team, self.team.wave.shadows, initialised(self.width)
        assert site is not None, "it is asked of an access"
        if self.place.space != "global" and not site.is_remote and not (self.guarded and not team.full.any()):
            flags = View(self.place, team, harmless(self.at, team), self.width).load(shadows)
            if site.at not in shadows.unset:
                shadows.note(site, team, self.at, flags)
        dependence = team.wave.run.dependence
        flags = flags if dependence is None else dependence.read(site, team, flags)
        return self._joined(flags, (view.flags() for view in self.others)) if self.others else flags

    def _joined(self, bits: Bits, parts: Iterator[Bits]) -> Bits:
        """One array of what each lane finds in the buffer that it points into."""
        for more, view in zip(parts, self.others, strict=True):
            bits = np.where(view.team.full if more.ndim < 4 else view.team.full[..., None], more, bits)
        return bits

    def store_flags(self, flags: Bits | None, origin: Origin = (None, None)) -> None:
        """Store the flags of what is stored; None stands for initialised bytes, all that an argument takes."""
        site, team, shadows = self.site, self.team, self.team.wave.shadows
        assert site is not None, "it is asked of an access"
        if (dependence := team.wave.run.dependence) is not None:
            dependence.stored(site, team, flags)
        if self.place.space != "global":
            octets = initialised(self.width) if flags is None else np.atleast_3d(flags)
            View(self.place, team, harmless(self.at, team), self.width).store(octets, shadows)
        elif flags is not None:
            shadows.require(team, flags, f"a store to {self.place.name}", site.at, "a value", origin)
        for view in self.others:
            view.store_flags(flags, origin)

    def combine(self, memories: Memories, olds: Array, by: Callable[..., Array], values: tuple[Array, ...]) -> None:
        """Each active lane changes its item, those at one place one after the other. olds: gets what each found."""
        for view in self.others:
            view.combine(memories, olds, by, values)
        block, active = memories.storage(self.place), self.team.full
        if not isinstance(block, MemoryRows):  # registers, which no other thread can reach
            bits = np.ascontiguousarray(block.load(self.team.look, self.at, self.width))
            np.copyto(olds, bits.view(olds.dtype), where=active)
            new = np.asarray(by(olds, *values)).astype(olds.dtype)
            block.store(self.team, self.at, self.width, new.view(UNITS[olds.itemsize]))
            return
        words = block.to_change(olds.itemsize).view(olds.dtype)
        row = self.team.look.rows(words.shape[1]) if block.rows > 1 else 0
        place = spread((self._within(block).full() >> SHIFT[olds.itemsize]) + row, olds.shape)[active]
        operands = [spread(value, olds.shape)[active] for value in values]
        order = self.team.wave.run.precedence.taken(np.arange(len(place)))
        olds[active] = combined(words, place, by, operands, order)

    def _within(self, block: Storage) -> Address:
        """The addresses as a block counts them: shared memory of other CTAs lies in other rows of it."""
        if self.place.space != "shared" or not (isinstance(block, MemoryRows) and self.at.hi >> OFFSET_BITS):
            return self.at
        return Address(0, Part.of_lanes(across(self.team.look, block, self.at.full())))


def together(views: list[View]) -> View:
    """All of them as one."""
    first, *first.others = views
    return first


def harmless(at: Address, team: Team) -> Address:
    """``at`` with the addresses of inactive lanes brought to that of an active one."""
    return at if team.array is None else Address(0, Part(team.harmless(at.full())))


def by_window(team: Team, at: Address) -> Iterator[tuple[int, Team, Address]]:
    """For each window that active lanes point into: its number, those lanes, and their addresses in it."""
    first, last = at.lo >> WINDOW_BITS, at.hi >> WINDOW_BITS
    windows = [first]
    if first != last:
        windows = np.unique(spread(at.full(), team.shape)[team.full] >> WINDOW_BITS).tolist()
    for window in windows:
        lanes = team if len(windows) == 1 else team.narrowed(at.full() >> WINDOW_BITS == window)
        if lanes is not None:
            yield window, lanes, at.shifted(-(window << WINDOW_BITS))


# The issuers of an operation: threads, warps or warpgroups of a team, on whose behalf asynchronous units act.


Scalar = TypeVar("Scalar", bound=np.generic)
LANES = {ANY_LANES: 1, WARPGROUP: 128}  # lanes of each issuer; all other issuers are warps


@dataclass(frozen=True, eq=False)
class Issuers:
    """`tilewright.isa.machine.Unit` for n issuers. rows: of their CTAs in the wave. threads: of the CTA, the first of
    each. lanes: of each, 1, 32 or 128. places: CTAs, warps and lanes in the team's arrays.
    """

    wave: Wave
    at: Span | None
    rows: Ints
    threads: Ints
    lanes: int
    places: tuple[Ints, ...]

    @cached_property
    def each_cta(self) -> int:
        """How many issue in each of some CTAs that follow each other; 0 where that differs between them."""
        count = int(np.count_nonzero(self.rows == self.rows[:1]))
        if not count or len(self.rows) % count:
            return 0
        by_cta = self.rows.reshape(-1, count)
        return count if (by_cta == self.rows[0] + np.arange(len(by_cta))[:, None]).all() else 0

    @cached_property
    def ctas(self) -> slice:
        """Those CTAs."""
        return slice(int(self.rows[0]), int(self.rows[-1]) + 1)

    @property
    def rank(self) -> Ints:
        return np.asarray(self.wave.rank(self.rows))

    @property
    def warp(self) -> Ints:
        return self.threads // 32

    @property
    def cluster_ctas(self) -> int:
        return self.wave.run.cluster_ctas

    def name(self, k: int) -> str:
        """``CTA (0, 0, 0), warp 1, lane 3``."""
        row, thread = int(self.rows[k]), int(self.threads[k])
        warp = thread // 32
        if self.lanes == 128:
            return f"CTA {self.wave.cta_name(row)}, warps {warp}..{warp + 3}"
        return self.wave.thread_name(row, thread) if self.lanes == 1 else self.wave.warp_name(row, warp)

    def read(self, address: Ints, nbytes: int) -> NDArray[np.uint8]:
        octets = np.zeros((len(self.rows), nbytes), np.uint8)
        for start in np.unique(address).tolist():
            window, offset = divmod(start, 1 << WINDOW_BITS)
            _, block = self.wave.run.global_block(window)
            if block is None or offset + nbytes > block.nbytes:
                self.fault(f"{nbytes} bytes at {start:#x} are not in global memory", address == start)
            octets[address == start] = block.data[0, offset : offset + nbytes]
        return octets

    @property
    def cta(self) -> Ints:
        return self.rows

    def take_clusters(self) -> NDArray[np.uint32]:
        taken = [self.wave.run.take_cluster() for _ in self.rows]
        return np.array([(0, 0, 0, 0) if cta is None else (1, *self.wave.cta_at(cta)) for cta in taken], np.uint32)

    def kept(self, buffer: str) -> NDArray[np.uint64]:
        return self.wave.kept.setdefault(buffer, np.zeros(self.wave.ctas, np.uint64))

    def thread_at(self, k: int) -> Threads:
        """An issuer, as findings have it: the first thread of it."""
        return self.wave.thread_at(self.wave.first + int(self.rows[k]), int(self.threads[k]))

    def fault(self, what: str, issuers: Bools, *, address: int | None = None) -> NoReturn:
        who = self.name(int(np.flatnonzero(issuers)[0]))
        where = "" if address is None else self._place_text(address)
        threads = (self.thread_at(int(np.flatnonzero(issuers)[0])),)
        raise SimulationError(what, given=f"{where}{who}", at=self.at, threads=threads)

    def _place_text(self, address: int) -> str:
        """``element 1 of A, byte 4, in``: empty for an address without a buffer."""
        places, (window, byte) = self.wave.run.places, divmod(address, 1 << WINDOW_BITS)
        if window in places.globals:
            return f"{element_text(self.wave.run.program, places.globals[window], byte, self.at)}, byte {byte}, in "
        if window not in (0, SHARED_WINDOW):
            return ""
        byte &= (1 << OFFSET_BITS) - 1
        return f"{element_text(self.wave.run.program, places.shared_at(byte), byte, self.at)}, in "

    def are(self, other: Issuers) -> bool:
        """Do the same lanes issue together there?"""
        alike = self.lanes == other.lanes and np.array_equal(self.rows, other.rows)
        return alike and np.array_equal(self.threads, other.threads)

    def each(self) -> tuple[Ints, Ints]:
        """Row and thread of all that take part, (n, lanes)."""
        threads = self.threads[:, None] + np.arange(self.lanes)
        return np.broadcast_to(self.rows[:, None], threads.shape), threads

    @cached_property
    def warps_each(self) -> int:
        """How many warps each issuer is; 1 of a thread."""
        return max(self.lanes // 32, 1)

    @cached_property
    def actors(self) -> tuple[Ints, Ints, Ints]:
        """Number of the issuer, row and thread of each thread or, by its first thread, warp that issues."""
        number = np.repeat(np.arange(len(self.rows)), self.warps_each)
        return number, self.rows[number], self.threads[number] + 32 * (np.arange(len(number)) % self.warps_each)

    def of_threads(self, table: NDArray[Scalar]) -> NDArray[Scalar]:
        """What a table (CTAs, threads) has for all that take part, (n, lanes)."""
        first = self.rows * table.shape[1] + self.threads
        entries: NDArray[Scalar] = table.reshape(-1).take(first[:, None] + np.arange(self.lanes))
        return entries

    def taken(self, value: Array, shape: tuple[int, ...]) -> Array:
        """The issuers' part of values (CTAs, warps, 32) or (CTAs, warps, registers, 32), an axis of issuers first."""
        vector = value.shape[2:-1] if value.ndim > 3 else ()
        full = spread(value, (*shape[:2], *vector, 32))
        if vector:
            full = np.moveaxis(full, -1, 2)  # registers last
        if self.lanes > 1 and self.lanes * len(self.rows) == 32 * shape[0] * shape[1]:  # everyone, in order
            values = full.reshape(len(self.rows), -1, *vector).copy()  # registers change
        else:
            values = np.ascontiguousarray(full[self.places])  # (n, registers), or (n, warps, 32, registers)
        if self.lanes == 1:
            return values
        if not vector:
            return values.reshape(len(self.rows), self.lanes)
        values = values.reshape(len(self.rows), self.lanes, *vector)
        return np.ascontiguousarray(np.moveaxis(values, 1, -1))

    def spread(self, value: Array, shape: tuple[int, ...]) -> Array:
        """The inverse of `taken`: (n, registers, lanes) as (CTAs, warps, registers, 32)."""
        vector = value.shape[1:] if self.lanes == 1 else value.shape[1:-1]
        full = np.zeros((*shape, *vector), value.dtype)
        if self.lanes > 1:
            value = np.moveaxis(value, -1, 1).reshape(len(self.rows), -1, 32, *vector)
        full[self.places] = value
        return np.moveaxis(full, 2, -1)


def issuers_of(team: Team, lanes: str, at: Span | None) -> Issuers:
    """The issuers of a team. lanes: how many issue together, of the row, see `tilewright.isa.Instruction`."""
    count = LANES.get(lanes, 32)
    ctas, warps, *lane = np.nonzero(team.full if count == 1 else team.full.any(-1))
    rows, number = np.array(numbers(team.ctas))[ctas], np.array(numbers(team.warps))[warps]
    if count == 1:
        return Issuers(team.wave, at, rows, number * 32 + lane[0], 1, (ctas, warps, lane[0]))
    first = number % (count // 32) == 0
    if len(warps) != int(first.sum()) * count // 32:
        everyone = Issuers(team.wave, at, rows, number * 32, 32, ())
        everyone.fault("a warpgroup takes part without all of its four warps", rows >= 0)
    places = ctas[first][:, None], warps[first][:, None] + np.arange(count // 32)
    return Issuers(team.wave, at, rows[first], number[first] * 32, count, places)


@dataclass(eq=False)
class MemoryFacet:
    """All memories as one `Memory`, by generic addresses: the bytes, or their flags."""

    team: Team
    at: Span | None
    memories: Memories

    def _views(self, address: Array, width: int) -> View:
        """Those of the buffers that lanes point into."""
        places, views = self.team.wave.run.places, list[View]()
        at = harmless(Address(0, Part(address.astype(np.int64, copy=False))), self.team)
        for window, lanes, there in by_window(self.team, at):
            if not places.has_window(window):
                raise SimulationError(
                    "a pointer to nowhere", given=f"address {(window << WINDOW_BITS) + there.lo:#x}",
                    allowed="a pointer into a buffer of the kernel", at=self.at, kind="bounds",
                )  # fmt: skip
            there = there if lanes is self.team else harmless(there, lanes)
            views.append(View(places.at(window, there.lo), lanes, there, width))
        return together(views)

    def rows(self, address: Array, nbytes: int) -> NDArray[np.uint8]:
        return np.ascontiguousarray(self._views(address, nbytes).load(self.memories))[..., None].view(np.uint8)

    def store_rows(self, address: Array, data: NDArray[np.uint8]) -> None:
        bits = np.ascontiguousarray(data).view(UNITS[data.shape[-1]])[..., 0]
        self._views(address, data.shape[-1]).store(bits, self.memories)

    def replicas(self, address: Array) -> list[Array]:
        at = self.team.harmless(address.astype(np.int64, copy=False))
        return [np.asarray(address) + step for step in multicast_steps(self.team.wave.run, at, self.at)]

    def atomic(self, address: Array, combine: Callable[..., Array], *values: Array) -> Array:
        """Lane by lane where lanes share an address, all others at once."""
        olds = np.zeros(self.team.shape, values[0].dtype)
        self._views(address, olds.itemsize).combine(self.memories, olds, combine, values)
        self.team.wave.run.events.changed(self.team, olds)
        return olds


class SharedFacet(MemoryFacet):
    """Shared memory as a `Memory`; addresses may be those of the first lanes of each warp alone."""

    def _views(self, address: Array, width: int) -> View:
        lanes, count = self.team, address.shape[-1]
        if count < 32:
            lanes = Team(lanes.look.of_lanes(count), None if lanes.array is None else lanes.full[..., :count])
        offsets = lanes.harmless(address.astype(np.int64, copy=False))
        return View(lanes.wave.run.places.arena, lanes, Address(0, Part.of_lanes(offsets)), width)


class Facet(MemoryFacet):
    """`Machine` for one call. `given` is the part of it that a row's meaning gets."""

    @property
    def memory(self) -> MemoryFacet:
        return self

    def given(self, on: str) -> tuple[object, ...]:
        """What ``execute`` gets first, by the row's `Meaning.on`: the machine, a part of it, or nothing."""
        return () if not on else (self if on == "machine" else getattr(self, on),)

    @property
    def shared(self) -> SharedFacet:
        return SharedFacet(self.team, self.at, self.memories)

    @property
    def tmem(self) -> TmemFacet:
        return TmemFacet(self)

    @property
    def warp(self) -> Array:
        return np.array(numbers(self.team.warps)).reshape(1, -1, 1)

    def on_rank(self, address: Array, rank: Array) -> Array:
        count = self.team.wave.run.cluster_ctas
        wrong = self.active & ((rank.astype(np.int64) < 0) | (rank.astype(np.int64) >= count))
        if wrong.any():
            self.fault(f"the cluster has {count} CTAs: a rank is 0..{count - 1}", wrong)
        return on_rank(address, rank)

    def rank_of(self, address: Array) -> Array:
        home = self.team.wave.rank(self.team.look.rows(1))
        rank = (address.astype(np.int64) >> OFFSET_BITS) - 1
        return np.asarray(np.where(rank >= 0, rank, home))

    @property
    def active(self) -> Bools:
        return self.team.full

    def to_shared(self, address: Array) -> Array:
        return address - (SHARED_WINDOW << WINDOW_BITS)

    def with_rank(self, address: Array) -> Array:
        wave = self.team.wave
        return on_rank(address, self.rank_of(address)) if wave.run.cluster_ctas > 1 else address

    def clock(self) -> int:
        self.team.wave.run.steps += 1
        self.team.wave.run.has_clock = True
        return self.team.wave.run.steps

    def write_text(self, count: int, line: Callable[[int], str]) -> None:
        self.team.wave.run.printed.add(count, line, self.at)

    def depends(self, word: str) -> None:
        self.team.wave.run.events.depends(self.team, word)

    def done_by_warpgroup(self, value: Array) -> None:
        run = self.team.wave.run
        run.events.done_by_warpgroup(self.team, np.asarray(value), self.at)

    def line(self) -> str:
        return "".join(self.at.excerpt()[:1]) if self.at is not None else ""

    def fault(self, what: str, lanes: Bools, *, hint: str | None = None) -> None:
        """Stops the kernel, naming the first CTA and warp with such lanes."""
        raise self.team.error("simulation", what, np.broadcast_to(lanes, self.team.shape), self.at, hint=hint)
