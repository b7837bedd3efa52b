"""Functions in CUDA C++ that a kernel defines: their text goes into the CUDA text unchanged.

Only a GPU can run such a function; the simulator stops there.
"""

from __future__ import annotations

from tilewright.dtypes import VOID
from tilewright.isa.arch import since
from tilewright.isa.machine import Lanes, Machine
from tilewright.isa.table import REQUIRED, Cuda, Form, Meaning, instruction, reads

RETURNED = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float32", "float64", "bool")


def unknown(machine: Machine, name: str, args: tuple[Lanes, ...], source_code: str) -> Lanes:
    """Stop the kernel: the simulator cannot run foreign code."""
    machine.fault(f"`{name}` is CUDA C++, which the simulator cannot run", machine.active)
    raise AssertionError("a fault stops the kernel")


def _form(returned: tuple[str, ...], result: str) -> Form:
    return Form(
        Cuda("{name}({args})", {"return_type": dict.fromkeys(returned, "")}, helper="source_code"),
        since("sm_75"),
        'CUDA C++ Programming Guide, "Function Execution Space Specifiers"',
        Meaning(unknown, on="machine"),
        result=result or VOID,
    )


instruction(
    "cuda.func_call",
    keywords={"source_code": REQUIRED, "return_type": "void"},
    operands=(reads("name", "symbol"), reads("*args", "value"), reads("source_code", "symbol")),
    doc="Calls a function of CUDA C++ whose text is ``source_code``; float16 and its like come as their bits.",
    forms=(_form(("void",), ""), _form(RETURNED, "return_type")),
)
