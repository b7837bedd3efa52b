"""The meaning of scalar instructions by the manual: arithmetic, logic, comparisons and moves."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from tests.isa.arithmetic_oracles import FUNCTIONS, or_nan
from tests.isa.numbers import (
    bits_of,
    clamped,
    decoded,
    each,
    encoded,
    flushed,
    integer,
    is_float,
    is_negative,
    is_tiny,
    negated,
    signed,
    wrapped,
)
from tests.isa.registry import scalar


def plus(a: Any, b: Any, rounding: str) -> Any:
    if "nan" in (a, b) or {a, b} == {"inf", "-inf"}:
        return "nan"
    for one in (a, b):
        if one in ("inf", "-inf"):
            return one
    if a == "-0" and b == "-0":
        return "-0"
    total = Fraction(0 if a == "-0" else a) + Fraction(0 if b == "-0" else b)
    opposite = is_negative(a) != is_negative(b)
    return "-0" if total == 0 and opposite and rounding == "rm" else total


def times(a: Any, b: Any) -> Any:
    sign = is_negative(a) != is_negative(b)
    zero = [one == "-0" or one == 0 for one in (a, b)]
    endless = [one in ("inf", "-inf") for one in (a, b)]
    if "nan" in (a, b) or (any(zero) and any(endless)):
        return "nan"
    if any(endless):
        return "-inf" if sign else "inf"
    if any(zero):
        return "-0" if sign else Fraction(0)
    return a * b


def over(a: Any, b: Any) -> Any:
    sign = is_negative(a) != is_negative(b)
    zero = [one == "-0" or one == 0 for one in (a, b)]
    endless = [one in ("inf", "-inf") for one in (a, b)]
    if "nan" in (a, b) or all(zero) or all(endless):
        return "nan"
    if zero[1] or endless[0]:
        return "-inf" if sign else "inf"
    if zero[0] or endless[1]:
        return "-0" if sign else Fraction(0)
    return a / b


def root(a: Any) -> Any:
    """Near enough that no rounding to 53 bits can tell, and on the right side."""
    if a in ("nan", "-inf") or (a != "-0" and is_negative(a)):
        return "nan"
    if isinstance(a, str) or a == 0:
        return a
    shift = 1400
    scaled = a * 4**shift
    whole = math.isqrt(scaled.numerator // scaled.denominator)
    exact = whole * whole * scaled.denominator == scaled.numerator
    return Fraction(2 * whole + (not exact), 2 * 2**shift)


def of_floats(operation: Callable[..., Any]) -> Callable[..., int]:
    def run(mods: dict[str, Any], registers: tuple[int, ...]) -> int:
        rounding = mods.get("rnd") or "rn"

        def one(word: str, *bits: int) -> int:
            bits = tuple(flushed(word, b) for b in bits) if mods.get("ftz") else bits
            value = operation(*(decoded(word, b) for b in bits), rounding=rounding)
            if mods.get("ftz") and not isinstance(value, str) and is_tiny(word, value, rounding):
                value = "-0" if value < 0 else Fraction(0)
            result = encoded(word, value, rounding)
            result = flushed(word, result) if mods.get("ftz") else result
            if mods.get("relu"):
                value = decoded(word, result)
                result = 0 if is_negative(value) else result
            return clamped(word, result) if mods.get("sat") else result

        return each(mods["type"], registers, one)

    return run


FLOATS = {
    "add": of_floats(lambda a, b, rounding: plus(a, b, rounding)),
    "sub": of_floats(lambda a, b, rounding: plus(a, negated(b), rounding)),
    "mul": of_floats(lambda a, b, rounding: times(a, b)),
    "fma": of_floats(lambda a, b, c, rounding: plus(times(a, b), c, rounding)),
    "div": of_floats(lambda a, b, rounding: over(a, b)),
    "rcp": of_floats(lambda a, rounding: over(Fraction(1), a)),
    "sqrt": of_floats(lambda a, rounding: root(a)),
}


def of_integers(operation: Callable[..., int]) -> Callable[..., int]:
    def run(mods: dict[str, Any], registers: tuple[int, ...]) -> int:
        def one(word: str, *bits: int) -> int:
            return wrapped(word, operation(*(integer(word, b) for b in bits)), sat=bool(mods.get("sat")))

        return each(mods["type"], registers, one)

    return run


INTEGERS = {"add": of_integers(lambda a, b: a + b), "sub": of_integers(lambda a, b: a - b)}


@scalar("add", "sub", "rcp", "sqrt")
def two_kinds(mods: dict[str, Any], *registers: int) -> int:
    name = mods["name"]
    return (FLOATS if is_float(mods["type"]) else INTEGERS)[name](mods, registers)


@scalar("fma")
def fma(mods: dict[str, Any], *registers: int) -> int:
    found = FLOATS["fma"](mods, registers)
    for place in range(0, 32 if mods["type"][-2:] == "x2" else 16, 16) if mods.get("oob") else ():
        if any(register >> place & 0x7FFF == 0x7FF7 for register in registers[:2]):
            found &= ~(0xFFFF << place)
    return found


def half(mods: dict[str, Any], product: int) -> int:
    width = bits_of(mods["type"])
    if mods["half"] == "wide":
        return product & (1 << 2 * width) - 1
    return (product if mods["half"] == "lo" else product >> width) & (1 << width) - 1


@scalar("mul")
def mul(mods: dict[str, Any], a: int, b: int) -> int:
    if is_float(mods["type"]):
        return FLOATS["mul"](mods, (a, b))
    return half(mods, integer(mods["type"], a) * integer(mods["type"], b))


@scalar("mad")
def mad(mods: dict[str, Any], a: int, b: int, c: int) -> int:
    word = mods["type"]
    if is_float(word):
        return FLOATS["fma"](mods, (a, b, c))
    part = half(mods, integer(word, a) * integer(word, b))
    if mods.get("sat"):
        return wrapped(word, signed(part, 32) + signed(c, 32), sat=True)
    return part + c & (1 << bits_of(word) * (2 if mods["half"] == "wide" else 1)) - 1


@scalar("mul24", "mad24")
def mul24(mods: dict[str, Any], a: int, b: int, c: int = 0) -> int:
    word = mods["type"]
    x, y = ((signed(v, 24) if word == "s32" else v & 0xFFFFFF) for v in (a, b))
    product = x * y
    part = (product if mods["half"] == "lo" else product >> 16) & 0xFFFFFFFF
    return wrapped(word, integer(word, part) + integer(word, c), sat=bool(mods.get("sat")))


@scalar("sad")
def sad(mods: dict[str, Any], a: int, b: int, c: int) -> int:
    word = mods["type"]
    return wrapped(word, integer(word, c) + abs(integer(word, a) - integer(word, b)))


@scalar("div", "rem")
def div(mods: dict[str, Any], a: int, b: int) -> int:
    word = mods["type"]
    if is_float(word):
        return FLOATS["div"](mods, (a, b))
    x, y = integer(word, a), integer(word, b)
    if y == 0:
        return wrapped(word, -1)
    quotient = abs(x) // abs(y) * (-1 if (x < 0) != (y < 0) else 1)
    return wrapped(word, quotient if mods["name"] == "div" else x - quotient * y)


@scalar("abs", "neg")
def sign_of(mods: dict[str, Any], a: int) -> int:
    word, name = mods["type"], mods["name"]
    if not is_float(word):
        return wrapped(word, abs(integer(word, a)) if name == "abs" else -integer(word, a))

    def one(inner: str, bits: int) -> int:
        bits = flushed(inner, bits) if mods.get("ftz") else bits
        top = 1 << bits_of(inner) - 1
        if decoded(inner, bits) == "nan":
            return encoded(inner, "nan")
        return bits & ~top if name == "abs" else bits ^ top

    return each(word, (a,), one)


def less(a: Any, b: Any) -> bool:
    """Of numbers; -0 is less than 0."""
    order = {"-inf": -math.inf, "inf": math.inf, "-0": 0}
    x, y = order.get(a, a), order.get(b, b)
    return bool(x < y or (x == y and a == "-0" and b != "-0"))


@scalar("min", "max")
def extreme(mods: dict[str, Any], a: int, b: int, c: int | None = None) -> int:
    word, smaller = mods["type"], mods["name"] == "min"
    if c is not None:
        top = (1 << 31) if mods["magnitudes"] else 0
        two = {**mods, "magnitudes": None}
        a, b, c = (register & ~top & 0xFFFFFFFF for register in (a, b, c))
        return extreme(two, extreme(two, a, b), c)
    if not is_float(word):

        def of_numbers(inner: str, *bits: int) -> int:
            found = (min if smaller else max)(integer(inner, v) for v in bits)
            return wrapped(inner, max(found, 0) if mods.get("relu") else found)

        return each(word, (a, b), of_numbers)

    def one(inner: str, x: int, y: int) -> int:
        x, y = (flushed(inner, v) if mods.get("ftz") else v for v in (x, y))
        top = 1 << bits_of(inner) - 1
        sign = (x ^ y) & top if mods.get("magnitudes") else 0
        if mods.get("magnitudes"):
            x, y = x & ~top, y & ~top
        values = [decoded(inner, x), decoded(inner, y)]
        if values.count("nan") == 2 or (mods.get("nan") and "nan" in values):
            return encoded(inner, "nan")
        if "nan" in values:
            return (y if values[0] == "nan" else x) | sign
        return (x if less(*values) == smaller or x == y else y) | sign

    return each(word, (a, b), one)


@scalar("copysign")
def copysign(mods: dict[str, Any], a: int, b: int) -> int:
    top = 1 << bits_of(mods["type"]) - 1
    return b & ~top | a & top


@scalar("testp")
def testp(mods: dict[str, Any], a: int) -> int:
    word = mods["type"]
    value = decoded(word, a)
    endless, nan = value in ("inf", "-inf"), value == "nan"
    small = not nan and not endless and value not in ("-0", 0) and flushed(word, a) != a
    answers = {
        "finite": not (endless or nan),
        "infinite": endless,
        "number": not nan,
        "notanumber": nan,
        "normal": not (endless or nan or small),
        "subnormal": small,
    }
    return int(answers[mods["test"]])


# Logic and fields


@scalar("and_", "or_", "xor")
def logic(mods: dict[str, Any], a: int, b: int) -> int:
    return {"and_": a & b, "or_": a | b, "xor": a ^ b}[mods["name"]]


@scalar("not_")
def inverse(mods: dict[str, Any], a: int) -> int:
    return int(not a) if mods["type"] == "pred" else ~a & (1 << bits_of(mods["type"])) - 1


@scalar("cnot")
def cnot(mods: dict[str, Any], a: int) -> int:
    return int(a == 0)


@scalar("shl", "shr")
def shift(mods: dict[str, Any], a: int, n: int) -> int:
    word, width = mods["type"], bits_of(mods["type"])
    n = min(n, width)
    return (a << n if mods["name"] == "shl" else integer(word, a) >> n) & (1 << width) - 1


@scalar("shf")
def funnel(mods: dict[str, Any], a: int, b: int, n: int) -> int:
    n = n & 31 if mods["mode"] == "wrap" else min(n, 32)
    both = b << 32 | a
    return (both << n >> 32 if mods["way"] == "l" else both >> n) & 0xFFFFFFFF


@scalar("lop3")
def lop3(mods: dict[str, Any], a: int, b: int, c: int, lut: int) -> int:
    return sum((lut >> ((a >> i & 1) << 2 | (b >> i & 1) << 1 | c >> i & 1) & 1) << i for i in range(32))


@scalar("bfe")
def bfe(mods: dict[str, Any], a: int, position: int, length: int) -> int:
    word, width = mods["type"], bits_of(mods["type"])
    position, length = (position, min(length, 64)) if width == 64 else (position & 255, length & 255)
    sign = a >> min(position + length - 1, width - 1) & 1 if word[0] == "s" and length else 0
    inside = [i < length and position + i < width for i in range(width)]
    return sum((a >> position + i & 1 if inside[i] else sign) << i for i in range(width))


@scalar("bfi")
def bfi(mods: dict[str, Any], a: int, b: int, position: int, length: int) -> int:
    width = bits_of(mods["type"])
    position, length = (position, min(length, 64)) if width == 64 else (position & 255, length & 255)
    for i in range(length):
        if position + i < width:
            b = b & ~(1 << position + i) | (a >> i & 1) << position + i
    return b


@scalar("bfind")
def bfind(mods: dict[str, Any], a: int) -> int:
    width = bits_of(mods["type"])
    a = a ^ (1 << width) - 1 if mods["type"][0] == "s" and a >> width - 1 else a
    if a == 0:
        return 0xFFFFFFFF
    return width - a.bit_length() if mods["shiftamt"] else a.bit_length() - 1


@scalar("popc", "clz", "brev")
def counted(mods: dict[str, Any], a: int) -> int:
    text = f"{a:0{bits_of(mods['type'])}b}"
    return {"popc": text.count("1"), "clz": (text + "1").index("1"), "brev": int(text[::-1], 2)}[mods["name"]]


MODES = {  # the bytes of the result, the highest first, for each selector
    "f4e": ("3210", "4321", "5432", "6543"),
    "b4e": ("5670", "6701", "7012", "0123"),
    "rc8": ("0000", "1111", "2222", "3333"),
    "ecl": ("3210", "3211", "3222", "3333"),
    "ecr": ("0000", "1110", "2210", "3210"),
    "rc16": ("1010", "3232", "1010", "3232"),
}


@scalar("prmt")
def prmt(mods: dict[str, Any], a: int, b: int, c: int) -> int:
    choice = [int(n) for n in MODES[mods["mode"]][c & 3][::-1]] if mods["mode"] else [c >> 4 * i & 15 for i in range(4)]
    octets = [(b << 32 | a) >> 8 * i & 255 for i in range(8)]
    found = [octets[n & 7] if n < 8 else 255 * (octets[n & 7] >> 7) for n in choice]
    return sum(octet << 8 * i for i, octet in enumerate(found))


@scalar("bmsk")
def bmsk(mods: dict[str, Any], a: int, b: int) -> int:
    a, b = (a & 31, b & 31) if mods["mode"] == "wrap" else (min(a, 32), min(b, 32))
    return ((1 << b) - 1) << a & 0xFFFFFFFF


@scalar("szext")
def szext(mods: dict[str, Any], a: int, b: int) -> int:
    b = b & 31 if mods["mode"] == "wrap" else min(b, 32)
    low = a & (1 << b) - 1
    return (signed(low, b) if mods["type"] == "s32" and b else low) & 0xFFFFFFFF


@scalar("fns")
def fns(mods: dict[str, Any], mask: int, base: int, offset: int) -> int:
    offset = signed(offset, 32)
    if offset == 0:
        return base if base < 32 and mask >> base & 1 else 0xFFFFFFFF
    order = range(base, 32) if offset > 0 else range(min(base, 31), -1, -1) if base < 32 else []
    lit = [i for i in order if mask >> i & 1]
    return lit[abs(offset) - 1] if len(lit) >= abs(offset) else 0xFFFFFFFF


# Comparisons


def compared(word: str, compare: str, a: int, b: int, *, ftz: bool) -> bool:
    if not is_float(word):
        if word[0] == "b":
            word = f"u{word[1:]}"
        x, y = integer(word, a), integer(word, b)
        name = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}.get(compare, compare)
    else:
        x, y = (decoded(word, flushed(word, v) if ftz else v) for v in (a, b))
        nan = "nan" in (x, y)
        if compare in ("num", "nan"):
            return nan == (compare == "nan")
        if nan:
            return compare.endswith("u")
        order = {"-inf": -math.inf, "inf": math.inf, "-0": 0}
        x, y = order.get(x, x), order.get(y, y)
        name = compare[:2]
    return {"eq": x == y, "ne": x != y, "lt": x < y, "le": x <= y, "gt": x > y, "ge": x >= y}[name]


def joined(mods: dict[str, Any], holds: bool, c: int) -> int:
    op = mods["bool_op"]
    return int({None: holds, "and": holds and bool(c), "or": holds or bool(c), "xor": holds != bool(c)}[op])


@scalar("setp", "setp.joined")
def setp(mods: dict[str, Any], a: int, b: int, c: int = 0) -> int:
    word, second = mods["type"], mods["out"] == "q"
    if "x2" in word:
        a, b = (v >> (16 if second else 0) & 0xFFFF for v in (a, b))
        return joined(mods, compared(word[:-2], mods["compare"], a, b, ftz=mods["ftz"]), c)
    return joined(mods, compared(word, mods["compare"], a, b, ftz=mods["ftz"]) != second, c)


@scalar("set", "set.joined")
def set_number(mods: dict[str, Any], a: int, b: int, c: int = 0) -> int:
    if "x2" in mods["stype"]:
        to = mods["type"].removesuffix("x2") if "x2" in mods["type"] else "u16"
        inner = {**mods, "stype": mods["stype"][:-2], "type": to}
        low, high = (set_number(inner, a >> up & 0xFFFF, b >> up & 0xFFFF, c) for up in (0, 16))
        return low | high << 16
    holds = joined(mods, compared(mods["stype"], mods["compare"], a, b, ftz=mods["ftz"]), c)
    one = {"f32": 0x3F800000, "f16": 0x3C00, "bf16": 0x3F80}
    return holds * one.get(mods["type"], (1 << bits_of(mods["type"])) - 1)


@scalar("selp")
def selp(mods: dict[str, Any], a: int, b: int, c: int) -> int:
    return a if c else b


@scalar("slct")
def slct(mods: dict[str, Any], a: int, b: int, c: int) -> int:
    if mods["ctype"] == "s32":
        return a if signed(c, 32) >= 0 else b
    value = decoded("f32", flushed("f32", c) if mods["ftz"] else c)
    return b if value in ("nan", "-inf") or (not isinstance(value, str) and value < 0) else a


# Moves


@scalar("mov")
def mov(mods: dict[str, Any], a: int) -> int:
    return a


@scalar("mov.pack2", "mov.pack4")
def pack(mods: dict[str, Any], *parts: int) -> int:
    width = bits_of(mods["type"]) // len(parts)
    return sum(part << width * i for i, part in enumerate(parts))


@scalar("mov.unpack2", "mov.unpack4")
def unpack(mods: dict[str, Any], a: int) -> int:
    width = bits_of(mods["inner"])
    return a >> width * int(mods["out"]) & (1 << width) - 1


# Of several kinds


@scalar("add.mixed", "sub.mixed", "fma.mixed")
def mixed(mods: dict[str, Any], *registers: int) -> int:
    *narrow, last = registers
    wide = [encoded("f32", decoded(mods["atype"], one)) for one in narrow]
    return FLOATS[mods["name"].partition(".")[0]]({**mods, "type": "f32"}, (*wide, last))


@scalar("lop3.joined")
def lop3_joined(mods: dict[str, Any], a: int, b: int, c: int, lut: int, q: int) -> int:
    found = lop3(mods, a, b, c, lut)
    return found if mods["out"] == "d" else joined(mods, found != 0, q)


# Approximations: the true value, rounded once

TRUE: dict[str, Callable[..., float]] = {
    **{name: FUNCTIONS[name] for name in ("sin", "cos", "rsqrt", "tanh", "sqrt")},
    "lg2": FUNCTIONS["log2"],
    "ex2": FUNCTIONS["exp2"],
    "rcp": lambda a: math.copysign(math.inf, a) if a == 0 else 1 / a,
    "div": lambda a, b: (
        a / b if b else math.nan if a == 0 or a != a else math.copysign(math.inf, a * math.copysign(1, b))
    ),
}


def true_value(name: str, *values: float) -> float:
    return or_nan(TRUE[name])(*values)


APPROXIMATE = {f"ptx.{name}" for name in ("sin", "cos", "lg2", "rsqrt", "ex2", "tanh")}  # nothing else
MEMORY = ("atom.vec", "red.vec", "createpolicy", "ld", "st", "st.vec", "ldu", "prefetch", "prefetchu")
COVERED = {*APPROXIMATE, *(f"ptx.{name}" for name in MEMORY)}  # of MEMORY in test_scalar_memory
