"""atom and red: a place is read, combined with a value and written back as one atomic access.

Both have an order and a scope, as loads and stores have. ``atom`` gives the value before, ``red`` gives none and
so never acquires. Words of 128 bits are two registers of 64, low and high; the value before goes to two more. Lanes
with the same address go one after the other: here lane 0 first, on hardware in any order. CUDA's functions,
`tilewright.isa.atomics`, are ``relaxed`` at ``gpu`` scope. Source: PTX ISA, "Parallel Synchronization and Communication
Instructions: atom, red".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from tilewright.dtypes import VOID, dtype
from tilewright.isa.atomics import COMBINATIONS, Combination
from tilewright.isa.effects import Count, read_and_written
from tilewright.isa.machine import Lanes, Memory
from tilewright.isa.places import SCOPES, check_place, everywhere, nbytes, newer, scope_of, sem_of
from tilewright.isa.table import Form, Meaning, Ptx, Spellings, instruction, reads, spoken, writes

SOURCE = 'PTX ISA, "Parallel Synchronization and Communication Instructions: {}"'

UNSIGNED: Spellings = {"uint32": ".u32", "uint64": ".u64"}
SIGNED: Spellings = {"int32": ".s32", "int64": ".s64"}
SUMS: Spellings = {**UNSIGNED, "int32": ".s32", "int64": ".u64", "float32": ".f32", "float64": ".f64"}
HALF: Spellings = {"float16": ".noftz.f16"}
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
    "add": AtomicOperation(COMBINATIONS["add"], {**SUMS, **HALF}, ((BRAIN, "sm_90"),)),
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


def _forms(
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
            SOURCE.format(name),
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
        yield from _forms(name, text, what.does, first, {"dtype": kinds}, execute, nbytes, result=result)


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
            _forms("atom", f"{_operation}.b128", _does, "sm_90", {}, _wide(_does.combine), nbytes=16, registers=2)
        ),
    )
