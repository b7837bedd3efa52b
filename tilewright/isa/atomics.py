"""Atomics: a place is read, combined and written back as one access; the call's value is the one before. CUDA's
functions first, then ``atom`` and ``red``, of vectors and of multicast addresses too.

The call's value is the one before. Lanes with the same address go one after the other: here lane 0 first, on hardware
in any order. CUDA's functions are relaxed at ``gpu`` scope: they order nothing else; ``atom`` and ``red`` have an order
and a scope. Source: CUDA C++ Programming Guide, "Atomic Functions".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from tilewright.dtypes import VOID, dtype
from tilewright.isa.arch import since
from tilewright.isa.forms import (
    TYPES,
    WORDS,
    Access,
    Count,
    Cuda,
    Form,
    Meaning,
    Operand,
    Ptx,
    Spellings,
    read_and_written,
    reads,
    spoken,
    writes,
)
from tilewright.isa.machine import Lanes, Memory
from tilewright.isa.places import (
    EVERYWHERE,
    SCOPES,
    SpaceReach,
    check_place,
    everywhere,
    nbytes,
    newer,
    scope_of,
    sem_of,
)
from tilewright.isa.scalar.floats import arithmetic, extreme
from tilewright.isa.scalar.memory import CACHES, element_bytes, load, store, value_word
from tilewright.isa.scalar.memory import nbytes as vector_bytes
from tilewright.isa.scalar.rows import words
from tilewright.isa.table import REQUIRED, instruction

SOURCE = 'CUDA C++ Programming Guide, "Atomic Functions"'

# dtype -> the C type that CUDA has the function for; where only the bits matter, signed 64 goes as unsigned.
SHORT = {"int32": "int", "uint32": "unsigned int"}
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

_BITWISE = {PLAIN: {**SHORT, **UNSIGNED64}, AS_BITS: BITS64}
_ORDERED = {PLAIN: {**SHORT, **UNSIGNED64, **SIGNED64}}
_TEXTS: dict[str, tuple[str, dict[str, dict[str, str]]]] = {  # CUDA's function; how it is written, for which dtypes
    "add": ("atomicAdd", {PLAIN: {**SHORT, **UNSIGNED64, **FLOATS}, AS_BITS: BITS64}),
    "sub": ("atomicSub", {PLAIN: SHORT, NEGATED: {**UNSIGNED64, **FLOATS}, NEGATED_BITS: BITS64}),
    "min": ("atomicMin", _ORDERED),
    "max": ("atomicMax", _ORDERED),
    "and": ("atomicAnd", _BITWISE),
    "or": ("atomicOr", _BITWISE),
    "xor": ("atomicXor", _BITWISE),
    "exch": ("atomicExch", {PLAIN: {**SHORT, **UNSIGNED64, "float32": "float"}, AS_BITS: BITS64}),
    "cas": ("atomicCAS", {PLAIN: {**SHORT, **UNSIGNED64, "uint16": "unsigned short"}, AS_BITS: BITS64}),
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
# with the same address go one after the other. Source: PTX ISA, "Parallel Synchronization and Communication
# Instructions: atom, red".

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
    operation: Form,
    does: Combination,
    width: Count,
    reaches: tuple[SpaceReach, ...] = EVERYWHERE,
    element: Count = 0,
) -> Iterator[Form]:
    """A form for each memory and scope. operation: its words after the memory's; element: see `Access`."""
    orders = {order: f".{order}" for order in ORDERS[name]}
    text, modifiers = operation.wording.template, operation.wording.modifiers
    for reach, scopes in everywhere(SCOPES, reaches):
        accesses = read_and_written("ptr", reach.space, width, sem=sem_of, scope=scope_of, compares=does.compares)
        yield replace(
            operation,
            wording=Ptx(
                f"{name}{{sem}}{{scope}}{{space}}.{text}",
                {"sem": orders, "scope": scopes.spellings, "space": reach.spellings, **modifiers},
            ),
            arch=newer(operation.arch.first, reach.first, scopes.first),
            source=ATOM_SOURCE.format(name),
            meaning=replace(operation.meaning, on=reach.on),
            effects=tuple(replace(access, element_bytes=element) for access in accesses),
        )


