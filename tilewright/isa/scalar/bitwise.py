"""The rows of and, or, xor, not, shifts, and fields of bits."""

from __future__ import annotations

from typing import Any

from tilewright.isa.scalar.logic import MEANINGS
from tilewright.isa.scalar.rows import flag, predicate_pattern, scalar, words

LOGIC, INTEGERS = "Logic and Shift Instructions", "Integer Arithmetic Instructions"
BITS = words("b16", "b32", "b64")
PRED = words("pred")
WORDS = words("b32", "b64")
NUMBERS = words("u32", "s32", "u64", "s64")
SHIFTED = words("b16", "b32", "b64", "u16", "u32", "u64", "s16", "s32", "s64")

for _name, _doc in (
    ("and", "The bits that both have."),
    ("or", "The bits that one has."),
    ("xor", "The bits that differ."),
):
    scalar(
        _name + "_" if _name in ("and", "or") else _name,
        "a b",
        (f"{_name}{{type}}", {"type": BITS}, MEANINGS[_name]),
        (f"{_name}{{type}}", {"type": PRED}, MEANINGS[_name]),
        doc=_doc,
        chapter=LOGIC,
    )
scalar(
    "not_",
    "a",
    ("not{type}", {"type": BITS}, MEANINGS["not"]),
    ("not{type}", {"type": PRED}, MEANINGS["not"]),
    doc="The bits that a lacks.",
    chapter=LOGIC,
)
scalar("cnot", "a", ("cnot{type}", {"type": BITS}, MEANINGS["cnot"]), doc="1 where a is 0, else 0.", chapter=LOGIC)
scalar(
    "shl",
    "a n:u32",
    ("shl{type}", {"type": BITS}, MEANINGS["shl"]),
    doc="The bits of a moved up by n, at most its width.",
    chapter=LOGIC,
)
scalar(
    "shr",
    "a n:u32",
    ("shr{type}", {"type": SHIFTED}, MEANINGS["shr"]),
    doc="The bits of a moved down by n, at most its width; a signed number fills up with its sign.",
    chapter=LOGIC,
)
scalar(
    "shf",
    "a b c:u32",
    (
        "shf{way}{mode}{type}",
        {"type": words("b32"), "way": words("l", "r"), "mode": words("clamp", "wrap")},
        MEANINGS["shf"],
    ),
    doc="Of the 64 bits of b and a, moved by c, the upper 32 (l) or the lower 32 (r).",
    chapter=LOGIC,
)
scalar(
    "lop3",
    "a b c lut:imm",
    ("lop3{type}", {"type": words("b32")}, MEANINGS["lop3"]),
    doc="In each place bit ``a<<2 | b<<1 | c`` of the constant ``lut``.",
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
scalar(
    "bfe",
    "a position:u32 length:u32",
    ("bfe{type}", {"type": NUMBERS}, MEANINGS["bfe"]),
    doc="A field of a as a number; where it leaves the word, zeros or the sign.",
    chapter=INTEGERS,
)
scalar(
    "bfi",
    "a b position:u32 length:u32",
    ("bfi{type}", {"type": WORDS}, MEANINGS["bfi"]),
    doc="b with the low bits of a in the place of a field.",
    chapter=INTEGERS,
)
scalar(
    "bfind",
    "a",
    ("bfind{shiftamt}{type}", {"type": NUMBERS, "shiftamt": flag("shiftamt")}, MEANINGS["bfind"]),
    doc="The place of the highest bit that is not the sign's, or its distance from the top; all ones for none.",
    chapter=INTEGERS,
    result="u32",
)
for _name, _doc, _result in (
    ("brev", "The bits of a in reverse order.", "type"),
    ("popc", "How many bits of a are set.", "u32"),
    ("clz", "Zero bits above the highest set bit of a.", "u32"),
):
    scalar(
        _name, "a", (f"{_name}{{type}}", {"type": WORDS}, MEANINGS[_name]), doc=_doc, chapter=INTEGERS, result=_result
    )
scalar(
    "prmt",
    "a b c",
    (
        "prmt{type}{mode}",
        {"type": words("b32"), "mode": {None: "", **words("f4e", "b4e", "rc8", "ecl", "ecr", "rc16")}},
        MEANINGS["prmt"],
    ),
    doc="Four bytes of the eight of b and a, as the nibbles of c or a mode say.",
    chapter="Data Movement and Conversion Instructions",
)
scalar(
    "bmsk",
    "a b",
    ("bmsk{mode}{type}", {"type": words("b32"), "mode": words("clamp", "wrap")}, MEANINGS["bmsk"]),
    doc="Ones from bit a on, so many as b says.",
    chapter=INTEGERS,
)
scalar(
    "szext",
    "a b:u32",
    ("szext{mode}{type}", {"type": words("u32", "s32"), "mode": words("clamp", "wrap")}, MEANINGS["szext"]),
    doc="The low b bits of a as a number.",
    chapter=INTEGERS,
)
scalar(
    "fns",
    "mask base:u32 offset:s32",
    ("fns{type}", {"type": words("b32")}, MEANINGS["fns"]),
    doc="The place of the n-th set bit of the mask from ``base`` on, upwards or downwards; all ones for none.",
    chapter=INTEGERS,
    result="u32",
)
