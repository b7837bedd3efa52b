"""From a call to its row: checking ``T.<name>(...)`` against the table, reading such a call back, and finding the row
of a PTX mnemonic.

`call` builds the expression, `bind` finds form, modifiers and operands of one.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cache, reduce
from itertools import chain
from string import Formatter
from typing import TYPE_CHECKING

import numpy as np

from tilewright import ir
from tilewright.dtypes import BOOL, HANDLE, INT32, INT64, DType, dtype
from tilewright.errors import InstructionError, choices
from tilewright.ir.convert import converted
from tilewright.isa.declared import check_links
from tilewright.isa.forms import CONSTRAINTS, Form, Operand, Ptx, Spellings, register_word
from tilewright.isa.places import ADDRESS, as_bits, as_register, integer_dtype, register_types
from tilewright.isa.table import (
    INSTRUCTIONS,
    REQUIRED,
    Bound,
    Instruction,
    lookup,
    misused,
    no_form,
    public,
    usage,
    written,
)
from tilewright.records import replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
__all__ = ["Opcode", "bind", "call", "calls_in", "opcode", "opcodes", "spelled", "usage"]

FLOAT32 = dtype("float32")
UINT64 = dtype("uint64")


def call(name: str, /, *args: object, **kwargs: object) -> ir.Expr:
    """``T.<name>(*args, **kwargs)`` as an expression, checked against the table.

    It is a `Call`; where a row widens narrow floats, a `Cast` around one. A vector operand may be a tuple or list of
    registers, or a one-dimensional local buffer, which stands for all its registers.

    Raises InstructionError for a missing or unknown argument, a modifier without a spelling, a wrong register count.
    """
    row = lookup(name)
    positional, keywords = _arranged(row, args, kwargs)
    positional = _folded(row, positional, keywords)
    if "dtype" in keywords:
        keywords["dtype"] = _pointed(row, positional[0][1], keywords["dtype"])
    arguments = [*((p.lstrip("*"), v) for p, v in positional), *keywords.items()]
    element = None
    if keywords.get("type", "") is None:
        element = _element_dtype(row, arguments)
        keywords["type"] = register_word(element)
        positional = [(param, _as_element(row, param, value, element)) for param, value in positional]
    kind, computed = _typed_dtype(row, arguments)
    types = register_types(row, keywords)
    vectors = (_arguments(row, param, value, types.get(param.lstrip("*"), computed)) for param, value in positional)
    operands = tuple(chain.from_iterable(vectors))
    kept = (key for key, value in keywords.items() if key == row.agrees or not _is_default(row, key, value))
    modifiers = tuple((key, _argument(row, key, keywords[key], computed)) for key in kept)
    node = ir.Call(name, operands, modifiers, dtype("void"))
    bound = bind(node)
    result = bound.result
    node = replace(node, dtype=result)
    object.__setattr__(node, "_bound", bound)
    if element is not None and result != element and result.bits == element.bits:
        return ir.Reinterpret(node, element)
    return ir.cast(node, kind) if kind is not None and kind != computed and result == computed else node


def _is_default(row: Instruction, key: str, value: object) -> bool:
    """Is it what the row has where the keyword is left out, by the table's spelling of both?"""
    default, spelled = (_as_spelled(row, key, candidate) for candidate in (row.keywords[key], value))
    return type(default) is type(spelled) and bool(default == spelled)


