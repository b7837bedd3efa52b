"""Plain loads, stores and moves as statements of the lowered stage, without a row. Vectors go part by part."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tilewright.dtypes import BOOL, DType
from tilewright.errors import InstructionError
from tilewright.ir import Assign, Bind, Component, Expr, Stmt, Var, binary, cast, const, unary
from tilewright.isa.arch import since
from tilewright.ptx.bits import start_of, unsigned
from tilewright.ptx.names import Memory, Parameter, Symbol, number_dtype, type_word
from tilewright.ptx.parameters import generic_address
from tilewright.ptx.short import SHARED, are_short, widened
from tilewright.ptx.state import UINT32, UINT64, Lowering, Step
from tilewright.ptx.strict import check_address, check_number, check_register, check_together, check_value, is_mixed
from tilewright.ptx.tree import Address, Name, Operand, Vector, operand_text
from tilewright.ptx.values import WINDOW_BITS, assigned, element, exact, lookup, pointer, read, register, stored, window

# Addresses from memory to memory: cvta and isspacep. Each memory has a window in the one address space.
#
# Constants and parameters are bytes in global memory here, told apart by where they are.


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
    either: Expr = const(False, BOOL)
    for condition in conditions:
        either = binary("or", either, condition)
    return either


def _in_window(low: Lowering, address: Expr, space: str) -> Expr:
    start = window(low, space)
    here = binary("&", address, const(-1 << WINDOW_BITS, UINT64))
    return const(False, BOOL) if start is None else here == start


def _among(low: Lowering, address: Expr, space: str) -> Iterator[Expr]:
    """For each constant or parameter in memory: is it in there?"""
    if space == "const":
        names = [name for name, declared in low.globals.items() if declared.space == "const"]
        memories = [low.outside.symbols[name] for name in names]
    else:
        in_memory = (low.buffers.get(f"{name} (parameter)", low.buffers.get(name)) for name in low.in_bytes)
        memories = [Memory(buffer) for buffer in in_memory if buffer is not None]
    for memory in memories:
        if isinstance(memory, Memory):
            yield binary("-", address, start_of(memory.buffer)) < const(int(memory.buffer.storage_size()), UINT64)


CLOCKS = ("%clock", "%globaltimer")
CYCLES = 16  # ticks between two looks at a clock
WIDEST = 128  # bits of an access, before sm_100
STRONG = frozenset({"volatile", "relaxed", "acquire", "release", "mmio"})
THREADS_OWN = ("local", "param", "const")  # memories in which an order among threads has no effect


def _plain(low: Lowering, step: Step) -> tuple[str, DType, int] | None:
    """Space, dtype and registers of a weak access; None for one of another kind."""
    words, space = step.ins.modifiers, step.ins.space
    kind = type_word(words)
    if not kind:
        raise InstructionError(f"{step.ins.mnemonic} has no type", allowed=f"{step.ins.mnemonic}.b32, .u64, .f32, ...")
    if (space not in THREADS_OWN and not STRONG.isdisjoint(words)) or space == "shared::cluster":
        return None
    lanes = next((int(word[1:]) for word in words if word in ("v2", "v4", "v8")), 1)
    if lanes * number_dtype(kind).bits > WIDEST:
        low.check_target(step.ins.mnemonic, since("sm_100"))
    return space, number_dtype(kind), lanes


def load(low: Lowering, step: Step) -> Sequence[Stmt] | None:
    plain = _plain(low, step)
    if plain is None:
        return None
    space, kind, lanes = plain
    target, address = alone(step.ins.operands[0]), _address(step, 1)
    symbol = lookup(low, address.base.text, step.scope) if address.base is not None else None
    if isinstance(symbol, Parameter):
        check_address(low, address, symbol, step, space)
        return assigned(low, target, _as(symbol.value, kind), step)
    at, constant = pointer(low, address, step, space), "nc" in step.ins.modifiers
    if lanes == 1:
        return assigned(low, target, element(low, at, kind, space, constant=constant), step)
    parts = _parts(target, lanes, step)
    check_together(parts, step)
    whole = Var(low.fresh("vector"), kind.with_lanes(lanes))
    code: list[Stmt] = [Bind(whole, element(low, at, whole.dtype, space, constant=constant), mutable=False, at=step.at)]
    for index, part in enumerate(parts):
        code += assigned(low, part, Component(whole, index), step)
    return code


def _meaning(low: Lowering, operand: Operand, step: Step) -> Symbol | None:
    return lookup(low, operand.text, step.scope) if isinstance(operand, Name) else None


def _address(step: Step, place: int) -> Address:
    """The address among the two operands of an access."""
    count = 2 + ("L2::cache_hint" in step.ins.modifiers)
    operand = step.ins.operands[place] if len(step.ins.operands) == count else None
    if not isinstance(operand, Address):
        raise InstructionError(f"{step.ins.mnemonic} needs an address and a register", allowed="[address], in brackets")
    return operand


def as_many(parts: Sequence[Operand], count: int, step: Step) -> Sequence[Operand]:
    """Registers, as many as the instruction has."""
    if len(parts) != count:
        raise InstructionError(f"{step.ins.mnemonic} has {count} registers", given=f"{len(parts)}")
    return parts


def _parts(operand: Operand, count: int, step: Step) -> Sequence[Operand]:
    """The registers of a vector, as many as the access has."""
    return as_many(operand.parts if isinstance(operand, Vector) else (operand,), count, step)


def alone(operand: Operand) -> Operand:
    """A register, where a vector of one is written, as Triton does."""
    return operand.parts[0] if isinstance(operand, Vector) and len(operand.parts) == 1 else operand


def _as(value: Expr, kind: DType) -> Expr:
    """The low bits of a parameter as the type of its load, whose sign counts."""
    bits = cast(value, unsigned(kind.bits))
    return cast(bits, kind) if kind.is_signed and not kind.is_float else bits


def store(low: Lowering, step: Step) -> Sequence[Stmt] | None:
    plain = _plain(low, step)
    if plain is None:
        return None
    space, kind, lanes = plain
    if space == "const":
        raise InstructionError(f"{step.ins.mnemonic} writes constant memory", allowed="a variable of .global space")
    address, source = _address(step, 0), step.ins.operands[1]
    parts = _parts(source, lanes, step)
    bits = unsigned(kind.bits)
    check_together(parts, step)
    for part in parts:
        check_value(low, part, _meaning(low, part, step), step)
        check_number(part, type_word(step.ins.modifiers), step)
        check_register(part, f"b{kind.bits}" if is_mixed(parts, step) else type_word(step.ins.modifiers), step)
    values = [read(low, part, step, bits) for part in parts]
    return [stored(low, pointer(low, address, step, space), values, kind, space, step.at)]


def move(low: Lowering, step: Step) -> Sequence[Stmt] | None:
    """``mov``: registers, numbers, addresses; parts of a register together, or apart."""
    target, source = step.ins.operands
    for side in (target, source):
        if isinstance(side, Vector) and (
            len(side.parts) < 2 or (step.ins.modifiers[-1][0] != "b" and len(step.ins.modifiers) == 1)
        ):
            raise InstructionError(
                f"{step.ins.mnemonic} takes no vector", given=operand_text(side), allowed="mov.b64 %rd, {%r1, %r2}"
            )
    if isinstance(target, Vector) and isinstance(source, Vector):
        return _move_parts(low, target.parts, source.parts, step)
    check_number(source, step.ins.modifiers[-1], step)
    check_register(source, step.ins.modifiers[-1], step)
    check_register(target, step.ins.modifiers[-1], step)
    kind = _width(step.ins.modifiers[-1])
    if isinstance(source, Vector):
        width = kind.bits // len(source.parts)
        values = [cast(exact(low, part, step, unsigned(width)), kind) for part in source.parts]
        whole = values[0]
        for index, more in enumerate(values[1:], 1):
            whole = binary("|", whole, binary("<<", more, const(width * index, kind)))
        return assigned(low, target, whole, step)
    value = exact(low, source, step, kind)
    if isinstance(source, Name) and source.text.startswith(CLOCKS):  # the clock goes on with each read
        now = low.now()
        return [Assign(now, now + const(CYCLES, UINT64), at=step.at), *assigned(low, target, value, step)]
    if not isinstance(target, Vector):
        return assigned(low, target, value, step)
    width = kind.bits // len(target.parts)
    before: list[Stmt] = []
    if not isinstance(value, Var) or any(register(low, part, step) == value for part in target.parts):
        whole_var = Var(low.fresh("whole"), kind)
        before, value = [Bind(whole_var, value, mutable=False, at=step.at)], whole_var
    for index, part in enumerate(target.parts):
        moved = binary(">>", value, const(width * index, kind)) if index else value
        before += assigned(low, part, cast(moved, unsigned(width)), step)
    return before


def _width(word: str) -> DType:
    """Of a register that ``mov`` moves; 128 bits are two of 64."""
    return BOOL if word == "pred" else UINT64 if word == "b128" else unsigned(number_dtype(word).bits)


def _halves(targets: Sequence[Operand], sources: Sequence[Operand], step: Step) -> Iterator[Step]:
    """Four registers of 32 bits to or from one of 128, which is two of 64: each half is a move of its own."""
    for half in range(2):
        pair = [
            Vector(tuple(parts[2 * half :][:2])) if len(parts) == 4 else parts[half] for parts in (targets, sources)
        ]
        yield replace(step, ins=replace(step.ins, mnemonic="mov.b64", operands=tuple(pair)))


def _move_parts(low: Lowering, targets: Sequence[Operand], sources: Sequence[Operand], step: Step) -> Sequence[Stmt]:
    """Registers to registers, part by part: all are read before any is written."""
    if step.ins.modifiers[-1] == "b128" and {len(targets), len(sources)} == {2, 4}:
        return [stmt for half in _halves(targets, sources, step) for stmt in move(low, half) or ()]
    if len(targets) != len(sources):
        raise InstructionError(f"{step.ins.mnemonic}: two lengths", given=f"{len(targets)} and {len(sources)}")
    kind = _width(step.ins.modifiers[-1])
    held = [Var(low.fresh("part"), kind) for _ in sources]
    stmts: list[Stmt] = [
        Bind(var, read(low, source, step, kind), mutable=False, at=step.at)
        for var, source in zip(held, sources, strict=True)
    ]
    for target, var in zip(targets, held, strict=True):
        stmts += assigned(low, target, var, step)
    return stmts
