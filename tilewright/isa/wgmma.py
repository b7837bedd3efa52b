"""wgmma: a warpgroup issues products of matrices in shared memory to the tensor cores, and goes on meanwhile; with a
sparse A, too.

``mma_async`` computes D = A * B + D, or A * B where ``scaleD`` is false: 64 rows, N columns, a K of 32 bytes. B is
found by a matrix descriptor, A by another (``.ss``) or in four registers of each thread (``.rs``); D is in registers.
The operation reads shared memory as the asynchronous units see it, and its registers until `wait_group`: no thread may
touch them before, not even to read. A `fence` must stand between other accesses of these registers and the first
operation.

K-major operands have K contiguous in shared memory; ``transA`` and ``transB`` say that an operand of 16-bit elements is
MN-major. ``scaleA`` and ``scaleB`` of -1 negate.

Source: PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.dtypes import dtype
from tilewright.errors import InstructionError, choices
from tilewright.isa.arch import only
from tilewright.isa.atoms import Atom
from tilewright.isa.descriptors import OPERAND_BYTES, descriptor_addresses, descriptor_trouble
from tilewright.isa.forms import (
    AsyncMeaning,
    Commit,
    Cuda,
    Form,
    Issue,
    Meaning,
    Mods,
    Operand,
    Ptx,
    RegisterFence,
    Spellings,
    Unlisted,
    Wait,
    counts,
    reads,
    updates,
)
from tilewright.isa.machine import Addresses, Lanes, Unit, access_of_unit, first_of
from tilewright.isa.mma import SPARSE_PLACES, WHOLE, Accumulator, Floats, Spots, codes, spread, unlisted_codes, widened
from tilewright.isa.table import REQUIRED, WARPGROUP, WHOLE_WARP, Instruction, instruction, lookup, public, single
from tilewright.layout import TileLayout, wgmma_fragment

__all__ = [
    "WGMMA_TYPES", "WgmmaAtom", "WgmmaType", "addresses", "addresses_of_b", "along_k", "form_of", "into_registers",
    "modifiers", "product_rows", "wgmma_atom", "wgmma_widths",
]  # fmt: skip

# What wgmma computes: a 64 x K by a K x N matrix, added to a 64 x N one that is spread over a warpgroup's registers.
#
# Thread 32w + 4g + t of the warpgroup holds, of D and of A in registers, rows 16w + g and 16w + g + 8. Registers of
# D: for each 8 columns two rows, of each the columns 2t and 2t + 1. Registers of A: the bytes 4t to 4t + 3 of a row's
# first 16 bytes in both rows, then those of the next 16.
#
# Integers are exact. Floats: f16, bf16 and tf32 products are exact, and summed in float32 in any order, for a float16
# result in float64, and rounded once; the hardware's order is its own, so that results differ by up to K * 2**-23 *
# sum(abs(a * b)). float8: see `float8_sum`.
#
# Sources: PTX ISA, "Register Fragments and Shared Memory Matrix Layouts" of wgmma; CuTe's traits, NVIDIA/cutlass,
# include/cute/atom/mma_traits_sm90_gmma.hpp.

Array = NDArray[Any]
Wide = NDArray[np.float64]
FLOAT8_BITS = 13  # fraction bits that a sum of float8 products keeps, below the largest exponent in it
RESULTS: Mapping[str, np.dtype[Any]] = {
    "float32": np.dtype(np.float32),
    "float16": np.dtype(np.float16),
    "int32": np.dtype(np.int32),
}
BOUNDS = np.iinfo(np.int32)
ISSUERS_AT_ONCE = 16  # the widened matrices of so many fit into the cache
AT_ONCE = 1 << 22  # products of a sum of float8 that are looked at together


# Fragments: where the elements of D and of A are in registers.


def gathered(registers: Array, result: str) -> Array:
    """D as (n, 64, N), from its registers, (n, registers, 128) of 32 bits."""
    kind, n = RESULTS[result], len(registers)
    if kind.itemsize == 2:  # two columns of a row share a register
        parts = np.ascontiguousarray(registers).view(kind).reshape(n, -1, 2, 4, 8, 4, 2)  # 8 columns, h, w, g, t, c
        return np.asarray(parts.transpose(0, 3, 2, 4, 1, 5, 6).reshape(n, 64, -1))
    parts = np.ascontiguousarray(registers).view(kind).reshape(n, -1, 2, 2, 4, 8, 4)  # 8 columns, h, c, w, g, t
    return np.asarray(parts.transpose(0, 4, 2, 5, 1, 6, 3).reshape(n, 64, -1))


def spread_out(matrix: Array) -> Array:
    """The inverse of `gathered`: (n, 64, N) as (n, registers, 128) of 32 bits."""
    n, parts = len(matrix), matrix.reshape(len(matrix), 4, 2, 8, -1, 4, 2)  # w, h, g, 8 columns, t, c
    order = (0, 4, 2, 6, 1, 3, 5) if matrix.dtype.itemsize == 4 else (0, 4, 2, 1, 3, 5, 6)
    words: Array = np.ascontiguousarray(parts.transpose(order)).view(np.uint32)
    return words.reshape(n, -1, 128)


def rows_of_registers(registers: Array) -> Array:
    """A from its four registers, (n, 4, 128) of 32 bits: (n, 64, 32) bytes along K."""
    parts = registers.astype(np.uint32).reshape(len(registers), 2, 2, 4, 8, 4)  # 16 bytes, h, w, g, t
    words = np.ascontiguousarray(parts.transpose(0, 3, 2, 4, 1, 5))
    return words.view(np.uint8).reshape(len(registers), 64, 32)


@cache
def fragment_of_d(n: int) -> Spots:
    """Of D in 32-bit elements what a warp has, (16, n): for each element its register, times 32, and its lane."""
    row, column = np.arange(16)[:, None], np.arange(n)
    register = column // 8 * 4 + row // 8 * 2 + column % 2
    return np.asarray(register * 32 + row % 8 * 4 + column % 8 // 2)


# Products of numbers, and their sums.


def is_summed_in_float32(mods: Mapping[str, object]) -> bool:
    """Are products with these modifiers exact in float32, and the sums float32?"""
    return mods["out_dtype"] == "float32" and str(mods["in_dtype"]) in ("float16", "bfloat16", "tf32")


def add_product(total: Floats, a: Array, b: Array, kind: str, *, sign: int = 1) -> None:
    """Adds to D, (n, 64, N), the products of A, (n, 64, bytes), and B, (n, N, bytes); or of fewer A or B, of which
    each is for as many D that follow each other.
    """
    if len(a) < len(total):
        a = a.repeat(len(total) // len(a), axis=0)
    share = len(total) // len(b)
    step = max(1, ISSUERS_AT_ONCE // share)
    for first in range(0, len(b), step):
        right = _floats(b[first : first + step], kind)
        here = slice(first * share, (first + len(right)) * share)
        left = _floats(a[here], kind).reshape(len(right), 64 * share, -1)
        product = (left @ right.swapaxes(-1, -2)).reshape(-1, 64, total.shape[-1])
        (np.subtract if sign < 0 else np.add)(total[here], product, out=total[here])


def multiplied(
    a: Array, b: Array, before: Array, kinds: tuple[str, str], *, sign: int = 1, saturate: bool = False
) -> Array:
    """D from the bytes of A, (n, 64, bytes), and B, (n, N, bytes), and what D was, (n, 64, N).

    kinds: dtypes of the elements, "b1" for bits. sign: of the product.
    """
    if before.dtype == np.float32 and kinds[0].startswith("float8"):
        narrow = [_floats(part, kind) for part, kind in zip((a, b), kinds, strict=True)]
        return float8_sum(narrow[0] * np.float32(sign), narrow[1], before)
    left, right = (_numbers(part, kind) for part, kind in zip((a, b), kinds, strict=True))
    return rounded_sum(left * sign if sign < 0 else left, right, before, saturate=saturate)


def rounded_sum(left: Wide, right: Wide, before: Array, *, saturate: bool = False) -> Array:
    """The product of (..., rows, K) and (..., columns, K), and D as it was: exact, then rounded, wrapped or clamped."""
    total = left @ right.swapaxes(-1, -2)
    total += before
    if before.dtype != np.int32:
        return np.asarray(total.astype(before.dtype))
    return np.asarray((total.clip(BOUNDS.min, BOUNDS.max) if saturate else total).astype(np.int64).astype(np.int32))


def _numbers(octets: Array, kind: str) -> Wide:
    return _AS[kind](octets) if kind in _AS else _floats(octets, kind).astype(np.float64)


def _floats(octets: Array, kind: str) -> Floats:
    return widened(np.ascontiguousarray(octets).view(f"u{dtype(kind).bits // 8}"), kind)


_AS: Mapping[str, Callable[[Array], Wide]] = {
    "int8": lambda octets: octets.view(np.int8).astype(np.float64),
    "uint8": lambda octets: octets.astype(np.float64),
    "b1": lambda octets: np.unpackbits(octets, axis=-1).astype(np.float64),
}


def float8_sum(a: Floats, b: Floats, before: Floats, bits: int = FLOAT8_BITS) -> Floats:
    """The sum of float8 products and an accumulator, (n, 64, N), in float32, as Hopper computes it.

    All are cut, towards zero, to ``bits`` below the largest exponent among them, where that of a product is the sum of
    its factors' exponents; then added exactly, and the sum is cut to ``bits`` of fraction. Unconfirmed on hardware.

    a: (n, 64, K); b: (n, N, K). Source: "DeepSeek-V3 Technical Report", 3.3.2; DeepGEMM's issues 50 and 176.
    """
    sums = np.empty(before.shape, np.float32)
    step = max(1, AT_ONCE // max(1, b[0].size))
    for issuer in range(len(a)):
        for row in range(0, a.shape[1], step):
            part = np.s_[issuer, row : row + step]
            sums[part] = _cut_sum(a[part], b[issuer], before[part], bits)
    return sums


def _cut_sum(a: Floats, b: Floats, before: Floats, bits: int) -> Floats:
    products = a[:, None, :].astype(np.float64) * b.astype(np.float64)
    exponents = (np.frexp(a)[1][:, None, :] + np.frexp(b)[1]) - 2
    terms = np.concatenate((products, before[..., None].astype(np.float64)), axis=-1)
    scale = np.concatenate((exponents, np.frexp(before)[1][..., None] - 1), axis=-1)
    if not np.isfinite(terms).all():
        return np.asarray(terms.sum(-1), np.float32)
    top = np.where(terms != 0, scale, -(1 << 20)).max(-1)
    shift = bits - np.where(top < -(1 << 19), 0, top)
    total = np.ldexp(np.trunc(np.ldexp(terms, shift[..., None])).sum(-1), -shift)
    whole = np.frexp(total)[1] - 1
    cut: Floats = np.ldexp(np.trunc(np.ldexp(total, bits - whole)), whole - bits).astype(np.float32)
    return cut


SOURCE = 'PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions: {}"'
ARCH = only("sm_90a")
ROWS = 64


class WgmmaType(NamedTuple):
    """An element of A. k: how many of them an instruction takes. results: of D, and partners: of B, as PTX has them.

    majors: may operands be MN-major? signs: may they be negated? tail: what stands behind the types.
    """

    name: str
    k: int
    results: Mapping[str, str]
    partners: Mapping[str, str]
    majors: bool = False
    signs: bool = True
    tail: str = ""


_F32, _HALVES = {"float32": "f32"}, {"float32": "f32", "float16": "f16"}
_FLOAT8 = {"float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2"}
_BYTES = {"int8": "s8", "uint8": "u8"}
WGMMA_TYPES: Mapping[str, WgmmaType] = {
    "float16": WgmmaType("f16", 16, _HALVES, {"float16": "f16"}, majors=True),
    "bfloat16": WgmmaType("bf16", 16, _F32, {"bfloat16": "bf16"}, majors=True),
    "tf32": WgmmaType("tf32", 8, _F32, {"tf32": "tf32"}),
    **{kind: WgmmaType(name, 32, _HALVES, _FLOAT8) for kind, name in _FLOAT8.items()},
    **{kind: WgmmaType(name, 32, {"int32": "s32"}, _BYTES, signs=False) for kind, name in _BYTES.items()},
    "b1": WgmmaType("b1", 256, {"int32": "s32"}, {"b1": "b1"}, signs=False, tail=".and.popc"),
}


def wgmma_widths(element: str) -> tuple[int, ...]:
    """Every N that the instruction has for elements of A: multiples of 8 up to 256, of 16 from 32 on for integers."""
    if WGMMA_TYPES[element].signs:
        return tuple(range(8, 257, 8))
    return (8, 16, 24, *range(32, 257, 16))


def _kinds(mods: Mapping[str, object]) -> tuple[str, str]:
    """The elements of A and of B."""
    return str(mods["in_dtype"]), str(mods["b_dtype"] or mods["in_dtype"])


# Operands in shared memory, as matrix descriptors name them.


def addresses(unit: Unit, dA: Lanes, dB: Lanes, *others: Lanes, **mods: int) -> Mapping[str, Addresses]:
    """The 16-byte units of A, 64 rows, and of B, N columns."""
    return {"dA": matrix(unit, "dA", dA, ROWS, trans=bool(mods["transA"])), **addresses_of_b(unit, dB, **mods)}


def addresses_of_b(
    unit: Unit, dB: Lanes, *others: Lanes, row_bytes: int = OPERAND_BYTES, **mods: int
) -> Mapping[str, Addresses]:
    """The 16-byte units of B alone, where A is in registers."""
    return {"dB": matrix(unit, "dB", dB, mods["N"], trans=bool(mods["transB"]), row_bytes=row_bytes)}


def matrix(unit: Unit, name: str, desc: Lanes, count: int, *, trans: bool, row_bytes: int = OPERAND_BYTES) -> Addresses:
    """Where a descriptor leads: ``count`` rows along K, or where they run along M or N, rows as long as that."""
    differs = (desc != desc[:, :1]).any(1)
    if differs.any():
        unit.fault(f"{name} is the same in all threads of the warpgroup", differs)
    bits = first_of(desc[:, 0].astype(np.uint64))
    shape = (row_bytes // 2, 2 * count, "MN") if trans else (count, row_bytes, "K")
    for word in np.unique(bits):
        if trouble := descriptor_trouble(int(word), *shape, "sm_90"):
            unit.fault(f"{name}: {trouble}", desc[:, 0].astype(np.uint64) == word)
    return Addresses(descriptor_addresses(bits, *shape, "sm_90"))


def along_k(units: Lanes, *, trans: bool) -> Lanes:
    """The 16-byte units of a matrix as rows along K, (n, rows, bytes)."""
    rows = units.reshape(*units.shape[:2], -1)
    if not trans:
        return rows
    return np.ascontiguousarray(rows.view(np.uint16).swapaxes(-1, -2)).view(np.uint8)


# What the forms mean.


def product(a: Lanes, b: Lanes, scaled: Lanes, acc: Lanes, *, transA: bool = False, **mods: object) -> Lanes:
    """D's registers after the operation, (n, registers, 128), from the bytes of A and B and the registers before."""
    return into_registers(along_k(a, trans=transA), b, scaled, acc, mods)


