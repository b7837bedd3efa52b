"""Measures the pairs: every configuration by CUDA graphs and events, and the best one's counters by ncu.

    python -m benchmarks.gpu.pair_times measure FOLDER 250 held    # seconds, groups; pair_times.json grows
    python -m benchmarks.gpu.pair_times count FOLDER 8        # FOLDER/pair_counters.csv, where ncu is: of 8 of each
    python -m benchmarks.gpu.pair_times record FOLDER 0 held  # no GPU: what `measure` records besides

`measure` and `record` run every configuration on the simulator (FOLDER/records_*.pkl), so that the model can be played
on all of them, again and again, elsewhere: `python -m benchmarks.gpu.estimate FOLDER`.

A time is that of one launch with nothing of its arrays in the second-level cache, the median of some rounds.
"""

from __future__ import annotations

import json
import os
import pickle
import shutil
import subprocess
import sys
import time
import traceback
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from tempfile import gettempdir
from typing import Any

from benchmarks.gpu.estimate import TIMES, Recorded, recorded_together
from benchmarks.gpu.pairs import FITTED, HELD, SEEN, Maker, Ours, Pair, Triton, pairs
from tilewright.profiling import gpu

ROUNDS, RISKY = 9, "attention"  # what is measured last
COUNTER_SECONDS = 90
COUNTED = (
    "gpu__time_duration.sum", "sm__cycles_elapsed.max", "smsp__inst_executed.sum", "dram__bytes_read.sum",
    "dram__bytes_write.sum", "lts__t_sectors_op_read.sum", "lts__t_sectors_op_write.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum", "l1tex__data_pipe_lsu_wavefronts.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum", "smsp__inst_executed_pipe_alu.sum",
    "smsp__inst_executed_pipe_fma.sum", "smsp__inst_executed_pipe_lsu.sum", "smsp__inst_executed_pipe_xu.sum",
    "breakdown:gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
)  # fmt: skip

Found = dict[str, Any]  # of a pair: seconds by configuration, or why there are none
Codes = dict[tuple[str, str], bytes | str]  # by family and configuration
FILE_BYTES = 14 << 20
TEMPORARY = Path(gettempdir())


@dataclass(frozen=True, slots=True)
class Ready:
    """A configuration of a family of pairs. code: its kernel, assembled, as bytes that another process reads; or why
    there is none. records: compressed, what `recorded_together` returns, or why there is nothing.
    """

    family: str
    label: str
    code: bytes | str
    records: bytes | str


def prepared(job: tuple[str, str]) -> Ready:
    """In a process of its own."""
    family, label = job
    several = [pair for pair in pairs() if pair.family == family and label in pair.configs]
    code = _tried(lambda: _code(several[0], label))
    return Ready(family, label, code, "not assembled" if isinstance(code, str) else recorded_job(job))


def _code(pair: Pair, label: str) -> bytes:
    case, _ = pair.build(pair.configs[label], Maker(on_gpu=False))
    return pickle.dumps(case.prepared())


def _records(several: Sequence[Pair], label: str) -> bytes:
    return zlib.compress(pickle.dumps(recorded_together(several, label, gpu("H200")), protocol=5))


def _tried(make: Callable[[], bytes]) -> bytes | str:
    try:
        return make()
    except Exception as error:  # of any compiler, or of the simulator
        return f"{type(error).__name__}: {str(error)[:160]}"


