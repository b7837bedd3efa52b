"""Three ways from a pointer to a shared address, with the same result: the offset in the CTA's shared window.

Memory is one generic address space with windows in it; an instruction with ``.shared`` wants the place inside the
window. In a cluster the upper bits of that place are the rank of the CTA, also for the thread's own CTA: code that
builds a matrix descriptor from such an address has to mask them out. Seen on an H200.

Sources: CUDA C++ Programming Guide, "Address Space Conversion Functions"; PTX ISA, "Data Movement and Conversion
Instructions: cvta".
"""

from __future__ import annotations

from tilewright.dtypes import dtype
from tilewright.isa.arch import since
from tilewright.isa.machine import Lanes, Machine
from tilewright.isa.table import Cuda, Meaning, Ptx, reads, single

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
