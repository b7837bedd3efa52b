"""What a tile layout is made of, how it is written, and what can be counted on it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from tilewright.errors import LayoutError, described
from tilewright.layout.axes import Axis, OnAxis, m
from tilewright.layout.base import Layout
from tilewright.layout.facts import Value, as_int, checked, plus, product, public, times
from tilewright.layout.iters import Iter, Iters, merged, spell

LIST = public.kind("Iterable[Any]")


class Distances(tuple[OnAxis, ...]):
    """Distances along axes, which is also a mapping from axis to value: ``layout.offset[warpid]``."""

    __slots__ = ()

    def keys(self) -> list[Axis]:
        """The axes."""
        return [term.axis for term in self]

    def values(self) -> list[Value]:
        """The distances."""
        return [term.value for term in self]

    def items(self) -> list[tuple[Axis, Value]]:
        """Axes and distances."""
        return [(term.axis, term.value) for term in self]

    def get(self, axis: Axis | str, default: Value = None) -> Value:
        """The distance along an axis."""
        return dict(self.items()).get(Axis.get(axis), default)

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, (Axis, str)):
            return tuple.__getitem__(self, key)
        found = self.get(key)
        if found is None:
            raise KeyError(key)
        return found

    def __contains__(self, key: object) -> bool:
        return key in self.keys() if isinstance(key, Axis) else tuple.__contains__(self, key)


@public.methods
@public.kind_of("a tile layout, S[...]")
@public.fields
@dataclass(frozen=True, slots=True, init=False, repr=False)
class IterLayout(Layout):
    """Shard iters, replica iters and offsets: the parts of a `TileLayout`, without its algebra."""

    shard: Iters
    replica: Iters
    offset: tuple[OnAxis, ...]  # `Distances`, at most one per axis, by the axes' names, without zeros

    def __init__(
        self,
        shard: IterLayout | Iterable[Iter] = (),
        replica: Iterable[Iter] = (),
        offset: Iterable[OnAxis] | Mapping[Axis | str, Value] = (),
    ) -> None:
        terms, replica = _terms(offset), _iters(replica)
        if isinstance(shard, IterLayout):
            replica, terms = (*shard.replica, *replica), [*shard.offset, *terms]
            shard = shard.shard
        object.__setattr__(self, "shard", _iters(shard))
        object.__setattr__(self, "replica", replica)
        object.__setattr__(self, "offset", Distances(merged(terms)))

    def __str__(self) -> str:
        replica = [f"R[{spell(self.replica)}]"] if self.replica else []
        return " + ".join([f"S[{spell(self.shard)}]", *replica, *map(str, self.offset)])

    __repr__ = __str__

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The axes that occur, shard first, then replica, then offset."""
        used = [it.axis for it in (*self.shard, *self.replica)] + [term.axis for term in self.offset]
        return tuple(dict.fromkeys(used))

    @property
    def extents(self) -> tuple[Value, ...]:
        """The extents of the shard iters."""
        return tuple(it.extent for it in self.shard)

    def offset_on(self, axis: str | Axis) -> Value:
        """The offset on an axis, 0 for none."""
        wanted = Axis.get(axis)
        return next((term.value for term in self.offset if term.axis == wanted), 0)

    def size(self, axis: str | Axis | None = None) -> Value:
        """Logical elements: the product of the shard extents, of those on ``axis`` if one is given.

        >>> from tilewright.layout import S, laneid
        >>> S[(8, 4, 2) : (4 @ laneid, 1 @ laneid, 1)].size(), S[(8, 4, 2) : (4 @ laneid, 1 @ laneid, 1)].size(laneid)
        (64, 32)
        """
        wanted = None if axis is None else Axis.get(axis)
        return product(it.extent for it in self.shard if wanted in (None, it.axis))

    def span(self, axis: str | Axis | None = None) -> Value:
        """Places from the first to the last on an axis, gaps counted, offsets not; without an axis, how far the memory
        axes reach together, offsets included, and one more. Symbolic strides are taken to be non-negative.

        >>> from tilewright.layout import S, laneid
        >>> S[(8, 4, 2) : (4 @ laneid, 16, 1)].span()
        50
        """
        if axis is None:
            reach: Value = 1
            for each in self.axes:
                if each.is_memory():
                    reach = plus(reach, plus(plus(self.span(each), -1), self.offset_on(each)))
            return reach
        low, high = self.ends(Axis.get(axis))
        return plus(plus(high, 1), times(-1, low)) if as_int(low) else plus(high, 1)

    def cosize(self, axis: str | Axis = m) -> Value:
        """One more than the largest coordinate on an axis, offsets and replicas included.

        >>> from tilewright.layout import S
        >>> (S[(4, 8) : (16, 1)] + 64).cosize()
        120
        """
        wanted = Axis.get(axis)
        return plus(plus(self.ends(wanted)[1], self.offset_on(wanted)), 1)

    def ends(self, axis: Axis) -> tuple[Value, Value]:
        """The smallest and largest coordinate without the offset, symbolic strides taken to be non-negative."""
        low: Value = 0
        high: Value = 0
        for it in (*self.shard, *self.replica):
            if it.axis == axis:
                reach = times(it.extent - 1, it.stride)
                negative = (as_int(it.stride) or 0) < 0
                low, high = (plus(low, reach), high) if negative else (low, plus(high, reach))
        return low, high


OfIters = TypeVar("OfIters", bound=IterLayout)


def moved(layout: OfIters, to: Callable[[OnAxis], OnAxis]) -> OfIters:
    """The layout with another distance in place of each of its strides and offsets."""

    def with_step(it: Iter) -> Iter:
        step = to(it.step)
        return Iter(it.extent, step.value, step.axis)

    shard, replica = tuple(map(with_step, layout.shard)), tuple(map(with_step, layout.replica))
    return replace(layout, shard=shard, replica=replica, offset=tuple(map(to, layout.offset)))


def _listed(given: Any) -> tuple[Any, ...]:
    """What was given one by one; itself where it is no list of anything. `Any`: the caller checks each."""
    return tuple(given) if isinstance(given, tuple | list) or LIST.fits(given) else (given,)


def _iters(given: Iterable[Iter]) -> Iters:
    iters = _listed(given)
    if wrong := [it for it in iters if not isinstance(it, Iter)]:
        allowed = "a layout, or iters in a list: Iter(extent, stride, axis)"
        raise LayoutError("a layout is made of iters", given=described(wrong[0]), allowed=allowed)
    return iters


def _terms(offset: Iterable[OnAxis] | Mapping[Axis | str, Value]) -> list[OnAxis]:
    if isinstance(offset, Mapping):
        return [OnAxis(checked(value, "an offset"), Axis.get(axis)) for axis, value in offset.items()]
    terms = [*_listed(offset)]
    for term in terms:
        if not isinstance(term, OnAxis):
            raise LayoutError("an offset is made of distances", given=described(term), allowed="a list of 5 @ warpid")
        checked(term.value, "an offset")
    return terms
