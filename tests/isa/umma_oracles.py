"""tcgen05.mma by the manual's tables and formulas, an element at a time. Shares no code with the table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tests.isa.descriptor_oracles import byte_address
from tests.isa.numbers import value_of

COVERED = {"ptx.tcgen05.mma", "ptx.tcgen05.encode_instr_descriptor"}
CONSTANTS = {
    "M": 128,
    "N": 64,
    **dict.fromkeys(("sfa_id", "sfb_id", "selector", "max_shift"), 0),
    **dict.fromkeys(("trans_a", "trans_b", "neg_a", "neg_b", "sat_d"), False),
}
"""Operands of `encode_instr_descriptor` that fit every kind."""
Array = NDArray[Any]

K = {"f16": 16, "tf32": 8, "f8f6f4": 32, "i8": 32}
CODES = {
    "f16": {"f16": 0, "bf16": 1},
    "tf32": {"tf32": 2},
    "f8f6f4": {"e4m3": 0, "e5m2": 1, "e2m3": 3, "e3m2": 4, "e2m1": 5},
    "i8": {"u8": 0, "s8": 1},
}
OURS = {"f16": "float16", "bf16": "bfloat16", "tf32": "tf32", "f32": "float32", "s32": "int32", "u8": "uint8",
        "s8": "int8", "e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2", "e2m3": "float6_e2m3fn",
        "e3m2": "float6_e3m2fn", "e2m1": "float4_e2m1fn"}  # fmt: skip
RESULTS = {"f16": ("f32", "f16"), "tf32": ("f32",), "f8f6f4": ("f32", "f16"), "i8": ("s32",)}
RESULT_CODES = {"f16": 0, "f32": 1, "s32": 2}
PACKED_BITS = {"e2m1": 4, "e2m3": 6, "e3m2": 6}
SHIFTS = {"e2m1": 2}  # of an element in the byte that it has to itself


class Product(NamedTuple):
    """What an instruction descriptor says, in the manual's words."""

    kind: str
    d: str
    a: str
    b: str
    m: int
    n: int
    trans_a: bool = False
    trans_b: bool = False
    neg_a: bool = False
    neg_b: bool = False
    saturate: bool = False
    ctas: int = 1

    @property
    def k(self) -> int:
        return K[self.kind]

    @property
    def word(self) -> int:
        """Table "Instruction descriptor": the first bit of each field."""
        bits = int(self.saturate) * 2**3 + RESULT_CODES[self.d] * 2**4
        bits += CODES[self.kind][self.a] * 2**7 + CODES[self.kind][self.b] * 2**10
        bits += self.neg_a * 2**13 + self.neg_b * 2**14 + self.trans_a * 2**15 + self.trans_b * 2**16
        return bits + self.n // 8 * 2**17 + self.m // 16 * 2**24

    def wanted(self, a: Array, b: Array, before: Array) -> Array:
        """D, from values; A is (m, k), B is (n, k)."""
        sign = (-1) ** (self.neg_a + self.neg_b)
        total = before + np.array(
            [[sum(int(x) * int(y) for x, y in zip(row, col, strict=True)) * sign for col in b] for row in a]
        )
        return np.asarray(np.clip(total, -(2**31), 2**31 - 1) if self.saturate else total)


def code_of(value: int, kind: str) -> int:
    """The bits of a small integer in a type, without padding."""
    return _codes(kind)[float(value)]


_KNOWN: dict[str, dict[float, int]] = {}


def _codes(kind: str) -> dict[float, int]:
    if kind not in _KNOWN:
        width = PACKED_BITS.get(kind, {"f16": 16, "bf16": 16, "tf32": 32}.get(kind, 8))
        patterns = range(0, 2**32, 2**20) if kind == "tf32" else range(2**width)
        _KNOWN[kind] = {value_of(kind, p): p for p in reversed(patterns)}
    return _KNOWN[kind]


class Tile(NamedTuple):
    """A matrix in shared memory. mode: of its swizzle; atom: 32 where 32 bytes move together."""

    start: int
    leading: int
    stride: int
    mode: int
    major: str
    atom: int = 16

    def unit(self, line: int, unit: int) -> int:
        """The address of 16 bytes of a line: a row of a K-major matrix, or a k of an MN-major one."""
        if self.atom == 16:
            return byte_address(self.start, self.leading, self.stride, self.mode, line, 16 * unit, self.major)
        byte = 16 * unit
        at = self.start + byte % 128 + byte // 128 * self.leading + line % 4 * 128 + line // 4 * self.stride
        return at ^ (at >> 2 & 0x60)

    def put(self, shared: Array, values: Array, kind: str, k: int) -> None:
        """Values, (rows or columns, k)."""
        wide = 32 // k  # bytes that an element takes up along its line
        bits = PACKED_BITS.get(kind, 8 * wide)
        units: dict[int, int] = {}
        for (mn, along), value in np.ndenumerate(values):
            line, place = (mn, along) if self.major == "K" else (along, mn)
            at = self.unit(line, place * wide // 16)
            units[at] = units.get(at, 0) | code_of(value, kind) << bits * (place % (16 // wide))
        for at, word in units.items():
            shared[at : at + 16] = np.frombuffer(word.to_bytes(16, "little"), np.uint8)


def put_in_tmem(words: Array, column: int, lanes: list[int], values: Array, kind: str, k: int) -> None:
    """A in tensor memory: a row in a lane, each element in the bytes that it has to itself."""
    wide = 32 // k
    for row, lane in enumerate(lanes):
        octets = b"".join((code_of(v, kind) << SHIFTS.get(kind, 0)).to_bytes(wide, "little") for v in values[row])
        words[lane, column : column + 8] = np.frombuffer(octets, np.uint32)


def place_of_d(m_total: int, ctas: int, n_total: int, m: int, n: int) -> tuple[int, int, int]:
    """CTA of the pair, lane and column of D(m, n): figures "Data Path Layout"."""
    if (ctas, m_total) == (1, 64):
        return 0, m % 16 + 32 * (m // 16), n
    if ctas == 1:
        return 0, m, n
    if m_total == 256:
        return m // 128, m % 128, n
    return m // 64, m % 64 + (64 if n >= n_total // 2 else 0), n % (n_total // 2)


def lanes_of_a(product: Product, cta: int, origin: int) -> Iterator[tuple[int, list[int]]]:
    """The rows of A that a CTA has, and all lanes of each."""
    for m in range(product.m):
        if (product.ctas, product.m) == (2, 128):
            if m // 64 == cta:
                yield m, [m % 64, m % 64 + 64]
        elif place_of_d(product.m, product.ctas, product.n, m, 0)[0] == cta:
            yield m, [origin + place_of_d(product.m, product.ctas, product.n, m, 0)[1]]
