"""Estimated times beside measured ones: 24 pairs of kernel and shape, in all configurations.

python -m benchmarks.gpu estimate              # the table, against what pair_times has measured
python -m benchmarks.gpu.estimate matmul 8     # every eighth configuration of pairs that begin so
"""

from __future__ import annotations

import gzip
import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.gpu.pairs import Cuda, Maker, Ours, Pair, Small, Triton, Whole, pairs
from tilewright.profiling import gpu
from tilewright.profiling.whole import Launch, Timing, played
from tilewright.profiling.gpus import Gpu

RECORDED = 2  # CTAs
RESULTS = Path(__file__).parents[1] / "results"
TRITON = RESULTS / "pair_triton.json.gz"


@dataclass(frozen=True, slots=True)
class Recorded:
    """What was recorded of a configuration: small problems, and how the whole one is launched. `Any`: recordings."""

    small: tuple[tuple[int, int, Any], ...]
    whole: Whole
    ctas: int
    resident: int
    nbytes: Mapping[str, int]


def recorded(pair: Pair, label: str, on: Gpu) -> Recorded:
    case, args = pair.build(pair.configs[label], Maker(on_gpu=False))
    small, whole = pair.small(pair.configs[label], case, args)
    if isinstance(case, Ours):
        return _of_ours(case, args, small, whole, on)
    return _of_ptx(pair, label, case, args, small, whole, on)


def _of_ours(case: Ours, args: Sequence[Any], small: Sequence[Small], whole: Whole, on: Gpu) -> Recorded:
    from tilewright.profiling.bounds import _occupancy

    exe = case.make()
    runs = [(one.tiles, one.steps, exe.simulate(*one.args, check="none", record=RECORDED, limit_s=100).recording)
            for one in small]  # fmt: skip
    nbytes = {buffer.name: int(value.nbytes) for param, value in zip(exe.kernel.params, args, strict=True)
              for buffer in exe.kernel.buffers if buffer.data == param and hasattr(value, "nbytes")}  # fmt: skip
    return Recorded(tuple(runs), whole, math.prod(exe.bind(*args).grid), _occupancy(exe, on).ctas, nbytes)


def _of_ptx(
    pair: Pair, label: str, case: Cuda | Triton, args: Sequence[Any], small: Sequence[Small], whole: Whole, on: Gpu
) -> Recorded:
    from tilewright.isa import ctas_of_an_sm
    from tilewright.load import load_ptx

    if isinstance(case, Cuda):
        made = case.assembled()
        entry, used = load_ptx(made.ptx)[case.entry], made.resources(case.entry)
        threads, ctas = math.prod(case.block), math.prod(case.grid)
        room = ctas_of_an_sm(on.arch, threads, used.shared_bytes, used.registers)
        runs = [(one.tiles, one.steps, entry.simulate(*one.args, grid=one.grid, block=case.block, check="none",
                                                      record=RECORDED, limit_s=100).recording)
                for one in small]  # fmt: skip
    else:
        entry, runs, room, ctas = _of_triton(pair, label, case, small, on)
    arrays = zip(entry.parameters, args, strict=False)
    nbytes = {name: int(value.nbytes) for name, value in arrays if hasattr(value, "nbytes")}
    return Recorded(tuple(runs), whole, ctas, min(room.values()), nbytes)


@cache
def triton_texts() -> dict[str, dict[str, Any]]:
    """What Triton 3.6 made of the pairs on the H200, by pair and configuration: the PTX, and what a launch needs."""
    return dict(json.loads(gzip.decompress(TRITON.read_bytes())))


