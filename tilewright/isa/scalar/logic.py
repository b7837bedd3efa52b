"""The rows of and, or, xor, not, shifts and fields of bits; setp, set, selp, slct: numbers compared, and one chosen."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from tilewright.isa.arith import brev, clz, popcount
from tilewright.isa.forms import TYPES, Numbers, Spellings
from tilewright.isa.scalar.arithmetic import plain
from tilewright.isa.scalar.floats import family, flushed
from tilewright.isa.scalar.rows import MeaningOf, flag, maybe, predicate_pattern, registers, scalar, words

# Logic, shifts and fields of bits. A shift's amount is clamped to the width, unless it wraps.
#
# Source: PTX ISA, "Logic and Shift Instructions" and "Integer Arithmetic Instructions".


@family
def _shifted(function: Any, *, type: str, **_: object) -> Callable[..., Numbers]:
    """The number shifted by at most its width, where copies of the sign are left."""
    kind = TYPES[type]
    most = kind.bits - 1

    def execute(a: Numbers, n: Numbers) -> Numbers:
        moved = function(a, np.minimum(n, most).astype(a.dtype))
        return moved if kind.signed else np.where(n > most, a.dtype.type(0), moved)

    return execute


def _funnel(*, way: str, mode: str, **_: object) -> Callable[[Numbers, Numbers, Numbers], Numbers]:
    """32 bits of the 64 that b and a are, a the low ones."""

    def execute(a: Numbers, b: Numbers, n: Numbers) -> Numbers:
        by = (n & np.uint32(31) if mode == "wrap" else np.minimum(n, np.uint32(32))).astype(np.uint64)
        both = b.astype(np.uint64) << np.uint64(32) | a
        return (both << by >> np.uint64(32) if way == "l" else both >> by).astype(np.uint32)

    return execute


def _chosen(a: Numbers, b: Numbers, c: Numbers, lut: Numbers) -> Numbers:
    """Bit ``a<<2 | b<<1 | c`` of the table, in each place."""
    sides = ((~c, c), (~b, b), (~a, a))
    unit, none = np.uint32(1), np.uint32(0)
    parts = []
    for index in range(8):
        bit = lut.astype(np.uint32) >> np.uint32(index) & unit
        where = reduce(np.bitwise_and, (pair[index >> place & 1] for place, pair in enumerate(sides)))
        parts.append(where & (none - bit))
    return reduce(np.bitwise_or, parts)


def _looked_up(*, bool_op: str | None = None, out: str = "d", **_: object) -> Callable[..., Numbers]:
    if bool_op is None or out == "d":
        return lambda a, b, c, lut, *q: _chosen(a, b, c, lut)
    join = {"or": np.logical_or, "and": np.logical_and}[bool_op]
    return lambda a, b, c, lut, q: join(_chosen(a, b, c, lut) != 0, q)


def _place(position: Numbers, length: Numbers, bits: int) -> tuple[Numbers, Numbers]:
    """The position or length of a field: its low 8 bits count, in a field of 64 bits all."""
    if bits == 64:
        return position, np.minimum(length, np.uint32(64))
    return position & np.uint32(255), length & np.uint32(255)


def _ones(length: Numbers, kind: np.dtype[Any]) -> Numbers:
    """A mask of so many low bits, at most all of them."""
    most = np.minimum(length, 8 * kind.itemsize).astype(np.uint64)
    full = np.uint64(2**64 - 1)
    return np.where(most == 0, np.uint64(0), full >> (np.uint64(64) - np.maximum(most, np.uint64(1)))).astype(kind)


def _extracted(*, type: str, **_: object) -> Callable[[Numbers, Numbers, Numbers], Numbers]:
    """A field as a number: of the signed one the sign is its highest bit, or the word's where it leaves the word."""
    kind = TYPES[type]

    def execute(a: Numbers, position: Numbers, length: Numbers) -> Numbers:
        at, count = _place(position, length, kind.bits)
        bits = a.view(kind.unsigned)
        field = np.where(at < kind.bits, bits >> np.minimum(at, kind.bits - 1).astype(bits.dtype), bits.dtype.type(0))
        mask = _ones(count, kind.unsigned)
        if not kind.signed:
            return field & mask
        top = np.minimum(at.astype(np.int64) + count - 1, kind.bits - 1).clip(0).astype(bits.dtype)
        negative = (bits >> top & bits.dtype.type(1)) != 0
        beyond = _ones(np.where(at < kind.bits, kind.bits - at, 0), kind.unsigned) & mask  # the bits that the word has
        return (
            np.where(count == 0, 0, np.where(negative, field | ~beyond, field & mask))
            .astype(kind.unsigned)
            .view(kind.numpy)
        )

    return execute