def all_prepared(chosen: Sequence[Pair], folder: Path) -> Iterator[tuple[Pair, Codes]]:
    """The machine code of each pair's configurations, as soon as it is there, those of risky ones at the end; what was
    recorded of them lies in files of the folder.
    """
    families = {pair.family for pair in chosen}
    jobs = dict.fromkeys((pair.family, label) for pair in pairs() if pair.family in families for label in pair.configs)
    order = sorted(jobs, key=lambda job: RISKY not in job[0])  # which take the longest to record
    codes: Codes = {}
    records: dict[tuple[str, str], bytes | str] = {}
    left = list(chosen)
    with ProcessPoolExecutor(max(1, (os.cpu_count() or 1) - 1), mp_context=get_context("spawn")) as pool:
        for done in as_completed([pool.submit(prepared, job) for job in order]):
            ready = done.result()
            codes[ready.family, ready.label], records[ready.family, ready.label] = ready.code, ready.records
            for pair in [one for one in left if all((one.family, label) in codes for label in one.configs)]:
                if RISKY not in pair.name:
                    left.remove(pair)
                    _keep(records, folder)
                    yield pair, codes
    _keep(records, folder)
    (TEMPORARY / "codes.pkl").write_bytes(pickle.dumps(codes))
    for pair in left:
        yield pair, codes


def record(folder: Path, _: float, groups: Sequence[str]) -> None:
    """Record the configurations that have times, those that take the longest first."""
    timed = json.loads(TIMES.read_text())["pairs"]
    chosen = [pair for pair in pairs() if pair.group in groups]
    jobs = list(dict.fromkeys((pair.family, label) for pair in chosen for label in timed[pair.name]["seconds"]))
    jobs.sort(key=lambda job: RISKY not in job[0])
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        records = dict(zip(jobs, pool.map(recorded_job, jobs), strict=True))
    _keep(records, folder)
    for (family, label), found in records.items():
        if isinstance(found, str):
            print(f"{family}, {label}: {found}", flush=True)


def recorded_job(job: tuple[str, str]) -> bytes | str:
    """In a process of its own: what `record` keeps of a family's configuration."""
    family, label = job
    several = [pair for pair in pairs() if pair.family == family and label in pair.configs]
    return _tried(lambda: _records(several, label))


def _keep(records: Mapping[tuple[str, str], bytes | str], folder: Path) -> None:
    """Files of at most so many bytes."""
    parts: list[dict[tuple[str, str], bytes | str]] = [{}]
    for key, record in records.items():
        if sum(map(len, parts[-1].values())) + len(record) > FILE_BYTES:
            parts.append({})
        parts[-1][key] = record
    for number, part in enumerate(parts):
        (folder / f"records_{number}.pkl").write_bytes(pickle.dumps(part))


def kept_records(folder: Path, pair: Pair) -> dict[str, Callable[[], Recorded]]:
    """By configuration of a pair, what `measure` left in the folder, unpacked when it is called for."""
    found: dict[str, Callable[[], Recorded]] = {}
    for file in sorted(folder.glob("rec*.pkl")):
        for (family, label), record in pickle.loads(file.read_bytes()).items():
            if pair.family == family and label in pair.configs and isinstance(record, bytes):
                found[label] = partial(_unpacked, record, pair.name)
    return found


def _unpacked(record: bytes, pair: str) -> Recorded:
    found: Recorded = pickle.loads(zlib.decompress(record))[pair]
    return found


def measured(pair: Pair, codes: Codes, folder: Path) -> Found:
    """Seconds of each configuration of a pair."""
    import torch

    from benchmarks.gpu.memory_bound import Captured, cold

    make, calls, refused, texts, registers = Maker(on_gpu=True), {}, {}, {}, {}
    for label, config in pair.configs.items():
        code = codes.get((pair.family, label), "not assembled")
        try:
            if isinstance(code, str):
                raise TypeError(code)
            case, args = pair.build(config, make)
            if isinstance(case, Triton):
                texts[label] = case.ptx(args)
            made = pickle.loads(code)
            calls[label] = Captured(case.call(args, made))
            if isinstance(case, Ours):
                registers[label] = made.resources.registers
        except Exception as error:  # of any library
            refused[label] = f"{type(error).__name__}: {str(error)[:160]}"
    times = cold(calls, rounds=ROUNDS)
    if texts:
        kept = folder / "triton.json"
        before = json.loads(kept.read_text()) if kept.exists() else {}
        kept.write_text(json.dumps(before | {pair.name: texts}))
    calls.clear()
    make.held.clear()
    torch.cuda.empty_cache()
    return {"group": pair.group, "seconds": times, "refused": refused, "registers": registers}


