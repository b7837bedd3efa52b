"""Atomics: a place is read, combined and written back as one access; the call's value is the one before.

Lanes with the same address go one after the other: here lane 0 first, on hardware in any order. All are relaxed at
``gpu`` scope: they order nothing else; `tilewright.isa.atomics` has those that do. Source: CUDA C++ Programming Guide,
"Atomic Functions".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from tilewright.dtypes import VOID, dtype
from tilewright.isa.arch import since
from tilewright.isa.effects import Count, read_and_written
from tilewright.isa.machine import Lanes, Memory
from tilewright.isa.places import SCOPES, check_place, everywhere, nbytes, newer, scope_of, sem_of
from tilewright.isa.table import Cuda, Form, Meaning, Ptx, Spellings, instruction, reads, spoken, writes

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

# atom and red: a place is read, combined with a value and written back as one atomic access.
#
# Both have an order and a scope, as loads and stores have. ``atom`` gives the value before, ``red`` gives none and so
# never acquires. Words of 128 bits are two registers of 64, low and high; the value before goes to two more. Lanes
# with the same address go one after the other: here lane 0 first, on hardware in any order. CUDA's functions,
# `tilewright.isa.atomics`, are ``relaxed`` at ``gpu`` scope. Source: PTX ISA, "Parallel Synchronization and
# Communication Instructions: atom, red".

ATOM_SOURCE = 'PTX ISA, "Parallel Synchronization and Communication Instructions: {}"'

UNSIGNED: Spellings = {"uint32": ".u32", "uint64": ".u64"}
SIGNED: Spellings = {"int32": ".s32", "int64": ".s64"}
SUMS: Spellings = {**UNSIGNED, "int32": ".s32", "int64": ".u64", "float32": ".f32", "float64": ".f64"}
ATOM_HALF: Spellings = {"float16": ".noftz.f16"}
BRAIN: Spellings = {"bfloat16": ".noftz.bf16"}
BITS: Spellings = {**dict.fromkeys(("int32", "uint32"), ".b32"), **dict.fromkeys(("int64", "uint64"), ".b64")}
FLOAT_BITS: Spellings = {"float32": ".b32", "float64": ".b64"}
SHORTS: Spellings = dict.fromkeys(("int16", "uint16"), ".b16")


def incremented(old: Lanes, bound: Lanes) -> Lanes:
    """``old + 1``, or 0 where ``old`` is ``bound`` or more."""
    return np.where(old >= bound, np.zeros_like(old), old + np.ones_like(old))


def decremented(old: Lanes, bound: Lanes) -> Lanes:
    """``old - 1``, or ``bound`` where ``old`` is 0 or more than ``bound``."""
    return np.where((old == 0) | (old > bound), bound, old - np.ones_like(old))


def of_pairs(kind: str) -> Callable[[Lanes, Lanes], Lanes]:
    """Adds the two halves of 32-bit words separately."""
    numbers = dtype(kind).numpy

    def added(old: Lanes, value: Lanes) -> Lanes:
        halves = np.ascontiguousarray(old).view(numbers) + np.ascontiguousarray(value).view(numbers)
        return halves.view(np.uint32)

    return added


class AtomicOperation(NamedTuple):
    """What is done to places of some dtypes; of others from a later architecture on. reduces: does ``red`` have it?"""

    does: Combination
    kinds: Spellings
    later: tuple[tuple[Spellings, str], ...] = ()
    first: str = "sm_75"
    reduces: bool = True


OPERATIONS = {
    "add": AtomicOperation(COMBINATIONS["add"], {**SUMS, **ATOM_HALF}, ((BRAIN, "sm_90"),)),
    **{name: AtomicOperation(COMBINATIONS[name], {**UNSIGNED, **SIGNED}) for name in ("min", "max")},
    **{name: AtomicOperation(COMBINATIONS[name], BITS) for name in ("and", "or", "xor")},
    "exch": AtomicOperation(COMBINATIONS["exch"], {**BITS, **FLOAT_BITS}, reduces=False),
    "cas": AtomicOperation(COMBINATIONS["cas"], {**BITS, **SHORTS}, reduces=False),
    "inc": AtomicOperation(Combination("Counts up to `value`, then from 0 again", incremented), {"uint32": ".u32"}),
    "dec": AtomicOperation(Combination("Counts down to 0, then from `value` again", decremented), {"uint32": ".u32"}),
    "add.f16x2": AtomicOperation(
        Combination("Adds the two float16 of 32 bits, each an access of its own", of_pairs("float16")),
        {"uint32": ".noftz.f16x2"},
    ),
    "add.bf16x2": AtomicOperation(
        Combination("Adds the two bfloat16 of 32 bits, each an access of its own", of_pairs("bfloat16")),
        {"uint32": ".noftz.bf16x2"},
        first="sm_90",
    ),
}
ORDERS = {"atom": ("relaxed", "acquire", "release", "acq_rel"), "red": ("relaxed", "release")}
MORE = {"atom": "; returns the old value.", "red": "; returns nothing."}
KEYWORDS = {"sem": "relaxed", "scope": "gpu", "space": None}


def _atom_forms(
    name: str,
    text: str,
    does: Combination,
    first: str,
    kinds: Mapping[str, Spellings],
    execute: Callable[..., Lanes | None],
    nbytes: Count,
    **fields: Any,
) -> Iterator[Form]:
    """A form for each memory and scope. kinds: modifiers beside these; fields: others of `Form`."""
    orders = {order: f".{order}" for order in ORDERS[name]}
    for reach, scopes in everywhere(SCOPES):
        yield Form(
            Ptx(
                f"{name}{{sem}}{{scope}}{{space}}.{text}",
                {"sem": orders, "scope": scopes.spellings, "space": reach.spellings, **kinds},
            ),
            newer(first, reach.first, scopes.first),
            ATOM_SOURCE.format(name),
            Meaning(execute, on=reach.on),
            read_and_written("ptr", reach.space, nbytes, sem=sem_of, scope=scope_of, compares=does.compares),
            **fields,
        )


def _word_forms(name: str, operation: str, what: AtomicOperation) -> Iterator[Form]:
    def execute(memory: Memory, address: Lanes, *values: Lanes) -> Lanes | None:
        olds = memory.atomic(address, what.does.combine, *values)
        return olds if name == "atom" else None

    text = f"{operation.partition('.')[0]}{{dtype}}"
    result = what.does.values[-1] if name == "atom" else VOID
    for kinds, first in ((what.kinds, what.first), *what.later):
        yield from _atom_forms(name, text, what.does, first, {"dtype": kinds}, execute, nbytes, result=result)


for _name in ORDERS:
    for _operation, _what in OPERATIONS.items():
        if _what.reduces or _name == "atom":
            instruction(
                f"ptx.{_name}.{spoken(_operation)}",
                keywords=KEYWORDS,
                operands=(reads("ptr", "place"), *(reads(_value, "typed") for _value in _what.does.values)),
                check=check_place,
                doc=f"{_what.does.doc}{MORE[_name]}",
                forms=tuple(_word_forms(_name, _operation, _what)),
                hints=("L2::cache_hint",),
            )

# 128 bits, which registers hold in halves.
WIDE = np.dtype([("low", np.uint64), ("high", np.uint64)])
TEXT = "{{{{ .reg .b128 old, {made}; {moves} {{mnemonic}} old, [{{ptr}}], {made}; mov.b128 {{old}}, old; }}}}"
MOVE = "mov.b128 {0}, {{{{{{{0}_low}}, {{{0}_high}}}}}};"


def _wide(combine: Callable[..., Lanes]) -> Callable[..., Lanes]:
    def execute(memory: Memory, address: Lanes, *halves: Lanes) -> Lanes:
        """The two halves of the value before. halves: low and high of each operand."""
        words = np.zeros((len(halves) // 2, *np.broadcast_shapes(*(half.shape for half in halves))), WIDE)
        for k, half in enumerate(halves):
            words[("low", "high")[k % 2]][k // 2] = half
        olds = memory.atomic(address, combine, *words)
        return np.stack((olds["low"], olds["high"]), axis=-2)

    return execute


for _operation in ("exch", "cas"):
    _does = COMBINATIONS[_operation]
    _halves = tuple(f"{_value}_{_half}" for _value in _does.values for _half in ("low", "high"))
    instruction(
        f"ptx.atom.{_operation}.b128",
        keywords=KEYWORDS,
        operands=(reads("ptr", "place"), *(reads(_half, "b64") for _half in _halves), writes("*old", "b64")),
        pattern=TEXT.format(made=", ".join(_does.values), moves=" ".join(map(MOVE.format, _does.values))),
        check=check_place,
        doc=f"{_does.doc}, 16 bytes; the two registers `old` get what stood there.",
        forms=tuple(
            _atom_forms("atom", f"{_operation}.b128", _does, "sm_90", {}, _wide(_does.combine), nbytes=16, registers=2)
        ),
    )
