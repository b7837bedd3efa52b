"""setp, set, selp, slct: numbers compared, and one of two chosen by a predicate.

Source: PTX ISA, "Comparison and Selection Instructions".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from tilewright.isa.operands import TYPES, Numbers
from tilewright.isa.scalar.floats import flushed
from tilewright.isa.scalar.rows import MeaningOf, flag, predicate_pattern, registers, scalar, words
from tilewright.isa.table import Spellings

CHAPTER = "Comparison and Selection Instructions"
COMPARE: dict[str, Any] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
OPPOSITE = {"eq": "ne", "ne": "eq", "lt": "ge", "le": "gt", "gt": "le", "ge": "lt"}
UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
JOIN: dict[object, Any] = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}


def _is_number(a: Numbers) -> Numbers:
    return a == a  # bfloat16 has no fast isnan


def _test(compare: str, floats: bool) -> Callable[[Numbers, Numbers], Numbers]:
    """The comparison; of floats, all but ``ne``, ``nan`` and those that end in u are false where one is NaN."""
    if compare == "num":
        return lambda a, b: _is_number(a) & _is_number(b)
    if compare == "nan":
        return lambda a, b: ~(_is_number(a) & _is_number(b))
    if floats and compare == "ne":
        return lambda a, b: (a != b) & _is_number(a) & _is_number(b)
    if floats and compare.endswith("u"):
        opposite = _test(OPPOSITE[compare[:-1]], True)
        return lambda a, b: ~opposite(a, b)
    relation: Callable[[Numbers, Numbers], Numbers] = COMPARE[UNSIGNED.get(compare, compare)]
    return relation


def _compared(type: str, compare: str, ftz: bool) -> Callable[[Numbers, Numbers], Numbers]:
    kind = TYPES[type]
    floats = kind.numpy.kind not in "iu"
    test = _test(compare, floats)
    return (lambda a, b: test(flushed(a), flushed(b))) if ftz else test


def set_predicate(
    *,
    compare: str,
    bool_op: str | None,
    out: str = "p",
    stype: str = "",
    type: str = "",
    ftz: bool = False,
    **_: object,
) -> Callable[..., Numbers]:
    """The comparison, joined with c; the second result is of the opposite comparison."""
    test = _compared(stype or type, compare, ftz)
    first = test if out == "p" else (lambda a, b: ~test(a, b))
    if bool_op is None:
        return first
    join = JOIN[bool_op]
    return lambda a, b, c: join(first(a, b), c)


def _of_pair(*, out: str = "p", **mods: Any) -> Callable[..., Numbers]:
    """The comparison of two numbers in a register; the first predicate is the low one's."""
    compare = set_predicate(**mods)
    place = "pq".index(out)
    return lambda a, b, *c: compare(a[..., place], b[..., place], *c)


def set_number(*, type: str, **mods: Any) -> Callable[..., Numbers]:
    """All ones, or 1.0, where the comparison holds."""
    test = set_predicate(**mods)
    kind = TYPES[type]
    yes = kind.numpy.type(1.0) if kind.numpy.kind not in "iu" else np.array(-1).astype(kind.numpy)[()]
    return lambda *values: np.where(test(*values), yes, kind.numpy.type(0))


def _set_pair(*, type: str, **mods: Any) -> Callable[..., Numbers]:
    """Of two numbers in a register, each for itself: 1.0, or all ones of its half."""
    test = set_predicate(**mods)
    kind = TYPES[type].numpy if TYPES[type].lanes == 2 else np.dtype(np.uint16)
    yes = kind.type(1.0) if TYPES[type].lanes == 2 else kind.type(0xFFFF)

    def execute(a: Numbers, b: Numbers, *c: Numbers) -> Numbers:
        results = np.where(test(a, b, *(part[..., None] for part in c)), yes, kind.type(0)).astype(kind)
        return results if TYPES[type].lanes == 2 else results.view(TYPES[type].unsigned)[..., 0].view(TYPES[type].numpy)

    return execute


def _selected(**_: object) -> Callable[[Numbers, Numbers, Numbers], Numbers]:
    return lambda a, b, c: np.where(c, a, b)


def _by_sign(*, ftz: bool = False, **_: object) -> Callable[[Numbers, Numbers, Numbers], Numbers]:
    """a where c is 0 or more, b where it is less or NaN."""
    flush = flushed if ftz else (lambda c: c)
    return lambda a, b, c: np.where(flush(c) >= 0, a, b)


