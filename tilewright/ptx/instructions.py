"""Instructions as calls of the row that their opcode spells, their operands matched with the row's own text, and
assignments of the results to registers.

Plain loads, stores and moves are statements of the lowered stage; the handlers below name the few others that are no
row.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from tilewright import ir, isa
from tilewright.dtypes import BOOL, VOID, DType, dtype
from tilewright.errors import InstructionError, choices
from tilewright.ir import Assign, Evaluate, Expr, If, Stmt, Var, binary, cast, const, unary
from tilewright.isa import BARRIERS, Form
from tilewright.isa import Instruction as Row
from tilewright.isa import Operand as Kind
from tilewright.isa.arch import only, since
from tilewright.isa.forms import TYPES
from tilewright.isa.tma import MAP_FIELDS
from tilewright.ptx.flow import allocate, restore, save
from tilewright.ptx.names import type_word, unsigned
from tilewright.ptx.plain import (
    alone,
    convert_address,
    is_in_space,
    load,
    move,
    query,
    reduce_at_barrier,
    store,
    with_mask,
)
from tilewright.ptx.state import UINT32, UINT64, Lowering, Step, special_register
from tilewright.ptx.strict import check_number, check_register, check_source, check_words, without_idle
from tilewright.ptx.text import operands
from tilewright.ptx.tree import Address, Immediate, Name, Not, Operand, Pair, Vector, operand_text
from tilewright.ptx.values import assigned, element, exact, number_of, pointer, read, register, stored
from tilewright.ptx.wmma import matrix

# tensormap: threads change fields of a tensor map, and hand it on; plain accesses to the words that have the fields.
#
# Source: PTX ISA, "Data Movement and Conversion Instructions: tensormap.replace", "Parallel Synchronization and
# Communication Instructions: tensormap.cp_fenceproxy"; where the fields are: `tilewright.ir.tensor_map`.


MAP_BYTES, WORD_BYTES = 128, 4
REPLACING = ("sm_90a", *(f"sm_{number}{suffix}" for number in (100, 103, 110, 120, 121) for suffix in "af"))


def change_map(low: Lowering, step: Step) -> Sequence[Stmt]:
    """``tensormap.replace`` or ``tensormap.cp_fenceproxy``."""
    return _replaced(low, step) if step.ins.modifiers[0] == "replace" else _handed_on(low, step)


def _replaced(low: Lowering, step: Step) -> Sequence[Stmt]:
    words = step.ins.modifiers
    low.check_target(step.ins.mnemonic, only(*REPLACING))
    field = MAP_FIELDS.get(words[2]) if words[1:2] == ("tile",) else None
    address, *rest = step.ins.operands
    if field is None or not isinstance(address, Address) or len(rest) != 1 + bool(field.ordinals):
        name = words[2] if len(words) > 2 else ""
        raise InstructionError(f"{step.ins.mnemonic} is not supported", given=name, allowed=choices(name, MAP_FIELDS))
    index = rest[0].value if field.ordinals and isinstance(rest[0], Immediate) else 0
    space, kind = step.ins.space, UINT64 if words[-1] == "b64" else UINT32
    value = Var(low.fresh("field"), UINT64)
    stmts: list[Stmt] = [
        Assign(value, binary("-", cast(read(low, rest[-1], step, kind), UINT64), const(field.less, UINT64)), at=step.at)
    ]
    start = _start(low, address, step, space, stmts)
    for place in field.places(index):
        part = cast(binary(">>", value, const(place.after, UINT64)), UINT32)
        mask = (1 << place.bits) - 1
        at = start + const(WORD_BYTES * place.word, start.dtype)
        if place.bits < 32:
            kept = element(low, at, UINT32, space) & const(~(mask << place.shift) & 0xFFFFFFFF, UINT32)
            part = kept | binary("<<", part & const(mask, UINT32), const(place.shift, UINT32))
        stmts.append(stored(low, at, [part], UINT32, space, step.at))
    return stmts


def _start(low: Lowering, address: Operand, step: Step, space: str, stmts: list[Stmt]) -> Var:
    """The address in a register of its own."""
    assert isinstance(address, Address)
    number: Expr = number_of(pointer(low, address, step, space), space)
    held = Var(low.fresh("map"), number.dtype)
    stmts.append(Assign(held, number, at=step.at))
    return held


def _handed_on(low: Lowering, step: Step) -> Sequence[Stmt]:
    """The first lane copies the map from shared to global memory; then all of the warp release it."""
    low.check_target(step.ins.mnemonic, since("sm_90"))
    target, source, size = step.ins.operands
    scope = next((word for word in step.ins.modifiers if word in ("cta", "cluster", "gpu", "sys")), "")
    if not isinstance(size, Immediate) or size.value != MAP_BYTES or not scope:
        raise InstructionError(f"{step.ins.mnemonic} has other operands", allowed=f"[dst], [src], {MAP_BYTES}")
    stmts: list[Stmt] = []
    to = _start(low, target, step, "global", stmts)
    start = _start(low, source, step, "shared", stmts)
    lane = special_register("%laneid", low.machine)
    assert lane is not None
    copies = [
        stored(low, to + const(at, UINT64), [element(low, start + const(at, UINT32), UINT64, "shared")], UINT64,
               "global", step.at)
        for at in range(0, MAP_BYTES, 8)
    ]  # fmt: skip
    released = isa.call("ptx.fence.proxy_tensormap.release", scope)
    return [*stmts, If(binary("==", lane, const(0, UINT32)), tuple(copies), at=step.at), Evaluate(released, at=step.at)]


# Operands of an instruction, identified by comparing its text with the text that a row of the table prints.
#
# The pattern of ``wgmma.mma_async`` says where its accumulators stand, which of its operands is a predicate that the
# pattern makes of a number, and how the modifiers that follow the operands are spelled. So one text serves printing and
# reading.


RESULT = "result"
_HOLE = "%hole_"
_BRACES = re.compile(r"\{\{|\}\}|\{(\w+)\}")
_PREDICATES = re.compile(r"setp\.ne\.b32 (\w+), (%hole_\w+), 0;|selp\.b32 (%hole_result), 1, 0, (\w+);")

IsPredicate = Callable[[Operand], bool]


def written(mnemonic: str, ops: tuple[Operand, ...], is_predicate: IsPredicate) -> Written:
    """The row and form whose text this is. Raises InstructionError where no form takes such operands."""
    opcodes = isa.opcodes(mnemonic)
    for opcode in opcodes:
        asm = Written(opcode.row, opcode.form, is_predicate, dict(opcode.mods), {})
        if asm.all(_operands(opcode.pattern), ops) and not asm.lacking:
            return asm
    texts = dict.fromkeys(text_of_pattern(opcode.pattern).replace(_HOLE, "").strip() for opcode in opcodes)
    allowed = "\n".join(f"{mnemonic} {text}" for text in texts)
    raise InstructionError(f"{mnemonic} has other operands", given=", ".join(map(operand_text, ops)), allowed=allowed)


@lru_cache(maxsize=1 << 12)
def text_of_pattern(pattern: str) -> str:
    """The operands of the one instruction that a pattern is about, each hole a name, ``%hole_ptr``."""
    text = _BRACES.sub(lambda braces: f"{_HOLE}{braces[1]}" if braces[1] else braces[0][0], pattern)
    before, is_whole, rest = text.partition(f"{_HOLE}mnemonic")
    if not is_whole:
        return text
    statement, _, after = rest.partition(";")
    for match in _PREDICATES.finditer(f"{before}{after}"):
        name, hole = (match[1], match[2]) if match[1] else (match[4], match[3])
        statement = re.sub(rf"\b{name}\b", hole, statement)
    return statement


@lru_cache(maxsize=1 << 12)
def _operands(pattern: str) -> tuple[Operand, ...]:
    return operands(text_of_pattern(pattern).strip())


@dataclass(frozen=True, slots=True)
class Written:
    """An instruction as a call of a row. operands: the texts of the row's operands, and of ``result``, as they are
    found.
    """

    row: Row
    form: Form
    is_predicate: IsPredicate
    mods: dict[str, object]
    operands: dict[str, Operand]

    def all(self, places: tuple[Operand, ...], operands: tuple[Operand, ...]) -> bool:
        """Does each operand fit its place?"""
        return len(places) == len(operands) and all(map(self.one, places, operands))

    def one(self, place: Operand, operand: Operand) -> bool:
        """Does an operand fit a place of the pattern?"""
        match place:
            case Name(text):
                if text.startswith(_HOLE):
                    return not isinstance(operand, Address) and self.hole(text.removeprefix(_HOLE), operand)
                return place == operand == Name("_")
            case Immediate():
                return isinstance(operand, Immediate) and operand.value == place.value
            case Vector(parts):
                return isinstance(operand, Vector) and self.all(parts, operand.parts)
            case Pair(first, second):
                return isinstance(operand, Pair) and self.all((first, second), (operand.first, operand.second))
            case Address(base, _, more):
                if not isinstance(operand, Address):
                    return False
                alone = Address(operand.base, operand.offset)
                inside = isinstance(base, Name) and base.text.startswith(_HOLE)
                return inside and self.hole(base.text.removeprefix(_HOLE), alone) and self.all(more, operand.more)  # type: ignore[union-attr]  # a name
        return False

    @property
    def lacking(self) -> list[str]:
        """The operands of the form that nothing was found for."""
        mods = self.mods
        needed = (row.name for row in self.row.operands if row.kind != "note" and mods.get(row.name, row) is not None)
        return [name for name in needed if name not in self.operands]

    def hole(self, name: str, leaf: Operand) -> bool:
        """Does an operand fit a place that has a name?"""
        operand = self.row.operand(name)
        if operand is None and name != RESULT:
            return self.modifier(name, leaf)
        if operand is not None:
            is_one = operand.kind == "pred"
            fits = isinstance(leaf, Immediate) or self.is_predicate(leaf) == is_one
            parts = len(leaf.parts) if isinstance(leaf, Vector) else 0
            if not fits or (parts == 0 if operand.many else parts > 1):
                return False
        self.operands[name] = leaf
        return True

    def modifier(self, name: str, operand: Operand) -> bool:
        """Is it one of the values of a modifier that follows the operands?"""
        spelled = self.form.wording.modifiers.get(name, {}).items()
        text_of = str(operand.value) if isinstance(operand, Immediate) else None
        values = [value for value, text in spelled if text == text_of]
        self.mods.update(dict.fromkeys([name], *values))
        return len(values) == 1


REDUCES = frozenset(("add", "and", "dec", "inc", "max", "min", "or", "xor"))
ACQUIRES = frozenset(("acquire", "acq_rel"))
BORROWING = ("sub", "subc")  # which leave the carry of a + ~b + 1: set where nothing is borrowed. Seen: ptxas 13.0
MASKED = ("vote", "shfl")  # which had no mask before sm_70
ADDRESSES = {"shared": "b32", "generic": "b64", "global": "b64"}  # types of registers that hold them
MAPPED = "mapa.shared::cluster.u32"
HINTED = "L2::cache_hint"  # a hint that a last operand belongs to, the cache policy


def instruction(low: Lowering, step: Step) -> Iterator[ir.Stmt]:
    """The statements of an instruction that stays in its block."""
    if (ins := without_idle(step.ins)) is not step.ins:
        step = replace(step, ins=ins)
    check_words(ins)
    special = OWN.get(step.ins.opcode)
    stmts = special(low, step) if special is not None else None
    if stmts is not None:
        yield from stmts
        return
    if step.ins.opcode in MASKED:
        before, step = with_mask(low, step)
        yield from before
    yield from _by_row(low, step)


def _barrier(low: Lowering, step: Step) -> Sequence[ir.Stmt] | None:
    """``bar.sync`` and ``barrier.sync`` without a number of threads: all of the CTA."""
    words, operands = step.ins.modifiers, step.ins.operands
    if operands and isinstance(operands[0], Immediate) and not ("warp" in words or 0 <= operands[0].value < BARRIERS):
        raise InstructionError(f"{step.ins.mnemonic}: there is no such barrier", given=operand_text(operands[0]),
                               allowed=f"0 to {BARRIERS - 1}")  # fmt: skip
    if "red" in words:
        return reduce_at_barrier(low, step)
    if "sync" not in words or "warp" in words or len(operands) != 1:
        return None
    number = operands[0]
    check_number(number, "u32", step)
    check_register(number, "b32", step)
    if isinstance(number, Immediate) and number.value == 0:
        return [ir.Evaluate(isa.call("cuda.cta_sync"), at=step.at)]
    threads = const(low.machine.launch.warps * 32, UINT32)
    return [ir.Evaluate(isa.call("ptx.bar.sync", read(low, number, step, UINT32), threads), at=step.at)]


def _atomic(low: Lowering, step: Step) -> Iterable[ir.Stmt] | None:
    """``atom`` whose result nothing reads is a reduction, as an assembler makes it; it shows its thread nothing."""
    words, (target, *operands) = step.ins.modifiers, step.ins.operands
    if target != Name("_"):
        check_register(target, type_word(words), step)
    is_read = not isinstance(target, Name) or all(target.text not in scope.unread for scope in step.scope.around())
    if is_read or not REDUCES.intersection(words) or not ACQUIRES.isdisjoint(words):
        return _wide_atomic(low, step)
    return _by_row(low, step.spelled(".".join(["red", *words]), *operands))


def _wide_atomic(low: Lowering, step: Step) -> Sequence[ir.Stmt] | None:
    """``atom`` on 128 bits: of each value both halves."""
    if step.ins.modifiers[-1] != "b128":
        return None
    target, place, *values = step.ins.operands
    opcode = isa.opcode(step.ins.mnemonic)
    leaves: list[Operand] = [place]
    for value in (*values, target):
        leaves += value.parts if isinstance(value, Vector) and value is not target else [value]
    mods = dict[str, object](opcode.mods)
    passed, after = _given(low, opcode.row, opcode.form, mods, leaves, step)
    return [ir.Evaluate(isa.call(opcode.row.name, **passed, **_keywords(opcode.row, mods)), at=step.at), *after]


def _matrices(low: Lowering, step: Step) -> Iterable[ir.Stmt] | None:
    """``ldmatrix`` and ``stmatrix`` by a generic address, whose low half is the place in shared memory."""
    words, operands = step.ins.modifiers, list(step.ins.operands)
    if step.ins.space.startswith("shared"):
        return None
    at = next(number for number, operand in enumerate(operands) if isinstance(operand, Address))
    address = operands[at]
    assert isinstance(address, Address)
    held = ir.Var(low.fresh("address"), UINT32)
    operands[at] = Address(step.name(held))
    name = ".".join([step.ins.opcode, *words[:-1], "shared", words[-1]])
    there = ir.Assign(held, cast(number_of(pointer(low, address, step, ""), ""), UINT32), at=step.at)
    return [there, *_by_row(low, step.spelled(name, *operands))]


def _rank(low: Lowering, step: Step) -> Iterable[ir.Stmt] | None:
    """``getctarank`` of an address of 64 bits, whose low half names the place in shared memory."""
    if "u64" not in step.ins.modifiers or len(step.ins.operands) != 2:
        return None
    target, address = step.ins.operands
    held, there = _low_half(low, address, step)
    return [there, *_by_row(low, step.spelled(step.ins.mnemonic.replace("u64", "u32"), target, held))]


def _low_half(low: Lowering, address: Operand, step: Step) -> tuple[Name, ir.Stmt]:
    """A register for the low half of an address of 64 bits, and its assignment."""
    check_register(address, "b64", step)
    held = ir.Var(low.fresh("low"), UINT32)
    return step.name(held), ir.Assign(held, cast(read(low, address, step, UINT64), UINT32), at=step.at)


def _mapped(low: Lowering, step: Step) -> Iterable[ir.Stmt] | None:
    """``mapa`` changes the low half of an address, which names the place in shared memory; the upper half stays.

    ``mapa.u32`` is given the low half of a generic address. Seen: machine code of ptxas 13.0
    """
    words, operands = step.ins.modifiers, step.ins.operands
    if words == ("u32",):
        return _by_row(low, step.spelled(MAPPED, *operands))
    if set(words) != {"shared::cluster", "u64"} or len(operands) != 3:
        return None
    target, source, rank = operands
    low_half, there = _low_half(low, source, step.spelled(MAPPED, *operands))
    mapped = ir.Var(low.fresh("mapped"), UINT32)
    step = step.spelled(MAPPED, step.name(mapped), low_half, rank)
    upper = binary("<<", binary(">>", read(low, source, step, UINT64), const(32, UINT64)), const(32, UINT64))
    whole = binary("|", upper, cast(mapped, UINT64))
    return [there, *_by_row(low, step), *assigned(low, target, whole, step.spelled(MAPPED, *operands))]


OWN: Mapping[str, Callable[[Lowering, Step], Iterable[ir.Stmt] | None]] = {
    "ld": load,
    "st": store,
    "mov": move,
    "cvta": convert_address,
    "isspacep": is_in_space,
    "bar": _barrier,
    "barrier": _barrier,
    "trap": lambda low, step: [ir.Evaluate(isa.call("cuda.trap"), at=step.at)],
    "mapa": _mapped,
    "getctarank": _rank,
    "atom": _atomic,
    "ldmatrix": _matrices,
    "stmatrix": _matrices,
    "createpolicy": lambda low, step: assigned(low, step.ins.operands[0], const(0, UINT64), step),  # of caches
    "wmma": matrix,
    "tensormap": change_map,
    "clusterlaunchcontrol": query,
    "alloca": allocate,
    "stacksave": save,
    "stackrestore": restore,
    **dict.fromkeys(("pmevent", "brkpt", "prefetch", "prefetchu", "discard", "applypriority"), lambda low, step: ()),
}
"""The functions for opcodes that are no row, or are one in some spellings: then they give None."""


# Every other instruction is a row of the table


def _by_row(low: Lowering, step: Step) -> Iterator[ir.Stmt]:
    if any(HINTED in opcode.hints for opcode in isa.opcodes(step.ins.mnemonic)):
        step = step.spelled(step.ins.mnemonic, *step.ins.operands[:-1])
    opcode = _fitting(step)
    if opcode.row.written:
        yield from _of_compilers(low, opcode, step)
        return
    asm = written(step.ins.mnemonic, step.ins.operands, lambda operand: _is_predicate(operand, step))
    low.check_target(step.ins.mnemonic, asm.form.arch)
    values: dict[str, object] = {}
    after: list[ir.Stmt] = []
    for kind in asm.row.operands:
        if kind.kind == "note":  # no text has this operand: it is a fact about the one before
            values[kind.name] = next(reversed(values.values()))
        elif kind.name in asm.operands:
            values[kind.name] = _argument(low, kind, asm.operands[kind.name], asm.form, asm.mods, step, after)
    value = isa.call(asm.row.name, **values, **_keywords(asm.row, asm.mods))
    if RESULT in asm.operands:
        yield from _results(low, asm.operands[RESULT], value, step)
    else:
        yield ir.Evaluate(value, at=step.at)
    yield from after


def _fitting(step: Step) -> isa.Opcode:
    """Of the forms that share a spelling the one with so many operands; else the first."""
    opcodes = isa.opcodes(step.ins.mnemonic)
    count = len(step.ins.operands) - 1
    return next((opcode for opcode in opcodes if opcode.row.written and opcode.places == count), opcodes[0])


def _keywords(row: Row, mods: Mapping[str, object]) -> dict[str, object]:
    """The modifiers that a call of a row names."""
    return {
        key: value
        for key, value in mods.items()
        if (key in row.keywords or key in row.params) and row.operand(key) is None
    }


def _of_compilers(low: Lowering, opcode: isa.Opcode, step: Step) -> Iterator[ir.Stmt]:
    """A call of a row as compilers write it: operands in the row's order, which may lack the last ones."""
    low.check_target(step.ins.mnemonic, opcode.form.arch)
    row, mods = opcode.row, dict[str, object](opcode.mods)
    leaves = list(_leaves(step.ins.operands))
    targets: list[Operand] = []
    if opcode.form.result is not VOID:
        if not leaves:
            raise InstructionError(f"{step.ins.mnemonic} lacks its operands")
        first = _selected(mods, "d", leaves.pop(0))
        targets = [first.first, first.second] if isinstance(first, Pair) else [first]
    if "d_part" in mods and "a_part" not in mods:
        yield from _chosen_parts(low, leaves, step)
    values, after = _given(low, opcode.row, opcode.form, mods, leaves, step)
    arguments = _keywords(row, mods)
    if not targets:
        yield ir.Evaluate(isa.call(row.name, **values, **arguments), at=step.at)
    if mods.get("cc"):
        after += _carried(low, isa.call(row.name, **values, **arguments | {"out": "cc"}), step)
        yield after.pop(0)  # before the sum takes the place of an operand
    outs = opcode.outs if not mods.get("cc") else ("d",)
    for number, target in enumerate(targets):
        if isinstance(target, Name) and target.text == "_" and len(targets) > 1:
            continue
        if outs and number >= len(outs):
            raise InstructionError(f"{step.ins.mnemonic} has one result", given=f"{len(targets)}")
        out = {"out": outs[number]} if outs else {}
        value = isa.call(row.name, **values, **{**arguments, **out})
        yield from _results(low, target, value, step)
    yield from after


