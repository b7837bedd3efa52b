"""Launches as large as users have them: arrays take memory where a kernel writes, and a sample of the CTAs runs."""

from __future__ import annotations

import re
import resource

import numpy as np
import pytest

import tilewright as tw
from tilewright.explain import Edit
from tilewright.sim.run.execution import Execution

ROWS, COLS = 1_200_000, 2_000
ELEMENTS = ROWS * COLS  # more than 32 bits have numbers for
SCALE = """
__global__ void scale(const signed char* x, signed char* out, int cols) {
    INDEX start = (INDEX)blockIdx.x * cols;
    for (int i = threadIdx.x; i < cols; i += blockDim.x) out[start + i] = 2 * x[start + i];
}
"""
ROOM = 3 << 20  # KiB


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


@pytest.mark.parametrize(("index", "status"), [("int", "wrong"), ("long long", "clean")])
def test_an_index_that_overflows_at_the_full_shape_is_told(index: str, status: str) -> None:
    kernel = tw.load_cu(SCALE, defines={"INDEX": index})["scale"]
    x, out, before = np.zeros(ELEMENTS, np.int8), np.zeros(ELEMENTS, np.int8), peak()

    found = tw.check(kernel, x, out, COLS, grid=ROWS, block=256)

    assert found.status == status
    assert [each.kind for each in found.findings] == ["bounds"] * (status == "wrong")
    assert peak() - before < ROOM
    if status == "clean":
        assert "CTAs, which did not run" in found.not_covered[0]


def test_a_simulation_runs_all_ctas() -> None:
    kernel = tw.load_cu(SCALE, defines={"INDEX": "int"})["scale"]
    x, out = np.ones(4096, np.int8), np.zeros(4096, np.int8)

    run = kernel.simulate(x, out, 4, grid=1024, block=32)

    assert run.left_out == 0
    assert (out == 2).all()


def test_a_sample_has_the_first_and_the_last_cta() -> None:
    kernel = tw.load_cu(SCALE, defines={"INDEX": "int"})["scale"]
    x, out = np.ones(1 << 16, np.int8), np.zeros(1 << 16, np.int8)

    run = kernel.simulate(x, out, 4, grid=1 << 14, block=32, sample=1)

    ran = np.asarray(out.reshape(-1, 4).any(1))
    assert run.left_out == (~ran).sum() > 0
    assert ran[0]
    assert ran[-1]


def test_ctas_that_wait_for_each_other_all_run() -> None:
    text = """
    __global__ void k(int* n) {
        if (threadIdx.x == 0) { atomicAdd(n, 1); while (atomicAdd(n, 0) < gridDim.x) {} }
    }
    """
    assert tw.load_cu(text)["k"].simulate(np.zeros(1, np.int32), grid=64, block=32, sample=1).left_out == 0


def test_arguments_that_share_memory_do_so_in_every_run() -> None:
    """The value goes round through both names, so that a run on copies apart would not end."""
    text = """
    __global__ void k(int* a, volatile int* b, int* out) {
        if (blockIdx.x == 0) atomicExch(a, 1);
        else if (threadIdx.x == 0) { while (*b == 0) {} out[0] = atomicAdd(a, 0); }
    }
    """
    a = np.zeros(1, np.int32)

    found = tw.check(tw.load_cu(text)["k"], a, a, np.zeros(1, np.int32), grid=2, block=1)

    assert (found.status, found.findings) == ("clean", ())


TOTAL = """
__device__ unsigned count = 0;
HOST
__global__ void total(const float* x, float* out) {
    if (threadIdx.x == 0 && atomicAdd(&count, 1) == gridDim.x - 1) { *out = x[0]; RESET }
}
"""


@pytest.mark.parametrize(
    ("reset", "host", "told"),
    [("", "", True), ("count = 0;", "", False),
     ("", "void again() { unsigned n = 0; cudaMemcpyToSymbol(count, &n, 4); total<<<4, 32>>>(0, 0); }", False)],
)  # fmt: skip
def test_a_variable_that_nobody_sets_back_is_told_where_the_kernel_changes_it(
    reset: str, host: str, told: bool
) -> None:
    kernel = tw.load_cu(TOTAL.replace("RESET", reset).replace("HOST", host))["total"]

    found = tw.check(kernel, np.ones(1, np.float32), np.zeros(1, np.float32), grid=4, block=32)

    assert found.status == "clean"
    assert [(each.severity, each.line) for each in found.findings] == [("warning", 5)] * told


COUNTED = """
__global__ void total(const float* x, float* out, unsigned* count) {
    if (threadIdx.x == 0 && atomicAdd(count, 1) == gridDim.x - 1) { *out = x[0]; RESET }
}
HOST
"""


