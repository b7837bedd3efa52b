"""The table of axes: what a physical coordinate can be counted in.

A row is an axis: add one here, and its name to ``__all__``. From the scopes of a thread axis follow how many there are,
how it composes with others, and which number on it a thread has (`Axis.of_thread`); `tilewright.ir.launch` makes of it
the expression that both back ends read.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations
from typing import Any, ClassVar, NamedTuple

from tilewright.errors import LayoutError, choices, quoted
from tilewright.layout.facts import INDEX, Value, checked, public

__all__ = [
    "AXES", "COMPOSITIONS", "SCOPES", "THREADS_IN", "Axis", "AxisDistances", "Composition", "F", "OnAxis", "P",
    "ScopeName", "TCol", "TLane", "bank", "bx", "by", "bz", "cbx", "cby", "cbz", "laneid", "m", "pid", "tid_in_wg",
    "tx", "warpid", "wgid", "wid_in_wg",
]  # fmt: skip

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
