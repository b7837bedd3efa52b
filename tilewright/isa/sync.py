"""Where threads meet and order what they do: barriers of a warp, a warpgroup, a CTA, the 16 named ones, fences, and
clusters.

Sources: CUDA C++ Programming Guide, "Synchronization Functions" and "Warp Synchronization"; PTX ISA, "bar, barrier".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from tilewright.dtypes import BOOL, dtype
from tilewright.isa.arch import only, since, suffixed
from tilewright.isa.forms import (
    GIVEN,
    LEFT_OUT,
    Access,
    AsyncMeaning,
    Cuda,
    Fence,
    Form,
    Issue,
    Meaning,
    ProxyFence,
    Ptx,
    Signal,
    Sync,
    counts,
    reads,
)
from tilewright.isa.machine import Addresses, Lanes, Machine, Memory, Unit, access_of_unit, in_ctas
from tilewright.isa.mbarrier import completed
from tilewright.isa.places import constant, sem_of
from tilewright.isa.scalar.rows import flag
from tilewright.isa.table import BY_MASK, WHOLE_WARP, instruction, single

GUIDE = 'CUDA C++ Programming Guide, "Synchronization Functions"'
BAR = 'PTX ISA, "Parallel Synchronization and Communication Instructions: bar, barrier"'

single(
    "cuda.cta_sync",
    Cuda("__syncthreads()"),
    since("sm_75"),
    GUIDE,
    doc="Every thread of the CTA waits for all others; their memory accesses are ordered.",
    effects=(Sync("cta"),),
)
instruction(
    "cuda.warp_sync",
    keywords={"mask": None},
    operands=(counts("mask"),),
    lanes=BY_MASK,
    doc="The lanes of the warp, or those that ``mask`` names, wait for each other; their memory accesses are ordered.",
    forms=(
        Form(Cuda("__syncwarp()", {"mask": LEFT_OUT}), since("sm_75"), GUIDE, effects=(Sync("warp"),)),
        Form(
            Cuda("__syncwarp({mask})", {"mask": GIVEN}),
            since("sm_75"),
            GUIDE,
            Meaning(lambda mask: None),
            effects=(Fence("acq_rel", "warp"),),
        ),
    ),
)
single(
    "ptx.bar.warp.sync",
    Ptx("bar.warp.sync"),
    since("sm_75"),
    'PTX ISA, "Parallel Synchronization and Communication Instructions: bar.warp.sync"',
    Meaning(lambda mask: None),
    operands=(counts("mask"),),
    lanes=BY_MASK,
    doc="The lanes that ``mask`` names, who all execute it, wait for each other; their memory accesses are ordered.",
    effects=(Fence("acq_rel", "warp"),),
)
single(
    "cuda.warpgroup_sync",
    Ptx("bar.sync"),
    since("sm_75"),
    BAR,
    operands=(counts("id"),),
    pattern="{id}, 128",
    doc="The four warps of a warpgroup meet at named barrier ``id``.",
    effects=(Sync("warpgroup", barrier="id"),),
)


def _named_row(name: str, text: str, doc: str, *flags: str) -> None:
    """The row of a named barrier, to which ``n`` threads come. flags: modifiers that a call may set."""
    single(
        f"ptx.{name}",
        Ptx(text, {word: flag(word) for word in flags}),
        since("sm_75"),
        BAR,
        keywords=dict.fromkeys(flags, False),
        operands=(counts("id"), counts("n")),
        doc=doc,
        effects=(Sync("named", arrive_only=name.endswith("arrive"), barrier="id", threads="n"),),
    )


_MEET = "``n`` threads, a multiple of 32, meet at named barrier ``id``"
_COUNT = "Counts towards the ``n`` threads of named barrier ``id`` without waiting"
_named_row("bar.sync", "bar.sync", f"{_MEET} (0..15) and wait.")
_named_row(
    "barrier.sync",
    "barrier{cta}.sync{aligned}",
    f"{_MEET} and wait; unless ``aligned``, lanes apart.",
    "cta",
    "aligned",
)
_named_row("bar.arrive", "bar.arrive", f"{_COUNT} for the others.")
_named_row("barrier.arrive", "barrier.arrive{aligned}", f"{_COUNT}; unless ``aligned``, lanes apart.", "aligned")
single(
    "cuda.cluster_sync",
    Ptx("barrier.cluster.arrive.release.aligned"),
    since("sm_90"),
    'PTX ISA, "Parallel Synchronization and Communication Instructions: barrier.cluster"',
    pattern="{mnemonic}; barrier.cluster.wait.acquire.aligned;",
    doc="Every thread of the cluster waits for all others; their memory accesses are ordered.",
    effects=(Sync("cluster"),),
)
single(
    "cuda.nanosleep",
    Cuda("__nanosleep({ns})"),
    since("sm_75"),
    'CUDA C++ Programming Guide, "Nanosleep Function"',
    Meaning(lambda ns: None),
    operands=(counts("ns"),),
    doc="The thread rests for about ``ns`` nanoseconds, at most a millisecond.",
)

# Fences: they order a thread's own accesses, as others see them. They neither wait nor move data.
#
# Sources: CUDA C++ Programming Guide, "Memory Fence Functions"; PTX ISA, "membar, fence".

FENCE_GUIDE = 'CUDA C++ Programming Guide, "Memory Fence Functions"'
FENCE = 'PTX ISA, "Parallel Synchronization and Communication Instructions: membar, fence"'


def _fence_row(name: str, text: str, reach: str, who: str) -> None:
    single(
        f"cuda.{name}",
        Cuda(text),
        since("sm_75"),
        FENCE_GUIDE,
        doc=f"{who} sees this thread's accesses before it ahead of those after it: T.ptx.fence('sc', {reach!r}).",
        effects=(Fence("sc", reach),),
    )


_fence_row("thread_fence_block", "__threadfence_block()", "cta", "Every thread of the CTA")
_fence_row("thread_fence", "__threadfence()", "gpu", "Every thread of the device")
_fence_row("thread_fence_system", "__threadfence_system()", "sys", "Every thread of all devices, and the host,")


BOTH_SIDES = {"sc": ".sc", "acq_rel": ".acq_rel"}
ONE_SIDE = {"acquire": ".acquire", "release": ".release"}
REACH = {"cta": "sm_75", "cluster": "sm_90", "gpu": "sm_75", "sys": "sm_75"}
LEVELS = {"cta": "cta", "gl": "gpu", "sys": "sys"}

instruction(
    "ptx.fence",
    params=("sem", "scope"),
    doc="Orders this thread's accesses as the threads of ``scope`` see them; ``sc`` also among all such fences. With a "
    "strong store after it, it hands on what the thread did before (not ``acquire``); with a strong load before it, it "
    "takes over (not ``release``).",
    forms=tuple(
        Form(
            Ptx("fence{sem}{scope}", {"sem": sems, "scope": {reach: f".{reach}"}}),
            since(max(first, at)),
            FENCE,
            effects=(Fence(sem_of, reach),),
        )
        for sems, at in ((BOTH_SIDES, "sm_75"), (ONE_SIDE, "sm_90"))
        for reach, first in REACH.items()
    ),
)
instruction(
    "ptx.membar",
    params=("level",),
    doc="The older name of T.ptx.fence('sc', ...): ``gl`` is the scope gpu.",
    forms=tuple(
        Form(
            Ptx("membar{level}", {"level": {level: f".{level}"}}), since("sm_75"), FENCE, effects=(Fence("sc", reach),)
        )
        for level, reach in LEVELS.items()
    ),
)

# Each is one half of a pair: accesses of a CTA to its own shared memory, ordered for all threads of the cluster.
RESTRICTED = {
    "release": ".release.sync_restrict::shared::cta.cluster",
    "acquire": ".acquire.sync_restrict::shared::cluster.cluster",
}

single(
    "ptx.fence.sync_restrict",
    Ptx("fence{sem}", {"sem": RESTRICTED}),
    since("sm_90"),
    FENCE,
    params=("sem",),
    doc="T.ptx.fence(sem, 'cluster') for accesses of shared memory alone: the CTA's own where it releases, any of the "
    "cluster where it acquires.",
    effects=(Fence(sem_of, "cluster", "shared"),),
)
single(
    "ptx.fence.proxy_async",
    Ptx(
        "fence.proxy.async{space}",
        {"space": {"": "", "shared::cta": ".shared::cta", "shared::cluster": ".shared::cluster", "global": ".global"}},
    ),
    since("sm_90"),
    FENCE,
    keywords={"space": ""},
    doc="Orders this thread's ordinary accesses before those of the asynchronous units (TMA, tensor cores).",
    effects=(ProxyFence("async", lambda mods: str(mods["space"])),),
)
single(
    "ptx.fence.proxy_async.sync_restrict",
    Ptx("fence.proxy.async::generic{sem}", {"sem": RESTRICTED}),
    since("sm_90"),
    FENCE,
    params=("sem",),
    doc="Orders ordinary accesses of shared memory before those of the asynchronous units of the cluster's other CTAs: "
    "``release`` before the CTAs meet, ``acquire`` after it.",
    effects=(ProxyFence("async", "shared::cluster", sem_of, "cluster"),),
)
single(
    "ptx.fence.proxy_alias",
    Ptx("fence.proxy.alias"),
    since("sm_75"),
    FENCE,
    doc="Orders accesses of one place by two of its virtual addresses.",
    effects=(ProxyFence("alias"),),
)
for _side, _at, _doc in (
    (
        "release",
        "",
        "Whoever has changed a tensor map hands it on: to the acquiring fence of its reader, by a flag or a barrier.",
    ),
    ("acquire", "ptr", "The asynchronous units see the 128 bytes of a tensor map at ``ptr`` as they were handed on."),
):
    instruction(
        f"ptx.fence.proxy_tensormap.{_side}",
        params=(*(_at,) * bool(_at), "scope"),
        operands=(reads("ptr", "generic"),) if _at else (),
        pattern="[{ptr}], 128" if _at else "",
        doc=_doc,
        forms=tuple(
            Form(
                Ptx(f"fence.proxy.tensormap::generic.{_side}{{scope}}", {"scope": {reach: f".{reach}"}}),
                since("sm_90"),
                FENCE,
                effects=(ProxyFence("tensormap", side=_side, scope=reach, at=_at),),
            )
            for reach in REACH
        ),
    )
single(
    "ptx.fence.mbarrier_init",
    Ptx("fence.mbarrier_init.release.cluster"),
    since("sm_90"),
    FENCE,
    doc="Makes the initialisation of m-barriers visible to the cluster.",
    effects=(Fence("release", "cluster", "mbarrier.init"),),
)


# Clusters: CTAs that run together, meet, and reach into each other's shared memory.
#
# An address of the cluster's window names a place in the shared memory of one of its CTAs; `mapa` makes one from an own
# address and a rank. Arriving at a cluster barrier and waiting there are two steps; what stands between overlaps with
# the others. Sources: PTX ISA, "mapa", "barrier.cluster".


MAPA = 'PTX ISA, "Data Movement and Conversion Instructions: mapa"'
BARRIER = 'PTX ISA, "Parallel Synchronization and Communication Instructions: barrier.cluster"'


def map_rank(machine: Machine, address: Lanes, rank: Lanes) -> Lanes:
    """The address, in the cluster's window, of the same place in the CTA of that rank."""
    return machine.on_rank(address, rank).astype("uint32")


