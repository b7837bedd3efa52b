"""Iters, and what runs of them admit: fusing, splitting into a shape, the digits of an index."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tilewright.errors import LayoutError
from tilewright.layout.axes import (
    INTS,
    Axis,
    Facts,
    OnAxis,
    Value,
    are_equal,
    as_int,
    checked,
    listed,
    m,
    plus,
    product,
    public,
    simplified,
    times,
)

if TYPE_CHECKING:
    from tilewright.layout.tile import TileLayout


@public.kind_of("an iter: Iter(extent, stride, axis)")
@public.fields
@dataclass(frozen=True, slots=True)
class Iter:
    """``extent`` steps of ``stride`` along ``axis``.

    >>> Iter(8, 4, Axis.laneid)
    Iter(8, 4, laneid)

    Raises LayoutError for an extent below one and for an axis that is not in the table.
    """

    extent: Value
    stride: Value
    axis: Axis = m

    def __post_init__(self) -> None:
        object.__setattr__(self, "extent", checked(self.extent, "an extent"))
        object.__setattr__(self, "stride", checked(self.stride, "a stride"))
        object.__setattr__(self, "axis", Axis.get(self.axis))
        number = as_int(self.extent)
        if number is not None and number < 1:
            raise LayoutError(f"iter {self} has extent {number}", given=number, allowed="an extent of at least 1")

    @property
    def step(self) -> OnAxis:
        """The stride with its axis."""
        return OnAxis(self.stride, self.axis)

    def __str__(self) -> str:
        return f"{self.extent}:{self.step}"

    def __repr__(self) -> str:
        return f"Iter({self.extent}, {self.stride}, {self.axis})"


Iters = tuple[Iter, ...]


def is_one(value: Value, facts: Facts = INTS) -> bool:
    """Is the value proven to be 1?"""
    return are_equal(value, 1, facts)


def several(*iters: Iter) -> list[Iter]:
    """The iters without those of one step."""
    return [it for it in iters if it.extent != 1]


def spell(iters: Sequence[Iter]) -> str:
    """Iters as they stand between the brackets of ``S[...]``.

    >>> spell([Iter(8, 4, Axis.laneid), Iter(2, 1)]), spell([Iter(4, 32, Axis.TLane)]), spell([])
    ('(8, 2):(4@laneid, 1)', '4:32@TLane', '()')
    """
    if not iters:
        return "()"
    if len(iters) == 1:
        return str(iters[0])
    extents = ", ".join(str(it.extent) for it in iters)
    return f"({extents}):({', '.join(str(it.step) for it in iters)})"


def merged(terms: Iterable[OnAxis]) -> tuple[OnAxis, ...]:
    """Add up the terms of each axis: one for each axis, in the order of the axes' names, zeros left out."""
    sums: dict[Axis, Value] = {}
    for term in terms:
        sums[term.axis] = plus(sums.get(term.axis, 0), term.value)
    kept = [OnAxis(value, axis) for axis, value in sums.items() if as_int(value) != 0]
    return tuple(sorted(kept, key=lambda term: term.axis.name))


def fuse(iters: Iterable[Iter], facts: Facts = INTS) -> Iters:
    """The same map with unit iters dropped and neighbours joined where the outer one continues the inner one.

    >>> fuse([Iter(4, 8), Iter(1, 3), Iter(8, 1), Iter(2, 1, Axis.laneid)])
    (Iter(32, 1, m), Iter(2, 1, laneid))
    """
    out: list[Iter] = []
    for it in iters:
        if is_one(it.extent, facts):
            continue
        if out and out[-1].axis == it.axis and are_equal(out[-1].stride, times(it.extent, it.stride), facts):
            out[-1] = Iter(simplified(times(out[-1].extent, it.extent), facts), it.stride, it.axis)
        else:
            out.append(it)
    return tuple(out)


def point(iters: Sequence[Iter], index: Value, facts: Facts = INTS) -> list[OnAxis]:
    """Where the iters lead for a row-major index: each digit times its stride.

    The outermost digit is not reduced: an index inside the extents needs no remainder there.
    """
    terms: list[OnAxis] = []
    inner: Value = 1
    live = [it for it in iters if not is_one(it.extent, facts)]
    for position, it in reversed(list(enumerate(live))):
        digit = index if as_int(inner) == 1 else index // inner
        if position:
            digit = digit % it.extent
            inner = simplified(times(inner, it.extent), facts)
        terms.append(OnAxis(simplified(times(digit, it.stride), facts), it.axis))
    return terms


