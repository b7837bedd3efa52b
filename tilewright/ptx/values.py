"""Operands as expressions: registers are bits of a width, instructions say what the bits mean."""

from __future__ import annotations

from tilewright import ir
from tilewright.dtypes import BOOL, DType
from tilewright.errors import KernelError, Span
from tilewright.ir import as_expr, binary, cast, const, unary
from tilewright.ptx.declare import RESERVED_PARTS, are_short, lookup, place_of, reserved, short_address, widened
from tilewright.ptx.names import Memory, bits_of, start_of
from tilewright.ptx.state import UINT32, UINT64, Lowering, Step, special_register
from tilewright.ptx.strict import check_address, check_result
from tilewright.ptx.text import single
from tilewright.ptx.tree import Address, Function, Immediate, Name, Not, Operand, Sum, operand_text

WINDOW_BITS = 40
"""Each memory has a window of so many bits in the one address space."""
CLOCKS = {"%clock": UINT32, "%clock64": UINT64, "%globaltimer": UINT64, "%globaltimer_lo": UINT32}
WORKSPACE_HALVES = {"%envreg1": 32, "%envreg2": 0}  # of the address of cooperative groups' workspace
WIDENED = frozenset(("ld", "ldu", "cvt", "mov", "call", "atom", "vset"))  # whose results may go to wider registers
HIGH_CLOCKS = ("%clock_hi", "%globaltimer_hi")


def read(low: Lowering, operand: Operand, step: Step, kind: DType) -> ir.Expr:
    """The bits of an operand, as many as ``kind`` has: of a wider register the low ones.

    An integer among floats is their bits; a float of 64 bits is rounded to 32 where 32 are needed.
    """
    match operand:
        case Immediate():
            return _number(operand, kind)
        case Not(name, "!"):
            return unary("not", read(low, name, step, BOOL))
        case Not(name, sign):
            raise KernelError(f"{step.ins.mnemonic} takes no {sign} before an operand", given=operand_text(operand))
        case Sum(name, offset) if isinstance(var := step.scope.find(name.text), ir.Var):
            return cast(var + const(offset, var.dtype), kind)
        case Sum(name, offset):
            return cast(address_of(low, name, offset, step), kind)
        case Name(text) if kind.bits == 32 and (place := place_of(low, text)) is not None:
            return const(place, kind)
        case Name():
            return _narrowed(_named(low, operand, step), kind, operand.text, step.at)
    allowed = "a register, a number, the address of a variable"
    raise KernelError("this is no value", given=operand_text(operand), allowed=allowed, at=step.at)


def _number(number: Immediate, kind: DType) -> ir.Expr:
    if number.bits == 64 and kind.bits == 32:
        return const(single(number.value), kind)
    return const(number.value, kind)


def _named(low: Lowering, name: Name, step: Step) -> ir.Expr:
    symbol = step.scope.find(name.text)
    if isinstance(symbol, ir.Var):
        return symbol
    if name.text in CLOCKS:
        return cast(low.now(), CLOCKS[name.text])
    if name.text in HIGH_CLOCKS:
        return cast(binary(">>", low.now(), 32), UINT32)
    if name.text in WORKSPACE_HALVES:
        return cast(binary(">>", low.workspace(), WORKSPACE_HALVES[name.text]), UINT32)
    if name.text in RESERVED_PARTS:
        return cast(cast(reserved(low, name.text), UINT32), UINT64)
    special = special_register(name.text, low.machine)
    return special if special is not None else address_of(low, name, 0, step)


def _narrowed(value: ir.Expr, kind: DType, name: str, at: Span) -> ir.Expr:
    if (value.dtype.kind == "bool") != (kind.kind == "bool"):
        what = "a predicate" if kind.kind == "bool" else f"a register of {kind.bits} bits"
        raise KernelError(f"{name} is not {what}", given=f"{value.dtype}", allowed=what, at=at)
    return cast(value, kind)


def exact(low: Lowering, operand: Operand, step: Step, kind: DType) -> ir.Expr:
    """The bits of an operand whose register is as wide as ``kind``; only conversions take wider ones."""
    symbol = step.scope.named(operand)
    if isinstance(symbol, ir.Var) and symbol.dtype.bits != max(kind.bits, 16) and kind != BOOL != symbol.dtype:
        _check_width(symbol.dtype.bits, kind.bits, operand, step)
    return read(low, operand, step, kind)


def _check_width(bits: int, wanted: int, operand: Operand, step: Step) -> None:
    if bits < wanted or step.ins.opcode != "cvt":
        raise KernelError(
            f"{step.ins.mnemonic}: {operand_text(operand)} has {bits} bits", given=f"{bits} bits",
            allowed=f"a register of {max(wanted, 16)} bits", at=step.at,
        )  # fmt: skip


# Addresses, and what is at them.


