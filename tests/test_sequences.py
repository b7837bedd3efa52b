"""Launches one behind the other: memory carries on, and what begins early waits before it touches what others use."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import tilewright as tw
from tilewright.cli.app import app
from tilewright.errors import ArgumentError
from tilewright.load.cu_launches import launched
from tilewright.verdict import Report

SYNC, TRIGGER = "cudaGridDependencySynchronize();", "cudaTriggerProgrammaticLaunchCompletion();"
PRODUCE = "__global__ void produce(float* x) {{ {trigger} x[blockIdx.x * 64 + threadIdx.x] = threadIdx.x; {later} }}\n"
CONSUME = """
__global__ void consume(const float* x, float* out) {{
    {before}
    out[blockIdx.x * 64 + threadIdx.x] = x[blockIdx.x * 64 + threadIdx.x];
}}
"""
READ = "__global__ void produce(const float* x, float* out) { TRIGGER out[threadIdx.x] = x[threadIdx.x]; }\n"
WRITE = "__global__ void consume(float* x) { BEFORE x[threadIdx.x] = 1; AFTER }\n"
TOTAL = """
__device__ unsigned count;
__global__ void total(const float* x, float* part, float* out) {
    part[blockIdx.x] = x[blockIdx.x];
    __threadfence();
    if (atomicAdd(&count, 1) == gridDim.x - 1) {
        __threadfence();
        float sum = 0;
        for (int i = 0; i < gridDim.x; i++) sum += ((volatile float*)part)[i];
        *out = sum;
        RESET
    }
}
"""


def pair(before: str, *, pdl: bool = True, trigger: str = "", both: bool = False) -> Report:
    module = tw.load_cu(PRODUCE.format(trigger=trigger, later="") + CONSUME.format(before=before))
    x, out = np.zeros(128, np.float32), np.zeros(128, np.float32)
    return tw.sequence(
        tw.launch(module["produce"], x, grid=2, block=64),
        tw.launch(module["consume"], x, out, grid=2, block=64, pdl=pdl),
        both=both,
    )


@pytest.mark.parametrize("trigger", ["", TRIGGER])
@pytest.mark.parametrize("before", ["", f"if (threadIdx.x == 0) {SYNC}", f"if (threadIdx.x < 32) {SYNC}"])
def test_what_the_launch_before_writes_is_read_after_a_wait_alone(before: str, trigger: str) -> None:
    report = pair(before, trigger=trigger)

    (finding,) = report.verdicts[1].findings
    assert "which the launch before, produce, may still have to write" in finding.message
    assert (finding.buffer, finding.other and finding.other.line) == ("x", 1)


@pytest.mark.parametrize(
    "before",
    [SYNC, f"if (threadIdx.x == 0) {SYNC} __syncthreads();", f"__shared__ float s[64]; s[threadIdx.x] = 0; {SYNC}"],
)
def test_a_wait_of_all_threads_or_of_one_before_a_barrier_is_enough(before: str) -> None:
    assert pair(before, both=True).status == "clean"


def test_without_the_attribute_a_launch_begins_when_the_last_one_has_ended() -> None:
    report = pair("", pdl=False)

    assert report.status == "clean"
    assert [each.kernel for each in report.verdicts] == ["1. produce", "2. consume"]


@pytest.mark.parametrize(("trigger", "status"), [(TRIGGER, "wrong"), ("", "clean")])
def test_what_is_read_is_overwritten_after_the_wait_if_the_launch_before_lets_others_begin(
    trigger: str, status: str
) -> None:
    text = READ.replace("TRIGGER", trigger) + WRITE.replace("BEFORE", "").replace("AFTER", SYNC)
    module, x, out = tw.load_cu(text), np.ones(64, np.float32), np.zeros(64, np.float32)

    report = tw.sequence(
        tw.launch(module["produce"], x, out, grid=1, block=64),
        tw.launch(module["consume"], x, grid=1, block=64, pdl=True),
        both=False,
    )

    assert report.status == status


def test_a_launch_finds_what_the_last_one_has_written() -> None:
    x, out = np.zeros(128, np.float32), np.zeros(128, np.float32)
    module = tw.load_cu(
        PRODUCE.format(trigger="", later="") + CONSUME.format(before="if (x[threadIdx.x] != threadIdx.x) __trap();")
    )

    def status(*kernels: str) -> str:
        args = {"produce": (x,), "consume": (x, out)}
        return tw.sequence(*(tw.launch(module[each], *args[each], grid=2, block=64) for each in kernels)).status

    assert status("produce", "consume") == "clean"
    assert status("consume") == "wrong"
    assert not x.any()


@pytest.mark.parametrize(("reset", "status"), [("", "wrong"), ("count = 0;", "clean")])
def test_a_counter_that_is_not_reset_is_told_where_a_launch_comes_again(reset: str, status: str) -> None:
    total = tw.load_cu(TOTAL.replace("RESET", reset))["total"]
    arrays = np.ones(4, np.float32), np.zeros(4, np.float32), np.zeros(1, np.float32)

    report = tw.sequence(*(tw.launch(total, *arrays, grid=4, block=1) for _ in range(2)))

    assert report.status == status
    assert all("count" in each.message for each in report.verdicts[1].findings)


def test_a_sequence_is_made_of_launches_of_loaded_kernels() -> None:
    with pytest.raises(ArgumentError, match="is made of launches"):
        tw.sequence("produce")
    with pytest.raises(ArgumentError, match="takes kernels of load_cu and load_ptx"):
        tw.launch("produce")


FILE = """
#define N 128
__global__ void produce(float* x, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] = i; }
__global__ void consume(const float* x, float* out) { out[threadIdx.x] = x[threadIdx.x]; }
int main() {
    float *d_x, *d_out;
    produce<<<N / 64, 64>>>(d_x, N);
    consume<<<1, 64>>>(d_x, d_out);
}
"""


def test_the_launches_of_a_file_have_their_arguments_as_it_writes_them() -> None:
    assert [(each.kernel, each.grid, each.arguments) for each in launched(FILE)] == [
        ("produce", (2,), ("d_x", 128)), ("consume", (1,), ("d_x", "d_out")),
    ]  # fmt: skip


def test_a_file_is_checked_launch_after_launch(tmp_path: Path) -> None:
    file = tmp_path / "two.cu"
    file.write_text(FILE)
    command = ["check", str(file), "--sequence", "--no-both", "--arg", "d_x:f32[128]"]

    clean = CliRunner().invoke(app, [*command, "--arg", "d_out:f32[64]"])
    wrong = CliRunner().invoke(app, [*command, "--arg", "d_out:f32[64]", "--pdl"])
    lacks = CliRunner().invoke(app, command)

    assert (clean.exit_code, wrong.exit_code) == (0, 1)
    assert "may still have to write" in wrong.output
    assert isinstance(lacks.exception, ArgumentError)
    assert lacks.exception.given == "line 8, consume: no value of float* d_out"


def test_a_sequence_without_a_launch_is_refused() -> None:
    with pytest.raises(ArgumentError, match="a sequence has no launch"):
        tw.sequence()
