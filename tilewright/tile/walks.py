"""From numbers back to arithmetic: tables of offsets, written as expressions over thread ids and loop counters.

A plan is found on tables of offsets. The emitted code needs expressions: a `Walk` is one over a single index, an
`Offset` one over a thread and the rounds of its loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tilewright.dtypes import INT64
from tilewright.ir import Expr, binary, cast, const_value, select
from tilewright.ir.conditions import Sum
from tilewright.ir.intervals import limits
from tilewright.layout import Value
from tilewright.layout.axes import plus, times

if TYPE_CHECKING:
    from tilewright.layout import Facts, SwizzleLayout
    from tilewright.tile.call import Side

__all__ = [
    "Ints", "LoopTurns", "Offset", "Walk", "apart", "digits_of", "linear", "number_of", "plus", "quotient", "separated",
    "times", "turns_of", "walk_of",
]  # fmt: skip

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Walk:
    """``start`` plus digits of an index times strides: what a layout is for one axis.

    steps: (extent, stride), the outermost first. listed: the values themselves, where they follow no digits.

    >>> Walk(5, ((2, 100), (4, 1))).at(6)
    107
    """

    start: int = 0
    steps: tuple[tuple[int, int], ...] = ()
    listed: tuple[int, ...] = ()

    def at(self, index: Value) -> Value:
        """The value at an index: an int or an expression."""
        if self.listed:
            return self._looked_up(index)
        total: Value = self.start
        if isinstance(index, Expr) and self.reach > limits(index.dtype).high:
            index = cast(index, INT64)
        inner = 1
        for position, (extent, stride) in reversed(list(enumerate(self.steps))):
            if stride:
                digit = index if inner == 1 else index // inner
                total = plus(times(digit % extent if position else digit, stride), total)
            inner *= extent
        return total

    @property
    def reach(self) -> int:
        """The largest number that any value is a sum of."""
        return max(abs(self.start), *(extent * abs(stride) for extent, stride in self.steps), 0, 0)

    def _looked_up(self, index: Value) -> Value:
        if isinstance(index, int):
            return self.listed[index]
        total: Value = self.listed[-1]
        for position in reversed(range(len(self.listed) - 1)):
            total = select(binary("==", index, position), self.listed[position], total)
        return total

    @property
    def is_zero(self) -> bool:
        """Is every value 0?"""
        return not self.listed and not self.start and not any(stride for _, stride in self.steps)


def digits_of(element: Value, extents: Sequence[Value]) -> list[Value]:
    """The coordinates of a region's element with this row-major number. There is one, so that divisions by extents of
    the run are those of C: no extent is 0.
    """
    digits: list[Value] = []
    for position, extent in reversed(list(enumerate(extents))):
        fixed = const_value(extent) is not None
        digits.insert(
            0, element if not position else element % extent if fixed else binary("truncmod", element, extent)
        )
        element = element // extent if fixed else binary("truncdiv", element, extent)
    return digits


def number_of(digits: Sequence[Any], extents: Sequence[Value]) -> Any:
    """The row-major number of the element with these coordinates: the inverse of `digits_of`. `Any`: arrays compute as
    numbers do.
    """
    total: Any = 0
    for digit, extent in zip(digits, extents, strict=True):
        total = plus(times(total, extent), digit)
    return total


def apart(value: Value, period: int, facts: Facts) -> tuple[Value, Value]:
    """A sum as (the terms that are multiples of ``period``, the others).

    A swizzle maps multiples of its period to themselves: only the others go through it, and they are often those of the
    lane, which no loop changes.
    """
    if not isinstance(value, Expr):
        return 0, value
    whole, low = Sum.of(value).split(lambda times, term: facts.divides(period, times * term))
    if not whole.terms or not low.terms:
        return 0, value
    return whole.build(value.dtype), low.build(value.dtype)


def quotient(value: Value, by: int, facts: Facts) -> Value:
    """``value // by``, known to leave no rest: ``8 * k // 4`` is ``2 * k``, as no address is so large that it wraps."""
    if isinstance(value, Expr):
        total = Sum.of(value)
        if not any(times % by for times, _ in total.parts()):
            return facts.simplify(total.divided(by).build(value.dtype))
    return facts.simplify(value // by)


LISTED = 32  # at most so many values are written out one by one


def walk_of(values: Ints, *, listed: bool = True) -> Walk | None:
    """The walk through ``values``: by digits where they follow some, else listed if there are few.

    >>> walk_of(np.array([0, 1, 8, 9, 16, 17]))
    Walk(start=0, steps=((3, 8), (2, 1)), listed=())
    """
    count, start = len(values), int(values[0])
    moved = values - start
    steps: list[tuple[int, int]] = []
    inner = 1
    while inner < count:
        stride = int(moved[inner])
        along = moved[::inner]
        straight = along == np.arange(len(along)) * stride
        extent = len(along) if straight.all() else int(straight.argmin())
        run = (np.arange(extent) * stride)[:, None] + moved[:inner]
        if count % (inner * extent) or not np.array_equal(moved[: inner * extent], run.reshape(-1)):
            return Walk(listed=tuple(values.tolist())) if listed and count <= LISTED else None
        steps.insert(0, (extent, stride))
        inner *= extent
    return Walk(start, tuple(steps))


@dataclass(frozen=True, slots=True)
class LoopTurns:
    """A loop, and what several tables are in each of its turns."""

    count: int
    walks: tuple[Walk, ...]


def turns_of(*tables: Ints) -> tuple[LoopTurns, ...]:
    """One loop through tables of one length where all follow digits; else a turn for each entry.

    >>> turns_of(np.array([0, 1, 2]), np.array([5, 5, 7]))[1].walks
    (Walk(start=1, steps=(), listed=()), Walk(start=5, steps=(), listed=()))
    """
    walks = tuple(walk for table in tables if (walk := walk_of(table, listed=False)) is not None)
    if len(walks) == len(tables):
        return (LoopTurns(len(tables[0]), walks),)
    return tuple(LoopTurns(1, tuple(map(Walk, row))) for row in np.stack(tables, axis=1).tolist())


def separated(values: Ints) -> list[Ints] | None:
    """One array per axis whose outer sum is ``values``, the first one holding the origin; None if there are none."""
    origin = values[(0,) * values.ndim]
    firsts = [np.moveaxis(values, axis, 0).reshape(values.shape[axis], -1)[:, 0] for axis in range(values.ndim)]
    profiles = [first - origin for first in firsts]
    total = reduce(np.add.outer, profiles) + origin
    if not np.array_equal(total, values):
        return None
    return [profiles[0] + origin, *profiles[1:]]


def linear(values: Ints, variables: Sequence[Value], *, listed: bool = True) -> Value | None:
    """``values``, one axis per variable, as a sum of walks along them; None where they are no such sum."""
    if not variables:
        return int(values)
    parts = separated(values)
    if parts is None:
        return None
    total: Value = 0
    for profile, variable in zip(parts, variables, strict=True):
        walk = walk_of(profile, listed=listed)
        if walk is None:
            return None
        total = plus(total, walk.at(variable))
    return total


@dataclass(frozen=True, slots=True)
class Offset:
    """An offset that a thread goes through round by round: ``fixed`` for the thread, ``moving`` with the round.

    moving: (unit, walk) each, a unit of 1 or a symbolic stride. With a swizzle, join says how the moving part is added:
    "inside" adds it before the swizzle; "+" and "^" apply it to the swizzled fixed part, which then stays outside the
    loop.
    through: the sum is the number of an element of this side, whose own layout gives the offset.
    rounds: a separate offset for every round, where no walk describes them.
    """

    fixed: Value
    moving: tuple[tuple[Value, Walk], ...] = ()
    join: str = "+"
    swizzle: SwizzleLayout | None = None
    through: Side | None = None
    rounds: tuple[Offset, ...] = ()

    @property
    def hoisted(self) -> bool:
        """Is there a swizzled part that does not change from round to round?"""
        return self.swizzle is not None and self.join != "inside"

    def moved(self, round: Value) -> Value:
        """The moving part."""
        total: Value = 0
        for unit, walk in self.moving:
            if not walk.is_zero:
                total = plus(total, times(walk.at(round), unit))
        return total

    def joined(self, start: Value, round: Value) -> Value:
        """The offset in a round, from the fixed part as it enters the loop."""
        moved = self.moved(round)
        if self.join == "^":
            return start if isinstance(moved, int) and moved == 0 else start ^ moved
        return plus(start, moved)
