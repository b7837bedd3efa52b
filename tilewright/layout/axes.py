"""The table of axes, what a physical coordinate can be counted in; and what a layout may ask about its numbers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import permutations
from typing import Any, ClassVar, NamedTuple, Protocol, TypeAlias

import numpy as np

from tilewright.errors import LayoutError, choices, described, quoted
from tilewright.public import Kind, Public, instances, plain_number, sequence_of

__all__ = [
    "AXES", "COMPOSITIONS", "SCOPES", "THREADS_IN", "Axis", "AxisDistances", "Composition", "F", "OnAxis", "P",
    "ScopeName", "TCol", "TLane", "bank", "bx", "by", "bz", "cbx", "cby", "cbz", "laneid", "m", "pid", "tid_in_wg",
    "tx", "warpid", "wgid", "wid_in_wg",
]  # fmt: skip


# What a layout may ask about its numbers, so that an int, a NumPy array and an expression walk the same code.


Value: TypeAlias = Any
"""An int, a NumPy array of ints or an expression: anything with ``+ - * // % & ^ << >>``.

`Any`, because the room knows expressions by their operators alone and NumPy's operators are typed no closer.
"""


class Facts(Protocol):
    """What is known of symbolic values. Each question answers True only where it is *proven*."""

    def divides(self, n: Value, value: Value) -> bool:
        """Is ``value`` a multiple of ``n``?"""

    def equal(self, a: Value, b: Value) -> bool:
        """Are both the same number, whatever the variables are?"""

    def less(self, a: Value, b: Value) -> bool:
        """Is ``a < b``?"""

    def simplify(self, value: Value) -> Value:
        """The same number in a simpler form; an int where it is constant."""


class _Ints:
    """Exact for ints; an expression equals itself, and nothing else is known of it."""

    def divides(self, n: Value, value: Value) -> bool:
        divisor, number = as_int(n), as_int(value)
        if divisor is not None and number is not None:
            return divisor != 0 and number % divisor == 0
        return divisor == 1 or number == 0 or self.equal(n, value)

    def equal(self, a: Value, b: Value) -> bool:
        return a is b or bool(a == b)

    def less(self, a: Value, b: Value) -> bool:
        low, high = as_int(a), as_int(b)
        return low is not None and high is not None and low < high

    def simplify(self, value: Value) -> Value:
        number = as_int(value)
        return value if number is None else number


INTS: Facts = _Ints()


def as_int(value: Value) -> int | None:
    """The Python int that a value is, or None for an expression."""
    if type(value) is int:
        return value
    return int(value) if isinstance(value, int | np.integer) else None


def are_equal(a: Value, b: Value, facts: Facts) -> bool:
    """Are both proven to be the same number? Of ints nobody is asked."""
    return bool(a == b) if type(a) is int is type(b) else facts.equal(a, b)


def simplified(value: Value, facts: Facts) -> Value:
    """The same number in a simpler form, as an int has it already."""
    return value if type(value) is int else facts.simplify(value)


def _is_symbolic(value: object) -> bool:
    """Is the value an expression: it has the operators of an integer and is no array?"""
    kind = type(value)
    return hasattr(kind, "__floordiv__") and hasattr(kind, "__xor__") and not hasattr(kind, "__array__")


def _is_array(value: object) -> bool:
    return isinstance(value, np.ndarray) and not isinstance(value, np.ma.MaskedArray) and value.dtype == np.int64


def _plain_index(value: Any) -> Any:
    """An index in NumPy's type that computes without wrapping; all else as it is."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "iu":
        wide = value.astype(np.int64)
        return value if wide.dtype != value.dtype and (wide < 0).any() != (value < 0).any() else wide
    return plain_number(value)


NUMBER = Kind(
    "an int or an integer expression", lambda value: isinstance(value, int) or _is_symbolic(value), plain_number
)
INDEX = Kind(
    "an int, an integer expression or a NumPy array of ints", lambda v: NUMBER.fits(v) or _is_array(v), _plain_index
)
ASKED = tuple(name for name in vars(Facts) if not name.startswith("_"))


def _is_region(value: object) -> bool:
    pairs = isinstance(value, tuple | list) and all(isinstance(pair, tuple | list) for pair in value)
    return pairs and all(len(pair) == 2 and all(map(NUMBER.fits, pair)) for pair in value)  # type: ignore[attr-defined]


def _are_ends(value: object) -> bool:
    return isinstance(value, tuple | list) and _is_region([pair for pair in value if not isinstance(pair, range)])


