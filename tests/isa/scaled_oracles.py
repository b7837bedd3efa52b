"""tcgen05.mma with scales of blocks, a sparse A, and kept columns of B, by the manual's tables, an element at a time.

All numbers of the tests have few bits, so that float64 is exact. Shares no code with the table.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tests.isa.numbers import value_of
from tests.isa.umma_oracles import CODES, OURS, PACKED_BITS, RESULT_CODES, SHIFTS, Tile, code_of

COVERED = {f"ptx.tcgen05.{name}" for name in ("mma.block_scale", "mma.sp", "mma.sp.block_scale", "mma.ws", "mma.ws.sp")}
COVERED |= {"ptx.tcgen05.encode_instr_descriptor_block_scaled", "cuda.runtime_instr_desc"}

Array = NDArray[Any]
DENSE_K = {"f16": 16, "tf32": 8, "f8f6f4": 32, "i8": 32, "mxf8f6f4": 32, "mxf4": 64, "mxf4nvf4": 64}
KIND_CODES = {**CODES, "mxf8f6f4": CODES["f8f6f4"], "mxf4": {"e2m1": 1}, "mxf4nvf4": {"e2m1": 1}}
SCALE_TYPES = {"ue8m0": 1, "ue4m3": 0}
SCALES = {"ue8m0": "float8_e8m0fnu", "ue4m3": "float8_e4m3fn"}


class Scaled(NamedTuple):
    """A product. block: elements of the stored A that share a scale, 0 for none. first: the bytes of the first scales
    of A and B. sparse, ws: of the instruction. wide: K is 96.
    """

    kind: str
    a: str
    b: str
    m: int
    n: int
    sf: str = ""
    block: int = 0
    first: tuple[int, int] = (0, 0)
    sparse: bool = False
    selector: int = 0
    ws: bool = False
    wide: bool = False
    negative: bool = False
    ctas: int = 1
    d: str = "f32"

    @property
    def k(self) -> int:
        return 96 if self.wide else DENSE_K[self.kind] * (2 if self.sparse else 1)

    @property
    def bits(self) -> int:
        """What an element takes in shared memory along K."""
        return 256 // DENSE_K[self.kind]

    @property
    def rows(self) -> int:
        return self.m // self.ctas

    @property
    def parts(self) -> int:
        """Parts of N that have lanes of their own."""
        return (
            {(1, 32): 4, (1, 64): 2}.get((self.ctas, self.m), 1)
            if self.ws
            else 2
            if (self.ctas, self.m) == (2, 128)
            else 1
        )

    @property
    def word(self) -> int:
        codes = KIND_CODES[self.kind]
        word = codes[self.a] << 7 | codes[self.b] << 10 | self.negative << 13 | self.n // 8 << 17 | self.sparse << 2
        if self.sf:
            word |= self.first[1] << 4 | SCALE_TYPES[self.sf] << 23 | self.m // 128 << 27
            return word | self.first[0] << 29 | self.wide << 31
        return word | self.selector | RESULT_CODES[self.d] << 4 | self.m // 16 << 24

    def mods(self) -> dict[str, Any]:
        """The modifiers of the row."""
        found = {"a_dtype": OURS[self.a], "b_dtype": OURS[self.b], "d_dtype": OURS[self.d], "cta_group": self.ctas}
        if self.sf:
            types = SCALES[self.sf]
            found |= {"sfa_dtype": types, "sfb_dtype": types, "kind": self.kind, "scale_vec": f"block{self.block}"}
        return found

    # Places

    def lane_of(self, m: int, n: int) -> tuple[int, int, int]:
        """CTA, lane and column of D(m, n)."""
        cta, row, width = m // self.rows, m % self.rows, self.n // self.parts
        return cta, row + 128 // self.parts * (n // width), n % width

    def scale_cells(self, which: str, row: int, number: int) -> list[tuple[int, int, int]]:
        """Every lane, with column and byte, that has the scale of a row of A in its CTA, or of a column of B."""
        rows = self.rows if which == "a" else self.n // self.parts
        part, row = divmod(row, rows)
        byte = self.first[which == "b"] + number
        column = row // 32 + byte // 4 * 4 * -(-rows // 128)
        quarters = range(4) if which == "a" else range(part * 4 // self.parts, (part + 1) * 4 // self.parts)
        return [(row % 32 + 32 * quarter, column, byte % 4) for quarter in quarters]

    def code_cell(self, row: int, chunk: int) -> tuple[int, int, int]:
        """Lane, column and nibble of a chunk's metadata."""
        if self.kind in ("f16", "tf32"):
            lane = 32 * (row // 32) + row % 8 + 16 * ((row % 32) // 16) + 8 * (chunk // 4)
            return lane, self.selector, 4 * ((row % 16) // 8) + chunk % 4
        return row, chunk // 8, chunk % 8

    # Values

    def wanted(self, a: Array, b: Array, before: Array, sa: Array, sb: Array) -> Array:
        """D from the full A and B, (m, k) and (n, k), and the codes of their scales."""
        span = self.block * (2 if self.sparse else 1) or self.k
        found = np.empty(before.shape)
        for m, n in np.ndindex(before.shape):
            total = 0.0
            for first in range(0, self.k, span):
                part = float(np.dot(a[m, first : first + span], b[n, first : first + span]))
                if self.block:
                    part *= value_of(self.sf, int(sa[m, first // span])) * value_of(self.sf, int(sb[n, first // span]))
                total += part
            found[m, n] = before[m, n] + (-total if self.negative else total)
        return found


def chosen_places(rng: np.random.Generator, product: Scaled) -> tuple[Array, Array]:
    """A sparse A's metadata, codes (m, chunks), and whether each element is stored, (m, k)."""
    pairs = [0b0100, 0b1000, 0b1100, 0b1001, 0b1101, 0b1110]
    wide = 2 if product.kind == "tf32" else 8 if product.bits == 4 else 4
    codes = rng.choice([0b0100, 0b1110] if wide == 2 else pairs, (product.m, product.k // wide))
    stored = np.zeros((product.m, product.k), bool)
    for (m, chunk), code in np.ndenumerate(codes):
        for place in (code & 3, code >> 2):
            first = {2: place // 2, 4: place, 8: 2 * place}[wide] + wide * chunk
            stored[m, first : first + (2 if wide == 8 else 1)] = True
    return codes, stored


def put_matrix(shared: Array, tile: Tile, values: Array, kind: str, bits: int) -> None:
    """A K-major matrix, (rows, k). Elements of 4 bits are two to a byte, or 16 in a unit."""
    for row, line in enumerate(values):
        octets = packed(line, kind, bits)
        for unit in range(len(octets) // 16):
            at = tile.unit(row, unit)
            shared[at : at + 16] = np.frombuffer(octets[16 * unit : 16 * unit + 16], np.uint8)


def packed(line: Array, kind: str, bits: int) -> bytes:
    """A row of values as shared memory has it."""
    narrow = PACKED_BITS.get(kind, bits)
    if bits == 4 or narrow == bits:
        word = sum(code_of(value, kind) << bits * place for place, value in enumerate(line))
        return int(word).to_bytes(len(line) * bits // 8, "little")
    units = line.reshape(-1, 16)
    return b"".join(
        sum(code_of(value, kind) << narrow * place for place, value in enumerate(unit)).to_bytes(16, "little")
        for unit in units
    )


def in_lanes(line: Array, kind: str, bits: int) -> bytes:
    """A row of values as tensor memory has it."""
    if bits == 4:
        return packed(line, kind, bits)
    codes = (code_of(value, kind) << SHIFTS.get(kind, 0) for value in line)
    return b"".join(code.to_bytes(bits // 8, "little") for code in codes)