def regroup(iters: Sequence[Iter], shape: Sequence[Value], facts: Facts = INTS) -> tuple[Iters, ...]:
    """Split the iters into one group per entry of ``shape``, each with that product of extents and at least one iter.

    Iters are split where an entry ends inside one; where that fails, contiguous neighbours are fused first.

    >>> regroup([Iter(4, 1, Axis.laneid), Iter(6, 1)], (8, 3))
    ((Iter(4, 1, laneid), Iter(2, 3, m)), (Iter(3, 1, m),))

    Raises LayoutError where an entry would cut an iter, or the sizes differ.
    """
    size, asked = (as_int(simplified(product(values), facts)) for values in ((it.extent for it in iters), shape))
    if size is not None and asked is not None and size != asked:
        raise LayoutError(
            f"S[{spell(iters)}] does not have the shape {listed(shape)}",
            given=f"{asked} elements in the shape",
            allowed=f"{size} elements, as many as the iters have",
        )
    try:
        return _regroup(list(iters), shape, facts)
    except LayoutError:
        fused = fuse(iters, facts)
        if len(fused) == len(iters):
            raise
        return _regroup(list(fused), shape, facts)


def _regroup(rest: list[Iter], shape: Sequence[Value], facts: Facts) -> tuple[Iters, ...]:
    text, groups = f"S[{spell(rest)}]", list[Iters]()
    beside = rest[-1].axis if rest else m
    for position, extent in reversed(list(enumerate(shape))):
        group = _take(rest, extent, facts, f"{text} does not have the shape {listed(shape)}: entry {position}")
        beside = rest[-1].axis if rest else beside
        groups.insert(0, tuple(group) or (Iter(1, 0, beside),))
    if over := [it for it in rest if not is_one(it.extent, facts)]:
        raise LayoutError(
            f"{text} does not have the shape {listed(shape)}",
            given=f"iters left over: {', '.join(map(str, over))}",
            allowed="a shape whose product is that of the extents",
        )
    if rest and groups:
        groups[0] = (*rest, *groups[0])
    return tuple(groups)


def _take(rest: list[Iter], need: Value, facts: Facts, what: str) -> list[Iter]:
    """Take iters whose extents multiply to ``need`` off the end of ``rest``, splitting one that is too long."""
    group: list[Iter] = []
    while not is_one(need, facts) or (not group and rest and is_one(rest[-1].extent, facts)):
        if not rest:
            raise LayoutError(what + " is too large", given=f"{need} more", allowed="the extents of the iters")
        it = rest.pop()
        if are_equal(it.extent, need, facts):
            group.insert(0, it)
            need = 1
        elif facts.divides(it.extent, need):
            group.insert(0, it)
            need = simplified(need // it.extent, facts)
        elif facts.divides(need, it.extent):
            rest.append(Iter(simplified(it.extent // need, facts), simplified(times(it.stride, need), facts), it.axis))
            group.insert(0, Iter(need, it.stride, it.axis))
            need = 1
        else:
            raise LayoutError(
                what + f" cuts iter {it}",
                given=f"{need} elements of an iter of {it.extent}",
                allowed=_whole_parts(need, it.extent),
            )
    return group


def _whole_parts(need: Value, extent: Value) -> str:
    if as_int(need) is not None and as_int(extent) is not None:
        return "one of the two divides the other"
    number, other = (need, extent) if as_int(need) is not None else (extent, need)
    return f"a fact: {other} % {number} == 0"


def row_major(shape: Sequence[Value]) -> list[Iter]:
    """Iters on axis m whose innermost entry is contiguous."""
    iters: list[Iter] = []
    inner: Value = 1
    for extent in reversed(shape):
        iters.insert(0, Iter(extent, inner))
        inner = times(inner, extent)
    return iters


def moved(layout: TileLayout, to: Callable[[OnAxis], OnAxis]) -> TileLayout:
    """The layout with another distance in place of each of its strides and offsets."""

    def with_step(it: Iter) -> Iter:
        step = to(it.step)
        return Iter(it.extent, step.value, step.axis)

    shard, replica = tuple(map(with_step, layout.shard)), tuple(map(with_step, layout.replica))
    return replace(layout, shard=shard, replica=replica, offset=tuple(map(to, layout.offset)))
