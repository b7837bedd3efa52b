"""Atomics: a place is read, combined and written back as one access; the call's value is the one before.

Lanes with the same address go one after the other: here lane 0 first, on hardware in any order. All are relaxed at
``gpu`` scope: they order nothing else; `tilewright.isa.atom_red` has those that do. Source: CUDA C++ Programming Guide,
"Atomic Functions".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from tilewright.isa.arch import since
from tilewright.isa.effects import read_and_written
from tilewright.isa.machine import Lanes, Memory
from tilewright.isa.places import nbytes
from tilewright.isa.table import Cuda, Form, Meaning, instruction, reads

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


def exchanged(old: Lanes, value: Lanes) -> Lanes:
    """The new value, whatever the old one is: an exchange."""
    return value


def compared(old: Lanes, expected: Lanes, value: Lanes) -> Lanes:
    """The new value where the old one is the expected one, else the old one: compare and swap."""
    return np.where(old == expected, value, old)


class Combination(NamedTuple):
    """What is done to a place. combine: the new value from the old one and the operands ``values``."""

    doc: str
    combine: Callable[..., Lanes]
    values: tuple[str, ...] = ("value",)

    @property
    def compares(self) -> bool:
        """Does it write only where it finds the expected value?"""
        return self.combine is compared


COMBINATIONS = {
    "add": Combination("Adds `value` to what `ptr` points to", np.add),
    "sub": Combination("Subtracts `value` from what `ptr` points to", np.subtract),
    "min": Combination("Keeps the smaller of `value` and what `ptr` points to", np.minimum),
    "max": Combination("Keeps the larger of `value` and what `ptr` points to", np.maximum),
    "and": Combination("Bitwise and of `value` and what `ptr` points to", np.bitwise_and),
    "or": Combination("Bitwise or of `value` and what `ptr` points to", np.bitwise_or),
    "xor": Combination("Bitwise exclusive or of `value` and what `ptr` points to", np.bitwise_xor),
    "exch": Combination("Stores `value`", exchanged),
    "cas": Combination("Stores `value` where `compare` stands", compared, ("compare", "value")),
}

_BITWISE = {PLAIN: {**WORDS, **UNSIGNED64}, AS_BITS: BITS64}
_ORDERED = {PLAIN: {**WORDS, **UNSIGNED64, **SIGNED64}}
_TEXTS: dict[str, tuple[str, dict[str, dict[str, str]]]] = {  # CUDA's function; how it is written, for which dtypes
    "add": ("atomicAdd", {PLAIN: {**WORDS, **UNSIGNED64, **FLOATS}, AS_BITS: BITS64}),
    "sub": ("atomicSub", {PLAIN: WORDS, NEGATED: {**UNSIGNED64, **FLOATS}, NEGATED_BITS: BITS64}),
    "min": ("atomicMin", _ORDERED),
    "max": ("atomicMax", _ORDERED),
    "and": ("atomicAnd", _BITWISE),
    "or": ("atomicOr", _BITWISE),
    "xor": ("atomicXor", _BITWISE),
    "exch": ("atomicExch", {PLAIN: {**WORDS, **UNSIGNED64, "float32": "float"}, AS_BITS: BITS64}),
    "cas": ("atomicCAS", {PLAIN: {**WORDS, **UNSIGNED64, "uint16": "unsigned short"}, AS_BITS: BITS64}),
}


def _form(wording: Cuda, does: Combination, first: str = "sm_75", source: str = SOURCE) -> Form:
    def execute(memory: Memory, address: Lanes, *operands: Lanes) -> Lanes:
        return memory.atomic(address, does.combine, *operands)

    effects = read_and_written("ptr", "generic", nbytes, compares=does.compares)
    return Form(wording, since(first), source, Meaning(execute, on="memory"), effects, result=does.values[-1])


def _forms(name: str, does: Combination) -> Iterator[Form]:
    builtin, texts = _TEXTS[name]
    arguments = "".join(f", ({{dtype}})({{{value}}})" for value in does.values)
    for text, kinds in texts.items():
        yield _form(Cuda(text.format(builtin=builtin, values=arguments), {"dtype": kinds}), does)
    for kind, (half, first) in HALVES.items() if name == "add" else ():
        wording = Cuda(
            "{dtype}((void*)({ptr}), {value})",
            {"dtype": {kind: f"tw_atomic_add_{half}"}},
            helper=HALF.format(name=half),
        )
        source = 'PTX ISA, "Parallel Synchronization and Communication Instructions: atom"'
        yield _form(wording, does, first, source)


for _name, _does in COMBINATIONS.items():
    instruction(
        f"cuda.atomic_{_name}",
        operands=(reads("ptr", "generic"), *(reads(value, "typed") for value in _does.values)),
        doc=f"{_does.doc}; relaxed at gpu scope; returns the old value.",
        forms=tuple(_forms(_name, _does)),
    )
