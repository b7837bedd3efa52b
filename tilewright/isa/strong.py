"""ld and st: one access of memory, weak as a plain load or store, or strong, with which threads may synchronise.

A strong access names its scope: the threads whose strong accesses of the same bytes are atomic with it. ``release``
publishes what the thread has done before, ``acquire`` takes over what the writer of the value released, ``relaxed``
does neither. ``volatile`` and ``mmio`` are relaxed at system scope. Source: PTX ISA, "Data Movement and Conversion
Instructions: ld, st" and "Memory Consistency Model".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from tilewright.dtypes import VOID
from tilewright.dtypes import dtype as named
from tilewright.isa.effects import Count
from tilewright.isa.machine import Lanes, Memory
from tilewright.isa.places import (
    DEVICE,
    GENERIC,
    NO_SCOPE,
    SCOPES,
    Scopes,
    SpaceReach,
    check_place,
    everywhere,
    nbytes,
    newer,
    scope_of,
    sem_of,
)
from tilewright.isa.table import Access, Form, Meaning, Ptx, Spellings, instruction, reads, writes

SOURCE = 'PTX ISA, "Data Movement and Conversion Instructions: {}"'

DTYPES: Spellings = {
    **dict.fromkeys(("int8", "uint8"), ".b8"),
    **dict.fromkeys(("int16", "uint16", "float16", "bfloat16"), ".b16"),
    **dict.fromkeys(("int32", "uint32", "float32"), ".b32"),
    **dict.fromkeys(("int64", "uint64", "float64"), ".b64"),
}
MMIO: Spellings = {"mmio": ".mmio.relaxed.sys"}


def load(memory: Memory, address: Lanes, *, dtype: str) -> Lanes:
    """The element at each address."""
    kind = named(dtype)
    return memory.rows(address, kind.bits // 8).view(kind.numpy)[..., 0]


def store(memory: Memory, address: Lanes, value: Lanes) -> None:
    """Writes the element at each address."""
    values = np.broadcast_to(value, np.broadcast_shapes(value.shape, address.shape))
    memory.store_rows(address, np.ascontiguousarray(values)[..., None].view(np.uint8))


def load_vector(memory: Memory, address: Lanes, *, num: int, bits: int) -> Lanes:
    """The words from each address on, the first in the first register."""
    return np.moveaxis(memory.rows(address, num * bits // 8).view(f"u{bits // 8}"), -1, -2)


def store_vector(memory: Memory, address: Lanes, registers: Lanes) -> None:
    """Writes the registers one behind the other."""
    words = np.ascontiguousarray(np.moveaxis(registers, -2, -1))
    memory.store_rows(address, words.view(np.uint8))


def _orders(ordered: str) -> Iterator[tuple[Spellings, SpaceReach, Scopes]]:
    """Every way to access memory: the modifier ``sem``, the memory and the scopes."""
    for reach, scopes in everywhere(NO_SCOPE):
        yield {"weak": ".weak", "volatile": ".volatile"}, reach, scopes
    for reach, scopes in everywhere(SCOPES):
        yield {"relaxed": ".relaxed", ordered: f".{ordered}"}, reach, scopes
    for reach, scopes in everywhere(NO_SCOPE, (GENERIC, DEVICE)):
        yield MMIO, reach, scopes


class Width(NamedTuple):
    """What one access moves. element_bytes: of each of several accesses of their own, 0 for one."""

    text: str = "{dtype}"
    size: Count = nbytes
    element_bytes: int = 0
    registers: int = 1


ONE = Width()


def _forms(name: str, ordered: str, meaning: Meaning, width: Width = ONE) -> Iterator[Form]:
    """An access for each memory, order and scope."""
    write, kinds = name == "st", {"dtype": DTYPES} if width.size is nbytes else {}
    for orders, reach, scopes in _orders(ordered):
        if width.element_bytes and orders is MMIO:  # which no vector is
            continue
        yield Form(
            Ptx(
                f"{name}{{sem}}{{scope}}{{space}}{width.text}",
                {"sem": orders, "scope": scopes.spellings, "space": reach.spellings, **kinds},
            ),
            newer(reach.first, scopes.first),
            SOURCE.format(name),
            replace(meaning, on=reach.on),
            effects=(
                Access(
                    *("ptr", reach.space, width.size),
                    write=write,
                    sem=sem_of,
                    scope=scope_of,
                    element_bytes=width.element_bytes,
                ),
            ),
            registers=width.registers,
            result=VOID if write or not kinds else "dtype",
        )


ORDERED = {"sem": "weak", "scope": None, "space": None}

instruction(
    "ptx.ld",
    keywords={**ORDERED, "dtype": None},
    operands=(reads("ptr", "place"),),
    check=check_place,
    doc="The element that ``ptr`` points to, of its buffer's dtype or of ``dtype``; strong unless ``sem`` is weak.",
    forms=tuple(_forms("ld", "acquire", Meaning(load, passes=("dtype",)))),
)
instruction(
    "ptx.st",
    keywords=ORDERED,
    operands=(reads("ptr", "place"), reads("value", "typed")),
    check=check_place,
    doc="Stores ``value`` as an element of the buffer that ``ptr`` points into; strong unless ``sem`` is weak.",
    forms=tuple(_forms("st", "release", Meaning(store))),
)
# Several registers: how many bits each has, what an access moves, how a load and a store are written, what that is.
WIDE = "{{{{ .reg .b128 q; {} }}}}"
SEVERAL = {
    **{
        f"v{num}": (
            *(32, Width(f".v{num}.b32", 4 * num, 4, num), "{r}, [{ptr}]", "[{ptr}], {r}"),
            f"{num} registers of 32 bits {{}} where ``ptr`` points; each is an access of its own.",
        )
        for num in (2, 4)
    },
    "b128": (
        *(64, Width(".b128", 16, 0, 2), WIDE.format("{mnemonic} q, [{ptr}]; mov.b128 {r}, q;")),
        WIDE.format("mov.b128 q, {r}; {mnemonic} [{ptr}], q;"),
        "One element of 128 bits {} where ``ptr`` points, the low half in the first of two registers.",
    ),
}
for _name, (_bits, _width, _loading, _storing, _doc) in SEVERAL.items():
    instruction(
        f"ptx.ld.{_name}",
        params=("ptr", "*r"),
        keywords=ORDERED,
        operands=(writes("*r", f"b{_bits}"), reads("ptr", "place")),
        pattern=_loading,
        check=check_place,
        doc=_doc.format("from"),
        forms=tuple(_forms("ld", "acquire", Meaning(partial(load_vector, num=_width.registers, bits=_bits)), _width)),
    )
    instruction(
        f"ptx.st.{_name}",
        keywords=ORDERED,
        operands=(reads("ptr", "place"), reads("*r", f"b{_bits}")),
        pattern=_storing,
        check=check_place,
        doc=_doc.format("to"),
        forms=tuple(_forms("st", "release", Meaning(store_vector), _width)),
    )
