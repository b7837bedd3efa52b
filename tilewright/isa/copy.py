"""copy_bytes: one thread moves 1 to 32 bytes with one access on either side.

The width of the type that is read and written decides the machine instruction: 16 bytes become one ``LDG.128``, one
``LDS.128`` or four registers, depending on what the pointers point into. Source: CUDA C++ Programming Guide,
"Device Memory Accesses" (size and alignment requirement).
"""

from __future__ import annotations

from tilewright.isa.arch import since
from tilewright.isa.table import Access, Cuda, Form, Meaning, Mods, instruction, reads

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
