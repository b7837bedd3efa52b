"""What a scalar row is: PTX's opcode with all its types, one value, and a function on arrays that is its meaning.

A call gives one value. Where the instruction writes two (``p|q``, a sum and its carry), the modifier ``out`` says
which. Operands are registers: bits as wide as the type. A meaning is made of its modifiers: ``meaning(type="s32")`` is
the function of the operands' values, arrays of any shapes that broadcast; of pairs (``f16x2``) both numbers lie along a
last axis.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np

from tilewright.isa.arch import since
from tilewright.isa.forms import LEFT_OUT, TYPES, Form, Meaning, Mods, Numbers, Operand, Ptx, Spellings, Undefined
from tilewright.isa.table import REQUIRED, Instruction, instruction

MeaningOf = Callable[..., Callable[..., Any]]
Shape = tuple[str, Mapping[str, Spellings], MeaningOf]

FLAG: Spellings = {False: ""}


def words(*names: str) -> Spellings:
    """Modifiers that are words of PTX: one of them is written."""
    return {name: f".{name}" for name in names}


def maybe(*names: str) -> Spellings:
    """Words one of which may be written."""
    return {None: "", **words(*names)}


def flag(name: str) -> Spellings:
    """A word that may be written."""
    return {False: "", True: f".{name}"}


@cache
def _viewed(word: str) -> Callable[[Numbers], Numbers]:
    """From a register's bits to the numbers that they are."""
    kind = TYPES[word]
    if kind.lanes > 1:
        return lambda bits: np.ascontiguousarray(bits)[..., None].view(kind.numpy)
    plain = word == "pred" or (kind.numpy == kind.unsigned and kind.bits > 8)  # a register of 8 bits may hold any bits
    return (lambda bits: bits) if plain else (lambda bits: bits.view(kind.numpy))


@cache
def _packed(word: str) -> Callable[[Any], Numbers]:
    """From numbers to what a call gives."""
    kind = TYPES[word]
    if kind.lanes > 1:
        return lambda result: np.ascontiguousarray(result, kind.numpy).view(kind.unsigned)[..., 0]
    return lambda result: result if result.dtype == kind.numpy else result.astype(kind.numpy)


def numbers(operands: tuple[Operand, ...], result: Callable[[Mods], str], meaning: MeaningOf, mods: Mods) -> Any:
    """The function of registers that a meaning is: bits in, values of the call's dtype out."""
    core = meaning(**mods)
    views = [_viewed(operand.type_of(mods)) if operand.kind == "bits" else _viewed("pred") for operand in operands]
    pack = _packed(result(mods))
    if len(views) == 1:
        (only,) = views
        return lambda a: pack(core(only(a)))
    if len(views) == 2:
        first, second = views
        return lambda a, b: pack(core(first(a), second(b)))
    return lambda *operands: pack(core(*(view(bits) for view, bits in zip(views, operands, strict=True))))


def registers(text: str) -> tuple[Operand, ...]:
    """Operands by name, ``a b n:u32 c:pred``: their type is the modifier ``type``, or what is said."""
    operands = []
    for word in text.split():
        name, _, of = word.partition(":")
        operands.append(Operand(name, "bits", of=of or "type") if of not in ("imm", "pred") else Operand(name, of))
    return tuple(operands)


def predicate_pattern(written: str, listed: str) -> str:
    """The text of a call with predicates, which are numbers outside of it.

    written: the results, one of which is the call's: ``d_``, ``d_|p_``, or ``{result}``. listed: the operands; ``p_c``
    is the predicate c.
    """
    read = [name for name in listed.split(", ") if name.startswith("p_")]
    names = [name for name in ("d_", "p_") if name in written.split("|")]
    before = "".join(f"setp.ne.b32 {name}, {{{name[2:]}}}, 0; " for name in read)
    after = " selp.b32 {result}, 1, 0, d_;" if "d_" in names else ""
    return f"{{{{ .reg .pred {', '.join(names + read)}; {before}{{mnemonic}} {written}, {listed};{after} }}}}"


