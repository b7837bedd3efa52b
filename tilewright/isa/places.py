"""Operands that are registers or addresses: of which dtype a register is, which memory an address leads into, and what
a caller may give for one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from tilewright.dtypes import BOOL, HANDLE, INT32, INT64, DType, dtype
from tilewright.errors import InstructionError
from tilewright.ir import AddressOf, Argument, Const, Expr, Load, Reinterpret, as_expr, cast, const_value
from tilewright.isa.arch import ARCHS, Requirement, since
from tilewright.isa.forms import KINDS, TYPES, Mods, Operand, Spellings
from tilewright.isa.table import Bound, Instruction

# Constants that instructions get as operands: which of them fit.


def constant(
    operand: str, fits: Callable[[int], bool], allowed: str, *, what: str = "", pattern: str = "{}"
) -> Callable[[Bound], None]:
    """The check of an operand, where it is a constant. what: it is, if its name does not say so; pattern: with a unit.

    The check raises InstructionError.
    """

    def check(bound: Bound) -> None:
        for value in bound.operands[operand]:
            number = const_value(value)
            if number is not None and not fits(int(number)):
                name = f"T.{bound.instruction.name}: {what or operand}"
                raise InstructionError(name, given=pattern.format(number), allowed=allowed)

    return check


FLOAT32 = dtype("float32")


def register_types(row: Instruction, keywords: Mapping[str, object]) -> dict[str, DType]:
    """The dtypes of operands of kind "bits"; none where no form has these modifiers."""
    registers = [operand for operand in row.operands if operand.kind == "bits"]
    mods: dict[str, Argument] = {
        name: value for name, value in keywords.items() if value is None or isinstance(value, (str, int))
    }
    if not registers or not any(form.fits(mods) for form in row.forms):
        return {}
    return {operand.name: TYPES[operand.type_of(mods)].dtype for operand in registers}


def as_bits(value: object, typed: DType, what: str) -> Expr:
    """A register of the type's width, of whatever dtype; a number as the type has it, an integer modulo its width."""
    if typed.kind == "bool":
        return cast(value, BOOL)  # type: ignore[arg-type]  # cast refuses what is no value
    if isinstance(value, int) and typed.is_integer:
        value = (value + (typed.is_signed << typed.bits - 1)) % (1 << typed.bits) - (typed.is_signed << typed.bits - 1)
    expr = as_expr(value, typed)  # type: ignore[arg-type]  # as_expr refuses what is no value
    if expr.dtype.bits != typed.bits:
        raise InstructionError(
            f"{what} is a register of {typed.bits} bits", given=f"{expr}, {expr.dtype}", allowed=f"{typed.bits} bits"
        )
    return expr


def as_register(what: str, operand: Operand, expr: Expr) -> Expr:
    """An operand as a register.

    Raises InstructionError for a float as a count, fewer than 64 bits for a descriptor or a state, and a value that no
    register of the operand's kind holds.
    """
    nbytes = KINDS[operand.kind].nbytes
    if nbytes and not _is_held(expr, 8 * nbytes):
        text, allowed = f"{expr}, {expr.dtype}", f"a register of {8 * nbytes} bits"
        raise InstructionError(f"{what} is {allowed}", given=text, allowed=allowed)
    if operand.kind == "value" and expr.dtype.is_float and expr.dtype.bits < 32:
        return cast(expr, FLOAT32)  # as C promotes what goes through an ellipsis
    if operand.counts and not _is_count(expr, int(operand.kind[1:])):
        allowed = f"an integer of {operand.kind[1:]} bits" if const_value(expr) is not None else _COUNTS[operand.kind]
        raise InstructionError(f"{what} is {allowed}", given=f"{expr}, {expr.dtype}", allowed=allowed)
    return _of_width(expr, 8 * nbytes) if operand.kind in ("b16", "b32", "b64") else expr


def integer_dtype(value: object) -> DType:
    """The dtype of a Python integer: int32, or the first of uint32, int64 and uint64 that holds it."""
    for kind in (INT32, dtype("uint32"), INT64):
        if not isinstance(value, int) or value >> (kind.bits - kind.is_signed) in (0, -kind.is_signed):
            return kind
    return dtype("uint64")


def _of_width(expr: Expr, bits: int) -> Expr:
    """A value of run time in a register of another width: the low bits, or zeros above them; a number's own sign."""
    if expr.dtype.bits == bits or isinstance(expr, (AddressOf, Const)) or is_place(expr):
        return expr
    if expr.dtype.is_float:
        expr = Reinterpret(expr, dtype(f"uint{expr.dtype.bits}"))
    return cast(expr, dtype(f"uint{bits}"))


def is_place(expr: Expr) -> bool:
    """Is the operand a register itself, not a value computed from registers? Its bits are then taken unchanged."""
    return isinstance(expr, (AddressOf, Load)) and expr.buffer.space == "local"


def _is_held(expr: Expr, bits: int) -> bool:
    """Does a register of so many bits hold it? Of a wider integer it has the low ones; a place stands for registers."""
    number = expr.dtype.kind in ("int", "uint", "bool") and expr.dtype.lanes == 1
    return is_place(expr) or number or expr.dtype.bits <= bits


_COUNTS = {"b16": "an integer", "b32": "an integer", "b64": "an integer of 64 bits"}


def _is_count(expr: Expr, bits: int) -> bool:
    """Is it an integer, and one that ``bits`` hold where it is known? At run time its low bits count."""
    number = const_value(expr)
    if number is not None:
        return expr.dtype.is_integer and -(1 << bits - 1) <= number < 1 << bits
    return expr.dtype.is_integer and (bits < 64 or expr.dtype.bits == 64)


# Operands that are addresses: the memory that one leads into, and what a caller may give for one of each memory.
#
# Source: PTX ISA, "State Spaces".


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
