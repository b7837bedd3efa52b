"""What an instruction becomes: a call of the row that its opcode spells, and registers that take the results.

Plain loads, stores and moves are the lowered stage's own; nothing else is known by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from tilewright import isa
from tilewright.dtypes import BOOL, VOID, DType, dtype
from tilewright.errors import InstructionError
from tilewright.ir import (
    AllocBuffer,
    Assign,
    Bind,
    Buffer,
    Component,
    Evaluate,
    Expr,
    Load,
    Reinterpret,
    Stmt,
    Var,
    as_expr,
    binary,
    cast,
    const,
    unary,
)
from tilewright.isa import Form
from tilewright.isa import Instruction as Row
from tilewright.isa import Operand as Kind
from tilewright.isa.types import TYPES
from tilewright.ptx.bits import number_dtype, unsigned
from tilewright.ptx.names import Parameter
from tilewright.ptx.parameters import generic_address
from tilewright.ptx.state import UINT32, UINT64, Lowering, Step
from tilewright.ptx.tree import Address, Immediate, Name, Not, Operand, Pair, Vector
from tilewright.ptx.values import WINDOW_BITS, assigned, element, lookup, pointer, read, register, stored, window
from tilewright.ptx.written import RESULT, written

__all__ = ["OWN", "instruction"]

CLOCKS = ("%clock", "%globaltimer")
CYCLES = 16  # ticks between two looks at a clock


def instruction(low: Lowering, step: Step) -> Iterator[Stmt]:
    """The statements of an instruction that stays in its block."""
    own = OWN.get(step.ins.opcode)
    made = own(low, step) if own is not None else None
    yield from _by_row(low, step) if made is None else made


# Memory


def _plain(step: Step) -> tuple[str, DType, int] | None:
    """Space, dtype and registers of a weak access; None for one of another kind."""
    space, lanes = "", 1
    *words, kind = step.ins.modifiers
    for word in words:
        if word in ("volatile", "relaxed", "acquire", "release", "mmio"):
            return None
        if word in ("v2", "v4", "v8"):
            lanes = int(word[1:])
        elif word.partition("::")[0] in ("global", "shared", "local", "const", "param"):
            space = word
    if kind == "b128" or space == "shared::cluster":
        return None
    return space, number_dtype(kind), lanes


def _load(low: Lowering, step: Step) -> Sequence[Stmt] | None:
    plain = _plain(step)
    if plain is None:
        return None
    space, kind, lanes = plain
    target, address = _alone(step.ins.operands[0]), step.ins.operands[1]
    assert isinstance(address, Address)
    found = lookup(low, address.base.text, step.scope) if address.base is not None else None
    if isinstance(found, Parameter):
        return assigned(low, target, _as(found.value, kind), step)
    at = pointer(low, address, step, space)
    if lanes == 1:
        return assigned(low, target, element(low, at, kind, space), step)
    parts = target.parts if isinstance(target, Vector) else ()
    whole = Var(low.fresh("vector"), kind.with_lanes(lanes))
    made: list[Stmt] = [Bind(whole, element(low, at, whole.dtype, space), mutable=False, at=step.at)]
    for index, part in enumerate(parts):
        made += assigned(low, part, Component(whole, index), step)
    return made


def _alone(operand: Operand) -> Operand:
    """A register, where a vector of one is written, as Triton does."""
    return operand.parts[0] if isinstance(operand, Vector) and len(operand.parts) == 1 else operand


def _as(value: Expr, kind: DType) -> Expr:
    """The low bits of a parameter as the type of its load, whose sign counts."""
    bits = cast(value, unsigned(kind.bits))
    return cast(bits, kind) if kind.is_signed and not kind.is_float else bits


def _store(low: Lowering, step: Step) -> Sequence[Stmt] | None:
    plain = _plain(step)
    if plain is None:
        return None
    space, kind, _ = plain
    address, source = step.ins.operands
    assert isinstance(address, Address)
    parts = source.parts if isinstance(source, Vector) else (source,)
    bits = unsigned(kind.bits)
    values = [read(low, part, step, bits) for part in parts]
    return [stored(low, pointer(low, address, step, space), values, kind, space, step.at)]


# Registers


def _move(low: Lowering, step: Step) -> Sequence[Stmt] | None:
    """``mov``: registers, numbers, addresses; parts of a register together, or apart."""
    target, source = step.ins.operands
    kind = BOOL if step.ins.modifiers[-1] == "pred" else unsigned(number_dtype(step.ins.modifiers[-1]).bits)
    if isinstance(source, Vector):
        width = kind.bits // len(source.parts)
        values = [cast(read(low, part, step, unsigned(width)), kind) for part in source.parts]
        whole = values[0]
        for index, more in enumerate(values[1:], 1):
            whole = binary("|", whole, binary("<<", more, const(width * index, kind)))
        return assigned(low, target, whole, step)
    value = read(low, source, step, kind)
    if isinstance(source, Name) and source.text.startswith(CLOCKS):  # which goes on with each look
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


def _convert_address(low: Lowering, step: Step) -> Sequence[Stmt]:
    """``cvta``: an address in shared memory is an offset of 32 bits, all others are the same everywhere."""
    target, source = step.ins.operands
    value = read(low, source, step, UINT64)
    if any(word.startswith("shared") for word in step.ins.modifiers):
        offset = cast(cast(value, UINT32), UINT64)
        start = window(low, "shared")
        value = offset if "to" in step.ins.modifiers or start is None else binary("|", offset, start)
    elif "param" in step.ins.modifiers:
        value = generic_address(low, step.scope, value)
    return assigned(low, target, value, step)


def _is_in_space(low: Lowering, step: Step) -> Sequence[Stmt]:
    """``isspacep``: does an address lie in a memory? What lies in no other is global."""
    target, source = step.ins.operands
    value = binary("&", read(low, source, step, UINT64), const(-1 << WINDOW_BITS, UINT64))
    inside: dict[str, Expr] = {}
    for space in ("shared", "local"):
        start = window(low, space)
        inside[space] = const(False, BOOL) if start is None else value == start
    wanted = step.ins.modifiers[0].partition("::")[0]
    elsewhere = unary("not", binary("or", inside["shared"], inside["local"]))
    return assigned(low, target, inside.get(wanted, elsewhere if wanted == "global" else const(False, BOOL)), step)


def _barrier(low: Lowering, step: Step) -> Sequence[Stmt] | None:
    """``bar.sync`` and ``barrier.sync`` without a number of threads: all of the CTA."""
    words, operands = step.ins.modifiers, step.ins.operands
    if words[0] != "sync" or len(operands) != 1:
        return None
    number = operands[0]
    if isinstance(number, Immediate) and number.value == 0:
        return [Evaluate(isa.call("cuda.cta_sync"), at=step.at)]
    threads = const(low.machine.launch.warps * 32, UINT32)
    return [Evaluate(isa.call("ptx.bar.sync", read(low, number, step, UINT32), threads), at=step.at)]


def _trap(low: Lowering, step: Step) -> Sequence[Stmt]:
    """``trap``: whoever gets there ends the launch with an error."""
    return [Evaluate(isa.call("cuda.trap"), at=step.at)]


def _nothing(low: Lowering, step: Step) -> Sequence[Stmt]:
    """Do nothing: no value shows what the instruction does."""
    return ()


OWN: Mapping[str, Callable[[Lowering, Step], Sequence[Stmt] | None]] = {
    "ld": _load,
    "st": _store,
    "mov": _move,
    "cvta": _convert_address,
    "isspacep": _is_in_space,
    "bar": _barrier,
    "barrier": _barrier,
    "trap": _trap,
    **dict.fromkeys(("pmevent", "brkpt", "prefetch", "prefetchu", "discard", "applypriority"), _nothing),
}


# Every other instruction is a row of the table


def _by_row(low: Lowering, step: Step) -> Iterator[Stmt]:
    found = isa.opcode(step.ins.mnemonic)
    if found.row.written:
        yield from _of_compilers(low, found, step)
        return
    one = written(step.ins.mnemonic, step.ins.operands, lambda operand: _is_predicate(operand, step))
    given: dict[str, object] = {}
    after: list[Stmt] = []
    for kind in one.row.operands:
        if kind.kind == "note":  # which no text has: what it says of the operand before it
            given[kind.name] = next(reversed(given.values()))
        elif kind.name in one.operands:
            given[kind.name] = _argument(low, kind, one.operands[kind.name], one.form, one.mods, step, after)
    value = isa.call(one.row.name, **given, **_keywords(one.row, one.mods))
    if RESULT in one.operands:
        yield from _results(low, one.operands[RESULT], value, step)
    else:
        yield Evaluate(value, at=step.at)
    yield from after


def _keywords(row: Row, mods: Mapping[str, object]) -> dict[str, object]:
    """The modifiers that a call of a row names."""
    return {
        key: value
        for key, value in mods.items()
        if (key in row.keywords or key in row.params) and row.operand(key) is None
    }


def _of_compilers(low: Lowering, found: isa.Opcode, step: Step) -> Iterator[Stmt]:
    """A call of a row as compilers write it: operands in the row's order, which may lack the last ones."""
    row, mods = found.row, dict(found.mods)
    leaves = list(_leaves(step.ins.operands))
    targets: list[Operand] = []
    if found.form.result is not VOID:
        first = leaves.pop(0)
        targets = [first.first, first.second] if isinstance(first, Pair) else [first]
    given, after = _given(low, found, leaves, step)
    arguments = _keywords(row, mods)
    if not targets:
        yield Evaluate(isa.call(row.name, **given, **arguments), at=step.at)
    for number, target in enumerate(targets):
        if isinstance(target, Name) and target.text == "_" and len(targets) > 1:
            continue
        out = {"out": found.outs[number]} if found.outs else {}
        value = isa.call(row.name, **given, **{**arguments, **out})
        yield from _results(low, target, value, step)
    yield from after


