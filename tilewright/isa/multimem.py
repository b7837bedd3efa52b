"""multimem: one address for a place in the memory of each GPU of a group; the switch between them copies and adds.

Only these instructions take such an address, ``x.multicast()`` of a symmetric argument, and they take no other. Each
GPU's place is accessed by itself, and the order in which places are added is not specified: this table adds them in the
order of ranks. Where nothing else is said, sums have the precision of the elements; of halves ``.acc::f32``, rounded at
the end. Source: PTX ISA, "Data Movement and Conversion Instructions: multimem.ld_reduce, multimem.st, multimem.red".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import reduce
from typing import Any

from tilewright.isa.arch import since
from tilewright.isa.atomics import COMBINATIONS
from tilewright.isa.effects import Count
from tilewright.isa.machine import Lanes, Memory
from tilewright.isa.operands import WORDS
from tilewright.isa.places import SCOPES, nbytes, scope_of, sem_of
from tilewright.isa.scalar.memory import load, store
from tilewright.isa.table import Access, Form, Meaning, Ptx, Spellings, instruction, reads

FIRST = "sm_90"

INTEGERS: Spellings = {"uint32": ".u32", "int32": ".s32", "uint64": ".u64", "int64": ".s64"}
BITS: Spellings = {"uint32": ".b32", "int32": ".b32", "uint64": ".b64", "int64": ".b64"}
FLOATS: Spellings = {"float32": ".f32", "float64": ".f64"}
KINDS: Mapping[str, Spellings] = {  # by operation
    "add": {**INTEGERS, "int64": ".u64", **FLOATS},
    **dict.fromkeys(("min", "max"), INTEGERS),
    **dict.fromkeys(("and", "or", "xor"), BITS),
}
ORDERS: Mapping[str, tuple[str, ...]] = {"ld_reduce": ("relaxed", "acquire"), "st": ("relaxed", "release"),
                                         "red": ("relaxed", "release")}  # fmt: skip


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


def _orders(name: str) -> Iterator[tuple[Spellings, Spellings]]:
    """The modifiers ``sem`` and ``scope``; a reduction is always strong."""
    if name != "red":
        yield {"weak": ".weak"}, {None: ""}
    for scopes in SCOPES:
        yield {order: f".{order}" for order in ORDERS[name]}, scopes.spellings


def _forms(name: str, text: str, tables: Mapping[str, Spellings], meaning: Meaning, width: Count, **more: Any) -> Forms:
    """A form for each order and scope. tables: modifiers beside these; more: fields of `Form`."""
    for sems, scopes in _orders(name):
        access = Access("ptr", "global", width, write=name == "st", sem=sem_of, scope=scope_of, replicated=True)
        both = replace(access, rmw=True), replace(access, rmw=True, write=True)
        yield Form(
            Ptx(f"multimem.{name}{{sem}}{{scope}}.global{text}", {"sem": sems, "scope": scopes, **tables}),
            since(FIRST),
            'PTX ISA, "Data Movement and Conversion Instructions: multimem.ld_reduce, multimem.st, multimem.red"',
            meaning,
            effects=both if name == "red" else (access,),
            **more,
        )


Forms = Iterator[Form]
POINTER = reads("ptr", "global")
KEYWORDS = {"sem": "weak", "scope": None}
STRONG = {"sem": "relaxed", "scope": "sys"}


def _by_operation(name: str, meaning: Meaning, **more: Any) -> tuple[Form, ...]:
    return tuple(
        form
        for op, kinds in KINDS.items()
        for form in _forms(name, ".{op}{dtype}", {"op": {op: op}, "dtype": kinds}, meaning, nbytes, **more)
    )


instruction(
    "multimem.ld_reduce",
    keywords={"op": "add", "dtype": None, **KEYWORDS},
    operands=(POINTER,),
    doc="The elements of all GPUs at ``ptr``, combined by ``op``: add, min, max, and, or, xor.",
    forms=_by_operation("ld_reduce", Meaning(combined, on="memory", passes=("op", "dtype")), result="dtype"),
)
instruction(
    "multimem.st",
    keywords=KEYWORDS,
    operands=(POINTER, reads("value", "typed")),
    doc="Stores ``value`` as an element of each GPU.",
    forms=tuple(_forms("st", "{dtype}", {"dtype": {**BITS, **FLOATS}}, Meaning(stored, on="memory"), nbytes)),
)
instruction(
    "multimem.red",
    keywords={"op": "add", **STRONG},
    operands=(POINTER, reads("value", "typed")),
    doc="Combines ``value`` by ``op`` into the element of each GPU, there as one access.",
    forms=_by_operation("red", Meaning(updated, on="memory", passes=("op",))),
)
