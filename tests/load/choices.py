"""Mistakes that only some runs show, each with its fix: waits that answer no, orders of CTAs, stale barriers."""

from __future__ import annotations

import numpy as np

from tests.load.shipped import Shipped, ints

PREAMBLE = r"""
__device__ unsigned place(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ void init(unsigned long long* b, int n) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" :: "r"(place(b)), "r"(n) : "memory"); }
__device__ void arrive(unsigned long long* b) {
    asm volatile("{ .reg .b64 t; mbarrier.arrive.shared.b64 t, [%0]; }" :: "r"(place(b)) : "memory"); }
__device__ bool tried(unsigned long long* b, unsigned parity) {
    unsigned yes;
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(yes) : "r"(place(b)), "r"(parity) : "memory");
    return yes; }
"""
STALE = (
    PREAMBLE
    + r"""
__global__ void k(int* out, int n) {
    __shared__ unsigned long long full[2], empty[2];
    __shared__ int row[2];
    if (threadIdx.x == 0) for (int s = 0; s < 2; s++) { init(full + s, 1); init(empty + s, 1); }
    __syncthreads();
    if (threadIdx.x == 0) for (int i = 0; i < n; i++) {
        int s = i & 1;
        while (!tried(empty + s, (i / 2 & 1) ^ 1)) {}
        row[s] = i;
        arrive(full + s);
    }
    if (threadIdx.x == 32) for (int i = 0; i < n; i++) {
        int s = i & 1;
        if (!tried(full + s, i / 2 & 1)) while (!tried(full + «0|s», i / 2 & 1)) {}
        out[i] = row[s];
        arrive(empty + s);
    }
}
"""
)
UNCHECKED = (
    PREAMBLE
    + r"""
__global__ void k(int* out) {
    __shared__ unsigned long long full[1];
    __shared__ int row[1];
    if (threadIdx.x == 0) init(full, 1);
    __syncthreads();
    if (threadIdx.x == 0) { row[0] = out[0] + 7; arrive(full); }
    if (threadIdx.x == 32) { bool come = tried(full, 0); «|while (!come) come = tried(full, 0);» out[0] = row[0]; }
}
"""
)
LAPPED = r"""
__device__ void meet(int* count, volatile int* generation, int n) {
    __syncthreads();
    if (threadIdx.x == 0) {
        «|int own = *generation;»
        __threadfence();
        if (atomicAdd(count, 1) == n - 1) { *(volatile int*)count = 0; __threadfence(); *generation = *generation + 1; }
        else { «int own = *generation;|» while (*generation == own) {} }
        __threadfence();
    }
    __syncthreads();
}
__global__ void k(int* count, int* generation, int* data, int* out) {
    for (int r = 0; r < 2; r++) {
        data[blockIdx.x + r * 4] = blockIdx.x + 1;
        meet(count, generation, gridDim.x);
        if (threadIdx.x == 0) out[blockIdx.x] += data[(blockIdx.x + 1) % gridDim.x + r * 4];
    }
}
"""
RESET = r"""
__global__ void k(int* count, int* data, int* out) {
    data[blockIdx.x] = blockIdx.x + 1;
    __threadfence();
    int own = atomicAdd(count, 1);
    while (atomicAdd(count, 0) < gridDim.x) {}
    «if (own == gridDim.x - 1) atomicExch(count, 0);|»
    __threadfence();
    out[blockIdx.x] = data[(blockIdx.x + 1) % gridDim.x];
}
"""
LOCKED = r"""
__global__ void k(int* lock, int* data) {
    «while (atomicAdd(lock, 0) != 0) {} atomicExch(lock, 1);|while (atomicCAS(lock, 0, 1) != 0) {}»
    __threadfence();
    *data += 1;
    __threadfence();
    atomicExch(lock, 0);
}
"""
LAST = r"""
__global__ void k(int* count, int* part, int* out) {
    part[blockIdx.x] = blockIdx.x + 1;
    «|__threadfence();»
    if (atomicAdd(count, 1) == gridDim.x - 1) {
        __threadfence();
        for (int i = 0; i < gridDim.x; i++) *out += part[i];
        *count = 0;
    }
}
"""
TIMED = r"""
__global__ void k(int* flag, int* data, int* out) {
    if (blockIdx.x == 0) { *data = 7; __threadfence(); atomicExch(flag, 1); return; }
    long long start = clock64();
    bool come = false;
    while (!(come = atomicAdd(flag, 0)) && clock64() - start < 100) {}
    __threadfence();
    «|if (come)» atomicAdd(out, *data);
}
"""
GRID = {"grid": 3, "block": 1}
CHOICES = (
    Shipped("a retry at another m-barrier", STALE, lambda: [np.zeros(6, np.int32), 6], "livelock|uninitialised"),
    Shipped("an answer that nobody looks at", UNCHECKED, ints(1), "race|uninitialised|written"),
    Shipped(
        "a generation that is read too late", LAPPED, ints(1, 1, 8, 4), "livelock", launch={"grid": 3, "block": 32}
    ),
    Shipped("a counter that is reset while others poll it", RESET, ints(1, 4, 4), "livelock", launch=GRID),
    Shipped("a lock that two take", LOCKED, ints(1, 1), "race", launch=GRID),
    Shipped("the last CTA without a fence", LAST, ints(1, 3, 1), "race", launch=GRID),
    Shipped("a wait that gives up", TIMED, ints(1, 1, 1), "race", launch={"grid": 2, "block": 1}),
)  # fmt: skip
