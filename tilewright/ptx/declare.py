"""Declared variables and parameters as buffers, with the values that they begin with, and the addresses of 32 bits that
old texts have of them.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tilewright.errors import KernelError
from tilewright.ir import AllocBuffer, Buffer, Expr, Var, binary, cast, const, select
from tilewright.ir.launch import RESERVED
from tilewright.isa import ARCHS, STATIC_SHARED_BYTES
from tilewright.isa.arch import RESERVED as RESERVED_BYTES
from tilewright.ptx.mangled import plain_name, qualified_name
from tilewright.ptx.names import (
    Memory,
    Parameter,
    Scope,
    Symbol,
    bits_of,
    element_bytes,
    nbytes,
    number_dtype,
    start_of,
    stride,
    type_word,
    unsigned,
)
from tilewright.ptx.state import UINT8, UINT32, UINT64, Lowering
from tilewright.ptx.text import Unreadable, operands, single
from tilewright.ptx.tree import Address, Function, Immediate, Instruction, Name, Operand, Sum, Variable

if TYPE_CHECKING:
    from numpy.typing import NDArray


# Addresses of 32 bits, which old texts have (``.address_size 32``): each memory has a range of them.
#
# The simulator's own addresses have 64 bits, global buffers lie far apart. A range of 32 bits stands for each buffer
# that the text can point to, with a gap behind it, and one for shared memory; an access looks up whose range it is in.


SHARED = 0x01000000  # where the range of shared memory begins
FIRST_RANGE, GAP = 0x10000000, 0x10000  # where the ranges of buffers begin, and the bytes behind each


def are_short(low: Lowering) -> bool:
    """Has the text addresses of 32 bits?"""
    return low.module.address_size == 32


def _ranges(low: Lowering) -> Iterator[tuple[Buffer, int, int]]:
    """Each buffer of the kernel, where its range begins, and its bytes with the gap behind it."""
    start = FIRST_RANGE
    for buffer in low.buffers.values():
        size = -(-int(buffer.storage_size()) * buffer.dtype.bits // 8 // GAP) * GAP + GAP
        yield buffer, start, size
        start += size


def short_address(low: Lowering, buffer: Buffer) -> int:
    """The address of 32 bits at which a buffer begins."""
    return next(start for candidate, start, _ in _ranges(low) if candidate == buffer)


def widened(low: Lowering, address: Expr, shared: Expr | None) -> Expr:
    """The address that one of 32 bits stands for. shared: where the window of shared memory begins, if there is one."""
    low_bits = cast(address, UINT32)
    wide: Expr = cast(low_bits, UINT64)
    if shared is not None:
        inside = low_bits - const(SHARED, UINT32)
        wide = select(binary("<", inside, const(FIRST_RANGE - SHARED, UINT32)), shared + cast(inside, UINT64), wide)
    for buffer, start, size in _ranges(low):
        inside = low_bits - const(start, UINT32)
        wide = select(binary("<", inside, const(size, UINT32)), start_of(buffer) + cast(inside, UINT64), wide)
    return wide


# Parameters that lie in memory: each has an address as wide as all, and one of 32 bits among parameters alone.
#
# Triton takes the latter, and makes the former of it by ``cvta.param``.

FIRST, STEP = 64, 64  # bytes: no parameter is at 0, as a null pointer is


def place_of(low: Lowering, name: str) -> int | None:
    """The address of a parameter among parameters; None of what is no parameter in memory."""
    if name not in low.in_bytes:
        return None
    before = list(low.in_bytes.values())[: list(low.in_bytes).index(name)]
    return FIRST + sum(-(-nbytes(param) // STEP) * STEP for param in before)


def generic_address(low: Lowering, scope: Scope, address: Expr) -> Expr:
    """The address that an address among parameters stands for; one that is as wide as all stays as it is."""
    generic = address
    for name, declared in low.in_bytes.items():
        memory, place = scope.find(name), place_of(low, name)
        assert isinstance(memory, Memory)
        assert place is not None
        inside = address - const(place, UINT64)
        fits = binary("<", inside, const(nbytes(declared), UINT64))
        generic = select(fits, start_of(memory.buffer) + inside, generic)
    return generic


# The initial values of a module's variables: bytes, and addresses that only a launch knows.
#
# Source: PTX ISA, "Initializers": values that are missing are zero; a name stands for an address, ``generic(name)`` for
# its generic address.


_GENERIC = re.compile(r"generic\s*\(\s*([^)]*)\)")
_MASK = re.compile(r"(0[xX][Ff]+0*|\d+)\s*\(\s*([^)]*)\)")  # one byte of an address


@dataclass(frozen=True, slots=True)
class Pointer:
    """An address among initial values. place: bytes from the start of the variable; of: the name; offset: beyond it.

    byte: the one byte of the address that is stored; None for all of it.
    """

    place: int
    of: str
    offset: int
    byte: int | None = None

    def put(self, data: NDArray[np.uint8], address: int) -> None:
        """Writes the address of the name to its place."""
        whole = (address + self.offset).to_bytes(8, "little")
        part = whole if self.byte is None else whole[self.byte : self.byte + 1]
        data[self.place : self.place + len(part)] = np.frombuffer(part, np.uint8)


def named_in(declared: Variable) -> list[str]:
    """The variables and functions whose addresses are among the initial values."""
    return (
        [pointer.of for pointer in initial_bytes(declared)[1]]
        if re.search(r"(?<![\w.$%])[A-Za-z_$%]", declared.initial)
        else []
    )


def initial_bytes(declared: Variable) -> tuple[bytearray, list[Pointer]]:
    """The bytes of a variable as a launch finds them, and the addresses to be put in."""
    width = element_bytes(declared.type)
    data, pointers = bytearray(max(1, nbytes(declared))), []
    for place, value in _values(declared):
        if isinstance(value, Immediate):
            bits = _bits(value, declared.type, width)
            data[place : place + width] = (bits & (1 << 8 * width) - 1).to_bytes(width, "little")
        else:
            pointers.append(value)
    return data, pointers


def _bits(value: Immediate, kind: str, width: int) -> int:
    if value.bits == 64 and width == 4:
        return single(value.value)
    if not value.bits and kind in ("f32", "f64"):
        return int.from_bytes(struct.pack(">f" if kind == "f32" else ">d", value.value), "big")
    return value.value


def _values(declared: Variable) -> Iterator[tuple[int, Immediate | Pointer]]:
    """Each value with the place of its first byte."""
    width = element_bytes(declared.type)
    text = _GENERIC.sub(r"\1", declared.initial)
    if not text:
        return
    strides = _strides(declared, width)
    place, level = 0, -1
    starts = [0] * (len(strides) + 1)
    for token in re.findall(r"[{}]|[^{},\s][^{},]*", text):
        if token == "{":
            level += 1
            starts[min(level, len(starts) - 1)] = place
        elif token == "}":
            place = starts[min(level, len(starts) - 1)] + (strides[level - 1] if 0 < level <= len(strides) else 0)
            level -= 1
        else:
            yield place, _value(token.strip(), place, declared)
            place += width


def _strides(declared: Variable, width: int) -> list[int]:
    """The bytes of one step of each dimension, the outermost first."""
    strides = [width * declared.vector]
    for extent in declared.extents[:0:-1]:
        strides.append(strides[-1] * (extent or 1))
    return strides[::-1]


def _value(text: str, place: int, declared: Variable) -> Immediate | Pointer:
    masked = _MASK.fullmatch(text)
    if masked is not None:
        base = _value(masked[2], place, declared)
        if isinstance(base, Pointer):
            return replace(base, byte=(int(masked[1], 0).bit_length() - 1) // 8)
    try:
        (operand,) = operands(text)
    except (Unreadable, ValueError):
        operand = None  # refused below
    if isinstance(operand, Immediate):
        return operand
    if isinstance(operand, Name):
        return Pointer(place, operand.text, 0)
    if isinstance(operand, Sum):
        return Pointer(place, operand.name.text, operand.offset)
    raise KernelError(
        f"{declared.name} has an initial value that cannot be read", given=text, allowed="numbers and names"
    )


# Places for variables and parameters: a buffer, an offset in shared memory, storage of each thread.


WORD = 16  # bytes of the widest access
RESERVED_PARTS = {f"%reserved_smem_offset_{part}": at
                  for part, at in (("begin", 0), ("0", 0), ("1", 512), ("end", 1024), ("cap", 1024))}  # fmt: skip


def parameter(low: Lowering, param: Variable, scope: Scope) -> None:
    """A parameter of the entry: an address or a number, or bytes in memory."""
    array = low.arrays.get(param.name)
    if array is not None:
        low.add_buffer(array)
    if _lies_in_memory(low.entry, param):
        low.in_bytes[param.name] = param
        said = low.said.get(param.name, param.name)
        name = _free(low, *([] if array else [said]), f"{said} (parameter)")
        buffer = low.global_bytes(name, nbytes(param), max(8, param.align), constant=True)
        low.parameter_buffers[param.name] = buffer
        scope.symbols[param.name] = Memory(buffer)
        return
    value: Expr
    if array is not None:
        assert array.data is not None
        value = const(short_address(low, array), UINT32) if are_short(low) else cast(array.data, UINT64)
    else:
        var = Var(param.name, number_dtype(param.type))
        low.params.append(var)
        value = bits_of(var, unsigned(var.dtype.bits))
    scope.symbols[param.name] = Parameter(value)


def _lies_in_memory(entry: Function, param: Variable) -> bool:
    """Is it more than one number that is loaded as a whole?"""
    if param.extents or param.vector > 1:
        return True
    return any(
        _named_by(operand) == param.name and not _takes_all_of(param, statement, operand)
        for statement in entry.statements
        if isinstance(statement, Instruction) and statement.modifiers  # refused at the statement itself
        for operand in statement.operands
    )


def _named_by(operand: Operand) -> str:
    """The name of what an operand is, or points to."""
    base = operand.base if isinstance(operand, Address) else operand.name if isinstance(operand, Sum) else operand
    return base.text if isinstance(base, Name) else ""


def _takes_all_of(param: Variable, ins: Instruction, operand: Operand) -> bool:
    """Does an instruction load a parameter as the one number that it is?"""
    if ins.opcode != "ld" or not isinstance(operand, Address) or operand.offset:
        return False
    kind, vector = type_word(ins.modifiers), {"v2", "v4", "v8"}.intersection(ins.modifiers)
    return bool(kind) and not vector and element_bytes(kind) == element_bytes(param.type)


def variable(low: Lowering, declared: Variable, scope: Scope) -> Memory:
    """A variable of a body."""
    if declared.space in ("global", "const"):
        return _in_module(low, declared, f"{declared.name}{scope.suffix}")
    if declared.space == "shared":
        return _shared(low, declared)
    if low.frame is not None:
        return low.frame.place(declared)
    return in_local(low, declared, f"{declared.name}{scope.suffix}")


def in_local(low: Lowering, declared: Variable, name: str) -> Memory:
    """A variable that each thread has one of, from the beginning of the kernel to its end."""
    whole = -(-max(nbytes(declared), 1) // WORD) * WORD
    name = _free(low, name, f"{name} (of a thread)")  # without optimisation a copy of the parameter b is a variable b
    buffer = Buffer(name, UINT8, (whole,), "local", None, align=max(declared.align, WORD))
    low.allocate(AllocBuffer(buffer, at=low.lines.current))
    return Memory(buffer, element=stride(declared))


def _shared(low: Lowering, declared: Variable) -> Memory:
    symbol = low.outside.symbols.get(declared.name)
    if isinstance(symbol, Memory):
        return symbol
    align = max(declared.align, stride(declared), 1)
    is_dynamic = declared.linkage == "extern" and None in (declared.extents or (None,))
    size = max(1, low.machine.dynamic_bytes if is_dynamic else nbytes(declared))
    buffer = Buffer(_shown(low, declared.name), UINT8, (size,), "shared", None, align=align)
    start = -(-low.shared_end // align) * align
    if is_dynamic:
        low.dynamic.append(buffer)  # it gets its place behind all others
    else:
        low.shared_end = start + size
    low.allocate(AllocBuffer(buffer, start, at=low.lines.current))
    memory = low.outside.symbols[declared.name] = Memory(buffer, shared=True, element=stride(declared))
    return memory


def reserved(low: Lowering, name: str) -> Expr:
    """The address of a part of the shared memory that CUDA reserves for itself."""
    declared = Variable("shared", "b8", RESERVED, (RESERVED_BYTES,), align=128)
    return cast(_shared(low, declared).at(RESERVED_PARTS[name]), UINT64)


def _shown(low: Lowering, symbol: str) -> str:
    """The name of a variable in reports: its author's, unless another one has that already."""
    return _free(low, low.module.shown.get(symbol, plain_name(symbol)), qualified_name(symbol), symbol)


