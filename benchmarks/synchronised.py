"""Threads that count, lock and wait, under every check: how the time grows, and how often that of a run without checks.

Each kernel runs at two sizes, of which the second is four times the first. The smaller one is too long for runs with
threads that others overtake: where there are such at one size only, the growth says nothing. Times are those of the
processor, of the fastest of three runs, so that what else the machine does counts little.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from time import process_time
from typing import Any

import numpy as np

import tilewright as tw
from benchmarks.measure import Table, Times, Verdict, alternately

TARGET = "sm_90a"
MOST = 5.0  # times the run without checks
EXPONENT = 1.15  # of the growth between the smallest and the largest size
KERNELS = """
extern "C" {
__global__ void counted(int* p, int n) {
    for (int i = 0; i < n; ++i) asm volatile("red.relaxed.gpu.add.s32 [%0], 1;" :: "l"(p) : "memory");
}
__global__ void ordered(int* p, int n) {
    int old;
    for (int i = 0; i < n; ++i)
        asm volatile("atom.acq_rel.gpu.add.s32 %0, [%1], 1;" : "=r"(old) : "l"(p) : "memory");
}
__global__ void locked(int* lock, int* x) {
    if (threadIdx.x) return;
    while (atomicCAS(lock, 0, 1) != 0) {}
    __threadfence();
    x[0] = x[0] + 1;
    __threadfence();
    atomicExch(lock, 0);
}
__global__ void waiting(volatile int* flags, int* x) {
    if (blockIdx.x) while (flags[blockIdx.x - 1] == 0) {}
    __threadfence();
    if (threadIdx.x == 0) x[0] = x[0] + 1;
    __syncthreads();
    __threadfence();
    if (threadIdx.x == 0) flags[blockIdx.x] = 1;
}
__global__ void met(int* count, int n) {
    for (int turn = 1; turn <= n; ++turn) {
        __syncthreads();
        if (threadIdx.x == 0) {
            __threadfence();
            atomicAdd(count, 1);
            while (atomicAdd(count, 0) < turn * (int)gridDim.x) {}
            __threadfence();
        }
        __syncthreads();
    }
}
__global__ void voted(int* out, int n) {
    int x = threadIdx.x;
    for (int i = 0; i < n; ++i) x += __syncthreads_or(x > i);
    out[threadIdx.x] = x;
}
__global__ void histogram(const unsigned char* data, unsigned* bins, int n) {
    __shared__ unsigned own[256];
    own[threadIdx.x] = 0;
    __syncthreads();
    int first = blockIdx.x * blockDim.x + threadIdx.x;
    for (int i = first; i < n; i += gridDim.x * blockDim.x) atomicAdd(&own[data[i]], 1u);
    __syncthreads();
    atomicAdd(&bins[threadIdx.x], own[threadIdx.x]);
}
}
"""
Case = tuple[str, int, Callable[[int], tuple[list[Any], int, int]]]  # kernel, smallest size, arguments, grid and block


def zeros(count: int = 1, kind: Any = np.int32) -> Any:
    return np.zeros(count, kind)


def digits(n: int) -> Any:
    return np.random.default_rng(0).integers(0, 256, n).astype(np.uint8)


CASES: dict[str, Case] = {
    "relaxed atomics of 512 threads": ("counted", 50, lambda n: ([zeros(), n], 4, 128)),
    "fetch_add(acq_rel) of a warp": ("ordered", 16, lambda n: ([zeros(), n], 1, 32)),
    "fetch_add(acq_rel) of a CTA": ("ordered", 4, lambda n: ([zeros(), n], 1, 256)),
    "a lock, CTAs": ("locked", 40, lambda n: ([zeros(), zeros()], n, 32)),
    "CTAs that wait for the one before": ("waiting", 24, lambda n: ([zeros(n), zeros()], n, 32)),
    "a barrier of 32 CTAs": ("met", 6, lambda n: ([zeros(), n], 32, 64)),
    "__syncthreads_or": ("voted", 10, lambda n: ([zeros(256), n], 1, 256)),
    "histogram by shared atomics": ("histogram", 1 << 17, lambda n: ([digits(n), zeros(256, np.uint32), n], 64, 256)),
}
CHECKS: dict[str, tuple[str, ...] | str] = {"no checks": (), "all checks": "all"}


def named(name: str, n: int, checks: str) -> str:
    return f"{name}, {n}, {checks}"


def times(module: Any, name: str) -> Times:
    """Milliseconds of the processor for one case at its sizes, without checks and with all of them."""
    kernel, first, make = CASES[name]
    found: Times = {}
    for n in (first, 4 * first):
        args, grid, block = make(n)
        for checks, check in CHECKS.items():
            call = partial(module[kernel].simulate, *args, grid=grid, block=block, check=check)
            found[named(name, n, checks)] = min(processor_ms(partial(called, call, args)) for _ in range(3))
    return found


def processor_ms(call: Callable[[], object]) -> float:
    began = process_time()
    call()
    return (process_time() - began) * 1e3


def called(call: Callable[[], object], args: list[Any]) -> None:
    """A run on fresh counters."""
    for each in args:
        if isinstance(each, np.ndarray) and each.dtype != np.uint8:
            each[:] = 0
    call()


def run() -> Table:
    module = tw.load_cu(KERNELS, TARGET)
    every = [time for name in CASES for time in alternately(partial(times, module, name), rounds=1)[0]]
    ms = {time.name: time.milliseconds or 0.0 for time in every}
    verdicts = []
    for name, (_, first, _) in CASES.items():
        few, many = (ms[named(name, n, "all checks")] for n in (first, 4 * first))
        verdicts.append(Verdict(f"{name}: growth", EXPONENT, math.log(many / few, 4), "as exponent"))
        bare = ms[named(name, 4 * first, "no checks")]
        verdicts.append(Verdict(f"{name}: all checks", MOST, many / bare, "of no checks"))
    return Table(__doc__.splitlines()[0].rstrip("."), tuple(every), others=tuple(verdicts))
