"""Measures the pairs: every configuration by CUDA graphs and events, and the best one's counters by ncu.

    python -m benchmarks.gpu.pair_times measure FOLDER 250 held    # seconds, groups; pair_times.json grows
    python -m benchmarks.gpu.pair_times count FOLDER          # FOLDER/pair_counters.csv, where ncu is

A time is that of one launch with nothing of its arrays in the second-level cache, the median of some rounds.
"""

from __future__ import annotations

import json
import pickle
import shutil
import subprocess
import sys
import time
import traceback
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from benchmarks.gpu.pairs import FITTED, HELD, SEEN, Maker, Ours, Pair, Triton, pairs

ROUNDS, RISKY = 9, "attention"  # what is measured last
COUNTER_SECONDS = 110
SECTIONS = ("SpeedOfLight", "WarpStateStats", "SchedulerStats", "Occupancy", "LaunchStats", "MemoryWorkloadAnalysis",
            "ComputeWorkloadAnalysis")  # fmt: skip
BROKEN_DOWN = ("sm__throughput", "gpu__compute_memory_throughput", "l1tex__throughput", "lts__throughput",
               "gpu__dram_throughput")  # fmt: skip

Found = dict[str, Any]  # of a pair: seconds by configuration, or why there are none


def prepared(job: tuple[int, str]) -> tuple[int, str, bytes | str]:
    """The kernel of a configuration, assembled, as bytes that another process reads; or why there is none."""
    number, label = job
    try:
        pair = pairs()[number]
        case, _ = pair.build(pair.configs[label], Maker(on_gpu=False))
        return number, label, pickle.dumps(case.prepared())
    except Exception as error:  # of any compiler
        return number, label, f"{type(error).__name__}: {str(error)[:160]}"


def all_prepared(groups: Sequence[str]) -> dict[tuple[int, str], bytes | str]:
    jobs = [(number, label) for number, pair in enumerate(pairs()) for label in pair.configs if pair.group in groups]
    found: dict[tuple[int, str], bytes | str] = {}
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        for done in as_completed([pool.submit(prepared, job) for job in jobs]):
            number, label, code = done.result()
            found[number, label] = code
    return found


def measured(number: int, pair: Pair, codes: dict[tuple[int, str], bytes | str], folder: Path) -> Found:
    """Seconds of each configuration of a pair."""
    import torch

    from benchmarks.gpu.memory_bound import Captured, cold

    make, calls, refused, texts, registers = Maker(on_gpu=True), {}, {}, {}, {}
    for label, config in pair.configs.items():
        code = codes.get((number, label), "not assembled")
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
        (folder / f"triton_{number}.json").write_text(json.dumps(texts))
    calls.clear()
    make.held.clear()
    torch.cuda.empty_cache()
    return {"group": pair.group, "seconds": times, "refused": refused, "registers": registers}


def measure(folder: Path, seconds: float, groups: Sequence[str]) -> None:
    from benchmarks.gpu.__main__ import machine

    begun = time.time()
    codes = all_prepared(groups)
    print(f"{len(codes)} configurations prepared after {time.time() - begun:.1f} s", flush=True)
    found: dict[str, Any] = {"machine": machine(), "pairs": {}}
    chosen = [(number, pair) for number, pair in enumerate(pairs()) if pair.group in groups]
    order = sorted(chosen, key=lambda item: RISKY in item[1].name)
    for number, pair in order:
        if time.time() - begun > seconds:
            print("out of time before", pair.name, flush=True)
            break
        try:
            found["pairs"][pair.name] = one = measured(number, pair, codes, folder)
        except Exception:  # of one pair: the others stay
            print(f"{pair.name}: {traceback.format_exc()[-600:]}", flush=True)
            continue
        (folder / "pair_times.json").write_text(json.dumps(found, indent=1))
        times = one["seconds"]
        best = min(times, key=lambda label: times[label])
        print(f"{pair.name}: {len(times)} of {len(pair.configs)}, best {times[best] * 1e6:.1f} us, {best}; "
              f"slowest {max(times.values()) * 1e6:.1f} us; after {time.time() - begun:.0f} s", flush=True)  # fmt: skip


# Counters


def count(folder: Path) -> None:
    """ncu on the best configuration of each pair; its numbers as they come."""
    if shutil.which("ncu") is None:
        print("this machine has no ncu")
        return
    metrics = ",".join(f"breakdown:{name}.avg.pct_of_peak_sustained_elapsed" for name in BROKEN_DOWN)
    for name, asked in (("pair_counters", ["--metrics", metrics]), ("pair_counters_2", [])):
        command = ["ncu", "--clock-control", "none", "--profile-from-start", "off", "--csv", "--page", "raw",
                   *(word for name in SECTIONS for word in ("--section", name)), *asked,
                   sys.executable, "-m", "benchmarks.gpu.pair_times", "worker", str(folder)]  # fmt: skip
        with (folder / f"{name}.csv").open("w") as out:
            try:
                ended = subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, timeout=COUNTER_SECONDS,
                                       check=False)  # fmt: skip
            except subprocess.TimeoutExpired:
                print("ncu ran out of time", flush=True)
                return
        print(f"ncu ended with {ended.returncode}", flush=True)
        if (folder / f"{name}.csv").read_text().count("\n") > len(pairs()) * 2 and ended.returncode == 0:
            return


def worker(folder: Path) -> None:
    """Launch the best configuration of each pair, profiled, in the order in which it prints their names."""
    import torch

    kept = json.loads((folder / "pair_times.json").read_text())["pairs"]
    for pair in pairs():
        times = kept.get(pair.name, {}).get("seconds")
        if not times:
            continue
        best = min(times, key=lambda label: times[label])
        try:
            make = Maker(on_gpu=True)
            case, args = pair.build(pair.configs[best], make)
            call = case.call(args)
            call()
            torch.cuda.synchronize()
            print(f"PAIR {pair.name} | {best}", flush=True)
            torch.cuda.cudart().cudaProfilerStart()
            call()
            torch.cuda.synchronize()
            torch.cuda.cudart().cudaProfilerStop()
        except Exception as error:  # of one pair: the others stay
            print(f"FAILED {pair.name} | {error}", flush=True)
        torch.cuda.empty_cache()


if __name__ == "__main__":
    verb, where, *others = sys.argv[1:]
    if verb == "measure":
        measure(Path(where), float(others[0]) if others else 250.0, others[1:] or [FITTED, SEEN, HELD])
    else:
        {"count": count, "worker": worker}[verb](Path(where))
