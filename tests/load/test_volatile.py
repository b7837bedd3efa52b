"""Handovers by volatile accesses: right with fences on both sides, told where one is missing."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.errors import SimulationError
from tilewright.load import LoadedModule, load_cu

TEXT = r"""
extern "C" __global__ void flag(volatile int* data, volatile int* flags, int* out, int first, int second) {
    if (blockIdx.x == 0) { *data = 7; if (first) __threadfence(); *flags = 1; }
    else { while (*flags == 0) {} if (second) __threadfence(); *out = *data; }
}
extern "C" __global__ void in_shared(int* out, int first, int second) {
    __shared__ volatile int data, flags;
    if (threadIdx.x == 0) flags = 0;
    __syncthreads();
    if (threadIdx.x == 0) { data = out[1]; if (first) __threadfence_block(); flags = 1; }
    else if (threadIdx.x == 32) { while (flags == 0) {} if (second) __threadfence_block(); *out = data; }
}
extern "C" __global__ void last_block(volatile int* part, unsigned* count, int* out, int first, int second) {
    __shared__ bool last;
    if (threadIdx.x == 0) {
        part[blockIdx.x] = blockIdx.x + 1;
        if (first) __threadfence();
        last = atomicInc(count, gridDim.x) == gridDim.x - 1;
        if (second) __threadfence();
    }
    __syncthreads();
    if (last && threadIdx.x < gridDim.x) atomicAdd(out, part[threadIdx.x]);
}
extern "C" __global__ void lock(volatile int* data, int* held, int first, int second) {
    while (atomicCAS(held, 0, 1) != 0) {}
    if (first) __threadfence();
    *data = *data + 1;
    if (second) __threadfence();
    atomicExch(held, 0);
}
extern "C" __global__ void look_back(volatile int* sum, volatile int* ready, int* out, int first, int second) {
    int b = blockIdx.x, all = b;
    sum[b] = b;
    if (first) __threadfence();
    ready[b] = 1;
    for (int p = b - 1; p >= 0; p--) {
        while (ready[p] == 0) {}
        if (second) __threadfence();
        all += sum[p];
    }
    out[b] = all;
}
extern "C" __global__ void grid_barrier(volatile int* in, volatile int* go, volatile int* data, int* out, int first,
                                        int second) {
    int b = blockIdx.x, t = threadIdx.x;
    data[b * blockDim.x + t] = b;
    if (first) __threadfence();
    __syncthreads();
    if (t == 0) in[b] = 1;
    if (b == 0) {
        if (t < gridDim.x) while (in[t] != 1) {}
        if (second) __threadfence();
        __syncthreads();
        if (t < gridDim.x) go[t] = 1;
    }
    if (t == 0) { while (go[b] != 1) {} if (second) __threadfence(); }
    __syncthreads();
    out[b * blockDim.x + t] = data[(b + 1) % gridDim.x * blockDim.x + t];
}
extern "C" __global__ void chaotic(volatile int* label, unsigned* count, int* list, volatile int* changed) {
    int n = gridDim.x * blockDim.x, i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int k = 0; k < 4; k++) {
        int j = (7 * i + 3 * k) % n;
        if (label[j] < label[i]) { label[i] = label[j]; list[atomicAdd(count, 1u)] = i; *changed = 1; }
    }
}
extern "C" __global__ void one_word(volatile unsigned long long* state, int* out) {
    int b = blockIdx.x, all = b;
    state[b] = (unsigned long long)b << 32 | 1;
    for (int p = b - 1; p >= 0; p--) {
        unsigned long long found;
        do found = state[p]; while ((found & 1) == 0);
        all += (int)(found >> 32);
    }
    out[b] = all;
}
extern "C" __global__ void two_flags(volatile int* a, volatile int* b, int* out) {
    if (blockIdx.x == 0) { *a = 1; *b = 1; } else { while (*b == 0) {} while (*a == 0) {} *out = 1; }
}
extern "C" __global__ void apart(volatile int* data, volatile int* flags, int* out, int met, int) {
    if (blockIdx.x == 0) {
        if (threadIdx.x == 32) *data = 7;
        if (met) __syncthreads();
        if (threadIdx.x == 0) *flags = 1;
        if (!met) __syncthreads();
    }
    else if (threadIdx.x == 0) { while (*flags == 0) {} *out = *data; }
}
extern "C" __global__ void turns(volatile int* data, volatile int* flags, int* out) {
    for (int k = 0; k < 3; k++)
        if (blockIdx.x == 0) {
            *data = k;
            __threadfence();
            *flags = 2 * k + 1;
            while (*flags != 2 * k + 2) {}
            __threadfence();
        } else {
            while (*flags != 2 * k + 1) {}
            __threadfence();
            out[k] = *data;
            __threadfence();
            *flags = 2 * k + 2;
        }
}
"""
# fmt: off
ARRAYS = {"flag": 3, "in_shared": 1, "last_block": 3, "lock": 2, "look_back": 3, "grid_barrier": 4, "chaotic": 4,
          "one_word": 2, "two_flags": 3, "apart": 3, "turns": 3}
LAUNCH = {"flag": (2, 1), "in_shared": (1, 64), "last_block": (8, 32), "lock": (4, 1), "look_back": (5, 1),
          "grid_barrier": (4, 32), "chaotic": (4, 32), "one_word": (5, 1), "two_flags": (2, 1), "apart": (2, 64),
          "turns": (2, 1)}
# fmt: on
FENCED = ["flag", "in_shared", "last_block", "lock", "look_back", "grid_barrier"]


@pytest.fixture(scope="module")
def module() -> LoadedModule:
    return load_cu(TEXT)


def run(module: LoadedModule, name: str, *fences: int) -> list[str]:
    grid, block = LAUNCH[name]
    arrays = [np.zeros(512, np.int32) for _ in range(ARRAYS[name])]
    if name == "chaotic":
        arrays[0][:] = np.arange(512)[::-1]
    if name == "one_word":
        arrays[0] = np.zeros(8, np.uint64)
    return module[name].simulate(*arrays, *fences, grid=grid, block=block).warnings


@pytest.mark.parametrize("name", FENCED)
def test_volatile_data_and_flags_with_fences_on_both_sides_are_right(module: LoadedModule, name: str) -> None:
    assert run(module, name, 1, 1) == []


@pytest.mark.parametrize("name", FENCED)
def test_volatile_data_and_flags_without_fences_are_a_race(module: LoadedModule, name: str) -> None:
    with pytest.raises(SimulationError, match="race: volatile load") as raised:
        run(module, name, 0, 0)

    assert "volatile orders no other access" in str(raised.value)


@pytest.mark.parametrize(
    ("name", "fences"), [("flag", (1, 0)), ("flag", (0, 1)), ("lock", (0, 1)), ("in_shared", (1, 0))]
)
def test_a_fence_on_one_side_is_not_enough(module: LoadedModule, name: str, fences: tuple[int, int]) -> None:
    with pytest.raises(SimulationError, match="race: volatile load"):
        run(module, name, *fences)


def test_who_counts_last_and_reads_by_volatile_loads_needs_no_second_fence(module: LoadedModule) -> None:
    assert run(module, "last_block", 1, 0) == []


def test_a_flag_tells_of_what_its_writer_knew_when_it_was_set(module: LoadedModule) -> None:
    assert run(module, "apart", 0, 0) == []
    with pytest.raises(SimulationError, match="race: volatile load"):
        run(module, "apart", 1, 0)


@pytest.mark.parametrize("name", ["chaotic", "one_word", "two_flags", "turns"])
def test_volatile_reads_that_rely_on_no_order_are_right(module: LoadedModule, name: str) -> None:
    assert run(module, name) == []