def _of_triton(
    pair: Pair, label: str, case: Triton, small: Sequence[Small], on: Gpu
) -> tuple[Any, list[Any], Mapping[str, int], int]:
    from tilewright.isa import ctas_of_an_sm
    from tilewright.load import load_ptx

    made = triton_texts()[pair.name][label]
    entry, threads = load_ptx(made["ptx"])[made["name"]], made["warps"] * 32
    runs = []
    for one in small:
        values = [value for value in one.args if hasattr(value, "shape") or isinstance(value, float | int)]
        values += [None] * (len(entry.parameters) - len(values))
        run = entry.simulate(*values, grid=one.grid, shared_bytes=made["shared"], check="none", record=RECORDED,
                             limit_s=100)  # fmt: skip
        runs.append((one.tiles, one.steps, run.recording))
    return entry, runs, ctas_of_an_sm(on.arch, threads, made["shared"], made["registers"]), case.grid


def estimated(of: Recorded, on: Gpu) -> Timing:
    """The whole problem's time, from that of the small ones."""
    found = []
    for tiles, steps, recording in of.small:
        work = of.whole.tiles * of.whole.steps / (tiles * steps)
        found.append(played(recording, Launch(of.ctas, of.resident, of.nbytes, work), on))
    first = found[0]
    if len(found) == 1:
        return first if of.whole.steps == 1 else _more(first, first.cycles * of.whole.steps / of.small[0][1], on)
    (_, least, _), (_, most, _) = of.small[:2]
    step = (found[1].cycles - first.cycles) / (most - least)
    beyond = (of.whole.steps - least) * step
    tile = found[2].cycles - first.cycles + beyond if len(found) > 2 else first.cycles + beyond
    return _more(found[1], first.cycles + beyond + (of.whole.tiles - 1) * tile, on)


def _more(of: Timing, cycles: float, on: Gpu) -> Timing:
    started = of.seconds - max(of.cycles / on.clock, of.least_s)
    return Timing(cycles, started + max(cycles / on.clock, of.least_s), of.busy, of.waits, of.units, of.least_s)


# Comparing


def ranks(values: Sequence[float]) -> list[float]:
    """Of each value, its place among all; equal ones share the mean of their places."""
    order = sorted(range(len(values)), key=lambda at: values[at])
    found = [0.0] * len(values)
    begin = 0
    while begin < len(order):
        end = begin
        while end < len(order) and values[order[end]] == values[order[begin]]:
            end += 1
        for at in order[begin:end]:
            found[at] = (begin + end - 1) / 2
        begin = end
    return found


def rank_correlation(a: Sequence[float], b: Sequence[float]) -> float:
    """Spearman's: the correlation of ranks."""
    x, y = ranks(a), ranks(b)
    mean = (len(x) - 1) / 2
    both = sum((p - mean) * (q - mean) for p, q in zip(x, y, strict=True))
    own = math.sqrt(sum((p - mean) ** 2 for p in x) * sum((q - mean) ** 2 for q in y))
    return both / own if own else 1.0


@dataclass(frozen=True, slots=True)
class Compared:
    """Of a pair: how far the best of the five that are estimated to be best is from the best measured one (1: it is
    among them); the correlation of ranks; the geometric error and the worst one, as factors.
    """

    best: float
    ranks: float
    error: float
    worst: float


def compared(estimates: Mapping[str, float], measured: Mapping[str, float]) -> Compared:
    both = [label for label in estimates if label in measured]
    five = sorted(both, key=lambda label: estimates[label])[:5]
    least = min(measured[label] for label in both)
    logs = [abs(math.log(estimates[label] / measured[label])) for label in both]
    correlation = rank_correlation([estimates[one] for one in both], [measured[one] for one in both])
    return Compared(min(measured[label] for label in five) / least, correlation,
                    math.exp(sum(logs) / len(logs)), math.exp(max(logs)))  # fmt: skip


def main(begins: str = "", step: str = "1") -> None:
    on = gpu("H200")
    for pair in pairs():
        if not pair.name.startswith(begins):
            continue
        for label in list(pair.configs)[:: int(step)]:
            found = estimated(recorded(pair, label, on), on)
            busy = {name: round(part, 2) for name, part in found.busy.items() if part > 0.1}
            print(f"{pair.name} {label}: {found.seconds * 1e6:.1f} us {busy} {found.waits.most_common(2)}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
