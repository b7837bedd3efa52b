"""`tilewright tune` and `tilewright check --profile`: what they print, and what they refuse."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.commands import ran
from tilewright.cli.judging import more_stages
from tilewright.cli.kernels import neighbours
from tilewright.tuning import Trial

KERNEL = """
import tilewright as tw
from tilewright import T


@T.jit
def scaled(a: T.handle, b: T.handle, *, THREADS: T.constexpr):
    n = T.int32()
    A, B = T.match_buffer(a, (n,), "float32"), T.match_buffer(b, (n,), "float32")
    T.assume(n % THREADS == 0)
    i: T.let = T.cta_id([n // THREADS]) * THREADS + T.thread_id([THREADS])
    B[i] = A[i] * 2.0


tuned = tw.autotune(scaled, configs=[{"THREADS": 64}, {"THREADS": 256}])
"""
CUDA = """
__global__ void scale(const float* a, float* b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) b[i] = a[i] * 2.0f;
}
"""


def run(*words: str) -> str:
    """All that a command says, the exit code first."""
    code, out, err = ran(*words)
    return f"{code}\n{out}{err}"


PLAIN = """
from tilewright import T


@T.prim_func
def once(A: T.Buffer((32,), "float32")):
    T.cta_id([1])
    A[T.thread_id([32])] = 1.0
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "kernels.py"
    path.write_text(KERNEL)
    return path


def test_what_an_error_says_to_try_is_an_option_of_the_command(file: Path) -> None:
    words = run("tune", f"{file}:tuned")
    option, size = words.partition("try:")[2].split()

    assert run("tune", f"{file}:tuned", option, size).startswith("0")


def test_tune_ranks_what_is_tried_and_what_autotune_has(file: Path) -> None:
    tried = run("tune", f"{file}:scaled", "--shape", "n=65536", "--try", "THREADS=32,128")
    own = run("tune", f"{file}:tuned", "--shape", "n=65536", "--gpu", "A100", "--json")

    assert tried.startswith("0\nscaled on H200, estimated, not measured: 2 configurations\n   1  THREADS=")
    rows = json.loads(own.partition("\n")[2])
    assert rows["gpu"] == "A100"
    assert {row["config"]["THREADS"] for row in rows["trials"]} == {64, 256}
    assert all(row["seconds"] > 0 and row["why"] for row in rows["trials"])


def test_tune_says_what_is_missing(file: Path) -> None:
    assert "there is nothing to try" in run("tune", f"{file}:scaled", "--shape", "n=64")
    plain = file.with_name("plain.py")
    plain.write_text(PLAIN)
    for place in (plain, f"{plain}:once"):
        assert "once has no constants, so there is nothing to tune" in run("tune", str(place))
    assert "has no kernel 'other' with constants" in run("tune", f"{file}:other")
    assert "tries nothing" in run("tune", f"{file}:scaled", "--try", "THREADS")


def test_check_tells_the_times_of_a_kernel_in_cuda(tmp_path: Path) -> None:
    (tmp_path / "scale.cu").write_text(CUDA)
    said = run("check", str(tmp_path / "scale.cu"), "--grid", "64", "--block", "256", "--arg",
               "a:f32[16384]=random", "--arg", "b:f32[16384]", "--arg", "n=16384", "--profile", "H200")  # fmt: skip

    assert said.startswith("0\nscale: clean")
    assert "scale on H200: at least" in said
    assert "scale on H200: about" in said


def test_check_prints_the_counts_of_a_run_once_with_and_without_its_times(tmp_path: Path) -> None:
    (tmp_path / "scale.cu").write_text(CUDA)
    args = ("check", str(tmp_path / "scale.cu"), "--grid", "64", "--block", "256", "--arg", "a:f32[16384]=random",
            "--arg", "b:f32[16384]", "--arg", "n=16384")  # fmt: skip

    for said in (run(*args), run(*args, "--profile", "H200")):
        assert (said.count("instruction "), said.count("bytes read")) == (1, 1)


def test_tune_names_what_was_asked_for_and_takes_a_constant_once(tmp_path: Path) -> None:
    (tmp_path / "kernels.py").write_text(KERNEL)

    assert run("tune", f"{tmp_path / 'kernels.py'}:tuned", "--shape", "n=1024").startswith("0\nscaled on H200")
    twice = run(
        "tune", f"{tmp_path / 'kernels.py'}:scaled", "--shape", "n=1024", "--try", "THREADS=64", "--try", "THREADS=32"
    )
    assert twice.startswith("2\n")
    assert "--try THREADS is given twice" in twice


def test_check_has_the_times_of_a_kernel_in_json(tmp_path: Path) -> None:
    (tmp_path / "scale.cu").write_text(CUDA)
    args = "check", str(tmp_path / "scale.cu"), "--grid", "64", "--block", "256", "--arg", "a:f32[16384]=random"
    said = run(*args, "--arg", "b:f32[16384]", "--arg", "n=16384", "--profile", "H200", "--json")

    (verdict,) = json.loads(said.partition("\n")[2])["verdicts"]
    times = verdict["times"]
    assert (times["gpu"], times["figures"], times["bound_by"] != "") == ("H200", "measured", True)
    assert 0 < times["least_s"] < times["about_s"] < 1e-3
    assert "waits for" in times["why"] or "bound by" in times["why"]


def test_sizes_are_named_with_commas_or_one_by_one_but_once(tmp_path: Path) -> None:
    (tmp_path / "fills.py").write_text(FILLS)
    place = str(tmp_path / "fills.py")

    both = run("advise", place, "--size", "m=2,n=64")
    assert both.startswith("0\n")
    assert both == run("advise", place, "--size", "m=2", "--size", "n=64")
    twice = run("advise", place, "--size", "m=2,n=64", "--size", "m=3")
    assert twice.startswith("2\n")
    assert "m is given twice" in twice


FILLS = """
from tilewright import T


@T.prim_func
def fill(a: T.handle):
    m, n = T.int32(), T.int32()
    A = T.match_buffer(a, (m, n), "float32")
    row, t = T.cta_id([m]), T.thread_id([32])
    for k in range(t, n, 32):
        A[row, k] = 1.0
"""

JIT = """
from tilewright import T


@T.jit
def ring(A: T.Buffer((64,), "float32"), *, STAGES: T.constexpr = 3, TILE: T.constexpr = 64, NAME: T.constexpr = "x"):
    T.cta_id([1])
    lane = T.lane_id([32])
    A[lane % TILE] = 1.0 * STAGES
"""


def test_neighbours_of_a_jit_kernel_have_one_constant_otherwise(tmp_path: Path) -> None:
    (tmp_path / "rings.py").write_text(JIT, encoding="utf-8")

    found = neighbours(str(tmp_path / "rings.py"), ["TILE=32"])

    assert list(found) == ["STAGES=4", "STAGES=2", "TILE=64", "TILE=16"]
    assert neighbours("examples/conflicts.py:interleaved", []) == {}


ASYNC = """
from tilewright import T, Tx


@T.jit
def moved(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32"), *, THREADS: T.constexpr):
    T.cta_id([1])
    T.thread_id([THREADS])
    tile = T.alloc_shared((64,), "float32")
    Tx.cta.copy_async(tile, A[:])
    T.ptx.cp_async.commit_group()
    T.ptx.cp_async.wait_group(0)
    T.cuda.cta_sync()
    Tx.cta.copy(B[:], tile)
"""


@pytest.mark.parametrize(("gpu", "words"), [("T4", "sm_80 and later"), ("a100", "no figure of A100 is measured")])
def test_a_kernel_is_tuned_for_the_architecture_of_the_gpu_that_is_named(tmp_path: Path, gpu: str, words: str) -> None:
    path = tmp_path / "moved.py"
    path.write_text(ASYNC)

    assert words in run("tune", f"{path}:moved", "--gpu", gpu, "--try", "THREADS=16")


@pytest.mark.parametrize(
    ("waits_for", "other", "told"),
    [
        ("a copy", Trial({"STAGES": 3}, estimated=1e-6), "STAGES=3 would fit, and take 50% less"),
        ("a copy", Trial({"STAGES": 3}, refused="too much shared memory"), "STAGES=3 does not fit"),
        ("a copy", Trial({"STAGES": 4}, estimated=1e-6), ""),
        ("", Trial({"STAGES": 3}, estimated=1e-6), ""),
    ],
)
def test_one_more_stage_is_told_of_where_threads_wait_whatever_the_sentence_says(
    waits_for: str, other: Trial, told: str
) -> None:
    trial = Trial({"STAGES": 2}, estimated=2e-6, why="in other words", waits_for=waits_for)

    assert more_stages(trial, [trial, other]) == told
