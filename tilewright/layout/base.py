"""What the three kinds of layout have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tilewright.errors import LayoutError
from tilewright.layout.axes import INTS, Axis, Facts, ScopeName, Value, product, public
from tilewright.layout.tables import Collision, check_inside

if TYPE_CHECKING:
    from tilewright.layout.swizzle import SwizzleLayout
    from tilewright.layout.tile import TileLayout

Table: TypeAlias = dict[str, NDArray[np.int64]]
"""Axis name to an array of shape ``(*shape, replicas)``: where each element is."""

Region: TypeAlias = Sequence[tuple[Value, Value]]
"""``(start, extent)`` for each dimension of a shape."""

Ends: TypeAlias = Sequence["tuple[Value, Value] | range"]
"""``(begin, end)``, or a range, for each dimension of a shape."""


def require_layout(value: object) -> None:
    """Raises LayoutError for what is no layout."""
    if not isinstance(value, Layout):
        raise LayoutError("not a layout", given=repr(value), allowed="S[...], SwizzleLayout(...), ComposeLayout(...)")


@public.methods
@public.kind_of("a layout")
class Layout(ABC):
    """Where each element of a tile lives: a map from logical to physical coordinates.

    A physical coordinate is a dict from axis *name* to value; an axis that is absent counts as 0.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def axes(self) -> tuple[Axis, ...]:
        """The axes that occur: the keys of `apply` and `table`."""

    def apply(self, *coord: Value, shape: Sequence[Value] | None = None, facts: Facts = INTS) -> dict[str, Value]:
        """Where a logical coordinate is (its first replica): a value for the name of each axis that occurs.

        One coordinate is the row-major index, of whatever shape; several are of ``shape``, which is the shard's extents
        if left out. Ints, NumPy arrays and expressions alike.

        >>> from tilewright.layout import S, laneid
        >>> layout = S[(8, 4, 2) : (4 @ laneid, 1 @ laneid, 1)]
        >>> layout.apply(3, 5, shape=(8, 8)), layout.apply(29)
        ({'laneid': 14, 'm': 1}, {'laneid': 14, 'm': 1})

        Raises LayoutError where a coordinate is outside of its extent (an expression: proven to be), has another rank
        than the shape, or the shape another size.
        """
        if shape is not None and len(coord) == 1:
            shape = (product(shape),)
        check_inside(coord, self._counted(len(coord), shape), facts)
        return self.place(*coord, shape=shape, facts=facts)

    @abstractmethod
    def place(self, *coord: Value, shape: Sequence[Value] | None = None, facts: Facts = INTS) -> dict[str, Value]:
        """`apply` without the check that the coordinate is inside: an outermost digit may exceed its extent."""

    @abstractmethod
    def _counted(self, rank: int, shape: Sequence[Value] | None = None) -> Sequence[Value] | None:
        """The extents that bound a coordinate of this rank; None where nothing bounds it."""

    def apply_to_shape(self, coord: Sequence[Value], shape: Sequence[Value], facts: Facts = INTS) -> dict[str, Value]:
        """`apply` with the coordinate as one sequence."""
        return self.apply(*coord, shape=shape, facts=facts)

    @abstractmethod
    def size(self, axis: str | Axis | None = None) -> Value:
        """Logical elements; with an axis, the product of the extents on it."""

    @abstractmethod
    def span(self, axis: str | Axis | None = None) -> Value:
        """Physical places from the first to the last on an axis; without one, of all memory axes together."""

    @abstractmethod
    def cosize(self, axis: str | Axis = "m") -> Value:
        """The size of the storage on an axis: one more than the largest coordinate, offsets and replicas included."""

    @abstractmethod
    def table(self, shape: Sequence[int]) -> Table:
        """Every physical coordinate of every element of a tile of this shape, replicas in the last dimension."""

    @abstractmethod
    def canonicalize(self, facts: Facts = INTS) -> Layout:
        """The simplest layout that means the same."""

    @abstractmethod
    def part(self, shape: Sequence[Value], region: Region, facts: Facts = INTS, *, leaves: bool = False) -> Layout:
        """The layout of a region: ``(start, extent)`` for each dimension; if it ``leaves``, partly outside."""

    def slice(self, shape: Sequence[Value], region: Ends, facts: Facts = INTS) -> Layout | None:
        """The layout of a region, ``(begin, end)`` or a range for each dimension of ``shape``; None where no layout
        describes it, or it lies outside. `part` takes extents, and says why.

        >>> from tilewright.layout import S
        >>> S[8, 64].slice((8, 64), [(2, 6), range(16, 32)])
        S[(4, 16):(64, 1)] + 144
        """
        ends = [(part.start, part.stop) if isinstance(part, range) else part for part in region]
        try:
            return self.part(shape, [(begin, facts.simplify(end - begin)) for begin, end in ends], facts)
        except LayoutError:
            return None

    @abstractmethod
    def storage(self) -> Layout:
        """What one thread holds: without the thread, block and device axes."""

    @abstractmethod
    def group(self, shape: Sequence[Value], facts: Facts = INTS) -> tuple[Layout, tuple[int, ...]]:
        """The layout with iters that fall into one group for each entry of ``shape``, and where the groups begin."""

    @abstractmethod
    def permute_dims(self, perm: Sequence[int]) -> Layout:
        """The shard iters in another order."""

    @abstractmethod
    def permute_by_groups(self, separators: Sequence[int], perm: Sequence[int]) -> Layout:
        """The groups of shard iters, as `group` separates them, in another order."""

    @abstractmethod
    def broadcast(self, shape: Sequence[Value], to_shape: Sequence[Value], facts: Facts = INTS) -> Layout:
        """View a layout of ``shape`` as one of ``to_shape``, as NumPy broadcasts."""

    @abstractmethod
    def tile_with(
        self, outer: Layout, outer_shape: Sequence[Value], inner_shape: Sequence[Value], facts: Facts = INTS
    ) -> Layout:
        """Repeat this layout of ``inner_shape`` as ``outer`` says, whose strides count whole spans of this one."""

    @abstractmethod
    def direct_sum(
        self, left: Layout, left_shape: Sequence[Value], right_shape: Sequence[Value], facts: Facts = INTS
    ) -> Layout:
        """Like `tile_with`, with the strides of ``left`` as they are."""

    def is_tile_inner(
        self, tiled: Layout, tiled_shape: Sequence[Value], inner_shape: Sequence[Value], facts: Facts = INTS
    ) -> TileLayout | None:
        """The ``outer`` with which ``self.tile(outer, ..)`` means ``tiled``, or None."""
        return products.find_outer(self, tiled, tiled_shape, inner_shape, facts, scaled=True)

    def is_tile_outer(
        self, tiled: Layout, tiled_shape: Sequence[Value], outer_shape: Sequence[Value], facts: Facts = INTS
    ) -> Layout | None:
        """The ``inner`` with which ``inner.tile(self, ..)`` means ``tiled``, or None.

        Raises LayoutError for a swizzle: the layout of the tiles is a `TileLayout`, since a swizzle acts after it.
        """
        return products.find_inner(self, tiled, tiled_shape, outer_shape, facts, scaled=True)

    def is_direct_sum_right(
        self, total: Layout, shape: Sequence[Value], right_shape: Sequence[Value], facts: Facts = INTS
    ) -> TileLayout | None:
        """The ``left`` with which ``self.direct_sum(left, ..)`` means ``total``, or None."""
        return products.find_outer(self, total, shape, right_shape, facts, scaled=False)

    def is_direct_sum_left(
        self, total: Layout, shape: Sequence[Value], left_shape: Sequence[Value], facts: Facts = INTS
    ) -> Layout | None:
        """The ``right`` with which ``right.direct_sum(self, ..)`` means ``total``, or None.

        Raises LayoutError for a swizzle: the left part of a sum is a `TileLayout`, since a swizzle acts after it.
        """
        return products.find_inner(self, total, shape, left_shape, facts, scaled=False)

    @abstractmethod
    def inverse(self, facts: Facts = INTS) -> Layout:
        """The layout that leads from an address back to the row-major index."""

    @abstractmethod
    def tile_to(self, to_shape: Sequence[Value], from_shape: Sequence[Value], facts: Facts = INTS) -> Layout:
        """Repeat this layout of ``from_shape`` in row-major order until it fills ``to_shape``."""

    @abstractmethod
    def pack(self, n: int, facts: Facts = INTS) -> Layout:
        """View every ``n`` neighbouring elements as one wider element."""

    @abstractmethod
    def unpack(self, n: int) -> Layout:
        """View every element as ``n`` narrower neighbours."""

    @abstractmethod
    def parted(self, shape: Sequence[Value]) -> tuple[SwizzleLayout | None, TileLayout]:
        """The swizzle (None without one) and the tile layout before it. A bare swizzle has the rows of ``shape``."""

    @abstractmethod
    def is_trivial(self, facts: Facts = INTS) -> bool:
        """Is it the identity: element i at address i?"""

    def get_scope(self) -> tuple[ScopeName, ScopeName]:
        """The narrowest subscope and the widest scope of the thread axes; without any, each thread holds everything."""
        return ScopeName("thread"), ScopeName("thread")

    def verify_well_formed(self, facts: Facts = INTS) -> bool:
        """True, or LayoutError where the thread axes do not fit together or leave their bounds."""
        return True

    def _repr_html_(self) -> str:
        """What a notebook shows: the place of each element, as a table."""
        from tilewright.view import layout_html  # upwards, and only when a notebook asks

        return layout_html(self)

    @abstractmethod
    def collision(self, counts: Callable[[Axis], bool] = lambda _: True) -> Collision | None:
        """Two elements that share a place, or None; replicas of one element do not collide. counts: does an axis tell
        places apart? By default each axis does. A stride that is an expression counts as 0.

        >>> from tilewright.layout import S
        >>> S[(4, 2) : (1, 2)].collision()
        Collision(first=1, second=4, place={'m': 2})
        """

    @abstractmethod
    def equivalent(self, other: Layout, facts: Facts = INTS) -> bool:
        """Equality by meaning: is each element in the same places?"""


from tilewright.layout import products  # noqa: E402  # at the end: products are made of the layouts above
