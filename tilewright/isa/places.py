"""What ld, st, atom and red have in common: the memory that an address leads into, the scope of threads, and the
dtypes.

Source: PTX ISA, "State Spaces" and "Memory Consistency Model: Scope".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from tilewright.dtypes import HANDLE, dtype
from tilewright.errors import InstructionError
from tilewright.ir import AddressOf, Expr, Load, Reinterpret, as_expr
from tilewright.isa.arch import ARCHS, Requirement, since
from tilewright.isa.registers import integer_dtype
from tilewright.isa.table import Bound, Mods, Spellings

# Operands that are addresses: what a caller may give for one of each memory.


UINT64 = dtype("uint64")


def _address(what: str, value: object) -> Expr:
    expr = as_expr(value, integer_dtype(value))  # type: ignore[arg-type]  # as_expr refuses what is no value
    if expr.dtype.kind not in ("handle", "int", "uint") or expr.dtype.bits < 32:
        raise InstructionError(
            f"{what} is an address",
            given=f"{expr}, {expr.dtype}",
            allowed="a pointer, or an integer of 32 or 64 bits",
            hint=f"T.address_of({expr})" if isinstance(expr, Load) else None,
        )
    return expr


def _shared_address(what: str, value: object) -> Expr:
    expr = _inside(_address(what, value), what, "shared", "a shared buffer")
    return Reinterpret(expr, HANDLE) if expr.dtype == UINT64 else expr  # a generic address, as `map_shared_rank` gives


def _global_address(what: str, value: object) -> Expr:
    return _inside(_address(what, value), what, "global", "the buffer of an argument")


def _inside(expr: Expr, what: str, memory: str, allowed: str) -> Expr:
    """The address. Raises InstructionError where it leads to another memory."""
    if isinstance(expr, AddressOf) and expr.buffer.space.partition(".")[0] != memory:
        text = f"{expr}, in {expr.buffer.space} memory"
        raise InstructionError(f"{what} is an address in {memory} memory", given=text, allowed=allowed)
    return expr


def _tmem_address(what: str, value: object) -> Expr:
    expr = as_expr(value, integer_dtype(value))  # type: ignore[arg-type]  # as_expr refuses what is no value
    if expr.dtype.kind not in ("int", "uint") or expr.dtype.bits != 32:
        points = isinstance(expr, AddressOf) and expr.buffer.dtype.bits == 32 and len(expr.indices) == 1
        raise InstructionError(
            f"{what} is an address of tensor memory",
            given=f"{expr}, {expr.dtype}",
            allowed="an integer of 32 bits, as tcgen05.alloc leaves it in shared memory",
            hint=f"{expr.buffer.name}[{expr.indices[0]}]" if isinstance(expr, AddressOf) and points else None,
        )
    return expr


ADDRESS: Mapping[str, Callable[[str, object], Expr]] = {
    **dict.fromkeys(("generic", "place"), _address),
    "global": _global_address,
    "shared": _shared_address,
    "tmem": _tmem_address,
}
"""By the kind of an operand: its value as an address. Each raises InstructionError for what is none."""


class SpaceReach(NamedTuple):
    """A memory by its modifier ``space``: how it is spelled, what an `Access` calls it, what `execute` runs on."""

    spellings: Spellings
    space: str
    on: str
    first: str = "sm_75"


class Scopes(NamedTuple):
    """Values of the modifier ``scope`` that came with the same architecture."""

    spellings: Spellings
    first: str = "sm_75"


GENERIC = SpaceReach({None: ""}, "generic", "memory")
DEVICE = SpaceReach({"global": ".global"}, "global", "memory")
OWN: Spellings = {"shared": ".shared", "shared::cta": ".shared::cta"}  # the CTA's own shared memory
SHARED = (
    SpaceReach(OWN, "shared", "shared"),
    SpaceReach({"shared::cluster": ".shared::cluster"}, "shared", "shared", "sm_90"),
)
EVERYWHERE = (GENERIC, DEVICE, *SHARED)
NO_SCOPE = (Scopes({None: ""}),)
SCOPES = (Scopes({"cta": ".cta", "gpu": ".gpu", "sys": ".sys"}), Scopes({"cluster": ".cluster"}, "sm_90"))


def newer(*firsts: str) -> Requirement:
    """The requirement of the newest of these architectures."""
    return since(max(firsts, key=list(ARCHS).index))


def nbytes(mods: Mods) -> int:
    """The bytes of one element of the modifier ``dtype``."""
    return dtype(str(mods["dtype"])).bits // 8


def sem_of(mods: Mods) -> str:
    """The modifier ``sem`` as an `Access` has it."""
    return "relaxed" if mods["sem"] == "mmio" else str(mods["sem"])


def scope_of(mods: Mods) -> str:
    """The scope of a strong access; what names none is of the system."""
    return "" if mods["sem"] == "weak" else str(mods["scope"] or "sys")


def everywhere(
    scopes: tuple[Scopes, ...], reaches: tuple[SpaceReach, ...] = EVERYWHERE
) -> Iterator[tuple[SpaceReach, Scopes]]:
    """Each memory with each group of scopes."""
    for reach in reaches:
        for some in scopes:
            yield reach, some


def check_place(bound: Bound) -> None:
    """Raises InstructionError for a pointer into another memory than ``space`` names, or a short address there."""
    space, (pointer,) = bound.mods["space"], bound.operands["ptr"]
    shared = str(space).startswith("shared")
    if isinstance(pointer, AddressOf) and space is not None and (pointer.buffer.space == "shared") != shared:
        raise InstructionError(
            f"T.{bound.instruction.name}: space={space!r} and a pointer into {pointer.buffer.space} memory",
            given=str(pointer),
            allowed="space=None for any pointer",
        )
    if pointer.dtype.bits < 64 and not shared:
        raise InstructionError(
            f"T.{bound.instruction.name}: ptr is an address of 64 bits",
            given=f"{pointer}, {pointer.dtype}",
            allowed="a pointer; space='shared::cta' or 'shared::cluster' for an address in shared memory",
        )