def _results(low: Lowering, target: Operand, value: Expr, step: Step) -> Sequence[Stmt]:
    target = _alone(target)
    if not isinstance(target, Vector):
        made = assigned(low, target, value, step)
        return made or [Evaluate(value, at=step.at)]
    whole = Var(low.fresh("vector"), value.dtype)
    taken: list[Stmt] = [Bind(whole, value, mutable=False, at=step.at)]
    for index, part in enumerate(target.parts):
        taken += assigned(low, part, Component(whole, index), step)
    return taken


def _leaves(operands: Sequence[Operand]) -> Iterator[Operand]:
    """Operands one by one: what stands in the brackets of an address follows it."""
    for operand in operands:
        yield operand
        if isinstance(operand, Address):
            yield from operand.more


def _given(low: Lowering, found: isa.Opcode, leaves: list[Operand], step: Step) -> tuple[dict[str, object], list[Stmt]]:
    """The arguments of a call by name, and what takes what it writes to registers."""
    given: dict[str, object] = {}
    after: list[Stmt] = []
    row = found.row
    for kind in row.operands:
        may_lack = kind.optional or row.keywords.get(kind.name, 0) is None
        if may_lack and (not leaves or (kind.kind == "pred") != _is_predicate(leaves[0], step)):
            continue
        if not leaves:
            raise InstructionError(f"{step.ins.mnemonic} lacks its operand {kind.name}")
        given[kind.name] = _argument(low, kind, leaves.pop(0), found.form, found.mods, step, after)
    if leaves:
        raise InstructionError(f"{step.ins.mnemonic} has too many operands", given=f"{len(leaves)} more")
    return given, after


