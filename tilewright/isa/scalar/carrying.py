"""Sums of numbers that are wider than a register: the carry, or the borrow, of one instruction goes into the next.

PTX keeps it in a bit of the thread that no register names. Here it is an operand, ``carry``, and ``out="cc"`` asks for
the one that an instruction leaves. Source: PTX ISA, "Extended-Precision Arithmetic Instructions".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.isa.scalar.integers import mad
from tilewright.isa.scalar.rows import scalar, words
from tilewright.isa.types import TYPES, Numbers

CHAPTER = "Extended-Precision Integer Arithmetic Instructions"
TYPES_OF_CARRY = words("u32", "s32", "u64", "s64")
GIVE = {"add": "add.cc.u32 t_, {carry}, 0xffffffff;", "sub": "sub.cc.u32 t_, 0, {carry};"}
TAKE = {"add": "addc.u32 {result}, 0, 0;", "sub": "subc.u32 t_, 0, 0; and.b32 {result}, t_, 1;"}


def _bits(word: str, *values: Numbers) -> list[Numbers]:
    return [value.view(TYPES[word].unsigned) for value in values]


def _total(operation: str) -> Callable[..., Callable[..., Numbers]]:
    """The sum or difference with a carry in; or its carry out."""

    def meaning(*, type: str, out: str, **_: object) -> Callable[..., Numbers]:
        unit = TYPES[type].unsigned.type

        def execute(a: Numbers, b: Numbers, carry: Numbers = False) -> Numbers:
            x, y = _bits(type, a, b)
            more = np.asarray(carry).astype(unit)
            first = x + y if operation == "add" else x - y
            if out == "d":
                return first + more if operation == "add" else first - more
            if operation == "add":
                return (first < x) | (first + more < first)
            return (x < y) | (first < more)

        return execute

    return meaning


def _product(*, type: str, half: str, out: str, **mods: object) -> Callable[..., Numbers]:
    """Half of the product, plus c and a carry in; or the carry out."""
    part = mad(type=type, half=half)
    total = _total("add")(type=type, out=out)
    kind = TYPES[type].numpy

    def execute(a: Numbers, b: Numbers, c: Numbers, carry: Numbers = False) -> Numbers:
        return total(part(a, b, kind.type(0)), c, carry)

    return execute


def _row(name: str, operands: str, operation: str, meaning: Any, doc: str, **modifiers: Any) -> None:
    """Three forms: the sum that leaves no carry, the sum that leaves one, and that carry."""
    takes = "carry" in operands
    listed = ", ".join(f"{{{name}}}" for name in operands.replace(" carry:pred", "").split())
    before = f"{GIVE[operation]} " if takes else ""
    half = "{half}" if modifiers else ""
    opcode = f"{name}c" if takes else name
    shapes: list[tuple[Any, ...]] = []
    for out, cc in (("d", False), ("d", True), ("cc", True)):
        if not takes and not cc:
            continue
        table = {"type": TYPES_OF_CARRY, "out": {out: ""}, "cc": {cc: ""}, **modifiers}
        target, after = ("{result}", "") if out == "d" else ("d_", f" {TAKE[operation]}")
        registers = ".reg .u32 t_; .reg .b{bits} d_;"
        for bits in (32, 64):
            types = {word: text for word, text in TYPES_OF_CARRY.items() if TYPES[str(word)].bits == bits}
            pattern = f"{{{{ {registers.format(bits=bits)} {before}{{mnemonic}} {target}, {listed};{after} }}}}"
            text = f"{opcode}{half}{'.cc' if cc else ''}{{type}}"
            shapes.append((text, table | {"type": types}, meaning, "sm_75", pattern))
    scalar(
        opcode if takes else f"{name}.cc",
        operands,
        *shapes,
        doc=doc,
        chapter=CHAPTER,
        result=lambda mods: "pred" if mods["out"] == "cc" else str(mods["type"]),
        keywords={"out": "d", "cc": not takes},
    )


for _name, _word in (("add", "sum"), ("sub", "difference")):
    _kept = "carry" if _name == "add" else "borrow"
    _row(_name, "a b", _name, _total(_name), f"The {_word} of a and b; ``out='cc'``: its {_kept}.")
    _row(
        _name, "a b carry:pred", _name, _total(_name), f"The {_word} of a, b and a {_kept}; ``out='cc'``: the next one."
    )
for _operands, _more in (("a b c", ""), ("a b c carry:pred", " and a carry")):
    _row(
        "mad",
        _operands,
        "add",
        _product,
        f"Half of the product of a and b, with c{_more}; ``out='cc'``: the carry of the sum.",
        half=words("lo", "hi"),
    )
