"""The meaning of scalar instructions by the manual, one number at a time, in Python's integers and fractions.

An oracle gets the modifiers and the registers' bits, and returns the bits of the result. Shares no code with the table.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any

Oracle = Callable[..., int]
ORACLES: dict[str, Oracle] = {}
FORMATS = {"f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "f64": (11, 52)}  # bits of exponent and fraction


def oracle(*names: str) -> Callable[[Oracle], Oracle]:
    def register(function: Oracle) -> Oracle:
        ORACLES.update({f"ptx.{name}": function for name in names})
        return function

    return register


def bits_of(word: str) -> int:
    """Of one number of the type."""
    return int("".join(c for c in word.split("x")[0] if c.isdigit()))


def signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> bits - 1 else value


def number(word: str, bits: int) -> int:
    """An integer of the type."""
    width = bits_of(word)
    return signed(bits, width) if word[0] == "s" else bits & (1 << width) - 1


# Floats: a Fraction, or one of the words inf, -inf, nan, -0.


def decoded(word: str, bits: int) -> Any:
    exponent_bits, fraction_bits = FORMATS[word]
    sign = bits >> exponent_bits + fraction_bits & 1
    exponent, fraction = bits >> fraction_bits & (1 << exponent_bits) - 1, bits & (1 << fraction_bits) - 1
    bias = (1 << exponent_bits - 1) - 1
    if exponent == (1 << exponent_bits) - 1:
        return "nan" if fraction else "-inf" if sign else "inf"
    if exponent == 0 and fraction == 0:
        return "-0" if sign else Fraction(0)
    top = fraction + (1 << fraction_bits if exponent else 0)
    value = Fraction(top) * Fraction(2) ** (max(exponent, 1) - bias - fraction_bits)
    return -value if sign else value


def decoded_float(word: str, bits: int) -> float:
    value = decoded(word, bits)
    return -0.0 if value == "-0" else float(value)


def encoded(word: str, value: Any, rounding: str = "rn") -> int:
    """Rounded once."""
    exponent_bits, fraction_bits = FORMATS[word]
    full, place = (1 << exponent_bits) - 1, exponent_bits + fraction_bits
    bias = (1 << exponent_bits - 1) - 1
    if value == "nan":
        return {"f64": 0xFFF8000000000000}.get(word, (1 << place) - 1)
    if value in ("inf", "-inf"):
        return full << fraction_bits | int(value == "-inf") << place
    if value == "-0":
        return 1 << place
    if value == 0:
        return 0
    sign, size = bool(value < 0), Fraction(abs(value))
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= size < Fraction(2) ** exponent
    exponent = max(exponent, 1 - bias)
    quantum = Fraction(2) ** (exponent - fraction_bits)
    whole = rounded(size / quantum, {"rm": "rp", "rp": "rm"}.get(rounding, rounding) if sign else rounding)
    if whole >= 1 << fraction_bits + 1:
        whole, exponent = whole >> 1, exponent + 1
    if exponent > bias:
        turns = rounding == "rz" or rounding == ("rp" if sign else "rm")
        return (
            ((full - 1) << fraction_bits | (1 << fraction_bits) - 1) if turns else full << fraction_bits
        ) | sign << place
    subnormal = whole < 1 << fraction_bits
    return whole + ((0 if subnormal else exponent + bias - 1) << fraction_bits) | sign << place


def rounded(value: Fraction, rounding: str) -> int:
    if rounding in ("rn", "rni"):
        return round(value)
    whole: dict[str, Callable[[Fraction], int]] = {"z": math.trunc, "m": math.floor, "p": math.ceil}
    return whole[rounding[1]](value)


def negated(value: Any) -> Any:
    if isinstance(value, str):
        return {"nan": "nan", "inf": "-inf", "-inf": "inf", "-0": Fraction(0)}[value]
    return "-0" if value == 0 else -value


def is_negative(value: Any) -> bool:
    return value in ("-0", "-inf") or (not isinstance(value, str) and value < 0)


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


def flushed(word: str, bits: int) -> int:
    exponent_bits, fraction_bits = FORMATS[word]
    small = bits >> fraction_bits & (1 << exponent_bits) - 1 == 0
    return bits >> exponent_bits + fraction_bits << exponent_bits + fraction_bits if small else bits


def clamped(word: str, bits: int) -> int:
    value = decoded(word, bits)
    if value in ("nan", "-0", "-inf") or (not isinstance(value, str) and value <= 0):
        return 0
    return encoded(word, Fraction(1)) if value == "inf" or value >= 1 else bits


def each(word: str, registers: tuple[int, ...], one: Callable[..., int]) -> int:
    """The numbers of a pair, the low ones first."""
    if "x2" not in word:
        return one(word, *registers)
    width, inner = bits_of(word), word[:-2]
    mask = (1 << width) - 1
    return one(inner, *(r & mask for r in registers)) | one(inner, *(r >> width & mask for r in registers)) << width


def normal(word: str) -> Fraction:
    """The smallest normal number."""
    return Fraction(2) ** (2 - (1 << FORMATS[word][0] - 1))


def is_tiny(word: str, value: Fraction, rounding: str) -> bool:
    """Whether it is below the normal numbers when it is rounded as if exponents had no end."""
    spacing = normal(word) / (2 << FORMATS[word][1])  # of the numbers just below
    return abs(rounded(value / spacing, rounding)) * spacing < normal(word)


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


def is_float(word: str) -> bool:
    return word[0] == "f" or word.startswith("bf")


def ends(word: str) -> tuple[int, int]:
    width = bits_of(word)
    return (-(1 << width - 1), (1 << width - 1) - 1) if word[0] == "s" else (0, (1 << width) - 1)


def wrapped(word: str, value: int, *, sat: bool = False) -> int:
    low, high = ends(word)
    return (min(max(value, low), high) if sat else value) & (1 << bits_of(word)) - 1


def of_integers(operation: Callable[..., int]) -> Callable[..., int]:
    def run(mods: dict[str, Any], registers: tuple[int, ...]) -> int:
        def one(word: str, *bits: int) -> int:
            return wrapped(word, operation(*(number(word, b) for b in bits)), sat=bool(mods.get("sat")))

        return each(mods["type"], registers, one)

    return run


INTEGERS = {"add": of_integers(lambda a, b: a + b), "sub": of_integers(lambda a, b: a - b)}


@oracle("add", "sub", "rcp", "sqrt")
def two_kinds(mods: dict[str, Any], *registers: int) -> int:
    name = mods["name"]
    return (FLOATS if is_float(mods["type"]) else INTEGERS)[name](mods, registers)


@oracle("fma")
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


@oracle("mul")
def mul(mods: dict[str, Any], a: int, b: int) -> int:
    if is_float(mods["type"]):
        return FLOATS["mul"](mods, (a, b))
    return half(mods, number(mods["type"], a) * number(mods["type"], b))


@oracle("mad")
def mad(mods: dict[str, Any], a: int, b: int, c: int) -> int:
    word = mods["type"]
    if is_float(word):
        return FLOATS["fma"](mods, (a, b, c))
    part = half(mods, number(word, a) * number(word, b))
    if mods.get("sat"):
        return wrapped(word, signed(part, 32) + signed(c, 32), sat=True)
    return part + c & (1 << bits_of(word) * (2 if mods["half"] == "wide" else 1)) - 1


@oracle("mul24", "mad24")
def mul24(mods: dict[str, Any], a: int, b: int, c: int = 0) -> int:
    word = mods["type"]
    x, y = ((signed(v, 24) if word == "s32" else v & 0xFFFFFF) for v in (a, b))
    product = x * y
    part = (product if mods["half"] == "lo" else product >> 16) & 0xFFFFFFFF
    return wrapped(word, number(word, part) + number(word, c), sat=bool(mods.get("sat")))


@oracle("sad")
def sad(mods: dict[str, Any], a: int, b: int, c: int) -> int:
    word = mods["type"]
    return wrapped(word, number(word, c) + abs(number(word, a) - number(word, b)))


@oracle("div", "rem")
def div(mods: dict[str, Any], a: int, b: int) -> int:
    word = mods["type"]
    if is_float(word):
        return FLOATS["div"](mods, (a, b))
    x, y = number(word, a), number(word, b)
    if y == 0:
        return wrapped(word, -1)
    quotient = abs(x) // abs(y) * (-1 if (x < 0) != (y < 0) else 1)
    return wrapped(word, quotient if mods["name"] == "div" else x - quotient * y)


@oracle("abs", "neg")
def sign_of(mods: dict[str, Any], a: int) -> int:
    word, name = mods["type"], mods["name"]
    if not is_float(word):
        return wrapped(word, abs(number(word, a)) if name == "abs" else -number(word, a))

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


@oracle("min", "max")
def extreme(mods: dict[str, Any], a: int, b: int, c: int | None = None) -> int:
    word, smaller = mods["type"], mods["name"] == "min"
    if c is not None:
        top = (1 << 31) if mods["magnitudes"] else 0
        two = {**mods, "magnitudes": None}
        a, b, c = (register & ~top & 0xFFFFFFFF for register in (a, b, c))
        return extreme(two, extreme(two, a, b), c)
    if not is_float(word):

        def of_numbers(inner: str, *bits: int) -> int:
            found = (min if smaller else max)(number(inner, v) for v in bits)
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


@oracle("copysign")
def copysign(mods: dict[str, Any], a: int, b: int) -> int:
    top = 1 << bits_of(mods["type"]) - 1
    return b & ~top | a & top


@oracle("testp")
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


@oracle("and_", "or_", "xor")
def logic(mods: dict[str, Any], a: int, b: int) -> int:
    return {"and_": a & b, "or_": a | b, "xor": a ^ b}[mods["name"]]


@oracle("not_")
def inverse(mods: dict[str, Any], a: int) -> int:
    return int(not a) if mods["type"] == "pred" else ~a & (1 << bits_of(mods["type"])) - 1


@oracle("cnot")
def cnot(mods: dict[str, Any], a: int) -> int:
    return int(a == 0)


@oracle("shl", "shr")
def shift(mods: dict[str, Any], a: int, n: int) -> int:
    word, width = mods["type"], bits_of(mods["type"])
    n = min(n, width)
    return (a << n if mods["name"] == "shl" else number(word, a) >> n) & (1 << width) - 1


@oracle("shf")
def funnel(mods: dict[str, Any], a: int, b: int, n: int) -> int:
    n = n & 31 if mods["mode"] == "wrap" else min(n, 32)
    both = b << 32 | a
    return (both << n >> 32 if mods["way"] == "l" else both >> n) & 0xFFFFFFFF


@oracle("lop3")
def lop3(mods: dict[str, Any], a: int, b: int, c: int, lut: int) -> int:
    return sum((lut >> ((a >> i & 1) << 2 | (b >> i & 1) << 1 | c >> i & 1) & 1) << i for i in range(32))


@oracle("bfe")
def bfe(mods: dict[str, Any], a: int, position: int, length: int) -> int:
    word, width = mods["type"], bits_of(mods["type"])
    position, length = (position, min(length, 64)) if width == 64 else (position & 255, length & 255)
    sign = a >> min(position + length - 1, width - 1) & 1 if word[0] == "s" and length else 0
    inside = [i < length and position + i < width for i in range(width)]
    return sum((a >> position + i & 1 if inside[i] else sign) << i for i in range(width))


@oracle("bfi")
def bfi(mods: dict[str, Any], a: int, b: int, position: int, length: int) -> int:
    width = bits_of(mods["type"])
    position, length = (position, min(length, 64)) if width == 64 else (position & 255, length & 255)
    for i in range(length):
        if position + i < width:
            b = b & ~(1 << position + i) | (a >> i & 1) << position + i
    return b


@oracle("bfind")
def bfind(mods: dict[str, Any], a: int) -> int:
    width = bits_of(mods["type"])
    a = a ^ (1 << width) - 1 if mods["type"][0] == "s" and a >> width - 1 else a
    if a == 0:
        return 0xFFFFFFFF
    return width - a.bit_length() if mods["shiftamt"] else a.bit_length() - 1


@oracle("popc", "clz", "brev")
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


@oracle("prmt")
def prmt(mods: dict[str, Any], a: int, b: int, c: int) -> int:
    choice = [int(n) for n in MODES[mods["mode"]][c & 3][::-1]] if mods["mode"] else [c >> 4 * i & 15 for i in range(4)]
    octets = [(b << 32 | a) >> 8 * i & 255 for i in range(8)]
    found = [octets[n & 7] if n < 8 else 255 * (octets[n & 7] >> 7) for n in choice]
    return sum(octet << 8 * i for i, octet in enumerate(found))


@oracle("bmsk")
def bmsk(mods: dict[str, Any], a: int, b: int) -> int:
    a, b = (a & 31, b & 31) if mods["mode"] == "wrap" else (min(a, 32), min(b, 32))
    return ((1 << b) - 1) << a & 0xFFFFFFFF


@oracle("szext")
def szext(mods: dict[str, Any], a: int, b: int) -> int:
    b = b & 31 if mods["mode"] == "wrap" else min(b, 32)
    low = a & (1 << b) - 1
    return (signed(low, b) if mods["type"] == "s32" and b else low) & 0xFFFFFFFF


@oracle("fns")
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
        x, y = number(word, a), number(word, b)
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


@oracle("setp", "setp.joined")
def setp(mods: dict[str, Any], a: int, b: int, c: int = 0) -> int:
    word, second = mods["type"], mods["out"] == "q"
    if "x2" in word:
        a, b = (v >> (16 if second else 0) & 0xFFFF for v in (a, b))
        return joined(mods, compared(word[:-2], mods["compare"], a, b, ftz=mods["ftz"]), c)
    return joined(mods, compared(word, mods["compare"], a, b, ftz=mods["ftz"]) != second, c)


@oracle("set", "set.joined")
def set_number(mods: dict[str, Any], a: int, b: int, c: int = 0) -> int:
    if "x2" in mods["stype"]:
        to = mods["type"].removesuffix("x2") if "x2" in mods["type"] else "u16"
        inner = {**mods, "stype": mods["stype"][:-2], "type": to}
        low, high = (set_number(inner, a >> up & 0xFFFF, b >> up & 0xFFFF, c) for up in (0, 16))
        return low | high << 16
    holds = joined(mods, compared(mods["stype"], mods["compare"], a, b, ftz=mods["ftz"]), c)
    one = {"f32": 0x3F800000, "f16": 0x3C00, "bf16": 0x3F80}
    return holds * one.get(mods["type"], (1 << bits_of(mods["type"])) - 1)


@oracle("selp")
def selp(mods: dict[str, Any], a: int, b: int, c: int) -> int:
    return a if c else b


@oracle("slct")
def slct(mods: dict[str, Any], a: int, b: int, c: int) -> int:
    if mods["ctype"] == "s32":
        return a if signed(c, 32) >= 0 else b
    value = decoded("f32", flushed("f32", c) if mods["ftz"] else c)
    return b if value in ("nan", "-inf") or (not isinstance(value, str) and value < 0) else a


# Moves and conversions


@oracle("mov")
def mov(mods: dict[str, Any], a: int) -> int:
    return a


@oracle("mov.pack2", "mov.pack4")
def pack(mods: dict[str, Any], *parts: int) -> int:
    width = bits_of(mods["type"]) // len(parts)
    return sum(part << width * i for i, part in enumerate(parts))


@oracle("mov.unpack2", "mov.unpack4")
def unpack(mods: dict[str, Any], a: int) -> int:
    width = bits_of(mods["inner"])
    return a >> width * int(mods["out"]) & (1 << width) - 1


def cvt_of_pair(mods: dict[str, Any], to: str, word: str, a: int) -> int:
    if word in ("f16x2", "bf16x2"):
        halves = [decoded(word[:-2], a >> 16 * i & 0xFFFF) for i in (0, 1)]
        return packed_codes(mods, to, halves) if to in NARROW else packed_powers(mods, halves)
    half = to[:-2]
    largest = decoded(half, encoded(half, "inf") - 1)
    if word == "ue8m0x2":
        values = [power_of_two(a >> 8 * i & 0xFF) for i in (0, 1)]
    else:
        values = [narrow_value(word, code) for code in codes_of(word, a)]
    values = [value if value == "nan" or not mods["finite"] else within(value, largest) for value in values]
    return sum(positive(mods, encoded(half, value), half) << 16 * i for i, value in enumerate(values))


@oracle("cvt")
def cvt(mods: dict[str, Any], a: int) -> int:
    to, word = mods["type"], mods["atype"]
    if word[-2:] == "x2":
        return cvt_of_pair(mods, to, word, a)
    if not is_float(word) and not is_float(to):
        if to == "tf32":
            return tf32(mods, a)
        return wrapped(to, number(word, a), sat=bool(mods["sat"]))
    if to == "tf32":
        return tf32(mods, a)
    if not is_float(word):
        value: Any = Fraction(number(word, a))
    else:
        value = decoded(word, flushed(word, a) if mods["ftz"] and word == "f32" and to != "f16" else a)
    if not is_float(to):
        return to_integer(mods, word, to, value)
    if to == word and not (mods["rnd"] or mods["sat"] or mods["ftz"]):
        return a
    if to == word and mods["rnd"] and not isinstance(value, str):
        whole = Fraction(rounded(value, mods["rnd"]))
        value = "-0" if whole == 0 and value < 0 else whole
    return finished(mods, to, value)


def finished(mods: dict[str, Any], to: str, value: Any) -> int:
    """Rounded, and clamped as the modifiers say."""
    if mods.get("finite") and value != "nan":
        value = within(value, decoded(to, encoded(to, "inf") - 1))
    rounding = (mods["rnd"] or "rn")[:2]
    if mods.get("ftz") and to == "f32" and not isinstance(value, str) and is_tiny(to, value, rounding):
        value = "-0" if value < 0 else Fraction(0)
    bits = encoded(to, value, rounding)
    return clamped(to, bits) if mods.get("sat") else positive(mods, bits, to)


def within(value: Any, largest: Fraction) -> Any:
    if value in ("inf", "-inf"):
        return largest if value == "inf" else -largest
    return value if value == "-0" else min(max(value, -largest), largest)


def positive(mods: dict[str, Any], bits: int, word: str = "f16") -> int:
    value = decoded(word, bits)
    return 0 if mods.get("relu") and value != "nan" and is_negative(value) else bits


def to_integer(mods: dict[str, Any], word: str, to: str, value: Any) -> int:
    low, high = ends(to)
    if value == "nan":
        return 1 << bits_of(to) - 1 if 64 in (bits_of(word), bits_of(to)) else 0
    whole = {"inf": high, "-inf": low, "-0": 0}[value] if isinstance(value, str) else rounded(value, mods["rnd"])
    return wrapped(to, whole, sat=True)


def tf32(mods: dict[str, Any], a: int) -> int:
    value = decoded("f32", a)
    if value == "nan":
        return a & 0xFFFFE000 if mods["rnd"] == "rna" else 0x7FFFE000
    if isinstance(value, str):
        bits = a
        if mods.get("finite") and value != "-0":
            bits = a & 0x80000000 | 0x7F7FE000
    else:
        step = a & 0x1FFF
        low = a & ~0x1FFF
        up = {"rna": step >= 0x1000, "rz": False, "rn": step > 0x1000 or (step == 0x1000 and a >> 13 & 1)}[mods["rnd"]]
        bits = low + (0x2000 if up else 0)
        if mods.get("finite") and bits & 0x7FFFFFFF == 0x7F800000:
            bits -= 0x2000
    return 0 if mods.get("relu") and bits >> 31 else bits


NARROW = {"e4m3x2": (4, 3), "e5m2x2": (5, 2), "e2m3x2": (2, 3), "e3m2x2": (3, 2), "e2m1x2": (2, 1)}


def codes_of(word: str, a: int) -> list[int]:
    width = 4 if word == "e2m1x2" else 8
    exponent, fraction = NARROW[word]
    return [a >> width * i & (1 << exponent + fraction + 1) - 1 for i in (0, 1)]


def narrow_value(word: str, code: int) -> Any:
    exponent_bits, fraction_bits = NARROW[word]
    sign = code >> exponent_bits + fraction_bits
    exponent, fraction = code >> fraction_bits & (1 << exponent_bits) - 1, code & (1 << fraction_bits) - 1
    if word == "e5m2x2" and exponent == 31:
        return "nan" if fraction else "-inf" if sign else "inf"
    if word == "e4m3x2" and code & 0x7F == 0x7F:
        return "nan"
    bias = (1 << exponent_bits - 1) - 1
    value = (fraction + (1 << fraction_bits if exponent else 0)) * Fraction(2) ** (
        max(exponent, 1) - bias - fraction_bits
    )
    return ("-0" if value == 0 else -value) if sign else value


def packed_codes(mods: dict[str, Any], to: str, values: list[Any]) -> int:
    """Each the nearest code, ties to the even one; what is beyond takes the largest."""
    exponent_bits, fraction_bits = NARROW[to]
    count = 1 << exponent_bits + fraction_bits
    finite = [(narrow_value(to, code), code) for code in range(count) if not isinstance(narrow_value(to, code), str)]

    def one(value: Any) -> int:
        if value == "nan":
            return count - 1
        value = within(value, finite[-1][0])
        negative = is_negative(value)
        size = 0 if value == "-0" else abs(value)
        near = min(finite, key=lambda pair: (abs(pair[0] - size), pair[1] & 1))[1]
        return 0 if negative and mods.get("relu") else near | negative << exponent_bits + fraction_bits

    width = 4 if to == "e2m1x2" else 8
    return one(values[0]) | one(values[1]) << width


def power_of_two(code: int) -> Any:
    return "nan" if code == 255 else Fraction(2) ** (code - 127)


def packed_powers(mods: dict[str, Any], values: list[Any]) -> int:
    """Of the size of each the power of two below or above; beyond the largest there is NaN, or the largest itself."""

    def one(value: Any) -> int:
        if isinstance(value, str):
            return 0 if value == "-0" else 254 if mods["finite"] and value != "nan" else 255
        codes = range(256)
        below = max((code for code in codes if Fraction(2) ** (code - 127) <= abs(value)), default=0)
        above = min(code for code in codes if Fraction(2) ** (code - 127) >= abs(value))
        code = below if mods["rnd"] == "rz" else above
        return min(code, 254) if mods["finite"] else code

    return one(values[0]) | one(values[1]) << 8


@cache
def magnitudes(one: str) -> tuple[int, list[Fraction]]:
    """The code of the sign alone, and the finite numbers without a sign, by their codes."""
    exponent, fraction = FORMATS[one] if one in FORMATS else NARROW[f"{one}x2"]
    top = 1 << exponent + fraction
    codes = (narrow_value(f"{one}x2", code) if f"{one}x2" in NARROW else decoded(one, code) for code in range(top))
    return top, [each for each in codes if not isinstance(each, str)]


def stochastic(mods: dict[str, Any], to: str, bits: int, share: Fraction) -> int:
    """The code below the size, or the next one if ``share`` of the step to it and what is cut off are one step."""
    value, one = decoded("f32", bits), to.removesuffix("x2").removesuffix("x4")
    top, codes = magnitudes(one)
    last = len(codes) - 1
    if value == "nan":
        return top - 1
    size = within(value, codes[last]) if mods["finite"] else value
    size = 0 if size == "-0" else size if isinstance(size, str) else abs(size)
    if isinstance(size, str):
        code = encoded(one, "inf")
    else:
        code = bisect_right(codes, size) - 1
        step = codes[code + 1] - codes[code] if code < last else codes[code] - codes[code - 1]
        code += size - codes[code] >= (1 - share) * step
    code = min(code, last) if mods["finite"] else min(code, encoded(one, "inf"))
    negative = is_negative(value)
    return 0 if negative and mods["relu"] else code | negative * top


@oracle("cvt.rs")
def cvt_rs(mods: dict[str, Any], a: int, b: int, rbits: int) -> int:
    count = 13 if mods["type"] == "f16x2" else 16
    shares = [Fraction(rbits >> place & (1 << count) - 1, 1 << count) for place in (16, 0)]
    upper, lower = (stochastic(mods, mods["type"], x, share) for x, share in zip((a, b), shares, strict=True))
    return upper << 16 | lower


@oracle("cvt.rs.of_four")
def cvt_rs_of_four(mods: dict[str, Any], a: int, b: int, e: int, f: int, rbits: int) -> int:
    octets = [Fraction(rbits >> place & 0xFF, 256) for place in (24, 8, 16, 0)]
    halves = [Fraction(rbits >> place & 0xFFFF, 65536) for place in (16, 16, 0, 0)]
    width, shares = (4, octets) if mods["type"] == "e2m1x4" else (8, halves)
    found = 0
    for x, share in zip((a, b, e, f), shares, strict=True):
        found = found << width | stochastic(mods, mods["type"], x, share)
    return found


@oracle("cvt.pair")
def cvt_pair(mods: dict[str, Any], a: int, b: int) -> int:
    to = mods["type"]
    values = [decoded("f32", b), decoded("f32", a)]
    if to == "ue8m0x2":
        return packed_powers(mods, values)
    if to in NARROW:
        return packed_codes(mods, to, values)
    return finished(mods, to[:-2], values[0]) | finished(mods, to[:-2], values[1]) << 16


@oracle("cvt.pack", "cvt.pack.onto")
def cvt_pack(mods: dict[str, Any], a: int, b: int, c: int = 0) -> int:
    to, width = mods["type"], int(mods["type"][1:])
    if width < 8:
        low, high = (-(1 << width - 1), (1 << width - 1) - 1) if to[0] == "s" else (0, (1 << width) - 1)
        upper, lower = (min(max(signed(each, 32), low), high) % (1 << width) for each in (a, b))
        return (c << 2 * width | upper << width | lower) & 0xFFFFFFFF
    return (
        c << 2 * width | wrapped(to, signed(a, 32), sat=True) << width | wrapped(to, signed(b, 32), sat=True)
    ) & 0xFFFFFFFF


# Carries, dot products, video


@oracle("add.cc", "addc", "sub.cc", "subc")
def carried(mods: dict[str, Any], a: int, b: int, carry: int = 0) -> int:
    width = bits_of(mods["type"])
    total = a + b + carry if mods["name"].startswith("add") else a - b - carry
    return int(not 0 <= total < 1 << width) if mods["out"] == "cc" else total & (1 << width) - 1


@oracle("mad.cc", "madc")
def mad_carried(mods: dict[str, Any], a: int, b: int, c: int, carry: int = 0) -> int:
    word, width = mods["type"], bits_of(mods["type"])
    total = half(mods, number(word, a) * number(word, b)) + c + carry
    return total >> width if mods["out"] == "cc" else total & (1 << width) - 1


def parts(word: str, register: int, count: int) -> list[int]:
    width = 32 // count
    found = [register >> width * i & (1 << width) - 1 for i in range(count)]
    return [signed(one, width) for one in found] if word[0] == "s" else found


@oracle("dp4a", "dp2a")
def dot(mods: dict[str, Any], a: int, b: int, c: int) -> int:
    x, y = parts(mods["atype"], a, 4 if mods["name"] == "dp4a" else 2), parts(mods["btype"], b, 4)
    if mods["name"] == "dp2a":
        y = y[:2] if mods["half"] == "lo" else y[2:]
    return c + sum(i * j for i, j in zip(x, y, strict=True)) & 0xFFFFFFFF


VIDEO = ("vadd", "vsub", "vabsdiff", "vmin", "vmax", "vavrg", "vset")


@oracle(*(f"{name}{count}" for name in VIDEO for count in (2, 4)))
def video(mods: dict[str, Any], a: int, b: int, c: int) -> int:
    name, count = mods["name"][:-1], int(mods["name"][-1])
    width, word = 32 // count, mods.get("type", "u32")
    found = []
    for x, y in zip(parts(mods["atype"], a, count), parts(mods["btype"], b, count), strict=True):
        average = math.floor(Fraction(x + y + 1, 2)) if x + y >= 0 else math.ceil(Fraction(x + y - 1, 2))
        value = {
            "vadd": x + y,
            "vsub": x - y,
            "vabsdiff": abs(x - y),
            "vmin": min(x, y),
            "vmax": max(x, y),
            "vavrg": average,
            "vset": name == "vset" and compared("s32", mods["compare"], x, y, ftz=False),
        }[name]
        low, high = (-(1 << width - 1), (1 << width - 1) - 1) if word[0] == "s" else (0, (1 << width) - 1)
        found.append(min(max(value, low), high) if mods.get("sat") else int(value))
    asked = mods.get("d_part") or "0123"
    if mods.get("add"):
        return sum(one for i, one in enumerate(found) if str(i) in asked) + c & 0xFFFFFFFF
    third = parts("u32", c, count)
    kept = [one if str(i) in asked else third[i] for i, one in enumerate(found)]
    return sum((one & (1 << width) - 1) << width * i for i, one in enumerate(kept))


def video_part(word: str, register: int, part: str | None) -> tuple[int, int, int]:
    """A part as a number; its lowest bit and its width."""
    width = 32 if part is None else {"b": 8, "h": 16}[part[0]]
    low = 0 if part is None else int(part[1:]) * width
    bits = register >> low & (1 << width) - 1
    return (signed(bits, width) if word[0] == "s" else bits), low, width


WORDS = ("vadd", "vsub", "vabsdiff", "vmin", "vmax", "vshl", "vshr", "vset")


@oracle(*WORDS)
def video_word(mods: dict[str, Any], a: int, b: int, c: int | None = None) -> int:
    name, word = mods["name"].partition(".")[0], mods.get("type", mods["atype"])
    x, _, _ = video_part(mods["atype"], a, mods["a_part"])
    y, _, _ = video_part(mods.get("btype", "u32"), b, mods["b_part"])
    if name in ("vshl", "vshr"):
        y = min(y, 32) if mods["mode"] == "clamp" else y % 32
    found = int(
        {
            "vadd": lambda: x + y,
            "vsub": lambda: x - y,
            "vabsdiff": lambda: abs(x - y),
            "vmin": lambda: min(x, y),
            "vmax": lambda: max(x, y),
            "vshl": lambda: x * 2**y,
            "vshr": lambda: x // 2**y,
            "vset": lambda: compared("s64", mods["compare"], x % 2**64, y % 2**64, ftz=False),
        }[name]()
    )
    _, low, width = video_part("u32", 0, mods.get("d_part"))
    if mods.get("sat"):
        least, most = (-(1 << width - 1), (1 << width - 1) - 1) if word[0] == "s" else (0, (1 << width) - 1)
        found = min(max(found, least), most)
    if c is None:
        return found % 2**32
    if mods["op2"] is None:
        mask = (1 << width) - 1
        return c & ~(mask << low) | (found & mask) << low
    third, within = number(word, c), signed(found % 2**33, 33)
    return {"add": within + third, "min": min(within, third), "max": max(within, third)}[mods["op2"]] % 2**32


@oracle("vmad")
def video_product(mods: dict[str, Any], a: int, b: int, c: int) -> int:
    x, _, _ = video_part(mods["atype"], a, mods["a_part"])
    y, _, _ = video_part(mods["btype"], b, mods["b_part"])
    has_sign = "s32" in (mods["atype"], mods["btype"]) or mods["a_sign"] or mods["c_sign"]
    third = signed(c, 32) if has_sign else c
    total = (-x * y if mods["a_sign"] else x * y) + (-third if mods["c_sign"] else third) + bool(mods["po"])
    total >>= int((mods["scale"] or "shr0")[3:])
    return wrapped("s32" if has_sign else "u32", total, sat=mods["sat"])


@oracle("add.mixed", "sub.mixed", "fma.mixed")
def mixed(mods: dict[str, Any], *registers: int) -> int:
    *narrow, last = registers
    wide = [encoded("f32", decoded(mods["atype"], one)) for one in narrow]
    return FLOATS[mods["name"].partition(".")[0]]({**mods, "type": "f32"}, (*wide, last))


@oracle("lop3.joined")
def lop3_joined(mods: dict[str, Any], a: int, b: int, c: int, lut: int, q: int) -> int:
    found = lop3(mods, a, b, c, lut)
    return found if mods["out"] == "d" else joined(mods, found != 0, q)


# Approximations: the true value, rounded once


def true_value(name: str, *values: float) -> float:
    try:
        functions: dict[str, Callable[..., float]] = {
            "sin": math.sin,
            "cos": math.cos,
            "lg2": lambda a: -math.inf if a == 0 else math.log2(a),
            "rsqrt": lambda a: math.copysign(math.inf, a) if a == 0 else 1 / math.sqrt(a),
            "ex2": lambda a: 2.0**a,
            "tanh": math.tanh,
            "rcp": lambda a: math.copysign(math.inf, a) if a == 0 else 1 / a,
            "sqrt": math.sqrt,
            "div": lambda a, b: (
                a / b if b else math.nan if a == 0 or a != a else math.copysign(math.inf, a * math.copysign(1, b))
            ),
        }
        found = functions[name](*values)
    except OverflowError:
        return math.inf
    except (ValueError, ZeroDivisionError):
        return math.nan
    return found


APPROXIMATE = {f"ptx.{name}" for name in ("sin", "cos", "lg2", "rsqrt", "ex2", "tanh")}  # nothing else

MEMORY = {
    "ptx.atom.vec",
    "ptx.red.vec",
    "ptx.createpolicy",
    "ptx.ld",
    "ptx.st",
    "ptx.st.vec",
    "ptx.ldu",
    "ptx.prefetch",
    "ptx.prefetchu",
}  # test_scalar_memory
COVERED = {*ORACLES, *APPROXIMATE, *MEMORY}
