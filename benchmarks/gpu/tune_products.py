"""Candidates of `kernels.matmul` on drawn shapes: what the choice of tiles is fitted to.

    python -m benchmarks.gpu.tune_products out.jsonl 120 0 3      # seconds; seeds of `shapes`

Each line of the file: the shape, whether rows of B run along N, the seconds of torch.matmul, and of each candidate by
its name: rows x columns of its tiles, then c (CTAs below each other), b (beside), p (parts of K), a (parts anywhere), r
(resident), B (band), each where it is not the usual number, P for turns, t where the product is turned. Candidates that
are estimated to be far behind the best are left out. A time is that of a product in a CUDA graph of several, back to
back, each on other inputs.
"""

from __future__ import annotations

import itertools
import json
import math
import pickle
import statistics
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from typing import Any

from benchmarks.gpu.matmul import CACHED_BYTES, configured, in_turns, inputs, timed, torch_matmul
from benchmarks.gpu.memory_bound import Captured
from benchmarks.gpu.shapes import Job, jobs_of
from tilewright.kernels import products
from tilewright.kernels.forms import MatmulKind, Tiles
from tilewright.kernels.matmul import product
from tilewright.kernels.product_tiles import Lies, candidates, chosen

Plan = tuple[Tiles, bool]
PROCESSORS = 132
MOST_TRIED, MOST_OF_A_KIND, ROUNDS = 8, 4, 3
LONG, BANDED, BANDS = 1e11, 3, (4, 16)  # where bands are compared, too
TURN_SECONDS, MOST_LAUNCHES = 7e-4, 24


def tried(job: Job) -> list[Plan]:
    """The candidates that may be good: the best of all, and some of those in turns and of those that fit a side."""
    (m, n, k), across = job
    lie = Lies(k % 16 == 0), Lies((n if across else k) % 16 == 0, across)
    ranked = chosen(m, n, -(-k // 64), PROCESSORS, lie=lie, most=10000)
    usual = set(candidates())
    kinds = [ranked[:MOST_TRIED], [plan for plan in ranked if plan[0].pingpong][:MOST_OF_A_KIND],
             [plan for plan in ranked if replace(plan[0], apart=1) not in usual][:MOST_OF_A_KIND]]  # fmt: skip
    near = list(dict.fromkeys(itertools.chain(*kinds)))
    if m * n * k < LONG:
        return near
    return near + [(replace(tiles, band=band), turned) for tiles, turned in near[:BANDED] for band in BANDS]


def form_of(plan: Plan, across: bool) -> MatmulKind:
    turned = plan[1]
    return MatmulKind("bfloat16", "bfloat16", "bfloat16", (across and turned, across and not turned, turned))


def kernel_of(plan: Plan, across: bool) -> tuple[Tiles, MatmulKind]:
    return products.kernel_of(plan[0], form_of(plan, across))


def made(plan: tuple[Plan, bool]) -> tuple[tuple[Plan, bool], Any]:
    """The kernel, assembled, as bytes that another process reads; or why there is none."""
    try:
        exe = product(*kernel_of(*plan))
        exe.resources  # noqa: B018  # assembles
        return plan, pickle.dumps(exe)
    except Exception as error:  # of any compiler
        return plan, f"{type(error).__name__}: {str(error)[:300]}"


def assembled(plans: list[tuple[Plan, bool]]) -> set[tuple[Plan, bool]]:
    """Assemble all in parallel; those that can be."""
    kernels: dict[Any, Any] = {}
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        for plan, found in pool.map(made, plans):
            if isinstance(found, str):
                print(plan, found, flush=True)
            else:
                kernels[kernel_of(*plan)] = pickle.loads(found)
    products.product = lambda tiles, form: kernels[tiles, form]  # type: ignore[assignment, attr-defined]
    return {plan for plan in plans if kernel_of(*plan) in kernels}


def raced(job: Job, plans: list[Plan]) -> dict[str, float]:
    """Seconds by the name of the candidate; of torch.matmul, "torch"."""
    (m, n, k), across = job
    pairs = inputs(job[0], "bfloat16", max(1, min(6, -(-CACHED_BYTES // (2 * k * (m + n))))))
    if across:
        pairs = [(a, b.contiguous()) for a, b in pairs]
    launches = max(3, min(MOST_LAUNCHES, int(TURN_SECONDS / (2 * m * n * k / 6e14 + 5e-6))))
    calls = {"torch": torch_matmul, **{named(plan): configured(*plan) for plan in plans}}
    graphs = {name: Captured(in_turns(call, pairs), launches) for name, call in calls.items()}
    times: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(ROUNDS + 1):
        for number, name in enumerate(graphs):
            each = [name] if number % 12 else dict.fromkeys(["torch", name])
            for who in each:
                seconds = timed(graphs[who]) / launches
                if turn:
                    times[who].append(seconds)
    return {name: statistics.median(found) for name, found in times.items()}


LETTERS = {"cluster": "c", "beside": "b", "parts": "p", "apart": "a", "resident": "r", "band": "B"}


def named(plan: Plan) -> str:
    """A candidate, in short."""
    tiles, turned = plan
    usual = replace(Tiles(), cluster=1)
    numbers = {letter: getattr(tiles, field) for field, letter in LETTERS.items()
               if getattr(tiles, field) != getattr(usual, field)}  # fmt: skip
    letters = "".join(f"{letter}{number}" for letter, number in numbers.items())
    return f"{tiles.m}x{tiles.n}{letters}{'P' if tiles.pingpong else ''}{'t' if turned else ''}"


def wrong(plans: set[tuple[Plan, bool]]) -> Iterator[Plan]:
    """Those that multiply small integers wrongly."""
    import torch

    a, b = (torch.randint(-2, 3, (rows, 1000), device="cuda").bfloat16() for rows in (1320, 1712))
    exact = (a.float() @ b.float().T).bfloat16()
    for plan, across in plans:
        c = torch.full_like(exact, math.nan)
        products.multiplied(c, a, b.T.contiguous().T if across else b, plan=plan)
        if not torch.equal(c, exact):
            yield plan


def main(path: str, seconds: float, *seeds: int) -> None:
    import torch

    start = time.time()
    jobs = [job for seed in seeds for job in jobs_of(seed)]
    jobs = [jobs[i * 37 % len(jobs)] for i in range(len(jobs))]
    plans = assembled(list(dict.fromkeys((plan, job[1]) for job in jobs for plan in tried(job))))
    print(f"{len(plans)} assembled after {time.time() - start:.1f} s", flush=True)
    for plan in wrong(plans):
        print("WRONG", plan, flush=True)
    print(f"checked after {time.time() - start:.1f} s", flush=True)
    with open(path, "w") as file:
        for job in jobs:
            if time.time() - start > seconds:
                break
            times = raced(job, [plan for plan in tried(job) if (plan, job[1]) in plans])
            print(json.dumps([*job, times]), file=file, flush=True)
            best = min(times, key=lambda name: (name == "torch", times[name]))
            print(f"{job}: {times['torch'] / times[best]:.3f} {times[best] * 1e6:.1f} us {best}", flush=True)
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), *map(int, sys.argv[3:]))
