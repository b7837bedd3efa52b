"""Launches one behind the other: memory carries on, and what begins early waits before it touches what others use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import tilewright as tw
from tilewright import T
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


def test_the_remedy_of_a_wait_that_lacks_is_a_statement_of_cuda() -> None:
    (finding,) = pair("").verdicts[1].findings

    assert str(finding.hint).startswith("cudaGridDependencySynchronize() before line")
    assert finding.remedy
    assert pair(str(finding.remedy.code)).status == "clean"


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


CHAIN = """
__global__ void first(float* a) { TRIGGER a[threadIdx.x] = 1; }
__global__ void second(float* b) { MIDDLE b[threadIdx.x] = 2; }
__global__ void third(const float* a, float* c) { BEFORE c[threadIdx.x] = a[threadIdx.x]; }
"""


@pytest.mark.parametrize(
    ("middle", "before", "found"),
    [
        (SYNC, SYNC, ""),
        (TRIGGER + SYNC, SYNC, ""),
        (SYNC + TRIGGER, "", ""),  # the third begins after the wait of the second, so that the first has ended
        (TRIGGER + SYNC, "", "an earlier launch, first"),
        ("", SYNC, "an earlier launch, first"),  # the second may end before the first
    ],
)
def test_a_launch_meets_all_that_may_still_run_before_it(middle: str, before: str, found: str) -> None:
    text = CHAIN.replace("TRIGGER", TRIGGER, 1).replace("MIDDLE", middle).replace("BEFORE", before)
    module, (a, b, c) = tw.load_cu(text), (np.zeros(32, np.float32) for _ in range(3))

    report = tw.sequence(
        tw.launch(module["first"], a, grid=1, block=32),
        tw.launch(module["second"], b, grid=1, block=32, pdl=True),
        tw.launch(module["third"], a, c, grid=1, block=32, pdl=True),
        both=False,
    )

    assert (report.status == "clean") is not bool(found)
    assert all(found in each.message for verdict in report.verdicts for each in verdict.findings)


def test_a_sequence_is_made_of_launches_of_kernels() -> None:
    with pytest.raises(ArgumentError, match="is made of launches"):
        tw.sequence("produce")
    with pytest.raises(ArgumentError, match="a launch is one of a kernel"):
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


DEPENDENT = """
__global__ void produce(float* x) { x[threadIdx.x] = threadIdx.x; }
__global__ void consume(const float* x, float* out) { WAIT out[threadIdx.x] = x[threadIdx.x]; }
void run(cudaStream_t stream) {
    float *x, *out;
    cudaMalloc(&x, 64 * sizeof(float)); cudaMalloc(&out, 64 * sizeof(float));
    produce<<<1, 64, 0, stream>>>(x);
    cudaLaunchAttribute attribute[1];
    attribute[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute[0].val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {dim3(1), dim3(64), 0, stream, attribute, 1};
    cudaLaunchKernelEx(&config, consume, (const float*)x, out);
}
"""


@pytest.mark.parametrize(("wait", "code"), [("", 1), (SYNC, 0)])
def test_a_file_that_launches_by_the_attribute_is_checked_in_order(wait: str, code: int, tmp_path: Path) -> None:
    file = tmp_path / "dependent.cu"
    file.write_text(DEPENDENT.replace("WAIT", wait))

    said = CliRunner().invoke(app, ["check", str(file), "--no-both"])

    assert (said.exit_code, "may still have to write" in said.output) == (code, code == 1)


def test_a_sequence_without_a_launch_is_refused() -> None:
    with pytest.raises(ArgumentError, match="a sequence has no launch"):
        tw.sequence()


# Kernels of both languages, and sequences of a TOML file


@T.prim_func
def after_wait(X: T.Buffer((128,), "float32"), Y: T.Buffer((128,), "float32")):
    bx = T.cta_id([2])
    tx = T.thread_id([64])
    T.ptx.griddepcontrol.wait()
    Y[bx * 64 + tx] = X[bx * 64 + tx]


@T.prim_func
def before_wait(X: T.Buffer((128,), "float32"), Y: T.Buffer((128,), "float32")):
    bx = T.cta_id([2])
    tx = T.thread_id([64])
    Y[bx * 64 + tx] = X[bx * 64 + tx]
    T.ptx.griddepcontrol.wait()


@pytest.mark.parametrize(("ours", "status"), [(after_wait, "clean"), (before_wait, "wrong")])
def test_a_kernel_of_ours_follows_one_of_cuda(ours: Any, status: str) -> None:
    module = tw.load_cu(PRODUCE.format(trigger=TRIGGER, later=""))
    x, out = np.zeros(128, np.float32), np.zeros(128, np.float32)

    report = tw.sequence(tw.launch(module["produce"], x, grid=2, block=64), tw.launch(ours, x, out, pdl=True))

    assert report.status == status
    assert [each.kernel for each in report.verdicts] == ["1. produce", f"2. {ours.name}"]


@pytest.mark.parametrize(("before", "status"), [(SYNC, "clean"), ("", "wrong")])
def test_a_kernel_of_cuda_follows_one_of_ours(before: str, status: str) -> None:
    module = tw.load_cu(CONSUME.format(before=before))
    x, y, out = (np.zeros(128, np.float32) for _ in range(3))
    last = tw.launch(module["consume"], y, out, grid=2, block=64, pdl=True)

    assert tw.sequence(tw.launch(after_wait, x, y), last).status == status


@pytest.mark.parametrize(("before", "code"), [(SYNC, 0), ("", 1)])
def test_a_toml_file_has_launches_in_order_that_share_arrays(tmp_path: Path, before: str, code: int) -> None:
    file = tmp_path / "pair.cu"
    file.write_text(PRODUCE.format(trigger=TRIGGER, later="") + CONSUME.format(before=before))
    file.with_suffix(".toml").write_text("""
        [[sequence]]
        arrays = ["a:f32[128]", "b:f32[128]"]
        launches = [
            {kernel = "produce", grid = 2, block = 64, args = ["a"]},
            {kernel = "consume", grid = 2, block = 64, args = ["x=a", "out=b"], pdl = true},
        ]
    """)

    result = CliRunner().invoke(app, ["check", str(file)])

    assert result.exit_code == code, result.output
    assert "1. produce: clean" in result.output


def test_a_counter_that_a_toml_sequence_leaves_behind_is_told(tmp_path: Path) -> None:
    file = tmp_path / "total.cu"
    file.write_text(TOTAL.replace("RESET", ""))
    launch = '{kernel = "total", grid = 4, block = 1, args = ["x", "part", "out"]}'
    arrays = '["x:f32[4]=ones", "part:f32[4]", "out:f32[1]"]'
    file.with_suffix(".toml").write_text(f"[[sequence]]\narrays = {arrays}\nlaunches = [{launch}, {launch}]\n")

    result = CliRunner().invoke(app, ["check", str(file)])

    assert result.exit_code == 1, result.output
    assert "it finds what the first has left in count" in result.output


LIBRARY = """
__global__ void norm(const float* x, const float* weight, float* out) {
    BEFORE
    out[threadIdx.x] = x[threadIdx.x] * weight[threadIdx.x];
}
void launch_norm(const float* x, const float* weight, float* out, cudaStream_t stream) {
    cudaLaunchConfig_t config = {};
    config.gridDim = 1;
    config.blockDim = 64;
    cudaLaunchAttribute attributes[1];
    attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[0].val.programmaticStreamSerializationAllowed = true;
    config.attrs = attributes;
    config.numAttrs = 1;
    cudaLaunchKernelEx(&config, norm, x, weight, out);
}
"""


@pytest.mark.parametrize(
    ("before", "code", "told"),
    [
        ("cudaGridDependencySynchronize();", 0, ": clean\n"),
        (
            "float w = weight[0]; cudaGridDependencySynchronize(); if (w < 0) return;",
            0,
            "reads element 0 of weight before",
        ),
        ("out[0] = 0; cudaGridDependencySynchronize();", 1, "writes element 0 of out before"),
        ("", 1, "reads element 0 of x before"),
    ],
)
def test_the_first_launch_with_the_attribute_is_one_behind_others(
    tmp_path: Path, before: str, code: int, told: str
) -> None:
    file = tmp_path / "norm.cu"
    file.write_text(LIBRARY.replace("BEFORE", before))
    arrays = [word for name in ("x", "weight", "out") for word in ("--arg", f"{name}:f32[64]=1")]

    found = CliRunner().invoke(app, ["check", str(file), "--no-both", *arrays])

    assert (found.exit_code, told in found.output) == (code, True), found.output