@pytest.mark.parametrize(
    ("reset", "host", "told"),
    [("", "", False), ("*count = 0;", "void once(unsigned* n) { total<<<4, 32>>>(0, 0, n); }", False),
     ("", "void again(unsigned* n) { cudaMemsetAsync(n, 0, 4); total<<<4, 32>>>(0, 0, n); }", False),
     ("", "void again(unsigned* n) { total<<<4, 32>>>(0, 0, n); total<<<4, 32>>>(0, 0, n); }", True)],
)  # fmt: skip
def test_a_counter_of_ctas_that_nobody_sets_back_is_told(reset: str, host: str, told: bool) -> None:
    kernel = tw.load_cu(COUNTED.replace("RESET", reset).replace("HOST", host))["total"]

    found = tw.check(kernel, np.ones(1, np.float32), np.zeros(1, np.float32), np.zeros(1, np.uint32), grid=4, block=32)

    assert found.status == "clean"
    assert [(each.severity, each.line, each.buffer) for each in found.findings] == [("warning", 3, "out")] * told
    assert any("unless it is set back" in each for each in found.not_covered) == (not reset and not host)


MET = """
__device__ unsigned arrived = 0;
__global__ void steps(float* x, float* y) {
    x[blockIdx.x] = blockIdx.x;
    __threadfence();
    atomicAdd(&arrived, 1);
    while (atomicAdd(&arrived, 0) < UNTIL) {}
    __threadfence();
    y[blockIdx.x] = x[gridDim.x - 1 - blockIdx.x];
}
"""


@pytest.mark.parametrize(
    ("until", "told"), [("gridDim.x", True), ("1", None)]
)  # fmt: skip
def test_a_barrier_of_the_grid_that_lets_the_next_launch_pass_is_told(until: str, told: bool | None) -> None:
    kernel = tw.load_cu(MET.replace("UNTIL", until))["steps"]

    found = tw.check(kernel, np.zeros(4, np.float32), np.zeros(4, np.float32), grid=4, block=1)

    messages = [each.message for each in found.findings]
    if told is None:
        assert found.status == "wrong"  # a race at once: nothing is said of the next launch
        assert not [message for message in messages if "comes again" in message]
    else:
        assert found.status == "clean"
        assert messages == ["the launch comes again and goes wrong: it finds what the first has left in arrived"]


def test_a_histogram_that_goes_on_is_no_counter_of_ctas() -> None:
    text = """
    __global__ void add(const int* x, unsigned* bins, unsigned* most) {
        unsigned now = atomicAdd(&bins[x[blockIdx.x] % 4], 1) + 1;
        atomicMax(most, now);
    }
    """
    given = np.arange(8, dtype=np.int32), np.zeros(4, np.uint32), np.zeros(1, np.uint32)

    found = tw.check(tw.load_cu(text)["add"], *given, grid=8, block=1)

    assert (found.status, found.findings) == ("clean", ())


def test_what_lanes_that_ended_before_a_barrier_have_left_out_is_told_with_it() -> None:
    text = """
    __global__ void k(const float* x, float* y, int n) {
        __shared__ float s[64];
        for (int k = threadIdx.x; k < n; k += 64) {
            s[threadIdx.x] = x[k];
            __syncthreads();
            y[k] = s[63 - threadIdx.x];
            __syncthreads();
        }
    }
    """
    kernel = tw.load_cu(text)["k"]

    found = tw.check(kernel, np.ones(64, np.float32), np.zeros(64, np.float32), 50, grid=1, block=64)

    assert found.findings[0].kind == "poison"
    assert re.search(r"__syncthreads in line \d was met without CTA \(0, 0, 0\), warp 1, lanes 18\.\.31", str(found))
    assert tw.check(kernel, np.ones(64, np.float32), np.zeros(64, np.float32), 64, grid=1, block=64)


@pytest.mark.parametrize(("threads", "writer"), [(40, 3), (32, 3)])
def test_a_race_names_the_barrier_that_was_met_without_the_thread_that_wrote(threads: int, writer: int) -> None:
    text = """
    __global__ void k(const int* in, int* out, int n) {
        __shared__ int order[128];
        order[threadIdx.x] = in[threadIdx.x];
        if (threadIdx.x >= n) return;
        __syncthreads();
        out[threadIdx.x] = order[32 * (WRITER + 1) - 1 - threadIdx.x % 4];
    }
    """
    kernel = tw.load_cu(text, defines={"WRITER": writer})["k"]

    found = tw.check(kernel, np.arange(128, dtype=np.int32), np.zeros(128, np.int32), threads, grid=1, block=128)

    assert [each.kind for each in found.findings] == ["races"]
    assert "__syncthreads in line 6 was met without that one, which had ended" in str(found.findings[0])
    hint, remedy = found.findings[0].hint, found.findings[0].remedy
    assert hint is not None
    assert hint.startswith("__syncthreads in line 6 in front of the `return` of line 5")
    assert remedy is not None
    assert remedy.ways[0][0] == Edit("move", 6, first=5, last=5)


