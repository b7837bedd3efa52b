"""Asynchronous units that write or read a word through the async proxy, as TMA does, and then arrive at an m-barrier:
``T.ptx.toy.put(place, m-barrier, value)`` and ``T.ptx.toy.get(place, m-barrier)``, both of shared or global memory.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tilewright.isa import since
from tilewright.isa.forms import Access, AsyncMeaning, Form, Issue, Ptx, Signal, reads
from tilewright.isa.machine import Addresses, Lanes, Unit
from tilewright.isa.mbarrier import arrived
from tilewright.isa.table import Instruction

__all__ = ["UNITS"]


def _word(unit: Unit, at: Lanes, bar: Lanes, value: Lanes | None = None) -> Mapping[str, Addresses]:
    return {"at": Addresses(at.reshape(-1, 1))}


def _bytes(value: Lanes) -> Lanes:
    return value.astype(np.uint32).reshape(-1, 1, 1).view(np.uint8)


def _nothing(found: Lanes) -> tuple[()]:
    return ()


def _unit(name: str, space: str, *, write: bool) -> Instruction:
    operands = (reads("at", space), reads("bar", "shared"))
    access = Access("at", space, 4, write=write, proxy="async", computed=True)
    meaning = AsyncMeaning(_bytes if write else _nothing, addresses=_word, takes=("value",) if write else ())
    effects = (access, Signal("bar", "arrive", "release", "cluster", arrived), Issue())
    form = Form(Ptx(name.removeprefix("ptx.")), since("sm_80"), "a test", meaning, effects=effects)
    given = (*operands, reads("value", "b32")) if write else operands
    return Instruction(name, tuple(one.name for one in given), given, (form,))


UNITS = {
    name: _unit(name, space, write="put" in name)
    for name, space in (
        ("ptx.toy.put", "shared"),
        ("ptx.toy.get", "shared"),
        ("ptx.toy.put_global", "global"),
        ("ptx.toy.get_global", "global"),
    )
}
