"""Estimated times beside measured ones: 24 pairs of kernel and shape, in their configurations.

    python -m benchmarks.gpu estimate              # the table, of the estimates that are kept
    python -m benchmarks.gpu.estimate FOLDER fitted,held     # all that `pair_times` recorded there, kept
    python -m benchmarks.gpu.estimate FOLDER seen 20         # of each pair 20
    python -m benchmarks.gpu.estimate FOLDER "histogram; CUDA reduction"     # some pairs

Best of five: the fastest of the five that are estimated to be the fastest, by the fastest of all, measured. Ranks:
Spearman's correlation. Error: the geometric mean of the factors between both times; worst: the largest of them.
"""

from __future__ import annotations

import gzip
import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from statistics import geometric_mean, mean
from typing import Any

from benchmarks.gpu.measure import Claim, Table
from benchmarks.gpu.pairs import SEEN, Case, Cuda, Maker, Ours, Pair, Small, Triton, Whole, pairs
from tilewright.profiling import gpu
from tilewright.profiling.bounds import Gpu
from tilewright.profiling.estimate import Timing, WholeGrid, played
from tilewright.records import replace
from tilewright.sim import RecordingOptions

FEW = RecordingOptions(2, stepped=0)
LIMIT_S = 100.0  # of a small problem on the simulator
RESULTS = Path(__file__).parents[1] / "results"
TRITON = RESULTS / "pair_triton.json.gz"
TIMES, ESTIMATES = RESULTS / "pair_times.json", RESULTS / "estimates.json"
# Units of the model as ncu groups them.
KINDS = {
    **dict.fromkeys(("HBM", "L2", "L2 writes", "atomics", "SM to SM"), "memory"),
    **dict.fromkeys(("shared memory", "TMA"), "first-level cache and shared memory"),
    **dict.fromkeys(("tensor", "alu", "fma", "mufu", "issue"), "instructions and tensor cores"),
    "starts": "starts of CTAs",  # ncu has no such unit
}
NOTE = (
    "Constants were chosen by pairs that are fitted and seen. Pairs that are held have other shapes: they were "
    "measured when the model stood. Two things were changed after that, when the errors of `matmul 3072 x 3072 x 1024` "
    "had been looked at: bytes of a copy for several CTAs take the port of each, and what CTAs send each other takes "
    "time by their bytes (14 a cycle, chosen by `matmul 2048^3`). Later changes (what depends on a whole sum waits for "
    "its end, the clock with tensor cores, starts of CTAs, bytes that several copies share, the end of a grid) come "
    "from residuals of fitted and seen pairs and from `benchmarks.gpu.figures`; of held pairs the rows of this table "
    "had been seen. The newest changes (arithmetic of kernels that name a type of an instruction, HBM by bytes on "
    "their way and by pieces, what the cache keeps of what is written, stores that wait, loads that wait for "
    "registers, late cp.async, finer turns of warps) come from residuals of fitted and held pairs both, and from "
    "figures and SASS: held pairs tell no longer how good the model is on what nobody has looked at. Both were "
    "measured a second time afterwards, with the kernels of that day, of which attention and products had changed; "
    "estimates are of these. Since then: bulk copies of what several SMs read come at 82 bytes a cycle (bursts; 60 "
    "had been chosen by pairs), products of one warpgroup have gaps (figures), copies by cp.async stand among products "
    "as in SASS, and products are recorded with two tiles where any of their pairs has several (before, each tile of "
    "a wide one had its own start). The newest changes come from figures and from pairs, held ones among them: copies "
    "of clusters get 50 bytes a cycle of the second-level cache (chosen by six pairs; rings show 34 to 86), short "
    "runs of bytes cost HBM more (by rows and transpositions), bytes outside of arrays take the copy engine (by "
    "`matmul 16`), and gaps of one warpgroup's products are not added to those of power. All that was measured and "
    "still is a configuration was recorded and estimated anew on 2026-12-01, when the turns of loops had become those "
    "of the loops around a statement (before, they were guessed from how often it ran). "
    "Ranks of two measurements: of two days, on two machines."
)
LIMIT = 0.85  # of ranks: where two measurements agree less, no estimate can be asked for it


@dataclass(frozen=True, slots=True)
class Recorded:
    """What was recorded of a configuration: small problems, and how the whole one is launched. `Any`: recordings."""

    small: tuple[tuple[int, int, Any], ...]
    whole: Whole
    ctas: int
    resident: int
    nbytes: Mapping[str, int]


def recorded(pair: Pair, label: str, on: Gpu) -> Recorded:
    return recorded_together([pair], label, on)[pair.name]


