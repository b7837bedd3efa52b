"""Findings in the words of a .cu file: the atomic for an update, the fence in the place of a narrow one, the wait as
the file calls it, the turn of a loop, the variable without a value.
"""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright.errors import SimulationError


def found(text: str, kernel: str, *args: object, grid: int = 2, block: int = 64) -> SimulationError:
    with pytest.raises(SimulationError) as error:
        tw.load_cu(text)[kernel].simulate(*args, grid=grid, block=block)
    return error.value


def hint(text: str, kernel: str, *args: object, grid: int = 2, block: int = 64) -> str:
    return str(found(text, kernel, *args, grid=grid, block=block).hint)


# An update of one place by many threads

UPDATES = {
    "if (x[i] > *m) *m = x[i];": "atomicMax(m, x[i]) in place of line 4",
    "if (*m < x[i])\n        *m = x[i];": "atomicMax(m, x[i]) in place of lines 4 and 5",
    "if (x[i] <= m[0]) m[0] = x[i];": "atomicMin(&m[0], x[i]) in place of line 4",
    "*m = min(*m, x[i]);": "atomicMin(m, x[i]) in place of line 4",
    "*m = x[i] > *m ? x[i] : *m;": "atomicMax(m, x[i]) in place of line 4",
    "*m = *m + 1;": "atomicAdd(m, 1) in place of line 4",
    "m[0] = x[i] + m[0];": "atomicAdd(&m[0], x[i]) in place of line 4",
    "(*m)--;": "atomicSub(m, 1) in place of line 4",
    "*m ^= x[i];": "atomicXor(m, x[i]) in place of line 4",
    "*m *= x[i];": "a loop of atomicCAS in place of line 4",
    "int old = *m;\n    *m = old | x[i];": "atomicOr(m, x[i]) in place of lines 4 and 5",
    "m[x[i] & 7]++;": "atomicAdd(&m[x[i] & 7], 1) in place of line 4",
}


@pytest.mark.parametrize("line", UPDATES)
def test_many_threads_that_change_one_place_are_told_the_atomic_of_the_line(line: str) -> None:
    text = f"""
__global__ void k(const int* x, int* m) {{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    {line}
}}
"""
    x = np.random.default_rng(0).permutation(128).astype(np.int32) + 1

    error = found(text, "k", x, np.full(8, 50, np.int32))

    assert UPDATES[line] in str(error.hint)
    assert error.findings[0].remedy is not None
    assert error.findings[0].remedy.step == "atomic"
    assert "barrier orders" not in str(error.allowed)


KINDS = {
    ("float", "*m = fmaxf(*m, x[i])"): "a loop of atomicCAS (float has no atomicMax; where no number is negative, "
    "atomicMax((int*)m, __float_as_int(x[i])) does)",
    ("double", "*m -= x[i]"): "atomicAdd(m, -(x[i]))",
    ("long long", "*m += x[i]"): "atomicAdd((unsigned long long*)m, x[i])",
    ("unsigned char", "*m |= x[i]"): "a variable of int and an atomic (unsigned char has none)",
}


@pytest.mark.parametrize(("kind", "line"), KINDS)
def test_the_atomic_is_one_that_the_type_has(kind: str, line: str) -> None:
    text = f"__global__ void k(const {kind}* x, {kind}* m) {{\n    int i = threadIdx.x;\n    {line};\n}}\n"
    dtype = {"float": np.float32, "double": np.float64, "long long": np.int64, "unsigned char": np.uint8}[kind]

    said = hint(text, "k", np.arange(1, 65).astype(dtype), np.zeros(1, dtype), grid=1)

    assert said.startswith(KINDS[kind, line])


def test_a_shared_variable_that_the_largest_is_kept_in_is_no_matter_of_a_barrier() -> None:
    text = """
__global__ void k(const int* x, int* out) {
    __shared__ int best;
    if (threadIdx.x == 0) best = 0;
    __syncthreads();
    if (x[threadIdx.x] > best) best = x[threadIdx.x];
    __syncthreads();
    if (threadIdx.x == 0) *out = best;
}
"""
    said = hint(text, "k", np.arange(64, dtype=np.int32)[::-1].copy(), np.zeros(1, np.int32), grid=1)

    assert said.startswith("atomicMax(&best, x[threadIdx.x]) in place of line 6")


