"""multimem: one address for a place in the memory of each GPU of a group; the switch between them copies and adds.

Only these instructions take such an address, `x.multicast()` of a symmetric argument, and they take no other. Each
GPU's place is accessed by itself, and the order in which places are added is not specified: this table adds them in the
order of ranks. Where nothing else is said, sums have the precision of the elements; of halves ``.acc::f32``, rounded at
the end. Source: PTX ISA, "Data Movement and Conversion Instructions: multimem.ld_reduce, multimem.st, multimem.red".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import reduce

import numpy as np

from tilewright.dtypes import VOID, dtype
from tilewright.isa.atomics import COMBINATIONS
from tilewright.isa.effects import read_and_written
from tilewright.isa.machine import Lanes, Memory
from tilewright.isa.places import SCOPES, nbytes, newer, scope_of, sem_of
from tilewright.isa.strong import load, load_vector, store, store_vector
from tilewright.isa.table import Access, Form, Meaning, Mods, Ptx, Spellings, instruction, reads, writes

SOURCE = 'PTX ISA, "Data Movement and Conversion Instructions: multimem.ld_reduce, multimem.st, multimem.red"'
FIRST = "sm_90"

INTEGERS: Spellings = {"uint32": ".u32", "int32": ".s32", "uint64": ".u64", "int64": ".s64"}
BITS: Spellings = {"uint32": ".b32", "int32": ".b32", "uint64": ".b64", "int64": ".b64"}
FLOATS: Spellings = {"float32": ".f32", "float64": ".f64"}
KINDS: Mapping[str, Spellings] = {  # by operation
    "add": {**INTEGERS, "int64": ".u64", **FLOATS},
    **dict.fromkeys(("min", "max"), INTEGERS),
    **dict.fromkeys(("and", "or", "xor"), BITS),
}
QUADS: Spellings = {"float32": ".v4.f32", "float16": ".v4.f16x2", "bfloat16": ".v4.bf16x2"}
ORDERS: Mapping[str, tuple[str, ...]] = {"ld_reduce": ("relaxed", "acquire"), "st": ("relaxed", "release"),
                                         "red": ("relaxed", "release")}  # fmt: skip


def combined(memory: Memory, address: Lanes, *, op: str, dtype: str) -> Lanes:
    """The element of each GPU, combined."""
    every = [load(memory, at, dtype=dtype) for at in memory.replicas(address)]
    return reduce(COMBINATIONS[op].combine, every)


def added_vectors(memory: Memory, address: Lanes, *, kind: str) -> Lanes:
    """Four words of each GPU, added as numbers; of halves in float32, rounded once."""
    numbers = dtype(kind).numpy
    every = [np.ascontiguousarray(load_vector(memory, at, num=4, bits=32)) for at in memory.replicas(address)]
    halves = [np.ascontiguousarray(np.moveaxis(words, -2, -1)).view(numpyless(numbers)) for words in every]
    total = reduce(np.add, [each.astype(np.float32) for each in halves]).astype(numbers)
    return np.moveaxis(np.ascontiguousarray(total).view(np.uint32), -1, -2)


def numpyless(kind: np.dtype[np.generic]) -> np.dtype[np.generic]:
    return kind


def stored(memory: Memory, address: Lanes, value: Lanes) -> None:
    """The value goes to each GPU."""
    for at in memory.replicas(address):
        store(memory, at, value)


def stored_vectors(memory: Memory, address: Lanes, registers: Lanes) -> None:
    """Four words go to each GPU."""
    for at in memory.replicas(address):
        store_vector(memory, at, registers)


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


def _forms(name: str, text: str, tables: Mapping[str, Spellings], meaning: Meaning, **fields: object) -> Iterator[Form]:
    width = fields.pop("width", nbytes)
    for sems, scopes in _orders(name):
        if name == "red":
            effects = read_and_written("ptr", "global", width, sem=sem_of, scope=scope_of)  # type: ignore[arg-type]
        else:
            effects = (Access("ptr", "global", width, write=name == "st", sem=sem_of, scope=scope_of),)  # type: ignore[arg-type,assignment]
        yield Form(
            Ptx(f"multimem.{name}{{sem}}{{scope}}.global{text}", {"sem": sems, "scope": scopes, **tables}),
            newer(FIRST),
            SOURCE,
            meaning,
            effects=tuple(replicated(each) for each in effects),
            **fields,  # type: ignore[arg-type]
        )
