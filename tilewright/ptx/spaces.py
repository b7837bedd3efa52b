"""Addresses from memory to memory: cvta and isspacep. Each memory has a window in the one address space.

Constants and parameters are bytes in global memory here, told apart by where they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tilewright.dtypes import BOOL
from tilewright.ir import Expr, Stmt, binary, cast, const, unary
from tilewright.ptx.bits import start_of
from tilewright.ptx.names import Memory, type_word
from tilewright.ptx.parameters import generic_address
from tilewright.ptx.short import SHARED, are_short, widened
from tilewright.ptx.state import UINT32, UINT64, Lowering, Step
from tilewright.ptx.strict import check_register
from tilewright.ptx.values import WINDOW_BITS, assigned, read, window

__all__ = ["convert_address", "is_in_space"]


def convert_address(low: Lowering, step: Step) -> Sequence[Stmt]:
    """``cvta``: an address in shared memory is an offset of 32 bits, one in local memory may be; others have 64."""
    target, source = step.ins.operands
    check_register(source, type_word(step.ins.modifiers), step)
    check_register(target, type_word(step.ins.modifiers), step)
    value, is_shared = read(low, source, step, UINT64), step.ins.space.startswith("shared")
    if are_short(low):
        moved = const(SHARED if is_shared else 0, UINT32)
        value = binary("-" if "to" in step.ins.modifiers else "+", cast(value, UINT32), moved)
        return assigned(low, target, value, step)
    if is_shared:
        offset = cast(cast(value, UINT32), UINT64)
        start = window(low, "shared")
        value = offset if "to" in step.ins.modifiers or start is None else binary("|", offset, start)
    elif "local" in step.ins.modifiers and "to" not in step.ins.modifiers:
        start = window(low, "local")
        value = value if start is None else binary("|", value, start)
    elif "param" in step.ins.modifiers:
        value = generic_address(low, step.scope, value)
    return assigned(low, target, value, step)


def is_in_space(low: Lowering, step: Step) -> Sequence[Stmt]:
    """``isspacep``: does an address lie in a memory? What lies in no other is global, parameters too."""
    target, source = step.ins.operands
    address = read(low, source, step, UINT64)
    address = widened(low, address, window(low, "shared")) if are_short(low) else address
    wanted = step.ins.modifiers[0].partition("::")[0]
    if wanted == "global":
        others = [_in_window(low, address, space) for space in ("shared", "local")] + list(
            _among(low, address, "const")
        )
        return assigned(low, target, unary("not", _any(others)), step)
    if wanted in ("const", "param"):
        return assigned(low, target, _any(list(_among(low, address, wanted))), step)
    return assigned(low, target, _in_window(low, address, wanted), step)


def _any(conditions: Sequence[Expr]) -> Expr:
    found: Expr = const(False, BOOL)
    for condition in conditions:
        found = binary("or", found, condition)
    return found


def _in_window(low: Lowering, address: Expr, space: str) -> Expr:
    start = window(low, space)
    here = binary("&", address, const(-1 << WINDOW_BITS, UINT64))
    return const(False, BOOL) if start is None else here == start


def _among(low: Lowering, address: Expr, space: str) -> Iterator[Expr]:
    """For each constant or parameter in memory: is it in there?"""
    if space == "const":
        names = [name for name, declared in low.globals.items() if declared.space == "const"]
        found = [low.outside.symbols[name] for name in names]
    else:
        in_memory = (low.buffers.get(f"{name} (parameter)", low.buffers.get(name)) for name in low.in_bytes)
        found = [Memory(buffer) for buffer in in_memory if buffer is not None]
    for memory in found:
        if isinstance(memory, Memory):
            yield binary("-", address, start_of(memory.buffer)) < const(int(memory.buffer.storage_size()), UINT64)