def rank_of(machine: Machine, address: Lanes) -> Lanes:
    """The rank of the CTA that has the place."""
    return machine.rank_of(address).astype("uint32")


def map_pointer(machine: Machine, address: Lanes, rank: Lanes) -> Lanes:
    """The pointer to the same place in the CTA of that rank."""
    offset = machine.to_shared(address)
    return (address - offset + machine.on_rank(offset, rank)).astype("uint64")


def _mapping_row(name: str, kind: str, text: str, execute: Callable[..., Lanes], result: str, doc: str) -> None:
    single(
        name,
        Ptx(text),
        since("sm_90"),
        MAPA,
        Meaning(execute, on="machine"),
        operands=(reads("ptr", kind), counts("rank")),
        pattern="{result}, {ptr}, {rank}",
        doc=f"The same place in the CTA of that rank in the cluster: {doc}.",
        result=dtype(result),
    )


single(
    "ptx.getctarank",
    Ptx("getctarank.shared::cluster.u32"),
    since("sm_90"),
    'PTX ISA, "Data Movement and Conversion Instructions: getctarank"',
    Meaning(rank_of, on="machine"),
    operands=(reads("ptr", "shared"),),
    pattern="{result}, {ptr}",
    doc="The rank in the cluster of the CTA that a shared address leads into.",
    result=dtype("uint32"),
)