def product_of_registers(b: Lanes, *registers: Lanes, **mods: object) -> Lanes:
    """The same with A in four registers, then the condition, then D's."""
    *a, scaled, acc = registers
    return into_registers(rows_of_registers(np.stack(a, axis=1)), b, scaled, acc, mods)


def into_registers(a: Lanes, b: Lanes, scaled: Lanes, acc: Lanes, mods: Mapping[str, object]) -> Lanes:
    """D's registers, from the rows of A as bytes and the units of B."""
    before = gathered(acc, str(mods["out_dtype"]))
    if is_summed_in_float32(mods):
        _add(before, a, b, scaled, mods)
        return spread_out(before)
    if not scaled.all():
        before = np.where(scaled[:, :1, None], before, before.dtype.type(0))
    b = along_k(b, trans=bool(mods.get("transB")))
    return spread_out(multiplied(a, b, before, _kinds(mods), sign=_sign(mods), saturate=bool(mods["saturate"])))


def _sign(mods: Mapping[str, object]) -> int:
    return int(str(mods.get("scaleA", 1))) * int(str(mods.get("scaleB", 1)))


def _add(total: Lanes, a: Lanes, b: Lanes, scaled: Lanes, mods: Mapping[str, object]) -> None:
    if not scaled.all():
        total[scaled[:, 0] == 0] = 0
    add_product(total, a, along_k(b, trans=bool(mods.get("transB"))), str(mods["in_dtype"]), sign=_sign(mods))


