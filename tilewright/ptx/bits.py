"""Values as the bits of registers, and types of PTX as the unsigned integers that these are."""

from __future__ import annotations

from tilewright.dtypes import BOOL, DType, dtype
from tilewright.ir import AddressOf, Buffer, Const, Expr, Reinterpret, as_expr, cast
from tilewright.ptx.names import element_bytes


def unsigned(bits: int) -> DType:
    """The dtype of so many bits."""
    return BOOL if bits == 1 else dtype(f"uint{bits}")


def raw_dtype(kind: str) -> DType:
    """The unsigned integer as wide as a type, by PTX's word."""
    return unsigned(8 * element_bytes(kind))


def start_of(buffer: Buffer) -> Expr:
    """The address at which a buffer begins, in 64 bits."""
    return cast(AddressOf(buffer, (as_expr(0),)), dtype("uint64"))


def bits_of(value: Expr, kind: DType) -> Expr:
    """A value as bits of ``kind``, which may be wider: filled by the value's sign then, or with zeros."""
    held = value.dtype
    if held == kind or kind.kind == "bool" or held.kind in ("bool", "handle"):
        return cast(value, kind)
    if held.is_signed and kind.bits > held.bits:
        value = cast(value, dtype(f"int{kind.bits}"))
    if value.dtype.kind != "uint":
        same = unsigned(value.dtype.bits)
        value = cast(value, same) if isinstance(value, Const) and not held.is_float else Reinterpret(value, same)
    return cast(value, kind)
