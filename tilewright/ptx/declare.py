"""Places for variables and parameters: a buffer, an offset in shared memory, storage of each thread."""

from __future__ import annotations

from dataclasses import replace

from tilewright.errors import KernelError
from tilewright.ir import AllocBuffer, Buffer, Expr, Var, cast
from tilewright.ptx.bits import bits_of, number_dtype, unsigned
from tilewright.ptx.initial import named_in
from tilewright.ptx.names import Memory, Parameter, Scope, all_statements, element_bytes, nbytes, plain_name
from tilewright.ptx.state import UINT8, UINT64, Lowering
from tilewright.ptx.tree import Address, Function, Instruction, Name, Sum, Variable

__all__ = ["module_symbol", "parameter", "place_dynamic", "variable"]


WORD = 16  # bytes of the widest access


def parameter(low: Lowering, param: Variable, scope: Scope) -> None:
    """A parameter of the entry: an address or a number, or bytes in memory."""
    array = low.arrays.get(param.name)
    if array is not None:
        low.add_buffer(array)
    if _lies_in_memory(low.entry, param):
        low.in_bytes[param.name] = param
        buffer = low.global_bytes(
            f"{param.name} (parameter)" if array else param.name, nbytes(param), max(8, param.align)
        )
        scope.symbols[param.name] = Memory(buffer)
        return
    value: Expr
    if array is not None:
        assert array.data is not None
        value = cast(array.data, UINT64)
    else:
        var = Var(param.name, number_dtype(param.type))
        low.params.append(var)
        value = bits_of(var, unsigned(var.dtype.bits))
    scope.symbols[param.name] = Parameter(value)


def _lies_in_memory(entry: Function, param: Variable) -> bool:
    """Is it more than one number that is loaded as a whole?"""
    if param.extents or param.vector > 1:
        return True
    for statement in all_statements(entry.body or ()):
        if not isinstance(statement, Instruction):
            continue
        for operand in statement.operands:
            base = (
                operand.base if isinstance(operand, Address) else operand.name if isinstance(operand, Sum) else operand
            )
            if isinstance(base, Name) and base.text == param.name:
                if not statement.modifiers:  # refused at the statement itself
                    continue
                whole = isinstance(operand, Address) and not operand.offset and statement.opcode == "ld"
                if not whole or element_bytes(statement.modifiers[-1]) != element_bytes(param.type):
                    return True
    return False


def variable(low: Lowering, declared: Variable, scope: Scope) -> Memory:
    """A variable of a body."""
    if declared.space in ("global", "const"):
        return _in_module(low, declared, f"{declared.name}{scope.suffix}")
    if declared.space == "shared":
        return _shared(low, declared)
    if low.frame is not None:
        return low.frame.place(declared)
    name, size = f"{declared.name}{scope.suffix}", nbytes(declared)
    whole = -(-max(size, 1) // WORD) * WORD
    buffer = Buffer(name, UINT8, (whole,), "local", None, align=max(declared.align, WORD))
    low.allocated.append(AllocBuffer(buffer, at=low.lines.current))
    return Memory(buffer)


def _shared(low: Lowering, declared: Variable) -> Memory:
    known = low.outside.symbols.get(declared.name)
    if isinstance(known, Memory):
        return known
    align = max(declared.align, element_bytes(declared.type) * declared.vector, 1)
    if declared.linkage == "extern" and None in (declared.extents or (None,)):
        low.dynamic.append((declared.name, align))
        size, start = max(1, low.machine.dynamic_bytes), -1
    else:
        start = -(-low.shared_end // align) * align
        size = max(1, nbytes(declared))
        low.shared_end = start + size
    buffer = Buffer(_shown(low, declared.name), UINT8, (size,), "shared", None, align=align)
    low.allocated.append(AllocBuffer(buffer, start, at=low.lines.current))
    made = low.outside.symbols[declared.name] = Memory(buffer, shared=True)
    return made


def _shown(low: Lowering, symbol: str) -> str:
    """The name of a shared variable in reports: its author's, unless another one has that already."""
    name = plain_name(symbol)
    taken = {each.buffer.name for each in low.allocated} | {buffer.name for buffer in low.arrays.values()}
    return symbol if name in taken else name


def place_dynamic(low: Lowering) -> int:
    """Dynamic shared memory begins after the static, all its names in one place. Returns the arena's bytes."""
    if not low.dynamic:
        return low.shared_end + low.machine.dynamic_bytes
    align = max(16, *(each for _, each in low.dynamic))
    start = -(-low.shared_end // align) * align
    names = {name for name, _ in low.dynamic}
    low.allocated = [
        replace(each, offset=start, lies_with="dynamic") if each.buffer.name in names else each
        for each in low.allocated
    ]
    return start + max(1, low.machine.dynamic_bytes)


def module_symbol(low: Lowering, name: str) -> Memory | Function | None:
    """A variable or function of the module; a variable that is named for the first time gets its place."""
    known = low.outside.symbols.get(name)
    if isinstance(known, Memory):
        return known
    declared = low.module.variable_of.get(name)
    if declared is None:
        return low.module.function_of.get(name)
    if declared.space == "shared":
        return _shared(low, declared)
    return _in_module(low, declared, name)


def _in_module(low: Lowering, declared: Variable, name: str) -> Memory:
    if declared.linkage == "extern" and not nbytes(declared):
        raise KernelError(f"{name} is declared, but defined nowhere", given=f".extern .{declared.space} {name}")
    low.globals[name] = declared
    made = low.outside.symbols[name] = Memory(low.global_bytes(name, max(1, nbytes(declared)), max(declared.align, 16)))
    for other in named_in(declared):  # these get places, too
        found = module_symbol(low, other)
        if isinstance(found, Function):
            low.function_address(found)
    return made