def _argument(
    low: Lowering, kind: Kind, leaf: Operand, form: Form, mods: Mapping[str, object], step: Step, after: list[Stmt]
) -> object:
    """One argument of a call. after: gets what takes what the call writes to registers."""
    parts = leaf.parts if isinstance(leaf, Vector) else (leaf,)
    if form.issue is not None and (kind.written or kind.name in form.issue.holds):
        values: list[object] = list(_in_flight(low, parts, step))
    elif kind.written:
        values = list(_places(low, kind, parts, step, after))
    else:
        values = [_value(low, kind, part, mods, step) for part in parts]
    return tuple(values) if kind.many else values[0]


def _in_flight(low: Lowering, parts: Sequence[Operand], step: Step) -> Iterator[Load]:
    """The storage of registers that an operation reads or writes while the thread goes on."""
    own = [register(low, part, step) for part in parts]
    new = [each for each in dict.fromkeys(own) if each is not None and each not in low.in_flight]
    if new:
        buffer = Buffer(low.fresh(new[0].name), new[0].dtype, (len(new),), "local", None)
        low.allocated.append(AllocBuffer(buffer, at=step.at))
        low.in_flight |= {each: Load(buffer, (as_expr(index),)) for index, each in enumerate(new)}
    for each in own:
        if each is None:
            raise InstructionError(f"{step.ins.mnemonic} has other operands", given="_", allowed="registers")
        yield low.in_flight[each]


def _is_predicate(operand: Operand, step: Step) -> bool:
    name = operand.name if isinstance(operand, Not) else operand
    found = step.scope.find(name.text) if isinstance(name, Name) else None
    return isinstance(found, Var) and found.dtype == BOOL


def _value(low: Lowering, kind: Kind, operand: Operand, mods: Mapping[str, object], step: Step) -> object:
    """An operand that is read."""
    if isinstance(operand, Address):
        space = "shared" if kind.kind == "shared" else str(mods.get("space") or "") if kind.kind == "place" else ""
        return pointer(low, operand, step, space)
    if kind.kind == "pred":
        return read(low, operand, step, BOOL)
    if kind.kind == "bits":
        word = kind.type_of(mods)  # type: ignore[arg-type]  # modifiers
        return read(low, operand, step, BOOL if word == "pred" else unsigned(TYPES[word].dtype.bits))
    if kind.kind == "typed":
        typed = dtype(str(mods["dtype"]))
        return _of_type(read(low, operand, step, unsigned(typed.bits)), typed)
    width = {"b16": 16, "b64": 64, "f64": 64, "global": 64, "generic": 64}.get(kind.kind, 32)
    return read(low, operand, step, unsigned(width))


def _of_type(bits: Expr, typed: DType) -> Expr:
    """Bits as a value of a dtype."""
    return bits if bits.dtype == typed else Reinterpret(bits, typed)


def _places(low: Lowering, kind: Kind, parts: Sequence[Operand], step: Step, after: list[Stmt]) -> Iterator[Load]:
    """Storage for registers that a row writes; those of the text take its values afterwards."""
    width = {"b16": 16, "b64": 64, "f64": 64}.get(kind.kind, 32)
    buffer = Buffer(low.fresh(kind.name), unsigned(width), (len(parts),), "local", None)
    low.allocated.append(AllocBuffer(buffer, at=step.at))
    for index, part in enumerate(parts):
        place = Load(buffer, (as_expr(index),))
        after += assigned(low, part, place, step)
        yield place
