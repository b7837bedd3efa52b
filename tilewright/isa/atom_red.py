"""atom and red: a place is read, combined with a value and written back as one atomic access.

Both have an order and a scope, as `tilewright.isa.strong` has. ``atom`` gives the value before, ``red`` gives none and
so never acquires. Words of 128 bits are two registers of 64, low and high; the value before goes to two more. Lanes
with the same address go one after the other: here lane 0 first, on hardware in any order. CUDA's functions,
`tilewright.isa.atomics`, are ``relaxed`` at ``gpu`` scope. Source: PTX ISA, "Parallel Synchronization and Communication
Instructions: atom, red".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from tilewright.dtypes import VOID, dtype
from tilewright.isa.atomics import compared, exchanged
from tilewright.isa.effects import read_and_written
from tilewright.isa.machine import Lanes, Memory
from tilewright.isa.places import SCOPES, check_place, everywhere, nbytes, newer, scope_of, sem_of
from tilewright.isa.table import Form, Meaning, Operand, Ptx, Spellings, instruction, reads, writes

__all__: list[str] = []

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
    """What is done to a place. dtypes: in groups, each from an architecture on. reduces: does ``red`` have it?"""

    doc: str
    combine: Callable[..., Lanes]
    dtypes: tuple[tuple[Spellings, str], ...]
    values: tuple[str, ...] = ("value",)
    reduces: bool = True


def _since_sm_75(*spellings: Spellings) -> tuple[tuple[Spellings, str], ...]:
    return (({name: text for some in spellings for name, text in some.items()}, "sm_75"),)


OPERATIONS = {
    "add": AtomicOperation(
        "Adds `value` to what `ptr` points to", np.add, (*_since_sm_75(SUMS, HALF), (BRAIN, "sm_90"))
    ),
    "min": AtomicOperation(
        "Keeps the smaller of `value` and what `ptr` points to", np.minimum, _since_sm_75(UNSIGNED, SIGNED)
    ),
    "max": AtomicOperation(
        "Keeps the larger of `value` and what `ptr` points to", np.maximum, _since_sm_75(UNSIGNED, SIGNED)
    ),
    "and": AtomicOperation("Bitwise and of `value` and what `ptr` points to", np.bitwise_and, _since_sm_75(BITS)),
    "or": AtomicOperation("Bitwise or of `value` and what `ptr` points to", np.bitwise_or, _since_sm_75(BITS)),
    "xor": AtomicOperation(
        "Bitwise exclusive or of `value` and what `ptr` points to", np.bitwise_xor, _since_sm_75(BITS)
    ),
    "exch": AtomicOperation("Stores `value`", exchanged, _since_sm_75(BITS, FLOAT_BITS), reduces=False),
    "cas": AtomicOperation(
        "Stores `value` where `compare` stands",
        compared,
        _since_sm_75(BITS, SHORTS),
        ("compare", "value"),
        reduces=False,
    ),
    "inc": AtomicOperation("Counts up to `value`, then from 0 again", incremented, _since_sm_75({"uint32": ".u32"})),
    "dec": AtomicOperation("Counts down to 0, then from `value` again", decremented, _since_sm_75({"uint32": ".u32"})),
    "add.f16x2": AtomicOperation(
        "Adds the two float16 of 32 bits, each an access of its own",
        of_pairs("float16"),
        _since_sm_75({"uint32": ".noftz.f16x2"}),
    ),
    "add.bf16x2": AtomicOperation(
        "Adds the two bfloat16 of 32 bits, each an access of its own",
        of_pairs("bfloat16"),
        (({"uint32": ".noftz.bf16x2"}, "sm_90"),),
    ),
}
CACHE_HINTS = ("L2::cache_hint",)
ORDERS = {"atom": ("relaxed", "acquire", "release", "acq_rel"), "red": ("relaxed", "release")}
MORE = {"atom": "; returns the old value.", "red": "; returns nothing."}


def _forms(
    name: str, operation: str, combine: Callable[..., Lanes], kinds: Spellings, first: str, result: str
) -> Iterator[Form]:
    def execute(memory: Memory, address: Lanes, *values: Lanes) -> Lanes | None:
        olds = memory.atomic(address, combine, *values)
        return olds if name == "atom" else None

    orders = {order: f".{order}" for order in ORDERS[name]}
    for reach, scopes in everywhere(SCOPES):
        yield Form(
            Ptx(
                f"{name}{{sem}}{{scope}}{{space}}.{operation.partition('.')[0]}{{dtype}}",
                {"sem": orders, "scope": scopes.spellings, "space": reach.spellings, "dtype": kinds},
            ),
            newer(first, reach.first, scopes.first),
            SOURCE.format(name),
            Meaning(execute, on=reach.on),
            effects=read_and_written(
                "ptr", reach.space, nbytes, sem=sem_of, scope=scope_of, compares=combine is compared
            ),
            result=result if name == "atom" else VOID,
        )


def _row(name: str, operation: str, doc: str, values: tuple[Operand, ...], forms: Iterator[Form]) -> None:
    listed = ", ".join(f"{{{value.name}}}" for value in values)
    instruction(
        f"ptx.{name}.{operation}",
        keywords={"sem": "relaxed", "scope": "gpu", "space": None},
        operands=(reads("ptr", "place"), *values),
        pattern=f"{'{result}, ' if name == 'atom' else ''}[{{ptr}}], {listed}",
        check=check_place,
        doc=f"{doc}{MORE[name]}",
        forms=tuple(forms),
        hints=CACHE_HINTS,
    )


for _name in ORDERS:
    for _operation, _does in OPERATIONS.items():
        if _does.reduces or _name == "atom":
            _row(
                _name,
                _operation,
                _does.doc,
                tuple(reads(_value, "typed") for _value in _does.values),
                (
                    _form
                    for _kinds, _first in _does.dtypes
                    for _form in _forms(_name, _operation, _does.combine, _kinds, _first, _does.values[-1])
                ),
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
    _does = OPERATIONS[_operation]
    _halves = tuple(f"{_value}_{_half}" for _value in _does.values for _half in ("low", "high"))
    instruction(
        f"ptx.atom.{_operation}.b128",
        keywords={"sem": "relaxed", "scope": "gpu", "space": None},
        operands=(reads("ptr", "place"), *(reads(_half, "b64") for _half in _halves), writes("*old", "b64")),
        pattern=TEXT.format(made=", ".join(_does.values), moves=" ".join(map(MOVE.format, _does.values))),
        check=check_place,
        doc=f"{_does.doc}, 16 bytes; the two registers `old` get what stood there.",
        forms=tuple(
            Form(
                Ptx(
                    f"atom{{sem}}{{scope}}{{space}}.{_operation}.b128",
                    {
                        "sem": {order: f".{order}" for order in ORDERS["atom"]},
                        "scope": _scopes.spellings,
                        "space": _reach.spellings,
                    },
                ),
                newer("sm_90", _reach.first, _scopes.first),
                SOURCE.format("atom"),
                Meaning(_wide(_does.combine), on=_reach.on),
                effects=read_and_written(
                    "ptr", _reach.space, 16, sem=sem_of, scope=scope_of, compares=_does.combine is compared
                ),
                registers=2,
            )
            for _reach, _scopes in everywhere(SCOPES)
        ),
    )