def add(total: Lanes, a: Lanes, b: Lanes, scaled: Lanes, *, transA: bool = False, **mods: object) -> None:
    """`product`, added to D as a matrix."""
    _add(total, along_k(a, trans=transA), b, scaled, mods)


def add_of_registers(total: Lanes, b: Lanes, *registers: Lanes, **mods: object) -> None:
    """`product_of_registers`, added to D as a matrix."""
    *a, scaled = registers
    _add(total, rows_of_registers(np.stack(a, axis=1)), b, scaled, mods)


@cache
def _adding(n: int, add: Callable[..., None]) -> Accumulator:
    return Accumulator(fragment_of_d(n), np.dtype(np.float32), add)


def _accumulator(add: Callable[..., None], mods: Mods) -> Accumulator | None:
    return _adding(int(str(mods["N"])), add) if is_summed_in_float32(mods) else None


def joined(pieces: Sequence[Sequence[Lanes]], **mods: object) -> list[Lanes] | None:
    """The matrices of products that follow each other, side by side along K; None where each of them rounds."""
    if mods["out_dtype"] == "float16" or mods["saturate"] or "float8" in str(mods["in_dtype"]):
        return None
    along = [1 if mods[name] else 2 for name in ("transA", "transB")]
    return [np.concatenate(parts, axis) for parts, axis in zip(zip(*pieces, strict=True), along, strict=True)]


