"""Where threads meet: barriers of a warp, a warpgroup, a CTA, and the 16 named ones.

Sources: CUDA C++ Programming Guide, "Synchronization Functions" and "Warp Synchronization"; PTX ISA, "bar, barrier".
"""

from __future__ import annotations

from tilewright.isa.arch import since
from tilewright.isa.table import (
    BY_MASK,
    GIVEN,
    LEFT_OUT,
    Cuda,
    Fence,
    Form,
    Meaning,
    Ptx,
    Sync,
    counts,
    instruction,
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
