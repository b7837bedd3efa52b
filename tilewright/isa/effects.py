"""What a form does besides computing: the bytes it touches, whom it meets, what it signals, and what it leaves behind.

The checks of the simulator read these; `execute` alone would not tell them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from tilewright.ir import Argument

__all__ = [
    "SCOPES",
    "SEMS",
    "Access",
    "Async",
    "Count",
    "Fence",
    "Mods",
    "ProxyFence",
    "Signal",
    "Sync",
    "Word",
    "read_and_written",
]

Mods = Mapping[str, Argument]
Count = int | Callable[[Mods], int]
Word = str | Callable[[Mods], str]

# How strong an access is, see PTX ISA, "Memory Consistency Model".
SEMS = ("weak", "relaxed", "acquire", "release", "acq_rel", "volatile")
SCOPES = ("cta", "cluster", "gpu", "sys")


@dataclass(frozen=True, slots=True)
class Access:
    """Bytes that a form touches through one operand: what bounds, alignment, race and bank checks look at.

    operand: the address. nbytes: per address. lanes: how many lanes' addresses count, lane 0 first (32: all active).
    space: shared, global or generic (from what the pointer points into). phase_lanes: lanes served together by shared
    memory (0: from the width: 32 for 4 bytes, 16 for 8, 8 for 16).
    sem: a key of `SEMS`. scope: of a strong access, a key of `SCOPES`. rmw: reads and writes, with nobody in between.
    element_bytes: of each operation that a vector consists of (0: it is one).
    """

    operand: str
    space: str
    nbytes: Count
    write: bool
    lanes: Count = 32
    phase_lanes: int = 0
    sem: Word = "weak"
    scope: Word = ""
    rmw: bool = False
    element_bytes: Count = 0


def read_and_written(
    operand: str, space: str, nbytes: Count, *, sem: Word = "relaxed", scope: Word = "gpu"
) -> tuple[Access, Access]:
    """What an atomic touches: it reads a place and writes it, with nobody in between."""
    read = Access(operand, space, nbytes, write=False, sem=sem, scope=scope, rmw=True)
    return read, replace(read, write=True)


@dataclass(frozen=True, slots=True)
class Fence:
    """A form that orders the thread's accesses before it against those after it, as the threads of ``scope`` see them.

    sem: sc, acq_rel, acquire or release. only: the sole thing that it orders; "mbarrier.init" for m-barriers' making.
    """

    sem: Word
    scope: Word
    only: str = ""


@dataclass(frozen=True, slots=True)
class ProxyFence:
    """A form that orders accesses through the generic proxy against those through another one.

    proxy: async, tensormap or tmem (which no proxy is, but is put in order in the same way). space: global,
    shared::cta or shared::cluster, where that alone is ordered. side: "both", or "release" and "acquire" for a pair
    with a meeting in between. scope: of one of a pair that has one.
    """

    proxy: str
    space: Word = ""
    side: Word = "both"
    scope: Word = ""


@dataclass(frozen=True, slots=True)
class Sync:
    """A form that threads meet at. Barriers have no `execute`: the simulator keeps the meeting.

    scope: warp, warpgroup, cta, named, cluster, or "poll": each thread waits for itself until the form's `execute` is
    true for it. arrive_only: goes on without waiting. wait_only: waits for the meeting at which the thread has arrived.
    orders: publishes what the thread has done to those who wait; false for a relaxed arrival. barrier, threads: the
    operands that name a barrier and count the threads that meet (none: barrier 0, all threads of the scope).
    """

    scope: str
    arrive_only: bool = False
    wait_only: bool = False
    orders: bool = True
    barrier: str = ""
    threads: str = ""


@dataclass(frozen=True, slots=True)
class Signal:
    """What a form does to the m-barrier at the address ``barrier``, an operand.

    kind: "init" and "inval" make and end it; "arrive" counts at it, and publishes what the thread has done where sem is
    release; "wait" takes over what those who arrived have published, in the lanes where `execute` is true, where sem is
    acquire; "bytes" counts bytes. sem: release, acquire or relaxed. scope: of it.
    """

    barrier: str
    kind: str
    sem: str = "relaxed"
    scope: Word = "cta"


@dataclass(frozen=True, slots=True)
class Async:
    """How a form goes on after it was issued.

    group: what is tracked together: "tmem" (tcgen05.cp, shift and mma of a thread), "tmem.load", "tmem.store" (of
    a warp). role: "issue": the operation joins the group; its `execute` takes place later, at the latest when the group
    is waited for, and from issue to completion its destination is in flight and its source held. "commit": `execute`
    takes place once all that the thread issued to the group before is complete. "wait": the thread goes on once the
    group of its warp is empty. in_order_after: instructions whose operations come first without anyone's waiting, where
    the same thread has issued both.
    """

    group: str
    role: str = "issue"
    in_order_after: tuple[str, ...] = ()
