"""Submissions to problems of competitions: right ones, wrong ones, and ones that cheat."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.examples.compute import EXAMPLES
from tilewright.errors import ArgumentError
from tilewright.serve.contest import Allowance, contest, function_of, packed, problem_of, unpacked
from tilewright.verdict import Report

ROW_SUMS = EXAMPLES / "problems" / "row_sums"
TASK = 'tests:\n  - {"rows": 4, "columns": 40, "seed": 7}\nfiles:\n  - {"name": "task.py", "source": "task.py"}\n'
CUDA = """
__global__ void sums(const float* a, float* b, int n) {
  float s = 0;
  for (int k = 0; k < n; ++k) s += a[blockIdx.x * n + k];
  if (threadIdx.x == 0) b[blockIdx.x] = s;
}
"""
BY_LOAD_CU = f"""
import tilewright as tw
module = tw.load_cu('''{CUDA}''')
def custom_kernel(data):
    module["sums"].simulate(data[0], data[1], data[0].shape[1], grid=data[0].shape[0], block=32)
    return data[1]
"""
BY_LOAD_INLINE = f"""
from tilewright.serve.contest import load_inline
CUDA = ['#include <torch/extension.h>', '''{CUDA}''']
module = load_inline("rows", "", CUDA, functions=["row_sums"], extra_cuda_cflags=["-O3"])
def custom_kernel(data):
    module.sums(data[0], data[1], data[0].shape[1], grid=data[0].shape[0], block=32)
    return data[1]
"""


BY_TRITON = """
import triton
import triton.language as tl

