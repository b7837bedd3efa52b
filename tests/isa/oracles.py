"""The meaning of each instruction by the manual, lane by lane, in plain Python. Shares no code with the table.

An oracle gets one warp: bytes of memory, which lanes are active, the modifiers, and the operands as lists over lanes (a
vector register operand as a list of lists, register first). It returns what the instruction writes, as such lists;
memory changes in place. Lanes are called 4g+t, as the manual's figures count them.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial, reduce
from typing import Any

import numpy as np

from tilewright.dtypes import dtype

WINDOW = 0x7F00_0000_0000

Words = list[int]
Oracle = Callable[..., Any]
ORACLES: dict[str, Oracle] = {}


@dataclass
class Warp:
    memory: bytearray
    active: list[bool]
    mods: dict[str, Any]

    @property
    def lanes(self) -> list[int]:
        return [lane for lane in range(32) if self.active[lane]]


def oracle(*names: str) -> Callable[[Oracle], Oracle]:
    def register(function: Oracle) -> Oracle:
        ORACLES.update(dict.fromkeys(names, function))
        return function

    return register


# Matrices in shared memory.


def element(row: bytes, column: int, kind: str) -> int:
    """The column-th element of a 16-byte row: some bits of the little-endian number that the row is."""
    bits = {".b16": 16, ".b8": 8, ".b8x16.b6x16_p32": 6, ".b8x16.b4x16_p64": 4}[kind]
    return int.from_bytes(row, "little") >> (bits * column) & ((1 << bits) - 1)


@oracle("ptx.ldmatrix")
def ldmatrix(warp: Warp, address: list[int]) -> list[Words]:
    shape, kind, trans = warp.mods["shape"], warp.mods["type"], warp.mods["trans"]
    height = 16 if shape == "m16n16" else 8
    loaded: list[Words] = []
    for matrix in range(warp.mods["num"]):
        rows = [bytes(warp.memory[a : a + 16]) for a in address[height * matrix : height * (matrix + 1)]]
        for half in range(2 if shape == "m16n16" else 1):
            register = []
            for lane in range(32):
                g, t = divmod(lane, 4)
                if shape == "m8n8":
                    places = [(2 * t + h, g) if trans else (g, 2 * t + h) for h in (0, 1)]
                elif shape == "m16n16":
                    places = [(4 * t + b, g + 8 * half) for b in range(4)]
                else:
                    places = [(g, 4 * t + b) for b in range(4)]
                width = 32 // len(places)
                parts = [element(rows[row], column, kind) << (width * i) for i, (row, column) in enumerate(places)]
                register.append(sum(parts))
            loaded.append(register)
    return loaded


@oracle("ptx.stmatrix")
def stmatrix(warp: Warp, address: list[int], registers: list[Words]) -> None:
    for matrix in range(warp.mods["num"]):
        for lane in range(32):
            g, t = divmod(lane, 4)
            word = registers[matrix][lane]
            if warp.mods["shape"] == "m16n8":
                for b in range(4):  # row in memory, byte in the row
                    warp.memory[address[8 * matrix + 2 * t + b % 2] + g + 8 * (b // 2)] = word >> 8 * b & 0xFF
            else:
                for h in (0, 1):
                    row, column = (2 * t + h, g) if warp.mods["trans"] else (g, 2 * t + h)
                    start = address[8 * matrix + row] + 2 * column
                    warp.memory[start : start + 2] = (word >> 16 * h & 0xFFFF).to_bytes(2, "little")


@oracle("ptx.movmatrix")
def movmatrix(warp: Warp, source: Words) -> Words:
    matrix = [[source[4 * row + column // 2] >> 16 * (column % 2) & 0xFFFF for column in range(8)] for row in range(8)]
    return [matrix[2 * t][g] | matrix[2 * t + 1][g] << 16 for g in range(8) for t in range(4)]


# The matrix product.


def number(bits: int, kind: str) -> float:
    """The value of a bit pattern."""
    if kind == "f16":
        return float(struct.unpack("<e", bits.to_bytes(2, "little"))[0])
    if kind in ("bf16", "tf32", "f32"):
        word = bits << 16 if kind == "bf16" else bits & ~0x1FFF if kind == "tf32" else bits
        return float(struct.unpack("<f", word.to_bytes(4, "little"))[0])
    if kind in ("s8", "u8", "s32"):
        size = 4 if kind == "s32" else 1
        return int.from_bytes(bits.to_bytes(size, "little"), "little", signed=kind != "u8")
    exponent_bits, mantissa_bits = {"e4m3": (4, 3), "e5m2": (5, 2)}[kind]
    bias = (1 << exponent_bits - 1) - 1
    sign = -1.0 if bits >> 7 else 1.0
    exponent, mantissa = bits >> mantissa_bits & (1 << exponent_bits) - 1, bits & (1 << mantissa_bits) - 1
    if exponent == 0:
        return sign * mantissa * 2.0 ** (1 - bias - mantissa_bits)
    return sign * (1 + mantissa / (1 << mantissa_bits)) * 2.0 ** (exponent - bias)


BITS = {"f16": 16, "bf16": 16, "tf32": 32, "f32": 32, "s32": 32, "s8": 8, "u8": 8, "e4m3": 8, "e5m2": 8}


def held(registers: list[Words], lane: int, i: int, kind: str) -> float:
    """Element i of a lane's fragment, the low bits of register 0 first."""
    per_register = 32 // BITS[kind]
    word = registers[i // per_register][lane]
    return number(word >> BITS[kind] * (i % per_register) & (2 ** BITS[kind] - 1), kind)


def place_a(lane: int, i: int, bits: int) -> tuple[int, int]:
    """(row, k) of A's element i, as the manual's formulas give them for each width."""
    g, t = divmod(lane, 4)
    if bits == 32:
        return g + 8 * (i % 2), t + 4 * (i // 2)
    if bits == 16:
        return g + 8 * (i // 2 % 2), 2 * t + i % 2 + 8 * (i // 4)
    return g + 8 * (i // 4 % 2), 4 * t + i % 4 + 16 * (i // 8)


def place_b(lane: int, i: int, bits: int) -> tuple[int, int]:
    """(k, column) of B's element i."""
    g, t = divmod(lane, 4)
    if bits == 32:
        return t + 4 * i, g
    if bits == 16:
        return 2 * t + i % 2 + 8 * (i // 2), g
    return 4 * t + i % 4 + 16 * (i // 4), g


@oracle("ptx.mma")
def mma(warp: Warp, a: list[Words], b: list[Words], c: list[Words]) -> list[list[float]]:
    """Four numbers of D for each lane, not yet rounded: rows g and g+8, columns 2t and 2t+1."""
    kinds = warp.mods["types"].split(".")
    k_extent = int(warp.mods["shape"].split("k")[1])
    left = [[0.0] * k_extent for _ in range(16)]
    right = [[0.0] * 8 for _ in range(k_extent)]
    for lane in range(32):
        for i in range(len(a) * 32 // BITS[kinds[1]]):
            row, k = place_a(lane, i, BITS[kinds[1]])
            left[row][k] = held(a, lane, i, kinds[1])
        for i in range(len(b) * 32 // BITS[kinds[2]]):
            k, column = place_b(lane, i, BITS[kinds[2]])
            right[k][column] = held(b, lane, i, kinds[2])
    result = []
    for lane in range(32):
        g, t = divmod(lane, 4)
        sums = []
        for i in range(4):
            row, column = g + 8 * (i // 2), 2 * t + i % 2
            products = [left[row][k] * right[k][column] for k in range(k_extent)]
            sums.append(math.fsum([held(c, lane, i, kinds[3]), *products]))
        result.append(sums)
    return result


# Between lanes.


def segment(lane: int, width: int) -> tuple[int, int]:
    first = lane // width * width
    return first, first + width - 1


@oracle("cuda.shfl_sync")
def shfl(warp: Warp, mask: Words, value: list[Any], lane: Words, width: Words) -> list[Any]:
    return [value[segment(i, width[i])[0] + lane[i] % width[i]] for i in range(32)]


@oracle("cuda.shfl_up_sync")
def shfl_up(warp: Warp, mask: Words, value: list[Any], delta: Words, width: Words) -> list[Any]:
    source = [i - delta[i] % 32 for i in range(32)]
    return [value[s] if s >= segment(i, width[i])[0] else value[i] for i, s in enumerate(source)]


@oracle("cuda.shfl_down_sync")
def shfl_down(warp: Warp, mask: Words, value: list[Any], delta: Words, width: Words) -> list[Any]:
    source = [i + delta[i] % 32 for i in range(32)]
    return [value[s] if s <= segment(i, width[i])[1] else value[i] for i, s in enumerate(source)]


@oracle("cuda.shfl_xor_sync")
def shfl_xor(warp: Warp, mask: Words, value: list[Any], lane_mask: Words, width: Words) -> list[Any]:
    source = [i ^ lane_mask[i] % 32 for i in range(32)]
    return [value[s] if s <= segment(i, width[i])[1] else value[i] for i, s in enumerate(source)]


@oracle("cuda.ballot_sync")
def ballot(warp: Warp, mask: Words, cond: list[bool]) -> Words:
    return [sum(1 << i for i in warp.lanes if mask[i] >> i & 1 and cond[i])] * 32


def _reduced(warp: Warp, values: Words, join: Callable[[int, int], int]) -> Words:
    total: int | None = None
    for lane in warp.lanes:
        total = int(values[lane]) if total is None else join(total, int(values[lane]))
    return [total or 0] * 32


@oracle("cuda.reduce_add_sync")
def reduce_add(warp: Warp, mask: Words, value: Words) -> Words:
    wrapped = _reduced(warp, value, lambda a, b: a + b)[0] & 0xFFFFFFFF
    signed = any(int(each) < 0 for each in value) or wrapped < 1 << 31
    return [wrapped if not signed or wrapped < 1 << 31 else wrapped - (1 << 32)] * 32


@oracle("cuda.reduce_min_sync")
def reduce_min(warp: Warp, mask: Words, value: Words) -> Words:
    return _reduced(warp, value, lambda a, b: a if a < b else b)


@oracle("cuda.reduce_max_sync")
def reduce_max(warp: Warp, mask: Words, value: Words) -> Words:
    return _reduced(warp, value, lambda a, b: a if a > b else b)


@oracle("cuda.reduce_and_sync")
def reduce_and(warp: Warp, mask: Words, value: Words) -> Words:
    return _reduced(warp, value, lambda a, b: a & b)


@oracle("cuda.reduce_or_sync")
def reduce_or(warp: Warp, mask: Words, value: Words) -> Words:
    return _reduced(warp, value, lambda a, b: a | b)


@oracle("cuda.reduce_xor_sync")
def reduce_xor(warp: Warp, mask: Words, value: Words) -> Words:
    return _reduced(warp, value, lambda a, b: a ^ b)


@oracle("cuda.any_sync")
def any_sync(warp: Warp, mask: Words, cond: list[bool]) -> list[bool]:
    return [any(cond[i] for i in warp.lanes)] * 32


@oracle("cuda.all_sync")
def all_sync(warp: Warp, mask: Words, cond: list[bool]) -> list[bool]:
    return [all(cond[i] for i in warp.lanes)] * 32


@oracle("cuda.activemask")
def activemask(warp: Warp) -> Words:
    return [sum(1 << i for i in warp.lanes)] * 32


# Memory.

CODES = {
    **{
        "int32": "i",
        "uint32": "I",
        "int64": "q",
        "uint64": "Q",
        "float32": "f",
        "float64": "d",
        "int8": "b",
        "uint8": "B",
        "int16": "h",
        "uint16": "H",
        "float16": "e",
        "bfloat16": "bf16",
    },
}
COMBINE: dict[str, Callable[..., Any]] = {
    "add": lambda old, value: old + value,
    "sub": lambda old, value: old - value,
    "min": min,
    "max": max,
    "and": lambda old, value: old & value,
    "or": lambda old, value: old | value,
    "xor": lambda old, value: old ^ value,
    "exch": lambda old, value: value,
    "cas": lambda old, compare, value: value if old == compare else old,
    "inc": lambda old, bound: 0 if old >= bound else old + 1,
    "dec": lambda old, bound: bound if old == 0 or old > bound else old - 1,
}
NAMES = {"and": "and_", "or": "or_"}  # what Python can say
ROWS_OF_ATOMICS = (
    *(f"cuda.atomic_{name}" for name in ("add", "sub", "min", "max", "and", "or", "xor", "exch", "cas")),
    *(f"ptx.atom.{NAMES.get(name, name)}" for name in COMBINE if name != "sub"),
    *(f"ptx.red.{NAMES.get(name, name)}" for name in COMBINE if name not in ("sub", "exch", "cas")),
)


def unpacked(data: bytes, code: str) -> Any:
    if code == "bf16":
        return struct.unpack("<f", b"\0\0" + data)[0]
    return struct.unpack("<" + code, data)[0]


def packed(value: Any, code: str) -> bytes:
    """Floats rounded to nearest even, integers wrapped."""
    if code == "bf16":
        return struct.pack("<f", exact(Fraction(value), *PRECISION["bfloat16"]))[2:]
    if code in "efd":
        return struct.pack("<" + code, value)
    size = struct.calcsize("<" + code)
    return (int(value) & (1 << 8 * size) - 1).to_bytes(size, "little")


def size_of(code: str) -> int:
    return 2 if code == "bf16" else struct.calcsize("<" + code)


@oracle("multimem.st")
def st(warp: Warp, address: Words, value: list[Any]) -> None:
    code = CODES[warp.mods["dtype"]]
    for lane in warp.lanes:
        warp.memory[address[lane] : address[lane] + size_of(code)] = packed(value[lane], code)


REGISTERS = {"b128": (2, 8)}  # how many, of how many bytes


@oracle("ptx.ld.b128")
def ld_vector(warp: Warp, address: Words) -> list[Words]:
    count, size = REGISTERS[warp.mods["name"].rpartition(".")[2]]
    return [
        [int.from_bytes(warp.memory[start + size * i : start + size * (i + 1)], "little") for start in address]
        for i in range(count)
    ]


@oracle("ptx.st.b128")
def st_vector(warp: Warp, address: Words, registers: list[Words]) -> None:
    _, size = REGISTERS[warp.mods["name"].rpartition(".")[2]]
    for lane in warp.lanes:
        words = b"".join(register[lane].to_bytes(size, "little") for register in registers)
        warp.memory[address[lane] : address[lane] + len(words)] = words


@oracle(*(f"ptx.{name}.add.{kind}x2" for name in ("atom", "red") for kind in ("f16", "bf16")))
def packed_add(warp: Warp, address: Words, value: Words) -> Words | None:
    code = "bf16" if "bf16" in warp.mods["name"] else "e"
    olds = [0] * 32
    for lane in warp.lanes:
        for half in (0, 2):
            start = address[lane] + half
            old = bytes(warp.memory[start : start + 2])
            added = unpacked(old, code) + unpacked(value[lane].to_bytes(4, "little")[half : half + 2], code)
            warp.memory[start : start + 2] = packed(added, code)
            olds[lane] |= int.from_bytes(old, "little") << 8 * half
    return olds if "atom" in warp.mods["name"] else None


@oracle(*ROWS_OF_ATOMICS)
def atomic(warp: Warp, address: Words, *values: list[Any]) -> list[Any] | None:
    code, size = CODES[warp.mods["dtype"]], size_of(CODES[warp.mods["dtype"]])
    olds: list[Any] = [0] * 32
    for lane in warp.lanes:
        start = address[lane]
        old = unpacked(bytes(warp.memory[start : start + size]), code)
        new = COMBINE[re.split("[._]", warp.mods["name"].rstrip("_"))[-1]](old, *(value[lane] for value in values))
        warp.memory[start : start + size] = packed(new, code)
        olds[lane] = old
    return None if ".red." in warp.mods["name"] else olds


@oracle("multimem.ld_reduce", "multimem.red")
def multimem_of_one_gpu(warp: Warp, address: Words, *values: list[Any]) -> list[Any] | None:
    code, size, olds = CODES[warp.mods["dtype"]], size_of(CODES[warp.mods["dtype"]]), []
    for lane in range(32):
        start = address[lane]
        olds.append(unpacked(bytes(warp.memory[start : start + size]), code))
        if values and lane in warp.lanes:
            new = COMBINE[warp.mods["op"]](olds[-1], values[0][lane])
            warp.memory[start : start + size] = packed(new, code)
    return None if values else olds


@oracle("ptx.atom.exch.b128", "ptx.atom.cas.b128")
def atomic_of_16_bytes(warp: Warp, address: Words, *halves: Words) -> tuple[Words, Words]:
    olds: tuple[Words, Words] = ([0] * 32, [0] * 32)
    for lane in warp.lanes:
        place = slice(address[lane], address[lane] + 16)
        old, given = bytes(warp.memory[place]), b"".join(half[lane].to_bytes(8, "little") for half in halves)
        if len(halves) == 2 or given[:16] == old:
            warp.memory[place] = given[-16:]
        olds[0][lane], olds[1][lane] = struct.unpack("<QQ", old)
    return olds


@oracle("cuda.cvta_generic_to_shared", "ptx.cvta.to.shared.u64", "cuda.cast_smem_ptr_to_uint")
def to_shared(warp: Warp, address: Words) -> Words:
    return [a - WINDOW for a in address]


# Instructions of one lane.


def bits_of(value: int, dtype: str) -> str:
    width = 64 if "64" in dtype else 32
    return format(value % (1 << width), f"0{width}b")


def per_lane(function: Callable[..., Any]) -> Oracle:
    return lambda warp, *operands: [function(*lane) for lane in zip(*operands, strict=True)]


def by_bits(function: Callable[[str], int]) -> Oracle:
    return lambda warp, x: [function(bits_of(value, warp.mods["dtype"])) for value in x]


ORACLES["popcount"] = by_bits(lambda bits: bits.count("1"))
ORACLES["clz"] = by_bits(lambda bits: len(bits) - len(bits.lstrip("0")))
ORACLES["ffs"] = by_bits(lambda bits: len(bits) - bits.rindex("1") if "1" in bits else 0)
ORACLES["brev"] = by_bits(lambda bits: int(bits[::-1], 2))


def philox(seed: int, offset: int) -> list[int]:
    """The four words, by the rounds as the paper draws them."""
    key, counter = [seed % 2**32, seed % 2**64 >> 32], [offset % 2**32, offset % 2**64 >> 32, 0, 0]
    for _ in range(10):
        (high, low), (high_2, low_2) = divmod(0xD2511F53 * counter[0], 2**32), divmod(0xCD9E8D57 * counter[2], 2**32)
        counter = [high_2 ^ counter[1] ^ key[0], low_2, high ^ counter[3] ^ key[1], low]
        key = [(key[0] + 0x9E3779B9) % 2**32, (key[1] + 0xBB67AE85) % 2**32]
    return counter


@oracle("randint", "rand")
def random_of_a_lane(warp: Warp, seed: Words, offset: Words) -> list[Any]:
    words = [philox(*lane)[warp.mods["word"]] for lane in zip(seed, offset, strict=True)]
    return words if warp.mods["name"] == "randint" else [(word >> 8) / 2**24 for word in words]


@oracle("saturated")
def nearest_of_the_codes(warp: Warp, x: list[float]) -> list[float]:
    """The nearest of all finite values, of two the one with an even code; NaN where there is one, else the largest."""
    kind = dtype(warp.mods["to"])
    values = [float(value) for value in np.arange(1 << kind.value_bits, dtype=np.uint8).view(kind.numpy)]
    finite = [(code, value) for code, value in enumerate(values) if math.isfinite(value)]
    largest, nan = max(value for _, value in finite), any(map(math.isnan, values))
    return [
        (math.nan if nan else largest) if math.isnan(one)
        else min(finite, key=lambda each: (abs(each[1] - max(-largest, min(one, largest))), each[0] % 2))[1]
        for one in x
    ]  # fmt: skip


@oracle("hash32")
def hash_of_a_lane(_: Warp, x: Words) -> Words:
    found = []
    for word in (value % 2**32 for value in x):
        for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
            word = (word ^ word >> shift) * factor % 2**32
        found.append(word)
    return found


def or_nan(function: Callable[..., float]) -> Callable[..., float]:
    """Outside its domain a C function gives NaN, or an infinity at a pole, where Python raises."""

    def total(*values: float) -> float:
        try:
            return function(*values)
        except OverflowError:
            return math.inf
        except ValueError:
            return math.nan

    return total


def logarithm(function: Callable[[float], float]) -> Callable[[float], float]:
    return lambda x: -math.inf if x == 0 else function(x)


def round_half_away(x: float) -> float:
    return math.copysign(math.floor(abs(x) + 0.5) if abs(x) < 2**52 else abs(x), x)


def larger(x: float, y: float) -> float:
    return y if math.isnan(x) else x if math.isnan(y) else max(x, y)


def smaller(x: float, y: float) -> float:
    return y if math.isnan(x) else x if math.isnan(y) else min(x, y)


SCALAR: dict[str, Callable[..., float]] = {
    **{name: getattr(math, name) for name in ("exp", "expm1", "sin", "cos", "tan", "asin", "acos", "atan", "atan2")},
    **{name: getattr(math, name) for name in ("sinh", "cosh", "tanh", "hypot", "fmod", "sqrt", "copysign", "fabs")},
    "exp2": lambda x: 2.0**x,
    "exp10": lambda x: 10.0**x,
    "log": logarithm(math.log),
    "log2": logarithm(math.log2),
    "log10": logarithm(math.log10),
    "log1p": lambda x: -math.inf if x == -1 else math.log1p(x),
    "rsqrt": lambda x: math.copysign(math.inf, x) if x == 0 else 1 / math.sqrt(x),
    "pow": math.pow,
    "floor": lambda x: float(math.floor(x)),
    "ceil": lambda x: float(math.ceil(x)),
    "trunc": lambda x: float(math.trunc(x)),
    "rint": lambda x: float(round(x)),
    "nearbyint": lambda x: float(round(x)),
    "round": round_half_away,
    "erf": math.erf,
    "fmin": smaller,
    "fmax": larger,
    "minimum": lambda x, y: math.nan if math.isnan(x) or math.isnan(y) else min(x, y),
    "maximum": lambda x, y: math.nan if math.isnan(x) or math.isnan(y) else max(x, y),
    "abs": abs,
}
ORACLES |= {name: per_lane(or_nan(function)) for name, function in SCALAR.items()}
ORACLES["isnan"] = per_lane(math.isnan)
ORACLES["isinf"] = per_lane(math.isinf)
ORACLES["isfinite"] = per_lane(math.isfinite)


def exact(value: Fraction, precision: int, lowest: int) -> float:
    """A fraction rounded to ``precision`` bits, halves to even; ``lowest`` is the exponent of the smallest normal."""
    if value == 0:
        return 0.0
    exponent = math.floor(math.log2(abs(value)))
    exponent += (abs(value) >= 2 ** Fraction(exponent + 1)) - (abs(value) < 2 ** Fraction(exponent))
    quantum = Fraction(2) ** (max(exponent, lowest) - precision + 1)
    return float(round(value / quantum) * quantum)


PRECISION = {"float64": (53, -1022), "float32": (24, -126), "bfloat16": (8, -126), "float16": (11, -14)}


@oracle("fma")
def fma(warp: Warp, a: list[float], b: list[float], c: list[float]) -> list[float]:
    precision = PRECISION[warp.mods["dtype"]]
    return [exact(Fraction(x) * Fraction(y) + Fraction(z), *precision) for x, y, z in zip(a, b, c, strict=True)]


# Pairs of float32.


def pair(word: int) -> list[np.float32]:
    return list(np.array([word & 0xFFFFFFFF, word >> 32], np.uint32).view(np.float32))


def towards(value: Fraction, mode: str) -> np.float32:
    """The float32 that a rounding takes, found among the neighbours of a nearby one."""
    near = np.float32(float(value))
    around = [np.nextafter(near, np.float32(-np.inf)), near, np.nextafter(near, np.float32(np.inf))]
    below = max(one for one in around if Fraction(float(one)) <= value)
    above = min(one for one in around if Fraction(float(one)) >= value)
    if mode == "rn":
        return min(below, above, key=lambda one: (abs(Fraction(float(one)) - value), int(one.view(np.uint32)) & 1))
    directed: dict[str, np.float32] = {"rm": below, "rp": above, "rz": below if value > 0 else above}
    return directed[mode]


@oracle(*(f"cuda.reduce_{name}_sync" for name in ("add", "min", "max", "and", "or", "xor")))
def redux(warp: Warp, mask: Words, value: list[int]) -> list[int]:
    joins: dict[str, Callable[[int, int], int]] = {
        "add": lambda a, b: a + b,
        "min": min,
        "max": max,
        "and": lambda a, b: a & b,
        "or": lambda a, b: a | b,
        "xor": lambda a, b: a ^ b,
    }
    join = joins[warp.mods["name"].split("_")[1]]
    return [reduce(join, (value[lane] for lane in warp.lanes))] * 32


def directed(value: Fraction, mode: str, precision: int, lowest: int) -> float:
    """A fraction rounded to nearest, to zero, down or up."""
    if value == 0 or mode == "rn":
        return exact(value, precision, lowest)
    exponent = math.floor(math.log2(abs(value)))
    exponent += (abs(value) >= 2 ** Fraction(exponent + 1)) - (abs(value) < 2 ** Fraction(exponent))
    quantum = Fraction(2) ** (max(exponent, lowest) - precision + 1)
    whole: dict[str, Callable[[Fraction], int]] = {"rz": math.trunc, "rm": math.floor, "rp": math.ceil}
    return float(whole[mode](value / quantum) * quantum)


EXACTLY: dict[str, Callable[..., Fraction]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "fma": lambda a, b, c: a * b + c,
}


def in_direction(operation: Callable[..., Fraction], warp: Warp, *lanes: list[float]) -> list[float]:
    rounded = []
    for values in zip(*lanes, strict=True):
        if operation is EXACTLY["div"] and values[1] == 0:
            rounded.append(
                math.nan if values[0] == 0 else math.copysign(math.inf, values[0] * math.copysign(1, values[1]))
            )
        else:
            rounded.append(directed(operation(*map(Fraction, values)), str(warp.mods["rounding"]), 24, -126))
    return rounded


ORACLES |= {f"rounded_{name}": partial(in_direction, operation) for name, operation in EXACTLY.items()}


# Exchange between lanes, as compilers write it.


@oracle("ptx.shfl.sync")
def written_shfl(warp: Warp, a: list[Any], b: Words, c: Words, mask: Words) -> list[Any]:
    found = []
    for lane in range(32):
        end, segment, by = c[lane] & 31, c[lane] >> 8 & 31, b[lane] & 31
        last, first = (lane & segment) | (end & ~segment & 31), lane & segment
        j = {"up": lane - by, "down": lane + by, "bfly": lane ^ by, "idx": first | (by & ~segment & 31)}[
            warp.mods["mode"]
        ]
        inside = j >= last if warp.mods["mode"] == "up" else j <= last
        found.append(inside if warp.mods["out"] == "p" else a[j if inside else lane])
    return found


@oracle("ptx.vote.sync")
def written_vote(warp: Warp, a: list[bool], mask: Words) -> list[int]:
    given = [a[lane] for lane in warp.lanes]
    ballots = sum(1 << lane for lane in warp.lanes if a[lane])
    answers = {"all": all(given), "any": any(given), "uni": len(set(given)) == 1, "ballot": ballots}
    return [answers[warp.mods["mode"]]] * 32


@oracle("ptx.match.sync")
def written_match(warp: Warp, a: Words, mask: Words) -> list[int]:
    if warp.mods["mode"] == "any":
        return [sum(1 << other for other in warp.lanes if a[other] == a[lane]) for lane in range(32)]
    alike = len({a[lane] for lane in warp.lanes}) == 1
    return [alike if warp.mods["out"] == "p" else alike * sum(1 << lane for lane in warp.lanes)] * 32


@oracle("ptx.redux.sync")
def written_redux(warp: Warp, a: list[Any], mask: Words) -> list[Any]:
    given = [abs(a[lane]) if warp.mods["magnitude"] else a[lane] for lane in warp.lanes]
    joins: dict[str, Callable[[list[Any]], Any]] = {
        "add": sum,
        "min": min,
        "max": max,
        "and": partial(reduce, lambda x, y: x & y),
        "or": partial(reduce, lambda x, y: x | y),
        "xor": partial(reduce, lambda x, y: x ^ y),
    }
    return [joins[warp.mods["op"]](given)] * 32


@oracle("ptx.activemask")
def active(warp: Warp) -> Words:
    return [sum(1 << lane for lane in warp.lanes)] * 32


@oracle("ptx.elect.sync")
def elected(warp: Warp, mask: Words) -> list[int]:
    return [lane == warp.lanes[0] if warp.mods["out"] == "p" else warp.lanes[0] for lane in range(32)]
