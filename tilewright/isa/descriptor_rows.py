"""Making and moving descriptors in a kernel; what their bits mean is in `tilewright.isa.descriptors`, of instructions
in `tilewright.isa.instruction_descriptors`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import product as combined
from typing import Any, NamedTuple

import numpy as np

from tilewright.dtypes import dtype
from tilewright.errors import InstructionError
from tilewright.ir import Argument, const_value
from tilewright.isa.arch import since
from tilewright.isa.descriptors import GENERATIONS, UNIT, Bits, swizzle_codes
from tilewright.isa.instruction_descriptors import (
    PRODUCT_FIELDS,
    PRODUCT_KINDS,
    SCALED_FIELDS,
    InstructionDescriptor,
    MultiplicationKind,
)
from tilewright.isa.machine import Lanes, Machine
from tilewright.isa.table import (
    REQUIRED,
    Bound,
    Cuda,
    Form,
    Meaning,
    Mods,
    Operand,
    Spellings,
    counts,
    instruction,
    reads,
    single,
    updates,
    writes,
)

SOURCES = {
    "sm_90": 'PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions: Matrix Descriptor Format"',
    "sm_100": 'PTX ISA, "TensorCore 5th Generation: Shared memory descriptor"',
}

ENCODE = """\
__device__ __forceinline__ unsigned long long tw_matrix_descriptor(
    unsigned int start, unsigned int leading, unsigned int stride, unsigned long long mode) {
  // from the lowest bit: start address, leading and stride offset, each in units of 16 bytes; then version and swizzle.
  // In a cluster the bits of an address above the 18th say whose shared memory it is: they have no place here.
  return (unsigned long long)((start & 0x3ffffu) >> 4) | (unsigned long long)leading << 16 |
         (unsigned long long)stride << 32 | mode;
}
"""
ADD = """\
__device__ __forceinline__ unsigned long long tw_smem_desc_add_16B_offset(unsigned long long desc, unsigned int units) {
  return (desc & ~0xffffffffull) | (unsigned int)(desc + units);  // one addition: no address is beyond its 14 bits
}
"""


class DescriptorField(NamedTuple):
    """A field of a descriptor: 14 bits, for a number that is a multiple of ``step``."""

    name: str
    step: int
    allowed: str

    def admits(self, value: Lanes | np.int64) -> Lanes:
        """Can the field hold this number?"""
        ok: Lanes = (value >= 0) & (value <= MOST * self.step) & (value % self.step == 0)
        return ok


MOST = (1 << 14) - 1
OFFSET = 0x3FFFF  # the bits of a shared address that are the offset in the CTA's window
FIELDS = {
    "ptr": DescriptorField("the start address", UNIT, f"a multiple of 16, at most {MOST * UNIT:#x}"),
    "ldo": DescriptorField("ldo", 1, f"0..{MOST}, in units of 16 bytes"),
    "sdo": DescriptorField("sdo", 1, f"0..{MOST}, in units of 16 bytes"),
}


def _check_fields(machine: Machine, **values: Lanes) -> None:
    for name, value in values.items():
        wrong = machine.active & ~FIELDS[name].admits(value)
        if wrong.any():
            sample = np.broadcast_to(value, wrong.shape)[wrong][0]
            field = FIELDS[name]
            machine.fault(f"{field.name} of a matrix descriptor is {field.allowed}; it is {sample}", wrong)


def encoder(modes: Mapping[int, int]) -> Callable[..., Lanes]:
    """The meaning of an encoding instruction. modes: for each swizzle mode its bits, and those that are always set."""

    def encode(machine: Machine, start: Lanes, ldo: Lanes, sdo: Lanes, *, swizzle: int) -> Lanes:
        """Start address, leading and stride offset and the swizzle's code, each in its field."""
        start = start & np.asarray(OFFSET, start.dtype)
        _check_fields(machine, ptr=start, ldo=ldo, sdo=sdo)
        near, far = ldo.astype(np.uint64) << np.uint64(16), sdo.astype(np.uint64) << np.uint64(32)
        words: Lanes = start.astype(np.uint64) >> np.uint64(4) | near | far | np.uint64(modes[swizzle])
        return words

    return encode


def add_units(desc: Lanes, units: Lanes) -> Lanes:
    """The start address moved by ``units`` of 16 bytes, as a sum of the low words, which is right in its 14 bits."""
    low = np.uint64(0xFFFFFFFF)
    return (desc & ~low) | ((desc + units.astype(np.uint64)) & low)


def _check_constants(bound: Bound) -> None:
    for name, field in FIELDS.items():
        number = const_value(bound.operands[name][0])
        if number is not None and not field.admits(np.int64(number)):
            raise InstructionError(f"T.{bound.instruction.name}: {field.name}", given=number, allowed=field.allowed)


