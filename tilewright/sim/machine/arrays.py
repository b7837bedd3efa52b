"""The kinds of arrays that the simulator works on, by name."""

from __future__ import annotations

from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

__all__ = ["Array", "Bits", "Bools", "Entries", "Flags", "Ints", "Shape", "Value"]

Array: TypeAlias = NDArray[Any]  # of a dtype that only the kernel knows
Bits: TypeAlias = NDArray[Any]  # items of one of `tilewright.sim.machine.memory.UNITS`
Bools: TypeAlias = NDArray[np.bool_]
Flags: TypeAlias = "NDArray[Any] | None"  # of bits: 1 in each byte that is initialised; None where all are
Given: TypeAlias = tuple[Any, ...]  # what generated code gives a call: arrays, numbers, addresses, texts
GivenFlags: TypeAlias = "tuple[Flags, ...] | None"
Results: TypeAlias = Any  # of a row's functions: nothing, an array, or one for each operand that is written
Ints: TypeAlias = NDArray[np.int64]
Shape: TypeAlias = tuple[int, int, int]  # (CTAs, warps, lanes)
Value: TypeAlias = "int | NDArray[Any]"
"""Of a kernel's expression: Python's number where it is uniform, else an array that broadcasts to the batch. NumPy's
numbers do what arrays do. The components of a vector are in a last axis of their own."""

Some = TypeVar("Some", bound="Entries")


class Entries:
    """What there are n of: each field, by ``__slots__``, has n entries."""

    __slots__: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(getattr(self, self.__slots__[0]))

    def __getitem__(self: Some, which: Ints | Bools) -> Some:
        return type(self)(*[getattr(self, name)[which] for name in self.__slots__])

    def joined(self: Some, other: Some) -> Some:
        """Both together."""
        return type(self)(*[np.concatenate([getattr(of, name) for of in (self, other)]) for name in self.__slots__])