_mapping_row("ptx.mapa", "shared", "mapa.shared::cluster.u32", map_rank, "uint32",
             "an address for what takes shared::cluster")  # fmt: skip
_mapping_row("ptx.map_shared_rank", "generic", "mapa.u64", map_pointer, "uint64", "a generic address, of 64 bits")

_ALIGNED = {True: ".aligned", False: ""}

instruction(
    "ptx.barrier.cluster.arrive",
    keywords={"sem": "release", "aligned": True},
    doc="Counts at the cluster's barrier without waiting; ``relaxed`` publishes nothing of what the thread has done.",
    forms=tuple(
        Form(
            Ptx("barrier.cluster.arrive{sem}{aligned}", {"sem": {sem: f".{sem}"}, "aligned": _ALIGNED}),
            since("sm_90"),
            BARRIER,
            effects=(Sync("cluster", arrive_only=True, orders=sem == "release"),),
        )
        for sem in ("release", "relaxed")
    ),
    also={"release": ""},
)
single(
    "ptx.barrier.cluster.wait",
    Ptx("barrier.cluster.wait.acquire{aligned}", {"aligned": _ALIGNED}),
    since("sm_90"),
    BARRIER,
    keywords={"aligned": True},
    doc="Waits until every thread of the cluster has arrived at its barrier, and sees what they published.",
    also={"acquire": ""},
    effects=(Sync("cluster", wait_only=True),),
)

