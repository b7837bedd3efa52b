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

A in tensor memory is in the same lanes, 8 columns; rows of pairs with M 128 are there twice, for each half of N. Values
of 16 bits in D have a cell each. Operands of 4 and 6 bits have 16 bytes for 16 elements in shared memory, packed at
the low end, and a byte each in tensor memory: 4 bits in its bits 2 to 5, 6 in its low ones.

The operation reads shared memory as the asynchronous units see it, and is complete when a commit after it has arrived.

Sources: PTX ISA, "TensorCore 5th Generation: tcgen05.mma, Matrix Shape, Data Path Layout, Packing formats"; lanes as in
CuTe's traits, NVIDIA/cutlass, include/cute/atom/mma_traits_sm100_frag.hpp.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import product as combined
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.arch import Requirement, only
from tilewright.isa.descriptors import MatrixDescriptor, descriptor_addresses, descriptor_trouble
from tilewright.isa.instruction_descriptors import (
    OPERAND_BYTES,
    PRODUCT_KINDS,
    InstructionDescriptor,
    product_descriptor,
)
from tilewright.isa.machine import Addresses, Lanes, Unit
from tilewright.isa.operations import access_of_unit, in_pairs
from tilewright.isa.table import (
    GIVEN,
    LEFT_OUT,
    REQUIRED,
    Access,
    AsyncMeaning,
    Form,
    Issue,
    Mods,
    Operand,
    Ptx,
    Spellings,
    counts,
    instruction,
    reads,
)
from tilewright.isa.tcgen05_alloc import CTA_GROUP, SOURCE, TMEM_ARCHS
from tilewright.isa.tcgen05_mma_values import EVERY_LANE, PATHS, RESULTS, UNIT, DataPath, operand_of, product

__all__ = ["MMA_KIND_OF"]

Array = NDArray[Any]
MMA_KIND_OF = {element: kind for kind, row in PRODUCT_KINDS.items() for element in row.elements}
"""The kind of product by an element of A or B."""

