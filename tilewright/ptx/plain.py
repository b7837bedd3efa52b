"""Plain loads, stores and moves as statements of the lowered stage, without a row, vectors part by part; and votes,
shuffles and requests for clusters in forms that are no row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tilewright import isa
from tilewright.dtypes import BOOL, DType
from tilewright.errors import InstructionError
from tilewright.ir import Assign, Bind, Component, Evaluate, Expr, Stmt, Var, binary, cast, const, select, unary
from tilewright.isa.arch import since
from tilewright.ptx.declare import SHARED, are_short, generic_address, lookup, widened
from tilewright.ptx.names import Memory, Parameter, nbytes, number_dtype, start_of, type_word, unsigned
from tilewright.ptx.state import UINT32, UINT64, Lowering, Step, cta_number
from tilewright.ptx.strict import check_address, check_number, check_register, check_source, check_together, is_mixed
from tilewright.ptx.tree import Address, Immediate, Name, Operand, Variable, Vector, operand_text
from tilewright.ptx.values import WINDOW_BITS, assigned, element, exact, pointer, read, register, stored, window

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
        memories = [*map(Memory, low.parameter_buffers.values())]
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
    parts = _registers_of(target, lanes, step)
    check_together(parts, step)
    whole = Var(low.fresh("vector"), kind.with_lanes(lanes))
    code: list[Stmt] = [Bind(whole, element(low, at, whole.dtype, space, constant=constant), mutable=False, at=step.at)]
    for index, part in enumerate(parts):
        code += assigned(low, part, Component(whole, index), step)
    return code


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


def _registers_of(operand: Operand, count: int, step: Step) -> Sequence[Operand]:
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
    parts = _registers_of(source, lanes, step)
    bits = unsigned(kind.bits)
    check_together(parts, step)
    for part in parts:
        check_source(low, part, type_word(step.ins.modifiers), step, f"b{kind.bits}" if is_mixed(parts, step) else "")
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
        yield step.spelled("mov.b64", *pair)


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


# Votes, shuffles and reductions in forms that are no row: without ``.sync``, and at a barrier.
#
# Before sm_70 lanes of a warp ran together, and votes and shuffles had no mask: the active lanes take part. A barrier
# that also counts (``bar.red``) is three barriers around a counter that the CTA has for it, 0 before and afterwards.

SYNC_SINCE = 70  # the architecture from which on lanes may be apart
COUNTERS = "counters of bar.red"


def with_mask(low: Lowering, step: Step) -> tuple[list[Stmt], Step]:
    """``vote`` or ``shfl`` without ``.sync`` as one of all the lanes that are there."""
    words = step.ins.modifiers
    if "sync" in words:
        return [], step
    if low.target_number >= SYNC_SINCE:
        raise InstructionError(f"{step.ins.mnemonic} needs .sync from sm_{SYNC_SINCE} on", given=low.module.target[0])
    mask = Var(low.fresh("mask"), UINT32)
    name = ".".join([step.ins.opcode, "sync", *words])
    there: list[Stmt] = [Assign(mask, isa.call("ptx.activemask"), at=step.at)]
    return there, step.spelled(name, *step.ins.operands, step.name(mask))


def reduce_at_barrier(low: Lowering, step: Step) -> Sequence[Stmt]:
    """``bar.red``: all threads get the number of those whose predicate holds, or whether all or any do."""
    op = next((word for word in step.ins.modifiers if word in ("popc", "and", "or")), "")
    if not op or not 3 <= len(step.ins.operands) <= 4:
        raise InstructionError(f"{step.ins.mnemonic} has other operands", allowed="d, barrier{, threads}, predicate")
    target, barrier, *threads, predicate = step.ins.operands
    held = read(low, predicate, step, BOOL)
    counted = select(held, const(int(op != "and"), UINT32), const(int(op == "and"), UINT32))
    mine, number, total = (Var(low.fresh(name), UINT32) for name in ("mine", "barrier", "total"))
    place = Var(low.fresh("counter"), UINT64)
    if not threads and isinstance(barrier, Immediate) and barrier.value == 0:
        meeting = isa.call("cuda.cta_sync")
    else:
        meeting = isa.call("ptx.barrier.sync", number, _threads(low, threads, step))
    meet = Evaluate(meeting, at=step.at)
    stmts: list[Stmt] = [
        Bind(mine, counted, mutable=False, at=step.at),
        Bind(number, read(low, barrier, step, UINT32), mutable=False, at=step.at),
        Bind(place, _counter(low, number), mutable=False, at=step.at),
        _add(place, mine, step),
        meet,
        Assign(total, cast(_add_of(place, const(0, UINT32)), UINT32), at=step.at),
        meet,
        _add(place, binary("-", const(0, UINT32), mine), step),
        meet,
    ]
    value: Expr = total if op == "popc" else total == 0 if op == "and" else total != 0
    return [*stmts, *assigned(low, target, value, step)]


def _threads(low: Lowering, operands: Sequence[Operand], step: Step) -> Expr:
    return read(low, operands[0], step, UINT32) if operands else const(low.machine.launch.warps * 32, UINT32)


def _add_of(place: Expr, value: Expr) -> Expr:
    return isa.call("ptx.atom.add", place, value, scope="cta", space="global")


def _add(place: Expr, value: Expr, step: Step) -> Stmt:
    return Evaluate(_add_of(place, value), at=step.at)


def _counter(low: Lowering, number: Expr) -> Expr:
    """The address of the counter that the CTA has for a barrier."""
    x, y, z = low.machine.grid
    variable = Variable("global", "b32", COUNTERS, (x * y * z * isa.BARRIERS,))
    low.globals[COUNTERS] = variable
    buffer = low.global_bytes(COUNTERS, nbytes(variable), 256)
    offset = (cta_number(low.machine) * isa.BARRIERS + (number & (isa.BARRIERS - 1))) * 4
    return start_of(buffer) + cast(offset, UINT64)


# clusterlaunchcontrol.query_cancel: what a register of 128 bits says of a request for a cluster that has not begun.
#
# The request itself is a row of the table, and so is what its 16 bytes are: `tilewright.isa.sync`.
#
# Source: PTX ISA, "Parallel Synchronization and Communication Instructions: clusterlaunchcontrol.query_cancel".

FIRST_CTA = "get_first_ctaid"
ALLOWED = (
    "is_canceled.pred.b128 p, answer",
    f"{FIRST_CTA}.v4.b32.b128 {{x, y, z, _}}, answer",
    *(f"{FIRST_CTA}::{dim}.b32.b128 d, answer" for dim in "xyz"),
)


def query(low: Lowering, step: Step) -> Sequence[Stmt] | None:
    """The statements of ``query_cancel``; None for the request, which is a row."""
    words, operands = step.ins.modifiers, step.ins.operands
    if words[0] != "query_cancel":
        return None
    low.check_target(step.ins.mnemonic, since("sm_100"))
    target, answer = operands
    if not isinstance(answer, Vector) or len(answer.parts) != 2:
        raise InstructionError(f"{step.ins.mnemonic} reads no answer", allowed="a register of 128 bits: .reg .b128")
    low_half, high_half = (read(low, part, step, UINT64) for part in answer.parts)
    taken, *first = (_word(half, start) for half in (low_half, high_half) for start in (0, 32))
    match words[1:]:
        case ("is_canceled", "pred", "b128"):
            return assigned(low, target, binary("!=", taken, const(0, UINT32)), step)
        case ("get_first_ctaid", "v4", "b32", "b128") if isinstance(target, Vector) and len(target.parts) == 4:
            parts = zip(target.parts, (*first, const(0, UINT32)), strict=True)
            return [stmt for part, number in parts for stmt in assigned(low, part, number, step)]
        case ("get_first_ctaid::x" | "get_first_ctaid::y" | "get_first_ctaid::z" as which, "b32", "b128"):
            return assigned(low, target, first["xyz".index(which[-1])], step)
    raise InstructionError(f"{step.ins.mnemonic} has other operands", allowed="; ".join(ALLOWED))


def _word(half: Expr, start: int) -> Expr:
    return cast(binary(">>", half, const(start, UINT64)), UINT32)