def recorded_together(several: Sequence[Pair], label: str, on: Gpu) -> dict[str, Recorded]:
    """A configuration of several pairs of one family, by pair: the small problems run once."""
    runs: tuple[tuple[int, int, Any], ...] = ()
    found = {}
    for pair in several:
        case, args = pair.build(pair.configs[label], Maker(on_gpu=False))
        small, whole = pair.small(pair.configs[label], case, args)
        simulate, ctas, resident, nbytes = _launch(pair, label, case, args, on)
        runs = runs or tuple((one.tiles, one.steps, simulate(one).recording) for one in small)
        found[pair.name] = Recorded(runs, whole, ctas, resident, nbytes)
    return found


Launched = tuple[Callable[[Small], Any], int, int, dict[str, int]]
"""How a small problem runs on the simulator; CTAs of the whole launch, and of an SM at once; bytes of its arrays."""


def _launch(pair: Pair, label: str, case: Case, args: Sequence[Any], on: Gpu) -> Launched:
    if isinstance(case, Ours):
        return _of_ours(case, args, on)
    return _of_cuda(case, args, on) if isinstance(case, Cuda) else _of_triton(pair, label, case, args, on)


def _of_ours(case: Ours, args: Sequence[Any], on: Gpu) -> Launched:
    from tilewright.profiling.bounds import by_buffer, bytes_of, occupancy_of

    exe = case.make()
    nbytes = bytes_of(by_buffer(exe, args))

    def simulate(one: Small) -> Any:
        return exe.simulate(*one.args, check="none", record=FEW, limit_s=LIMIT_S)

    return (
        simulate,
        math.prod(exe.bind(*args).grid),
        occupancy_of(exe.lowered.launch, on, exe.registers_of_a_thread()).ctas,
        nbytes,
    )


def _of_cuda(case: Cuda, args: Sequence[Any], on: Gpu) -> Launched:
    from tilewright.isa import ctas_of_an_sm
    from tilewright.load import load_ptx

    made = case.assembled()
    entry, used = load_ptx(made.ptx)[case.entry], made.resources(case.entry)
    room = ctas_of_an_sm(on.arch, math.prod(case.block), used.shared_bytes, used.registers)

    def simulate(one: Small) -> Any:
        return entry.simulate(*one.args, grid=one.grid, block=case.block, check="none", record=FEW, limit_s=LIMIT_S)

    return simulate, math.prod(case.grid), min(room.values()), _nbytes(entry.parameters, args)


def _nbytes(names: Sequence[str], args: Sequence[Any]) -> dict[str, int]:
    return {name: int(value.nbytes) for name, value in zip(names, args, strict=False) if hasattr(value, "nbytes")}


@cache
def triton_texts() -> dict[str, dict[str, Any]]:
    """What Triton 3.6 made of the pairs on the H200, by pair and configuration: the PTX, and what a launch needs."""
    return dict(json.loads(gzip.decompress(TRITON.read_bytes())))


def _of_triton(pair: Pair, label: str, case: Triton, args: Sequence[Any], on: Gpu) -> Launched:
    from tilewright.isa import ctas_of_an_sm
    from tilewright.load import load_ptx

    made = triton_texts()[pair.family][label]
    entry = load_ptx(made["ptx"])[made["name"]]
    room = ctas_of_an_sm(on.arch, made["warps"] * 32, made["shared"], made["registers"])

    def simulate(one: Small) -> Any:
        values = [value for value in one.args if hasattr(value, "shape") or isinstance(value, float | int)]
        values += [None] * (len(entry.parameters) - len(values))
        return entry.simulate(*values, grid=one.grid, shared_bytes=made["shared"], check="none", record=FEW,
                              limit_s=LIMIT_S)  # fmt: skip

    return simulate, case.grid, min(room.values()), _nbytes(entry.parameters, args)


def estimated(of: Recorded, on: Gpu) -> Timing:
    """The whole problem's time, from that of the small ones: it goes on in a line, as what each unit is busy for."""
    found = []
    for tiles, steps, recording in of.small:
        work = of.whole.tiles * of.whole.steps / (tiles * steps)
        found.append(played(recording, WholeGrid(of.ctas, of.resident, of.nbytes, work), on))
    first = found[0]
    if len(found) == 1 and of.whole.steps == 1:
        return first

    def whole(value: Callable[[Timing], float]) -> float:
        if len(found) == 1:
            return value(first) * of.whole.steps / of.small[0][1]
        (_, least, _), (_, most, _) = of.small[:2]
        beyond = (of.whole.steps - least) * (value(found[1]) - value(first)) / (most - least)
        tile = (value(found[2]) - value(first) if len(found) > 2 else value(first)) + beyond
        return value(first) + beyond + (of.whole.tiles - 1) * tile

    used = {unit: whole(lambda one, unit=unit: one.used.get(unit, 0.0)) for unit in found[-1].used}  # type: ignore[misc]
    cycles = max(whole(lambda one: one.cycles), *used.values())
    last = found[min(1, len(found) - 1)]
    started = last.seconds - max(last.cycles / last.clock, last.least_s)
    seconds = started + max(cycles / last.clock, last.least_s)
    return replace(last, cycles=cycles, seconds=seconds, used=used)


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


# Kept


