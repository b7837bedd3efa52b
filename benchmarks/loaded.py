"""Our own kernels as CUDA text through `tw.load_cu`, against the same kernels simulated from our language.

Both run on the same inputs and give the same bytes. A histogram in shared memory, by atomics, has no kernel beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import tilewright as tw
from benchmarks.kernels.gemm import gemm
from benchmarks.kernels.million import N, added, summed
from benchmarks.measure import Table, Target, Time, Times, alternately, median_ms
from benchmarks.synchronised import KERNELS
from tilewright.cuda import entry_name
from tilewright.demo.kernel import make

TARGET = "sm_90a"
MOST = 1.25  # times the time of the same kernel in our own language
CHECKS: dict[str, tuple[str, ...] | str] = {"no checks": (), "all checks": "all"}
HISTOGRAM = "histogram of 1M bytes in shared memory, all checks"
HISTOGRAM_MS = 2000.0


def numbers(*shape: int, kind: Any = np.float32) -> Any:
    """Small whole numbers, whose sums are exact."""
    return np.random.default_rng(0).integers(-4, 5, shape).astype(kind)


def cases() -> dict[str, tuple[object, list[Any]]]:
    """By name: a kernel, and its arguments."""
    half = partial(numbers, kind=np.float16)
    return {
        "vector add, 1M": (added, [numbers(N), numbers(N), numbers(N)]),
        "transposition, 1024 x 1024": (make(1024, swizzled=True), [half(1024, 1024), half(1024, 1024)]),
        "reduction, 1M": (summed, [numbers(N), numbers(N // 1024)]),
        "product by mma, 256^3": (gemm(256, 256, 256), [half(256, 256), half(256, 256), half(256, 256)]),
    }


def calls(kernel: object, args: list[Any], check: tuple[str, ...] | str) -> tuple[Callable[[], object], ...]:
    """The kernel from our language, and from its CUDA text, which has halves as 16 bits."""
    made = tw.compile(kernel, TARGET)
    launch = made.lowered.launch
    assert launch is not None
    loaded = tw.load_cu(made.source("cuda"), TARGET)[entry_name(made.lowered)]
    own = [each.copy() for each in args]
    there = [each.copy().view(np.uint16) if each.dtype == np.float16 else each.copy() for each in args]
    threads, grid = launch.threads, made.bind(*own).grid
    first = partial(made.simulate, *own, check=check)
    second = partial(loaded.simulate, *there, grid=grid, block=threads, cluster=launch.cluster, check=check)
    first()
    second()
    assert all(a.tobytes() == b.tobytes() for a, b in zip(own, there, strict=True))
    return first, second


def timed(name: str, call: Callable[[], object]) -> Times:
    return {name: median_ms(call, repeats=5)}


def histogram() -> Times:
    data, bins = np.random.default_rng(0).integers(0, 256, N).astype(np.uint8), np.zeros(256, np.uint32)
    kernel = tw.load_cu(KERNELS, TARGET)["histogram"]
    return {HISTOGRAM: median_ms(partial(kernel.simulate, data, bins, N, grid=64, block=256), repeats=3)}


def run() -> Table:
    ours = []
    for name, (kernel, args) in cases().items():
        for checks, check in CHECKS.items():
            own, there = calls(kernel, args, check)
            what = f"{name}, {checks}"
            (first,), (second,) = alternately(partial(timed, what, own), partial(timed, what, there))
            ours.append(Time(what, second.milliseconds, first.milliseconds, MOST))
    ours += [Time(name, ms) for name, ms in histogram().items()]
    return Table(__doc__.splitlines()[0].rstrip("."), tuple(ours), (), (Target(HISTOGRAM, HISTOGRAM_MS),))