def _arranged(
    row: Instruction, args: Iterable[object], kwargs: dict[str, object]
) -> tuple[list[tuple[str, object]], dict[str, object]]:
    """Arguments matched with parameters: (parameter, value) of the positional ones, and the keywords by name."""
    arguments = dict(kwargs)
    rest = list(args)
    positional: list[tuple[str, object]] = []
    for param in row.params:
        name = param.lstrip("*")
        if name in arguments:
            positional.append((param, arguments.pop(name)))
        elif param != name:
            positional += [(param, value) for value in rest]
            rest = []
        elif rest:
            positional.append((param, rest.pop(0)))
        elif (operand := row.operand(name)) is not None and operand.optional:
            positional.append((param, None))
        else:
            raise misused(row, f"lacks its argument {name!r}", args, kwargs)
    keywords = {}
    for name, default in row.keywords.items():
        keywords[name] = arguments.pop(name) if name in arguments else rest.pop(0) if rest else default
        if keywords[name] is REQUIRED:
            raise misused(row, f"lacks its argument {name!r}", args, kwargs)
    if rest or arguments:
        how = f"has no argument {', '.join(map(repr, arguments))}" if arguments else f"takes {len(rest)} fewer"
        raise misused(row, how, args, kwargs)
    return positional, keywords


def _folded(
    row: Instruction, positional: list[tuple[str, object]], keywords: dict[str, object]
) -> list[tuple[str, object]]:
    """The positional arguments with the row's folding keywords added to them; those are gone from ``keywords``."""
    steps = [(target, keywords.pop(name), shift) for name, (target, shift) in row.folds.items()]
    return [(param, _moved(row, param, value, steps)) for param, value in positional]


def _moved(row: Instruction, param: str, value: object, steps: list[tuple[str, object, int]]) -> object:
    """The operand ``param`` plus the values of its folding keywords."""
    for target, step, shift in steps:
        if target == param and ir.const_value(ir.as_expr(step)) != 0:  # type: ignore[arg-type]  # as_expr refuses
            operand = row.operand(param)
            assert operand is not None, f"{row.name} folds into {param}, which it lacks"
            base = _expression(row, operand, value, None)
            assert isinstance(base, ir.Expr)
            moved = step if isinstance(step, int) else ir.cast(step, base.dtype)  # type: ignore[arg-type]  # cast refuses
            value = base + (moved << shift if shift else moved)
    return value


def _typed_dtype(row: Instruction, arguments: list[tuple[str, object]]) -> tuple[DType | None, DType | None]:
    """The dtype that the operands of kind "typed" have together, and the one that the row computes with.

    What a pointer operand points to decides; then the expressions among them; Python numbers follow.
    """
    typed = [value for name, value in arguments if _kind(row, name) == "typed"]
    if not typed or any(isinstance(value, str) for value in typed):
        return None, None
    places = [_buffer_of(value) for name, value in arguments if _kind(row, name) != "typed"]
    pointed = [place.dtype for place in places if place is not None]
    dtypes = pointed[:1] or [value.dtype for value in typed if isinstance(value, ir.Expr)]
    kinds = {kind for form in row.forms for kind in form.wording.modifiers["dtype"]}
    if not dtypes:
        floats = [ir.as_expr(value).dtype.is_float for value in typed]  # type: ignore[arg-type]  # as_expr refuses the rest
        kind = FLOAT32 if any(floats) else INT32
        return (kind, kind) if kind in kinds else (FLOAT32, FLOAT32)
    kind = reduce(ir.common_dtype, dtypes)
    if kind == HANDLE and kind not in kinds:  # a pointer moves as the number that it is
        return kind, next((number for number in (INT64, UINT64) if number in kinds), kind)
    widened = row.widens and kind.is_float and kind not in kinds
    return kind, FLOAT32 if widened else kind


def _element_dtype(row: Instruction, arguments: list[tuple[str, object]]) -> DType:
    """The dtype of an element that an access has in memory: of the buffer that is pointed into, else of the value."""
    (pointer,) = (value for name, value in arguments if _kind(row, name) == "place")
    values = [value for name, value in arguments if _kind(row, name) == "bits"]
    if not values or _buffer_of(pointer) is not None:
        return _pointed(row, pointer, None)
    return ir.as_expr(values[0]).dtype  # type: ignore[arg-type]  # as_expr refuses what is no value


def _as_element(row: Instruction, param: str, value: object, element: DType) -> object:
    """What a register is to hold, as the element's dtype; other arguments as they are."""
    return converted(value, element, f"T.{row.name}: {param}") if _kind(row, param) == "bits" else value  # type: ignore[arg-type]


