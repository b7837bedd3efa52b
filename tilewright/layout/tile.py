"""TileLayout: shard iters, replica iters and offsets, and the algebra on them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NoReturn

from tilewright.errors import LayoutError, described
from tilewright.layout import products
from tilewright.layout.axes import (
    AXES,
    INTS,
    SCOPES,
    Axis,
    AxisDistances,
    Facts,
    OnAxis,
    ScopeName,
    Value,
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
from tilewright.layout.base import Layout, Region, Table, require_layout
from tilewright.layout.iters import Iter, Iters, fuse, is_one, merged, moved, point, regroup, row_major, spell
from tilewright.layout.products import check_scopes, compose_threads, expand_threads, extremes
from tilewright.layout.tables import Collision, find_collision, same_places, table_of
from tilewright.records import replace

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
        distance = self.get(key)
        if distance is None:
            raise KeyError(key)
        return distance

    def __contains__(self, key: object) -> bool:
        return key in self.keys() if isinstance(key, Axis) else tuple.__contains__(self, key)


@public.methods
@public.kind_of("a tile layout, S[...]")
@public.fields
@dataclass(frozen=True, slots=True, init=False, repr=False)
class TileLayout(Layout):
    """A logical index, split row-major over the shard iters, leads to the sum of digit times stride on each axis, plus
    the offset; each combination of replica digits adds its own distance, so that an element may be in several places.

    `S`, `R` and ``+`` make a layout (of several `R` the last one counts); ``TileLayout(layout)`` returns an equal one.

    >>> from tilewright.layout import R, S, TLane, laneid, warpid
    >>> layout = TileLayout(S[(8, 4, 2) : (4 @ laneid, 1 @ laneid, 1)] + 5 @ warpid)
    >>> layout.apply(3, 2, 1)
    {'laneid': 14, 'm': 1, 'warpid': 5}
    >>> layout
    S[(8, 4, 2):(4@laneid, 1@laneid, 1)] + 5@warpid
    """

    shard: Iters
    replica: Iters
    offset: tuple[OnAxis, ...]  # `Distances`, at most one per axis, by the axes' names, without zeros

    def __init__(
        self,
        shard: TileLayout | Iterable[Iter] = (),
        replica: Iterable[Iter] = (),
        offset: Iterable[OnAxis] | Mapping[Axis | str, Value] = (),
    ) -> None:
        terms, replica = _terms(offset), _iters(replica)
        if isinstance(shard, TileLayout):
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
            for along in self.axes:
                if along.is_memory():
                    reach = plus(reach, plus(plus(self.span(along), -1), self.offset_on(along)))
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

    @classmethod
    def from_iters(
        cls,
        shard: Iterable[Iter],
        replica: Iterable[Iter] = (),
        offset: Iterable[OnAxis] | Mapping[Axis | str, Value] = (),
    ) -> TileLayout:
        """The layout of these iters; the offset as terms ``5 @ warpid`` or as a mapping from axis to value."""
        return cls(shard, replica, offset)

    def __add__(self, other: TileLayout | AxisDistances | OnAxis | Value) -> TileLayout:
        if isinstance(other, TileLayout):
            offset = (*self.offset, *other.offset)
            return TileLayout((*self.shard, *other.shard), other.replica or self.replica, offset)
        if isinstance(other, AxisDistances):
            return replace(self, offset=(*self.offset, *other.terms))
        term = other if isinstance(other, OnAxis) else OnAxis(checked(other, "an offset"), m)
        return replace(self, offset=(*self.offset, term))

    def __radd__(self, other: AxisDistances | OnAxis | Value) -> TileLayout:
        return self + other

    def place(self, *coord: Value, shape: Sequence[Value] | None = None, facts: Facts = INTS) -> dict[str, Value]:
        """`apply` without the check that the coordinate is inside: the outermost digit may exceed its extent."""
        out: dict[str, Value] = dict.fromkeys((axis.name for axis in self.axes), 0)
        steps = (point(iters, index, facts) for iters, index in self._digits(coord, shape, facts))
        for term in chain(self.offset, *steps):
            out[term.axis.name] = plus(out[term.axis.name], term.value)
        return {name: simplified(value, facts) for name, value in out.items()}

    def _counted(self, rank: int, shape: Sequence[Value] | None = None) -> Sequence[Value]:
        """The extents that bound a coordinate of this rank: ``shape``, the size, or those of the shard iters."""
        if shape is not None:
            return shape
        return (self.size(),) if rank == 1 else self.extents

    def _digits(
        self, coord: Sequence[Value], shape: Sequence[Value] | None, facts: Facts
    ) -> list[tuple[Sequence[Iter], Value]]:
        """Runs of iters, each with its own row-major index: one per dimension where the shape groups the iters."""
        if shape is None and len(coord) == 1:
            return [(self.shard, coord[0])]
        dims = self._counted(len(coord), shape)
        if len(dims) != len(coord):
            raise LayoutError(
                f"a coordinate of rank {len(coord)} in a shape of rank {len(dims)}",
                given=f"{listed(coord)} in {listed(dims)}",
                allowed="one index for each dimension, or a single row-major index without shape=",
                hint=None if shape else "say what the coordinate counts: apply(i, j, shape=(rows, columns))",
            )
        try:
            return list(zip(regroup(self.shard, dims, facts), coord, strict=True))
        except LayoutError:
            if not facts.equal(product(dims), self.size()):
                raise
        index: Value = 0
        for extent, digit in zip(dims, coord, strict=True):
            index = plus(times(index, extent), digit)
        return [(self.shard, index)]

    def table(self, shape: Sequence[int]) -> Table:
        """Every place of every element of a tile of this shape: for the name of each axis an int64 array of shape
        ``(*shape, replicas)``.

        >>> from tilewright.layout import R, S, laneid
        >>> (S[(2, 2) : (1 @ laneid, 1)] + R[2 : 8 @ laneid]).table((2, 2))["laneid"].tolist()
        [[[0, 8], [0, 8]], [[1, 9], [1, 9]]]

        Raises LayoutError for expressions, and for a shape of another size.
        """
        return table_of(self, shape)

    def canonicalize(self, facts: Facts = INTS) -> TileLayout:
        """The simplest layout of the same meaning: unit iters dropped, contiguous iters fused, replicas sorted, thread
        axes composed (`wid_in_wg` and `laneid` to `tid_in_wg`) where the inner one is proven to stay below its bound.

        >>> from tilewright.layout import S, laneid, wid_in_wg
        >>> S[(4, 8, 4, 1, 2) : (1 @ wid_in_wg, 4 @ laneid, 1 @ laneid, 7, 1)].canonicalize()
        S[(128, 2):(1@tid_in_wg, 1)]
        """
        dropped = replace(self, shard=fuse(self.shard, facts), replica=fuse(_sorted(self.replica, facts), facts))
        whole = compose_threads(dropped, facts)
        return TileLayout(
            fuse(whole.shard, facts),
            fuse(_sorted(whole.replica, facts), facts),
            [OnAxis(simplified(term.value, facts), term.axis) for term in whole.offset],
        )

    def equivalent(self, other: Layout, facts: Facts = INTS) -> bool:
        """Equality by meaning: are the canonical forms equal, value by value? With replicas, or strides of 0, several
        forms mean the same, and for numbers the tables decide.

        >>> from tilewright.layout import S
        >>> S[4, 8].equivalent(S[(2, 16) : (16, 1)])
        True
        """
        if not isinstance(other, TileLayout):
            require_layout(other)
            return other.equivalent(self, facts)
        a, b = self.canonicalize(facts), other.canonicalize(facts)
        if a == b:
            return True
        if any(layout.replica or any(as_int(it.stride) == 0 for it in layout.shard) for layout in (a, b)):
            return _same_parts(a, b, facts) or same_places(a, b)
        return _same_parts(a, b, facts)

    def is_trivial(self, facts: Facts = INTS) -> bool:
        """Is it the identity on axis m: element i at address i?"""
        plain = self.canonicalize(facts)
        rows = len(plain.shard) < 2 and all(it.axis == m and facts.equal(it.stride, 1) for it in plain.shard)
        return rows and not plain.replica and not plain.offset

    def group(self, shape: Sequence[Value], facts: Facts = INTS) -> tuple[TileLayout, tuple[int, ...]]:
        """Split (and where needed fuse) shard iters so that they fall into one group for each entry of ``shape``.

        Returns the layout and the separators: group k is ``shard[separators[k]:separators[k + 1]]``, so they begin with
        0 and end with the number of iters. A group holds at least one iter; an entry of 1 may get a unit iter.

        >>> from tilewright.layout import S
        >>> S[(4, 16) : (16, 1)].group((2, 4, 8))
        (S[(2, 2, 2, 8):(32, 16, 8, 1)], (0, 1, 3, 4))

        Raises LayoutError where an entry would cut an iter.
        """
        groups = regroup(self.shard, shape, facts)
        separators = [0]
        for group in groups:
            separators.append(separators[-1] + len(group))
        return replace(self, shard=tuple(it for group in groups for it in group)), tuple(separators)

    def part(self, shape: Sequence[Value], region: Region, facts: Facts = INTS, *, leaves: bool = False) -> TileLayout:
        """The layout of a region, ``(start, extent)`` for each dimension of ``shape``; its origin goes into the offset.

        An axis on which only coordinate 0 is left keeps a unit iter, so that a slice still says which lane holds it.

        >>> from tilewright.layout import S
        >>> S[8, 64].part((8, 64), [(2, 4), (16, 16)])
        S[(4, 16):(64, 1)] + 144

        Starts may be expressions. Raises LayoutError where the region lies outside (unless it ``leaves``), or cuts an
        iter in a way that no layout describes, or is not proven not to: the error names the fact that is missing.
        """
        if len(region) != len(shape):
            raise LayoutError(
                f"a region of {len(region)} dimensions in a shape of {len(shape)}",
                given=f"region {tuple(region)}, shape {listed(shape)}",
                allowed="one (start, extent) for each dimension",
            )
        shard: list[Iter] = []
        terms = list(self.offset)
        for dim, (iters, extent, (start, length)) in enumerate(
            zip(regroup(self.shard, shape, facts), shape, region, strict=True)
        ):
            if not leaves:
                products.check_bounds(dim, extent, start, length, facts)
            inside, begin = products.cut(dim, iters, extent, start, length, facts)
            shard += inside
            terms += begin
        origin = [OnAxis(facts.simplify(term.value), term.axis) for term in merged(terms)]
        part = replace(self, shard=tuple(shard), offset=tuple(origin))
        lost = [Iter(1, 0, axis) for axis in self.axes if axis not in part.axes]
        return replace(part, shard=(*lost, *part.shard))

    def tile(
        self, outer: Layout, outer_shape: Sequence[Value], inner_shape: Sequence[Value], facts: Facts = INTS
    ) -> TileLayout:
        """Repeat this layout of ``inner_shape`` as ``outer`` says, whose strides count whole spans of this one.

        >>> from tilewright.layout import S
        >>> S[4, 4].tile(S[2, 2], (2, 2), (4, 4))
        S[(2, 4, 2, 4):(32, 4, 16, 1)]
        """
        return products.combine(outer, self, outer_shape, inner_shape, facts, scaled=True)

    tile_with = tile  # the name in a ComposeLayout, whose `tile` is the layout below the swizzle

    def __call__(self, *_: object, **__: object) -> NoReturn:
        """Raises LayoutError: ``ComposeLayout(...).tile`` is the layout below the swizzle, not an operation."""
        raise LayoutError(
            f"{self} is a layout, and not called",
            given="layout(...)",
            allowed="layout.apply(...) for a place; tile_with(outer, outer_shape, inner_shape) tiles any layout",
        )

    def tile_to(self, to_shape: Sequence[Value], from_shape: Sequence[Value], facts: Facts = INTS) -> TileLayout:
        """Repeat this layout of ``from_shape`` in row-major order until it fills ``to_shape``.

        >>> from tilewright.layout import S
        >>> S[4, 4].tile_to((4, 8), (4, 4))
        S[(1, 4, 2, 4):(32, 4, 16, 1)]
        """
        ranks = len(to_shape) == len(from_shape)
        if not ranks or not all(facts.divides(a, b) for a, b in zip(from_shape, to_shape, strict=True)):
            raise LayoutError(
                f"tiles of {listed(from_shape)} do not fill {listed(to_shape)}",
                given=f"{listed(to_shape)}",
                allowed=f"as many dimensions, each a multiple of those of {listed(from_shape)}",
            )
        grid = [facts.simplify(a // b) for a, b in zip(to_shape, from_shape, strict=True)]
        return self.tile(TileLayout(row_major(grid)), grid, from_shape, facts)

    def direct_sum(
        self, left: Layout, left_shape: Sequence[Value], right_shape: Sequence[Value], facts: Facts = INTS
    ) -> TileLayout:
        """Like `tile`, with the strides of ``left`` as they are: element ``l * right + r`` is at ``left(l) + self(r)``.

        >>> from tilewright.layout import S
        >>> S[4:2].direct_sum(S[2:1], (2,), (4,))
        S[(2, 4):(1, 2)]
        """
        return products.combine(left, self, left_shape, right_shape, facts, scaled=False)

    def permute_dims(self, perm: Sequence[int]) -> TileLayout:
        """The shard iters in another order: new iter k is old iter ``perm[k]``.

        >>> from tilewright.layout import S
        >>> S[2, 3, 4].permute_dims((2, 0, 1))
        S[(4, 2, 3):(1, 12, 4)]
        """
        return self.permute_by_groups(range(len(self.shard) + 1), perm)

    def permute_by_groups(self, separators: Sequence[int], perm: Sequence[int]) -> TileLayout:
        """The groups of shard iters, as `group` separates them, in another order.

        >>> from tilewright.layout import S
        >>> S[2, 3, 4].permute_by_groups((0, 2, 3), (1, 0))
        S[(4, 2, 3):(1, 12, 4)]
        """
        cuts = list(separators)
        if cuts[:1] != [0] or cuts[-1] != len(self.shard) or sorted(cuts) != cuts:
            raise LayoutError(
                f"{self} has no groups {tuple(cuts)}", given=tuple(cuts), allowed=f"rising from 0 to {len(self.shard)}"
            )
        if sorted(perm) != list(range(len(cuts) - 1)):
            raise LayoutError(
                f"{tuple(perm)} is no permutation of {len(cuts) - 1} groups",
                given=tuple(perm),
                allowed=f"each of 0..{len(cuts) - 2} once",
            )
        return replace(self, shard=tuple(it for k in perm for it in self.shard[cuts[k] : cuts[k + 1]]))

    def parted(self, shape: Sequence[Value]) -> tuple[None, TileLayout]:
        """No swizzle, and itself."""
        return None, self

    def storage(self) -> TileLayout:
        """What one thread holds: the layout without its thread, block and device axes.

        >>> from tilewright.layout import S, laneid
        >>> S[(8, 4, 2) : (4 @ laneid, 1 @ laneid, 1)].storage()
        S[2:1]
        """
        shard, replica = ([it for it in iters if it.axis.is_memory()] for iters in (self.shard, self.replica))
        return TileLayout(shard, replica, [term for term in self.offset if term.axis.is_memory()])

    def broadcast(self, shape: Sequence[Value], to_shape: Sequence[Value], facts: Facts = INTS) -> TileLayout:
        """View a layout of ``shape`` as one of ``to_shape``, as NumPy broadcasts: entries of 1, and missing leading
        ones, are repeated; every repetition is the same place.

        >>> from tilewright.layout import S
        >>> S[8, 1].broadcast((8, 1), (8, 4))
        S[(8, 4):(1, 0)]
        """
        groups = regroup(self.shard, shape, facts)
        missing = len(to_shape) - len(shape)
        axis = self.shard[0].axis if self.shard else m
        out = [Iter(extent, 0, axis) for extent in to_shape[: max(missing, 0)]]
        for dim, (iters, extent) in enumerate(zip(groups, shape, strict=True)):
            target = to_shape[dim + missing] if missing >= 0 else 0
            if facts.equal(extent, target):
                out += iters
            elif is_one(extent, facts) and missing >= 0:
                out.append(Iter(target, 0, iters[0].axis))
            else:
                raise LayoutError(
                    f"shape {listed(shape)} does not broadcast to {listed(to_shape)}",
                    given=f"dimension {dim} of {extent} elements",
                    allowed="an entry of 1, or the same entry",
                )
        return replace(self, shard=tuple(out))

    def pack(self, n: int, facts: Facts = INTS) -> TileLayout:
        """View every ``n`` neighbouring elements as one wider element, as a vector access does.

        ``n`` and all strides are in elements before, in packs after; iters on other axes stay as they are.

        >>> from tilewright.layout import S, laneid
        >>> S[(8, 4, 2) : (4 @ laneid, 1 @ laneid, 1)].pack(2)
        S[(8, 4, 1):(4@laneid, 1@laneid, 1)]

        Raises LayoutError where a pack would be cut or not contiguous. Inverse: `unpack`.
        """
        outer, inner = _contiguous_tail(self.shard, n, facts)
        beside = [it for it in (*outer, *self.replica) if it.axis == inner.axis and not is_one(it.extent, facts)]
        aligned = all(facts.divides(n, it.stride) for it in beside) and facts.divides(n, self.offset_on(inner.axis))
        contiguous = n == 1 or facts.equal(inner.stride, 1)
        if n < 1 or not inner.axis.is_memory() or not contiguous or not facts.divides(n, inner.extent) or not aligned:
            iters, offset = ", ".join(map(str, [*beside, inner])), self.offset_on(inner.axis)
            multiples = f"its extent, the other strides and the offset multiples of {n}"
            raise LayoutError(
                f"cannot pack {self} by {n}",
                given=f"on axis {inner.axis}: iters {iters}, offset {offset}",
                allowed=f"a memory axis; innermost stride 1; {multiples}",
            )

        def narrowed(step: OnAxis) -> OnAxis:
            divides = step.axis == inner.axis and facts.divides(n, step.value)
            return OnAxis(facts.simplify(step.value // n), step.axis) if divides else step

        narrow = moved(replace(self, shard=outer), narrowed)
        return replace(narrow, shard=(*narrow.shard, Iter(facts.simplify(inner.extent // n), inner.stride, inner.axis)))

    def unpack(self, n: int) -> TileLayout:
        """View every element as ``n`` narrower neighbours on the axis of the innermost iter (m if that is no memory).

        >>> from tilewright.layout import S, laneid
        >>> S[(8, 4) : (1 @ laneid, 1)].unpack(2)
        S[(8, 4, 2):(1@laneid, 2, 1)]
        """
        if n < 1:
            raise LayoutError(f"cannot unpack {self} by {n}", given=n, allowed="at least 1")
        axis: Axis = self.shard[-1].axis if self.shard and self.shard[-1].axis.is_memory() else m

        def widened(step: OnAxis) -> OnAxis:
            return OnAxis(times(step.value, n), axis) if step.axis == axis else step

        wide = moved(self, widened)
        return replace(wide, shard=(*wide.shard, Iter(n, 1, axis)))

    def inverse(self, facts: Facts = INTS) -> TileLayout:
        """The layout that leads from an address back to the row-major index.

        >>> from tilewright.layout import S
        >>> S[(8, 4) : (1, 8)].inverse()
        S[(4, 8):(1, 4)]

        Raises LayoutError unless the layout is a permutation of ``0 .. size`` on axis m.
        """
        plain = self.canonicalize(facts)
        strides: list[Value] = [product(it.extent for it in plain.shard[k + 1 :]) for k in range(len(plain.shard))]
        waiting = [(it, Iter(it.extent, stride)) for it, stride in zip(plain.shard, strides, strict=True)]
        out: list[Iter] = []
        reached: Value = 1
        while waiting:
            following = (pair for pair in waiting if pair[0].axis == m and facts.equal(pair[0].stride, reached))
            if (pair := next(following, None)) is None:
                break
            waiting.remove(pair)
            out.insert(0, pair[1])
            reached = facts.simplify(times(reached, pair[1].extent))
        if waiting or plain.replica or plain.offset:
            raise LayoutError(
                f"{self} has no inverse layout",
                given=f"as {plain}; addresses below {reached} are reached once",
                allowed="one element at each address of axis m from 0 to the size, no replicas, no offset",
            )
        return TileLayout(out)

    def get_scope(self) -> tuple[ScopeName, ScopeName]:
        """The narrowest subscope and the widest scope of the thread axes: lanes and warps give ("thread", "cta").

        Without thread axes each thread holds everything: ("thread", "thread"). Raises LayoutError for axes with a gap
        between them.
        """
        check_scopes(self)
        axes = [axis for axis in self.axes if axis.is_thread()]
        inner = min((a.get_subscope() for a in axes), key=SCOPES.index, default=ScopeName("thread"))
        return inner, max((a.get_scope() for a in axes), key=SCOPES.index, default=ScopeName("thread"))

    def expand_threads(self, facts: Facts = INTS) -> TileLayout:
        """The same layout in warps and lanes: tid_in_wg and tx split, (wgid, wid_in_wg) joined to warpid.

        >>> from tilewright.layout import S, tid_in_wg
        >>> S[(128, 4) : (1 @ tid_in_wg, 1)].expand_threads()
        S[(4, 32, 4):(1@wid_in_wg, 1@laneid, 1)]
        """
        return expand_threads(self, facts)

    def collision(self, counts: Callable[[Axis], bool] = lambda _: True) -> Collision | None:
        """Two elements in one place, or None; see `Layout.collision`."""
        return find_collision(self, counts)

    def verify_well_formed(self, facts: Facts = INTS) -> bool:
        """True, or LayoutError: thread axes divide each level at most once and without a gap, and no coordinate lies
        outside an axis whose length the hardware fixes (32 lanes, 4 warps of a warpgroup, 128 lanes of tensor memory).
        """
        check_scopes(self)
        for axis in self.axes:
            ends = extremes(self, axis, facts)
            if axis.bound is None or ends is None:
                continue
            if facts.less(ends[0], 0) or facts.less(axis.bound - 1, ends[1]):
                raise LayoutError(
                    f"{self} leaves axis {axis}",
                    given=f"coordinates {ends[0]} to {ends[1]}",
                    allowed=f"0 to {axis.bound - 1}",
                )
        return True


def _contiguous_tail(shard: Iters, n: int, facts: Facts) -> tuple[Iters, Iter]:
    """The iters before the innermost run, and that run, neighbours fused until ``n`` divides its extent."""
    if not shard:
        return (), Iter(1, 1)
    start = len(shard) - 1
    while start and is_one(shard[start].extent, facts) and n > 1:
        start -= 1
    inner = shard[start]
    while start and not facts.divides(n, inner.extent):
        joined = fuse((shard[start - 1], inner), facts)
        if len(joined) != 1:
            break
        start, inner = start - 1, joined[0]
    return shard[:start], inner


def _sorted(replica: Iters, facts: Facts) -> Iters:
    """Replicas in the order of axis and falling stride: their order means nothing. A replica of stride 0 is none."""
    order = list(AXES.values())
    live = [it for it in replica if not facts.equal(it.stride, 0)]
    return tuple(sorted(live, key=lambda it: (order.index(it.axis), -(as_int(it.stride) or 0))))


def _same_parts(a: TileLayout, b: TileLayout, facts: Facts) -> bool:
    """Are two canonical forms equal, value by value?"""
    parts = ((a.shard, b.shard), (a.replica, b.replica))
    if a.axes != b.axes or any(len(x) != len(y) for x, y in parts):
        return False
    pairs = [(x, y) for xs, ys in parts for x, y in zip(xs, ys, strict=True)]
    return all(
        x.axis == y.axis and facts.equal(x.extent, y.extent) and facts.equal(x.stride, y.stride) for x, y in pairs
    ) and all(facts.equal(a.offset_on(axis), b.offset_on(axis)) for axis in a.axes)


def _listed(value: Any) -> tuple[Any, ...]:
    """What was given one by one; itself where it is no list of anything. `Any`: the caller checks each."""
    return tuple(value) if isinstance(value, tuple | list) or LIST.fits(value) else (value,)


def _iters(value: Iterable[Iter]) -> Iters:
    iters = _listed(value)
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