def _word_forms(name: str, operation: str, what: AtomicOperation) -> Iterator[Form]:
    def execute(memory: Memory, address: Lanes, *values: Lanes) -> Lanes | None:
        olds = memory.atomic(address, what.does.combine, *values)
        return olds if name == "atom" else None

    text = f"{operation.partition('.')[0]}{{dtype}}"
    result = what.does.values[-1] if name == "atom" else VOID
    for kinds, first in ((what.kinds, what.first), *what.later):
        form = Form(Ptx(text, {"dtype": kinds}), since(first), "", Meaning(execute), result=result)
        yield from _atom_forms(name, form, what.does, nbytes)


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
            _atom_forms(
                "atom",
                Form(Ptx(f"{_operation}.b128"), since("sm_90"), "", Meaning(_wide(_does.combine)), registers=2),
                _does,
                16,
            )
        ),
    )


# Vectors: two, four or eight numbers in a row, each an operation of its own.

OF_FLOATS: Mapping[str, Callable[..., Callable[..., Any]]] = {
    "add": arithmetic("add"),
    "min": extreme("min"),
    "max": extreme("max"),
}
VECTORS: tuple[tuple[tuple[str, ...], Spellings, tuple[int, ...]], ...] = (
    (("add",), words("f32"), (2, 4)),
    (("add", "min", "max"), {word: f".noftz.{word}" for word in ("f16", "bf16")}, (2, 4, 8)),
    (("add", "min", "max"), {word: f".noftz.{word}" for word in ("f16x2", "bf16x2")}, (2, 4)),
)


