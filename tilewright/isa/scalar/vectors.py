"""atom and red on vectors: two, four or eight numbers in a row, each an operation of its own.

What single words have is in `tilewright.isa.atom_red`. Source: PTX ISA, "Parallel Synchronization and Communication
Instructions: atom, red".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from tilewright.dtypes import VOID
from tilewright.isa.arch import since
from tilewright.isa.atom_red import ORDERS
from tilewright.isa.effects import read_and_written
from tilewright.isa.machine import Lanes, Memory
from tilewright.isa.operands import Operand
from tilewright.isa.places import check_place, scope_of, sem_of
from tilewright.isa.scalar.floats import arithmetic, extreme
from tilewright.isa.scalar.memory import CACHES, element_bytes, nbytes, value_word
from tilewright.isa.scalar.rows import words
from tilewright.isa.table import REQUIRED, Form, Meaning, Ptx, Spellings, instruction, reads
from tilewright.isa.types import TYPES

SOURCE = 'PTX ISA, "Parallel Synchronization and Communication Instructions: {}"'
COMBINE: dict[str, Callable[..., Callable[..., Any]]] = {
    "add": arithmetic("add"),
    "min": extreme("min"),
    "max": extreme("max"),
}
NUMBERS: tuple[tuple[tuple[str, ...], Spellings, tuple[int, ...]], ...] = (
    (("add",), words("f32"), (2, 4)),
    (("add", "min", "max"), {word: f".noftz.{word}" for word in ("f16", "bf16")}, (2, 4, 8)),
    (("add", "min", "max"), {word: f".noftz.{word}" for word in ("f16x2", "bf16x2")}, (2, 4)),
)


def _executing(name: str) -> Callable[..., Lanes | None]:
    def execute(memory: Memory, address: Lanes, value: Lanes, *, type: str, op: str) -> Lanes | None:
        """Each number in turn; what stood there before."""
        kind = TYPES[type]
        core = COMBINE[op](type=type)

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


def _forms(name: str) -> Iterator[Form]:
    for ops, types, lengths in NUMBERS:
        for vec in lengths:
            yield Form(
                Ptx(
                    f"{name}{{sem}}{{scope}}{{space}}{{op}}{{vec}}{{type}}",
                    {
                        "type": types,
                        "vec": {vec: f".v{vec}"},
                        "op": words(*ops),
                        "sem": words(*ORDERS[name]),
                        "scope": words("cta", "gpu", "sys", "cluster"),
                        "space": {"global": ".global", None: ""},
                    },
                ),
                since("sm_90"),
                SOURCE.format(name),
                Meaning(_executing(name), on="memory", passes=("type", "op")),
                effects=_accesses(),
                registers=vec,
                result=value_word if name == "atom" else VOID,
            )


def _accesses() -> tuple[Any, ...]:
    both = read_and_written("ptr", "global", nbytes, sem=sem_of, scope=scope_of)
    return tuple(replace(access, element_bytes=element_bytes) for access in both)


for _name in ORDERS:
    _gives = "; what stood there before" if _name == "atom" else ""
    instruction(
        f"ptx.{_name}.vec",
        keywords={
            "op": REQUIRED,
            "type": REQUIRED,
            "vec": REQUIRED,
            "space": "global",
            "sem": "relaxed",
            "scope": "gpu",
        },
        operands=(reads("ptr", "place"), Operand("value", "bits", of="type", many=True)),
        check=check_place,
        doc=f"Combines several numbers in global memory with registers, each for itself{_gives}.",
        forms=tuple(_forms(_name)),
        hints=CACHES,
        written=True,
    )