public = Public(
    LayoutError,
    {
        "Value": NUMBER,
        **dict.fromkeys(("*coord: Value", "value: Value", "**inputs: Value"), INDEX),
        "thread: Any": Kind(INDEX.allowed, lambda v: INDEX.fits(v) or INDEX.fits(_plain_index(v))),  # of its own type
        "coord: Sequence[Value]": sequence_of(INDEX),
        "Table": instances("what `table` made", dict),
        "Facts": Kind(
            "INTS, or what answers " + ", ".join(ASKED), lambda v: all(hasattr(type(v), name) for name in ASKED)
        ),
        "Ends": Kind("(begin, end) or a range for each dimension: [(0, 8), range(16, 32)]", _are_ends, plain_number),
        "Region": Kind("(start, extent) for each dimension: [(0, 8), (16, 16)]", _is_region, plain_number),
    },
    inside=True,
)
"""The decorator of this room's public functions."""


def checked(value: Value, what: str, kind: Kind = NUMBER) -> Value:
    """A value that a layout may hold: an int or an expression. Raises LayoutError for what is none."""
    number = as_int(value)
    if number is not None:
        return number
    if not kind.fits(value):
        raise LayoutError(f"{what} must be an integer", given=described(value), allowed=kind.allowed)
    return value


def listed(values: Iterable[Value]) -> str:
    """A shape or a coordinate as text: expressions as they are written, not as they are represented."""
    return f"({', '.join(map(str, values))})"


def plus(a: Value, b: Value) -> Value:
    """``a + b``, without writing a zero into an expression."""
    if as_int(a) == 0:
        return b
    return a if as_int(b) == 0 else a + b


def times(a: Value, b: Value) -> Value:
    """``a * b``, without writing a factor of one or zero into an expression."""
    if as_int(a) == 1 or as_int(b) == 0:
        return b
    return a if as_int(b) == 1 or as_int(a) == 0 else a * b


def product(values: Iterable[Value]) -> Value:
    """The product, 1 for none."""
    total: Value = 1
    for value in values:
        total = times(total, value)
    return total


# The table of axes: what a physical coordinate can be counted in.
#
# A row is an axis: add one here, and its name to ``__all__``. From the scopes of a thread axis follow how many there
# are, how it composes with others, and which number on it a thread has (`Axis.of_thread`); `tilewright.ir.launch` makes
# of it the expression that both back ends read.


AXES: dict[str, Axis] = {}
"""Every axis by its name, filled by the rows below."""

ALIASES = {"Bank": "bank"}
"""Names of axes as others write them."""

THREADS_IN = {"thread": 1, "warp": 32, "warpgroup": 128}
"""Threads of the scopes that always have the same number."""

SCOPES = (*THREADS_IN, "cta", "cluster", "kernel", "world")
"""Execution scopes, the narrowest first."""


class ScopeName(str):
    """An execution scope by its name, which is also its ``name``."""

    __slots__ = ()

    @property
    def name(self) -> str:
        """The name: thread, warp, warpgroup, cta, cluster, kernel or world."""
        return str(self)


class UnknownAxis(LayoutError, AttributeError):
    """A name that no axis has. Also an AttributeError, so that hasattr and getattr with a default work."""

    def __init__(self, name: object) -> None:
        super().__init__(f"unknown axis {quoted(name)}", given=name, allowed=choices(name, AXES))


def _found(name: object) -> Axis:
    axis = AXES.get(ALIASES.get(name, name)) if isinstance(name, str) else None
    if axis is None:
        raise UnknownAxis(name)
    return axis


class _ByName(type):
    """Lets ``Axis.laneid`` find the row called laneid."""

    def __getattr__(cls, name: str) -> Axis:
        return _found(name)


@public.constructor
@public.kind_of("an axis, such as laneid")
@dataclass(frozen=True, slots=True)
class Axis(metaclass=_ByName):
    """A named direction of physical coordinates. ``4 @ laneid`` is a distance of 4 along one.

    kind: memory, thread, block or device. scope and subscope: the axis counts the subscopes inside one scope
    (laneid: the threads of a warp); empty for memory. bound: how many there are, where hardware fixes it. register: the
    special register with the thread's own number; empty where that is arithmetic on another axis's.

    >>> Axis.laneid.get_scope(), Axis.get("laneid").get_subscope()
    ('warp', 'thread')
    """

    name: str
    kind: str = "memory"
    scope: str = ""
    subscope: str = ""
    bound: int | None = None
    register: str = ""

    __array_ufunc__: ClassVar[None] = None  # so that NumPy integers leave `@` to us

    @staticmethod
    def get(name: str | Axis) -> Axis:
        """The axis of that name. Raises LayoutError for a name that is not in the table."""
        if isinstance(name, Axis):
            return name
        return _found(name)

    def is_thread(self) -> bool:
        """Does it count threads, or groups of them, inside a CTA?"""
        return self.kind == "thread"

    def is_memory(self) -> bool:
        """Does it count places in a memory?"""
        return self.kind == "memory"

    def get_scope(self) -> ScopeName:
        """The execution scope inside which it counts; empty for memory."""
        return ScopeName(self.scope)

    def get_subscope(self) -> ScopeName:
        """What it counts; empty for memory."""
        return ScopeName(self.subscope)

    @property
    def each(self) -> int:
        """The number of threads between two neighbouring coordinates on this thread axis."""
        return THREADS_IN[self.subscope]

    @public
    def of_thread(self, thread: Any) -> Any:
        """The coordinate on this thread axis of a thread of the CTA, given by its index: an int, or an array of them.

        >>> Axis.wid_in_wg.of_thread(200)
        2
        """
        number = thread if self.each == 1 else thread // self.each
        return number if self.bound is None else number % self.bound

    def __matmul__(self, value: object) -> OnAxis:
        raise LayoutError("a distance stands before its axis", given=f"{self} @ {value}", allowed=f"4 @ {self}")

    def __rmatmul__(self, value: Value) -> OnAxis:
        return OnAxis(value, self)

    def __str__(self) -> str:
        return self.name

    __repr__ = __str__


