"""All candidates of `kernels.matmul` on drawn shapes: what the choice of tiles is fitted to.

    python -m benchmarks.gpu.tune_products out.jsonl 120      # seconds

Each line of the file: the shape, the seconds of torch.matmul, and of each candidate by its number in `candidates()`,
"t" behind that of a turned one, "/3" for K in 3 parts anywhere, "b4" for bands of 4. Candidates that are estimated to
be far behind the best are left out. A time is that of a product in a CUDA graph of several, back to back, each on other
inputs.
"""

from __future__ import annotations

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

from benchmarks.gpu.matmul import CACHED_BYTES, Shape, configured, in_turns, inputs, timed, torch_matmul
from benchmarks.gpu.memory_bound import Captured
from benchmarks.gpu.shapes import drawn_shapes
from tilewright.kernels import products
from tilewright.kernels.forms import MatmulKind, Tiles
from tilewright.kernels.matmul import product
from tilewright.kernels.products import Lies, candidates, chosen

Plan = tuple[Tiles, bool]
PROCESSORS = 132
MOST_TRIED, ROUNDS = 44, 3
LONG, BANDED, BANDS = 1e11, 4, (4, 16)  # where bands are compared, too
TURN_SECONDS, MOST_LAUNCHES = 7e-4, 24


def tried(shape: Shape) -> list[Plan]:
    """The candidates that may be good."""
    m, n, k = shape
    near = list(chosen(m, n, -(-k // 64), PROCESSORS, lie=(Lies(k % 16 == 0),) * 2, most=MOST_TRIED))
    if m * n * k < LONG:
        return near
    return near + [(replace(tiles, band=band), turned) for tiles, turned in near[:BANDED] for band in BANDS]


def kernel_of(plan: Plan) -> tuple[Tiles, MatmulKind]:
    tiles, turned = plan
    return products.kernel_of(tiles, MatmulKind("bfloat16", "bfloat16", "bfloat16", (False, False, turned)))


def made(plan: Plan) -> tuple[Plan, Any]:
    """The kernel, assembled, as bytes that another process reads; or why there is none."""
    try:
        exe = product(*kernel_of(plan))
        exe.resources  # noqa: B018  # assembles
        return plan, pickle.dumps(exe)
    except Exception as error:  # of any compiler
        return plan, f"{type(error).__name__}: {str(error)[:300]}"


def assembled(plans: list[Plan]) -> list[Plan]:
    """Assemble all in parallel; those that can be."""
    kernels: dict[Any, Any] = {}
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        for plan, found in pool.map(made, plans):
            if isinstance(found, str):
                print(plan, found, flush=True)
            else:
                kernels[kernel_of(plan)] = pickle.loads(found)
    products.product = lambda tiles, form: kernels[tiles, form]  # type: ignore[assignment, attr-defined]
    return [plan for plan in plans if kernel_of(plan) in kernels]


def raced(shape: Shape, plans: list[Plan]) -> dict[str, float]:
    """Seconds by the number of the candidate; of torch.matmul, "torch"."""
    m, n, k = shape
    pairs = inputs(shape, "bfloat16", max(1, min(6, -(-CACHED_BYTES // (2 * k * (m + n))))))
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


def named(plan: Plan) -> str:
    tiles, turned = plan
    usual = replace(tiles, band=Tiles().band, apart=1)
    parts, bands = f"/{tiles.apart}" if tiles.apart > 1 else "", f"b{tiles.band}" if tiles.band != usual.band else ""
    return f"{candidates().index(usual)}{'t' if turned else ''}{parts}{bands}"


def wrong(plans: list[Plan]) -> Iterator[Plan]:
    """Those that multiply small integers wrongly."""
    import torch

    a, b = (torch.randint(-2, 3, (rows, 1000), device="cuda").bfloat16() for rows in (520, 712))
    exact = (a.float() @ b.float().T).bfloat16()
    for plan in plans:
        c = torch.full_like(exact, math.nan)
        products.multiplied(c, a, b, plan=plan)
        if not torch.equal(c, exact):
            yield plan


def main(path: str, seconds: float, seed: int = 7) -> None:
    import torch

    start = time.time()
    shapes = [*drawn_shapes(seed, 120), *drawn_shapes(seed + 1, 60, 512, 8192)]
    shapes = [shapes[(i * 37) % len(shapes)] for i in range(len(shapes))]
    plans = assembled(list(dict.fromkeys(plan for shape in shapes for plan in tried(shape))))
    print(f"{len(plans)} assembled after {time.time() - start:.1f} s", flush=True)
    for plan in wrong(plans):
        print("WRONG", plan, flush=True)
    print(f"checked after {time.time() - start:.1f} s", flush=True)
    with open(path, "w") as file:
        for shape in shapes:
            if time.time() - start > seconds:
                break
            times = raced(shape, [plan for plan in tried(shape) if plan in set(plans)])
            print(json.dumps([shape, times]), file=file, flush=True)
            best = min(times, key=lambda name: (name == "torch", times[name]))
            print(f"{shape}: {times['torch'] / times[best]:.3f} {times[best] * 1e6:.1f} us {best}", flush=True)
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), *map(int, sys.argv[3:]))
