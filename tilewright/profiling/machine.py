"""The figures that a schedule is played with, of one SM of a GPU, in cycles and bytes a cycle.

Measured on an H200 (`python -m benchmarks.gpu figures`, 2026-11-28, driver 580.159.04, benchmarks/results/figures.json):
reads of HBM reach 4.6 TB/s of 4.8, writes 4.4, both together 4.15; all SMs read 11 TB/s from the second-level cache, one
alone 62 bytes a cycle; all write 4.3 TB/s there, one alone 32 bytes a cycle. Other GPUs get the same parts of their
datasheets' rates and the same latencies in cycles: not measured.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.profiling.gpus import SECTOR_RATE, Gpu

__all__ = ["Machine", "machine_of"]

READ_REACHED, WRITE_REACHED, BOTH_REACHED = 0.96, 0.92, 0.865  # of HBM's rate
L2_REACHED = 43.0  # bytes that each SM gets of the second-level cache in a cycle where all of them read; measured
L2_SHARED = 60.0  # where they read the same bytes at about the same time; by products on an H200
WRITTEN, WRITTEN_ALONE = 16.5, 32.0  # and that each writes, where all of them do, and alone


@dataclass(frozen=True, slots=True)
class Machine:
    """l2_bytes, l2_shared_bytes, l2_write_bytes: that an SM reads from the second-level cache in a cycle, that it reads
    as others do, and that it writes; hbm_bytes: its
    share of HBM. Latencies in cycles: of a load that hits in the cache, and of one that comes from HBM; what a copy by
    TMA takes more; from the last product's turn to its result; of a barrier after the last arrival, and more for each
    warp. cta_start: from the end of a CTA to the first instruction of the next; dispatch: between two CTAs that begin
    on one SM. store_room: cycles of stores that may be on their way before a warp waits. atomic_cycles: of an SM for a
    sector of atomics. launch_s: seconds of a launch of nothing. near_latency: of a
    load that hits in the first-level cache; remote_latency: to another CTA of the cluster. tma_issue: cycles of the thread that issues a copy; tma_row, tma_outside:
    of the unit for 128 bytes, and for as many that are outside of the array. passed: of a wait that finds its phase
    over; signal: of an arrival. cluster_start: what a cluster begins later, for each CTA. tensor_power: by how much
    slower tensor cores are where all SMs use them, as the clock falls; lsu_power: passes that shared memory takes for
    each that is counted.
    """

    l2_bytes: float
    l2_shared_bytes: float
    l2_write_bytes: float
    hbm_bytes: float
    l2_latency: float = 280.0
    hbm_latency: float = 760.0
    hbm_queue: float = 115.0
    tma_latency: float = 250.0
    tensor_latency: float = 60.0
    barrier_latency: float = 15.0
    warp_latency: float = 1.8
    cta_start: float = 300.0
    dispatch: float = 159.0
    store_room: float = 2000.0
    atomic_cycles: float = 5.0
    launch_s: float = 3.0e-6
    near_latency: float = 40.0
    remote_latency: float = 200.0
    tma_issue: float = 100.0
    tma_row: float = 1.5
    tma_outside: float = 6.5
    passed: float = 25.0
    signal: float = 20.0
    cluster_start: float = 350.0
    tensor_power: float = 1.0
    lsu_power: float = 1.08


def machine_of(gpu: Gpu, busy_sms: int, written: float = 0.0) -> Machine:
    """The figures where so many SMs are busy: they share what memory gives, but none has more than its port takes.

    written: the part of the bytes of HBM that are written.
    """
    busy = max(1, min(gpu.sms, busy_sms))
    mixed = 2 * min(written, 1 - written)
    alone = READ_REACHED * (1 - written) + WRITE_REACHED * written
    hbm = gpu.hbm * (alone * (1 - mixed) + BOTH_REACHED * mixed) / gpu.clock / busy
    part = gpu.sms / busy
    return Machine(
        min(SECTOR_RATE, L2_REACHED * part), min(SECTOR_RATE, L2_SHARED * part), min(WRITTEN_ALONE, WRITTEN * part), min(SECTOR_RATE, hbm),
        dispatch=159.0 * min(1.0, busy / gpu.sms), tensor_power=1 + 0.33 * busy / gpu.sms,
    )  # fmt: skip