@pytest.mark.parametrize(
    ("body", "hint"),
    [
        (
            "if (i >= n)\n return;\n s[i] = x[i];\n __syncthreads();\n y[i] = s[63 - i];",
            "a branch around the work instead of the `return` of line 6, and __syncthreads in line 8 outside of it",
        ),
        (
            "for (int k = i; k < n; k += 64) {\n  s[i] = x[k];\n  __syncthreads();\n  y[k] = s[63 - i];\n"
            "  __syncthreads();\n}",
            "as many turns of the loop of line 5 for all threads, its condition around the work alone",
        ),
    ],
)
def test_what_threads_have_not_written_that_ended_before_a_barrier_is_no_second_barrier(body: str, hint: str) -> None:
    text = f"""
__global__ void k(const float* x, float* y, int n) {{
    __shared__ float s[64];
    int i = threadIdx.x;
{body}
}}
"""
    kernel = tw.load_cu(text)["k"]

    found = tw.check(kernel, np.ones(64, np.float32), np.zeros(64, np.float32), 50, grid=1, block=64)

    assert [(each.kind, each.hint) for each in found.findings] == [("poison", hint)]


def test_a_loop_that_branches_on_a_sum_over_its_cta_waits_for_no_other_one() -> None:
    text = """
    __device__ float total(float v, float* s) {
        s[threadIdx.x] = v;
        __syncthreads();
        for (int k = 32; k; k /= 2) {
            if (threadIdx.x < k) s[threadIdx.x] += s[threadIdx.x + k];
            __syncthreads();
        }
        float sum = s[0];
        __syncthreads();
        return sum;
    }
    __global__ void k(const float* x, float* y, int n) {
        __shared__ float s[64];
        for (int u = blockIdx.x; u < n; u += gridDim.x) {
            float sum = total(x[u * 64 + threadIdx.x], s);
            if (sum < 1e-20f) continue;
            y[u * 64 + threadIdx.x] = x[u * 64 + threadIdx.x] / sum;
        }
    }
    """
    kernel = tw.load_cu(text)["k"]
    x, y = np.ones((40000, 64), np.float32), np.zeros((40000, 64), np.float32)

    run = kernel.simulate(x, y, 40000, grid=20000, block=64, sample=4000)

    assert run.left_out > 10000
    assert (y[0] == 1 / 64).all()


def test_polls_whose_own_values_change_are_told_apart_without_reading_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "__global__ void k(volatile int* x, int n) { for (int u = 0; u < n; u += 2 - *x) x[1] = u; }"
    kernel = tw.load_cu(text)["k"]
    read = list[object]()

    def counted(self: Execution, polling: object) -> int:
        read.append(polling)
        return len(read)

    monkeypatch.setattr(Execution, "fingerprint", counted)
    x = np.zeros(2, np.int32)

    kernel.simulate(x, 400, grid=1, block=1)

    assert (x[1], read) == (398, [])


def test_a_variable_that_a_launch_leaves_is_looked_at_once_with_the_arrays_as_they_were() -> None:
    text = """
    __device__ int calls;
    __global__ void k(float* x) { x[threadIdx.x] += 1; if (threadIdx.x == 0) calls = calls + 1; }
    """
    verdict = tw.check(tw.load_cu(text)["k"], np.zeros(32, np.float32), grid=1, block=32)

    assert verdict.status == "clean"
    assert not [text for text in verdict.not_covered if "comes again" in text]


SUMS = """
__global__ void sums(const float* x, float* y) {
    __shared__ float part[32];
    int t = threadIdx.x;
    if (t % 32 == 0) part[t / 32] = x[blockIdx.x * blockDim.x + t];
    __syncthreads();
    float sum = 0;
    for (int i = 0; i < blockDim.x / 32; i++) sum += part[i];
    y[blockIdx.x * blockDim.x + t] = sum;
}
"""


def test_builds_of_which_one_runs_a_sample_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilewright.trials.SAMPLED", 800_000)  # of which the unoptimised build takes more
    x, y = np.arange(1, 1 + 2048 * 256, dtype=np.float32), np.zeros(2048 * 256, np.float32)

    found = tw.check(tw.load_cu(SUMS)["sums"], x, y, grid=2048, block=256)

    assert (found.status, found.findings) == ("clean", ())
