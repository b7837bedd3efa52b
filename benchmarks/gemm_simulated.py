"""A float16 matrix product of 1024 x 1024 x 1024 without a GPU, against Triton's interpreter, the yardstick.

The simulator executes every ldmatrix and every mma, lane by lane; Triton's interpreter multiplies whole tiles.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

import tilewright as tw
from benchmarks.kernels.gemm import gemm
from benchmarks.kernels.gemm_wgmma import gemm_wgmma
from benchmarks.measure import Table, Target, Times, alternately, median_ms, peer_times

SIZE = 1024
FLYING = "simulated by TMA and wgmma"
SMALL = f"256^3, {FLYING}, all checks"
LIMITS = {"simulated, no checks": 1 / 60, "simulated, all checks": 1 / 60,
          f"{FLYING}, no checks": 1 / 60, f"{FLYING}, all checks": 1 / 30, SMALL: 1}  # fmt: skip  # of the yardstick
SECOND = 1000.0  # the yardstick of the small one, in ms; that of the others is the interpreter's time


def simulated() -> Times:
    """Medians of 3 in milliseconds, compiled before, without checks and with all."""
    made = tw.compile(gemm(SIZE, SIZE, SIZE))
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((SIZE, SIZE)).astype(np.float16) for _ in range(2))
    d = np.zeros((SIZE, SIZE), np.float16)
    calls: dict[str, Callable[[], object]] = {
        "simulated, no checks": lambda: made.simulate(a, b, d, check=()),
        "simulated, all checks": lambda: made.simulate(a, b, d, check="all"),
    }
    times: Times = {name: median_ms(call, repeats=3) for name, call in calls.items()}
    exact = a.astype(np.float32) @ b.astype(np.float32).T
    assert np.allclose(d, exact, rtol=2e-3, atol=0.05)
    return times | flying()


def flying() -> Times:
    """The same size by the copy engine and wgmma, once each; and a small one."""
    times: Times = {}
    for size, names in ((SIZE, {f"{FLYING}, no checks": (), f"{FLYING}, all checks": "all"}), (256, {SMALL: "all"})):
        made = tw.compile(gemm_wgmma(size, size, size), target="sm_90a")
        rng = np.random.default_rng(0)
        a, b = (rng.standard_normal((size, size)).astype("bfloat16") for _ in range(2))
        d = np.zeros((size, size), np.float32)
        for name, check in names.items():
            times[name] = median_ms(partial(made.simulate, a, b, d, check=check), repeats=1)
        assert np.allclose(d, a.astype(np.float32) @ b.astype(np.float32).T, atol=1e-3)
    return times


def run() -> Table:
    ours, peers = alternately(simulated, lambda: peer_times("triton_gemm", TRITON_INTERPRET="1"), rounds=1)
    against = tuple(
        replace(time, yardstick=SECOND if time.name == SMALL else peers[0].milliseconds, limit=LIMITS[time.name])
        for time in ours
    )
    cost = (Target("simulated, all checks", 1.6, of="simulated, no checks"),)
    return Table(f"matrix product {SIZE}^3 of float16 in tiles of 128 x 128 x 32, 8 warps", against, peers, cost)