def _pointed(row: Instruction, pointer: object, kind: object) -> DType:
    """The dtype of an element in memory: ``kind``, or that of the buffer that is pointed into."""
    if kind is not None:
        return dtype(str(kind))
    place = _buffer_of(pointer)
    if place is None:
        raise InstructionError(
            f"T.{row.name}: {pointer} does not say what it points to", given="dtype=None", allowed=usage(row)
        )
    return place.dtype


def _buffer_of(value: object) -> ir.Buffer | None:
    """The buffer that a pointer, a region or the buffer itself leads to."""
    return (
        value.buffer
        if isinstance(value, (ir.AddressOf, ir.Region))
        else value
        if isinstance(value, ir.Buffer)
        else None
    )


def _kind(row: Instruction, name: str) -> str:
    operand = row.operand(name)
    return operand.kind if operand else ""


def _arguments(row: Instruction, param: str, value: object, typed: DType | None) -> Iterator[ir.Argument]:
    """One argument of the call for ``param``, or for a starred one as many as there are registers."""
    operand = row.operand(param.lstrip("*"))
    if operand is None or not operand.many:
        yield _argument(row, param, value, typed)
        return
    registers = tuple(_expression(row, operand, part, typed) for part in _each_register(operand, value))
    if param.startswith("*"):
        yield from registers
    else:
        yield registers


def _each_register(operand: Operand, value: object) -> Iterator[object]:
    """The registers that ``value`` stands for."""
    if isinstance(value, (tuple, list)):
        for part in value:
            yield from _each_register(operand, part)
    elif isinstance(value, ir.Buffer) and operand.kind in CONSTRAINTS:
        yield from _each_register(operand, value.region())
    elif isinstance(value, ir.Region) and operand.kind in CONSTRAINTS:
        yield from _registers(operand, value)
    else:
        yield value


def _registers(operand: Operand, run: ir.Region) -> Iterator[ir.Expr]:
    """A register for every 32 bits of a run of a local buffer."""
    buffer, extent = run.buffer, ir.const_value(run.extents[0])
    if len(run.box) != 1 or buffer.space != "local" or extent is None:
        raise InstructionError(
            f"{operand.name} is a vector of registers",
            given=f"{run}, in {buffer.space}",
            allowed="elements of a local buffer, or a run of one with one dimension",
            hint=f"{buffer.name}.local()" if buffer.space == "local" else None,
        )
    per_register = max(1, 32 // buffer.dtype.bits)
    yield from (buffer.ptr_to([run.box[0][0] + slot]) for slot in range(0, int(extent), per_register))


def _argument(row: Instruction, name: str, value: object, typed: DType | None) -> ir.Argument:
    """Operands become expressions; modifiers plain Python values (a constant expression is its value)."""
    operand = row.operand(name)
    if operand is not None:
        return _expression(row, operand, value, typed)
    number = _modifier(value)
    if not _is_plain(number):
        allowed = {spelling for form in row.forms for spelling in form.wording.modifiers.get(name, ())}
        raise InstructionError(
            f"T.{row.name}: {name} is a modifier, a constant",
            given=written(value),
            allowed=", ".join(sorted(map(repr, allowed))),
        )
    return _as_spelled(row, name, number)  # type: ignore[return-value]  # of the table, or what was given


def _as_spelled(row: Instruction, name: str, value: object) -> object:
    """The value as the table has it: 1 for 1.0 and for True, where it has the number."""
    if not isinstance(value, (float, bool)):
        return value
    spelled = (key for form in row.forms for key in form.wording.modifiers.get(name, ()) if key == value)
    return next(spelled, value)


def _modifier(value: object) -> ir.Argument:
    """A constant as its Python value, entries of a list too."""
    if isinstance(value, (tuple, list)):
        return tuple(map(_modifier, value))
    number = ir.const_value(value.value if isinstance(value, IntEnum) else value)
    return value if number is None else number  # type: ignore[return-value]  # whoever asks looks at what it is


def _is_plain(value: object) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, (str, int, float, np.number, np.bool_))