def registers_of_d(mods: Mods) -> int:
    """The registers of each thread: 64 x N elements over 128 threads."""
    n = int(mods["N"])  # type: ignore[arg-type]  # a number, see wgmma_widths
    return n // 4 if mods["out_dtype"] == "float16" else n // 2


# The rows of the table.

OTHERS = ("N", "in_dtype", "b_dtype", "out_dtype", "saturate", "transB", "scaleA", "scaleB")
SIGNS: Spellings = {1: "1", -1: "-1"}
MAJORS: Spellings = {False: "0", True: "1"}
SATURATE: Spellings = {False: "", True: ".satfinite"}
CALL = "{mnemonic} {acc}"
A_REGISTERS = ("a0", "a1", "a2", "a3")
NAMES = ("ptx.wgmma.mma_async.ss", "ptx.wgmma.mma_async.rs")


def modifiers(element: str, row: WgmmaType, *, shared_a: bool) -> dict[str, Spellings]:
    """The modifiers of an element of A."""
    same = row.partners[element]
    others = {kind: f".{name}" for kind, name in row.partners.items() if kind != element}
    return {
        "M": {ROWS: "m64"},
        "N": {n: f"n{n}" for n in wgmma_widths(element)},
        "K": {row.k: f"k{row.k}"},
        "out_dtype": {kind: f".{name}" for kind, name in row.results.items()},
        "in_dtype": {element: f".{row.name}"},
        "b_dtype": {None: f".{same}", **others},
        "saturate": SATURATE if same in _BYTES.values() else {False: ""},
        **({"transA": MAJORS if row.majors else {False: "0"}} if shared_a else {}),
        "transB": MAJORS if row.majors else {False: "0"},
        "scaleA": SIGNS if row.signs else {1: "1"},
        "scaleB": SIGNS if row.signs else {1: "1"},
    }