REDUCTION = """
__global__ void k(const int* x, int* out) {
    __shared__ int s[256];
    int tid = threadIdx.x;
    s[tid] = x[tid];
    __syncthreads();
    for (int d = 128; d > 0; d /= 2) {
        if (tid < d) UPDATE
    }
    if (tid == 0) *out = s[0];
}
"""


@pytest.mark.parametrize("update", ["s[tid] += s[tid + d];", "if (s[tid + d] > s[tid]) s[tid] = s[tid + d];"])
def test_a_reduction_without_its_barrier_is_told_of_the_barrier(update: str) -> None:
    x, out = np.arange(256, dtype=np.int32), np.zeros(1, np.int32)

    said = hint(REDUCTION.replace("UPDATE", update), "k", x, out, grid=1, block=256)

    assert said == "__syncthreads() outside of `if`s at the end of each turn of the loop at line 7"


# A fence that is too narrow

HANDOVER = """
__global__ void k(int* data, int* flag, int* out) {
    if (blockIdx.x == 0) {
        *data = 7;
        FIRST
        atomicExch(flag, 1);
    } else {
        while (atomicAdd(flag, 0) == 0) {}
        SECOND
        *out = *data;
    }
}
"""


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        (
            "__threadfence_block();",
            "__threadfence();",
            "__threadfence() in place of the __threadfence_block() of line 5",
        ),
        (
            "__threadfence();",
            "__threadfence_block();",
            "__threadfence() in place of the __threadfence_block() of line 9",
        ),
        ("", "__threadfence();", "__threadfence() before line 6"),
    ],
)
def test_a_fence_for_one_cta_is_replaced_and_none_is_added(first: str, second: str, said: str) -> None:
    text = HANDOVER.replace("FIRST", first).replace("SECOND", second)

    assert hint(text, "k", *(np.zeros(1, np.int32) for _ in range(3)), block=1).startswith(said)


# Asynchronous copies

WRAPPED = """
__device__ void wait_all() { asm volatile("cp.async.wait_group 0;" ::: "memory"); }
template <int N> __device__ void wait_but() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }
#define COMMIT() asm volatile("cp.async.commit_group;")
"""
PRIMITIVES = ("#include <cuda_pipeline.h>\n", "__pipeline_memcpy_async(&s[i], &x[i], 16);", "__pipeline_commit();")
ASM = """unsigned to = __cvta_generic_to_shared(&s[i]);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(x + i));"""
COPIES = {
    "__pipeline_wait_prior(0) by": (PRIMITIVES[0], PRIMITIVES[1] + PRIMITIVES[2]),
    'asm volatile("cp.async.wait_group 0;" ::: "memory") by': ("", f'{ASM} asm volatile("cp.async.commit_group;");'),
    "COMMIT() after the cp.async at kernel.cu:10, then wait_all() by": (WRAPPED, ASM),
    "pipe.consumer_wait() by": (
        "#include <cuda/pipeline>\n",
        "auto pipe = cuda::make_pipeline(); pipe.producer_acquire(); "
        "cuda::memcpy_async(&s[i], &x[i], 16, pipe); pipe.producer_commit();",
    ),
}


@pytest.mark.parametrize("said", COPIES)
def test_a_wait_for_copies_is_called_as_the_file_calls_it(said: str) -> None:
    head, copy = COPIES[said]
    text = f"""{head}
__global__ void k(const float4* x, float4* y) {{
    __shared__ float4 s[64];
    int i = threadIdx.x;
    {copy}
    __syncthreads();
    y[i] = s[63 - i];
}}
"""
    error = found(text, "k", np.zeros(256, np.float32), np.zeros(256, np.float32), grid=1)

    assert str(error.hint).startswith(said)
    assert [finding.kind for finding in error.findings] == ["races"], "what follows is no finding of its own"
    assert error.findings[0].follows > 0


# Turns of loops


def test_two_accesses_of_different_turns_say_so() -> None:
    text = """
__global__ void k(const int* x, int* out) {
    __shared__ int s[64];
    int sum = 0;
    for (int tile = 0; tile < 4; ++tile) {
        s[threadIdx.x] = x[tile * 64 + threadIdx.x];
        __syncthreads();
        sum += s[63 - threadIdx.x];
    }
    out[threadIdx.x] = sum;
}
"""
    error = found(text, "k", np.zeros(256, np.int32), np.zeros(64, np.int32), grid=1)

    assert str(error.given).endswith("line 6 comes after line 8 in the next turn of the loop at line 5")
    assert error.hint == "__syncthreads() behind line 8, at the end of each turn of the loop at line 5"


