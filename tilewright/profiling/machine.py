"""The figures that a schedule is played with, of one SM of a GPU, in cycles and bytes a cycle.

Measured on an H200 where nothing else is said: `python -m benchmarks.gpu figures`, 2026-11-28, driver 580.159.04, kept
in benchmarks/results/figures.json. What is marked "by pairs" was chosen by the kernels of `benchmarks.gpu.pairs` that
are fitted or seen. Other GPUs get the same parts of their datasheets' rates and the same latencies: not measured.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.profiling.gpus import SECTOR_RATE, Gpu

__all__ = ["SmFigures", "figures_of"]

# Of HBM's rate, what reads, writes, and both together reach: 4.6, 4.4 and 4.15 TB/s of 4.8.
READ_REACHED, WRITE_REACHED, BOTH_REACHED = 0.96, 0.92, 0.865
L2_REACHED = 43.0  # bytes of the second-level cache that each SM gets in a cycle where all of them read: 11 TB/s
L2_SHARED = 60.0  # where copies of several SMs bring the same bytes at about the same time; by pairs
WRITTEN, WRITTEN_ALONE = 16.5, 32.0  # bytes that each SM writes in a cycle where all of them do, and one alone
TENSOR_POWER = 0.33  # by how much slower tensor cores are where all SMs use them, as the clock falls; by pairs
DISPATCH = 159.0  # cycles between two CTAs that begin on one SM: 0.607 ns of the whole GPU, whatever they do


@dataclass(frozen=True, slots=True)
class SmFigures:
    """Bytes are those of a cycle, latencies cycles; each has a comment where it is not plain."""

    l2_bytes: float
    l2_shared_bytes: float  # that are read as others read them
    l2_write_bytes: float
    hbm_bytes: float  # its share
    dispatch: float
    tensor_power: float  # times as long
    l2_latency: float = 280.0
    hbm_latency: float = 760.0  # 675 for a load alone; with what a loop around it takes
    hbm_queue: float = 115.0  # times u / (1 - u), where u of HBM's rate is in use: fits 2 to 64 KB on their way
    near_latency: float = 40.0  # of a load that hits in the first-level cache
    remote_latency: float = 200.0  # to another CTA of the cluster
    tensor_latency: float = 60.0  # from the last product's turn to its result
    barrier_latency: float = 15.0  # after the last arrival
    warp_latency: float = 1.8  # the same, more for each warp
    passed: float = 25.0  # of a wait that finds its phase over; by pairs
    signal: float = 20.0  # of an arrival; by pairs
    tma_latency: float = 250.0  # of a copy by TMA, more than of a load
    tma_issue: float = 100.0  # of the thread that issues it; by pairs
    tma_row: float = 1.5  # of the unit, for 128 bytes; by pairs
    tma_outside: float = 6.5  # the same, for as many that are outside of the array; by pairs
    cta_start: float = 300.0  # from the end of a CTA to the first instruction of the next; by pairs
    cluster_start: float = 350.0  # more, for each CTA of a cluster of more than two; by pairs
    store_room: float = 2000.0  # cycles of stores that may be on their way before a warp waits; by pairs
    atomic_cycles: float = 5.0  # of an SM, for a sector of atomics
    lsu_power: float = 1.08  # passes that shared memory takes for each that is counted; by pairs
    launch_s: float = 3.0e-6  # seconds of a launch in a graph that does nothing


def figures_of(gpu: Gpu, busy_sms: int, written: float = 0.0) -> SmFigures:
    """The figures where so many SMs are busy: they share what memory gives, but none has more than its port takes.

    written: the part of the bytes of HBM that are written.
    """
    busy = max(1, min(gpu.sms, busy_sms))
    mixed = 2 * min(written, 1 - written)
    alone = READ_REACHED * (1 - written) + WRITE_REACHED * written
    part, reached = gpu.sms / busy, alone * (1 - mixed) + BOTH_REACHED * mixed
    return SmFigures(
        l2_bytes=min(SECTOR_RATE, L2_REACHED * part),
        l2_shared_bytes=min(SECTOR_RATE, L2_SHARED * part),
        l2_write_bytes=min(WRITTEN_ALONE, WRITTEN * part),
        hbm_bytes=min(SECTOR_RATE, gpu.hbm * reached / gpu.clock / busy),
        dispatch=DISPATCH / part,
        tensor_power=1 + TENSOR_POWER / part,
    )