@triton.jit
def sums(a, b, n, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    tl.store(b + row, tl.sum(tl.load(a + row * n + at, mask=at < n, other=0.0)))

def custom_kernel(data):
    sums[(data[0].shape[0],)](data[0], data[1], data[0].shape[1], BLOCK=64)
    return data[1]
"""


def judged(tmp_path: Path, submission: str, seconds: float = 30.0) -> Report:
    """The report on a submission to the problem of row sums, one test."""
    for name in ("task.py", "reference.py"):
        (tmp_path / name).write_text((ROW_SUMS / name).read_text())
    (tmp_path / "task.yml").write_text(TASK)
    (tmp_path / "submission.py").write_text(submission)
    return contest(problem_of(tmp_path), bounds=Allowance(seconds, 8 << 30))


def test_the_example_is_right_at_every_size() -> None:
    report = contest(problem_of(ROW_SUMS), bounds=Allowance(30.0, 8 << 30))

    assert report.status == "clean"
    assert report.verdicts[0].kernel == "rows=8, columns=64, seed=4242"
    assert all("races" in each.checks for each in report.verdicts)


@pytest.mark.parametrize("submission", [BY_LOAD_CU, BY_LOAD_INLINE], ids=["load_cu", "load_inline"])
def test_kernels_in_cuda_are_run(submission: str, tmp_path: Path) -> None:
    (verdict,) = judged(tmp_path, submission).verdicts

    assert verdict.status == "clean"
    assert verdict.checks


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
@pytest.mark.parametrize(
    ("source", "status"), [(BY_TRITON, "clean"), (BY_TRITON.replace("at < n", "at <= n"), "wrong")]
)
def test_kernels_of_triton_are_run_behind_walls(source: str, status: str, tmp_path: Path) -> None:
    (verdict,) = judged(tmp_path, source).verdicts
    assert verdict.status == status, verdict
    assert verdict.checks


def test_what_python_computes_is_right_but_no_kernel(tmp_path: Path) -> None:
    (verdict,) = judged(tmp_path, "def custom_kernel(data):\n    return data[0].sum(axis=1)\n").verdicts

    assert verdict.status == "clean"
    assert verdict.not_covered == ("kernels: the submission launched none; its results are what Python computed",)


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ("return data[0].sum(axis=1) + 1", "wrong", "4 of 4 sums differ"),
        ("return data[0]", "wrong", r"the shape is \(4, 40\), not \(4,\)"),
        ("return data.rows", "wrong", "submission.py:2: AttributeError: 'tuple' object has no attribute 'rows'"),
        ("return object()", "wrong", "a result of custom_kernel"),
        ("open('x', 'w')", "wrong", "PermissionError"),
        ("import os; os._exit(0)", "refused", "no result: the process wrote something else"),
        ("while True: pass", "stopped", "it took longer than 1 s"),
        (
            "from tilewright.compiler import Executable as E; E.simulate = print; return data[1]",
            "refused",
            "it replaces parts of what judges it",
        ),
        (
            "import reference; reference.check_implementation = lambda *_: ''; return data[1] * 0 - 9",
            "wrong",
            "4 of 4 sums differ",
        ),
    ],
)
def test_a_wrong_submission_is_told(body: str, status: str, said: str, tmp_path: Path) -> None:
    seconds = 1.0 if status == "stopped" else 30.0

    report = judged(tmp_path, f"def custom_kernel(data):\n    {body}\n", seconds)

    assert report.status == status
    with pytest.raises(AssertionError, match=said):
        report.verdicts[0].assert_clean()


def test_a_kernel_with_a_race_is_told_at_its_line(tmp_path: Path) -> None:
    racing = BY_LOAD_INLINE.replace("if (threadIdx.x == 0) b[", "b[").replace("s += a", "s += threadIdx.x + a")

    report = judged(tmp_path, racing)

    assert report.status == "wrong"
    assert report.verdicts[0].findings[0].kind == "races"


def test_a_function_of_the_host_is_not_compiled(tmp_path: Path) -> None:
    (verdict,) = judged(tmp_path, BY_LOAD_INLINE.replace("module.sums(", "module.row_sums(")).verdicts

    assert verdict.findings[0].message == "rows.row_sums is a function of the host, which nothing here compiles"


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({}, r"no .*task\.yml"),
        ({"task.yml": "tests: 7", "submission.py": ""}, "tests"),
        ({"task.yml": "- 1", "submission.py": ""}, "has no fields"),
        ({"task.yml": "{", "submission.py": ""}, "is no YAML"),
        ({"task.yml": "tests:\n  - {n: 1, m 2}\n  - {", "submission.py": ""}, r"line 3, column [0-9]+: .*"),
        ({"task.yml": "lang: py", "submission.py": ""}, "has no tests"),
        ({"task.yml": "tests: [{n: 1}]", "reference.py": ""}, "there is no submission"),
        ({"task.yml": "tests: [{n: 1}]", "submission.py": ""}, r"no .*reference\.py"),
        (
            {
                "task.yml": "tests: [{n: 1}]\nfiles: [{name: task.py, source: no.py}]",
                "submission.py": "",
                "reference.py": "",
            },
            r"no .*no\.py",
        ),
    ],
)
def test_a_folder_that_is_no_problem_is_refused(files: dict[str, str], said: str, tmp_path: Path) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)

    with pytest.raises(ArgumentError, match=said):
        problem_of(tmp_path)


def test_groups_and_submissions_that_are_not_there_are_told(tmp_path: Path) -> None:
    for name, text in {"task.yml": "tests: [{n: 1}]", "submission.py": "", "reference.py": ""}.items():
        (tmp_path / name).write_text(text)

    with pytest.raises(ArgumentError, match="has no benchmarks"):
        problem_of(tmp_path, None, "benchmarks")
    with pytest.raises(ArgumentError, match="there is no submission") as error:
        problem_of(tmp_path, tmp_path / "mine.py")
    assert "mine.py" in str(error.value.given)
    with pytest.raises(ArgumentError, match=r"submission\.py defines no custom_kernel"):
        function_of(problem_of(tmp_path), tmp_path / "submission.py", "custom_kernel")


def test_results_are_handed_over_as_numbers_and_names() -> None:
    value: Any = (np.arange(6, dtype=np.float16).reshape(2, 3), [1, 2.5, None, "x"], {"a": np.zeros((0, 2), np.int8)})

    again = unpacked(packed(value))

    assert isinstance(again, tuple)
    assert np.array_equal(again[0], value[0])
    assert again[0].dtype == np.float16
    assert again[1] == value[1]
    assert again[2]["a"].shape == (0, 2)


REFERENCE_IN_TORCH = """
import torch
def generate_input(n, seed):
    made = torch.Generator(device="cuda")
    made.manual_seed(seed)
    a = torch.randn(n, n, device="cuda", dtype=torch.float32, generator=made).contiguous()
    return a, torch.empty(n, device="cuda")
def check_implementation(data, output, generator: torch.Generator | None = None):
    torch.use_deterministic_algorithms(True)
    assert output.device.type == "cpu"
    good = torch.allclose(output.float(), data[0].sum(dim=1).cuda(), atol=1e-3)
    return good, "" if good else "sums differ"
"""


def test_tensors_for_a_gpu_are_those_of_the_host(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "task.yml").write_text('tests:\n  - {"n": 64, "seed": 3}\n')
    (tmp_path / "reference.py").write_text(REFERENCE_IN_TORCH)
    (tmp_path / "submission.py").write_text("""
from torch.utils.cpp_extension import load_inline
assert load_inline.__module__ == "tilewright.serve.contest"
def custom_kernel(data):
    assert data[0].is_cuda
    return data[0].to("cuda").sum(dim=1)
""")

    report = contest(problem_of(tmp_path), bounds=Allowance(60.0, 64 << 30))

    assert report.status == "clean", str(report)
