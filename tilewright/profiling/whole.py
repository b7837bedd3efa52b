"""From one SM to the whole grid: how many CTAs an SM has, what comes from HBM, and when the last one ends."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Any

from tilewright.profiling.acts import ATOMICS, CACHED_BYTES, Script, script_of
from tilewright.profiling.gpus import Gpu
from tilewright.profiling.machine import figures_of
from tilewright.profiling.play import Played, play

__all__ = ["Timing", "WholeGrid", "played"]

WAVES = 4  # of CTAs that are played; the others follow at the rate of the last ones
MOST_ACTS = 60_000
AT_ONCE = {4: 120 / 132, 8: 120 / 132, 16: 112 / 132}  # of the SMs, those that clusters of so many CTAs fill; measured
KEPT = 0.5  # of the second-level cache: so much of what is written stays there
# Seconds of an atomic of a warp on a line of 128 bytes, and more for each lane with a place of its own: measured on an
# H200 (pairs, histogram: 10.2 ns for 32 lanes; learners, count: 0.76 ns for one).
LINE_ATOMIC_S, LANE_ATOMIC_S = 0.45e-9, 0.305e-9


@dataclass(frozen=True, slots=True)
class WholeGrid:
    """ctas: of the whole grid. resident: of an SM at a time. nbytes: of the arrays, by buffer. work: how many times as
    much a CTA moves in the whole problem as in the recorded one.
    """

    ctas: int
    resident: int
    nbytes: Mapping[str, int] = field(default_factory=dict)
    work: float = 1.0


@dataclass(frozen=True, slots=True)
class Timing:
    """cycles: of the SM that has the most to do. busy: the part of it that each unit is busy for. waits, units: where
    warps waited, and which rows used which unit. least_s: seconds that atomics on the same places take.
    """

    cycles: float
    seconds: float
    busy: Mapping[str, float]
    waits: Mapping[tuple[str, int], float]
    units: Mapping[tuple[str, int], float]
    least_s: float = 0.0


def played(recording: Any, launch: WholeGrid, gpu: Gpu) -> Timing:
    """How long the whole grid takes."""
    cluster = recording.cluster
    clusters = launch.ctas // cluster
    busy_sms = min(gpu.sms, launch.ctas)
    share, written = shares(recording, launch, gpu)
    machine = figures_of(gpu, busy_sms, written)
    firsts = [cta for cta in recording.ctas if cta % cluster == 0][:2]
    cached = frozenset(name for name, nbytes in launch.nbytes.items() if nbytes <= CACHED_BYTES)
    scripts = [script_of(recording, share, first, cached) for first in firsts]
    sms = gpu.sms * AT_ONCE.get(cluster, 1.0)
    slots = max(1, int(sms * launch.resident) // cluster)
    each = clusters / (sms / cluster)  # of an SM, or of a group of as many as a cluster has
    resident = max(1, min(launch.resident, ceil(each)))
    total = total_played(scripts, resident, each)
    found = play(scripts, machine, resident, total)
    cycles = extended(found, resident, total, each if clusters > slots * WAVES else ceil(each))
    least = contention(recording, launch)
    seconds = machine.launch_s + max(cycles / gpu.clock, least)
    busy = {name: many / found.ends[-1] for name, many in found.busy.items()}
    return Timing(cycles, seconds, busy, found.waits, found.units, least)


def total_played(scripts: Sequence[Script], resident: int, each: float) -> int:
    acts = max(1, sum(len(one) for script in scripts for _, _, one in script.warps) // len(scripts))
    most = max(resident, min(WAVES * resident, MOST_ACTS // acts))
    return max(1, min(ceil(each), most))


def extended(found: Played, resident: int, total: int, each: float) -> float:
    """Cycles until so many clusters have ended, of which the first ``total`` were played."""
    ends = sorted(found.ends)
    if each <= total:
        return max(ends[-1], *found.busy.values())
    before = max(0, total - 1 - max(resident, total // 2))
    rate = (ends[-1] - ends[before]) / max(1, total - 1 - before) if total > 1 else ends[-1]
    rate = max(rate, *(cycles / total for cycles in found.busy.values()))
    least = max(found.busy.values(), default=0.0) * each / total  # what is on its way at the end has to arrive, too
    return max(least, ends[-1] + (each - total) * rate)


def contention(recording: Any, launch: WholeGrid) -> float:
    """Seconds that atomics on the same line of memory take at least, one after the other."""
    seconds = defaultdict[str, float](float)
    for stream in recording.streams:
        for event in stream.events:
            for one in getattr(event, "moved", ()):
                site = recording.sites[one.site]
                if site.space == "global" and site.write and ATOMICS.fullmatch(site.op):
                    at_once = (
                        one.lanes if one.lanes <= one.sectors * 8 else one.times
                    )  # lanes of one place are added up
                    seconds[site.buffer] += one.times * LINE_ATOMIC_S + at_once * LANE_ATOMIC_S
    many = launch.ctas / max(1, len(recording.ctas))
    lines = {name: max(1, launch.nbytes.get(name, 0) // 128) for name in seconds}
    return max((each * many / lines[name] for name, each in seconds.items()), default=0.0)


def shares(recording: Any, launch: WholeGrid, gpu: Gpu) -> tuple[dict[str, float], float]:
    """Of each buffer the part of what CTAs move that comes from HBM or goes there: each byte of an array once, and of
    what is written what the cache does not keep; and the part of all these bytes that is written.
    """
    read, written = Counter[str](), Counter[str]()
    for stream in recording.streams:
        for event in stream.events:
            for one in getattr(event, "moved", ()):
                site = recording.sites[one.site]
                if site.space == "global" and not site.issues:
                    (written if site.write else read)[site.buffer] += one.sectors * 32
    for one in recording.operations:
        for name in launch.nbytes.keys() & set(one.buffers):
            read[name] += one.reads.get("global", 0)
            written[name] += one.writes.get("global", 0)
    many = launch.ctas / max(1, len(recording.ctas)) * launch.work
    far_read = {name: min(nbytes * many, launch.nbytes.get(name, 0)) for name, nbytes in read.items() if nbytes}
    far_written = {name: min(nbytes * many, launch.nbytes.get(name, 0)) for name, nbytes in written.items() if nbytes}
    kept = min(1.0, max(0.0, sum(far_written.values()) / (KEPT * gpu.l2_bytes) - 1))
    found = {name: nbytes / (read[name] * many) for name, nbytes in far_read.items()}
    found |= {name: kept * nbytes / (written[name] * many) for name, nbytes in far_written.items()}
    out, total = kept * sum(far_written.values()), sum(far_read.values())
    return found, out / max(1.0, out + total)
