"""Unknown bits of compiled code, which may move and compute with uninitialised bits as long as no result depends on
them.

With a value goes None while all of its bits are known, else an array of its shape with the unknown bits set (of a bool,
a bool). An operation is done again with other values of an operand, which its unknown bits allow: result bits that
differ are unknown. So bits that are masked away, overwritten or not chosen no longer count, and no value is unknown
that does not depend on an unknown bit.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.sim.machine.convert import width_of
from tilewright.sim.machine.memory import UNITS, initialised

if TYPE_CHECKING:
    from tilewright.dtypes import DType
    from tilewright.explain import Facts
    from tilewright.sim.machine import Array, Bits, Site, Team, Value

__all__ = ["Doubt", "Moment", "flags_of", "unknown_of"]

# Does what a thread stores depend on what another thread has read? A run that marks the one value as unknown tells.
#
# Lanes of a warp that hand values on by shuffles are in order where data depend on them: a lane cannot store a sum
# before the other lanes have read what is in it. The memory model knows no such order. So the simulator asks of each
# store that only this may excuse: the run is made again, the bits that the other lane reads are unknown there, and
# those that the store writes say whether they depend on them.


@dataclass(frozen=True, eq=False, slots=True)
class Moment:
    """One access of a thread, counted through the grid: its site, and the time of the record in its wave."""

    site: Site
    time: int
    thread: int


@dataclass(frozen=True, eq=False, slots=True)
class Doubt:
    """A store of a thread, after a read of the same place by another one of its warp. key: of the finding. excuse: what
    is said where it depends on that, and what is known of it.
    """

    key: Hashable
    read: Moment
    store: Moment
    excuse: tuple[str, Facts]


class Dependence:
    """Finds out which stores depend on the reads. holds: the keys of those that do; times: of each site's last
    record.
    """

    def __init__(self, doubts: Iterable[Doubt]) -> None:
        self.doubts = tuple(doubts)
        self.holds: set[Hashable] = set()
        self.times: dict[Site, int] = {}

    def comes(self, site: Site, time: int) -> None:
        """An access is about to take place."""
        self.times[site] = time

    def read(self, site: Site, team: Team, flags: Bits) -> Bits:
        """The flags of what lanes have read, without those of the lanes in question."""
        for doubt in self.doubts:
            if (lane := self._lane(doubt.read, site, team)) is not None:
                flags = np.array(np.broadcast_to(flags, team.shape))
                flags[lane] = 0
        return flags

    def stored(self, site: Site, team: Team, flags: Bits | None) -> None:
        """Lanes have stored values with these flags."""
        for doubt in self.doubts if flags is not None else ():
            lane = self._lane(doubt.store, site, team)
            if lane is not None and flags is not None:
                octets = np.broadcast_to(flags, team.shape)[lane].tobytes()
                if 0 in octets:
                    self.holds.add(doubt.key)

    def _lane(self, moment: Moment, site: Site, team: Team) -> tuple[int, int, int] | None:
        """The place of the thread in a batch, if this is the moment."""
        is_now = moment.site is site and self.times.get(site) == moment.time
        return team.lane_of(moment.thread) if is_now else None


_WHOLE = ContextVar("whole", default=False)


@contextmanager
def as_a_whole() -> Iterator[None]:
    """Meanwhile a result is unknown where any operand has an unknown bit, whatever its value is."""
    token = _WHOLE.set(True)
    try:
        yield
    finally:
        _WHOLE.reset(token)


def _unsigned(kind: DType) -> np.dtype[Any]:
    """The unsigned dtype as wide as one element."""
    numpy = kind.element.numpy
    return numpy if numpy.kind == "b" else np.dtype(f"u{numpy.itemsize}")


@dataclass(frozen=True, eq=False)
class ArrayOperation:
    """An operation on arrays. kinds: the dtypes of its operands; result: of what it gives."""

    function: Callable[..., Array]
    kinds: tuple[DType, ...]
    result: DType

    def __call__(self, values: tuple[Value, ...], unknown: tuple[Array | None, ...]) -> Array | None:
        """The unknown bits of the result."""
        terms = [np.asarray(value, kind.element.numpy) for value, kind in zip(values, self.kinds, strict=True)]
        unsigned = _unsigned(self.result)
        if _WHOLE.get():
            some = [bits.any(-1) if bits.ndim > 3 else bits != 0 for bits in unknown if bits is not None]
            whole = np.asarray(np.logical_or.reduce(np.broadcast_arrays(*some)))
            if self.result.lanes > 1:
                whole = np.repeat(whole[..., None], self.result.lanes, -1)
            return np.where(whole, ~np.zeros((), unsigned), 0).astype(unsigned)
        open_bits: Array | None = None
        for k, bits in enumerate(unknown):
            if bits is None:
                continue
            kind = _unsigned(self.kinds[k])
            arg = terms[k].view(kind)
            others = [arg.view(kind) for n, arg in enumerate(terms) if n != k and arg.dtype.itemsize == kind.itemsize]
            first, *more = (
                np.asarray(self.function(*terms[:k], end, *terms[k + 1 :])).view(unsigned)
                for end in _tried(arg, bits, others, terms[k].dtype)
            )
            for result in more:
                open_bits = first ^ result if open_bits is None else open_bits | (first ^ result)
        return open_bits if open_bits is not None and open_bits.any() else None


def _tried(arg: Array, bits: Array, others: list[Array], kind: np.dtype[Any]) -> Iterator[Array]:
    """Values that an operand may have: the least, the greatest, and those near the other operands, for comparisons."""
    near = (end for other in others for end in (other, other + 1, other - 1)) if arg.dtype.kind == "u" else ()
    for end in (np.zeros_like(arg), ~np.zeros_like(arg), *near):
        yield np.asarray((arg & ~bits) | (end & bits), arg.dtype).view(kind)


def either(first: Array | None, other: Array | None) -> Array | None:
    """The bits that are unknown for one reason or the other."""
    return first if other is None else other if first is None else first | other


def blended(team: Team, new: Array | None, old: Array | None) -> Array | None:
    """The unknown bits of a variable that the lanes of a mask assign."""
    if team.array is None or (new is None and old is None):
        return new
    first = new if new is not None else old
    assert first is not None
    none = np.zeros((), first.dtype)
    where = team.array if first.ndim < 4 else team.array[..., None]
    both: Array = np.where(where, none if new is None else new, none if old is None else old)
    return both


def nothing_known(kind: DType) -> Array:
    """The unknown bits of a register that has not been written: all of them."""
    return np.array(~np.zeros((1, 1, 1), _unsigned(kind)))


@cache
def unknown_of(kind: DType) -> Callable[[Bits, Team], Array | None]:
    """From the flags of memory's bytes to the unknown bits of a value."""
    unsigned = _unsigned(kind)

    def convert(flags: Bits, team: Team) -> Array | None:
        octets = np.ascontiguousarray(np.atleast_3d(flags))[..., None].view(np.uint8)
        if octets.all():
            return None
        bad: Array = np.where(team.full[..., None], (octets ^ 1) * np.uint8(255), np.uint8(0))
        if not bad.any():
            return None
        open_bits: Array = bad.view(np.uint8 if unsigned.kind == "b" else unsigned)
        open_bits = open_bits if kind.lanes > 1 else open_bits[..., 0]
        return open_bits != 0 if unsigned.kind == "b" else open_bits

    return convert


@cache
def flags_of(kind: DType) -> Callable[[Array | None], Bits]:
    """From the unknown bits of a value to flags of its bytes."""
    width = width_of(kind)

    def convert(unknown: Array | None) -> Bits:
        if unknown is None:
            return initialised(width)
        bits = np.ascontiguousarray(unknown)
        octets = bits.view(np.uint8).reshape(*bits.shape[:3], width)
        flags: Bits = (octets == 0).view(UNITS[width])[..., 0]
        return flags

    return convert