CELLS_OF_A = np.arange(OPERAND_BYTES // 4)  # columns


class SameProduct(NamedTuple):
    """The issuers of an operation with one instruction descriptor. which: (n,) bools."""

    which: Array
    product: InstructionDescriptor

    @property
    def path(self) -> DataPath:
        """Where D is."""
        return PATHS[self.product.cta_group, self.product.M]

    @property
    def columns(self) -> int:
        """Columns of tensor memory that D takes."""
        return self.product.N // self.path.halves


# Places


def addresses(
    unit: Unit, d: Lanes, a: Lanes, b_desc: Lanes, i_desc: Lanes, *more: Lanes, given: tuple[str, ...], kind: str,
    use_a_tmem: bool, cta_group: int, scale_input_d: int,
) -> Mapping[str, Addresses]:  # fmt: skip
    """The 16-byte units of A and B, the cells of D, and of A in tensor memory. given: the names of ``more``."""
    others = dict(zip(given, more, strict=True))
    active = others.get("pred", np.ones(len(d), np.bool_)).astype(np.bool_)
    batches = _batches(unit, i_desc, active, kind, cta_group)
    issuer, rank = in_pairs(unit) if cta_group == 2 else (None, None)
    kept = _lanes_kept(others["lanes"], cta_group) if "lanes" in others else None
    spread = partial(_cells, unit, batches, cta_group=cta_group)
    lane, column, nbytes = spread("d", d, kept=kept)
    found = {"d": Addresses(lane, column, issuer, rank, nbytes)}
    enabled = others["enable_input_d"].astype(np.bool_)
    found["before"] = Addresses(lane, column, issuer, rank, _read_before(batches, nbytes, enabled, lane.shape))
    if use_a_tmem:
        _check_a(unit, d, a, batches)
        lane, column, nbytes = spread("a", a, columns=len(CELLS_OF_A))
        found["a"] = Addresses(lane, column, issuer, rank, nbytes)
    else:
        found["a"] = _units(unit, "a", a, batches, issuer, rank)
    found["b_desc"] = _units(unit, "b_desc", b_desc, batches, issuer, rank)
    shape = np.zeros((len(d), 3), np.int64)
    for batch in batches:
        shape[batch.which] = batch.product.M, batch.product.N, list(PRODUCT_KINDS).index(kind)
    return {**found, "shape": Addresses(shape)}


def _batches(unit: Unit, i_desc: Lanes, active: Array, kind: str, cta_group: int) -> list[SameProduct]:
    found = []
    for bits in np.unique(i_desc[active]).tolist():
        which = active & (i_desc == bits)
        product = product_descriptor(bits, kind, cta_group)
        if isinstance(product, str):
            unit.fault(product, which)
        found.append(SameProduct(which, product))
    return found


def _lanes_kept(masks: Lanes, cta_group: int) -> Array:
    """(n of each CTA, 128) bools: the lanes that no bit of the masks disables."""
    words = masks.astype(np.uint32).reshape(len(masks) * cta_group, 4)
    bits = words[:, EVERY_LANE // 32] >> (EVERY_LANE % 32).astype(np.uint32) & 1
    return np.asarray(bits == 0)


def _cells(
    unit: Unit, batches: list[SameProduct], name: str, address: Lanes, *, cta_group: int, columns: int = 0,
    kept: Array | None = None,
) -> tuple[Array, Array, Array | None]:  # fmt: skip
    """Lanes, columns and bytes that count, for each issuer and CTA, of D, or of so many columns in its lanes."""
    height = max((len(batch.path.lanes) for batch in batches), default=1)
    width = columns or max((batch.columns for batch in batches), default=1)
    lanes: Array = np.zeros((len(address), height), np.int64)
    counted: Array = np.zeros((len(address), height, width), np.bool_)
    for batch in batches:
        own, path = address[batch.which] >> 16, batch.path
        if not np.isin(own, path.origins).all():
            wrong = batch.which & ~np.isin(address >> 16, path.origins)
            allowed = " or ".join(map(str, path.origins))
            unit.fault(
                f"{name} is in lane {int(address[wrong][0]) >> 16}; with M {batch.product.M} it is {allowed}", wrong
            )
        lanes[batch.which, : len(path.lanes)] = own[:, None] + path.lanes
        counted[batch.which, : len(path.lanes), : columns or batch.columns] = True
    lanes, counted = (part.repeat(cta_group, axis=0) for part in (lanes, counted))
    first = (address & 0xFFFF).astype(np.int64).repeat(cta_group)
    lane, column = np.broadcast_arrays(lanes[..., None], first[:, None, None] + np.arange(width))
    if kept is not None:
        counted &= np.take_along_axis(kept, lanes, axis=1)[..., None]
    return lane, column, None if counted.all() else 4 * counted


def _read_before(
    batches: list[SameProduct], nbytes: Array | None, enabled: Array, shape: tuple[int, ...]
) -> Array | None:
    """The bytes of each cell of D that are added to the product: of 16-bit ones the low half."""
    width = np.zeros(len(enabled), np.int64)
    for batch in batches:
        width[batch.which] = RESULTS[batch.product.d_dtype].itemsize
    width = (width * enabled).repeat(shape[0] // len(enabled))
    if nbytes is None and (width == 4).all():
        return None
    return np.minimum(width[:, None, None], 4 if nbytes is None else nbytes)


def _check_a(unit: Unit, d: Lanes, a: Lanes, batches: list[SameProduct]) -> None:
    for batch in batches:
        if batch.product.trans_a:
            unit.fault("instruction descriptor: trans_a is set; A in tensor memory is K-major", batch.which)
        if (wrong := batch.which & (a >> 16 != d >> 16)).any():
            lanes = f"a is in lane {int(a[wrong][0]) >> 16} and d in lane {int(d[wrong][0]) >> 16}"
            unit.fault(f"{lanes}; they are in the same", wrong)


def _units(
    unit: Unit, name: str, descs: Lanes, batches: list[SameProduct], issuer: Array | None, rank: Array | None
) -> Addresses:
    """The units of A or B, for each issuer and CTA in a row, as many as the longest has."""
    rows = [_units_of(unit, name, descs[batch.which], batch) for batch in batches]
    each = 1 if issuer is None else 2
    if len(rows) == 1 and batches[0].which.all():
        return Addresses(rows[0].repeat(each, axis=0), None, issuer, rank)
    width = max((row.shape[1] for row in rows), default=1)
    at, nbytes = np.zeros((2, len(descs), width), np.int64)
    for batch, row in zip(batches, rows, strict=True):
        at[batch.which, : row.shape[1]], nbytes[batch.which, : row.shape[1]] = row, UNIT
    return Addresses(at.repeat(each, axis=0), None, issuer, rank, nbytes.repeat(each, axis=0))


def _units_of(unit: Unit, name: str, descs: Lanes, batch: SameProduct) -> Array:
    """(n, units), in the order in which the matrix has them, row by row."""
    _, trans, count = operand_of(name, batch.product)
    kind = PRODUCT_KINDS[batch.product.kind]
    shape = (kind.k, kind.element_bytes * count, "MN") if trans else (count, OPERAND_BYTES, "K")
    for bits in np.unique(descs).tolist():
        trouble = descriptor_trouble(bits, *shape)
        wide = not trouble and MatrixDescriptor.decode(bits).atom == OPERAND_BYTES
        if not trouble and wide != (trans and batch.product.kind == "tf32"):
            trouble = "matrix descriptor: atoms are of 32 bytes for MN-major tf32, and of 16 for all else"
        if trouble:
            wrong = batch.which.copy()
            wrong[batch.which] = descs == bits
            unit.fault(f"{name}: {trouble}", wrong)
    return descriptor_addresses(descs, *shape).reshape(len(descs), -1)


# Rows

BOTH = (False, True)
EARLIER = ("ptx.tcgen05.mma", "ptx.tcgen05.cp", "ptx.tcgen05.shift")
I8_ARCHS = only("sm_100a", "sm_110a")
SCALING_ARCHS = only("sm_100a", "sm_100f", "sm_103a", "sm_103f")
SCALES: Spellings = {shift: str(shift) for shift in range(1, 16)}
ADDS = ".reg .pred p; setp.ne.b32 p, {enable_input_d}, 0; "
UNSCALED: Spellings = {0: ""}
UNCONFIRMED = (
    "N that is no multiple of 16 where M is 128, f16 beside bf16, the upper half of cells with 16-bit results, here "
    "zero, and in which order sums are rounded"
)


def _masks(mods: Mods) -> int:
    return 4 * int(mods["cta_group"]) if mods["lanes"] else 0  # type: ignore[arg-type]  # 1 or 2


def _scales() -> Iterator[tuple[str, Spellings, Requirement]]:
    """The kinds, with what they may scale D by, and where."""
    for kind in PRODUCT_KINDS:
        yield kind, UNSCALED, I8_ARCHS if kind == "i8" else TMEM_ARCHS
        if kind in ("f16", "tf32"):
            yield kind, SCALES, SCALING_ARCHS


def _of_cells(name: str, *, write: bool) -> Access:
    return Access(name, "tmem", 4, write=write, proxy="tmem", computed=True)


def _forms() -> Iterator[Form]:
    for (kind, scales, archs), in_tmem, masked, guarded in combined(_scales(), BOTH, BOTH, BOTH):
        row = PRODUCT_KINDS[kind]
        given = (*("lanes",) * masked, "enable_input_d", *("pred",) * guarded)
        words = f"[{{d}}], {'[{a}]' if in_tmem else '{a}'}, {{b_desc}}, {{i_desc}}{', {lanes}' * masked}, p"
        words += ", {scale_input_d}" if scales is SCALES else ""
        guard, issues = (".reg .pred q; setp.ne.b32 q, {pred}, 0; ", "@q ") if guarded else ("", "")
        yield Form(
            Ptx(
                "tcgen05.mma{cta_group}{a_dtype}",
                {
                    "cta_group": CTA_GROUP,
                    "a_dtype": {element: f".kind::{kind}" for element in row.elements},
                    "b_dtype": dict.fromkeys(row.elements, ""),
                    "d_dtype": dict.fromkeys(row.results, ""),
                    "use_a_tmem": {in_tmem: ""},
                    "scale_input_d": scales,
                    "lanes": GIVEN if masked else LEFT_OUT,
                    "pred": GIVEN if guarded else LEFT_OUT,
                },
                pattern=f"{{{{ {ADDS}{guard}{issues}{{mnemonic}} {words}; }}}}",
            ),
            archs,
            f"{SOURCE.format('tcgen05.mma')}; unconfirmed: {UNCONFIRMED}",
            AsyncMeaning(
                partial(product, kind=kind),
                addresses=partial(addresses, given=given, kind=kind),
                takes=("i_desc", "shape"),
                passes=("use_a_tmem", "cta_group", "scale_input_d"),
            ),
            effects=(
                _of_cells("a", write=False) if in_tmem else access_of_unit("a", "shared", write=False),
                access_of_unit("b_desc", "shared", write=False),
                _of_cells("before", write=False),
                _of_cells("d", write=True),
                Issue("tmem", in_order_after=EARLIER, alike=("d", "shape")),
            ),
            registers=_masks,
        )


instruction(
    "ptx.tcgen05.mma",
    params=("d", "a", "b_desc", "i_desc", "*lanes"),
    keywords={
        **dict.fromkeys(("d_dtype", "a_dtype", "b_dtype"), REQUIRED),
        **{"use_a_tmem": False, "cta_group": 1, "enable_input_d": True, "scale_input_d": 0, "pred": None},
    },
    operands=(
        reads("d", "tmem"),
        Operand("a", "bits", of=lambda mods: "u32" if mods["use_a_tmem"] else "u64"),
        counts("b_desc", "b64"),
        counts("i_desc"),
        Operand("lanes", "b32", many=True, counts=True, optional=True),
        reads("enable_input_d", "pred"),
        reads("pred", "pred"),
    ),
    agrees="cta_group",
    hints=(r"collector::a::(fill|use|lastuse|discard)",),
    doc="A thread has D += A * B computed into tensor memory; ``i_desc`` says which product, `commit` when it is done.",
    forms=tuple(_forms()),
)