def form_of(
    name: str, table: dict[str, Spellings], row: WgmmaType, listed: str, meaning: AsyncMeaning, after: tuple[str, ...],
    held: tuple[str, ...],
) -> Form:  # fmt: skip
    """A form of an instruction, with its modifiers in ``table``. listed: its operands between D and the condition.
    after: the rows whose operations it follows in order. held: registers that it reads on the way.
    """
    shared_a = "transA" in table
    immediates = ", {scaleA}, {scaleB}" if row.signs else ""
    immediates += (", {transA}" if shared_a else "") + ", {transB}" if row.majors else ""
    read = [access_of_unit(name, "shared", write=False) for name in ("dA", "dB")]
    return Form(
        Ptx(
            f"{name}.sync.aligned.{{M}}{{N}}{{K}}{{out_dtype}}{{in_dtype}}{{b_dtype}}{row.tail}{{saturate}}",
            table,
            pattern=f"{{{{ .reg .pred p; setp.ne.b32 p, {{scaleD}}, 0; {CALL}, {listed}, p{immediates}; }}}}",
        ),
        ARCH,
        SOURCE.format(name),
        meaning,
        effects=(
            *(read if shared_a else read[1:]),
            Issue("wgmma", in_order_after=after, holds=held, alike=("N", "K"), accumulates="scaleD", fenced=True),
        ),
        registers=registers_of_d,
    )