for _generation, _format in GENERATIONS.items():
    _modes = {
        int(mode): code << _format.fields["swizzle"].first | _format.constant
        for mode, code in sorted(swizzle_codes(_generation).items())
    }
    single(
        f"ptx.{_format.name}.encode_matrix_descriptor",
        Cuda(
            "{desc} = tw_matrix_descriptor({ptr}, {ldo}, {sdo}, {swizzle})",
            {"swizzle": {mode: f"{bits:#x}ull" for mode, bits in _modes.items()}},
            helper=ENCODE,
        ),
        since("sm_75"),
        SOURCES[_generation],
        Meaning(encoder(_modes), on="machine", passes=("swizzle",)),
        params=("desc", "ptr", "ldo", "sdo", "swizzle"),
        operands=(writes("desc", "b64"), reads("ptr", "shared"), counts("ldo"), counts("sdo")),
        check=_check_constants,
        doc=f"The matrix descriptor of {_format.name} for a tile at ``ptr``; ldo and sdo are in units of 16 bytes.",
    )

for _name in ("smem_desc_add_16B_offset", "cuda.smem_desc_add_16B_offset", "ptx.tcgen05.smem_desc_add_16B_offset"):
    single(
        _name,
        Cuda("tw_smem_desc_add_16B_offset({desc}, {units})", helper=ADD),
        since("sm_75"),
        SOURCES["sm_100"],
        Meaning(add_units),
        operands=(counts("desc", "b64"), counts("units")),
        doc="The matrix descriptor of a tile that starts ``units`` times 16 bytes later.",
        result=dtype("uint64"),
    )

# Instruction descriptors

TYPES = ("d_dtype", "a_dtype", "b_dtype")
SIGNS = ("trans_a", "trans_b", "neg_a", "neg_b")


class Encoder(NamedTuple):
    """An instruction that encodes descriptors. helper: its C++ function of ``fields``, in their order. numbers, flags:
    its operands, in their order.
    """

    helper: str
    fields: Mapping[str, Bits]
    numbers: tuple[str, ...]
    flags: tuple[str, ...]

    @property
    def text(self) -> str:
        """The C++ function, which gets fields as numbers before their step divides them."""
        steps = ((name, at.first, at.step) for name, at in self.fields.items())
        parts = (f"({f} / {step}) << {first}" if step > 1 else f"{f} << {first}" for f, first, step in steps)
        return f"""\
__device__ __forceinline__ unsigned int {self.helper}(
    {", ".join(f"unsigned int {name}" for name in self.fields)}) {{
  return {" | ".join(parts)};
}}
"""

    def product(self, kind: str, mods: Mods, values: Mapping[str, int]) -> InstructionDescriptor:
        """The product that modifiers and operands say."""
        fields: dict[str, Any] = {name: str(mods[name]) for name in TYPES}
        fields |= {name: bool(value) if name in self.flags else value for name, value in values.items()}
        fields |= {"sf_dtype": str(mods["sfa_dtype"])} if "sfa_dtype" in mods else {"keeps_b": bool(mods["ws"])}
        fields |= {"sparse": bool(mods["is_sparse"]), "wide": mods["K"] == PRODUCT_KINDS[kind].wide}
        return InstructionDescriptor(kind, cta_group=int(str(mods["n_cta_groups"])), **fields)

    def check(self, bound: Bound) -> None:
        """Raises InstructionError for operands that are no constants, and for what is no product."""
        numbers = {name: const_value(bound.operands[name][0]) for name in (*self.numbers, *self.flags)}
        if unknown := [name for name, value in numbers.items() if value is None]:
            text = ", ".join(f"{name} = {bound.operands[name][0]}" for name in unknown)
            raise InstructionError(f"T.{bound.instruction.name}: {unknown[0]}", given=text, allowed="a constant")
        kind = bound.form.meaning.execute.keywords["kind"]  # type: ignore[union-attr]  # a partial
        self.product(kind, bound.mods, numbers)  # type: ignore[arg-type]  # numbers

    def encoded(self, machine: Machine, *values: Lanes, kind: str, **mods: Argument) -> Lanes:
        """The word, equal in all lanes: everything is known when the kernel is compiled."""
        numbers = {name: int(value.flat[0]) for name, value in zip((*self.numbers, *self.flags), values, strict=True)}
        return np.full((*machine.active.shape[:-1], 1), self.product(kind, mods, numbers).encode(), np.uint32)

    def form(
        self, kind: str, result: str, k: int, modifiers: Mapping[str, Spellings], settings: Mapping[str, str]
    ) -> Form:
        """A form for products of a kind. settings: fields that are neither operands nor modifiers."""
        row = PRODUCT_KINDS[kind]
        elements = {element: str(code) for element, code in row.elements_for(result).items()}
        listed = ", ".join(settings.get(name, f"{{{name}}}") for name in self.fields)
        table: dict[str, Spellings] = {"a_dtype": elements, "b_dtype": elements, "K": {k: ""}}
        table |= {"d_dtype": {result: str(row.results[result])}, "n_cta_groups": {1: "", 2: ""}, **modifiers}
        return Form(
            Cuda(f"{{desc}} = {self.helper}({listed})", table, helper=self.text),
            since("sm_75"),
            'PTX ISA, "TensorCore 5th Generation: Instruction descriptor"',
            Meaning(partial(self.encoded, kind=kind), on="machine", passes=tuple(table)),
        )

    def operands(self) -> tuple[Operand, ...]:
        """Those of the row."""
        return (
            writes("desc", "b32"),
            *(reads(m, "imm") for m in self.numbers),
            *(reads(m, "pred") for m in self.flags),
        )


