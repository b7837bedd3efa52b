"""Where threads meet: barriers of a warp, a warpgroup, a CTA, and the 16 named ones.

Sources: CUDA C++ Programming Guide, "Synchronization Functions" and "Warp Synchronization"; PTX ISA, "bar, barrier".
"""

from __future__ import annotations

from tilewright.isa.arch import since
from tilewright.isa.places import sem_of
from tilewright.isa.table import (
    BY_MASK,
    GIVEN,
    LEFT_OUT,
    Cuda,
    Fence,
    Form,
    Meaning,
    ProxyFence,
    Ptx,
    Sync,
    counts,
    instruction,
    reads,
    single,
)

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
single(
    "ptx.bar.sync",
    Ptx("bar.sync"),
    since("sm_75"),
    BAR,
    operands=(counts("id"), counts("n")),
    doc="``n`` threads, a multiple of 32, meet at named barrier ``id`` (0..15) and wait.",
    effects=(Sync("named", barrier="id", threads="n"),),
)
single(
    "ptx.barrier.sync",
    Ptx("barrier{cta}.sync{aligned}", {"cta": {False: "", True: ".cta"}, "aligned": {False: "", True: ".aligned"}}),
    since("sm_75"),
    BAR,
    keywords={"cta": False, "aligned": False},
    operands=(counts("id"), counts("n")),
    doc="``n`` threads, a multiple of 32, meet at named barrier ``id`` and wait; unless ``aligned``, lanes apart.",
    effects=(Sync("named", barrier="id", threads="n"),),
)
single(
    "ptx.bar.arrive",
    Ptx("bar.arrive"),
    since("sm_75"),
    BAR,
    operands=(counts("id"), counts("n")),
    doc="Counts towards the ``n`` threads of named barrier ``id`` without waiting for the others.",
    effects=(Sync("named", arrive_only=True, barrier="id", threads="n"),),
)
single(
    "ptx.barrier.arrive",
    Ptx("barrier.arrive{aligned}", {"aligned": {False: "", True: ".aligned"}}),
    since("sm_75"),
    BAR,
    keywords={"aligned": False},
    operands=(counts("id"), counts("n")),
    doc="Counts towards the ``n`` threads of named barrier ``id`` without waiting; unless ``aligned``, lanes apart.",
    effects=(Sync("named", arrive_only=True, barrier="id", threads="n"),),
)
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
instruction(
    "ptx.fence.proxy_tensormap.release",
    params=("scope",),
    doc="Whoever has changed a tensor map hands it on: to the acquiring fence of its reader, by a flag or a barrier.",
    forms=tuple(
        Form(
            Ptx("fence.proxy.tensormap::generic.release{scope}", {"scope": {reach: f".{reach}"}}),
            since("sm_90"),
            FENCE,
            effects=(ProxyFence("tensormap", side="release", scope=reach),),
        )
        for reach in REACH
    ),
)
instruction(
    "ptx.fence.proxy_tensormap.acquire",
    params=("ptr", "scope"),
    operands=(reads("ptr", "generic"),),
    pattern="[{ptr}], 128",
    doc="The asynchronous units see the 128 bytes of a tensor map at ``ptr`` as they were handed on.",
    forms=tuple(
        Form(
            Ptx("fence.proxy.tensormap::generic.acquire{scope}", {"scope": {reach: f".{reach}"}}),
            since("sm_90"),
            FENCE,
            effects=(ProxyFence("tensormap", side="acquire", scope=reach, at="ptr"),),
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
