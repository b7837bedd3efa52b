"""cp.async: a thread issues the copy of 4, 8 or 16 bytes from global to shared memory, and goes on meanwhile.

The thread may read the bytes once it has waited for the group to which it committed the copies, other threads once they
have met it at a barrier after that. A thread that waits at an m-barrier may read them, too, if the issuer has made it
count its copies by `mbarrier.arrive`. Copies are unordered. They are accesses of the generic proxy: what TMA or the
tensor cores read afterwards needs a proxy fence. With ``src_size`` only so many bytes are read, the others are zero;
with ``ignore_src`` all are, where it holds. ``predicate`` leaves out the copy in lanes where it is false, or with
``fill_mode="zero"`` what it reads.

Source: PTX ISA, "Data Movement and Conversion Instructions: Asynchronous copy, cp.async, cp.async.commit_group,
cp.async.wait_group"; "mbarrier: cp.async.mbarrier.arrive".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from tilewright.isa.arch import since
from tilewright.isa.forms import (
    GIVEN,
    LEFT_OUT,
    Access,
    AsyncMeaning,
    Commit,
    Form,
    Issue,
    Ptx,
    Signal,
    Spellings,
    Wait,
    counts,
    read_and_written,
    reads,
)
from tilewright.isa.machine import Addresses, Lanes, Unit
from tilewright.isa.mbarrier import arrived
from tilewright.isa.places import constant
from tilewright.isa.table import Bound, instruction, single

SOURCE = 'PTX ISA, "Data Movement and Conversion Instructions: {}"'
GROUP = "cp.async"

# How many bytes, and through which caches: 16 bytes alone may bypass the L1 cache, and do so unless "ca" is given.
SIZES: tuple[tuple[int, Spellings], ...] = (
    (4, {None: ".ca", "ca": ".ca"}),
    (8, {None: ".ca", "ca": ".ca"}),
    (16, {"ca": ".ca"}),
    (16, {None: ".cg", "cg": ".cg"}),
)
PREFETCH: Spellings = {-1: "", 64: ".L2::64B", 128: ".L2::128B", 256: ".L2::256B"}


class Guard(NamedTuple):
    """How a form says which bytes are copied. operand: its name, which with ``fill_mode`` chooses the form. text: what
    stands around the instruction, ``%s``. more: what follows the size. sized: the accesses that may touch fewer bytes.
    """

    operand: str = ""
    fill_modes: tuple[str, ...] = ("",)
    text: str = "%s"
    more: str = ""
    sized: tuple[str, ...] = ()


ZEROED = "{{{{ .reg .pred none; setp.{}.b32 none, {{{}}}, 0; %s }}}}"
GUARDS = (
    Guard(fill_modes=("", "zero")),
    Guard("src_size", more=", {src_size}", sized=("src",)),
    Guard("ignore_src", text=ZEROED.format("ne", "ignore_src"), more=", none", sized=("src",)),
    Guard("predicate", ("zero",), ZEROED.format("eq", "predicate"), ", none", ("src",)),
    Guard(
        "predicate",
        text="{{ .reg .pred copies; setp.ne.b32 copies, {predicate}, 0; @copies %s }}",
        sized=("src", "dst"),
    ),
)

# The eviction policy of the lines in the L2 cache: the caller's, or one that ``createpolicy.fractional`` makes.
POLICIES = {"evict_normal": 0x1000000000000000, "evict_first": 0x12F0000000000000, "evict_last": 0x14F0000000000000}


class Hint(NamedTuple):
    """How a form names its policy. name: the value of ``cache_hint``. text, more: as in a `Guard`."""

    name: str = ""
    spelling: str = ".L2::cache_hint"
    text: str = "%s"
    more: str = ", {cache_policy}"

    def modifiers(self, name: str = "cache_hint") -> dict[str, Spellings]:
        """The modifiers of a form with this policy: ``name``, and whether the caller gives the policy."""
        return {name: {self.name: self.spelling}, "cache_policy": GIVEN if "{cache_policy}" in self.more else LEFT_OUT}


HINTS = (
    Hint(spelling="", more=""),
    Hint(),
    *(
        Hint(name, text=f"{{{{ .reg .b64 policy; mov.b64 policy, {policy:#x}; %s }}}}", more=", policy")
        for name, policy in POLICIES.items()
    ),
)


def counted(guard: Guard) -> Callable[..., Mapping[str, Addresses]] | None:
    """How many bytes each lane copies, as the form's guard says."""

    def addresses(unit: Unit, dst: Lanes, src: Lanes, size: Lanes, *policy: Lanes, n: int) -> Mapping[str, Addresses]:
        """Addresses with the number of bytes that are read: ``src_size``, or by a condition all or none."""
        if guard.operand == "src_size":
            nbytes = size.astype(np.int64)
            if (wrong := nbytes > n).any():
                unit.fault(f"src_size is at most the {n} bytes of the copy, not {int(nbytes[wrong][0])}", wrong)
        else:
            nbytes = np.where(size == (guard.operand == "predicate"), n, 0)
        places = {"dst": dst, "src": src}
        return {name: Addresses(places[name], nbytes=nbytes) for name in guard.sized}

    return addresses if guard.operand else None


