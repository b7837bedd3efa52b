"""Expressions: values that a kernel computes.

A node is frozen. Operators build nodes; ``==`` builds one too, whose *truth* is structural equality, so that nodes work
in tuples, dicts and frozen dataclasses while ``i == 0`` still means a comparison in a kernel. `tilewright.ir.build`
says what an operator builds.
"""

from __future__ import annotations

import operator
import sys
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, fields
from functools import cache
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from tilewright.dtypes import HANDLE, INT32, DType
from tilewright.errors import KernelError
from tilewright.ir.operators import of_kind
from tilewright.ir.tiles import Operated

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tilewright.ir.buffer import Buffer

__all__ = [
    "AddressOf", "Argument", "Binary", "Call", "Cast", "Component", "Const", "Expr", "Load", "Node", "Number",
    "Reinterpret", "Select", "Special", "Unary", "Value", "Var", "Vector", "Within", "const_value", "is_being_parsed",
    "same", "truth_is_an_error",
]  # fmt: skip

Number: TypeAlias = "int | float | bool"
Value: TypeAlias = "Expr | int | float | bool"
Argument: TypeAlias = "Expr | str | int | float | bool | tuple[Argument, ...] | None"

_user_code_runs: ContextVar[bool] = ContextVar("user_code_runs", default=False)


@contextmanager
def truth_is_an_error() -> Iterator[None]:
    """While a user's Python helper runs: asking an expression for its truth there raises instead of answering."""
    token = _user_code_runs.set(True)
    try:
        yield
    finally:
        _user_code_runs.reset(token)


def is_being_parsed() -> bool:
    """Is a kernel's text at work, and not a pass?"""
    return _user_code_runs.get()


class Node:
    """What passes go over: expressions, buffers, statements. ``_walked`` is what `tilewright.ir.walk` found in one."""

    __slots__ = ("_walked",)
    _walked: tuple[Expr, ...]


class Expr(Node, Operated["Value", "Expr"]):
    """The base of all expression nodes. ``dtype`` is the type of its value."""

    __slots__ = ("_hash",)
    _hash: int  # computed once: expressions are keys of many tables
    dtype: DType
    __array_ufunc__ = None  # NumPy's ufuncs refuse expressions instead of wrapping them in object arrays

    def __eq__(self, other: object) -> Expr:  # type: ignore[override]  # builds a node; see the module's docstring
        return build.compare("==", self, other)

    def __ne__(self, other: object) -> Expr:  # type: ignore[override]
        return build.compare("!=", self, other)

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            value = hash((type(self), _parts(type(self))(self)))  # type: ignore[arg-type]  # classes are hashable
            object.__setattr__(self, "_hash", value)
            return value

    def __bool__(self) -> bool:
        if _user_code_runs.get() and not str(sys._getframe(1).f_globals.get("__name__")).startswith("tilewright"):
            raise KernelError(
                f"the truth of `{self}` is not known while the kernel is parsed",
                given="a Python `if`, `and`, `or` or `not` in a helper, on a value of run time",
                allowed="Python values in helpers; run-time conditions in the kernel itself",
                hint="T.select(cond, a, b), or an `if` in the kernel",
            )
        if isinstance(self, Const):
            return bool(self.value)
        if isinstance(self, Binary) and self.op in ("==", "!="):
            return same(self.a, self.b) is (self.op == "==")
        raise KernelError(f"the truth of `{self}` is not known while the kernel is parsed")

    def __str__(self) -> str:
        from tilewright.ir.printer import show  # the printer knows every node; nodes do not know the printer

        return show(self)

    def _operated(self, op: str, left: object, right: object) -> Expr:
        return build.binary(op, left, right)  # type: ignore[arg-type]  # values, as the operators say

    def __getitem__(self, index: int) -> Expr:
        return build.component(self, index)

    @property
    def x(self) -> Expr:
        """The first component of a vector."""
        return build.named_component(self, "x")

    @property
    def y(self) -> Expr:
        """The second component of a vector."""
        return build.named_component(self, "y")

    @property
    def z(self) -> Expr:
        """The third component of a vector."""
        return build.named_component(self, "z")

    @property
    def w(self) -> Expr:
        """The fourth component of a vector."""
        return build.named_component(self, "w")

    def __neg__(self) -> Expr:
        return build.unary("-", self)

    def __invert__(self) -> Expr:
        return build.unary("~", self)


@dataclass(frozen=True, slots=True, eq=False)
class Const(Expr):
    """A number of a given dtype. Integers are kept inside the dtype's range."""

    value: Number
    dtype: DType


@dataclass(frozen=True, slots=True, eq=False)
class Var(Expr):
    """A named value: a parameter, a scope id, a loop counter, a scalar. Names are unique within a kernel."""

    name: str
    dtype: DType = INT32


@dataclass(frozen=True, slots=True, eq=False)
class Special(Expr):
    """A special register of the lowered stage; `tilewright.ir.launch` has their table."""

    name: str
    dtype: DType = INT32


@dataclass(frozen=True, slots=True, eq=False)
class Unary(Expr):
    """``-a``, ``~a`` or ``not a``."""

    op: str
    a: Expr
    dtype: DType