def _forms(operands: str, flags: tuple[str, ...]) -> Iterator[Form]:
    shared_a = not flags
    meaning = AsyncMeaning(
        product if shared_a else product_of_registers,
        addresses=addresses if shared_a else addresses_of_b,
        takes=(*flags, "scaleD"),
        passes=("transA", *OTHERS) if shared_a else OTHERS,
        accumulator=partial(_accumulator, add if shared_a else add_of_registers),
        joined=joined if shared_a else None,
    )
    for element, row in WGMMA_TYPES.items():
        table = modifiers(element, row, shared_a=shared_a)
        yield form_of("wgmma.mma_async", table, row, operands, meaning, NAMES, flags)


KEYWORDS = {
    **{"M": ROWS, "N": REQUIRED, "K": REQUIRED, "in_dtype": REQUIRED, "out_dtype": "float32", "b_dtype": None},
    **{"transA": False, "transB": False, "scaleA": 1, "scaleB": 1, "scaleD": True, "saturate": False},
}
FormsOf = Callable[[str, tuple[str, ...]], Iterator[Form]]


def product_rows(
    names: tuple[str, str], docs: tuple[str, str], forms: FormsOf, *more: Operand, **keywords: object
) -> None:
    """A row with A in shared memory, and one with A in registers.

    forms: made of the operands A and B as text, and of the registers of A. more: operands between B and D.
    """
    in_registers = tuple(reads(name, "b32") for name in A_REGISTERS)
    for name, doc, left, listed, flags in (
        (names[0], docs[0], (counts("dA", "b64"), counts("dB", "b64")), "{dA}, {dB}", ()),
        (names[1], docs[1], (counts("dB", "b64"), *in_registers), "{{{a0}, {a1}, {a2}, {a3}}}, {dB}", A_REGISTERS),
    ):
        instruction(
            name,
            keywords={key: value for key, value in {**KEYWORDS, **keywords}.items() if key != "transA" or not flags},
            operands=(*left, *more, reads("scaleD", "pred"), updates("*acc", "b32")),
            lanes=WARPGROUP,
            doc=doc,
            forms=tuple(forms(listed, flags)),
        )


product_rows(
    NAMES,
    (
        "A warpgroup has D += A * B computed, A and B in shared memory; `wait_group` tells when D is there.",
        "A warpgroup has D += A * B computed, A in registers, B in shared memory; `wait_group` tells when D is there.",
    ),
    _forms,
)
single(
    "ptx.wgmma.fence",
    Ptx("wgmma.fence.sync.aligned"),
    ARCH,
    SOURCE.format("wgmma.fence"),
    lanes=WHOLE_WARP,
    doc="Orders what the warp did to the registers of A and D before the products that it issues next.",
    effects=(RegisterFence("wgmma"),),
)
single(
    "ptx.wgmma.commit_group",
    Ptx("wgmma.commit_group.sync.aligned"),
    ARCH,
    SOURCE.format("wgmma.commit_group"),
    lanes=WHOLE_WARP,
    doc="Closes a group of the products that the warpgroup has issued.",
    effects=(Commit("wgmma"),),
)
single(
    "ptx.wgmma.wait_group",
    Ptx("wgmma.wait_group.sync.aligned"),
    ARCH,
    SOURCE.format("wgmma.wait_group"),
    operands=(reads("n", "imm"),),
    lanes=WHOLE_WARP,
    doc="Waits until at most the newest ``n`` groups of products are under way.",
    effects=(Wait("wgmma", "n"),),
)
single(
    "ptx.wgmma.noop_barrier",
    Cuda("((void){reg})"),
    ARCH,
    SOURCE.format("wgmma.wait_group"),
    Meaning(lambda reg: None, moves=True),
    operands=(reads("reg", "b32"),),
    doc="Nothing: a wait keeps uses of accumulators behind it by itself. For kernels that were written elsewhere.",
)