def estimates() -> dict[str, dict[str, tuple[float, str]]]:
    """Seconds and the unit, by pair and configuration, as they were estimated last: of some configurations."""
    return dict(json.loads(ESTIMATES.read_text(encoding="utf-8"))) if ESTIMATES.exists() else {}


def keep(folder: str, groups: str, most: str = "1000") -> None:
    """Estimate what `pair_times` recorded in a folder, of each pair of these groups or names at most so many
    configurations, spread over those that were measured, and keep that.
    """
    chosen = [pair.name for pair in pairs() if pair.group in groups.split(",") or pair.name in groups.split("; ")]
    found = estimates()
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        for done in as_completed([pool.submit(_estimates_of, folder, name, int(most)) for name in chosen]):
            name, own = done.result()
            found[name] = own or found.get(name, {})
            ESTIMATES.write_text(json.dumps(found, indent=0), encoding="utf-8")
            print(f"{name}: {len(own)} configurations", flush=True)


def _estimates_of(folder: str, name: str, most: int) -> tuple[str, dict[str, tuple[float, str]]]:
    from benchmarks.gpu.pair_times import kept_records

    pair = next(pair for pair in pairs() if pair.name == name)
    times = json.loads(TIMES.read_text(encoding="utf-8"))["pairs"].get(name, {}).get("seconds", {})
    on, own, records = gpu("H200"), {}, kept_records(Path(folder), pair)
    labels = sorted((label for label in times if label in records), key=lambda label: times[label])
    for label in labels[:: max(1, -(-len(labels) // most))]:
        timing = estimated(records[label](), on)
        own[label] = timing.seconds, max(timing.busy, key=lambda unit: timing.busy[unit])
    return name, own


def is_told(pair: str, label_units: Mapping[str, tuple[float, str]], ncu: Mapping[str, Any]) -> bool | None:
    """Is the unit of the estimate of the kind that ncu names; None where that configuration has none?"""
    if ncu["configuration"] not in label_units:
        return None
    most = max((name for name in ncu if name != "configuration"), key=lambda name: ncu[name])
    return KINDS[label_units[ncu["configuration"]][1]] == ("memory" if most in ("HBM", "L2") else most)


def run() -> Table:
    """The table, of the estimates that are kept."""
    measured = json.loads(TIMES.read_text(encoding="utf-8"))["pairs"]
    rows, claims, told, found, limited = [], [], [], estimates(), []
    for pair in pairs():
        units = found.get(pair.name, {})
        if pair.name not in measured or len(units) < 3:
            continue
        one = compared({label: each[0] for label, each in units.items()}, measured[pair.name]["seconds"])
        is_right = is_told(pair.name, units, measured[pair.name].get("ncu", {"configuration": ""}))
        before = measured[pair.name].get("before", {})
        again = [(seconds, measured[pair.name]["seconds"][label]) for label, seconds in before.items()]
        agreed = rank_correlation(*zip(*again, strict=True)) if len(again) > 2 else 1.0
        twice = f"{agreed:.2f}" if len(again) > 2 else "-"
        limited += [f"`{pair.name}` ({agreed:.2f})"] * (agreed < LIMIT)
        cells = f"{one.best:.3f}", f"{one.ranks:.2f}", twice, f"{one.error:.2f}", f"{one.worst:.2f}"
        many = f"{len(units)} of {len(measured[pair.name]['seconds'])}"
        rows.append((pair.name, pair.group, many, *cells, {True: "yes", False: "no", None: "-"}[is_right]))
        if pair.group != SEEN:
            claims += [Claim(f"{pair.name}: best of five", one.best, 1.03, most=True),
                       Claim(f"{pair.name}: ranks", one.ranks, 0.85),
                       Claim(f"{pair.name}: error", one.error, 1.15, most=True),
                       Claim(f"{pair.name}: worst error", one.worst, 1.4, most=True)]  # fmt: skip
            told.append(is_right)
    both = [compared({label: each[0] for label, each in found[pair.name].items()}, measured[pair.name]["seconds"])
            for pair in pairs() if pair.group != SEEN and len(found.get(pair.name, {})) > 2]  # fmt: skip
    claims.append(Claim("ranks, the mean of all pairs that are fitted or held", mean(one.ranks for one in both), 0.9))
    errors = geometric_mean(one.error for one in both)
    claims.append(Claim("error, the mean of them", errors, 1.15, most=True))
    claims.append(Claim(f"units as ncu has them, of {sum(one is not None for one in told)}", sum(map(bool, told)), 20))
    head = ("pair", "group", "configurations", "best of five", "ranks", "ranks of two measurements", "error", "worst",
            "unit as ncu")  # fmt: skip
    few = f"Two measurements of these agree by less than {LIMIT}, so that no estimate can: {', '.join(limited)}."
    return Table("Estimated times", head, tuple(rows), tuple(claims), (NOTE, *[few] * bool(limited)))


if __name__ == "__main__":
    keep(*sys.argv[1:])
