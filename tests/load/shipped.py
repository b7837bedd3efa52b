"""Mistakes of kernels as people write them, each with its fix: texts of one change between the two.

Every text is our own. A text has ``WRONG|RIGHT`` between the signs ``«»``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Arrays = Callable[[], list[Any]]


@dataclass(frozen=True)
class Shipped:
    """told: what a finding of the wrong text says. builds: which builds have it. launch: grid, block and more."""

    name: str
    text: str
    args: Arrays
    told: str
    kernel: str = "k"
    builds: tuple[str, ...] = ("optimised", "unoptimised")
    launch: dict[str, Any] = field(default_factory=lambda: {"grid": 1, "block": 64})

    def version(self, *, right: bool) -> str:
        """The text with the fix, or without."""
        return re.sub(r"«(.*?)\|(.*?)»", lambda found: found[2 if right else 1], self.text, flags=re.DOTALL)


def floats(*sizes: int) -> Arrays:
    return lambda: [np.arange(size).astype(np.float32) for size in sizes]


def ints(*sizes: int) -> Arrays:
    return lambda: [np.zeros(size, np.int32) for size in sizes]


BULK = r"""
__device__ unsigned shared_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__global__ void k(float* out) {
    __shared__ alignas(128) float row[64];
    row[threadIdx.x] = threadIdx.x;
    «|asm volatile("fence.proxy.async.shared::cta;" ::: "memory");»
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 256;"
                     :: "l"(out), "r"(shared_address(row)) : "memory");
        asm volatile("cp.async.bulk.commit_group;\n cp.async.bulk.wait_group 0;" ::: "memory");
    }
}
"""
REDUCED = r"""
__device__ float over_warp(float v) {
    for (int o = 16; o; o >>= 1) v = STEP;
    return v;
}
__global__ void k(const float* x, float* out) {
    __shared__ float part[32];
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    float v = over_warp(x[threadIdx.x]);
    if (lane == 0) part[warp] = v;
    __syncthreads();
    if (warp == 0) {
        v = part[lane < 2 ? lane : 0];
        STORED
    }
    __syncthreads();
    out[threadIdx.x] = x[threadIdx.x] - part[1];
}
"""
SUM, MOST = "v + __shfl_xor_sync(0xffffffff, v, o)", "fmaxf(v, __shfl_xor_sync(0xffffffff, v, o))"
ALL_LANES = "v = over_warp(v); if (lane == 0) part[1] = v;"


def reduced(step: str, stored: str) -> str:
    return REDUCED.replace("STEP", step).replace("STORED", stored)


REGISTERS = r"""
__global__ void k(float* out) {
    if (threadIdx.x / «32|128» == 0) asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    out[threadIdx.x] = 1;
}
"""
PAIRED = r"""
__global__ void k(float* out, int n) {
    __shared__ float row[64];
    if (threadIdx.x < 32) {
        row[threadIdx.x] = threadIdx.x;
        __syncthreads();
        for (int i = 0; i < n; i++) { row[threadIdx.x] += 1; __syncthreads(); «|__syncthreads();» }
    } else {
        __syncthreads();
        for (int i = 0; i < n; i++) { «|__syncthreads();» out[threadIdx.x] = row[threadIdx.x - 32]; __syncthreads(); }
    }
}
"""
NEIGHBOUR = r"""
__global__ void k(float* out, int n) {
    float first[4], second[4];
    for (int i = 0; i < 4; i++) { first[i] = i + threadIdx.x; second[i] = 2 * i; }
    float sum = 0;
    for (int i = 0; i <= n; i++) sum += first[(i + threadIdx.x) % «7|4»] + second[i & 3];
    out[threadIdx.x] = sum;
}
"""
LIBRARY = r"""
#include <cub/block/block_reduce.cuh>
__global__ void k(const float* x, float* out) {
    using Reduce = cub::BlockReduce<float, 64>;
    __shared__ typename Reduce::TempStorage room;
    float sum = Reduce(room).Sum(x[threadIdx.x]);
    «|__syncthreads();»
    float squares = Reduce(room).Sum(x[threadIdx.x] * x[threadIdx.x]);
    if (threadIdx.x == 0) { out[0] = sum; out[1] = squares; }
}
"""
SUNK = r"""
__global__ void k(const float* x, float* out) {
    __shared__ float first[1];
    if (threadIdx.x == 0) first[0] = x[0];
    __syncthreads();
    float v = x[threadIdx.x] - first[0];
    «|__syncwarp();»
    if (threadIdx.x == 0) first[0] = v;
    __syncthreads();
    out[threadIdx.x] = first[0];
}
"""
TOLD_LATER = r"""
__global__ void k(int* data, int* flag, int* out) {
    if (blockIdx.x == 0) { *data = 7; __threadfence(); atomicExch(flag, 1); }
    else { while («*flag|atomicAdd(flag, 0)» == 0) {} __threadfence(); *out = *data; }
}
"""

MISTAKES = (
    Shipped("a bulk store without a proxy fence", BULK, floats(64), "without a proxy fence"),
    Shipped("a constant after reads of other lanes", reduced(SUM, f"«if (lane == 0) part[1] = 3;|{ALL_LANES}»"),
            floats(64, 64), "race", builds=("unoptimised",)),
    Shipped("a read that is sunk", SUNK, floats(32, 32), "race", builds=("unoptimised",),
            launch={"grid": 1, "block": 32}),
    Shipped("registers given back by one warp", REGISTERS, floats(128), "a part of a warpgroup",
            launch={"grid": 1, "block": 128}),
    Shipped("barriers that pair up by accident", PAIRED, lambda: [np.zeros(64, np.float32), 3], "race"),
    Shipped("an index past a local array", NEIGHBOUR, lambda: [np.zeros(32, np.float32), 4], "outside of first",
            builds=("unoptimised",), launch={"grid": 1, "block": 32}),
    Shipped("one storage of a library for two sums", LIBRARY, floats(64, 2), "race"),
    Shipped("a poll that the compiler takes out of its loop", TOLD_LATER, ints(1, 1, 1), "livelock|race",
            launch={"grid": 2, "block": 1}),
)  # fmt: skip
