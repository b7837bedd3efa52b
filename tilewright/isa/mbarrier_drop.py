"""m-barriers: threads that arrive for the last time, arrivals that end no phase, and what a state says.

Source: PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier".
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from tilewright.isa.arch import since
from tilewright.isa.effects import read_and_written
from tilewright.isa.machine import Lanes, Machine
from tilewright.isa.mbarrier import (
    PTR,
    SOURCE,
    STATE,
    arrival_rows,
    changed,
    check_constants,
    within,
)
from tilewright.isa.mbarrier_state import announced_and_dropped, arrived, dropped, phase_state
from tilewright.isa.places import OWN
from tilewright.isa.table import Meaning, Ptx, Signal, counts, single


def unending(change: Callable[[Lanes, Lanes], Lanes], machine: Machine, address: Lanes, count: Lanes) -> Lanes:
    """``count`` arrivals of a kind, which must not end the phase; returns the state before them."""
    within(machine, "count", count)
    before = changed(machine, address, change, count)
    ended = machine.active & (phase_state(change(before, count)).phase != phase_state(before).phase)
    if ended.any():
        machine.fault("an arrival with .noComplete ends the phase", ended)
    return before


def pending_of(state: Lanes) -> Lanes:
    """How many arrivals were pending when an arrival returned ``state``."""
    return phase_state(state).pending.astype(np.uint32)


arrival_rows(
    "arrive_drop",
    dropped,
    announced_and_dropped,
    "Arrives at an m-barrier for the last time: later phases wait for ``count`` arrivals less.",
    "Announces ``bytes`` to an m-barrier, then arrives for the last time; returns its state before.",
)
for _name, _change, _last in (("arrive", arrived, ""), ("arrive_drop", dropped, " for the last time")):
    single(
        f"ptx.mbarrier.{_name}.no_complete",
        Ptx(f"mbarrier.{_name}.noComplete{{space}}.b64", {"space": OWN}),
        since("sm_80"),
        SOURCE.format(_name),
        Meaning(partial(unending, _change), on="machine"),
        keywords={"space": "shared"},
        operands=(PTR, counts("count")),
        check=check_constants,
        doc=f"Arrives ``count`` times{_last}; ending the phase is an error. Returns the m-barrier's state before.",
        effects=(*read_and_written("ptr", "shared", 8, scope="cta"), Signal("ptr", "arrive", "release", "cta")),
        result=STATE,
    )
single(
    "ptx.mbarrier.pending_count",
    Ptx("mbarrier.pending_count.b64"),
    since("sm_80"),
    SOURCE.format("pending_count"),
    Meaning(pending_of),
    operands=(counts("state", "b64"),),
    doc="How many arrivals were pending when an arrival gave ``state``.",
    result=lambda mods: "u32",
)
