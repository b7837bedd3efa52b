"""Which lanes of a batch execute a statement."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from tilewright.sim.machine.arrays import Array, Bools, Ints, Shape, Value

__all__ = ["Mask", "spread"]


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
        parts = (self.narrowed(by == one) for one in np.unique(by[self.full]))
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
        found = np.flatnonzero(self.array.any((1, 2)))
        return found if 4 * (found[-1] + 1 - found[0]) <= len(self.array) else None

    @cached_property
    def varies_by_cta(self) -> bool:
        """Can two CTAs have different lanes active?"""
        return self.array is not None and self.array.shape[0] > 1
