"""Threads that execute a statement together, and their warps; a batch is such a team at one segment of a kernel, with
its values: plain data that splits, merges and prints. All arrays of a batch broadcast to its ``shape``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import TYPE_CHECKING

import numpy as np

from tilewright.errors import SimulationError
from tilewright.explain import Threads, numbered, spans_of
from tilewright.sim.machine.address import Address, Part
from tilewright.sim.machine.arrays import Value

if TYPE_CHECKING:
    from tilewright.errors import Span
    from tilewright.sim.machine import Array, BarrierSite, Bools, Crossing, Ints, Polling, Shape, Uniform, Wave


__all__ = [
    "Actors", "Batch", "Look", "Team", "bits_of", "first_of", "first_warp", "lanes_in", "lanes_text", "merged",
    "numbers", "spread", "threads_of", "where_text",
]  # fmt: skip


# Ranges of CTAs and warps.


def spread(array: Array, shape: tuple[int, ...]) -> Array:
    """``array`` in a shape that it broadcasts to; NumPy takes 5 us for that even if it has that shape."""
    return array if array.shape == shape else np.broadcast_to(array, shape)


def numbers(taken: slice) -> range:
    """The numbers of the CTAs or warps that a slice takes."""
    return range(taken.start, taken.stop, taken.step)


def covering(ascending: Ints) -> slice:
    """The narrowest slice with all of these ascending numbers in it."""
    step = int(ascending[1] - ascending[0]) if len(ascending) > 1 else 1
    if len(ascending) > 2 and not (np.diff(ascending) == step).all():
        step = 1
    return slice(int(ascending[0]), int(ascending[-1]) + 1, step)


def within(outer: slice, inner: slice) -> slice:
    """The slice of a wave that ``inner`` means, which counts from the start of ``outer``."""
    taken = numbers(outer)[inner]
    return slice(taken.start, taken[-1] + 1, taken.step)


class Look:
    """Which CTAs of a wave, and which of their warps; one CTA may stand for all, and warps may have fewer lanes.

    Both are ranges, as slices, so that their part of a memory is a view.
    """

    def __init__(self, wave: Wave, ctas: slice, warps: slice, shape: Shape) -> None:
        self.wave = wave
        self.ctas = ctas
        self.warps = warps
        self.shape = shape
        self._rows: dict[int, Ints] = {}
        self.sums: dict[tuple[int, ...], Ints] = {}  # of address parts, by what `Address.units` makes of them
        self.one_to_one: dict[tuple[int, ...], bool] = {}  # of address parts: see `Address.is_one_to_one`
        self._firsts: dict[Uniform, Look] = {}

    def rows(self, pitch: int) -> Ints:
        """``pitch`` times the number of each CTA's row, (CTAs, 1, 1)."""
        if pitch not in self._rows:
            rows = np.array(numbers(self.ctas), np.int64)
            self._rows[pitch] = (rows * pitch).reshape(-1, 1, 1)
        return self._rows[pitch]

    @property
    def ranks(self) -> Ints:
        """The GPU of each CTA, (CTAs, 1, 1)."""
        return np.asarray((self.rows(1) + self.wave.first) // self.wave.run.reach["gpu"])

    def firsts(self, alike: Uniform) -> Look:
        """This look, without the CTAs that are like an earlier one."""
        if alike.same == 1:
            return self
        if alike not in self._firsts:
            assert alike.firsts is not None
            ctas = numbers(self.ctas)[alike.firsts]
            some = slice(ctas.start, ctas.stop, ctas.step)
            self._firsts[alike] = Look(self.wave, some, self.warps, (len(ctas), *self.shape[1:]))
        return self._firsts[alike]

    def places(self, active: Bools) -> tuple[Ints, ...]:
        """Row of the CTA and number of the warp of each entry that is set in (CTAs, warps) bools; in (CTAs, warps, 32)
        the lane, too.
        """
        ctas, warps, *lanes = active.nonzero()
        return self.ctas.start + self.ctas.step * ctas, self.warps.start + self.warps.step * warps, *lanes

    @cached_property
    def key(self) -> tuple[object, ...]:
        """The key that distinguishes it from other looks of its wave."""
        ctas, warps = self.ctas, self.warps
        return ctas.start, ctas.stop, ctas.step, warps.start, warps.stop, warps.step, self.shape

    def of_lanes(self, count: int) -> Look:
        """This look, at the first ``count`` lanes of each warp."""
        return self if count == 32 else Look(self.wave, self.ctas, self.warps, (*self.shape[:2], count))

    @cached_property
    def single(self) -> Look:
        """This look, at one CTA that stands for all of them."""
        return Look(self.wave, slice(0, 1, 1), self.warps, (1, *self.shape[1:]))

    @property
    def alive(self) -> Bools:
        """Its threads that have not ended."""
        return self.wave.alive[self.ctas, self.warps]


# Which lanes of them execute a statement.


def bits_of(lanes: Bools) -> list[int]:
    """Rows of lanes, (n, 32), as numbers with a bit for each lane: a set of lanes that is quick to join and to part."""
    packed: list[int] = np.packbits(lanes, axis=1, bitorder="little").view("<u4")[:, 0].tolist()
    return packed


@cache
def lanes_in(bits: int) -> tuple[int, ...]:
    """The lanes of such a number."""
    return tuple(lane for lane in range(32) if bits >> lane & 1)


@dataclass(eq=False)  # not frozen: there are many, and freezing takes time
class Actors:
    """rows, warps: (n,), the CTA's row in the wave and the number of the warp. lanes: (n, 32) of those that act."""

    rows: Ints
    warps: Ints
    lanes: Bools

    @classmethod
    def threads(cls, rows: Ints, threads: Ints) -> Actors:
        """Single threads."""
        return cls(rows, threads >> 5, (threads & 31)[:, None] == np.arange(32))

    @classmethod
    def whole_warps(cls, rows: Ints, warps: Ints) -> Actors:
        """All lanes of these warps."""
        return cls(rows, warps, np.ones((len(rows), 32), np.bool_))

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, which: Ints | Bools) -> Actors:
        return Actors(self.rows[which], self.warps[which], self.lanes[which])

    @cached_property
    def places(self) -> list[tuple[int, int]]:
        """Row and warp of each."""
        return list(zip(self.rows.tolist(), self.warps.tolist(), strict=True))

    @cached_property
    def bits(self) -> list[int]:
        """The lanes of each, as bits of a number."""
        return bits_of(self.lanes)

    @cached_property
    def every(self) -> tuple[Ints, Ints, Ints]:
        """(m,): of each lane that acts the number of its actor, its row and its thread."""
        which, lane = self.lanes.nonzero()
        return which, self.rows[which], 32 * self.warps[which] + lane

    def each(self) -> Iterator[tuple[int, int, int]]:
        """The same, of one lane after the other."""
        return zip(*map(np.ndarray.tolist, self.every), strict=True)


