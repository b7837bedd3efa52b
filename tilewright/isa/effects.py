"""What a form does besides computing: the bytes it touches, the threads it meets, the signals it sends, the operations
it begins.

A form has one tuple of effects, `Form.effects`. The simulator's checks, its counts and its scheduler read them, and so
do the emitter and the parser; `execute` does not show them. None of the readers knows an instruction by its name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tilewright.ir import Argument

Mods = Mapping[str, Argument]
Count = int | Callable[[Mods], int]
Word = str | Callable[[Mods], str]


def counted(what: Count, mods: Mods) -> int:
    """A number that may depend on the modifiers."""
    return what(mods) if callable(what) else what


def worded(what: Word, mods: Mods) -> str:
    """A word that may depend on the modifiers."""
    return what(mods) if callable(what) else what


# How strong an access is, see PTX ISA, "Memory Consistency Model".
SEMS = ("weak", "relaxed", "acquire", "release", "acq_rel", "volatile")
SCOPES = ("cta", "cluster", "gpu", "sys")  # the narrowest first
SIGNALS: Mapping[str, tuple[str, ...]] = {
    "init": ("relaxed",),
    "inval": ("relaxed",),
    "arrive": ("relaxed", "release"),
    "bytes": ("relaxed", "release"),
    "wait": ("relaxed", "acquire"),
}
"""What may be done to an m-barrier, and the orders that each may have."""


@dataclass(frozen=True, slots=True)
class Space:
    """A memory. unit: the fewest bytes that an access touches. owner: what each has a memory of its own. window: does a
    generic address reach it? proxies: through which it is accessed.
    """

    unit: int
    owner: str
    window: bool
    proxies: tuple[str, ...]


SPACES: Mapping[str, Space] = {
    "global": Space(1, "device", True, ("generic", "async", "tensormap")),
    "shared": Space(1, "cta", True, ("generic", "async")),
    "local": Space(1, "thread", True, ("generic",)),
    "tmem": Space(4, "cta", False, ("tmem",)),
}
GENERIC = "generic"  # as a space: the one that the pointer leads into


@dataclass(frozen=True, slots=True)
class Access:
    """Bytes that a form touches. The checks of bounds, alignment, races, proxies, poison and banks read it.

    operand: the address; of a ``computed`` access, the name under which `AsyncMeaning.addresses` gives its addresses.
    space: a key of `SPACES`, or generic (what the pointer points into). nbytes: per address. sized: these addresses
    say how many of them count in each lane, none perhaps. lanes: how many lanes' addresses count, lane 0 first (32:
    all active). proxy: through which the memory is accessed. phase_lanes: lanes served together by shared memory (0:
    from the width: 32 for 4 bytes, 16 for 8, 8 for 16). sem: one of `SEMS`. scope: of a strong access, one of
    `SCOPES`. rmw: the read and the write are one atomic access. element_bytes: of each operation that a vector consists
    of (0: it is one). constant: no thread writes the bytes while the kernel runs. compares: does it write only where it
    finds the expected value? replicated: the address names a place of each GPU, all of which are accessed. unfenced: do
    published programs leave out the proxy fence before it?
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
    proxy: str = "generic"
    computed: bool = False
    sized: bool = False
    constant: bool = False
    compares: bool = False
    unfenced: bool = False
    replicated: bool = False


def read_and_written(
    operand: str, space: str, nbytes: Count, *, sem: Word = "relaxed", scope: Word = "gpu", compares: bool = False
) -> tuple[Access, Access]:
    """The accesses of an atomic: a read and a write of one place, as one access."""
    read = Access(operand, space, nbytes, write=False, sem=sem, scope=scope, rmw=True, compares=compares)
    return read, replace(read, write=True)


@dataclass(frozen=True, slots=True)
class Fence:
    """A form that orders the thread's accesses before it against those after it, as the threads of ``scope`` see them.

    sem: sc, acq_rel, acquire or release. only: what alone it orders; "mbarrier.init": the initialisation of m-barriers;
    "shared": accesses of shared memory.
    """

    sem: Word
    scope: Word
    only: str = ""

    @property
    def is_of_shared(self) -> bool:
        """Does it order accesses of shared memory alone?"""
        return self.only == "shared"


@dataclass(frozen=True, slots=True)
class ProxyFence:
    """A form that orders accesses through the generic proxy against those through another one.

    proxy: async, tensormap or tmem (not a proxy, but ordered in the same way). space: global, shared::cta or
    shared::cluster, where that alone is ordered. side: "both", or "release" and "acquire" for a pair with a barrier in
    between. scope: of a fence of a pair. at: the operand whose bytes are ordered.
    """

    proxy: str
    space: Word = ""
    side: Word = "both"
    scope: Word = ""
    at: str = ""

    @property
    def is_of_shared(self) -> bool:
        """Is it one of a pair, and so also a fence of the generic accesses of shared memory?"""
        return self.side != "both" and str(self.space).startswith("shared")


