"""Atomics: a place is read, combined and written back as one access; the call's value is the one before.

Lanes with the same address go one after the other: here lane 0 first, on hardware in any order. All are relaxed at
``gpu`` scope: they order nothing else; `tilewright.isa.atom_red` has those that do. Source: CUDA C++ Programming Guide,
"Atomic Functions".
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilewright.dtypes import dtype
from tilewright.isa.arch import since
from tilewright.isa.effects import read_and_written
from tilewright.isa.machine import Lanes, Memory
from tilewright.isa.table import Cuda, Form, Meaning, Mods, instruction, reads

__all__ = ["compared", "exchanged"]

SOURCE = 'CUDA C++ Programming Guide, "Atomic Functions"'

# dtype -> the C type that CUDA has the function for; where only the bits matter, signed 64 goes as unsigned.
WORDS = {"int32": "int", "uint32": "unsigned int"}
UNSIGNED64 = {"uint64": "unsigned long long"}
SIGNED64 = {"int64": "long long"}
BITS64 = {"int64": "unsigned long long"}
FLOATS = {"float32": "float", "float64": "double"}

PLAIN = "{builtin}(({{dtype}}*)({{ptr}}){values})"
AS_BITS = "(long long){builtin}(({{dtype}}*)({{ptr}}){values})"
NEGATED = "atomicAdd(({{dtype}}*)({{ptr}}), -({{dtype}})({{value}}))"
NEGATED_BITS = f"(long long){NEGATED}"


# Halves have no function without a header; their bits come and go as unsigned short.
HALF = """\
__device__ __forceinline__ unsigned short tw_atomic_add_{name}(void* place, unsigned short value) {{
  unsigned short old;
  asm volatile("atom.add.noftz.{name} %0, [%1], %2;" : "=h"(old) : "l"(place), "h"(value) : "memory");
  return old;
}}
"""
HALVES = {"float16": ("f16", "sm_75"), "bfloat16": ("bf16", "sm_90")}


def _nbytes(mods: Mods) -> int:
    return dtype(str(mods["dtype"])).bits // 8


PLACE = read_and_written("ptr", "generic", _nbytes)


def exchanged(old: Lanes, value: Lanes) -> Lanes:
    """The new value, whatever the old one is: an exchange."""
    return value


def compared(old: Lanes, expected: Lanes, value: Lanes) -> Lanes:
    """The new value where the old one is the expected one, else the old one: compare and swap."""
    return np.where(old == expected, value, old)


def _atomic_row(
    name: str,
    builtin: str,
    texts: dict[str, dict[str, str]],
    combine: Callable[..., Lanes],
    doc: str,
    values: tuple[str, ...] = ("value",),
    more: tuple[Form, ...] = (),
) -> None:
    """One row: ``T.cuda.<name>(ptr, *values)``; texts: how it is written, for which dtypes in which C type."""

    def execute(memory: Memory, address: Lanes, *operands: Lanes) -> Lanes:
        return memory.atomic(address, combine, *operands)

    arguments = "".join(f", ({{dtype}})({{{value}}})" for value in values)
    instruction(
        f"cuda.{name}",
        operands=(reads("ptr", "generic"), *(reads(value, "typed") for value in values)),
        doc=f"{doc}; relaxed at gpu scope; returns the old value.",
        forms=tuple(
            Form(
                Cuda(text.format(builtin=builtin, values=arguments), {"dtype": kinds}),
                since("sm_75"),
                SOURCE,
                Meaning(execute, on="memory"),
                effects=read_and_written("ptr", "generic", _nbytes, compares=combine is compared),
                result=values[-1],
            )
            for text, kinds in texts.items()
        )
        + more,
    )


_BITWISE = {PLAIN: {**WORDS, **UNSIGNED64}, AS_BITS: BITS64}
_ORDERED = {PLAIN: {**WORDS, **UNSIGNED64, **SIGNED64}}

_atomic_row(
    "atomic_add",
    "atomicAdd",
    {PLAIN: {**WORDS, **UNSIGNED64, **FLOATS}, AS_BITS: BITS64},
    np.add,
    "Adds `value` to what `ptr` points to",
    more=tuple(
        Form(
            Cuda(
                "{dtype}((void*)({ptr}), {value})",
                {"dtype": {kind: f"tw_atomic_add_{name}"}},
                helper=HALF.format(name=name),
            ),
            since(first),
            'PTX ISA, "Parallel Synchronization and Communication Instructions: atom"',
            Meaning(lambda memory, address, value: memory.atomic(address, np.add, value), on="memory"),
            effects=(*PLACE,),
            result="value",
        )
        for kind, (name, first) in HALVES.items()
    ),
)
_atomic_row(
    "atomic_sub",
    "atomicSub",
    {PLAIN: WORDS, NEGATED: {**UNSIGNED64, **FLOATS}, NEGATED_BITS: BITS64},
    np.subtract,
    "Subtracts `value` from what `ptr` points to",
)
_atomic_row("atomic_min", "atomicMin", _ORDERED, np.minimum, "Keeps the smaller of `value` and what `ptr` points to")
_atomic_row("atomic_max", "atomicMax", _ORDERED, np.maximum, "Keeps the larger of `value` and what `ptr` points to")
_atomic_row("atomic_and", "atomicAnd", _BITWISE, np.bitwise_and, "Bitwise and of `value` and what `ptr` points to")
_atomic_row("atomic_or", "atomicOr", _BITWISE, np.bitwise_or, "Bitwise or of `value` and what `ptr` points to")
_atomic_row(
    "atomic_xor", "atomicXor", _BITWISE, np.bitwise_xor, "Bitwise exclusive or of `value` and what `ptr` points to"
)
_atomic_row(
    "atomic_exch",
    "atomicExch",
    {PLAIN: {**WORDS, **UNSIGNED64, "float32": "float"}, AS_BITS: BITS64},
    exchanged,
    "Stores `value`",
)
_atomic_row(
    "atomic_cas",
    "atomicCAS",
    {PLAIN: {**WORDS, **UNSIGNED64, "uint16": "unsigned short"}, AS_BITS: BITS64},
    compared,
    "Stores `value` where `compare` stands",
    values=("compare", "value"),
)