def address_of(low: Lowering, name: Name, offset: int, step: Step) -> ir.Expr:
    """The address of a variable or function: in shared memory its offset there, else the one it has everywhere."""
    symbol = lookup(low, name.text, step.scope)
    if isinstance(symbol, Function):
        return const(low.function_address(symbol), UINT64)
    if not isinstance(symbol, Memory):
        raise KernelError(
            f"{name.text} is declared nowhere", given=name.text, allowed="a register or a variable", at=step.at
        )
    if are_short(low) and symbol.buffer.space == "global":
        return const(short_address(low, symbol.buffer) + offset, UINT64)
    address = cast(symbol.at(offset), UINT64)
    return cast(cast(address, UINT32), UINT64) if symbol.shared else address  # windows are 40 bits wide


def pointer(low: Lowering, address: Address, step: Step, space: str) -> ir.Expr:
    """Where an address operand points: a place in a variable, or a number of 64 bits, of 32 in shared memory."""
    kind = UINT32 if space.startswith("shared") else UINT64
    symbol = lookup(low, address.base.text, step.scope) if address.base is not None else None
    check_address(low, address, symbol, step, space)
    if address.base is None:
        return const(address.offset, kind)
    if isinstance(symbol, Memory):
        return symbol.at(address.offset)
    named = _named(low, address.base, step)
    base = cast(named, kind)
    if space == "local" and named.dtype.bits == 32:
        start = window(low, space)
        base = base if start is None else binary("|", base, start)
    elif are_short(low) and kind == UINT64:
        base = widened(low, named, window(low, "shared"))
    return base + const(address.offset, kind) if address.offset else base


def number_of(at: ir.Expr, space: str) -> ir.Expr:
    """A pointer as an integer, without its element type, since rows have types of their own."""
    return cast(at, UINT32 if space.startswith("shared") else UINT64) if isinstance(at, ir.AddressOf) else at


def window(low: Lowering, space: str) -> ir.Expr | None:
    """Where the window of shared or local memory begins, in the one address space; None where the kernel has none."""
    for alloc in low.allocated:
        if alloc.buffer.is_shared == (space == "shared"):
            return binary("&", start_of(alloc.buffer), const(-1 << WINDOW_BITS, UINT64))
    return None


def element(low: Lowering, at: ir.Expr, kind: DType, space: str = "", *, constant: bool = False) -> ir.Load:
    """The element of ``kind`` where a pointer leads. constant: see `Buffer`."""
    shared = window(low, "shared") if at.dtype.bits == 32 else None
    if shared is not None:
        at = cast(at, UINT64) + shared
    if isinstance(at, ir.AddressOf):
        name, space = f"{at.buffer.name}.{kind}", at.buffer.space
    else:
        name, space = f"*{kind}", _reached(low, space)
    return ir.Load(ir.Buffer(name, kind, (1,), space, None, data=at, constant=constant), (as_expr(0),))


def _reached(low: Lowering, space: str) -> str:
    """The memory that a pointer may lead to; an unknown one to the memory that differs most from thread to thread."""
    named = space.partition("::")[0]
    if named in ("shared", "local"):
        return named
    if named in ("global", "const") or not (low.has_local or named == "param" or low.shared_end or low.dynamic):
        return "global"
    return "local" if low.has_local or named == "param" else "shared"


# Registers, which hold bits.


def register(low: Lowering, operand: Operand, step: Step) -> ir.Var | None:
    """The register that an operand names as a destination; None for the sink ``_``."""
    if operand == Name("_"):
        return None
    symbol = step.scope.named(operand)
    if isinstance(symbol, ir.Var):
        return symbol
    raise KernelError(
        "the destination is no register", given=operand_text(operand), allowed="a declared register", at=step.at
    )


def assigned(low: Lowering, operand: Operand, value: ir.Expr, step: Step) -> list[ir.Assign]:
    """The assignment of a value's bits to a register."""
    var = register(low, operand, step)
    if var is not None:
        _check_result(var, value, operand, step)
        check_result(operand, step)
    return [] if var is None else [ir.Assign(var, bits_of(value, var.dtype), at=step.at)]


def _check_result(var: ir.Var, value: ir.Expr, operand: Operand, step: Step) -> None:
    """Raises KernelError unless a result has its register's width; loads and conversions may go to wider ones."""
    bits, boolean = value.dtype.bits, value.dtype.kind == "bool"
    if (var.dtype.kind == "bool") != boolean or var.dtype.bits < bits:
        fits = False
    else:
        fits = boolean or var.dtype.bits == max(bits, 16) or step.ins.opcode in WIDENED
    if not fits:
        raise KernelError(
            f"{step.ins.mnemonic} does not fit into {operand_text(operand)}", given=f"a register of {var.dtype}",
            allowed="a predicate" if boolean else f"{max(bits, 16)} bits", at=step.at,
        )  # fmt: skip


def stored(low: Lowering, at: ir.Expr, values: list[ir.Expr], kind: DType, space: str, where: Span) -> ir.Store:
    """Values, as many as a vector has, go where a pointer leads; each is bits as wide as ``kind``."""
    parts = [value if value.dtype == kind else ir.Reinterpret(value, kind) for value in values]
    if len(parts) == 1:
        return ir.Store(element(low, at, kind, space), parts[0], at=where)
    whole = kind.with_lanes(len(parts))
    return ir.Store(element(low, at, whole, space), ir.Vector(tuple(parts), whole), at=where)
