"""copy_bytes: one thread moves 1 to 32 bytes with one access on either side.

The width of the type that is read and written decides the machine instruction: 16 bytes become one ``LDG.128``, one
``LDS.128`` or four registers, depending on what the pointers point into. Source: CUDA C++ Programming Guide,
"Device Memory Accesses" (size and alignment requirement).
"""

from __future__ import annotations

from tilewright.dtypes import dtype
from tilewright.isa.arch import since
from tilewright.isa.machine import Lanes, Machine
from tilewright.isa.table import Access, Cuda, Form, Meaning, Mods, Ptx, instruction, reads, single

SOURCE = 'CUDA C++ Programming Guide, "Size and Alignment Requirement"'
WIDTHS = {1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "uint2", 16: "uint4"}
TEXT = "*({nbytes}*)({dst}) = *(const {nbytes}*)({src})"


def _nbytes(mods: Mods) -> int:
    return int(mods["nbytes"])  # type: ignore[arg-type]  # a key of the modifier's table


ACCESSES = (Access("src", "generic", _nbytes, write=False), Access("dst", "generic", _nbytes, write=True))

instruction(
    "cuda.copy_bytes",
    params=("dst", "src", "nbytes"),
    operands=(reads("dst", "generic"), reads("src", "generic")),
    doc="A thread copies ``nbytes`` bytes from ``src`` to ``dst``, both aligned to their number, with one access each.",
    forms=(
        Form(Cuda(TEXT, {"nbytes": WIDTHS}), since("sm_75"), SOURCE, Meaning(moves=True), effects=(*ACCESSES,)),
        Form(
            Cuda(TEXT, {"nbytes": {32: "ulonglong4_32a"}}),
            since("sm_100"),
            'PTX ISA, "Data Movement and Conversion Instructions: ld" (256-bit accesses of global memory)',
            Meaning(moves=True),
            effects=(*ACCESSES,),
        ),
    ),
)

# Three ways from a pointer to a shared address, with the same result: the offset in the CTA's shared window.
#
# Memory is one generic address space with windows in it; an instruction with ``.shared`` wants the place inside the
# window. In a cluster the upper bits of that place are the rank of the CTA, also for the thread's own CTA: code that
# builds a matrix descriptor from such an address has to mask them out. Seen on an H200.
#
# Sources: CUDA C++ Programming Guide, "Address Space Conversion Functions"; PTX ISA, "Data Movement and Conversion
# Instructions: cvta".

GUIDE = 'CUDA C++ Programming Guide, "Address Space Conversion Functions"'
CVTA = 'PTX ISA, "Data Movement and Conversion Instructions: cvta"'


def to_shared_64(machine: Machine, address: Lanes) -> Lanes:
    """The offset in the shared window as a 64-bit number."""
    return machine.with_rank(machine.to_shared(address)).astype("uint64")


def to_shared_32(machine: Machine, address: Lanes) -> Lanes:
    """The offset in the shared window; its upper 32 bits are zero, so that nothing is lost."""
    return machine.with_rank(machine.to_shared(address)).astype("uint32")


single(
    "cuda.cvta_generic_to_shared",
    Cuda("__cvta_generic_to_shared((const void*)({ptr}))"),
    since("sm_75"),
    GUIDE,
    Meaning(to_shared_64, on="machine"),
    operands=(reads("ptr", "generic"),),
    doc="The shared address of a pointer, as CUDA's ``size_t``.",
    result=dtype("uint64"),
)
single(
    "ptx.cvta.to.shared.u64",
    Ptx("cvta.to.shared.u64"),
    since("sm_75"),
    CVTA,
    Meaning(to_shared_64, on="machine"),
    operands=(reads("ptr", "generic"),),
    pattern="{result}, {ptr}",
    doc="The shared address of a pointer, 64 bits wide.",
    result=dtype("uint64"),
)
single(
    "cuda.cast_smem_ptr_to_uint",
    Ptx("cvta.to.shared.u64"),
    since("sm_75"),
    CVTA,
    Meaning(to_shared_32, on="machine"),
    operands=(reads("ptr", "generic"),),
    pattern="{{ .reg .u64 wide; {mnemonic} wide, {ptr}; cvt.u32.u64 {result}, wide; }}",
    doc="The shared address of a pointer, narrowed to the 32 bits that the instructions on shared memory take.",
    result=dtype("uint32"),
)