def _executing(name: str) -> Callable[..., Lanes | None]:
    def execute(memory: Memory, address: Lanes, value: Lanes, *, type: str, op: str) -> Lanes | None:
        """Each number in turn; what stood there before."""
        kind = TYPES[type]
        core = OF_FLOATS[op](type=type)

        def combine(old: Lanes, new: Lanes) -> Lanes:
            numbers = (np.ascontiguousarray(value)[..., None].view(kind.numpy) for value in (old, new))
            result: Lanes = np.ascontiguousarray(core(*numbers)).view(kind.unsigned)[..., 0]
            return result

        olds = [
            memory.atomic(address + place * (kind.bits // 8), combine, np.ascontiguousarray(value[..., place, :]))
            for place in range(value.shape[-2])
        ]
        return np.stack(olds, axis=-1).view(kind.dtype.numpy) if name == "atom" else None

    return execute


def _vector_forms(name: str) -> Iterator[Form]:
    reach = SpaceReach({"global": ".global", None: ""}, "global", "memory")
    meaning = Meaning(_executing(name), passes=("type", "op"))
    result = value_word if name == "atom" else VOID
    for ops, types, lengths in VECTORS:
        for vec in lengths:
            tables = {"type": types, "vec": {vec: f".v{vec}"}, "op": {op: op for op in ops}}
            wording = Ptx("{op}{vec}{type}", tables)
            form = Form(wording, since("sm_90"), "", meaning, registers=vec, result=result)
            yield from _atom_forms(name, form, COMBINATIONS["add"], vector_bytes, (reach,), element_bytes)


for _name in ORDERS:
    _gives = "; what stood there before" if _name == "atom" else ""
    instruction(
        f"ptx.{_name}.vec",
        keywords={
            **dict.fromkeys(("op", "type", "vec"), REQUIRED),
            "space": "global",
            "sem": "relaxed",
            "scope": "gpu",
        },
        operands=(reads("ptr", "place"), Operand("value", "bits", of="type", many=True)),
        check=check_place,
        doc=f"Combines several numbers in global memory with registers, each for itself{_gives}.",
        forms=tuple(_vector_forms(_name)),
        hints=CACHES,
        written=True,
    )

# multimem: one address for a place in the memory of each GPU of a group; the switch between them copies and adds.
#
# Only these instructions take such an address, ``x.multicast()`` of a symmetric argument, and they take no other. Each
# GPU's place is accessed by itself, and the order in which places are added is not specified: this table adds them in
# the order of ranks. Where nothing else is said, sums have the precision of the elements; of halves ``.acc::f32``,
# rounded at the end. Source: PTX ISA, "Data Movement and Conversion Instructions: multimem.ld_reduce, multimem.st,
# multimem.red".


MULTIMEM = {"ld_reduce": ("relaxed", "acquire"), "st": ("relaxed", "release"), "red": ORDERS["red"]}
JOINED: Mapping[str, Spellings] = {
    "add": SUMS,
    **{op: OPERATIONS[op].kinds for op in ("min", "max", "and", "or", "xor")},
}
"""What the switch joins, by the operation."""
STORED: Spellings = {**BITS, "float32": ".f32", "float64": ".f64"}


def combined(memory: Memory, address: Lanes, *, op: str, dtype: str) -> Lanes:
    """The element of each GPU, combined."""
    every = [load(memory, at, type=WORDS[dtype]) for at in memory.replicas(address)]
    return reduce(COMBINATIONS[op].combine, every)


def stored(memory: Memory, address: Lanes, value: Lanes) -> None:
    """The value goes to each GPU."""
    for at in memory.replicas(address):
        store(memory, at, value)


def updated(memory: Memory, address: Lanes, value: Lanes, *, op: str) -> None:
    """The value is combined into the element of each GPU."""
    for at in memory.replicas(address):
        memory.atomic(at, COMBINATIONS[op].combine, value)


def _multimem_orders(name: str) -> Iterator[tuple[Spellings, Spellings]]:
    """The modifiers ``sem`` and ``scope``; a reduction is always strong."""
    if name != "red":
        yield {"weak": ".weak"}, {None: ""}
    for scopes in SCOPES:
        yield {order: f".{order}" for order in MULTIMEM[name]}, scopes.spellings


def _multimem_forms(
    name: str, text: str, tables: Mapping[str, Spellings], meaning: Meaning, **more: Any
) -> Iterator[Form]:
    """A form for each order and scope. tables: modifiers beside these; more: fields of `Form`."""
    for sems, scopes in _multimem_orders(name):
        access = Access("ptr", "global", nbytes, write=name == "st", sem=sem_of, scope=scope_of, replicated=True)
        both = replace(access, rmw=True), replace(access, rmw=True, write=True)
        yield Form(
            Ptx(f"multimem.{name}{{sem}}{{scope}}.global{text}", {"sem": sems, "scope": scopes, **tables}),
            since("sm_90"),
            'PTX ISA, "Data Movement and Conversion Instructions: multimem.ld_reduce, multimem.st, multimem.red"',
            meaning,
            effects=both if name == "red" else (access,),
            **more,
        )


POINTER = reads("ptr", "global")
WEAK = {"sem": "weak", "scope": None}


def _by_operation(name: str, meaning: Meaning, **more: Any) -> tuple[Form, ...]:
    return tuple(
        form
        for op, kinds in JOINED.items()
        for form in _multimem_forms(name, ".{op}{dtype}", {"op": {op: op}, "dtype": kinds}, meaning, **more)
    )


instruction(
    "multimem.ld_reduce",
    keywords={"op": "add", "dtype": None, **WEAK},
    operands=(POINTER,),
    doc="The elements of all GPUs at ``ptr``, combined by ``op``: add, min, max, and, or, xor.",
    forms=_by_operation("ld_reduce", Meaning(combined, on="memory", passes=("op", "dtype")), result="dtype"),
)
instruction(
    "multimem.st",
    keywords=WEAK,
    operands=(POINTER, reads("value", "typed")),
    doc="Stores ``value`` as an element of each GPU.",
    forms=tuple(_multimem_forms("st", "{dtype}", {"dtype": STORED}, Meaning(stored, on="memory"))),
)
instruction(
    "multimem.red",
    keywords={"op": "add", "sem": "relaxed", "scope": "sys"},
    operands=(POINTER, reads("value", "typed")),
    doc="Combines ``value`` by ``op`` into the element of each GPU, there as one access.",
    forms=_by_operation("red", Meaning(updated, on="memory", passes=("op",))),
)
