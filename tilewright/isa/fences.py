"""Fences: they order a thread's own accesses, as others see them. They wait for nobody and move nothing.

Sources: CUDA C++ Programming Guide, "Memory Fence Functions"; PTX ISA, "membar, fence".
"""

from __future__ import annotations

from tilewright.isa.arch import since
from tilewright.isa.table import Fence, Form, Mods, ProxyFence, instruction

__all__: list[str] = []

GUIDE = 'CUDA C++ Programming Guide, "Memory Fence Functions"'
FENCE = 'PTX ISA, "Parallel Synchronization and Communication Instructions: membar, fence"'


def _fence_row(name: str, text: str, scope: str, who: str) -> None:
    instruction(
        f"cuda.{name}",
        params=(),
        operands=(),
        doc=f"{who} sees this thread's accesses before it ahead of those after it.",
        forms=(Form(text, since("sm_75"), GUIDE, fence=Fence("sc", scope), language="cuda"),),
    )


_fence_row("thread_fence_block", "__threadfence_block()", "cta", "Every thread of the CTA")
_fence_row("thread_fence", "__threadfence()", "gpu", "Every thread of the device")
_fence_row("thread_fence_system", "__threadfence_system()", "sys", "Every thread of all devices, and the host,")

_SEMANTICS = {"sc": ".sc", "acq_rel": ".acq_rel"}


def _sem(mods: Mods) -> str:
    return str(mods["sem"])


_SCOPES = {"cta": "sm_75", "cluster": "sm_90", "gpu": "sm_75", "sys": "sm_75"}

instruction(
    "ptx.fence",
    params=("sem", "scope"),
    operands=(),
    doc="Orders this thread's accesses as the threads of ``scope`` see them; ``sc`` also among all such fences.",
    forms=tuple(
        Form(
            "fence{sem}{scope}",
            since(first),
            FENCE,
            {"sem": _SEMANTICS, "scope": {scope: f".{scope}"}},
            fence=Fence(_sem, scope),
        )
        for scope, first in _SCOPES.items()
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
            "fence.proxy.async{space}",
            since("sm_90"),
            FENCE,
            {
                "space": {
                    "": "",
                    "shared::cta": ".shared::cta",
                    "shared::cluster": ".shared::cluster",
                    "global": ".global",
                }
            },
            fence=ProxyFence("async", lambda mods: str(mods["space"])),
        ),
    ),
)
instruction(
    "ptx.fence.mbarrier_init",
    params=(),
    operands=(),
    doc="Makes the initialisation of m-barriers visible to the cluster.",
    forms=(
        Form(
            "fence.mbarrier_init.release.cluster",
            since("sm_90"),
            FENCE,
            fence=Fence("release", "cluster", "mbarrier.init"),
        ),
    ),
)