# wgmma under CuTe's names: ``SM90_64x128x16_F32BF16BF16_SS``, or ``_RS`` with A in registers.
#
# Source: NVIDIA/cutlass, include/cute/arch/mma_sm90_gmma.hpp.

SHORT = {"float32": "F32", "float16": "F16", "int32": "S32"}


@public.kind_of("what isa.wgmma_atom gives")
@dataclass(frozen=True, slots=True)
class WgmmaAtom(Atom):
    """One form of ``wgmma.mma_async`` under CuTe's name. in_registers: is A in registers?"""

    name: str
    n: int
    a: str
    b: str
    d: str
    in_registers: bool

    @property
    def mods(self) -> Mods:
        """The modifiers of ``T.ptx.wgmma.mma_async``."""
        row = WGMMA_TYPES[self.a]
        mods: dict[str, object] = {"M": 64, "N": self.n, "K": row.k, "in_dtype": self.a, "out_dtype": self.d}
        mods |= {"b_dtype": None if self.a == self.b else self.b, "saturate": False, "scaleA": 1, "scaleB": 1}
        return {**mods, "transB": False, **({} if self.in_registers else {"transA": False})}  # type: ignore[dict-item]  # plain values

    @property
    def instruction(self) -> Instruction:
        """``wgmma.mma_async`` with A in registers or in shared memory."""
        return lookup(NAMES[self.in_registers])

    @property
    def shapes(self) -> dict[str, tuple[str, tuple[int, int]]]:
        """What is in registers, with the names and the extents of its dimensions."""
        k = WGMMA_TYPES[self.a].k
        return {**({"A": ("M / K", (64, k))} if self.in_registers else {}), "D": ("M / N", (64, self.n))}

    def element(self, operand: str) -> str:
        """The dtype of operand "A", "B" or "D"."""
        return {"A": self.a, "B": self.b, "D": self.d}[operand]

    def fragment(self, operand: str) -> TileLayout:
        """Which thread of the warpgroup holds which element of A or D; see `wgmma_fragment`."""
        return wgmma_fragment(*self.shapes[operand][1], operand, self.element(operand))


def _atoms() -> Iterator[WgmmaAtom]:
    for a, row in WGMMA_TYPES.items():
        for d, b, n, registers in (
            (d, b, n, registers)
            for d in row.results
            for b in row.partners
            for n in wgmma_widths(a)
            for registers in (0, 1)
        ):
            if a == "b1":
                continue  # CuTe has no name for it
            types = SHORT[d] + row.name.upper() + row.partners[b].upper()
            suffix = "" if row.majors else "_TN"
            name = f"SM90_64x{n}x{row.k}_{types}_{'RS' if registers else 'SS'}{suffix}"
            yield WgmmaAtom(name, n, a, b, d, bool(registers))


@public
def wgmma_atom(name: str) -> WgmmaAtom:
    """The wgmma that CuTe calls ``name``.

    >>> wgmma_atom("SM90_64x128x16_F32BF16BF16_SS").mnemonic
    'wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16'

    Raises InstructionError with the nearest name.
    """
    atoms = {atom.name: atom for atom in _atoms()}
    if re.sub("_TN$", "", name) not in atoms and name not in atoms:
        raise InstructionError(f"no wgmma atom is called {name}", given=name, allowed=choices(name, atoms))
    return atoms.get(name) or atoms[re.sub("_TN$", "", name)]


# wgmma.sp: a warpgroup multiplies a matrix of which every other element is zero, and stored nowhere, by a matrix.
#
# A is held as wgmma holds a matrix of half its K; metadata say where its elements belong, in each warp of its own 16
# rows as in ``mma.sp``: `tilewright.isa.mma` has whose bits are which row's; an H200 reads them so here, too.
# B has the whole K, 64 bytes of each column.
#
# Source: PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions: wgmma.mma_async.sp".