# clusterlaunchcontrol: a cluster takes over the work of another one, which has not begun and then never will.
#
# A request writes 16 bytes to shared memory, as the asynchronous units do, and completes 16 bytes at an m-barrier:
# which cluster was taken, or that none was. A cluster is given away once, and runs where it was not. A request may
# fail though clusters are left, since the GPU may start them meanwhile. With ``multicast`` all CTAs of the cluster
# get the answer.
#
# What the 16 bytes are is the hardware's own: here a word that says whether a cluster was taken, then the three
# numbers of its first CTA.
#
# Source: PTX ISA, "Parallel Synchronization and Communication Instructions: clusterlaunchcontrol.try_cancel,
# clusterlaunchcontrol.query_cancel".

NBYTES = 16
SOURCE = 'PTX ISA, "Parallel Synchronization and Communication Instructions: clusterlaunchcontrol.{}"'


def requested(unit: Unit, addr: Lanes, bar: Lanes, *, multicast: bool) -> Mapping[str, Addresses]:
    """Where the answer goes, and the m-barrier that counts it; in every CTA of the cluster where all get it."""
    if (wrong := addr.astype(np.int64) % NBYTES != 0).any():
        unit.fault(f"addr is a multiple of {NBYTES}, not {int(addr[wrong][0]):#x}", wrong)
    answer = unit.take_clusters().astype(np.uint32)  # (n, 4)
    octets = np.ascontiguousarray(answer).view(np.uint8).reshape(len(addr), 1, NBYTES)
    if not multicast:
        into, told = Addresses(addr[:, None]), Addresses(bar, nbytes=np.full(len(addr), NBYTES))
    else:
        everyone = np.full(len(addr), (1 << unit.cluster_ctas) - 1)
        into, told = in_ctas(unit, addr[:, None], everyone), in_ctas(unit, bar, everyone)
        assert told.issuer is not None
        told = Addresses(told.at, issuer=told.issuer, rank=told.rank, nbytes=np.full(len(told.issuer), NBYTES))
        octets = octets[told.issuer]
    return {"addr": into, "bar": told, "answer": Addresses(octets)}


def answered(answer: Lanes, **mods: object) -> Lanes:
    """The bytes that are written."""
    return answer


def _requests() -> Iterator[Form]:
    for multicast, archs in ((False, since("sm_100")), (True, suffixed(100, 103, 110, 120, 121))):
        cast = ".multicast::cluster::all" if multicast else ""
        yield Form(
            Ptx(
                f"clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes{cast}.b128",
                {"multicast": {multicast: ""}},
            ),
            archs,
            SOURCE.format("try_cancel"),
            AsyncMeaning(answered, addresses=requested, takes=("answer",), passes=("multicast",)),
            effects=(
                access_of_unit("addr", "shared", write=True),
                Signal("bar", "bytes", "release", "cluster", completed),
                Issue(takes_over=True),
            ),
        )


def _words(shared: Memory, addr: Lanes) -> Lanes:
    """(..., 4) words of an answer for each lane."""
    octets = shared.rows(addr, nbytes=NBYTES)
    words: Lanes = np.ascontiguousarray(octets).view(np.uint32)
    return words