def _inserted(a: Numbers, b: Numbers, position: Numbers, length: Numbers) -> Numbers:
    """The low bits of a in the place of a field of b."""
    at, count = _place(position, length, 8 * b.dtype.itemsize)
    most = 8 * b.dtype.itemsize - 1
    by = np.minimum(at, most).astype(b.dtype)
    mask = np.where(at > most, b.dtype.type(0), _ones(count, b.dtype) << by)
    return b & ~mask | a << by & mask


def _found(*, type: str, shiftamt: bool, **_: object) -> Callable[[Numbers], Numbers]:
    """The place of the highest bit that is not the sign's, or how far it is from the top; ~0 for none."""
    kind = TYPES[type]

    def execute(a: Numbers) -> Numbers:
        bits = (np.where(a < 0, ~a, a) if kind.signed else a).view(kind.unsigned)
        above = clz(bits)
        return np.where(bits == 0, -1, above if shiftamt else kind.bits - 1 - above).astype(np.int32).view(np.uint32)

    return execute


def _selector(c: Numbers, mode: str | None) -> list[Numbers]:
    """For each byte of the result, which of the eight of b and a."""
    s = c & np.uint32(3)
    rows = {
        "f4e": [s + np.uint32(k) for k in range(4)],
        "b4e": [(s - np.uint32(k)) & np.uint32(7) for k in range(4)],
        "rc8": [s] * 4,
        "ecl": [np.maximum(s, np.uint32(k)) for k in range(4)],
        "ecr": [np.minimum(s, np.uint32(k)) for k in range(4)],
        "rc16": [(s & np.uint32(1)) * np.uint32(2) + np.uint32(k % 2) for k in range(4)],
    }
    return rows[str(mode)] if mode else [c >> np.uint32(4 * k) & np.uint32(15) for k in range(4)]


def _permuted(*, mode: str | None, **_: object) -> Callable[[Numbers, Numbers, Numbers], Numbers]:
    """Bytes of a (0 to 3) and b (4 to 7) in any order; bit 3 of a selector makes copies of the byte's sign."""

    def execute(a: Numbers, b: Numbers, c: Numbers) -> Numbers:
        both = b.astype(np.uint64) << np.uint64(32) | a
        total = np.uint32(0)
        for k, which in enumerate(_selector(c, mode)):
            byte = (both >> (which & np.uint32(7)).astype(np.uint64) * np.uint64(8)).astype(np.uint32) & np.uint32(255)
            sign = (byte >> np.uint32(7)) * np.uint32(255)
            total = total | np.where(which & np.uint32(8) != 0, sign, byte) << np.uint32(8 * k)
        return total

    return execute


def _masked(*, mode: str, **_: object) -> Callable[[Numbers, Numbers], Numbers]:
    """Ones from bit a on, so many as b says; both are clamped, or wrap at 32."""

    def execute(a: Numbers, b: Numbers) -> Numbers:
        if mode == "wrap":
            a, b = a & np.uint32(31), b & np.uint32(31)
        return np.where(a > 31, np.uint32(0), _ones(b, np.dtype(np.uint32)) << np.minimum(a, np.uint32(31)))

    return execute


def _extended(*, type: str, mode: str, **_: object) -> Callable[[Numbers, Numbers], Numbers]:
    """The low b bits of a as a number of the type."""
    kind = TYPES[type]

    def execute(a: Numbers, b: Numbers) -> Numbers:
        count = b & np.uint32(31) if mode == "wrap" else np.minimum(b, np.uint32(32))
        bits = a.view(np.uint32)
        mask = _ones(count, np.dtype(np.uint32))
        low = bits & mask
        top = bits >> np.maximum(count, np.uint32(1)) - np.uint32(1) & np.uint32(1)
        filled = np.where((top != 0) & (count > 0), low | ~mask, low) if kind.signed else low
        return filled.view(kind.numpy)

    return execute


def _fns(mask: Numbers, base: Numbers, offset: Numbers) -> Numbers:
    """The place of the n-th set bit from ``base`` on, upwards or downwards; ~0 for none."""
    places = np.arange(32)
    signed = np.asarray(offset).view(np.int32)[..., None]
    at = np.asarray(base).astype(np.int64)[..., None]
    lit = (np.asarray(mask)[..., None] >> places.astype(np.uint32) & np.uint32(1)) != 0
    up, down = lit & (places >= at), lit & (places <= at) & (at < 32)
    from_below = np.cumsum(up, axis=-1, dtype=np.int8) * up
    from_above = np.cumsum(down[..., ::-1], axis=-1, dtype=np.int8)[..., ::-1] * down
    zero = lit & (places == at)
    hit = np.where(signed > 0, from_below == signed, np.where(signed < 0, from_above == -signed.astype(np.int64), zero))
    return np.where(hit.any(-1), hit.argmax(-1), -1).astype(np.int32).view(np.uint32)


