"""Values as the bits of registers, and types of PTX as dtypes."""

from __future__ import annotations

from tilewright.dtypes import BOOL, DType, dtype
from tilewright.ir import Const, Expr, Reinterpret, cast
from tilewright.ptx.names import element_bytes

__all__ = ["bits_of", "number_dtype", "unsigned"]


def number_dtype(kind: str) -> DType:
    """The dtype of a number, by PTX's word for its type; for other types the unsigned integer of that width."""
    if kind[0] in "su" and kind[1:].isdigit():
        return dtype(f"{'' if kind[0] == 's' else 'u'}int{kind[1:]}")
    names = {"f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64"}
    return dtype(names[kind]) if kind in names else unsigned(8 * element_bytes(kind))


def unsigned(bits: int) -> DType:
    """The dtype of so many bits."""
    return BOOL if bits == 1 else dtype(f"uint{bits}")


def bits_of(value: Expr, kind: DType) -> Expr:
    """A value as bits of ``kind``, which may be wider: filled by the value's sign then, or with zeros."""
    own = value.dtype
    if own == kind or kind.kind == "bool" or own.kind in ("bool", "handle"):
        return cast(value, kind)
    if own.is_signed and kind.bits > own.bits:
        value = cast(value, dtype(f"int{kind.bits}"))
    if value.dtype.kind != "uint":
        same = unsigned(value.dtype.bits)
        value = cast(value, same) if isinstance(value, Const) and not own.is_float else Reinterpret(value, same)
    return cast(value, kind)
