"""The figures that a schedule is played with, of one SM of a GPU, in cycles and bytes a cycle."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.profiling.gpus import SECTOR_RATE, Gpu

__all__ = ["Machine", "machine_of"]

HBM_REACHED = 0.92  # of the datasheet's rate: what reads reach


@dataclass(frozen=True, slots=True)
class Machine:
    """l2_bytes: that an SM exchanges with the second-level cache in a cycle; hbm_bytes, hbm_write_bytes: its share of
    HBM. Latencies in cycles: of a load that hits in the cache, and of one that comes from HBM; what a copy by TMA takes
    more; from the last product's turn to its result; of a barrier after the last arrival. cta_start: from the end of
    a CTA to the first instruction of the next. store_room: cycles of stores that may be on their way before a warp
    waits. atomic_cycles: of the cache for a sector. launch_s: seconds of a launch of nothing.
    """

    l2_bytes: float
    hbm_bytes: float
    hbm_write_bytes: float
    l2_latency: float = 270.0
    hbm_latency: float = 620.0
    tma_latency: float = 350.0
    tensor_latency: float = 40.0
    barrier_latency: float = 20.0
    cta_start: float = 500.0
    store_room: float = 2000.0
    atomic_cycles: float = 4.0
    launch_s: float = 2.5e-6


L2_RATE = 5.5e12 / 132 / 1.755e9  # bytes of an SM in a cycle, where all SMs read from the second-level cache


def machine_of(gpu: Gpu, busy_sms: int) -> Machine:
    """The figures where so many SMs are busy: they share HBM, but none has more than its port takes."""
    busy = max(1, min(gpu.sms, busy_sms))
    share = gpu.hbm * HBM_REACHED / gpu.clock / busy
    l2 = min(SECTOR_RATE, L2_RATE * gpu.sms / busy)
    return Machine(l2, min(SECTOR_RATE, share), min(SECTOR_RATE, share))