def _carried(low: Lowering, carry: ir.Expr, step: Step) -> list[ir.Stmt]:
    """Assign the carry that an instruction leaves to the carry flag, which no register names."""
    held = ir.Var(low.fresh("carry"), BOOL)
    carry = unary("not", carry) if step.ins.opcode in BORROWING else carry
    return [ir.Bind(held, carry, mutable=False, at=step.at), ir.Assign(low.carry(step.scope), held, at=step.at)]


def _selected(mods: dict[str, object], name: str, operand: Operand) -> Operand:
    """An operand of a video instruction without its sign and its selector of parts, which are modifiers of the row."""
    sign = "a_sign" if name == "b" else f"{name}_sign"  # of a product
    if isinstance(operand, Not) and operand.sign == "-" and sign in mods:
        mods[sign] = not mods[sign]
        operand = operand.name
    if f"{name}_part" in mods and isinstance(operand, Name) and "." in operand.text:
        stem, _, part = operand.text.rpartition(".")
        mods[f"{name}_part"] = part
        operand = Name(stem)
    return operand


def _chosen_parts(low: Lowering, leaves: list[Operand], step: Step) -> Iterator[ir.Stmt]:
    """Operands of a video instruction on parts: a selector (``r1.h30``) takes parts of both of them, by a prmt."""
    names = [operand.text.partition(".") if isinstance(operand, Name) else ("", "", "") for operand in leaves[:2]]
    if not any(part for _, _, part in names):
        return
    stems = [Name(stem) if part else leaf for (stem, _, part), leaf in zip(names, leaves, strict=False)]
    both = [read(low, stem, step, UINT32) for stem in stems]
    for place, (_, _, part) in enumerate(names):
        if part:
            digits = [f"{2 * int(digit) + 1}{2 * int(digit)}" if part[0] == "h" else digit for digit in part[1:]]
            chosen = isa.call("ptx.prmt", *both, const(int("".join(digits), 16), UINT32), type="b32")
            held = ir.Var(low.fresh("parts"), UINT32)
            leaves[place] = step.name(held)
            yield ir.Assign(held, chosen, at=step.at)