STEPS = """
__global__ void k(const int* x, int* out) {
    __shared__ int s[256];
    int lane = threadIdx.x % 32, i = THREAD;
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    for (int o = START; o > 0; o >>= 1) {
        if (i < o) s[i] += s[i + o];
    }
    out[threadIdx.x] = s[threadIdx.x];
}
"""


@pytest.mark.parametrize(
    ("thread", "start", "words"),
    [("threadIdx.x", "blockDim.x / 2", "__syncthreads()"), ("threadIdx.x", "32", "__syncthreads()"),
     ("(threadIdx.x - lane + lane)", "16", "__syncwarp()")],
)  # fmt: skip
def test_a_reduction_of_a_block_is_told_its_barrier(thread: str, start: str, words: str) -> None:
    text = STEPS.replace("THREAD", thread).replace("START", start)

    error = found(text, "k", np.zeros(64, np.int32), np.zeros(64, np.int32), grid=1)

    remedy = error.findings[0].remedy
    assert error.findings[0].hint == f"{words} outside of `if`s at the end of each turn of the loop at line 7"
    assert remedy is not None
    assert {edit.text for way in remedy.ways for edit in way} <= {f"{words};"}


def test_a_barrier_stands_where_a_turn_that_goes_on_early_meets_it() -> None:
    text = """
__global__ void k(const int* x, int* out) {
    __shared__ int s[64];
    int sum = 0;
    for (int tile = 0; tile < 4; ++tile) {
        s[threadIdx.x] = x[tile * 64 + threadIdx.x];
        __syncthreads();
        if (s[63 - threadIdx.x] == 0) continue;
        sum += 1;
    }
    out[threadIdx.x] = sum;
}
"""
    error = found(text, "k", np.zeros(256, np.int32), np.zeros(64, np.int32), grid=1)

    assert error.hint == "__syncthreads() outside of `if`s at the beginning of each turn of the loop at line 5"


def test_a_lambda_function_that_a_loop_calls_is_of_the_next_turn() -> None:
    text = """
__global__ void k(const int* x, int* out) {
    __shared__ int s[64];
    int sum = 0;
    auto load = [&](int tile) {
        s[threadIdx.x] = x[tile * 64 + threadIdx.x];
    };
    for (int tile = 0; tile < 4; ++tile) {
        load(tile);
        __syncthreads();
        sum += s[63 - threadIdx.x];
    }
    out[threadIdx.x] = sum;
}
"""
    error = found(text, "k", np.zeros(256, np.int32), np.zeros(64, np.int32), grid=1)

    assert error.hint == "__syncthreads() behind line 11, at the end of each turn of the loop at line 8"


def test_the_update_of_a_loop_in_the_same_line_is_not_the_one_that_races() -> None:
    text = """
__global__ void k(const int* x, int* bins, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) bins[x[i]]++;
}
"""
    assert hint(text, "k", np.zeros(128, np.int32), np.zeros(4, np.int32), 128, grid=1).startswith(
        "atomicAdd(&bins[x[i]], 1) in place of line 3"
    )


# Variables without a value


@pytest.mark.parametrize(
    ("declared", "update", "used", "said"),
    [
        ("float acc[4];", "acc[i & 3] += x[i];", "acc[threadIdx.x & 3]", "`float acc[4] = {};` in line 3"),
        ("float acc[4], sum;", "sum += x[i];", "sum", "`float sum = 0;` in line 3"),
    ],
)
def test_a_local_variable_that_nobody_has_set_is_named(declared: str, update: str, used: str, said: str) -> None:
    text = f"""
__global__ void k(const float* x, float* y, int n) {{
    {declared}
    for (int i = 0; i < n; ++i) {update}
    y[threadIdx.x] = {used};
}}
"""
    error = found(text, "k", np.zeros(64, np.float32), np.zeros(64, np.float32), 64, grid=1)

    assert error.what == f"{used.partition('[')[0]} is uninitialised"
    assert str(error.hint).startswith(said)


