"""Two kernels without a GPU, against Triton's interpreter and Numba's CUDA simulator.

Triton's interpreter models tiles only: no lanes and no shared memory. Numba's simulator runs a Python thread for each
CUDA thread, so it gets 1/512 of the work, and tilewright the same beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tilewright as tw
from benchmarks import measure
from benchmarks.kernels.scale import scale
from benchmarks.measure import Table, Target, Times, alternately, median_ms
from tilewright.demo.kernel import make
from tilewright.kernels.rows import dealt

TRANSPOSE = "transpose 1024x1024 float16 in 64x64 tiles"
SCALE = "scale 1M float32 in blocks of 256"
SMALL = "scale 2048 float32 in blocks of 256"
SOFTMAX = "softmax 1024x1024 float32"
RMS_NORM = "rms_norm 1024x1024 float32"
ROW_SUM = "row sum 1024x1024 float32"
TRITON, NUMBA = "Triton's interpreter", "Numba's simulator"
CHECKS: dict[str, tuple[str, ...] | str] = {"no checks": (), "all checks": "all"}


def simulated() -> Times:
    """Medians of 9 in milliseconds, compiled before; the results are compared with NumPy's."""
    rng = np.random.default_rng(0)
    a = rng.standard_normal((1024, 1024)).astype(np.float16)
    b = np.zeros_like(a)
    x = rng.standard_normal(1 << 20).astype(np.float32)
    y = np.zeros_like(x)
    times = by_checks(TRANSPOSE, tw.compile(make(1024, swizzled=True)), a, b)
    times |= by_checks(SCALE, tw.compile(scale(x.size)), x, y, 3.0)
    times |= by_checks(SMALL, tw.compile(scale(2048)), x[:2048], np.zeros(2048, np.float32), 3.0)
    assert np.array_equal(b, a.T)
    assert np.array_equal(y, x * 3)
    return times | simulated_rows(x.reshape(1024, 1024))


def simulated_rows(x: NDArray[Any]) -> Times:
    """Kernels of `tilewright.kernels`, a row for each warp or CTA."""
    y, weight, sums = np.zeros_like(x), np.ones(x.shape[1], np.float32), np.zeros(len(x), np.float32)
    softmax, rms_norm, lines = (import_module(f"tilewright.kernels.{name}") for name in ("softmax", "rms_norm", "sums"))
    rows = dealt(x, y, weight)
    times = by_checks(SOFTMAX, softmax.forward(rows, "float32"), x, y)
    powers = np.exp(x - x.max(1, keepdims=True))
    assert np.allclose(y, powers / powers.sum(1, keepdims=True), atol=1e-6)
    times |= by_checks(RMS_NORM, rms_norm.forward(rows, "float32", "float32"), x, weight, y, 1e-6)
    assert np.allclose(y, x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-6), atol=1e-5)
    times |= by_checks(ROW_SUM, lines.lines(rows, "float32"), x, sums)
    assert np.allclose(sums, x.sum(1), atol=1e-3)
    return times


def by_checks(name: str, made: tw.Executable, *args: object) -> Times:
    def call(check: tuple[str, ...] | str) -> Callable[[], object]:
        return lambda: made.simulate(*args, check=check)

    return {f"{name}: simulated, {checks}": median_ms(call(check), repeats=9) for checks, check in CHECKS.items()}


def peer_times() -> Times:
    """Medians of 3 in milliseconds, by kernel and peer; None where the peer is not installed."""
    triton = measure.peer_times("triton_interpreter", TRITON_INTERPRET="1")
    numba = measure.peer_times("numba_simulator", NUMBA_ENABLE_CUDASIM="1")
    return triton | numba


def run() -> Table:
    ours, peers = alternately(simulated, peer_times)
    limits = {TRANSPOSE: (1 / 75, 1 / 75), SCALE: (1 / 500, 1 / 500)}
    limits |= dict.fromkeys((SOFTMAX, RMS_NORM, ROW_SUM), (1 / 50, 1 / 25))
    against = tuple(
        Target(f"{kernel}: simulated, {checks}", limit, of=f"{kernel}: {TRITON}")
        for kernel, both in limits.items()
        for checks, limit in zip(CHECKS, both, strict=True)
    )
    none, every = CHECKS
    cost = {TRANSPOSE: 1.6, SCALE: 2.5}  # of all checks, in times without any
    checks = tuple(Target(f"{at}: simulated, {every}", c, of=f"{at}: simulated, {none}") for at, c in cost.items())
    return Table("kernels without a GPU, compiled once before", ours, peers, (*against, *checks))