def _results(low: Lowering, target: Operand, value: ir.Expr, step: Step) -> Sequence[ir.Stmt]:
    if isinstance(target, Vector) and (len(target.parts) == 1 or value.dtype.lanes == 1) and step.ins.opcode != "ld":
        raise InstructionError(f"{step.ins.mnemonic} has one result", given=operand_text(target), allowed="a register")
    target = alone(target)
    if not isinstance(target, Vector):
        stmts = assigned(low, target, value, step)
        return stmts or [ir.Evaluate(value, at=step.at)]
    whole = ir.Var(low.fresh("vector"), value.dtype)
    taken: list[ir.Stmt] = [ir.Bind(whole, value, mutable=False, at=step.at)]
    for index, part in enumerate(target.parts):
        taken += assigned(low, part, ir.Component(whole, index), step)
    return taken


def _leaves(operands: Sequence[Operand]) -> Iterator[Operand]:
    """Operands one by one: what stands in the brackets of an address follows it."""
    for operand in operands:
        yield operand
        if isinstance(operand, Address):
            yield from operand.more


def _given(
    low: Lowering, row: Row, form: Form, mods: dict[str, object], leaves: list[Operand], step: Step
) -> tuple[dict[str, object], list[ir.Stmt]]:
    """The arguments of a call by name, and the statements that assign its results to registers."""
    values: dict[str, object] = {}
    after: list[ir.Stmt] = []
    for kind in row.operands:
        if kind.name == "carry":
            carry = low.carry(step.scope)
            values["carry"] = unary("not", carry) if step.ins.opcode in BORROWING else carry
            continue
        may_lack = kind.optional or row.keywords.get(kind.name, 0) is None
        if may_lack and (not leaves or (kind.kind == "pred") != _is_predicate(leaves[0], step)):
            continue
        if not leaves:
            raise InstructionError(f"{step.ins.mnemonic} lacks its operand {kind.name}")
        first = leaves.pop(0)
        if (
            isinstance(first, Vector) and len(first.parts) > 1 and kind.kind == "bits" and not kind.many
        ):  # of operands that are one each
            first, *rest = first.parts
            leaves[:0] = rest
        leaf = _selected(mods, kind.name, first)
        values[kind.name] = _argument(low, kind, leaf, form, mods, step, after)
    if leaves:
        raise InstructionError(f"{step.ins.mnemonic} has too many operands", given=f"{len(leaves)} more")
    return values, after


