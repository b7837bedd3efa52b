"""Operands that are addresses: what a caller may give for one of each memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tilewright.dtypes import HANDLE, dtype
from tilewright.errors import InstructionError
from tilewright.ir import AddressOf, Expr, Load, Reinterpret, as_expr
from tilewright.isa.registers import integer_dtype

__all__ = ["ADDRESS"]

UINT64 = dtype("uint64")


def _address(what: str, value: object) -> Expr:
    made = as_expr(value, integer_dtype(value))  # type: ignore[arg-type]  # as_expr refuses what is no value
    if made.dtype.kind not in ("handle", "int", "uint") or made.dtype.bits < 32:
        raise InstructionError(
            f"{what} is an address",
            given=f"{made}, {made.dtype}",
            allowed="a pointer, or an integer of 32 or 64 bits",
            hint=f"T.address_of({made})" if isinstance(made, Load) else None,
        )
    return made


def _shared_address(what: str, value: object) -> Expr:
    made = _inside(_address(what, value), what, "shared", "a shared buffer")
    return Reinterpret(made, HANDLE) if made.dtype == UINT64 else made  # a generic address, as `map_shared_rank` gives


def _global_address(what: str, value: object) -> Expr:
    return _inside(_address(what, value), what, "global", "the buffer of an argument")


def _inside(made: Expr, what: str, memory: str, allowed: str) -> Expr:
    """The address. Raises InstructionError where it leads to another memory."""
    if isinstance(made, AddressOf) and made.buffer.space.partition(".")[0] != memory:
        given = f"{made}, in {made.buffer.space} memory"
        raise InstructionError(f"{what} is an address in {memory} memory", given=given, allowed=allowed)
    return made


def _tmem_address(what: str, value: object) -> Expr:
    made = as_expr(value, integer_dtype(value))  # type: ignore[arg-type]  # as_expr refuses what is no value
    if made.dtype.kind not in ("int", "uint") or made.dtype.bits != 32:
        points = isinstance(made, AddressOf) and made.buffer.dtype.bits == 32 and len(made.indices) == 1
        raise InstructionError(
            f"{what} is an address of tensor memory",
            given=f"{made}, {made.dtype}",
            allowed="an integer of 32 bits, as tcgen05.alloc leaves it in shared memory",
            hint=f"{made.buffer.name}[{made.indices[0]}]" if isinstance(made, AddressOf) and points else None,
        )
    return made


ADDRESS: Mapping[str, Callable[[str, object], Expr]] = {
    **dict.fromkeys(("generic", "place"), _address),
    "global": _global_address,
    "shared": _shared_address,
    "tmem": _tmem_address,
}
"""By the kind of an operand: its value as an address. Each raises InstructionError for what is none."""