def _expression(row: Instruction, operand: Operand, value: object, typed: DType | None) -> ir.Argument:
    """The value of one operand, converted as its kind asks."""
    what = f"T.{row.name}: {operand.name}"
    if operand.optional and not operand.many and (value is None or ir.const_value(value) == 0):
        return None
    if isinstance(value, (ir.Buffer, ir.Region)):  # its first element
        region = value.region() if isinstance(value, ir.Buffer) else value
        value = region.buffer.ptr_to([start for start, _ in region.box])
    if operand.kind in ("text", "symbol"):
        if not isinstance(value, str):
            raise InstructionError(f"{what} is a Python string", given=written(value))
        return value
    if isinstance(value, str):
        raise InstructionError(f"{what} is an operand", given=repr(value), allowed="an expression")
    if operand.kind in ADDRESS:
        return ADDRESS[operand.kind](what, value)
    if operand.kind == "imm" and type(ir.const_value(value)) is not int:
        raise InstructionError(f"{what} is part of the instruction", given=str(value), allowed="an integer constant")
    if operand.kind == "pred":
        return ir.cast(value, BOOL)  # type: ignore[arg-type]  # cast refuses what is no value
    if operand.kind in _TYPED and typed is not None:
        return _TYPED[operand.kind](value, typed, what)
    expr = ir.as_expr(value, integer_dtype(value))  # type: ignore[arg-type]
    return as_register(what, operand, expr)


_TYPED: Mapping[str, Callable[..., ir.Expr]] = {"bits": as_bits, "typed": converted}


def _given(value: object) -> ir.Expr:
    """An operand of a call that was made; a default that is a number may be any 32 bits."""
    return ir.cast(value, INT32) if type(value) is int else ir.as_expr(value)  # type: ignore[arg-type]  # checked by call


def calls_in(body: ir.Body) -> Iterator[tuple[ir.Stmt, Bound]]:
    """Every call of an instruction in a body, with its statement."""
    return ((stmt, bound) for stmt in ir.statements(body) for bound in calls_at(stmt))


def calls_at(stmt: ir.Stmt) -> Iterator[Bound]:
    """Every call of an instruction in a statement's own expressions."""
    return (bind(node) for node in ir.expressions(stmt) if isinstance(node, ir.Call))


def bind(node: ir.Call) -> Bound:
    """The row, modifiers and operands of a call, found once.

    Raises InstructionError where no form has these modifiers, or the register count is wrong.
    """
    try:
        return node._bound  # type: ignore[return-value]  # as it was set
    except AttributeError:
        object.__setattr__(node, "_bound", bound := _bound(node))
        return bound


def _bound(node: ir.Call) -> Bound:
    row = lookup(node.op)
    positional, keywords = _arranged(row, node.args, dict(node.attrs))
    mods: dict[str, ir.Argument] = {}
    texts: dict[str, str] = {}
    optional = [operand.name for operand in row.operands if row.keywords.get(operand.name, REQUIRED) is None]
    operands: dict[str, tuple[ir.Expr, ...]] = {
        operand.name: () for operand in row.operands if operand.many or operand.name in optional
    }
    arguments = {param.lstrip("*"): value for param, value in positional} | keywords
    optional += [operand.name for operand in row.operands if operand.optional]
    mods.update((name, None if arguments.get(name) is None else "given") for name in optional)
    for param, value in [*positional, *((key, value) for key, value in keywords.items() if key not in row.folds)]:
        name = param.lstrip("*")
        kind = _kind(row, name)
        if not kind:
            mods[name] = value  # type: ignore[assignment]  # modifiers are plain values
        elif isinstance(value, str):
            texts[name] = value
        elif value is not None:
            values = value if isinstance(value, tuple) else (_given(value),)
            operands[name] = (*operands.get(name, ()), *values)
            if kind == "typed":
                mods.setdefault("dtype", operands[name][0].dtype)
    form = next((form for form in row.forms if form.fits(mods)), None)
    if form is None:
        raise no_form(row, mods)
    if form.concerns_operations:
        check_links(row.name, form, INSTRUCTIONS)
    bound = Bound(row, form, mods, operands, texts)
    _check_registers(bound)
    if row.check:
        row.check(bound)
    return bound