@public.kind_of("a distance along an axis: 4 @ laneid")
@public.fields
@dataclass(frozen=True, slots=True)
class OnAxis:
    """A distance along an axis: a stride, or an offset.

    >>> 4 @ laneid, 64 @ m
    (4@laneid, 64)
    """

    value: Value
    axis: Axis

    def __post_init__(self) -> None:
        object.__setattr__(self, "axis", Axis.get(self.axis))
        object.__setattr__(self, "value", checked(self.value, f"a distance along {self.axis}", INDEX))

    def __add__(self, other: OnAxis | AxisDistances | int) -> AxisDistances:
        return AxisDistances((self,)) + other

    def __radd__(self, other: int) -> AxisDistances:
        return AxisDistances((self,)) + other

    def __str__(self) -> str:
        text = str(self.value)
        if not text.lstrip("-").isalnum():
            text = f"({text})"
        return text if self.axis.name == "m" else f"{text}@{self.axis}"

    __repr__ = __str__


@public.constructor
@public.kind_of("a sum of distances along axes: 2 @ warpid + 64")
@dataclass(frozen=True, slots=True)
class AxisDistances:
    """A sum of distances, waiting for the layout that it moves.

    >>> 2 @ warpid + 64
    2@warpid + 64
    """

    terms: tuple[OnAxis, ...]

    def __add__(self, other: OnAxis | AxisDistances | int) -> AxisDistances:
        if isinstance(other, AxisDistances):
            return AxisDistances((*self.terms, *other.terms))
        if isinstance(other, OnAxis):
            return AxisDistances((*self.terms, other))
        if public.kind("Layout").fits(other):
            return NotImplemented  # the layout takes the offset, or says why not
        return AxisDistances((*self.terms, OnAxis(other, m)))

    def __radd__(self, other: int) -> AxisDistances:
        return self + other

    def __str__(self) -> str:
        return " + ".join(map(str, self.terms))

    __repr__ = __str__


class Composition(NamedTuple):
    """``whole = factor * outer + inner``, with ``0 <= inner < factor``."""

    whole: Axis
    outer: Axis
    factor: int
    inner: Axis


def _axis(
    name: str, kind: str = "memory", scope: str = "", subscope: str = "", bound: int | None = None, register: str = ""
) -> Axis:
    if scope in THREADS_IN:
        bound = THREADS_IN[scope] // THREADS_IN[subscope]
    return AXES.setdefault(name, Axis(name, kind, scope, subscope, bound, register))


m = _axis("m")
TLane = _axis("TLane", bound=128)  # lane of tensor memory
TCol = _axis("TCol")  # column of tensor memory, in elements of the buffer
P = _axis("P")  # partition of a two-dimensional scratch memory
F = _axis("F")  # place within its partition
bank = _axis("bank")
laneid = _axis("laneid", "thread", "warp", "thread", register="laneid")
wid_in_wg = _axis("wid_in_wg", "thread", "warpgroup", "warp")
tid_in_wg = _axis("tid_in_wg", "thread", "warpgroup", "thread")
warpid = _axis("warpid", "thread", "cta", "warp", register="warpid")
wgid = _axis("wgid", "thread", "cta", "warpgroup")
tx = _axis("tx", "thread", "cta", "thread", register="tid")
cbx = _axis("cbx", "block", "cluster", "cta")
cby = _axis("cby", "block", "cluster", "cta")
cbz = _axis("cbz", "block", "cluster", "cta")
bx = _axis("bx", "block", "kernel", "cta")
by = _axis("by", "block", "kernel", "cta")
bz = _axis("bz", "block", "kernel", "cta")
pid = _axis("pid", "device", "world", "kernel")

COMPOSITIONS = tuple(
    Composition(whole, outer, outer.each // inner.each, inner)
    for whole, inner, outer in permutations(filter(Axis.is_thread, AXES.values()), 3)
    if (outer.scope, outer.subscope, inner.subscope) == (whole.scope, inner.scope, whole.subscope)
)
"""How pairs of thread axes compose to a wider axis: the inner axis counts parts of what the outer axis counts."""