@dataclass(frozen=True, slots=True, eq=False)
class Binary(Expr):
    """``a op b`` on operands of one dtype. ``//`` and ``%`` floor; ``truncdiv`` and ``truncmod`` are C's."""

    op: str
    a: Expr
    b: Expr
    dtype: DType

    ARITHMETIC: ClassVar[tuple[str, ...]] = of_kind("arithmetic")
    BITS: ClassVar[tuple[str, ...]] = of_kind("bits")
    COMPARISONS: ClassVar[tuple[str, ...]] = of_kind("comparison")
    LOGIC: ClassVar[tuple[str, ...]] = of_kind("logic")


@dataclass(frozen=True, slots=True, eq=False)
class Select(Expr):
    """``a`` where ``cond``, else ``b``. Only the chosen side is evaluated by a lane (so a guarded load is safe)."""

    cond: Expr
    a: Expr
    b: Expr
    dtype: DType


@dataclass(frozen=True, slots=True, eq=False)
class Cast(Expr):
    """The value of ``a`` as ``dtype``: C's conversion between integers; float to int truncates, saturates, NaN is 0."""

    a: Expr
    dtype: DType


@dataclass(frozen=True, slots=True, eq=False)
class Reinterpret(Expr):
    """The bits of ``a`` as ``dtype``, of the same size."""

    a: Expr
    dtype: DType


@dataclass(frozen=True, slots=True)
class Within:
    """The condition ``0 <= index < extent`` in a dimension of the buffer ``name``, for ``span`` elements of a vector.

    dim: or `STORAGE`: the index is an offset in elements. by: the tile call of the region. hint: what
    would let the region leave its buffer.
    """

    index: Expr
    extent: Expr
    name: str
    dim: int
    by: str = field(default="", compare=False)
    hint: str | None = field(default=None, compare=False)
    implied: bool = field(default=False, compare=False)
    span: int = 1
    STORAGE: ClassVar[int] = -1


def unproven() -> tuple[Within, ...]:
    """The conditions of an access that the facts have not proven. Equality ignores them; the simulator checks them."""
    return field(default=(), compare=False, repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class Vector(Expr):
    """A vector of these components, each of the element dtype."""

    parts: tuple[Expr, ...]
    dtype: DType


@dataclass(frozen=True, slots=True, eq=False)
class Component(Expr):
    """Component ``index`` of the vector ``a``."""

    a: Expr
    index: int

    @property
    def dtype(self) -> DType:  # type: ignore[override]  # a field in most nodes, follows from the vector here
        return self.a.dtype.element


@dataclass(frozen=True, slots=True, eq=False)
class Load(Expr):
    """The element at logical ``indices``; in the lowered stage the one index is the element offset in flat storage.

    As an instruction's register operand it is a *place*, which the instruction reads or writes.
    """

    buffer: Buffer
    indices: tuple[Expr, ...]
    owed: tuple[Within, ...] = unproven()

    @property
    def dtype(self) -> DType:  # type: ignore[override]  # a field in most nodes, follows from the buffer here
        return self.buffer.dtype


@dataclass(frozen=True, slots=True, eq=False)
class AddressOf(Expr):
    """A pointer to the element at ``indices``; without indices to the start of the buffer's storage (``buf.data``)."""

    buffer: Buffer
    indices: tuple[Expr, ...] = ()
    owed: tuple[Within, ...] = unproven()

    @property
    def dtype(self) -> DType:  # type: ignore[override]
        return HANDLE


class _Bound(Expr):
    """What `tilewright.isa.bind` finds of a call is kept with it."""

    __slots__ = ("_bound",)
    _bound: object


@dataclass(frozen=True, slots=True, eq=False)
class Call(_Bound):
    """``T.<op>(*args, **attrs)``: an instruction or intrinsic of the table in `tilewright.isa`.

    Modifiers stay plain Python values, operands are expressions, both in the order of the language. Build one with
    `tilewright.isa.call`, which checks it; ``tilewright.isa.bind`` gives its row, modifiers and operands.
    """

    op: str
    args: tuple[Argument, ...]
    attrs: tuple[tuple[str, Argument], ...]
    dtype: DType


def const_value(value: object) -> Number | None:
    """The Python number that ``value`` is known to be, or None."""
    if isinstance(value, Const):
        return value.value
    return value if isinstance(value, (bool, int, float)) else None


def same(a: object, b: object) -> bool:
    """Structural equality of two expressions (or tuples of them, or plain values)."""
    if a is b:
        return True
    if isinstance(a, Expr) or isinstance(b, Expr):
        if type(a) is not type(b):
            return False
        parts = _parts(type(a))  # type: ignore[arg-type]  # a class is hashable
        return same(parts(a), parts(b))
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float) and isinstance(b, float):
        return a.hex() == b.hex()  # tells -0.0 from 0.0, and a NaN is itself
    return type(a) is type(b) and bool(a == b)


@cache
def _parts(kind: type) -> Callable[[object], tuple[object, ...]]:
    """A function that gives the fields that a node consists of; each node has two or more."""
    return operator.attrgetter(*(f.name for f in fields(kind) if f.compare))


from tilewright.ir import build  # noqa: E402  # at the end: building stands on the nodes above