def _check_registers(bound: Bound) -> None:
    for operand in bound.instruction.operands:
        places = bound.operands.get(operand.name, ())
        if operand.many and (operand.kind in CONSTRAINTS or operand.kind == "bits"):
            count = bound.registers_of(operand.name)
            if len(places) != count:
                raise InstructionError(
                    f"{bound.mnemonic} takes {count} registers for {operand.name}",
                    given=f"{len(places)}",
                    allowed=f"{count}",
                )
        for place in places if operand.written else ():
            buffer = place.buffer if isinstance(place, (ir.Load, ir.AddressOf)) else None
            if buffer is None or buffer.space != "local":
                raise InstructionError(
                    f"T.{bound.instruction.name} writes {operand.name}",
                    given=str(place),
                    allowed="an element of a local buffer, or a pointer to one",
                    hint=f'R = T.alloc_local((1,), "{place.dtype}"), and R[0] in its place',
                )


# From a PTX mnemonic back to its row: the modifiers in any order that assemblers take.
#
# The words of a mnemonic are matched with the holes of a form's text. Order means something among types
# (``.f32.e4m3.e5m2.f32``: D, A, B, C) and majornesses; other modifiers are a set.

_ORDERED = re.compile(r"(b|s|u|f|bf|tf|e|ue)\d\w*|row|col|pred")

_SAME = {"shared": "shared::cta", "shared::cta": "shared"}  # what else a word may be written as

Words = tuple[str, ...]


@dataclass(frozen=True)
class Opcode:
    """What a written opcode means: a row, its form and modifiers.

    outs: where it may have several results, the values of the modifier ``out``, in the order in which they are written.
    hints: words that mean nothing to what is computed, and so are in no row.
    """

    row: Instruction
    form: Form
    mods: Mapping[str, ir.Argument]
    outs: tuple[str, ...] = ()
    hints: Words = field(default=())

    @property
    def places(self) -> int:
        """How many operands the form has: those that it does not leave out."""
        return sum(self.mods.get(operand.name, operand) is not None for operand in self.row.operands)

    @property
    def pattern(self) -> str:
        """How its operands stand."""
        return self.row.pattern_of(self.form)


@cache
def _by_opcode() -> dict[str, list[tuple[Instruction, int]]]:
    """The PTX forms by the first word of their text; those as compilers write them, then those of ``T.ptx``, win."""
    rows: dict[str, list[tuple[Instruction, int]]] = {}
    for row in sorted(INSTRUCTIONS.values(), key=_rank):
        for number, form in enumerate(row.forms):
            if isinstance(form.wording, Ptx):
                rows.setdefault(re.split(r"[.{]", form.wording.template)[0], []).append((row, number))
    return rows


def _rank(row: Instruction) -> tuple[bool, bool]:
    return not row.written, not row.name.startswith("ptx.")


@dataclass(frozen=True, slots=True)
class _Hole:
    """A place in a form's text: the words of each value of its modifiers, several of which may make one word."""

    modifiers: Words
    spellings: tuple[tuple[tuple[ir.Argument, ...], Words], ...]

    def before(self, other: _Hole) -> _Hole:
        """This word with what the other one adds to it, ``m64n8k16``."""
        both = itertools.product(self.spellings, other.spellings)
        joined = tuple(((*a, *b), (*first[:-1], f"{first[-1]}{second[0]}")) for (a, first), (b, second) in both)
        return _Hole(self.modifiers + other.modifiers, joined)