def measure(folder: Path, seconds: float, groups: Sequence[str]) -> None:
    from benchmarks.gpu.__main__ import machine

    begun = time.time()
    found: dict[str, Any] = {"machine": machine(), "pairs": {}}
    for pair, codes in all_prepared([pair for pair in pairs() if pair.group in groups], folder):
        if time.time() - begun > seconds:
            print("out of time before", pair.name, flush=True)
            continue
        try:
            found["pairs"][pair.name] = one = measured(pair, codes, folder)
        except Exception:  # of one pair: the others stay
            print(f"{pair.name}: {traceback.format_exc()[-600:]}", flush=True)
            continue
        (folder / "pair_times.json").write_text(json.dumps(found, indent=1))
        times = one["seconds"]
        best = min(times, key=lambda label: times[label])
        print(f"{pair.name}: {len(times)} of {len(pair.configs)}, best {times[best] * 1e6:.1f} us, {best}; "
              f"slowest {max(times.values()) * 1e6:.1f} us; after {time.time() - begun:.0f} s", flush=True)  # fmt: skip
    print(f"all after {time.time() - begun:.0f} s", flush=True)


# Counters


def count(folder: Path, each: int = 8) -> None:
    """ncu on some configurations of each pair, the best one among them; its numbers as they come."""
    if shutil.which("ncu") is None:
        print("this machine has no ncu")
        return
    command = ["ncu", "--clock-control", "none", "--profile-from-start", "off", "--csv", "--page", "raw",
               "--section", "WarpStateStats", "--section", "SpeedOfLight", "--metrics", ",".join(COUNTED),
               sys.executable, "-m", "benchmarks.gpu.pair_times", "worker", str(folder), str(each)]  # fmt: skip
    with (folder / "pair_counters.csv").open("w") as out:
        try:
            ended = subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, timeout=COUNTER_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            print("ncu ran out of time", flush=True)
            return
    print(f"ncu ended with {ended.returncode}", flush=True)


def worker(folder: Path, each: int) -> None:
    """Launch some configurations of each pair, profiled, in the order in which it prints their names."""
    import torch

    kept = json.loads((folder / "pair_times.json").read_text())["pairs"]
    codes: Codes = pickle.loads((TEMPORARY / "codes.pkl").read_bytes())
    for pair in pairs():
        times = kept.get(pair.name, {}).get("seconds", {})
        order, make = sorted(times, key=lambda label: times[label]), Maker(on_gpu=True)
        for label in order[:: max(1, -(-len(order) // each))]:
            _profiled(pair, label, make, codes)
        make.held.clear()
        torch.cuda.empty_cache()


def _profiled(pair: Pair, label: str, make: Maker, codes: Codes) -> None:
    import torch

    try:
        case, args = pair.build(pair.configs[label], make)
        code = codes[pair.family, label]
        assert isinstance(code, bytes)
        call = case.call(args, pickle.loads(code))
        call()
        torch.cuda.synchronize()
        print(f"PAIR {pair.name} | {label}", flush=True)
        torch.cuda.cudart().cudaProfilerStart()
        call()
        torch.cuda.synchronize()
        torch.cuda.cudart().cudaProfilerStop()
    except Exception as error:  # of one configuration: the others stay
        print(f"FAILED {pair.name} | {label} | {error}", flush=True)


if __name__ == "__main__":
    verb, where, *others = sys.argv[1:]
    if verb in ("measure", "record"):
        do = {"measure": measure, "record": record}[verb]
        do(Path(where), float(others[0]) if others else 250.0, others[1:] or [FITTED, SEEN, HELD])
    else:
        {"count": count, "worker": worker}[verb](Path(where), *map(int, others))