def _forms() -> Iterator[Form]:
    for guard in GUARDS:
        for hint in HINTS:
            for n, caches in SIZES:
                presence = {name: GIVEN if name == guard.operand else LEFT_OUT for name in OPTIONAL}
                statement = f"{{mnemonic}} [{{dst}}], [{{src}}], {n}{guard.more}{hint.more};"
                yield Form(
                    Ptx(
                        "cp.async{cache}.shared.global{cache_hint}{prefetch_size}",
                        {
                            **presence,
                            "n": {n: ""},
                            "cache": caches,
                            **hint.modifiers(),
                            "prefetch_size": PREFETCH,
                            "fill_mode": dict.fromkeys(guard.fill_modes, ""),
                        },
                        pattern=hint.text % (guard.text % statement),
                    ),
                    since("sm_80"),
                    SOURCE.format("cp.async"),
                    AsyncMeaning(addresses=counted(guard), passes=("n",) if guard.operand else (), moves=True),
                    effects=(
                        Access("src", "global", n, write=False, sized="src" in guard.sized),
                        Access("dst", "shared", n, write=True, sized="dst" in guard.sized),
                        Issue(GROUP),
                    ),
                )


OPTIONAL = ("src_size", "ignore_src", "predicate")


def _check_size(bound: Bound) -> None:
    n = int(str(bound.mods["n"]))
    constant("src_size", lambda size: 0 <= size <= n, f"0..{n} bytes, those of the copy")(bound)


instruction(
    "ptx.cp_async",
    params=("dst", "src", "n"),
    keywords={
        "cache_hint": "",
        "cache_policy": None,
        "prefetch_size": -1,
        "predicate": None,
        "fill_mode": "",
        "src_size": None,
        "ignore_src": None,
        "cache": None,
    },
    operands=(
        reads("dst", "shared"),
        reads("src", "global"),
        counts("src_size"),
        reads("ignore_src", "pred"),
        reads("predicate", "pred"),
        counts("cache_policy", "b64"),
    ),
    check=_check_size,
    doc="A thread has ``n`` bytes copied from global to shared memory; they are there once it has waited for them.",
    forms=tuple(_forms()),
)
single(
    "ptx.cp_async.commit_group",
    Ptx("cp.async.commit_group"),
    since("sm_80"),
    SOURCE.format("cp.async.commit_group"),
    doc="Makes a group of the copies that the thread has issued since the last one.",
    effects=(Commit(GROUP),),
)


check_pending = constant("n", lambda n: n >= 0, "0 groups or more")
single(
    "ptx.cp_async.wait_group",
    Ptx("cp.async.wait_group"),
    since("sm_80"),
    SOURCE.format("cp.async.wait_group"),
    keywords={"n": 0},
    operands=(reads("n", "imm"),),
    check=check_pending,
    doc="Waits until at most the ``n`` newest groups of the thread are under way.",
    effects=(Wait(GROUP, "n"),),
)
single(
    "ptx.cp_async.wait_all",
    Ptx("cp.async.wait_all"),
    since("sm_80"),
    SOURCE.format("cp.async.wait_all"),
    doc="Waits until all copies of the thread are complete, those that no group has among them.",
    effects=(Wait(GROUP),),
)


def raised(word: Lanes, count: Lanes) -> Lanes:
    """The m-barrier after its phase expects ``count`` more arrivals."""
    return arrived(word, -count.astype(np.int64))


ARRIVAL = (
    *read_and_written("bar", "shared", 8, scope="cta"),
    Commit(GROUP),
    Signal("bar", "arrive", "release", "cta", change=arrived),
)
instruction(
    "ptx.cp_async.mbarrier.arrive",
    keywords={"noinc": False},
    operands=(reads("bar", "shared"),),
    doc="Arrives at an m-barrier once all copies that the thread has issued are complete: an arrival beyond those that "
    "it was made for, or with ``noinc`` one of them.",
    forms=tuple(
        Form(
            Ptx("cp.async.mbarrier.arrive{noinc}.shared.b64", {"noinc": {noinc: spelling}}),
            since("sm_80"),
            'PTX ISA, "Parallel Synchronization and Communication Instructions: cp.async.mbarrier.arrive"',
            effects=(*more, *ARRIVAL),
        )
        for noinc, spelling, more in (
            (False, "", (Signal("bar", "bytes", change=raised, at_issue=True),)),
            (True, ".noinc", ()),
        )
    ),
)
