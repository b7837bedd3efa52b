"""The lengths that arrays have where a kernel's own accesses say it, though one of them reaches further.

Sizes that are proposed are no small numbers, and most of them odd. Where one place of a kernel reaches exactly to a
product of sizes, ``x[row * width + column]``, that is how long the array is; what another place of it reaches behind
that, ``x[(row + 1) * width + column]``, is outside. Not so what is meant to be longer: ranges have one element more
than there are, windows reach over by as many as they have, and what is behind may be a part of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from math import prod

from tilewright.load.cu_guards import compares_neighbours, holds_ranges
from tilewright.load.reach import Reached

PARTS = (1, 2, 3, 4)  # of an array with so many elements for each of a product of sizes
MORE_PARTS = (*PARTS, 5, 6, 8, 12, 16, 32)  # of one that counts as long enough
LEAST = 4  # of a size that is a factor
MOST_FACTORS = 4


@dataclass(frozen=True)
class ReachedArray:
    """An array of a launch. itemsize: bytes of an element; is_whole: are these integers? places: how far each place in
    the kernel's text reaches in it.
    """

    name: str
    itemsize: int
    is_whole: bool
    places: Sequence[Reached]

    @property
    def ends(self) -> set[int]:
        """Elements to which the places reach."""
        return {-(-place.end // self.itemsize) for place in self.places}

    @property
    def is_read_only(self) -> bool:
        return not any(place.write for place in self.places)

    @property
    def last_width(self) -> int:
        """The elements of the access that reaches furthest."""
        return max(self.places, key=lambda place: place.end).width // self.itemsize


@dataclass(frozen=True)
class Sizes:
    """The numbers of which a launch's arrays have as many elements, or products of them. beside: those of which some
    may have, as threads of a CTA.
    """

    numbers: frozenset[int]
    beside: frozenset[int] = frozenset()

    def is_length(self, elements: int) -> bool:
        """Is this a product of sizes, a few times?"""
        return self._is_product(elements, self.numbers, PARTS)

    def is_long_enough(self, elements: int) -> bool:
        """Is this how long an array may be meant to be?"""
        return self._is_product(elements, self.numbers | self.beside, MORE_PARTS)

    def _is_product(self, elements: int, numbers: frozenset[int], parts: Sequence[int]) -> bool:
        factors = sorted(number for number in numbers if number >= LEAST and not elements % number)
        products = (prod(some) for many in range(1, MOST_FACTORS + 1)
                    for some in combinations_with_replacement(factors, many))  # fmt: skip
        return any(elements == part * product for product in products for part in parts)


def lengths_held(arrays: Sequence[ReachedArray], sizes: Sizes, text: str, *, lets_in: bool) -> dict[str, int]:
    """The lengths of arrays that a place of the kernel reaches beyond. text: of the kernel; lets_in: does it let an
    index be as large as a size?
    """
    lengths = {array.name: _length(array, sizes, text, lets_in=lets_in) for array in arrays if array.places}
    return {name: length for name, length in lengths.items() if length is not None}


def _length(array: ReachedArray, sizes: Sizes, text: str, *, lets_in: bool) -> int | None:
    reach = max(array.ends)
    if sizes.is_long_enough(reach):
        return None
    if array.is_whole and holds_ranges(text, array.name):
        is_beyond = reach - 1 in array.ends and sizes.is_length(reach - 2)
        return (
            reach - 1 if is_beyond or (sizes.is_length(reach - 1) and compares_neighbours(text, array.name)) else None
        )
    if lets_in and not array.is_whole and sizes.is_length(reach - array.last_width):
        return reach - array.last_width
    length = max((end for end in array.ends if end < reach and sizes.is_length(end)), default=0)
    is_window = array.ends.issuperset(range(length, reach + 1))
    end = length * array.itemsize
    is_part = all(place.begin >= end for place in array.places if place.end > end)
    is_beyond = array.is_read_only and 1 < reach - length < length and not (is_window or is_part)
    return length if is_beyond else None