def _free(low: Lowering, *names: str) -> str:
    """The first of some names that no array has yet; else the last."""
    return next((name for name in names if name not in low.taken), names[-1])


def place_dynamic(low: Lowering) -> int:
    """Dynamic shared memory begins after the static, all its names in one place. Returns the arena's bytes.

    Raises KernelError where there is more than an assembler or the target takes.
    """
    align = max(16, *(allocation.align for allocation in low.dynamic)) if low.dynamic else 1
    start = -(-low.shared_end // align) * align
    low.allocated = [
        replace(allocation, offset=start, lies_with="dynamic") if allocation.buffer in low.dynamic else allocation
        for allocation in low.allocated
    ]
    total = start + max(1 if low.dynamic else 0, low.machine.dynamic_bytes)
    target = ARCHS.get(low.module.target[0])
    for what, size, most in (("static shared memory", low.shared_end, STATIC_SHARED_BYTES),
                             ("shared memory", total, target.shared_bytes if target else total)):  # fmt: skip
        if size > most:
            raise KernelError(f"{plain_name(low.entry.name)} has too much {what}", given=f"{size} bytes",
                              allowed=f"{most} bytes")  # fmt: skip
    return total


def lookup(low: Lowering, name: str, scope: Scope) -> Symbol | None:
    """The meaning of a name in its scope, or in the module."""
    symbol = scope.find(name)
    return module_symbol(low, name) if symbol is None else symbol


def module_symbol(low: Lowering, name: str) -> Memory | Function | None:
    """A variable or function of the module; a variable that is named for the first time gets its place."""
    symbol = low.outside.symbols.get(name)
    if isinstance(symbol, Memory):
        return symbol
    declared = low.module.variable_of.get(name)
    if declared is None:
        return low.module.function_of.get(name)
    if declared.space == "shared":
        return _shared(low, declared)
    return _in_module(low, declared, name)


def _in_module(low: Lowering, declared: Variable, name: str) -> Memory:
    if declared.linkage == "extern" and not nbytes(declared):
        raise KernelError(f"{name} is declared, but defined nowhere", given=f".extern .{declared.space} {name}")
    if declared.space == "local":  # of each thread, as functions' own are
        memory = low.outside.symbols[name] = in_local(low, declared, name)
        return memory
    low.globals[name] = declared
    is_constant = declared.space == "const"
    shown = _shown(low, name)
    buffer = low.global_bytes(shown, max(1, nbytes(declared)), max(declared.align, 16), constant=is_constant)
    array = low.outside.symbols[name] = Memory(buffer, element=stride(declared))
    if are_short(low) and named_in(declared):
        raise KernelError(f"{name} begins with an address", given=".address_size 32", allowed="numbers, or 64")
    for other in named_in(declared):  # these get places, too
        target = module_symbol(low, other)
        if isinstance(target, Function):
            low.function_address(target)
    return array
