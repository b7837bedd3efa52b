"""The rows of and, or, xor, not, shifts, and fields of bits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.isa.scalar.logic import MEANINGS
from tilewright.isa.scalar.rows import flag, maybe, predicate_pattern, scalar, words
from tilewright.isa.table import Spellings

LOGIC, INTEGERS = "Logic and Shift Instructions", "Integer Arithmetic Instructions"
BITS = words("b16", "b32", "b64")
WORDS = words("b32", "b64")
CLAMP_OR_WRAP = words("clamp", "wrap")
NUMBERS = words("u32", "s32", "u64", "s64")
SHIFTED = words("b16", "b32", "b64", "u16", "u32", "u64", "s16", "s32", "s64")


def _row(
    name: str,
    operands: str,
    text: str,
    modifiers: Mapping[str, Spellings],
    doc: str,
    *,
    chapter: str = INTEGERS,
    result: str = "type",
) -> None:
    """A row of one shape, whose meaning has the name of the opcode."""
    meaning = MEANINGS[text.partition("{")[0]]
    scalar(name, operands, (text, modifiers, meaning), doc=doc, chapter=chapter, result=result)


for _name, _operands, _opcode, _doc in (
    ("and_", "a b", "and", "The bits that both have."),
    ("or_", "a b", "or", "The bits that one has."),
    ("xor", "a b", "xor", "The bits that differ."),
    ("not_", "a", "not", "The bits that a lacks."),
):
    _shapes = ((f"{_opcode}{{type}}", {"type": types}, MEANINGS[_opcode]) for types in (BITS, words("pred")))
    scalar(_name, _operands, *_shapes, doc=_doc, chapter=LOGIC)

_row("cnot", "a", "cnot{type}", {"type": BITS}, "1 where a is 0, else 0.", chapter=LOGIC)
_row("shl", "a n:u32", "shl{type}", {"type": BITS}, "The bits of a moved up by n, at most its width.", chapter=LOGIC)
_row(
    "shr",
    "a n:u32",
    "shr{type}",
    {"type": SHIFTED},
    "The bits of a moved down by n, at most its width; a signed number fills up with its sign.",
    chapter=LOGIC,
)
_row(
    "shf",
    "a b c:u32",
    "shf{way}{mode}{type}",
    {"type": words("b32"), "way": words("l", "r"), "mode": CLAMP_OR_WRAP},
    "Of the 64 bits of b and a, moved by c, the upper 32 (l) or the lower 32 (r).",
    chapter=LOGIC,
)
_row(
    "lop3",
    "a b c lut:imm",
    "lop3{type}",
    {"type": words("b32")},
    "In each place bit ``a<<2 | b<<1 | c`` of the constant ``lut``.",
    chapter=LOGIC,
)
_TABLE: dict[str, Any] = {"type": words("b32"), "bool_op": words("or", "and")}
scalar(
    "lop3.joined",
    "a b c lut:imm q:pred",
    *(
        (
            "lop3{bool_op}{type}",
            _TABLE | {"out": {out: ""}},
            MEANINGS["lop3"],
            "sm_75",
            predicate_pattern(written, listed),
        )
        for listed in ("{a}, {b}, {c}, {lut}, p_q",)
        for out, written in (("d", "{result}|p_"), ("p", "_|d_"))
    ),
    doc="lop3 of a, b and c; ``out='p'``: whether some bit is set, joined with q.",
    chapter=LOGIC,
    result=lambda mods: "pred" if mods["out"] == "p" else "b32",
    keywords={"out": "d"},
)
_row(
    "bfe",
    "a position:u32 length:u32",
    "bfe{type}",
    {"type": NUMBERS},
    "A field of a as a number; where it leaves the word, zeros or the sign.",
)
_row(
    "bfi",
    "a b position:u32 length:u32",
    "bfi{type}",
    {"type": WORDS},
    "b with the low bits of a in the place of a field.",
)
_row(
    "bfind",
    "a",
    "bfind{shiftamt}{type}",
    {"type": NUMBERS, "shiftamt": flag("shiftamt")},
    "The place of the highest bit that is not the sign's, or its distance from the top; all ones for none.",
    result="u32",
)
_row("brev", "a", "brev{type}", {"type": WORDS}, "The bits of a in reverse order.")
_row("popc", "a", "popc{type}", {"type": WORDS}, "How many bits of a are set.", result="u32")
_row("clz", "a", "clz{type}", {"type": WORDS}, "Zero bits above the highest set bit of a.", result="u32")
_row(
    "prmt",
    "a b c",
    "prmt{type}{mode}",
    {"type": words("b32"), "mode": maybe("f4e", "b4e", "rc8", "ecl", "ecr", "rc16")},
    "Four bytes of the eight of b and a, as the nibbles of c or a mode say.",
    chapter="Data Movement and Conversion Instructions",
)
_row(
    "bmsk",
    "a b",
    "bmsk{mode}{type}",
    {"type": words("b32"), "mode": CLAMP_OR_WRAP},
    "Ones from bit a on, so many as b says.",
)
_row(
    "szext",
    "a b:u32",
    "szext{mode}{type}",
    {"type": words("u32", "s32"), "mode": CLAMP_OR_WRAP},
    "The low b bits of a as a number.",
)
_row(
    "fns",
    "mask base:u32 offset:s32",
    "fns{type}",
    {"type": words("b32")},
    "The place of the n-th set bit of the mask from ``base`` on, upwards or downwards; all ones for none.",
    result="u32",
)