@cache
def _template(name: str, number: int) -> tuple[_Hole, ...]:
    """The text of a form: its fixed words (holes without a modifier) and its modifiers, in order.

    Of an access of memory, an order and a scope that are left out are the row's defaults.
    """
    row = INSTRUCTIONS[name]
    form = row.forms[number]
    holes: list[_Hole] = []
    may_lack = ("sem", "scope") if any(operand.kind == "place" for operand in row.operands) else ()
    for fixed, modifier, _, _ in Formatter().parse(form.wording.template):
        holes += [_Hole((), (((), (word,)),)) for word in fixed.split(".")[1 if fixed[:1] != "." else 0 :] if word]
        if modifier:
            table = form.wording.modifiers[modifier]
            default = row.keywords.get(modifier)
            silent: Spellings = {default: ""} if modifier in may_lack and default in table else {}
            spellings = [*table.items(), *silent.items()]
            hole = _Hole((modifier,), tuple(((value,), _words(text)) for value, text in spellings))
            goes_on = not fixed and all(text[:1] not in ("", ".") for text in table.values())
            holes.append(holes.pop().before(hole) if goes_on else hole)
    return tuple(holes)


def _words(text: str) -> Words:
    return tuple(text.removeprefix(".").split(".")) if text else ()


def _taken(words: Words, rest: Words, also: Mapping[str, str]) -> Words | None:
    """``rest`` without ``words``; None where it lacks one, or one of order is not the first of those that are left."""
    left = list(rest)
    for wanted in words:
        other = also.get(wanted)
        if wanted not in left and other == "":
            continue
        word = wanted if wanted in left or other is None else other
        if word not in left:
            return None
        if _ORDERED.fullmatch(word) and next(other for other in left if _ORDERED.fullmatch(other)) != word:
            return None
        left.remove(word)
    return tuple(left)


def _matched(holes: tuple[_Hole, ...], rest: Words, also: Mapping[str, str]) -> dict[str, ir.Argument] | None:
    """The modifiers that use up all words."""
    if not holes:
        return None if rest else {}
    hole, *others = holes
    for values, words in hole.spellings:
        left = _taken(words, rest, also)
        match = _matched(tuple(others), left, also) if left is not None else None
        if match is not None:
            return {**dict(zip(hole.modifiers, values, strict=True)), **match}
    return None


_SYNONYMS = tuple((re.compile(pattern), meant) for pattern, meant in (
    (r"(mbarrier\.(?:init|inval|arrive\w*|test_wait|try_wait|\w+_tx)\b.*)\.b64", r"\1.shared.b64"),
    (r"^(mbarrier\.(?:expect|complete)_tx)(?!\.relaxed)", r"\1.relaxed.cta"),
    (r"^((?:st|red)\.async\S*?)(?=\.mbarrier)(?<!::cluster)", r"\1.shared::cluster"),
    (r"^(tcgen05\.commit\S*one)(?!\.shared)", r"\1.shared::cluster"),
    (r"^(tcgen05\.alloc\S*aligned)\.b32", r"\1.shared::cta.b32"),
    (r"^(wgmma\.\w+(?:\.sp)?\.sync)(?!\.aligned)", r"\1.aligned"),
    (r"(barrier\.cluster\.arrive)(?!.*re(?:lease|laxed))", r"\1.release"),
    (r"(barrier\.cluster\.wait)(?!.*acquire)", r"\1.acquire"),
    (r"^ldu\.(?!global)", "ldu.global."),
    (r"getctarank\.u(?:32|64)", "getctarank.shared::cluster.u32"),
    (r"(bar|barrier)\.cta", r"\1"),
    (r"membar\.proxy", "fence.proxy"),
    (r"^(mbarrier\.\w+(?:\.\w+)?)\.(?:release|acquire)\.cta\b", r"\1"),
    (r"^st\.async\.shared", "st.async.weak.shared"),
    (r"^(st\.async\S*)\.b(32|64)$", r"\1.u\2"),
    (r"fence\.(?=cta|cluster|gpu|sys)", "fence.acq_rel."),
))  # fmt: skip
"""Other ways to write one instruction: each is tried where no form has the spelling as it stands."""


