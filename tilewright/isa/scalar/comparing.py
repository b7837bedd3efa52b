"""setp, set, selp, slct: numbers compared, and one of two chosen by a predicate.

Source: PTX ISA, "Comparison and Selection Instructions".
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np

from tilewright.isa.operands import Operand
from tilewright.isa.scalar.floats import flushed
from tilewright.isa.scalar.rows import flag, predicate_pattern, registers, scalar, words
from tilewright.isa.types import TYPES, Numbers

__all__: list[str] = []

CHAPTER = "Comparison and Selection Instructions"
HALF = "Half Precision Comparison Instructions"
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
    found: Callable[[Numbers, Numbers], Numbers] = COMPARE[UNSIGNED.get(compare, compare)]
    return found


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
    return lambda *given: np.where(test(*given), yes, kind.numpy.type(0))


def _set_pair(*, type: str, **mods: Any) -> Callable[..., Numbers]:
    """Of two numbers in a register, each for itself: 1.0, or all ones of its half."""
    test = set_predicate(**mods)
    kind = TYPES[type].numpy if TYPES[type].lanes == 2 else np.dtype(np.uint16)
    yes = kind.type(1.0) if TYPES[type].lanes == 2 else kind.type(0xFFFF)

    def execute(a: Numbers, b: Numbers, *c: Numbers) -> Numbers:
        found = np.where(test(a, b, *(one[..., None] for one in c)), yes, kind.type(0)).astype(kind)
        return found if TYPES[type].lanes == 2 else found.view(TYPES[type].unsigned)[..., 0].view(TYPES[type].numpy)

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
BOOL_OPS = {None: "", **words("and", "or", "xor")}
JOINED = words("and", "or", "xor")
KINDS = (  # sources: their types, comparisons, ftz, since when
    (words("b16", "b32", "b64"), OF_BITS, False, "sm_75"),
    (words("s16", "s32", "s64"), OF_SIGNED, False, "sm_75"),
    (words("u16", "u32", "u64"), OF_UNSIGNED, False, "sm_75"),
    (words("f32"), OF_FLOATS, True, "sm_75"),
    (words("f64"), OF_FLOATS, False, "sm_75"),
)
HALVES: tuple[tuple[Any, Any, bool, str], ...] = (
    (words("f16"), OF_FLOATS, True, "sm_75"),
    (words("bf16"), OF_FLOATS, False, "sm_90"),
)
PAIRS: tuple[tuple[Any, Any, bool, str], ...] = (
    (words("f16x2"), OF_FLOATS, True, "sm_75"),
    (words("bf16x2"), OF_FLOATS, False, "sm_90"),
)


def _predicate_rows(name: str, operands: str, bool_ops: Any, joined: str) -> None:
    """One row without a third operand, and one with it."""
    shapes: list[tuple[Any, ...]] = []
    listed = ", ".join(["{a}, {b}", *(["p_c"] if joined else [])])
    for kinds, meaning, outs in ((KINDS, set_predicate, "pq"), (HALVES, set_predicate, "p"), (PAIRS, _of_pair, "pq")):
        for (types, compare, may_flush, first), out in product(kinds, outs):
            table: dict[str, Any] = {"type": types, "compare": compare, "bool_op": bool_ops, "out": {out: ""}}
            table |= {"ftz": flag("ftz")} if may_flush else {}
            written = {"p": "d_|p_", "q": "p_|d_"}[out] if len(outs) == 2 else "d_"
            text = f"setp{{compare}}{joined}{'{ftz}' if may_flush else ''}{{type}}"
            shapes.append((text, table, meaning, first, predicate_pattern(written, listed)))
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


_predicate_rows("setp", "a b", {None: ""}, "")
_predicate_rows("setp.joined", "a b c:pred", JOINED, "{bool_op}")

TARGETS = ((words("u32", "s32", "f32", "f16"), ""), (words("bf16"), "sm_90"))  # and since when, if that is later


def _number_rows(name: str, operands: tuple[Operand, ...], bool_ops: Any, joined: str) -> None:
    shapes = []
    for (types, compare, flushable, first), (target, least) in product(KINDS, TARGETS):
        may_flush = flushable and "bf16" not in target
        flushes = "{ftz}" if may_flush else ""
        table: dict[str, Any] = {"type": target, "stype": types, "compare": compare, "bool_op": bool_ops}
        table |= {"ftz": flag("ftz")} if may_flush else {}
        shapes.append((f"set{{compare}}{joined}{flushes}{{type}}{{stype}}", table, set_number, least or first))
    for types, compare, may_flush, first in HALVES:
        flushes = "{ftz}" if may_flush else ""
        for target in (types, words("u16", "s16", "u32", "s32")):
            table = {"type": target, "stype": types, "compare": compare, "bool_op": bool_ops}
            table |= {"ftz": flag("ftz")} if may_flush else {}
            shapes.append((f"set{{compare}}{joined}{flushes}{{type}}{{stype}}", table, set_number, first))
    for types, compare, may_flush, first in PAIRS:
        flushes = "{ftz}" if may_flush else ""
        table = {"type": types | words("u32", "s32"), "stype": types, "compare": compare, "bool_op": bool_ops}
        table |= {"ftz": flag("ftz")} if may_flush else {}
        shapes.append((f"set{{compare}}{joined}{flushes}{{type}}{{stype}}", table, _set_pair, first))
    scalar(
        name,
        operands,
        *shapes,
        doc="All ones, or 1.0, where a comparison of a and b holds" + (", joined with c." if joined else "."),
        chapter=CHAPTER,
    )


_number_rows("set", registers("a:stype b:stype"), {None: ""}, "")
_number_rows("set.joined", registers("a:stype b:stype c:pred"), JOINED, "{bool_op}")

SELECTED = words("b16", "b32", "b64", "u16", "u32", "u64", "s16", "s32", "s64", "f32", "f64")
scalar(
    "selp",
    "a b c:pred",
    ("selp{type}", {"type": SELECTED}, _selected),
    doc="a where c holds, else b.",
    chapter=CHAPTER,
)
scalar(
    "slct",
    registers("a b c:ctype"),
    ("slct{type}{ctype}", {"type": SELECTED, "ctype": words("s32")}, _by_sign),
    ("slct{ftz}{type}{ctype}", {"type": SELECTED, "ctype": words("f32"), "ftz": flag("ftz")}, _by_sign),
    doc="a where c is 0 or more, b where it is less or NaN.",
    chapter=CHAPTER,
)
