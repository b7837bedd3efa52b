"""m-barriers: threads that arrive for the last time, arrivals that end no phase, and what a state says.

Source: PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier".
"""

from __future__ import annotations

import numpy as np

from tilewright.isa.arch import since
from tilewright.isa.machine import Lanes, Machine
from tilewright.isa.mbarrier import (
    CHANGE,
    ORDERED,
    OWN,
    PTR,
    SOURCE,
    STATE,
    arrivals,
    changed,
    check_constants,
    within,
)
from tilewright.isa.mbarrier_state import announced_and_dropped, arrived, dropped, phase_state
from tilewright.isa.table import GIVEN, LEFT_OUT, Form, Meaning, Ptx, Signal, counts, instruction

__all__: list[str] = []


def drop_once(machine: Machine, address: Lanes) -> Lanes:
    """The last arrival of a thread; returns the state before it, which names the phase."""
    return changed(machine, address, dropped, np.ones(address.shape, np.uint64))


def drop(machine: Machine, address: Lanes, count: Lanes) -> Lanes:
    """``count`` last arrivals; returns the state before them, which names the phase."""
    within(machine, "count", count)
    return changed(machine, address, dropped, count)


def drop_expecting(machine: Machine, address: Lanes, nbytes: Lanes) -> Lanes:
    """Announces ``nbytes``, then arrives for the last time; returns the state before, which names the phase."""
    within(machine, "bytes", nbytes)
    return changed(machine, address, announced_and_dropped, nbytes)


def _unfinished(machine: Machine, before: Lanes, after: Lanes) -> Lanes:
    ended = machine.active & (phase_state(after).phase != phase_state(before).phase)
    if ended.any():
        machine.fault("an arrival with .noComplete ends the phase", ended)
    return before


def arrive_within(machine: Machine, address: Lanes, count: Lanes) -> Lanes:
    """``count`` arrivals, which must not end the phase; returns the state before them."""
    within(machine, "count", count)
    before = changed(machine, address, arrived, count)
    return _unfinished(machine, before, arrived(before, count))


def drop_within(machine: Machine, address: Lanes, count: Lanes) -> Lanes:
    """``count`` last arrivals, which must not end the phase; returns the state before them."""
    within(machine, "count", count)
    before = changed(machine, address, dropped, count)
    return _unfinished(machine, before, dropped(before, count))


def pending_of(state: Lanes) -> Lanes:
    """How many arrivals were pending when an arrival returned ``state``."""
    return phase_state(state).pending.astype(np.uint32)


instruction(
    "ptx.mbarrier.arrive_drop",
    params=("ptr",),
    keywords={"count": None, **ORDERED},
    operands=(PTR, counts("count")),
    check=check_constants,
    doc="Arrives at an m-barrier for the last time: later phases wait for ``count`` arrivals less.",
    forms=(
        *arrivals("arrive_drop", drop_once, "", "sm_80", {"count": LEFT_OUT}),
        *arrivals("arrive_drop", drop, ", {count}", "sm_90", {"count": GIVEN}),
    ),
)
instruction(
    "ptx.mbarrier.arrive_drop.expect_tx",
    params=("ptr", "bytes"),
    keywords=ORDERED,
    operands=(PTR, counts("bytes")),
    check=check_constants,
    doc="Announces ``bytes`` to an m-barrier, then arrives for the last time; returns its state before.",
    forms=tuple(arrivals("arrive_drop.expect_tx", drop_expecting, ", {bytes}", "sm_90")),
)
for _name, _execute in (("arrive", arrive_within), ("arrive_drop", drop_within)):
    instruction(
        f"ptx.mbarrier.{_name}.no_complete",
        params=("ptr", "count"),
        keywords={"space": "shared"},
        operands=(PTR, counts("count")),
        pattern="{result}, [{ptr}], {count}",
        check=check_constants,
        doc="Arrives ``count`` times; ending the phase is an error. Returns the m-barrier's state before.",
        forms=(
            Form(
                Ptx(f"mbarrier.{_name}.noComplete{{space}}.b64", {"space": OWN}),
                since("sm_80"),
                SOURCE.format(_name),
                Meaning(_execute, on="machine"),
                effects=(*CHANGE, Signal("ptr", "arrive", "release", "cta")),
                result=STATE,
            ),
        ),
    )
instruction(
    "ptx.mbarrier.pending_count",
    params=("state",),
    operands=(counts("state", "b64"),),
    pattern="{result}, {state}",
    doc="How many arrivals were pending when an arrival gave ``state``.",
    forms=(
        Form(
            Ptx("mbarrier.pending_count.b64"),
            since("sm_80"),
            SOURCE.format("pending_count"),
            Meaning(pending_of),
            result=lambda mods: "u32",
        ),
    ),
)
