"""Fences: they order a thread's own accesses, as others see them. They neither wait nor move data.

Sources: CUDA C++ Programming Guide, "Memory Fence Functions"; PTX ISA, "membar, fence".
"""

from __future__ import annotations

from tilewright.isa.arch import since
from tilewright.isa.table import Cuda, Fence, Form, Mods, ProxyFence, Ptx, instruction, reads

__all__: list[str] = []

GUIDE = 'CUDA C++ Programming Guide, "Memory Fence Functions"'
FENCE = 'PTX ISA, "Parallel Synchronization and Communication Instructions: membar, fence"'


def _fence_row(name: str, text: str, reach: str, who: str) -> None:
    instruction(
        f"cuda.{name}",
        params=(),
        operands=(),
        doc=f"{who} sees this thread's accesses before it ahead of those after it: T.ptx.fence('sc', {reach!r}).",
        forms=(Form(Cuda(text), since("sm_75"), GUIDE, effects=(Fence("sc", reach),)),),
    )


_fence_row("thread_fence_block", "__threadfence_block()", "cta", "Every thread of the CTA")
_fence_row("thread_fence", "__threadfence()", "gpu", "Every thread of the device")
_fence_row("thread_fence_system", "__threadfence_system()", "sys", "Every thread of all devices, and the host,")


def _sem(mods: Mods) -> str:
    return str(mods["sem"])


BOTH_SIDES = {"sc": ".sc", "acq_rel": ".acq_rel"}
ONE_SIDE = {"acquire": ".acquire", "release": ".release"}
REACH = {"cta": "sm_75", "cluster": "sm_90", "gpu": "sm_75", "sys": "sm_75"}
LEVELS = {"cta": "cta", "gl": "gpu", "sys": "sys"}

instruction(
    "ptx.fence",
    params=("sem", "scope"),
    operands=(),
    doc="Orders this thread's accesses as the threads of ``scope`` see them; ``sc`` also among all such fences. With a "
    "strong store after it, it hands on what the thread did before (not ``acquire``); with a strong load before it, it "
    "takes over (not ``release``).",
    forms=tuple(
        Form(
            Ptx("fence{sem}{scope}", {"sem": sems, "scope": {reach: f".{reach}"}}),
            since(max(first, at)),
            FENCE,
            effects=(Fence(_sem, reach),),
        )
        for sems, at in ((BOTH_SIDES, "sm_75"), (ONE_SIDE, "sm_90"))
        for reach, first in REACH.items()
    ),
)
instruction(
    "ptx.membar",
    params=("level",),
    operands=(),
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

instruction(
    "ptx.fence.sync_restrict",
    params=("sem",),
    operands=(),
    doc="T.ptx.fence(sem, 'cluster') for accesses of shared memory alone: the CTA's own where it releases, any of the "
    "cluster where it acquires.",
    forms=(
        Form(
            Ptx("fence{sem}", {"sem": RESTRICTED}), since("sm_90"), FENCE, effects=(Fence(_sem, "cluster", "shared"),)
        ),
    ),
)
instruction(
    "ptx.fence.proxy_async",
    params=(),
    keywords={"space": ""},
    operands=(),
    doc="Orders this thread's ordinary accesses before those of the asynchronous units (TMA, tensor cores).",
    forms=(
        Form(
            Ptx(
                "fence.proxy.async{space}",
                {
                    "space": {
                        "": "",
                        "shared::cta": ".shared::cta",
                        "shared::cluster": ".shared::cluster",
                        "global": ".global",
                    }
                },
            ),
            since("sm_90"),
            FENCE,
            effects=(ProxyFence("async", lambda mods: str(mods["space"])),),
        ),
    ),
)
instruction(
    "ptx.fence.proxy_async.sync_restrict",
    params=("sem",),
    operands=(),
    doc="Orders ordinary accesses of shared memory before those of the asynchronous units of the cluster's other CTAs: "
    "``release`` before the CTAs meet, ``acquire`` after it.",
    forms=(
        Form(
            Ptx("fence.proxy.async::generic{sem}", {"sem": RESTRICTED}),
            since("sm_90"),
            FENCE,
            effects=(ProxyFence("async", "shared::cluster", _sem, "cluster"),),
        ),
    ),
)
instruction(
    "ptx.fence.proxy_alias",
    params=(),
    operands=(),
    doc="Orders accesses of one place by two of its virtual addresses.",
    forms=(Form(Ptx("fence.proxy.alias"), since("sm_75"), FENCE, effects=(ProxyFence("alias"),)),),
)
instruction(
    "ptx.fence.proxy_tensormap.release",
    params=("scope",),
    operands=(),
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
instruction(
    "ptx.fence.mbarrier_init",
    params=(),
    operands=(),
    doc="Makes the initialisation of m-barriers visible to the cluster.",
    forms=(
        Form(
            Ptx("fence.mbarrier_init.release.cluster"),
            since("sm_90"),
            FENCE,
            effects=(Fence("release", "cluster", "mbarrier.init"),),
        ),
    ),
)
