"""tcgen05.mma: one thread has the tensor cores multiply matrices into tensor memory.

D = A * B + D, or A * B where ``enable_input_d`` is false; ``scale_input_d`` of s makes D * 2**-s of what is added. B is
found by a matrix descriptor, A by another or in tensor memory, 32 bytes of each row along K. Types, shape, majorness
and signs are in an instruction descriptor, a register. With ``cta_group=2`` both CTAs of a pair have half of A's rows
and half of B's columns in their shared memory, and half of D's rows:

    CTAs   M     lane of row m of the CTA             column of n
    1      64    m%16 + 32 (m/16), from d's lane on   n
    1      128   m                                    n
    2      128   m, of 64, + 64 where n >= N/2        n % (N/2)
    2      256   m, of 128                            n
    .ws    64    m + 64 where n >= N/2                n % (N/2)
    .ws    32    m + 32 (n/(N/4))                     n % (N/4)

A in tensor memory is in the same lanes, 8 columns; where parts of N have lanes of their own, its rows are there for
each. Values of 16 bits in D have a cell each. Operands of 4 and 6 bits have 16 bytes for 16 elements in shared memory,
packed at the low end, and a byte each in tensor memory: 4 bits in its bits 2 to 5, 6 in its low ones. The kinds mxf4
and mxf4nvf4 have two elements in a byte in both.

``.block_scale``: D = (A * SA) (B * SB) + D, a scale for each block of 16 or 32 elements along K, in tensor memory.
``.sp``: A has half of its elements, and metadata in tensor memory say which. ``.ws``: the tensor cores may keep B's
columns for later products; what is computed is the same. Where all of these are: `tilewright.isa.tcgen05_mma_values`.
``ashift`` takes the next row of A in the place of each, within 32 of them, the last of which stays.
``zero_column_mask`` has columns of a kept B count as zeros.
``collector`` says that A, or columns of B, come from a buffer of the tensor cores, which an earlier product has filled:
a use of one that it has not is an error of the simulator.

The operation reads shared memory as the asynchronous units see it, and is complete when a commit after it has arrived.

Sources: PTX ISA, "TensorCore 5th Generation: tcgen05.mma, Matrix Shape, Data Path Layout, Packing formats, Block
scaling, Sparse matrices"; lanes as in CuTe's traits, NVIDIA/cutlass, include/cute/atom/mma_traits_sm100_frag.hpp.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product as combined
from typing import NamedTuple

from tilewright.isa.arch import Requirement, only
from tilewright.isa.instruction_descriptors import PRODUCT_KINDS
from tilewright.isa.table import (
    GIVEN,
    KEEPING,
    LEFT_OUT,
    REQUIRED,
    Access,
    AsyncMeaning,
    Form,
    Issue,
    Keeps,
    Mods,
    Operand,
    Ptx,
    Spellings,
    counts,
    instruction,
    reads,
)
from tilewright.isa.tcgen05 import CTA_GROUP, SOURCE, TMEM_ARCHS
from tilewright.isa.tcgen05_mma_values import ZERO_MASK, ProductForm, addresses, product, unlisted
from tilewright.isa.units import access_of_unit

__all__ = ["MMA_KIND_OF", "collector_words"]

MMA_KIND_OF = {element: kind for kind, row in PRODUCT_KINDS.items() if not row.scales for element in row.elements}
"""The kind of product without scales by an element of A or B."""

BOTH = (False, True)
FAMILIES = ("mma", "mma.block_scale", "mma.sp", "mma.sp.block_scale", "mma.ws", "mma.ws.sp")
UNSHIFTED = ("a::fill", "a::use")  # words of a collector that A has not while its rows shift
EARLIER = (*(f"ptx.tcgen05.{name}" for name in FAMILIES), "ptx.tcgen05.cp", "ptx.tcgen05.shift")
I8_ARCHS = only("sm_100a", "sm_110a")
EXACT_ARCHS = only("sm_100a", "sm_103a", "sm_110a")
SCALING_ARCHS = only("sm_100a", "sm_100f", "sm_103a", "sm_103f")
SCALES: Spellings = {shift: str(shift) for shift in range(1, 16)}
ADDS = ".reg .pred p; setp.ne.b32 p, {enable_input_d}, 0; "
UNSCALED: Spellings = {0: ""}
UNCONFIRMED = (
    "N that is no multiple of 16 where M is 128, f16 beside bf16, the upper half of cells with 16-bit results, here "
    "zero, and in which order sums are rounded"
)
SCALED_UNCONFIRMED = f"which quarter's scales count where they differ; {UNCONFIRMED}"
SPARSE_UNCONFIRMED = f"codes of metadata that the manual does not list; {UNCONFIRMED}"


def collector_words(*, keeps_b: bool) -> tuple[str, ...]:
    """What a product may say of the buffers of A, or of B where it keeps columns of that; "" first, for nothing."""
    buffers = ("b0", "b1", "b2", "b3") if keeps_b else ("a",)
    return ("", *(f"{buffer}{use}" for buffer in buffers for use in (*KEEPING, "::discard")))


class Variety(NamedTuple):
    """Forms of one kind that differ only in their modifiers.

    scales: what D may be scaled by. sf_dtype: of the scales of blocks; words: that say how long blocks are. kinds: how
    a call may name the kind. elements: of A and of B, where not all of the kind's.
    """

    kind: str
    archs: Requirement
    scales: Spellings = UNSCALED
    sf_dtype: str = ""
    words: Spellings = LEFT_OUT
    kinds: Spellings = LEFT_OUT
    elements: tuple[tuple[str, ...], ...] = ()


def _masks(mods: Mods) -> int:
    return 4 * int(mods["cta_group"]) if mods["lanes"] else 0  # type: ignore[arg-type]  # 1 or 2


def _plain(*, scaling: bool) -> Iterator[Variety]:
    """The kinds without scales, with what they may scale D by, and where."""
    for kind, row in PRODUCT_KINDS.items():
        if not row.scales:
            yield Variety(kind, I8_ARCHS if kind == "i8" else TMEM_ARCHS)
            if scaling and kind in ("f16", "tf32"):
                yield Variety(kind, SCALING_ARCHS, SCALES)


def _with_scales(*, sparse: bool) -> Iterator[Variety]:
    """The kinds with scales. Products of 4-bit elements by the kind that packs them are meant where no kind is said."""
    for kind, row in PRODUCT_KINDS.items():
        for number, (sf_dtype, (_, words)) in enumerate(row.scales.items()):
            exact: Spellings = {word: f".scale_vec::{word}" for word in words if word.endswith("X")}
            named: Spellings = {word: f".{word}" for word in words if word not in exact}
            silent: Spellings = {None: named[words[0]] if kind == "mxf4nvf4" else ""}
            everywhere = EXACT_ARCHS if sparse and kind != "mxf8f6f4" else TMEM_ARCHS
            for archs, spelled in ((everywhere, {**silent, **named}), (EXACT_ARCHS, exact)):
                for elements, is_usual in _pairs(tuple(row.elements), is_usual=kind == "mxf4" or not number):
                    yield Variety(
                        kind,
                        archs,
                        UNSCALED,
                        sf_dtype,
                        spelled,
                        {None: "", kind: ""} if is_usual else {kind: ""},
                        elements,
                    )


def _pairs(elements: tuple[str, ...], *, is_usual: bool) -> Iterator[tuple[tuple[tuple[str, ...], ...], bool]]:
    """The elements of A and of B that products have, and whether they are meant where no kind is said."""
    if len(elements) == 1:
        yield (elements, elements), is_usual
        return
    *others, packed = elements
    yield (tuple(others), elements), True
    yield ((packed,), tuple(others)), True
    yield ((packed,), (packed,)), False


def _of_cells(name: str, *, write: bool) -> Access:
    return Access(name, "tmem", 4, write=write, proxy="tmem", computed=True)


def _effects(way: ProductForm) -> Iterator[Access | Issue | Keeps]:
    yield _of_cells("a", write=False) if way.in_tmem else access_of_unit("a", "shared", write=False)
    yield access_of_unit("b_desc", "shared", write=False)
    yield _of_cells("before", write=False)
    yield from (_of_cells(name, write=False) for name in way.operands if name in ("sp_meta", "sfa", "sfb"))
    yield _of_cells("d", write=True)
    yield Issue("tmem", in_order_after=EARLIER, alike=("d", "shape"))
    yield Keeps("b_desc" if way.keeps_b else "a", "collector")


def _modifiers(variety: Variety, way: ProductForm) -> dict[str, Spellings]:
    row = PRODUCT_KINDS[variety.kind]
    left, right = variety.elements or (tuple(row.elements),) * 2
    modifiers: dict[str, Spellings] = {
        "collector": {word: f".collector::{word}" if word else "" for word in collector_words(keeps_b=way.keeps_b)},
        "cta_group": {1: CTA_GROUP[1]} if way.keeps_b else CTA_GROUP,
        "a_dtype": {element: f".kind::{variety.kind}" for element in left},
        "b_dtype": dict.fromkeys(right, ""),
        "d_dtype": dict.fromkeys(row.results, ""),
        "use_a_tmem": {way.in_tmem: ""},
    }
    if variety.sf_dtype:
        types: Spellings = {variety.sf_dtype: ""}
        return modifiers | {"scale_vec": variety.words, "kind": variety.kinds, "sfa_dtype": types, "sfb_dtype": types}
    if way.shifts:
        modifiers["collector"] = {word: text for word, text in modifiers["collector"].items() if word not in UNSHIFTED}
    if way.keeps_b:
        modifiers[ZERO_MASK] = GIVEN if ZERO_MASK in way.extras else LEFT_OUT
    elif not way.sparse:
        modifiers["ashift"] = {way.shifts: ".ashift" if way.shifts else ""}
    if not way.keeps_b:
        modifiers |= {"scale_input_d": variety.scales, "lanes": GIVEN if "lanes" in way.extras else LEFT_OUT}
    return modifiers


def _pattern(row: Variety, way: ProductForm) -> str:
    listed = ["[{d}]", "[{a}]" if way.in_tmem else "{a}", "{b_desc}", *("[{sp_meta}]",) * way.sparse, "{i_desc}"]
    listed += ["[{sfa}]", "[{sfb}]"] if row.sf_dtype else []
    listed += ["{lanes}"] * ("lanes" in way.extras) + ["p"] + ["{scale_input_d}"] * (row.scales is SCALES)
    listed += [f"{{{ZERO_MASK}}}"] * (ZERO_MASK in way.extras)
    is_guarded = "pred" in way.extras
    guard, issues = (".reg .pred q; setp.ne.b32 q, {pred}, 0; ", "@q ") if is_guarded else ("", "")
    return f"{{{{ {ADDS}{guard}{issues}{{mnemonic}} {', '.join(listed)}; }}}}"


def _forms(name: str, varieties: Iterator[Variety], *, masks: bool = False, guards: bool = False) -> Iterator[Form]:
    sparse, keeps_b = "sp" in name.split("."), "ws" in name.split(".")
    more = BOTH if keeps_b or name == "mma" else BOTH[:1]
    for row, in_tmem, masked, guarded, other in combined(varieties, BOTH, BOTH[: 1 + masks], BOTH[: 1 + guards], more):
        if other and not (keeps_b or in_tmem):
            continue
        extras = (*("lanes",) * masked, "enable_input_d", *("pred",) * guarded, *(ZERO_MASK,) * (other and keeps_b))
        way = ProductForm(row.kind, extras, sparse, keeps_b, in_tmem, other and not keeps_b)
        mods = _modifiers(row, way)
        if guards:
            mods["pred"] = GIVEN if guarded else LEFT_OUT
        passes = (
            "use_a_tmem",
            "cta_group",
            "collector",
            *(name for name in ("scale_input_d", "scale_vec") if name in mods),
        )
        scales, shift = ".block_scale{scale_vec}" if row.sf_dtype else "", "{ashift}" if "ashift" in mods else ""
        opcode = ".".join(word for word in name.split(".") if word != "block_scale")
        unconfirmed = SCALED_UNCONFIRMED if scales else SPARSE_UNCONFIRMED if sparse else UNCONFIRMED
        yield Form(
            Ptx(
                f"tcgen05.{opcode}{{cta_group}}{{a_dtype}}{shift}{scales}{{collector}}",
                mods,
                pattern=_pattern(row, way),
            ),
            row.archs,
            f"{SOURCE.format('tcgen05.mma')}; unconfirmed: {unconfirmed}",
            AsyncMeaning(
                partial(product, way=way),
                addresses=partial(addresses, way=way),
                takes=("i_desc", "shape", *(ZERO_MASK,) * (ZERO_MASK in extras)),
                passes=passes,
                unlisted=partial(unlisted, way=way) if sparse else None,
            ),
            effects=tuple(_effects(way)),
            registers=_masks if masks else 1,
        )


TYPES = ("d_dtype", "a_dtype", "b_dtype")
CHOICES = {"use_a_tmem": False, "cta_group": 1, "enable_input_d": True, "collector": ""}
D, I_DESC = reads("d", "tmem"), counts("i_desc")
A = Operand("a", "bits", of=lambda mods: "u32" if mods["use_a_tmem"] else "u64")
B = counts("b_desc", "b64")
METADATA, SFA, SFB = reads("sp_meta", "tmem"), reads("sfa", "tmem"), reads("sfb", "tmem")
ZERO_COLUMNS = counts(ZERO_MASK, "b64")
MASKS = Operand("lanes", "b32", many=True, counts=True, optional=True)
ADDED, GUARD = reads("enable_input_d", "pred"), reads("pred", "pred")
OF_SCALES = {"sfa_dtype": REQUIRED, "sfb_dtype": REQUIRED, "scale_vec": None, "kind": None}

instruction(
    "ptx.tcgen05.mma",
    params=("d", "a", "b_desc", "i_desc", "*lanes"),
    keywords={**dict.fromkeys(TYPES, REQUIRED), **CHOICES, "scale_input_d": 0, "pred": None, "ashift": False},
    operands=(D, A, B, I_DESC, MASKS, ADDED, GUARD),
    agrees="cta_group",
    doc="A thread has D += A * B computed into tensor memory; ``i_desc`` says which product, `commit` when it is done.",
    forms=tuple(_forms("mma", _plain(scaling=True), masks=True, guards=True)),
)
instruction(
    "ptx.tcgen05.mma.block_scale",
    params=("d", "a", "b_desc", "sfa", "sfb", "i_desc"),
    keywords={**dict.fromkeys(TYPES, REQUIRED), **OF_SCALES, **CHOICES, "pred": None},
    operands=(D, A, B, SFA, SFB, I_DESC, ADDED, GUARD),
    agrees="cta_group",
    doc="A thread has D += A * B computed, each block of A's rows and B's columns along K times its scale in tensor "
    "memory; ``scale_vec`` says how long blocks are, ``kind`` which product of 4-bit elements it is.",
    forms=tuple(_forms("mma.block_scale", _with_scales(sparse=False), guards=True)),
)
instruction(
    "ptx.tcgen05.mma.sp",
    params=("d", "a", "b_desc", "sp_meta", "i_desc", "*lanes"),
    keywords={**dict.fromkeys(TYPES, REQUIRED), **CHOICES, "scale_input_d": 0},
    operands=(D, A, B, METADATA, I_DESC, MASKS, ADDED),
    agrees="cta_group",
    doc="A thread has D += A * B computed; A has half of its elements, metadata in tensor memory say which.",
    forms=tuple(_forms("mma.sp", _plain(scaling=True), masks=True)),
)
instruction(
    "ptx.tcgen05.mma.sp.block_scale",
    params=("d", "a", "b_desc", "sp_meta", "sfa", "sfb", "i_desc"),
    keywords={**dict.fromkeys(TYPES, REQUIRED), **OF_SCALES, **CHOICES},
    operands=(D, A, B, METADATA, SFA, SFB, I_DESC, ADDED),
    agrees="cta_group",
    doc="The same with a scale for each block along K; a block spans twice as many elements of the full A.",
    forms=tuple(_forms("mma.sp.block_scale", _with_scales(sparse=True))),
)
for _name, _operands in (("mma.ws", (D, A, B)), ("mma.ws.sp", (D, A, B, METADATA))):
    instruction(
        f"ptx.tcgen05.{_name}",
        keywords={**dict.fromkeys(TYPES, REQUIRED), **CHOICES, ZERO_MASK: None},
        operands=(*_operands, I_DESC, ADDED, ZERO_COLUMNS),
        agrees="cta_group",
        doc="A thread has D += A * B computed, with B's columns kept for later products; M is 32, 64 or 128.",
        forms=tuple(_forms(_name, _plain(scaling=False))),
    )