def is_canceled(shared: Memory, addr: Lanes) -> Lanes:
    """Was a cluster taken?"""
    return np.asarray(_words(shared, addr)[..., 0] != 0)


def first_cta(shared: Memory, addr: Lanes, *, dim: str) -> Lanes:
    """The number of the first CTA of the cluster along a dimension, undefined where none was taken."""
    return np.asarray(_words(shared, addr)[..., 1 + "xyz".index(dim)])


ANSWER = Access("addr", "shared", NBYTES, write=False)
QUERY = "{{{{ .reg .b128 answer; .reg .pred p; ld.shared.b128 answer, [{{addr}}]; {} }}}}"
FAMILY = "ptx.clusterlaunchcontrol"

instruction(
    f"{FAMILY}.try_cancel",
    keywords={"multicast": False},
    operands=(reads("addr", "shared"), reads("bar", "shared")),
    doc="A thread asks for a cluster that has not begun; the answer comes to 16 bytes at ``addr``, counted by ``bar``.",
    forms=tuple(_requests()),
)
single(
    f"{FAMILY}.query_cancel.is_canceled",
    Ptx(
        "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128",
        pattern=QUERY.format("{mnemonic} p, answer; selp.b32 {result}, 1, 0, p;"),
    ),
    since("sm_100"),
    SOURCE.format("query_cancel"),
    Meaning(is_canceled, on="shared"),
    operands=(reads("addr", "shared"),),
    doc="True where a cluster was taken, by the answer at ``addr``.",
    effects=(ANSWER,),
    result=BOOL,
)
single(
    f"{FAMILY}.query_cancel.get_first_ctaid",
    Ptx(
        "clusterlaunchcontrol.query_cancel.get_first_ctaid{dim}.b32.b128",
        {"dim": {dim: f"::{dim}" for dim in "xyz"}},
        pattern=QUERY.format("{mnemonic} {result}, answer;"),
    ),
    since("sm_100"),
    SOURCE.format("query_cancel"),
    Meaning(first_cta, on="shared", passes=("dim",)),
    keywords={"dim": "x"},
    operands=(reads("addr", "shared"),),
    doc="The number of the first CTA of the cluster that was taken, along x, y or z; undefined where none was.",
    effects=(ANSWER,),
    result=dtype("uint32"),
)

# How warps and grids share the machine: registers that are reallocated, grids that begin before others end.
#
# Sources: PTX ISA, "Miscellaneous Instructions: setmaxnreg", "Parallel Synchronization and Communication
# Instructions: griddepcontrol".

GRIDS = 'PTX ISA, "Parallel Synchronization and Communication Instructions: griddepcontrol"'
COUNTS = range(24, 257, 8)


def of_warpgroup(machine: Machine, registers: Lanes) -> None:
    """No effect on values, but the four warps of a warpgroup do it, each with the same number."""
    machine.done_by_warpgroup(registers)


single(
    "ptx.setmaxnreg",
    Ptx("setmaxnreg{inc}.sync.aligned.u32", {"inc": {True: ".inc", False: ".dec"}}),
    only("sm_90a", "sm_100a", "sm_103a", "sm_110a", "sm_120a", "sm_121a", "sm_121f"),
    'PTX ISA, "Miscellaneous Instructions: setmaxnreg"',
    Meaning(of_warpgroup, on="machine"),
    params=("inc", "n"),
    operands=(reads("n", "imm"),),
    lanes=WHOLE_WARP,
    check=constant("n", COUNTS.__contains__, f"multiples of 8, {COUNTS[0]} to {COUNTS[-1]}", pattern="{} registers"),
    doc="The warps of a warpgroup take registers of the CTA's pool (``inc``), or give some back, to have ``n`` each.",
)


def waits_for_grids(machine: Machine) -> None:
    """No effect on values: what the grids before have written is there already."""
    machine.depends("wait")


def lets_grids_begin(machine: Machine) -> None:
    """No effect on values."""
    machine.depends("launch")


for _name, _does, _doc in (
    ("wait", waits_for_grids, "Waits until the grids that this one depends on have ended, and sees what they wrote."),
    ("launch_dependents", lets_grids_begin, "The grids that depend on this one may begin."),
):
    single(
        f"ptx.griddepcontrol.{_name}",
        Ptx(f"griddepcontrol.{_name}"),
        since("sm_90"),
        GRIDS,
        Meaning(_does, on="machine"),
        doc=_doc,
    )
