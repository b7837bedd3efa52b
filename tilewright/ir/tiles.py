"""What operators make of tiles: expressions over them, which a kernel assigns to a tile. `Operated` gives a class
Python's operators of two operands.

A tile is a buffer or a region of one. An expression over tiles is no value of one thread: a tile call computes it.
``==`` and ``!=`` of tiles mean elements in the text of a kernel only, where the parser sees them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from tilewright.errors import KernelError
from tilewright.primitives.elementwise import OPERATORS

__all__ = ["Computed", "Operated", "Reduced", "Tiled"]


# Python's operators of two operands, for classes that say what an operator makes.


Other = TypeVar("Other")
Made = TypeVar("Made")


class Operated(Generic[Other, Made]):
    """What operators are written on, next to an ``Other``: each makes a ``Made``, which `_operated` gives."""

    __slots__ = ()

    def _operated(self, op: str, left: object, right: object) -> Made:
        raise NotImplementedError

    def __add__(self, other: Other) -> Made:
        return self._operated("+", self, other)

    def __radd__(self, other: Other) -> Made:
        return self._operated("+", other, self)

    def __sub__(self, other: Other) -> Made:
        return self._operated("-", self, other)

    def __rsub__(self, other: Other) -> Made:
        return self._operated("-", other, self)

    def __mul__(self, other: Other) -> Made:
        return self._operated("*", self, other)

    def __rmul__(self, other: Other) -> Made:
        return self._operated("*", other, self)

    def __truediv__(self, other: Other) -> Made:
        return self._operated("/", self, other)

    def __rtruediv__(self, other: Other) -> Made:
        return self._operated("/", other, self)

    def __floordiv__(self, other: Other) -> Made:
        return self._operated("//", self, other)

    def __rfloordiv__(self, other: Other) -> Made:
        return self._operated("//", other, self)

    def __mod__(self, other: Other) -> Made:
        return self._operated("%", self, other)

    def __rmod__(self, other: Other) -> Made:
        return self._operated("%", other, self)

    def __and__(self, other: Other) -> Made:
        return self._operated("&", self, other)

    def __rand__(self, other: Other) -> Made:
        return self._operated("&", other, self)

    def __or__(self, other: Other) -> Made:
        return self._operated("|", self, other)

    def __ror__(self, other: Other) -> Made:
        return self._operated("|", other, self)

    def __xor__(self, other: Other) -> Made:
        return self._operated("^", self, other)

    def __rxor__(self, other: Other) -> Made:
        return self._operated("^", other, self)

    def __lshift__(self, other: Other) -> Made:
        return self._operated("<<", self, other)

    def __rlshift__(self, other: Other) -> Made:
        return self._operated("<<", other, self)

    def __rshift__(self, other: Other) -> Made:
        return self._operated(">>", self, other)

    def __rrshift__(self, other: Other) -> Made:
        return self._operated(">>", other, self)

    def __lt__(self, other: Other) -> Made:
        return self._operated("<", self, other)

    def __le__(self, other: Other) -> Made:
        return self._operated("<=", self, other)

    def __gt__(self, other: Other) -> Made:
        return self._operated(">", self, other)

    def __ge__(self, other: Other) -> Made:
        return self._operated(">=", self, other)


# Tiles, and the expressions over them.


_OTHERWISE = {"@": "Tx.warp.gemm(D, A, B)"}
_OF_INTEGERS = {
    "//": "T.floor(a / b)",
    "%": "a - b * T.floor(a / b)",
    "<<": "a * 2, for each place",
    ">>": "T.floor(a / 2), for each place",
    **dict.fromkeys("&|^", "a comparison, which has bits: a < b"),
}
"""The operators that floats do not have, and what floats have instead."""
_PRIMITIVES = {symbol: name for name, symbol in OPERATORS.items()}


class Tiled(Operated[object, "Computed"]):
    """What has elements to compute with."""

    __slots__ = ()
    __array_ufunc__ = None  # NumPy's ufuncs refuse tiles instead of wrapping them in object arrays

    def _operated(self, op: str, left: object, right: object) -> Computed:
        return Computed.of(op, left, right)

    def __pow__(self, other: object) -> Computed:
        return Computed.of("*", self, self) if other == 2 and type(other) is int else Computed.of("**", self, other)

    def __rpow__(self, other: object) -> Computed:
        return Computed.of("**", other, self)

    def __matmul__(self, other: object) -> Computed:
        return Computed.of("@", self, other)

    def __neg__(self) -> Computed:
        return Computed("neg", (self,))

    def __invert__(self) -> Computed:
        return Computed("invert", (self,))

    def __abs__(self) -> Computed:
        return Computed("abs", (self,))


class _NoTruth(Tiled):
    """An expression over tiles, which has no truth value."""

    __slots__ = ()

    def __bool__(self) -> bool:
        raise KernelError(
            f"`{self}` has an answer for each element",
            given="a condition on tiles",
            allowed="one value",
            hint="T.select(a < b, a, b); of a tile of one element t[0]",
        )


def _shown(value: object) -> str:
    """A whole buffer by its name."""
    return str(getattr(value, "name", value))


def _is_float(value: object) -> bool:
    """Is it a float, or a tile or a scalar of floats? Of an expression over tiles that is seen when it is computed."""
    kind = getattr(value, "dtype", None)
    return isinstance(value, float) or bool(getattr(kind, "is_float", False))


@dataclass(frozen=True, slots=True, eq=False)
class Computed(_NoTruth):
    """A primitive of each element. sources: tiles, expressions over tiles, and values, in the primitive's order.

    to: the dtype of a cast.
    """

    primitive: str
    sources: tuple[Any, ...]
    keywords: tuple[tuple[str, object], ...] = ()
    to: str = ""

    @staticmethod
    def of(op: str, left: object, right: object) -> Computed:
        """What an operator means. Raises KernelError for those that mean nothing for tiles."""
        if op not in _PRIMITIVES:
            raise KernelError(
                f"tiles have no operator {op}",
                given=f"{_shown(left)} {op} {_shown(right)}",
                allowed=f"{' '.join(_PRIMITIVES)}, the functions of T, or one element: an index for each dimension",
                hint=_OTHERWISE.get(op),
            )
        if op in _OF_INTEGERS and any(map(_is_float, (left, right))):
            text, allowed = (
                f"{_shown(left)} {op} {_shown(right)}, of floats",
                "tiles of integers, or of bools for & | ^",
            )
            raise KernelError(f"{op} is of integers", given=text, allowed=allowed, hint=_OF_INTEGERS[op])
        return Computed(_PRIMITIVES[op], (left, right))

    def __str__(self) -> str:
        shown = [_shown(source) for source in self.sources]
        if self.primitive in OPERATORS:
            return f"({shown[0]} {OPERATORS[self.primitive]} {shown[1]})"
        return f"T.{self.primitive}({', '.join(shown)})"


@dataclass(frozen=True, slots=True, eq=False)
class Reduced(_NoTruth):
    """A reduction. axes: numbers of dimensions; none of them: all."""

    primitive: str
    source: Any
    axes: tuple[int, ...] | None = None
    keywords: tuple[tuple[str, object], ...] = ()
    keepdims: bool = False

    def __str__(self) -> str:
        axes = self.axes[0] if self.axes is not None and len(self.axes) == 1 else self.axes
        return f"T.{self.primitive}({_shown(self.source)}{'' if axes is None else f', axis={axes}'})"