@public
@cache
def opcode(mnemonic: str) -> Opcode:
    """The row that a written opcode means, its modifiers in any order that assemblers take, without what is a hint.

    >>> opcode("add.sat.s32").mods["sat"]
    True

    Raises InstructionError where no form has this spelling.
    """
    return opcodes(mnemonic)[0]


@cache
def opcodes(mnemonic: str) -> Sequence[Opcode]:
    """All forms that have a spelling, which their operands tell apart; those that compilers write stand alone."""
    tried = [mnemonic]
    for pattern, meant in _SYNONYMS:
        tried += [pattern.sub(meant, text) for text in tried if pattern.search(text)]
    match = next(filter(None, (tuple(_opcodes(text)) for text in dict.fromkeys(tried))), ())
    if not match:
        raise InstructionError(f"no instruction is spelled {mnemonic}", given=mnemonic, allowed=_near(mnemonic))
    return match


def _opcodes(mnemonic: str) -> Iterator[Opcode]:
    name, *written = mnemonic.split(".")
    compilers = False
    for row, number in _by_opcode().get(name, ()):
        form = row.forms[number]
        hints = tuple(word for word in written if _is_hint(row, word))
        words = tuple(word for word in written if word not in hints)
        free = {key: value for key, table in form.wording.modifiers.items() for value in list(table)[:1]}
        holes = _template(row.name, number)
        match = _matched(holes, words, row.also)
        if match is None:
            match = _matched(holes, words, {**_SAME, **row.also})
        if match is not None:
            compilers |= row.written
            if row.written or not compilers:
                yield Opcode(row, form, {**free, **match}, _outs(row, form, {**free, **match}), hints)


def _is_hint(row: Instruction, word: str) -> bool:
    return any(re.fullmatch(hint, word) for hint in row.hints)


def _outs(row: Instruction, form: Form, mods: Mapping[str, ir.Argument]) -> tuple[str, ...]:
    """The results of a row that may have several: forms with the same spelling but for ``out``."""
    if "out" not in form.wording.modifiers:
        return ()
    values = dict.fromkeys(str(out) for form in row.forms for out in form.wording.modifiers["out"])
    alike = (out for out in values if any(form.fits({**mods, "out": out}) for form in row.forms))
    return tuple(alike)


@public
def spelled(mnemonic: str) -> tuple[Instruction, Form, dict[str, ir.Argument]]:
    """The form that ``mnemonic`` spells, its modifiers in any order that assemblers take.

    >>> spelled("ldmatrix.sync.aligned.x4.trans.m8n8.shared.b16")[2]["num"]
    4

    Raises InstructionError where no form has this spelling.
    """
    row = opcode(mnemonic)
    return row.row, row.form, dict(row.mods)


def _near(mnemonic: str) -> str:
    """The spellings that begin with the same two words; else the beginnings, or the opcodes."""
    name = mnemonic.split(".")[0]
    if name not in _by_opcode():
        return choices(name, _by_opcode())
    names = [spelling.split(".") for spelling in dict.fromkeys(_spellings(name))]
    for words in (2, 1):
        begin = mnemonic.split(".")[:words]
        same = [name for name in names if name[:words] == begin]
        beginnings = dict.fromkeys(".".join(name[: words + 1]) for name in same)
        if same:
            return "\n".join(map(".".join, same[:_MOST])) if words == 2 else choices(mnemonic, beginnings)
    return choices(name, _by_opcode())


_MOST = 40  # spellings that an error lists


def _spellings(name: str) -> Iterator[str]:
    for row, number in _by_opcode()[name]:
        yield from (row.forms[number].mnemonic(mods) for mods in row.forms[number].all_mods())