SPARSE_NAMES = ("ptx.wgmma.mma_async.sp.ss", "ptx.wgmma.mma_async.sp.rs")


def codes_of(metadata: Lanes, selector: int, kind: str) -> Lanes:
    """The codes of each thread's metadata, (n, 4 warps, 16 rows, chunks)."""
    wide = dtype(kind).bits > 8
    return codes(metadata.astype(np.uint32).reshape(len(metadata), 4, 32), 32 if wide else 64, wide, selector)


def expanded(stored: Lanes, metadata: Lanes, selector: int, kind: str) -> Lanes:
    """The bytes of the full A, (n, 64, 64), from those that are stored, (n, 64, 32), and each thread's metadata."""
    width = dtype(kind).bits // 8
    elements = np.ascontiguousarray(stored).view(f"u{width}").reshape(len(stored), 4, 16, -1)
    full = spread(elements, codes_of(metadata, selector, kind), 0.5 if width == 4 else 1)
    return np.ascontiguousarray(full).reshape(len(stored), ROWS, -1).view(np.uint8)


def unlisted(a: Lanes, b: Lanes, e: Lanes, *_: Lanes, selector: int, in_dtype: str, **__: object) -> Unlisted | None:
    """Codes of metadata that name one place twice, or half of an element."""
    codes = codes_of(e, selector, in_dtype)
    return unlisted_codes(codes.reshape(len(codes), ROWS, -1), WHOLE if dtype(in_dtype).bits == 32 else SPARSE_PLACES)


def sparse_product(
    a: Lanes, b: Lanes, e: Lanes, scaled: Lanes, acc: Lanes, *, selector: int, transA: bool = False, **mods: object
) -> Lanes:
    """D's registers after the operation, from the bytes of A and B, the metadata, and the registers before."""
    rows = along_k(a, trans=transA)
    return into_registers(expanded(rows, e, selector, str(mods["in_dtype"])), b, scaled, acc, mods)


def sparse_product_of_registers(b: Lanes, *registers: Lanes, selector: int, **mods: object) -> Lanes:
    """The same with A in four registers, then the metadata, the condition, and D's."""
    *a, e, scaled, acc = registers
    rows = rows_of_registers(np.stack(a, axis=1))
    return into_registers(expanded(rows, e, selector, str(mods["in_dtype"])), b, scaled, acc, mods)


def unlisted_of_registers(b: Lanes, *registers: Lanes, **mods: Any) -> Unlisted | None:
    """The same with A in four registers."""
    return unlisted(b, b, registers[4], **mods)


def _sparse_forms(operands: str, flags: tuple[str, ...]) -> Iterator[Form]:
    shared_a = not flags
    meaning = AsyncMeaning(
        sparse_product if shared_a else sparse_product_of_registers,
        addresses=partial(addresses if shared_a else addresses_of_b, row_bytes=2 * OPERAND_BYTES),
        unlisted=unlisted if shared_a else unlisted_of_registers,
        takes=(*flags, "e", "scaleD"),
        passes=(*(("transA",) if shared_a else ()), *OTHERS, "selector"),
    )
    for element, row in WGMMA_TYPES.items():
        if element == "b1":
            continue
        selectors: Spellings = {0: "0", 1: "1"} if dtype(element).bits > 8 else {0: "0"}
        table = modifiers(element, row, shared_a=shared_a) | {"K": {2 * row.k: f"k{2 * row.k}"}, "selector": selectors}
        listed = f"{operands}, {{e}}, {{selector}}"
        yield form_of("wgmma.mma_async.sp", table, row, listed, meaning, SPARSE_NAMES, (*flags, "e"))


product_rows(
    SPARSE_NAMES,
    (
        "A warpgroup has D += A * B computed; A, in shared memory, has two elements of every four, ``e`` says which.",
        "A warpgroup has D += A * B computed; A, in registers, has two elements of every four, ``e`` says which.",
    ),
    _sparse_forms,
    reads("e", "b32"),
    selector=0,
)
