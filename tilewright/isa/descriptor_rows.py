"""Making and moving descriptors in a kernel; what their bits mean is in `tilewright.isa.descriptors`, of instructions
in `tilewright.isa.instruction_descriptors`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from tilewright.dtypes import dtype
from tilewright.errors import InstructionError
from tilewright.ir import Argument, const_value
from tilewright.isa.arch import since
from tilewright.isa.descriptors import GENERATIONS, UNIT, swizzle_codes
from tilewright.isa.instruction_descriptors import (
    PRODUCT_FIELDS,
    PRODUCT_KINDS,
    InstructionDescriptor,
)
from tilewright.isa.machine import Lanes, Machine
from tilewright.isa.table import REQUIRED, Bound, Cuda, Form, Meaning, Mods, counts, instruction, reads, single, writes

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
  return (desc & ~0x3fffull) | ((desc + units) & 0x3fffull);
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
            given = np.broadcast_to(value, wrong.shape)[wrong][0]
            machine.fault(f"{FIELDS[name].name} of a matrix descriptor is {FIELDS[name].allowed}; it is {given}", wrong)


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
    """The start address moved by ``units`` of 16 bytes; it wraps in its 14 bits and leaves the other fields alone."""
    low = np.uint64(0x3FFF)
    return (desc & ~low) | ((desc + units.astype(np.uint64)) & low)


def _check_constants(bound: Bound) -> None:
    for name, field in FIELDS.items():
        known = const_value(bound.operands[name][0])
        if known is not None and not field.admits(np.int64(known)):
            raise InstructionError(f"T.{bound.instruction.name}: {field.name}", given=known, allowed=field.allowed)


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

_PARTS = (
    f"({f} / {at.step}) << {at.first}" if at.step > 1 else f"{f} << {at.first}" for f, at in PRODUCT_FIELDS.items()
)
PRODUCT = f"""\
__device__ __forceinline__ unsigned int tw_instruction_descriptor(
    {", ".join(f"unsigned int {name}" for name in PRODUCT_FIELDS)}) {{
  return {" | ".join(_PARTS)};
}}
"""
NUMBERS, FLAGS = ("M", "N"), ("trans_a", "trans_b", "neg_a", "neg_b", "sat_d")


def _product(mods: Mods, values: Mapping[str, int]) -> InstructionDescriptor:
    types = {name: str(mods[name]) for name in ("d_dtype", "a_dtype", "b_dtype")}
    kind = next(name for name, row in PRODUCT_KINDS.items() if types["a_dtype"] in row.elements)
    fields = {name: bool(value) if name in FLAGS else value for name, value in values.items()}
    return InstructionDescriptor(kind, cta_group=int(str(mods["n_cta_groups"])), **types, **fields)  # type: ignore[arg-type]  # each of its type


def _check_product(bound: Bound) -> None:
    known = {name: const_value(bound.operands[name][0]) for name in (*NUMBERS, *FLAGS)}
    if unknown := [name for name, value in known.items() if value is None]:
        given = ", ".join(f"{name} = {bound.operands[name][0]}" for name in unknown)
        raise InstructionError(f"T.{bound.instruction.name}: {unknown[0]}", given=given, allowed="a constant")
    _product(bound.mods, known)  # type: ignore[arg-type]  # numbers


def encode_product(machine: Machine, *values: Lanes, **mods: Argument) -> Lanes:
    """The word, equal in all lanes: everything is known when the kernel is compiled."""
    known = {name: int(value.flat[0]) for name, value in zip((*NUMBERS, *FLAGS), values, strict=True)}
    return np.full((*machine.active.shape[:-1], 1), _product(mods, known).encode(), np.uint32)


def _product_forms() -> Iterator[Form]:
    for row, result in ((each, result) for each in PRODUCT_KINDS.values() for result in each.results):
        elements = {each: str(code) for each, code in row.elements_for(result).items()}
        yield Form(
            Cuda(
                f"{{desc}} = tw_instruction_descriptor({', '.join(f'{{{name}}}' for name in PRODUCT_FIELDS)})",
                {
                    "a_dtype": elements,
                    "b_dtype": elements,
                    "d_dtype": {result: str(row.results[result])},
                    "K": {row.k: ""},
                    "n_cta_groups": {1: "", 2: ""},
                    "is_sparse": {False: ""},
                },
                helper=PRODUCT,
            ),
            since("sm_75"),
            'PTX ISA, "TensorCore 5th Generation: Instruction descriptor"',
            Meaning(encode_product, on="machine", passes=("d_dtype", "a_dtype", "b_dtype", "n_cta_groups")),
        )


instruction(
    "ptx.tcgen05.encode_instr_descriptor",
    params=("desc",),
    keywords={
        **dict.fromkeys(("d_dtype", "a_dtype", "b_dtype", *NUMBERS, "K"), REQUIRED),
        **{"trans_a": False, "trans_b": False, "n_cta_groups": 1},
        **dict.fromkeys(("neg_a", "neg_b", "sat_d", "is_sparse"), False),
    },
    operands=(writes("desc", "b32"), *(reads(m, "imm") for m in NUMBERS), *(reads(flag, "pred") for flag in FLAGS)),
    check=_check_product,
    doc="The instruction descriptor of tcgen05.mma for D = A * B; ``trans_a`` and ``trans_b`` for MN-major operands.",
    forms=tuple(_product_forms()),
)
