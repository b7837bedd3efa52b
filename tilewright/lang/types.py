"""Types as a kernel writes them: ``T.float16``, ``T.float32[8]``, ``T.let``, ``T.constexpr``, ``T.Buffer(...)``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilewright.dtypes import HANDLE, DType, dtype
from tilewright.errors import InstructionError, KernelError, choices
from tilewright.ir import Computed, Expr, Tiled, cast, const_value, vector
from tilewright.lang.builder import current

if TYPE_CHECKING:
    from tilewright.layout import Layout

__all__ = [
    "ALIASES",
    "EXPORTS",
    "ArrayType",
    "BufferType",
    "LetType",
    "MapType",
    "Marker",
    "TensorMap",
    "TypeName",
    "UnknownInstruction",
    "UnknownName",
    "constexpr",
    "let",
]

_NOTHING = object()
WRITTEN = ("inf", "-inf", "nan")  # the numbers that Python has no literal for


class UnknownName(KernelError, AttributeError):
    """A name that ``T`` or ``Tx`` lacks. Also an AttributeError, so that hasattr and getattr with a default work."""


class UnknownInstruction(InstructionError, AttributeError):
    """A name that ``T.ptx``, ``T.cuda`` or another namespace of instructions lacks."""


class TypeName(DType):
    """``T.float16``: a dtype that also builds values of it, ``T.float16(x)``, and array types, ``T.float16[8]``.

    A vector, ``T.float32x4(a, b, c, d)``, takes its components, or one value for all of them.

    ``n = T.int32()`` without a value is a symbolic extent of the arguments.
    """

    def __call__(self, value: object = _NOTHING, *more: object) -> Expr:
        kind = dtype(str(self))
        if more:
            return vector((value, *more), kind)  # type: ignore[arg-type]  # cast refuses what is no value
        if value is _NOTHING:
            return current(f"T.{self}()").symbol(kind)
        if isinstance(value, Tiled):
            return Computed("cast", (value,), (), str(kind))  # type: ignore[return-value]  # a tile's elements
        if isinstance(value, str):
            if value not in WRITTEN:
                raise KernelError(f"T.{self} of a string", given=repr(value), allowed=choices(value, WRITTEN))
            value = float(value)
        return cast(value, kind)  # type: ignore[arg-type]  # cast refuses what is no value

    def __getitem__(self, shape: object) -> ArrayType:  # type: ignore[override]  # a dtype's letters are of no use
        return ArrayType(dtype(str(self)), shape if isinstance(shape, tuple) else (shape,))

    def __repr__(self) -> str:
        return f"T.{self}"


@dataclass(frozen=True, slots=True)
class ArrayType:
    """``v: T.float32[8]``: a local array."""

    dtype: DType
    shape: tuple[object, ...]


@dataclass(frozen=True, slots=True)
class PointerType:
    """``T.PointerType(T.PrimType("uint64"))``: the type of a pointer, whose dtype is handle."""

    to: object
    scope: str = ""


@dataclass(frozen=True, slots=True)
class VarType:
    """``T.Var(name="p", dtype="int32")``: what a ``T.let`` may be declared as. Its name is that of the target."""

    name: str
    dtype: DType


def prim_type(kind: str) -> TypeName:
    """``T.PrimType("uint64")``: the dtype."""
    return TypeName(_dtype(kind, "T.PrimType"))


def var_type(name: str = "", dtype: object = None, ty: object = None) -> VarType:
    """A variable with a dtype, or with a type that is a pointer: the annotation of a ``T.let``."""
    kind = ty if dtype is None else dtype
    return VarType(name, HANDLE if isinstance(kind, PointerType) else _dtype(kind, f"the variable {name}"))


def constant(kind: str, value: float) -> Expr:
    """``T.FloatImm("float32", 1.0)``, ``T.IntImm("int32", 1)``: a constant of a dtype."""
    made = cast(value, _dtype(kind, "a constant"))
    if const_value(made) is None:
        raise KernelError("a constant has a number", given=f"`{value}`", allowed="a Python number", hint=f"T.{kind}(x)")
    return made


def _dtype(kind: object, what: str) -> DType:
    if not isinstance(kind, str):
        raise KernelError(f"{what} has a dtype", given=f"`{kind}`", allowed='a name such as "uint64", or T.uint64')
    return dtype(str(kind))


@dataclass(frozen=True, slots=True)
class LetType:
    """``y: T.let = value`` is never assigned again; ``T.let[T.int64]`` converts the value first.

    ``T.let[T.Var("y", "int64")]`` says the same.
    """

    dtype: DType | None = None

    def __getitem__(self, kind: object) -> LetType:
        return LetType(kind.dtype if isinstance(kind, VarType) else _dtype(kind, "T.let"))


@dataclass(frozen=True, slots=True)
class Marker:
    """``N: T.constexpr``, keyword-only under ``@T.jit``: a Python value, given by ``.specialize(N=64)``."""

    name: str


@dataclass(frozen=True, slots=True)
class MapType:
    """``m: T.TensorMap``, also called without arguments: a parameter that is a tensor map."""

    def __call__(self) -> MapType:
        return self


TensorMap = MapType()
ALIASES = {
    f"{letter}{bits}": f"{word}{bits}" for letter, word in (("i", "int"), ("u", "uint")) for bits in (8, 16, 32, 64)
}
ALIASES |= {"f16": "float16", "f32": "float32", "f64": "float64", "bf16": "bfloat16"}
"""Short names of dtypes on ``T``."""

let = LetType()
constexpr = Marker("T.constexpr")


@dataclass(frozen=True, slots=True, init=False)
class BufferType:
    """``A: T.Buffer((128, 64), "float16")``: a parameter that is an array in global memory."""

    shape: tuple[object, ...]
    dtype: str
    layout: Layout | None
    strides: tuple[object, ...] | None
    scope: str
    align: int

    def __init__(
        self,
        shape: object,
        dtype: str = "float32",
        *,
        layout: Layout | None = None,
        strides: object = None,
        scope: str = "global",
        align: int = 0,
        data: None = None,
    ) -> None:
        if not isinstance(shape, (tuple, list)):
            shape = (shape,)
        values = {"shape": tuple(shape), "dtype": dtype, "layout": layout, "scope": scope, "align": align}
        if strides is not None and not isinstance(strides, (tuple, list)):
            strides = (strides,)
        values["strides"] = None if strides is None else tuple(strides)
        for name, value in values.items():
            object.__setattr__(self, name, value)


EXPORTS: dict[str, object] = {
    "let": let,
    "TensorMap": TensorMap,
    "constexpr": constexpr,
    "PointerType": PointerType,
    "PrimType": prim_type,
    "Var": var_type,
    "FloatImm": constant,
    "IntImm": constant,
}
"""The names of ``T`` that this file defines, with what they stand for."""