def _not_any(a: Numbers) -> Numbers:
    return (a == 0).astype(a.dtype)


MEANINGS: dict[str, Callable[..., Callable[..., Any]]] = {
    "and": plain(np.bitwise_and),
    "or": plain(np.bitwise_or),
    "xor": plain(np.bitwise_xor),
    "not": plain(np.invert),
    "cnot": plain(_not_any),
    "shl": _shifted(np.left_shift),
    "shr": _shifted(np.right_shift),
    "shf": _funnel,
    "lop3": _looked_up,
    "bfe": _extracted,
    "bfi": plain(_inserted),
    "bfind": _found,
    "prmt": _permuted,
    "bmsk": _masked,
    "szext": _extended,
    "fns": plain(_fns),
    "brev": plain(brev),
    "popc": plain(popcount),
    "clz": plain(clz),
}

LOGIC, INTEGERS = "Logic and Shift Instructions", "Integer Arithmetic Instructions"
BITS = words("b16", "b32", "b64")
WORDS = words("b32", "b64")
CLAMP_OR_WRAP = words("clamp", "wrap")
NUMBERS = words("u32", "s32", "u64", "s64")
SHIFTED = words("b16", "b32", "b64", "u16", "u32", "u64", "s16", "s32", "s64")


def _row(
    name: str,
    operands: str,
    modifiers: Mapping[str, Spellings],
    doc: str,
    *,
    chapter: str = INTEGERS,
    result: str = "type",
) -> None:
    """A row of one shape, with its modifiers behind the opcode."""
    text = name + "".join(f"{{{word}}}" for word in modifiers)
    scalar(name, operands, (text, modifiers, MEANINGS[name]), doc=doc, chapter=chapter, result=result)


for _name, _operands, _opcode, _doc in (
    ("and_", "a b", "and", "The bits that both have."),
    ("or_", "a b", "or", "The bits that one has."),
    ("xor", "a b", "xor", "The bits that differ."),
    ("not_", "a", "not", "The bits that a lacks."),
):
    _shapes = ((f"{_opcode}{{type}}", {"type": types}, MEANINGS[_opcode]) for types in (BITS, words("pred")))
    scalar(_name, _operands, *_shapes, doc=_doc, chapter=LOGIC)

_row("cnot", "a", {"type": BITS}, "1 where a is 0, else 0.", chapter=LOGIC)
_row("shl", "a n:u32", {"type": BITS}, "The bits of a moved up by n, at most its width.", chapter=LOGIC)
_row(
    "shr",
    "a n:u32",
    {"type": SHIFTED},
    "The bits of a moved down by n, at most its width; a signed number fills up with its sign.",
    chapter=LOGIC,
)
_row(
    "shf",
    "a b c:u32",
    {"way": words("l", "r"), "mode": CLAMP_OR_WRAP, "type": words("b32")},
    "Of the 64 bits of b and a, moved by c, the upper 32 (l) or the lower 32 (r).",
    chapter=LOGIC,
)
_row(
    "lop3",
    "a b c lut:imm",
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
    {"type": NUMBERS},
    "A field of a as a number; where it leaves the word, zeros or the sign.",
)
_row("bfi", "a b position:u32 length:u32", {"type": WORDS}, "b with the low bits of a in the place of a field.")
_row(
    "bfind",
    "a",
    {"shiftamt": flag("shiftamt"), "type": NUMBERS},
    "The place of the highest bit that is not the sign's, or its distance from the top; all ones for none.",
    result="u32",
)
_row("brev", "a", {"type": WORDS}, "The bits of a in reverse order.")
_row("popc", "a", {"type": WORDS}, "How many bits of a are set.", result="u32")
_row("clz", "a", {"type": WORDS}, "Zero bits above the highest set bit of a.", result="u32")
_row(
    "prmt",
    "a b c",
    {"type": words("b32"), "mode": maybe("f4e", "b4e", "rc8", "ecl", "ecr", "rc16")},
    "Four bytes of the eight of b and a, as the nibbles of c or a mode say.",
    chapter="Data Movement and Conversion Instructions",
)
_row("bmsk", "a b", {"mode": CLAMP_OR_WRAP, "type": words("b32")}, "Ones from bit a on, so many as b says.")
_row("szext", "a b:u32", {"mode": CLAMP_OR_WRAP, "type": words("u32", "s32")}, "The low b bits of a as a number.")
_row(
    "fns",
    "mask base:u32 offset:s32",
    {"type": words("b32")},
    "The place of the n-th set bit of the mask from ``base`` on, upwards or downwards; all ones for none.",
    result="u32",
)


# setp, set, selp, slct: numbers compared, and one of two chosen by a predicate.
#
# Source: PTX ISA, "Comparison and Selection Instructions".


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