def _argument(
    low: Lowering, kind: Kind, leaf: Operand, form: Form, mods: Mapping[str, object], step: Step, after: list[ir.Stmt]
) -> object:
    """One argument of a call. after: gets the statements that assign results to registers."""
    if isinstance(leaf, Vector) and not kind.many and step.ins.opcode not in ("ld", "st"):
        raise InstructionError(
            f"{step.ins.mnemonic} takes no vector here", given=operand_text(leaf), allowed="a register"
        )
    parts = leaf.parts if isinstance(leaf, Vector) else (leaf,)
    if form.issue is not None and (kind.written or kind.name in form.issue.holds):
        values: list[object] = list(_in_flight(low, parts, step))
    elif kind.written:
        values = list(_places(low, kind, parts, step, after))
    else:
        in_brackets = kind.kind == "bits" and f"[{{{kind.name}}}]" in getattr(form.wording, "pattern", "")
        if in_brackets and isinstance(leaf, Address) and leaf.base is not None and not leaf.offset:
            parts = (leaf.base,)  # of tensor memory
        values = [_value(low, kind, part, mods, step) for part in parts]
    return tuple(values) if kind.many else values[0]


def _in_flight(low: Lowering, parts: Sequence[Operand], step: Step) -> Iterator[ir.Load]:
    """The storage of registers that an operation reads or writes while the thread goes on."""
    registers = [register(low, part, step) for part in parts]
    new = [var for var in dict.fromkeys(registers) if var is not None and var not in low.in_flight]
    if new:
        low.in_flight |= zip(new, low.places(new[0].name, new[0].dtype, len(new), step.at), strict=True)
    for var in registers:
        if var is None:
            raise InstructionError(f"{step.ins.mnemonic} has other operands", given="_", allowed="registers")
        yield low.in_flight[var]