PLAIN = Encoder("tw_instruction_descriptor", PRODUCT_FIELDS, ("M", "N", "selector", "max_shift"), (*SIGNS, "sat_d"))
SCALED = Encoder("tw_scaled_instruction_descriptor", SCALED_FIELDS, ("M", "N", "sfa_id", "sfb_id"), SIGNS)


def _lengths(row: MultiplicationKind) -> Iterator[tuple[int, bool, bool]]:
    """K, and whether A is sparse, and whether it is the longer one of dense products."""
    yield row.k, False, False
    yield 2 * row.k, True, False
    if row.wide:
        yield row.wide, False, True


def _plain_forms() -> Iterator[Form]:
    for kind, row in PRODUCT_KINDS.items():
        for result, (k, sparse, _) in combined(() if row.scales else row.results, _lengths(row)):
            for ws, ctas in ((False, (1, 2)), (True, (1,))):  # a pair keeps no columns
                modifiers: dict[str, Spellings] = {"is_sparse": {sparse: ""}, "ws": {ws: ""}}
                modifiers["n_cta_groups"] = dict.fromkeys(ctas, "")
                yield PLAIN.form(kind, result, k, modifiers, {"sparse": str(int(sparse))})


def _scaled_forms() -> Iterator[Form]:
    """Of kinds with the same bits, the one that has all of their products."""
    for kind in ("mxf8f6f4", "mxf4nvf4"):
        row = PRODUCT_KINDS[kind]
        for (sf_dtype, (code, _)), (k, sparse, wide) in combined(row.scales.items(), _lengths(row)):
            types: dict[str, Spellings] = {
                "is_sparse": {sparse: ""},
                "sfa_dtype": {sf_dtype: ""},
                "sfb_dtype": {sf_dtype: ""},
            }
            settings = {"sparse": str(int(sparse)), "sf_dtype": str(code), "wide": str(int(wide))}
            yield SCALED.form(kind, "float32", k, types, settings)


def with_scale_id(desc: Lanes, sf_id: Lanes) -> Lanes:
    """The descriptor with other bytes for the first scales of A and B."""
    first = [SCALED_FIELDS[name].first for name in ("sfa_id", "sfb_id")]
    number = sf_id.astype(np.uint32) & np.uint32(3)
    return np.asarray(desc & ~np.uint32(sum(3 << at for at in first)) | sum(number << np.uint32(at) for at in first))


_DEFAULTS = {"trans_a": False, "trans_b": False, "n_cta_groups": 1, "neg_a": False, "neg_b": False, "is_sparse": False}
instruction(
    "ptx.tcgen05.encode_instr_descriptor",
    params=("desc",),
    keywords={
        **dict.fromkeys((*TYPES, "M", "N", "K"), REQUIRED),
        **_DEFAULTS, "sat_d": False, "selector": 0, "max_shift": 0, "ws": False,
    },
    operands=PLAIN.operands(),
    check=PLAIN.check,
    doc="The instruction descriptor of tcgen05.mma for D = A * B; ``trans_a`` and ``trans_b`` for MN-major operands.",
    forms=tuple(_plain_forms()),
)  # fmt: skip
instruction(
    "ptx.tcgen05.encode_instr_descriptor_block_scaled",
    params=("desc",),
    keywords={
        **dict.fromkeys((*TYPES, "sfa_dtype", "sfb_dtype", "M", "N", "K"), REQUIRED),
        **_DEFAULTS, "sfa_id": 0, "sfb_id": 0,
    },
    operands=SCALED.operands(),
    check=SCALED.check,
    doc="The same for products with scales of blocks; ``sfa_id`` and ``sfb_id`` are the bytes of the first scales.",
    forms=tuple(_scaled_forms()),
)  # fmt: skip
single(
    "cuda.runtime_instr_desc",
    Cuda("{desc} = ({desc} & 0x9fffffcfu) | (({sf_id} & 3u) << 29) | (({sf_id} & 3u) << 4)"),
    since("sm_75"),
    'PTX ISA, "TensorCore 5th Generation: Instruction descriptor"',
    Meaning(with_scale_id),
    operands=(updates("desc", "b32"), counts("sf_id")),
    doc="Changes, in an instruction descriptor, the byte that has the first scale of a block, for A and for B.",
)