def test_a_variable_that_is_set_in_one_branch_alone_is_not_blamed_for_the_first_line() -> None:
    text = """
__global__ void k(const float* x, float* y, int n) {
    float v;
    if (n > 64) v = x[0];
    y[threadIdx.x] = v;
}
"""
    error = found(text, "k", np.zeros(64, np.float32), np.zeros(64, np.float32), 64, grid=1)

    assert "read before" not in str(error.given)


def test_an_array_that_is_set_in_part_alone_is_hinted_at() -> None:
    text = """
__global__ void k(const float* x, float* y, int n) {
    float acc[4];
    for (int i = 0; i < n; ++i) acc[i] = x[i];
    float sum = 0;
    for (int i = 0; i < 4; ++i) sum += acc[i];
    y[threadIdx.x] = sum;
}
"""
    error = found(text, "k", np.zeros(64, np.float32), np.zeros(64, np.float32), 3, grid=1)

    assert str(error.hint).startswith("`float acc[4] = {};` in line 3, or a value for all of acc")


# Barriers and shuffles that some lanes skip


def test_a_race_around_a_barrier_that_threads_skip_follows_from_that() -> None:
    text = """
__global__ void k(const int* x, int* out) {
    __shared__ int s[64];
    s[threadIdx.x] = x[threadIdx.x];
    if (threadIdx.x < 40) __syncthreads();
    out[threadIdx.x] = s[63 - threadIdx.x];
}
"""
    error = found(text, "k", np.zeros(64, np.int32), np.zeros(64, np.int32), grid=1)

    assert [finding.kind for finding in error.findings] == ["divergence"]
    assert error.at is not None
    assert (error.kind, error.at.line) == ("divergence", 5)
    assert "__syncthreads without lanes" in str(error)


def test_a_shuffle_in_a_branch_is_told_to_leave_it() -> None:
    text = """
__global__ void k(const int* x, int* out) {
    int v = x[threadIdx.x];
    if (threadIdx.x < 16) v += __shfl_down_sync(0xffffffff, v, 16);
    out[threadIdx.x] = v;
}
"""
    said = hint(text, "k", np.zeros(32, np.int32), np.zeros(32, np.int32), grid=1, block=32)

    assert said.startswith("the shuffle in front of the `if` of line 4, so that all lanes come to it; or ")


def test_accesses_of_one_line_outside_of_loops_get_a_barrier_between_them() -> None:
    text = """
__global__ void k(const int* x, int* out) {
    __shared__ volatile int s[64];
    int t = threadIdx.x;
    s[t] = x[t];
    __syncthreads();
    if (t < 16) { s[t] += s[t + 16]; s[t] += s[t + 8]; }
    out[t] = s[t];
}
"""
    said = hint(text, "k", np.zeros(32, np.int32), np.zeros(32, np.int32), grid=1, block=32)

    assert said == "__syncwarp() between the accesses of line 7, as statements of their own"


def test_a_store_beyond_shared_memory_has_the_declaration_of_the_array() -> None:
    text = """
__global__ void k(int* out) {
    __shared__ int s[63];
    s[threadIdx.x] = 1;
    __syncthreads();
    out[threadIdx.x] = s[0];
}
"""
    error = found(text, "k", np.zeros(64, np.int32), grid=1)

    assert str(error.allowed) == "252 bytes: __shared__ int s[63] of line 3"


GRID = """
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__global__ void k(int* x, int* y) {
    GROUP
    x[blockIdx.x] = 1;
    y[blockIdx.x] = x[gridDim.x - 1 - blockIdx.x];
}
LAUNCH
"""
LAUNCHED = "void f(void** args) { cudaLaunchCooperativeKernel((void*)k, 2, 1, args); }"


@pytest.mark.parametrize(
    ("group", "launch", "words"),
    [("cg::grid_group all = cg::this_grid();", "", "all.sync() between the two, as the launch is cooperative; or"),
     ("", LAUNCHED, "cooperative_groups::this_grid().sync() between the two, as the launch is cooperative; or"),
     ("", "", "no barrier orders CTAs: ")],
)  # fmt: skip
def test_a_cooperative_launch_is_told_the_barrier_of_its_grid(group: str, launch: str, words: str) -> None:
    text = GRID.replace("GROUP", group).replace("LAUNCH", launch)

    assert hint(text, "k", np.zeros(2, np.int32), np.zeros(2, np.int32), block=1).startswith(words)