def _pattern(operands: tuple[Operand, ...], result: str, mods: Mods) -> str:
    """The text of a call: predicates are numbers outside of it."""
    is_pred = [row.kind == "pred" or (row.kind == "bits" and row.type_of(mods) == "pred") for row in operands]
    listed = ", ".join(
        f"p_{row.name}" if pred else f"{{{row.name}}}" for row, pred in zip(operands, is_pred, strict=True)
    )
    if result == "pred" or any(is_pred):
        return predicate_pattern("d_" if result == "pred" else "{result}", listed)
    return f"{{result}}, {listed}"


def scalar(
    name: str,
    operands: str | tuple[Operand, ...],
    *shapes: tuple[Any, ...],
    doc: str,
    chapter: str,
    result: str | Callable[[Mods], str] = "type",
    keywords: Mapping[str, object] | None = None,
    hints: tuple[str, ...] = (),
) -> Instruction:
    """A row ``T.ptx.<name>``. shapes: text, modifiers, meaning, first architecture (sm_75), perhaps their own pattern,
    and when their result is undefined.

    Modifiers that a shape lacks are as if left out; an operand that some have `GIVEN` is left out of the others.
    keywords: the defaults of modifiers that are not left out.
    """
    read = registers(operands) if isinstance(operands, str) else operands
    words = {**_left_out(shapes), **(keywords or {})}
    order = ["type", *(key for key in words if key != "type")] if "type" in words else list(words)
    passed = tuple(key for key in order if not any(operand.name == key for operand in read))

    def typed(mods: Mods) -> str:
        return result(mods) if callable(result) else str(mods.get(result, result))

    def form(text: str, modifiers: Mapping[str, Spellings], meaning: MeaningOf, first: Any = "sm_75", pattern: str = "",
             undefined: Undefined | None = None) -> Form:  # fmt: skip
        table = {key: modifiers.get(key, {words[key]: ""}) for key in order}
        there = tuple(operand for operand in read if table.get(operand.name) != LEFT_OUT)
        function = _specialised(there, typed, meaning, passed)
        return Form(
            Ptx(text, table, pattern=pattern or _patterned(there, typed, table)),
            since(first) if isinstance(first, str) else first,
            f'PTX ISA, "{chapter}: {name}"',
            Meaning(_executing(function), passes=passed, undefined=undefined, of_lanes=function),
            result=typed,
        )

    return instruction(
        f"ptx.{name}",
        keywords=_keywords(order, words, shapes),
        operands=read,
        doc=doc,
        forms=tuple(form(*shape) for shape in shapes),
        hints=hints,
        written=True,
    )


def _left_out(shapes: tuple[Any, ...]) -> dict[str, object]:
    """Each modifier of some shapes, and its value where it is not written."""
    tables = [(key, table) for _, modifiers, *_ in shapes for key, table in modifiers.items()]
    flags = {key for key, table in tables if False in table or True in table}
    return {key: False if key in flags else None for key, _ in tables}


def _keywords(order: list[str], words: Mapping[str, object], shapes: tuple[Any, ...]) -> dict[str, object]:
    """The defaults: None and False leave a word out; those that are always written come first, and must be given."""
    left_out = {key for key in order for _, table, *_ in shapes if words[key] in table.get(key, {words[key]: ""})}
    first = [key for key in order if key not in left_out]
    return {key: REQUIRED for key in first} | {key: words[key] for key in order if key in left_out}


def _patterned(read: tuple[Operand, ...], typed: Callable[[Mods], str], table: Mapping[str, Spellings]) -> str:
    """The pattern of a form; where predicates are concerned, all its modifiers agree."""
    mods = {key: next(iter(values)) for key, values in table.items()}
    return _pattern(read, typed(mods), mods)


def _specialised(
    read: tuple[Operand, ...], typed: Callable[[Mods], str], meaning: MeaningOf, order: tuple[str, ...]
) -> Callable[[Mods], Callable[..., Numbers]]:
    functions: dict[tuple[object, ...], Callable[..., Numbers]] = {}

    def specialised(mods: Mods) -> Callable[..., Numbers]:
        key = tuple(mods[name] for name in order)
        if key not in functions:
            functions[key] = numbers(read, typed, meaning, dict(zip(order, key, strict=True)))
        return functions[key]

    return specialised


def _executing(function: Callable[[Mods], Callable[..., Numbers]]) -> Callable[..., Numbers]:
    return lambda *operands, **mods: function(mods)(*operands)