@dataclass(frozen=True, slots=True)
class RegisterFence:
    """A form that orders what a warp did to its registers before it against the operations of a group after it, which
    are ``fenced``.
    """

    group: str


@dataclass(frozen=True, slots=True)
class Sync:
    """A form at which threads meet. Barriers have no `execute`: the simulator runs the meeting.

    scope: warp, warpgroup, cta, named, cluster, or "poll": each thread waits for itself until the form's `execute` is
    true for it. arrive_only: goes on without waiting. wait_only: waits for the meeting at which the thread has arrived.
    orders: does it release what the thread has done to those who wait? False for a relaxed arrival. barrier, threads:
    the operands that name a barrier and count the threads that meet (none: barrier 0, all threads of the scope).
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

    kind: "init" and "inval" begin and end its life; "arrive" counts an arrival, and with sem release releases what the
    thread has done; "wait" with sem acquire acquires what the arriving threads have released, in the lanes where
    `execute` is true; "bytes" counts bytes. sem: see `SIGNALS`. scope: of it, one of `SCOPES`.

    Of an operation, which has no `execute` for this: ``change`` makes the m-barrier's 64 bits from those before and
    ``amount`` (a number, or an operand) once the operation is complete, or all operations that a `Commit` beside it
    covers; the signal releases that completion. at_issue: it changes at once instead, and releases nothing.
    """

    barrier: str
    kind: str
    sem: str = "relaxed"
    scope: Word = "cta"
    change: Callable[[Any, Any], Any] | None = None
    amount: Count | str = 1
    at_issue: bool = False


@dataclass(frozen=True, slots=True)
class Issue:
    """The form begins an *operation*, which goes on by itself, unordered with all others.

    It begins after what its issuers have done, reads its sources and writes its destinations at some later point, and
    other accesses are ordered after it by its completion alone: by a `Wait` for its group, by the `Signal` of a
    `Commit` of its group, or by a `Signal` of its own. Until then its destinations are in flight and its sources held,
    memory and registers alike.

    group: what is counted together by the thread, warp or warpgroup that issues it; "" for none.
    in_order_after: instructions whose operations come first without a wait, where the same thread, warp or warpgroup
    has issued both, and they agree in what is ``alike`` and both have: modifiers; of a thread's operations also
    operands, and what `AsyncMeaning.takes` beside them. holds: operands whose registers it reads until it is complete;
    registers of other operands are read at the issue. accumulates: a condition among the operands; where it is false,
    registers that the form updates are written and not read. fenced: a `RegisterFence` of the group must stand between
    other accesses of its registers and the operation, and only operations of the group may touch them before the wait,
    not even a read. stalls: registers that it fills may be read before the wait, whose absence there is a warning.
    takes_over: it may take the place of CTAs that have not begun, so that only some of them begin at first.
    """

    group: str = ""
    in_order_after: tuple[str, ...] = ()
    holds: tuple[str, ...] = ()
    alike: tuple[str, ...] = ()
    accumulates: str = ""
    fenced: bool = False
    stalls: bool = False
    takes_over: bool = False


@dataclass(frozen=True, slots=True)
class Consults:
    """A read of an operation: the ``nbytes`` of global memory at an operand say what it does. They are read as it
    begins, through a proxy of their own; `execute` does not get them.
    """

    operand: str
    nbytes: int
    proxy: str


@dataclass(frozen=True, slots=True)
class Commit:
    """The form closes what was issued to a group since the last commit, for a `Wait` that counts commits. A `Signal`
    beside it comes when all that was issued to the group before is complete; then the form closes nothing.
    """

    group: str


@dataclass(frozen=True, slots=True)
class Wait:
    """The form waits until at most the newest ``pending`` commits of the group are incomplete. pending: a number, or an
    operand of kind imm; None: until all operations are complete, committed or not. reads: only until their sources have
    been read.
    """

    group: str
    pending: int | str | None = None
    reads: bool = False


KEEPING = ("::fill", "::use", "::lastuse")  # what an operation does with a buffer, behind its name
FILL, USE, LAST_USE = KEEPING


@dataclass(frozen=True, slots=True)
class Keeps:
    """The unit keeps what an operation has read of ``operand`` in a buffer, for later operations. modifier: whose word
    says in which, and which of `KEEPING` it is there, ``a::fill``; other words keep nothing.
    """

    operand: str
    modifier: str


Effect = Access | Sync | Fence | ProxyFence | RegisterFence | Signal | Issue | Consults | Commit | Wait | Keeps