def _is_predicate(operand: Operand, step: Step) -> bool:
    symbol = step.scope.named(operand.name if isinstance(operand, Not) else operand)
    return isinstance(symbol, ir.Var) and symbol.dtype == BOOL


def _value(low: Lowering, kind: Kind, operand: Operand, mods: Mapping[str, object], step: Step) -> object:
    """An operand that is read."""
    if kind.kind in ("place", "bits", "pred") and isinstance(operand, Address) != (kind.kind == "place"):
        allowed = "[address], in brackets" if kind.kind == "place" else "a register or a number"
        raise InstructionError(f"{step.ins.mnemonic} has another operand {kind.name}", given=operand_text(operand),
                               allowed=allowed)  # fmt: skip
    if isinstance(operand, Address):
        short = kind.resolved(mods).kind in ("shared", "tmem", "b32")  # type: ignore[arg-type]  # modifiers
        space = "shared" if short else ""  # of 32 bits
        space = str(mods.get("space") or "") if kind.kind == "place" else space
        return number_of(pointer(low, operand, step, space), space)
    if kind.kind == "imm":
        if not isinstance(operand, Immediate):
            raise InstructionError(f"{step.ins.mnemonic}: {kind.name} is a constant", given=operand_text(operand))
        return operand.value
    if kind.kind == "pred":
        return read(low, operand, step, BOOL)
    if kind.kind == "bits":
        word = kind.type_of(mods)  # type: ignore[arg-type]  # modifiers
        check_source(low, operand, word, step)
        return exact(low, operand, step, BOOL if word == "pred" else unsigned(TYPES[word].dtype.bits))
    if kind.kind == "typed":
        typed = dtype(str(mods["dtype"]))
        check_source(low, operand, type_word(step.ins.modifiers), step)
        return _of_type(read(low, operand, step, unsigned(typed.bits)), typed)
    if kind.kind in TYPES:
        check_source(low, operand, kind.kind, step)
    elif kind.kind in ADDRESSES:
        check_register(operand, ADDRESSES[kind.kind], step)
    width = {"b16": 16, "b64": 64, "f64": 64, "global": 64, "generic": 64}.get(kind.kind, 32)
    bits = read(low, operand, step, unsigned(width))
    return _of_type(bits, dtype(f"float{width}")) if kind.kind in ("f32", "f64") else bits


def _of_type(bits: ir.Expr, typed: DType) -> ir.Expr:
    """Bits as a value of a dtype."""
    return bits if bits.dtype == typed else ir.Reinterpret(bits, typed)


def _places(low: Lowering, kind: Kind, parts: Sequence[Operand], step: Step, after: list[ir.Stmt]) -> Iterator[ir.Load]:
    """Storage for registers that a row writes; those of the text take its values afterwards."""
    width = {"b16": 16, "b64": 64, "f64": 64}.get(kind.kind, 32)
    for part, place in zip(parts, low.places(kind.name, unsigned(width), len(parts), step.at), strict=True):
        after += assigned(low, part, place, step)
        yield place
