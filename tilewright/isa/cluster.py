"""Clusters: CTAs that run together, meet, and reach into each other's shared memory.

An address of the cluster's window names a place in the shared memory of one of its CTAs; `mapa` makes one from an own
address and a rank. Arriving at a cluster barrier and waiting there are two steps; what stands between overlaps with the
others. Sources: PTX ISA, "mapa", "barrier.cluster".
"""

from __future__ import annotations

from collections.abc import Callable

from tilewright.dtypes import dtype
from tilewright.isa.arch import since
from tilewright.isa.machine import Lanes, Machine
from tilewright.isa.table import Form, Meaning, Ptx, Sync, counts, instruction, reads, single

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
