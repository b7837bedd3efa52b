"""wgmma: a warpgroup issues products of matrices in shared memory to the tensor cores, and goes on meanwhile.

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

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import NamedTuple

import numpy as np

from tilewright.isa.arch import only
from tilewright.isa.descriptors import descriptor_addresses, descriptor_trouble
from tilewright.isa.machine import Addresses, Lanes, Unit, first_of
from tilewright.isa.operations import access_of_unit
from tilewright.isa.products import Accumulator
from tilewright.isa.table import (
    REQUIRED,
    WARPGROUP,
    WHOLE_WARP,
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
    Wait,
    counts,
    instruction,
    reads,
    single,
    updates,
)
from tilewright.isa.wgmma_values import (
    add_product,
    fragment_of_d,
    gathered,
    is_summed_in_float32,
    multiplied,
    rows_of_registers,
    spread_out,
)

__all__ = [
    "WGMMA_TYPES",
    "WgmmaType",
    "addresses",
    "addresses_of_b",
    "along_k",
    "form_of",
    "into_registers",
    "modifiers",
    "product_rows",
    "wgmma_widths",
]

SOURCE = 'PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions: {}"'
ARCH = only("sm_90a")
ROWS = 64
OPERAND_BYTES = 32  # bytes of each row of A and each column of B


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


# Operands


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


# Meaning


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


# Rows

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
