"""Python's operators of two operands, for classes that say what an operator makes."""

from __future__ import annotations

from typing import Generic, TypeVar

__all__ = ["Operated"]

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
