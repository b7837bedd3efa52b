"""What values an integer may take: from ``low`` to ``high``, in steps of ``modulus``. The arithmetic of such sets.

Every function here is about ideal integers, without a width; `Interval.wrapped` then says what is left once the result
is stored in 8, 16, 32 or 64 bits. A congruence survives a wrap only as far as it divides the power of two.
"""

from __future__ import annotations

from functools import cache
from itertools import product
from math import gcd
from typing import NamedTuple

from tilewright.dtypes import DType


class Interval(NamedTuple):
    """``low <= v <= high`` and ``v = residue (mod modulus)``; a modulus of 0 means exactly ``residue``.

    Build one with `strided` or `point`, which bring the ends onto the progression.
    """

    low: int
    high: int
    modulus: int = 1
    residue: int = 0

    @property
    def is_point(self) -> bool:
        return self.low == self.high

    def inside(self, other: Interval) -> bool:
        """Do the ends lie within those of ``other``?"""
        return other.low <= self.low and self.high <= other.high

    def meet(self, other: Interval) -> Interval:
        """The values of both; ``self`` where there are none (code that no thread reaches)."""
        if self.is_point or other.is_point:
            return self if self.is_point else other
        common = gcd(self.modulus, other.modulus)
        if (self.residue - other.residue) % common:
            return self
        steps = other.modulus // common
        inverse = pow(self.modulus // common, -1, steps)
        residue = self.residue + self.modulus * ((other.residue - self.residue) // common * inverse % steps)
        low, high = max(self.low, other.low), min(self.high, other.high)
        return strided(low, high, self.modulus * steps, residue) if low <= high else self

    def join(self, other: Interval) -> Interval:
        """The smallest interval that holds the values of both."""
        modulus = gcd(self.modulus, other.modulus, self.residue - other.residue)
        return strided(min(self.low, other.low), max(self.high, other.high), modulus, self.residue)

    def scaled(self, factor: int) -> Interval:
        """Every value times ``factor``."""
        ends = (self.low * factor, self.high * factor)
        return strided(min(ends), max(ends), abs(self.modulus * factor), self.residue * factor)

    def plus(self, other: Interval) -> Interval:
        """Sums of a value of each."""
        modulus = gcd(self.modulus, other.modulus)
        return strided(self.low + other.low, self.high + other.high, modulus, self.residue + other.residue)

    def wrapped(self, kind: DType) -> Interval:
        """What is known of the value once it is stored in ``kind``: all of it if it fits, else the low bits."""
        whole = limits(kind)
        if whole.low <= self.low and self.high <= whole.high:
            return self
        if kind.kind == "bool":
            return whole
        if self.is_point:
            return point((self.low - whole.low) % (1 << kind.bits) + whole.low)
        return strided(whole.low, whole.high, gcd(self.modulus, 1 << kind.bits), self.residue)


def point(value: int) -> Interval:
    """Exactly this value."""
    return Interval(value, value, 0, value)


def strided(low: int, high: int, modulus: int = 1, residue: int = 0) -> Interval:
    """The values ``residue (mod modulus)`` of ``low..high``, the ends moved onto them.

    >>> strided(1, 30, 8)
    Interval(low=8, high=24, modulus=8, residue=0)
    """
    if modulus > 1:
        residue %= modulus
        first, last = low + (residue - low) % modulus, high - (high - residue) % modulus
        if first <= last:
            low, high = first, last
        else:  # no such value: the code is unreachable
            modulus, residue = 1, 0
    if low == high or modulus == 0:
        return point(residue if modulus == 0 else low)
    return Interval(low, high, modulus, residue) if modulus > 1 else Interval(low, high)


@cache
def domain(kind: DType) -> str:
    """What arithmetic a dtype has: "int" (pointers too), "bool", or "" where nothing here applies."""
    if kind.lanes != 1:
        return ""
    return "int" if kind.kind in ("int", "uint", "handle") else "bool" if kind.kind == "bool" else ""


@cache
def limits(kind: DType) -> Interval:
    """All values of an integer dtype, a bool counting as 0 and 1, a pointer as a signed number."""
    if kind.kind == "bool":
        return Interval(0, 1)
    if kind.kind == "uint":
        return Interval(0, (1 << kind.bits) - 1)
    return Interval(-(1 << kind.bits - 1), (1 << kind.bits - 1) - 1)


# One function for each operator of `tilewright.ir.operators`. None: nothing is known beyond the dtype.


def minus(a: Interval, b: Interval) -> Interval:
    return a.plus(b.scaled(-1))


def times(a: Interval, b: Interval) -> Interval:
    if b.is_point:
        return a.scaled(b.low)
    ends = [x * y for x, y in product(a[:2], b[:2])]
    modulus = gcd(a.modulus * b.modulus, a.modulus * b.residue, b.modulus * a.residue)
    return strided(min(ends), max(ends), modulus, a.residue * b.residue)


def floordiv(a: Interval, b: Interval) -> Interval | None:
    if b.low <= 0 <= b.high:
        return None
    ends = [x // y for x, y in product(a[:2], b[:2])]
    if b.is_point and a.modulus % b.low == 0:
        return strided(min(ends), max(ends), abs(a.modulus // b.low), a.residue // b.low)
    return strided(min(ends), max(ends))


def mod(a: Interval, b: Interval) -> Interval | None:
    if b.low <= 0:
        return None
    if a.low >= 0 and a.high < b.low:
        return a
    if not b.is_point:
        return strided(0, min(a.high, b.high - 1) if a.low >= 0 else b.high - 1)
    quotient = a.low // b.low
    if quotient == a.high // b.low:
        return a.plus(point(-quotient * b.low))
    return strided(0, b.low - 1, gcd(a.modulus, b.low), a.residue)


def truncdiv(a: Interval, b: Interval) -> Interval | None:
    if a.low >= 0 and b.low > 0:
        return floordiv(a, b)
    if b.low <= 0 <= b.high:
        return None
    ends = [abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1) for x, y in product(a[:2], b[:2])]
    return strided(min(ends), max(ends))


def truncmod(a: Interval, b: Interval) -> Interval | None:
    if a.low >= 0 and b.low > 0:
        return mod(a, b)
    if b.low <= 0 <= b.high:
        return None
    reach = max(abs(b.low), abs(b.high)) - 1
    return strided(max(-reach, min(a.low, 0)), min(reach, max(a.high, 0)))


def minimum(a: Interval, b: Interval) -> Interval:
    if a.high <= b.low or b.high <= a.low:
        return a if a.high <= b.low else b
    both = a.join(b)
    return strided(both.low, min(a.high, b.high), both.modulus, both.residue)


def maximum(a: Interval, b: Interval) -> Interval:
    if a.high <= b.low or b.high <= a.low:
        return b if a.high <= b.low else a
    both = a.join(b)
    return strided(max(a.low, b.low), both.high, both.modulus, both.residue)


def _known_bits(a: Interval, b: Interval) -> int:
    """``2**k`` such that the lowest k bits of both sides are those of their residues; 0 for all bits."""
    both = gcd(a.modulus, b.modulus)
    return both & -both


def bit_and(a: Interval, b: Interval) -> Interval:
    modulus, residue = _known_bits(a, b), a.residue & b.residue
    for side in (a, b):
        zeros = side.residue & -side.residue if side.is_point else 0
        if 0 < modulus < zeros:
            modulus, residue = zeros, 0
    nonnegative = [side.high for side in (a, b) if side.low >= 0]
    if not nonnegative:
        return _bitwise(a, b, modulus, residue)
    return strided(0, min(nonnegative), modulus, residue)


def _bitwise(a: Interval, b: Interval, modulus: int, residue: int) -> Interval:
    bits = max(abs(end).bit_length() for end in (*a[:2], *b[:2]))
    low = 0 if a.low >= 0 and b.low >= 0 else -(1 << bits)
    return strided(low, (1 << bits) - 1, modulus, residue)


def bit_or(a: Interval, b: Interval) -> Interval:
    return _bitwise(a, b, _known_bits(a, b), a.residue | b.residue)


def bit_xor(a: Interval, b: Interval) -> Interval:
    return _bitwise(a, b, _known_bits(a, b), a.residue ^ b.residue)


def _decided(yes: bool, no: bool) -> Interval:
    return point(1) if yes else point(0) if no else Interval(0, 1)


def less(a: Interval, b: Interval) -> Interval:
    return _decided(a.high < b.low, a.low >= b.high)


def at_most(a: Interval, b: Interval) -> Interval:
    return _not(less(b, a))


def greater(a: Interval, b: Interval) -> Interval:
    return less(b, a)


def at_least(a: Interval, b: Interval) -> Interval:
    return _not(less(a, b))


def equal(a: Interval, b: Interval) -> Interval:
    apart = a.high < b.low or b.high < a.low or (a.residue - b.residue) % (gcd(a.modulus, b.modulus) or 1) != 0
    return _decided(a.is_point and b.is_point and a.low == b.low, apart)


def unequal(a: Interval, b: Interval) -> Interval:
    return _not(equal(a, b))


def _not(a: Interval) -> Interval:
    return point(1).plus(a.scaled(-1))
