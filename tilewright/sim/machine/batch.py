"""A batch: lanes that are at one segment of a kernel, with their values. Plain data that splits, merges and prints.

A batch is a range of CTAs times a range of warps, with a mask where that product has holes; all its arrays broadcast
to ``shape``. Both ranges are slices, so that memory and registers of a batch are views, never copies.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from tilewright.errors import SimulationError
from tilewright.explain import Threads
from tilewright.sim.machine.address import Address, Part
from tilewright.sim.machine.arrays import Value

if TYPE_CHECKING:
    from tilewright.errors import Span
    from tilewright.sim.machine import Array, BarrierSite, Bools, Crossing, Ints, Polling, Shape, Uniform, Wave

__all__ = [
    "Batch", "Look", "Mask", "first_of", "first_warp", "lanes_text", "merged", "numbers", "spread", "threads_of",
    "where_text",
]  # fmt: skip

# Which lanes of a batch execute a statement.


MANY_CTAS = 16


def spread(array: Array, shape: tuple[int, ...]) -> Array:
    """``array`` in a shape that it broadcasts to; NumPy takes 5 us for that even if it has that shape."""
    return array if array.shape == shape else np.broadcast_to(array, shape)


class Mask:
    """The active lanes of a batch of ``shape`` (CTAs, warps, 32).

    array: bools that broadcast to the shape; None where every lane is active. A mask is never empty: `narrowed` and
    `without` answer None when no lane is left.
    """

    __slots__ = ("__dict__", "array", "shape")

    def __init__(self, shape: Shape, array: Bools | None = None) -> None:
        self.shape = shape
        self.array = array

    @classmethod
    def of(cls, shape: Shape, active: Bools) -> Mask:
        """These lanes; as those of one CTA where all have the same."""
        if len(active) > 1 and (active == active[:1]).all():
            active = active[:1]
        return cls(shape, None if active.all() else active)

    def narrowed(self, cond: bool | Bools) -> Mask | None:
        """The lanes where ``cond`` holds too; itself where that is all of them."""
        if cond is True or cond is False:
            return self if cond else None
        active = cond if self.array is None else self.array & cond
        if self.array is None and active.all():
            return self
        if not active.any():
            return None
        return Mask.of(self.shape, np.atleast_3d(active))

    def parted(self, by: Array) -> list[Mask]:
        """The lanes for which a value is the same, by its values; itself where all lanes of each warp have one."""
        if by.ndim == 0 or by.shape[-1] == 1 or (by == by[..., :1]).all():
            return [self]
        by = np.broadcast_to(by, self.shape)
        parts = (self.narrowed(by == value) for value in np.unique(by[self.full]))
        return [part for part in parts if part is not None]

    def without(self, gone: Mask | None) -> Mask | None:
        """The lanes that are not in ``gone``."""
        if gone is None:
            return self
        return None if gone.array is None else self.narrowed(~gone.array)

    def joined(self, other: Mask | None) -> Mask:
        """The lanes that are in one of the two masks."""
        if other is None or self.array is None:
            return self
        return other if other.array is None else Mask(self.shape, self.array | other.array)

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
        outer, lane = divmod(int(self.full.argmax()), self.shape[2])
        place = (*divmod(outer, self.shape[1]), lane)
        here = tuple(min(k, size - 1) for k, size in zip(place, values.shape, strict=True))
        return int(values[here]) if self.full[place] else 0

    @cached_property
    def full(self) -> Bools:
        """The bools in the shape of the batch."""
        return np.broadcast_to(np.True_, self.shape) if self.array is None else spread(self.array, self.shape)

    @cached_property
    def flat(self) -> Ints:
        """The numbers of the active lanes, counted through the batch."""
        return np.flatnonzero(self.full)

    @cached_property
    def lanes(self) -> int:
        """How many lanes are active."""
        whole = self.shape[0] * self.shape[1] * self.shape[2]
        return whole if self.array is None else int(self.array.sum()) * (whole // self.array.size)

    @cached_property
    def warps(self) -> int:
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
    def single(self) -> Mask:
        """The mask of one CTA, where all have the same."""
        return Mask((1, *self.shape[1:]), self.array)

    @cached_property
    def busy_ctas(self) -> Ints | None:
        """The CTAs that have an active lane, if they lie among few others that have none; else None."""
        if self.array is None or len(self.array) < MANY_CTAS:
            return None
        busy = np.flatnonzero(self.array.any((1, 2)))
        return busy if 4 * (busy[-1] + 1 - busy[0]) <= len(self.array) else None

    @cached_property
    def varies_by_cta(self) -> bool:
        """Can two CTAs have different lanes active?"""
        return self.array is not None and self.array.shape[0] > 1


Environment = dict[str, Value]


def numbers(taken: slice) -> range:
    """The numbers of the CTAs or warps that a slice takes."""
    return range(taken.start, taken.stop, taken.step)


def covering(ascending: Ints) -> slice:
    """The narrowest slice with all of these ascending numbers in it."""
    step = int(ascending[1] - ascending[0]) if len(ascending) > 1 else 1
    if len(ascending) > 2 and not (np.diff(ascending) == step).all():
        step = 1
    return slice(int(ascending[0]), int(ascending[-1]) + 1, step)


class SpecialValues(dict[str, Value]):
    """The special registers of a batch, each made when first read, of the smallest shape."""

    def __init__(self, wave: Wave, ctas: slice, warps: slice) -> None:
        super().__init__()
        self.place = (wave, ctas, warps)

    def __missing__(self, name: str) -> Value:
        wave, *where = self.place
        self[name] = value = wave.special(name, *where)
        return value


class Look:
    """A batch as memory sees it: which CTAs and warps, in what shape; one may stand for all, or have fewer lanes."""

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

    def rows_and_warps(self, active: Bools | np.bool_) -> tuple[Ints, Ints]:
        """Row of the CTA and number of the warp of each entry that is set in (CTAs, warps, ...) bools."""
        ctas, warps, *_ = np.nonzero(active)
        return self.ctas.start + self.ctas.step * ctas, self.warps.start + self.warps.step * warps

    def threads(self, active: Bools) -> tuple[Ints, Ints, Ints]:
        """The same, and the lane, of each thread that is set in (CTAs, warps, 32) bools."""
        ctas, warps, lanes = np.nonzero(active)
        return self.ctas.start + self.ctas.step * ctas, self.warps.start + self.warps.step * warps, lanes

    @cached_property
    def key(self) -> tuple[object, ...]:
        """The key that distinguishes it from other looks of its wave."""
        ctas, warps = self.ctas, self.warps
        return ctas.start, ctas.stop, ctas.step, warps.start, warps.stop, warps.step, self.shape

    def error(
        self, kind: str, what: str, lanes: Bools, at: Span | None, *, given: object = None, **facts: object
    ) -> SimulationError:
        """A finding about some of its lanes, (CTAs, warps, 32). given: left out, who they are."""
        given, threads = given or where_text(self, lanes), threads_of(self, lanes)
        return SimulationError(what, given=given, at=at, kind=kind, threads=threads, **facts)  # type: ignore[arg-type]  # as of it

    def of_lanes(self, count: int) -> Look:
        """This look, at the first ``count`` lanes of each warp."""
        return self if count == 32 else Look(self.wave, self.ctas, self.warps, (*self.shape[:2], count))

    def as_one(self, mask: Mask, *at: Address) -> tuple[Look, Mask] | None:
        """It as one CTA, with its mask, where all CTAs of the wave do the same at the same addresses; else None."""
        is_whole = self.shape[0] == self.wave.ctas
        alike = is_whole and not mask.varies_by_cta and not any(address.varies_by_cta for address in at)
        return (self.single, mask.single) if alike else None

    @cached_property
    def single(self) -> Look:
        """This look, at one CTA that stands for all of them."""
        return Look(self.wave, slice(0, 1, 1), self.warps, (1, *self.shape[1:]))


@dataclass(eq=False)
class Batch(Look):
    """ctas: of the wave's rows. env: values of the live variables by name. parts: address parts of these CTAs that
    were made before; thread_parts: those that depend on the warps only, kept for good. part: of those of a wave that
    begin apart; batches of two parts are merged only where a collective needs lanes of both.
    """

    wave: Wave
    ctas: slice
    warps: slice
    mask: Mask
    env: Environment = field(default_factory=dict)
    segment: int = 0
    parts: dict[int, Part] = field(default_factory=dict)
    meeting: Crossing | Polling | None = None  # what it waits for: see `tilewright.sim.machine.sync`
    again: bool = False
    part: int = 0

    def __post_init__(self) -> None:
        super().__init__(self.wave, self.ctas, self.warps, self.mask.shape)
        self.special = SpecialValues(self.wave, self.ctas, self.warps)
        self.thread_parts: dict[int, Part] = self.wave.run.thread_parts(self.warps)

    @property
    def place(self) -> BarrierSite:
        """Where it waits."""
        assert self.meeting is not None
        return self.meeting.place

    @property
    def alive(self) -> Bools:
        """The threads of its CTAs and warps that have not ended."""
        return self.wave.alive[self.ctas, self.warps]

    def lane_of(self, thread: int) -> tuple[int, int, int] | None:
        """Where in the batch a thread, counted through the grid, is; None for one that is not in it."""
        warp, lane = divmod(thread, 32)
        row, warp = warp // self.wave.run.warps - self.wave.first, warp % self.wave.run.warps
        if row not in numbers(self.ctas) or warp not in numbers(self.warps):
            return None
        at = numbers(self.ctas).index(row), numbers(self.warps).index(warp), lane
        return at if self.mask.full[at] else None

    def has_whole_warps(self, mask: Mask) -> bool:
        """Does each warp take part with all of its threads that have not ended, or with none?"""
        if mask.has_whole_warps:
            return True
        active = mask.full
        return bool((active == (self.alive & active.any(-1, keepdims=True))).all())

    def narrowed(self, mask: Mask, segment: int, *, waits: bool = False) -> Batch:
        """The lanes of ``mask`` as a batch of their own, at ``segment``. waits: for what the whole batch waits for?"""
        active = mask.full
        ctas = covering(np.flatnonzero(active.any((1, 2))))
        warps = covering(np.flatnonzero(active.any((0, 2))))
        rest = active[ctas, warps]
        env = {name: _taken(value, ctas, warps) for name, value in self.env.items()}
        meeting = self.meeting.narrowed(ctas, warps) if waits and self.meeting is not None else None
        place, mask = (_within(self.ctas, ctas), _within(self.warps, warps)), Mask.of(rest.shape, rest)
        return Batch(self.wave, *place, mask, env, segment, meeting=meeting, part=self.part)

    def parted(self, some: Bools, segment: int) -> tuple[Batch, Batch]:
        """These lanes as a batch at ``segment``, and the others, which go on waiting."""
        rest = Mask(self.shape, self.mask.full & ~some)
        return self.narrowed(Mask(self.shape, some), segment), self.narrowed(rest, self.segment, waits=True)

    def parting(self, some: Bools) -> tuple[Batch, list[Batch]]:
        """These lanes as a batch of their own, and the others, if there are any."""
        if np.count_nonzero(some) == self.mask.lanes:
            return self, []
        going, rest = self.parted(some, self.segment)
        return going, [rest]

    def apart(self, parts: list[Bools]) -> list[Batch]:
        """A batch of its own for each of these sets of its threads."""
        if len(parts) == 1:
            return [self]
        every = [self.narrowed(Mask(self.shape, part), self.segment) for part in parts]
        for number, batch in enumerate(every):
            batch.part = number
        return every

    def busy(self, mask: Mask, at: Address) -> tuple[Batch, Mask, Address]:
        """The batch, its mask and addresses without CTAs of which no lane is active, where these are most."""
        if mask.busy_ctas is None:
            return self, mask, at
        ctas = covering(mask.busy_ctas)
        rest = mask.full[ctas]
        parts = (part.values[ctas] if len(part.values) > 1 else part.values for part in at.parts)
        less = Batch(self.wave, _within(self.ctas, ctas), self.warps, Mask.of(rest.shape, rest), {}, self.segment)
        return less, less.mask, Address(at.start, *map(Part, parts))

    def lanes(self) -> Bools:
        """Which threads of the wave these are: (CTAs, warps, 32) of the whole wave."""
        all_lanes = np.zeros((self.wave.ctas, self.wave.run.warps, 32), np.bool_)
        all_lanes[self.ctas, self.warps] = self.mask.full
        return all_lanes


def _within(outer: slice, inner: slice) -> slice:
    """The slice of a wave that ``inner`` means, which counts from the start of ``outer``."""
    taken = numbers(outer)[inner]
    return slice(taken.start, taken[-1] + 1, taken.step)


def _taken(value: Value, ctas: slice, warps: slice) -> Value:
    if not isinstance(value, np.ndarray) or value.ndim < 3:
        return value
    return value[ctas if value.shape[0] > 1 else slice(None), warps if value.shape[1] > 1 else slice(None)]


def merged(a: Batch, b: Batch, axes: dict[str, int]) -> Batch | None:
    """Two batches at one segment as one, or None where a value that must be equal in all of its lanes is not.

    axes: over what each live variable may vary; the others are dead and dropped.
    """
    lanes = a.lanes()
    ours = b.lanes()
    env: Environment = {}
    both = lanes | ours
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
    mask = Mask.of(shape, rest)
    part = min(a.part, b.part)
    return Batch(a.wave, ctas, warps, mask, env, a.segment, meeting=a.meeting, again=a.again, part=part)


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
        active = batch.mask.full
        window[active] = np.broadcast_to(value, (*batch.shape, *x.shape[3:]))[active]
    return total[ctas, warps].reshape(*shape, *x.shape[3:])


def _equal(x: Value, y: Value) -> bool:
    return x is y or (np.shape(x) == np.shape(y) and bool(np.all(x == y)))


def lanes_text(lanes: Bools) -> str:
    """``lanes 0..15`` of a (32,) mask, as few words as will do."""
    active = np.flatnonzero(lanes)
    if len(active) == 32:
        return "all lanes"
    runs = np.split(active, np.flatnonzero(np.diff(active) != 1) + 1)
    shown = [f"{run[0]}..{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs]
    return ("lane " if len(active) == 1 else "lanes ") + ", ".join(shown)


def first_warp(lanes: Bools) -> tuple[int, int]:
    """Place in a batch, its CTA and its number, of the first warp that has such lanes."""
    cta, warp = np.argwhere(lanes.any(-1))[0]
    return int(cta), int(warp)


def first_of(values: Value, lanes: Bools) -> int:
    """The number that the first of these lanes has."""
    return int(np.broadcast_to(values, lanes.shape)[lanes][0])


def threads_of(batch: Look, lanes: Bools) -> tuple[Threads, ...]:
    """All of these lanes of a batch, as ranges: CTAs that follow each other and have the same warps and lanes are one
    entry. lanes: (CTAs, warps, 32), or what broadcasts to it.
    """
    full, kinds_of = np.broadcast_to(lanes, batch.shape), dict[object, list[tuple[int, int]]]()
    of_one = batch.wave.run.reach["gpu"]
    ctas, warps = numbers(batch.ctas), numbers(batch.warps)
    for k in np.flatnonzero(full.any((1, 2))).tolist():
        row, kinds = ctas[k] + batch.wave.first, dict[tuple[int, int], list[tuple[int, int]]]()
        for warp in np.flatnonzero(full[k].any(-1)).tolist():
            for run in _runs(np.flatnonzero(full[k, warp])):
                _extend(kinds.setdefault(run, []), warps[warp])
        _extend(kinds_of.setdefault(tuple((run, tuple(spans_of)) for run, spans_of in kinds.items()), []), row, of_one)
    return tuple(
        batch.wave.threads_of(span, warp, run)
        for kind, spans in kinds_of.items()
        for span in spans
        for run, warps_of in kind  # type: ignore[attr-defined]  # the key made above
        for warp in warps_of
    )


def _runs(numbers: Ints) -> list[tuple[int, int]]:
    parts = np.split(numbers, np.flatnonzero(np.diff(numbers) != 1) + 1)
    return [(int(part[0]), int(part[-1])) for part in parts]


def _extend(spans: list[tuple[int, int]], number: int, parts: int = 1 << 62) -> None:
    """Add a number above all others to spans of numbers, each inside of one of the parts that are so long."""
    if spans and spans[-1][1] == number - 1 and number % parts:
        spans[-1] = spans[-1][0], number
    else:
        spans.append((number, number))


def where_text(batch: Look, lanes: Bools, shown: Bools | None = None) -> str:
    """``CTA (0, 0, 0), warp 2, lanes 0..15``: the first warp that has such lanes, and these or those ``shown``."""
    cta, warp = first_warp(lanes)
    name = batch.wave.warp_name(numbers(batch.ctas)[cta], numbers(batch.warps)[warp])
    return f"{name}, {lanes_text((lanes if shown is None else shown)[cta, warp])}"
