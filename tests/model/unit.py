"""An asynchronous unit that writes shared memory as TMA does: ``T.ptx.toy.put(place, m-barrier, value)``."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tilewright.isa import since
from tilewright.isa.machine import Addresses, Lanes, Unit
from tilewright.isa.mbarrier_state import arrived
from tilewright.isa.table import Access, AsyncMeaning, Form, Instruction, Issue, Ptx, Signal, reads

__all__ = ["PUT"]


def _word(unit: Unit, dst: Lanes, bar: Lanes, value: Lanes) -> Mapping[str, Addresses]:
    return {"dst": Addresses(dst.reshape(-1, 1))}


def _bytes(value: Lanes) -> Lanes:
    return value.astype(np.uint32).reshape(-1, 1, 1).view(np.uint8)


PUT = Instruction(
    "ptx.toy.put",
    ("dst", "bar", "value"),
    (reads("dst", "shared"), reads("bar", "shared"), reads("value", "b32")),
    (
        Form(
            Ptx("toy.put"),
            since("sm_80"),
            "a test",
            AsyncMeaning(_bytes, addresses=_word, takes=("value",)),
            effects=(
                Access("dst", "shared", 4, write=True, proxy="async", computed=True),
                Signal("bar", "arrive", "release", "cluster", arrived),
                Issue(),
            ),
        ),
    ),
)