ORDERED = ("eq", "ne", "lt", "le", "gt", "ge")
OF_BITS, OF_SIGNED = words("eq", "ne"), words(*ORDERED)
OF_UNSIGNED = words(*ORDERED, *UNSIGNED)
OF_FLOATS = words(*ORDERED, *(f"{name}u" for name in ORDERED), "num", "nan")
JOINED = words("and", "or", "xor")


class Compared(NamedTuple):
    """Types of the numbers that are compared, and how. flushes: may subnormals be flushed? first: since when."""

    types: Spellings
    compare: Spellings
    flushes: bool = False
    first: str = "sm_75"


KINDS = (
    Compared(words("b16", "b32", "b64"), OF_BITS),
    Compared(words("s16", "s32", "s64"), OF_SIGNED),
    Compared(words("u16", "u32", "u64"), OF_UNSIGNED),
    Compared(words("f32"), OF_FLOATS, flushes=True),
    Compared(words("f64"), OF_FLOATS),
)
HALVES = (Compared(words("f16"), OF_FLOATS, flushes=True), Compared(words("bf16"), OF_FLOATS, first="sm_90"))
PAIRS = (Compared(words("f16x2"), OF_FLOATS, flushes=True), Compared(words("bf16x2"), OF_FLOATS, first="sm_90"))


def _spelled(opcode: str, joined: str, compared: Compared, **types: Spellings) -> tuple[str, dict[str, Spellings]]:
    """The text of a comparison and its modifiers. joined: the hole of the operation that joins it with c, if any."""
    ftz = {"ftz": flag("ftz")} if compared.flushes else {}
    table = {**types, "compare": compared.compare, "bool_op": JOINED if joined else {None: ""}, **ftz}
    return f"{opcode}{{compare}}{joined}{''.join(f'{{{name}}}' for name in (*ftz, *types))}", table


def _predicate_row(name: str, operands: str, joined: str = "") -> None:
    shapes: list[tuple[Any, ...]] = []
    listed = "{a}, {b}, p_c" if joined else "{a}, {b}"
    for kinds, meaning, outs in ((KINDS, set_predicate, "pq"), (HALVES, set_predicate, "p"), (PAIRS, _of_pair, "pq")):
        for compared, out in product(kinds, outs):
            text, table = _spelled("setp", joined, compared, type=compared.types)
            written = {"p": "d_|p_", "q": "p_|d_"}[out] if len(outs) == 2 else "d_"
            pattern = predicate_pattern(written, listed)
            shapes.append((text, {**table, "out": {out: ""}}, meaning, compared.first, pattern))
    more = ", joined with c" if joined else ""
    scalar(
        name,
        operands,
        *shapes,
        doc=f"Whether a comparison of a and b holds{more}; ``out='q'``: of the opposite one, of a pair the upper.",
        chapter=CHAPTER,
        result="pred",
        keywords={"out": "p"},
    )


_predicate_row("setp", "a b")
_predicate_row("setp.joined", "a b c:pred", "{bool_op}")


def _results() -> Iterator[tuple[Compared, Spellings, MeaningOf]]:
    """What ``set`` compares, the types of its results, and its meaning."""
    for compared in KINDS:
        yield compared, words("u32", "s32", "f32", "f16"), set_number
        yield compared._replace(flushes=False, first="sm_90"), words("bf16"), set_number
    for compared in HALVES:
        yield compared, compared.types, set_number
        yield compared, words("u16", "s16", "u32", "s32"), set_number
    for compared in PAIRS:
        yield compared, {**compared.types, **words("u32", "s32")}, _set_pair


def _number_row(name: str, operands: str, joined: str = "") -> None:
    scalar(
        name,
        operands,
        *(
            (*_spelled("set", joined, compared, type=types, stype=compared.types), meaning, compared.first)
            for compared, types, meaning in _results()
        ),
        doc="All ones, or 1.0, where a comparison of a and b holds" + (", joined with c." if joined else "."),
        chapter=CHAPTER,
    )


_number_row("set", "a:stype b:stype")
_number_row("set.joined", "a:stype b:stype c:pred", "{bool_op}")

SELECTED = words("b16", "b32", "b64", "u16", "u32", "u64", "s16", "s32", "s64", "f32", "f64")
scalar(
    "selp", "a b c:pred", ("selp{type}", {"type": SELECTED}, _selected), doc="a where c holds, else b.", chapter=CHAPTER
)
scalar(
    "slct",
    registers("a b c:ctype"),
    ("slct{type}{ctype}", {"type": SELECTED, "ctype": words("s32")}, _by_sign),
    ("slct{ftz}{type}{ctype}", {"type": SELECTED, "ctype": words("f32"), "ftz": flag("ftz")}, _by_sign),
    doc="a where c is 0 or more, b where it is less or NaN.",
    chapter=CHAPTER,
)
