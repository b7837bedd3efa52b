"""What the three kinds of layout have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tilewright.layout.axes import Axis
from tilewright.layout.facts import INTS, Facts, Value, public

__all__ = ["Layout", "Region", "Table"]

Table: TypeAlias = dict[str, NDArray[np.int64]]
"""Axis name to an array of shape ``(*shape, replicas)``: where each element is."""

Region: TypeAlias = Sequence[tuple[Value, Value]]
"""``(start, extent)`` for each dimension of a shape."""


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

    @abstractmethod
    def apply(self, *coord: Value, shape: Sequence[Value] | None = None, facts: Facts = INTS) -> dict[str, Value]:
        """The physical coordinate of a logical one (of the first replica): ints, NumPy arrays or expressions."""

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
        """One more than the largest coordinate on an axis, offsets and replicas included: what storage must hold."""

    @abstractmethod
    def table(self, shape: Sequence[int]) -> Table:
        """Every physical coordinate of every element of a tile of this shape, replicas in the last dimension."""

    @abstractmethod
    def canonicalize(self, facts: Facts = INTS) -> Layout:
        """The simplest layout that means the same."""

    @abstractmethod
    def slice(self, shape: Sequence[Value], region: Region, facts: Facts = INTS) -> Layout:
        """The layout of a region: ``(start, extent)`` for each dimension of ``shape``."""

    @abstractmethod
    def storage(self) -> Layout:
        """What one thread holds: without the thread, block and device axes."""

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
    def is_trivial(self, facts: Facts = INTS) -> bool:
        """Is it the identity: element i at address i?"""

    def get_scope(self) -> tuple[str, str]:
        """The widest scope and the narrowest subscope of the thread axes; without any, each thread holds everything."""
        return "thread", "thread"

    def verify_well_formed(self, facts: Facts = INTS) -> bool:
        """True, or LayoutError where the thread axes do not fit together or leave their bounds."""
        return True

    def _repr_html_(self) -> str:
        """What a notebook shows: who holds what, as a table."""
        from tilewright.view import layout_html  # upwards, and only when a notebook asks

        return layout_html(self)

    @abstractmethod
    def equivalent(self, other: Layout, facts: Facts = INTS) -> bool:
        """Equality by meaning: is each element in the same places?"""