MANY_CTAS = 16


class Team:
    """Threads that execute a statement together: the active lanes of some warps of some CTAs.

    array: bools that broadcast to ``shape``, (CTAs, warps, 32); None where every lane is active. A team is never empty:
    `narrowed` and `without` answer None when no lane is left.
    """

    __slots__ = ("__dict__", "array", "ctas", "look", "shape", "warps", "wave")

    def __init__(self, look: Look, array: Bools | None = None) -> None:
        self.look = look
        self.wave, self.ctas, self.warps, self.shape = look.wave, look.ctas, look.warps, look.shape
        self.array = array

    @classmethod
    def of(cls, look: Look, active: Bools) -> Team:
        """These lanes; as those of one CTA where all have the same."""
        if len(active) > 1 and (active == active[:1]).all():
            active = active[:1]
        return cls(look, None if active.all() else active)

    def narrowed(self, cond: bool | Bools) -> Team | None:
        """The lanes where ``cond`` holds too; itself where that is all of them."""
        if cond is True or cond is False:
            return self if cond else None
        active = cond if self.array is None else self.array & cond
        if self.array is None and active.all():
            return self
        if not active.any():
            return None
        return Team.of(self.look, np.atleast_3d(active))

    def parted(self, by: Array) -> list[Team]:
        """The lanes for which a value is the same, by its values; itself where all lanes of each warp have one."""
        if by.ndim == 0 or by.shape[-1] == 1 or (by == by[..., :1]).all():
            return [self]
        by = np.broadcast_to(by, self.shape)
        parts = (self.narrowed(by == value) for value in np.unique(by[self.full]))
        return [part for part in parts if part is not None]

    def without(self, gone: Team | None) -> Team | None:
        """The lanes that are not in ``gone``."""
        if gone is None:
            return self
        return None if gone.array is None else self.narrowed(~gone.array)

    def joined(self, other: Team | None) -> Team:
        """The lanes that are in one of the two masks."""
        if other is None or self.array is None:
            return self
        return other if other.array is None else Team(self.look, self.array | other.array)

    def chosen(self, new: Value, old: Value | None) -> Value:
        """``new`` in the active lanes, ``old`` in the others; None where those never had a value."""
        if self.array is None or old is None:
            return new
        where = self.array if np.ndim(new) < 4 and np.ndim(old) < 4 else self.array[..., None]
        return np.where(where, new, old)

    def harmless(self, values: Ints) -> Ints:
        """``values`` with those of inactive lanes replaced by an active one's."""
        return values if self.array is None else np.where(self.array, values, self.first_of(values))

    def first_of(self, values: Ints) -> int:
        """What the first active lane has of values that broadcast to the batch; 0 where no lane is active."""
        (cta, warp, lane), (ctas, warps, lanes) = self.first, values.shape
        value = values[cta if ctas > 1 else 0, warp if warps > 1 else 0, lane if lanes > 1 else 0]
        return int(value) if self.array is None or self.full[self.first] else 0

    @cached_property
    def first(self) -> tuple[int, int, int]:
        """Where its first active lane is: the CTA, the warp and the lane."""
        outer, lane = divmod(int(self.full.argmax()), self.shape[2])
        return (*divmod(outer, self.shape[1]), lane)

    @cached_property
    def full(self) -> Bools:
        """The bools in the shape of the batch."""
        return np.broadcast_to(np.True_, self.shape) if self.array is None else spread(self.array, self.shape)

    @cached_property
    def flat(self) -> Ints:
        """The numbers of the active lanes, counted through the batch."""
        return np.flatnonzero(self.full)

    @cached_property
    def lane_count(self) -> int:
        """How many lanes are active."""
        whole = self.shape[0] * self.shape[1] * self.shape[2]
        return whole if self.array is None else int(self.array.sum()) * (whole // self.array.size)

    @cached_property
    def warp_count(self) -> int:
        """How many warps have an active lane."""
        if self.array is None:
            return self.shape[0] * self.shape[1]
        some = self.array.any(-1)
        return int(some.sum()) * (self.shape[0] * self.shape[1] // some.size)

    @cached_property
    def has_whole_warps(self) -> bool:
        """True where a warp takes part with all its lanes or none."""
        return self.array is None or bool((self.array.any(-1) == self.array.all(-1)).all())

    @cached_property
    def single(self) -> Team:
        """The team of one CTA, where all have the same."""
        return Team(self.look.single, self.array)

    def as_one(self, *at: Address) -> Team | None:
        """It as one CTA, where all CTAs of the wave do the same at the same addresses; else None."""
        is_whole = self.shape[0] == self.wave.ctas
        alike = is_whole and not self.varies_by_cta and not any(address.varies_by_cta for address in at)
        return self.single if alike else None

    def busy(self, at: Address) -> tuple[Team, Address]:
        """It, and its addresses, without CTAs of which no lane is active, where these are most."""
        if self.busy_ctas is None:
            return self, at
        ctas = covering(self.busy_ctas)
        rest = self.full[ctas]
        parts = (part.values[ctas] if len(part.values) > 1 else part.values for part in at.parts)
        look = Look(self.wave, within(self.ctas, ctas), self.warps, rest.shape)
        return Team.of(look, rest), Address(at.start, *map(Part, parts))

    @cached_property
    def busy_ctas(self) -> Ints | None:
        """The CTAs that have an active lane, if they lie among few others that have none; else None."""
        if self.array is None or len(self.array) < MANY_CTAS:
            return None
        busy = np.flatnonzero(self.array.any((1, 2)))
        return busy if 4 * (busy[-1] + 1 - busy[0]) <= len(self.array) else None

    @property
    def has_all_alive(self) -> bool:
        """Does each warp take part with all of its threads that have not ended, or with none?"""
        if self.has_whole_warps:
            return True
        return bool((self.full == (self.look.alive & self.full.any(-1, keepdims=True))).all())

    def lane_of(self, thread: int) -> tuple[int, int, int] | None:
        """Where in it a thread, counted through the grid, is; None for one that is not in it."""
        warp, lane = divmod(thread, 32)
        row, warp = warp // self.wave.run.warps - self.wave.first, warp % self.wave.run.warps
        if row not in numbers(self.ctas) or warp not in numbers(self.warps):
            return None
        at = numbers(self.ctas).index(row), numbers(self.warps).index(warp), lane
        return at if self.full[at] else None

    def in_wave(self) -> Bools:
        """Which threads of the wave these are: (CTAs, warps, 32) of the whole wave."""
        all_lanes = np.zeros((self.wave.ctas, self.wave.run.warps, 32), np.bool_)
        all_lanes[self.ctas, self.warps] = self.full
        return all_lanes

    def error(
        self, kind: str, what: str, lanes: Bools, at: Span | None, *, given: object = None, **facts: object
    ) -> SimulationError:
        """A finding about some of its lanes, (CTAs, warps, 32). given: left out, who they are."""
        given, threads = given or where_text(self, lanes), threads_of(self, lanes)
        return SimulationError(what, given=given, at=at, kind=kind, threads=threads, **facts)  # type: ignore[arg-type]  # as of it

    @cached_property
    def threads(self) -> tuple[Ints, ...]:
        """(n,): row of the CTA, warp and lane of each active lane."""
        return self.look.places(self.full)

    @cached_property
    def actors(self) -> Actors:
        """Its warps, with their active lanes."""
        some = np.asarray(self.full.any(-1))
        rows, warps = self.look.places(some)
        return Actors(rows, warps, self.full[some])

    @cached_property
    def varies_by_cta(self) -> bool:
        """Can two CTAs have different lanes active?"""
        return self.array is not None and self.array.shape[0] > 1


# In words.


def lanes_text(lanes: Bools) -> str:
    """``lanes 0..15`` of a (32,) mask, as few words as will do."""
    return "all lanes" if lanes.all() else numbered("lane", np.flatnonzero(lanes).tolist())


def first_warp(lanes: Bools) -> tuple[int, int]:
    """Place in a batch, its CTA and its number, of the first warp that has such lanes."""
    cta, warp = np.argwhere(lanes.any(-1))[0]
    return int(cta), int(warp)


def first_of(values: Value, lanes: Bools) -> int:
    """The number that the first of these lanes has."""
    return int(np.broadcast_to(values, lanes.shape)[lanes][0])


def threads_of(team: Team, lanes: Bools) -> tuple[Threads, ...]:
    """All of these lanes of a batch, as ranges: CTAs that follow each other and have the same warps and lanes are one
    entry. lanes: (CTAs, warps, 32), or what broadcasts to it.
    """
    full, kinds_of = np.broadcast_to(lanes, team.shape), dict[object, list[tuple[int, int]]]()
    of_one = team.wave.run.reach["gpu"]
    ctas, warps = numbers(team.ctas), numbers(team.warps)
    for k in np.flatnonzero(full.any((1, 2))).tolist():
        row, kinds = ctas[k] + team.wave.first, dict[tuple[int, int], list[tuple[int, int]]]()
        for warp in np.flatnonzero(full[k].any(-1)).tolist():
            for run in spans_of(np.flatnonzero(full[k, warp]).tolist()):
                _extend(kinds.setdefault(run, []), warps[warp])
        _extend(kinds_of.setdefault(tuple((run, tuple(spans_of)) for run, spans_of in kinds.items()), []), row, of_one)
    return tuple(
        team.wave.threads_of(span, warp, run)
        for kind, spans in kinds_of.items()
        for span in spans
        for run, warps_of in kind  # type: ignore[attr-defined]  # the key made above
        for warp in warps_of
    )


def _extend(spans: list[tuple[int, int]], number: int, parts: int = 1 << 62) -> None:
    """Add a number above all others to spans of numbers, each inside of one of the parts that are so long."""
    if spans and spans[-1][1] == number - 1 and number % parts:
        spans[-1] = spans[-1][0], number
    else:
        spans.append((number, number))


def where_text(team: Team, lanes: Bools, shown: Bools | None = None) -> str:
    """``CTA (0, 0, 0), warp 2, lanes 0..15``: the first warp that has such lanes, and these or those ``shown``."""
    cta, warp = first_warp(lanes)
    name = team.wave.warp_name(numbers(team.ctas)[cta], numbers(team.warps)[warp])
    return f"{name}, {lanes_text((lanes if shown is None else shown)[cta, warp])}"


Environment = dict[str, Value]


class SpecialValues(dict[str, Value]):
    """The special registers of a batch, each made when first read, of the smallest shape."""

    def __init__(self, wave: Wave, ctas: slice, warps: slice) -> None:
        super().__init__()
        self.place = (wave, ctas, warps)

    def __missing__(self, name: str) -> Value:
        wave, *where = self.place
        self[name] = value = wave.special(name, *where)
        return value


@dataclass(eq=False)
class Batch:
    """env: values of the live variables by name. parts: address parts of these CTAs that were made before;
    thread_parts: those that depend on the warps only, kept for good. part: of those of a wave that begin apart; batches
    of two parts are merged only where a collective needs lanes of both.
    """

    team: Team
    env: Environment = field(default_factory=dict)
    segment: int = 0
    parts: dict[int, Part] = field(default_factory=dict)
    meeting: Crossing | Polling | None = None  # what it waits for: see `tilewright.sim.machine.sync`
    again: bool = False
    part: int = 0

    def __post_init__(self) -> None:
        self.wave, self.shape = self.team.wave, self.team.shape
        self.ctas, self.warps = self.team.ctas, self.team.warps
        self.special = SpecialValues(self.wave, self.ctas, self.warps)
        self.thread_parts: dict[int, Part] = self.wave.run.thread_parts(self.warps)

    @property
    def place(self) -> BarrierSite:
        """Where it waits."""
        assert self.meeting is not None
        return self.meeting.place

    def narrowed(self, team: Team, segment: int, *, waits: bool = False) -> Batch:
        """These lanes as a batch of their own, at ``segment``. waits: for what the whole batch waits for?"""
        active = team.full
        ctas = covering(np.flatnonzero(active.any((1, 2))))
        warps = covering(np.flatnonzero(active.any((0, 2))))
        rest = active[ctas, warps]
        env = {name: _taken(value, ctas, warps) for name, value in self.env.items()}
        meeting = self.meeting.narrowed(ctas, warps) if waits and self.meeting is not None else None
        look = Look(self.wave, within(self.ctas, ctas), within(self.warps, warps), rest.shape)
        return Batch(Team.of(look, rest), env, segment, meeting=meeting, part=self.part)

    def parted(self, some: Bools, segment: int) -> tuple[Batch, Batch]:
        """These lanes as a batch at ``segment``, and the others, which go on waiting."""
        rest = Team(self.team.look, self.team.full & ~some)
        return self.narrowed(Team(self.team.look, some), segment), self.narrowed(rest, self.segment, waits=True)

    def parting(self, some: Bools) -> tuple[Batch, list[Batch]]:
        """These lanes as a batch of their own, and the others, if there are any."""
        if np.count_nonzero(some) == self.team.lane_count:
            return self, []
        going, rest = self.parted(some, self.segment)
        return going, [rest]

    def apart(self, parts: list[Bools]) -> list[Batch]:
        """A batch of its own for each of these sets of its threads."""
        if len(parts) == 1:
            return [self]
        every = [self.narrowed(Team(self.team.look, part), self.segment) for part in parts]
        for number, batch in enumerate(every):
            batch.part = number
        return every


def _taken(value: Value, ctas: slice, warps: slice) -> Value:
    if not isinstance(value, np.ndarray) or value.ndim < 3:
        return value
    return value[ctas if value.shape[0] > 1 else slice(None), warps if value.shape[1] > 1 else slice(None)]


def merged(a: Batch, b: Batch, axes: dict[str, int]) -> Batch | None:
    """Two batches at one segment as one, or None where a value that must be equal in all of its lanes is not.

    axes: over what each live variable may vary; the others are dead and dropped.
    """
    env: Environment = {}
    both = a.team.in_wave() | b.team.in_wave()
    ctas, warps = covering(np.flatnonzero(both.any((1, 2)))), covering(np.flatnonzero(both.any((0, 2))))
    shape = (len(numbers(ctas)), len(numbers(warps)), 32)
    for name, over in axes.items():
        if a.env[name] is None and b.env[name] is None:  # no bit unknown in either
            env[name] = a.env[name]
            continue
        joined = _joined_value(a, b, name, over, (ctas, warps, shape))
        if joined is None:
            return None
        env[name] = joined
    rest = both[ctas, warps]
    team = Team.of(Look(a.wave, ctas, warps, shape), rest)
    part = min(a.part, b.part)
    return Batch(team, env, a.segment, meeting=a.meeting, again=a.again, part=part)


def _joined_value(a: Batch, b: Batch, name: str, over: int, where: tuple[slice, slice, Shape]) -> Value | None:
    x, y = a.env[name], b.env[name]
    x, y = y.dtype.type(0) if x is None else x, x.dtype.type(0) if y is None else y
    if not over or not isinstance(x, np.ndarray) or not isinstance(y, np.ndarray):
        return x if _equal(x, y) else _spread_value(a, b, (x, y), where) if over else None
    return _spread_value(a, b, (x, y), where)


def _spread_value(a: Batch, b: Batch, values: tuple[Value, Value], where: tuple[slice, slice, Shape]) -> Value:
    """Both values in the places of their own lanes."""
    ctas, warps, shape = where
    wave = (a.wave.ctas, a.wave.run.warps, 32)
    x = np.asarray(values[0])
    total = np.zeros((*wave, *x.shape[3:]), x.dtype)
    for batch, value in ((a, values[0]), (b, values[1])):
        window = total[batch.ctas, batch.warps]
        active = batch.team.full
        window[active] = np.broadcast_to(value, (*batch.shape, *x.shape[3:]))[active]
    return total[ctas, warps].reshape(*shape, *x.shape[3:])


def _equal(x: Value, y: Value) -> bool:
    return x is y or (np.shape(x) == np.shape(y) and bool(np.all(x == y)))
