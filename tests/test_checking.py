"""A verdict has fields for the run and its findings, and a check always ends in one: no exception, no hang."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import tilewright as tw
from tests.texts import readable
from tests.wrong.test_mutated_kernels import NAMES, slips
from tilewright import T
from tilewright.checking import joined
from tilewright.errors import Span, TilewrightError, ToolError
from tilewright.ir import Kernel
from tilewright.trials import copies_of
from tilewright.verdict import EXIT_CODES, SCHEMA, Finding, Verdict, report_from, verdict_on


@T.prim_func
def doubled(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    T.cta_id([1])
    tid = T.thread_id([64])
    B[tid] = A[tid] * T.float32(2)


@T.prim_func
def racing(A: T.Buffer((64,), "float32")):
    T.cta_id([1])
    tid = T.thread_id([64])
    row = T.alloc_shared((64,), "float32")
    row[tid] = A[tid]
    A[tid] = row[63 - tid]


def test_a_kernel_that_is_right_is_clean_and_its_arguments_stay() -> None:
    a, b = np.ones(64, np.float32), np.zeros(64, np.float32)

    verdict = tw.check(doubled, a, b, expect={"B": 2 * a})

    verdict.assert_clean()
    assert not b.any()
    assert verdict.inputs == {"A": "float32 of shape (64,)", "B": "float32 of shape (64,)"}
    assert {"races", "bounds", "poison"} <= {*verdict.checks}
    assert not any(text.startswith("results") for text in verdict.not_covered)


def test_other_results_than_expected_are_a_finding() -> None:
    a = np.ones(64, np.float32)

    verdict = tw.check(doubled, a, np.zeros_like(a), expect={"B": 3 * a})

    assert verdict.status == "wrong"
    assert (verdict.findings[0].kind, verdict.findings[0].buffer) == ("results", "B")
    with pytest.raises(AssertionError, match="64 of 64 elements of B differ"):
        verdict.assert_clean()


def test_a_race_has_its_line_its_buffer_its_threads_and_a_hint() -> None:
    verdict = tw.check(racing)

    (found,) = verdict.findings
    assert (found.kind, found.buffer, verdict.status) == ("races", "row", "wrong")
    assert racing.at is not None
    assert found.line == racing.at.line + 5
    assert [each["cta"] for each in found.as_v1()["threads"]] == [(0, 0, 0), (0, 0, 0)]
    assert found.other is not None
    assert (found.other.did, found.other.line) == ("written", racing.at.line + 4)
    assert found.hint is not None
    assert "cta_sync" in found.hint


def test_a_limit_stops_and_says_so() -> None:
    @T.prim_func
    def spin(A: T.Buffer((32,), "int32")):
        T.cta_id([1])
        lane = T.lane_id([32])
        for i in range(2_000_000_000):
            A[lane] = i

    verdict = tw.check(spin, limit_steps=1000)

    assert (verdict.status, verdict.findings[0].kind) == ("stopped", "limit")


def test_what_is_no_kernel_is_a_verdict_too() -> None:
    assert tw.check(3).findings[0].kind == "kernel"
    assert tw.check(doubled, target="sm_1").status == "refused"
    missing = ToolError("NVRTC is not installed", hint="pip install")
    assert verdict_on("k.cu", missing).status == "refused", "nothing is known of the kernel"
    assert verdict_on("k.cu", ToolError("NVRTC refuses it", at=Span("k.cu", 3))).status == "refused"
    assert tw.check(doubled, np.zeros(3)).findings[0].kind == "argument"


DOUBLED = """
__global__ void doubled(const float* in, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = 2.0f * in[i];
}
"""


def test_a_kernel_that_others_wrote_has_the_same_call() -> None:
    kernel = tw.load_cu(DOUBLED)["doubled"]
    a = np.arange(60, dtype=np.float32)
    out = np.zeros_like(a)

    tw.check(kernel, a, out, 60, grid=2, block=32, expect={"out": 2 * a}).assert_clean()
    tw.check(kernel, a, out, n=60, grid=2, block=32).assert_clean()
    wrong = tw.check(kernel, a, out, 61, grid=2, block=32)

    assert not out.any()
    assert (wrong.kernel, wrong.status, wrong.findings[0].kind) == ("doubled", "wrong", "bounds")
    assert wrong.inputs == {"in": "float32 of shape (60,)", "out": "float32 of shape (60,)", "n": "61"}
    assert (wrong.findings[0].line, wrong.findings[0].buffer) == (4, "in")


@pytest.mark.parametrize(
    ("kernel", "named", "nearest"),
    [
        (lambda: doubled, {"expected": {}}, "expect"),
        (lambda: tw.load_cu(DOUBLED)["doubled"], {"gird": 3}, "grid"),
    ],
)
def test_a_setting_that_does_not_exist_gets_the_nearest(kernel: Any, named: dict[str, Any], nearest: str) -> None:
    (found,) = tw.check(kernel(), np.zeros(64, np.float32), np.zeros(64, np.float32), **named).findings

    assert f"has no parameter {next(iter(named))!r}" in found.message
    assert found.allowed is not None
    assert found.allowed.endswith(f"(did you mean {nearest!r}?)")


FILE = """import tilewright as tw
from tilewright import T
print("a file may print")

@T.prim_func
def kernel(A: T.Buffer((64,), "float32")):
    T.cta_id([1])
    tid = T.thread_id([64])
    row = T.alloc_shared((64,), "float32")
    row[tid] = A[tid]
    {barrier}
    A[tid] = row[63 - tid]
"""
HANGING = "while True: pass\n"


def test_the_command_prints_a_report_and_leaves_with_its_code(tmp_path: Path) -> None:
    path, status = tmp_path / "submission.py", "wrong"
    path.write_text(FILE.format(barrier="pass"), encoding="utf-8")

    done = subprocess.run([sys.executable, "-m", "tilewright", "check", str(path), "--json"], capture_output=True)

    report: dict[str, Any] = json.loads(done.stdout)
    assert (report["schema"], report["status"], done.returncode) == (SCHEMA, status, EXIT_CODES[status])
    assert report_from(report).status == status


def test_a_barrier_that_lanes_miss_is_a_divergence() -> None:
    text = "__global__ void k(int* out) { if (threadIdx.x % 2) __syncthreads(); out[threadIdx.x] = 1; }\n"
    kernel = tw.load_cu(text)["k"]

    assert tw.check(kernel, np.zeros(32, np.int32), block=32).findings[0].kind == "divergence"


def test_an_exception_that_cannot_say_what_it_is_has_a_verdict(tmp_path: Path) -> None:
    from tilewright.cli.kernels import kernels_of
    from tilewright.errors import KernelError

    path = tmp_path / "odd.py"
    path.write_text("class E(Exception):\n    def __str__(self): raise self\nraise E\n", encoding="utf-8")

    with pytest.raises(KernelError, match=r"odd.py:3: E"):
        kernels_of(path)


@pytest.mark.parametrize(
    "text",
    [
        "import os, time\nif os.fork() == 0:\n    time.sleep(1000)\n",
        "import threading, time\nthreading.Thread(target=time.sleep, args=(1000,)).start()\n",
        "import atexit, time\natexit.register(time.sleep, 1000)\n",
    ],
)
def test_what_a_file_leaves_running_holds_nobody_up(text: str, tmp_path: Path) -> None:
    from tilewright.cli import verdicts

    path = tmp_path / "leaving.py"
    path.write_text(text, encoding="utf-8")

    report = verdicts.judged_apart(str(path), [], ["60s"])

    assert (report.status, report.verdicts[0].findings[0].kind) == ("refused", "argument")


def test_a_process_has_the_seconds_of_the_limit_and_those_to_start_in(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []

    def process(_: list[str], seconds: float, into: Path) -> tuple[None, tuple[str, ...]]:
        waited.append(seconds)
        return None, ()

    from tilewright.cli import verdicts

    monkeypatch.setattr(verdicts, "_process", process)
    verdicts.judged_apart("file.py", [], ["2.5s"])

    assert waited == [2.5 + verdicts.START_SECONDS]


def test_a_file_that_hangs_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tilewright.cli import verdicts

    path = tmp_path / "hanging.py"
    path.write_text(HANGING, encoding="utf-8")
    monkeypatch.setattr(verdicts, "START_SECONDS", 0.5)

    report = verdicts.judged_apart(str(path), [], ["0.5s"])

    assert (report.status, report.exit_code) == ("stopped", 3)


def judge(text: str) -> None:
    """A mutated submission gets a verdict; only what Python itself refuses gets none."""
    file = "<submission>"
    try:
        code = compile(text, file, "exec")
    except (SyntaxError, ValueError):
        return
    readable(text, file)
    names = dict(NAMES)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            exec(code, names)
        except TilewrightError:
            return  # told where the kernel is parsed; tests/wrong looks at those
        except Exception as error:
            last = error.__traceback__
            while last is not None and last.tb_next is not None:
                last = last.tb_next
            if last is None or last.tb_frame.f_code.co_filename != file:
                raise
            return
        kernel = names["kernel"]
        verdict = tw.check(kernel, sizes={"n": 3}, limit_steps=20_000, limit_s=5, limit_bytes=1 << 28)
        if isinstance(kernel, Kernel) and "n" not in {symbol.name for symbol in kernel.symbols}:
            verdict = tw.check(kernel, limit_steps=20_000, limit_s=5, limit_bytes=1 << 28)
    assert verdict.status in EXIT_CODES
    json.dumps({"findings": [str(each) for each in verdict.findings]})


@settings(max_examples=60, deadline=None)
@given(slips())
def test_a_mutated_submission_gets_a_verdict(text: str) -> None:
    judge(text)


@pytest.mark.long
@settings(max_examples=10_000, deadline=None)
@given(slips())
def test_ten_thousand_mutated_submissions_get_a_verdict(text: str) -> None:
    judge(text)


ACROSS = """
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
struct Rows { float* first; int n; };
__device__ float global[4];
__global__ void store(float* x) { x[0] = blockIdx.x; }
__global__ void same(float* x) { if (threadIdx.x == 0) x[0] = 1; }
__global__ void field(Rows rows) { rows.first[0] = blockIdx.x; }
__global__ void variable(int n) { global[0] = blockIdx.x; }
__global__ void added(float* x) { if (blockIdx.x == 0) x[0] = 3; else atomicAdd(x, 1); }
__global__ void far(float* x, float* y) {
    if (blockIdx.x == 0) x[0] = 1;
    if (blockIdx.x == gridDim.x - 1) y[0] = x[0];
}
__global__ void __cluster_dims__(2, 1, 1) peers(float* x) {
    __shared__ float row[64];
    row[threadIdx.x] = 1;
    cg::this_cluster().sync();
    x[blockIdx.x * 64 + threadIdx.x] = cg::this_cluster().map_shared_rank(row, blockIdx.x ^ 1)[threadIdx.x];
}
"""
ACROSS_CASES = {
    "store": "x",
    "same": "x",
    "field": "rows.first",
    "variable": "global",
    "added": "x",
    "far": "x",
    "peers": "row",
}


@pytest.mark.parametrize("name", ACROSS_CASES)
def test_a_finding_about_several_ctas_has_its_buffer_and_their_threads(name: str) -> None:
    ctas = 9000 if name == "far" else 2  # of 9000 not all run at once
    x = np.zeros(64 * ctas, np.float32)
    args = {"field": ({"first": x, "n": 1},), "variable": (1,), "far": (x, x.copy())}.get(name, (x,))

    finding = tw.check(tw.load_cu(ACROSS)[name], *args, grid=ctas, block=64, strict="all").findings[0]

    assert finding.buffer == ACROSS_CASES[name]
    assert finding.threads[0].warps is not None
    if name != "peers":  # which touches what may be gone: no second access takes part
        assert finding.other is not None
        assert {one.cta for one in finding.threads}.isdisjoint(one.cta for one in finding.other.threads)


@T.prim_func
def crowded(A: T.Buffer((64,), "float32")):
    T.cta_id([2])
    A[T.thread_id([64])] = T.float32(1)


def test_a_warning_about_several_ctas_has_its_buffer_and_their_threads() -> None:
    finding = tw.check(crowded).findings[0]

    assert (finding.severity, finding.buffer) == ("warning", "A")
    assert finding.other is not None
    assert {finding.threads[0].cta, finding.other.threads[0].cta} == {(1, 0, 0), (0, 0, 0)}


def test_a_verdict_that_is_clean_but_for_warnings_says_so() -> None:
    assert str(tw.check(crowded)).startswith("crowded: clean but for 1 warning\n")
    assert str(tw.check(doubled)) == "doubled: clean"


def test_copies_of_arrays_that_overlap_do() -> None:
    whole = np.arange(24, dtype=np.float32)
    part, turned, alone = whole[4:12], whole.reshape(4, 6).T[1:], np.arange(3)

    made = copies_of({"a": whole, "b": (part, 7), "c": turned, "d": alone})
    made["a"][8] = 100

    assert not np.shares_memory(made["a"], whole)
    assert not np.shares_memory(made["d"], alone)
    assert made["b"][0][4] == made["c"][1, 1] == 100
    assert (whole[8], made["b"][1], made["d"].tolist()) == (8, 7, [0, 1, 2])


def test_a_race_between_arguments_that_overlap_is_told() -> None:
    text = "__global__ void k(const float* in, float* out) { out[threadIdx.x] = in[63 - threadIdx.x]; }\n"
    x = np.zeros(64, np.float32)

    verdict = tw.check(tw.load_cu(text)["k"], x, x, grid=1, block=64, both=False)

    assert [finding.severity for finding in verdict.findings][:1] == ["error"]
    assert tw.check(tw.load_cu(text)["k"], x, x.copy(), grid=1, block=64, both=False).status == "clean"


def test_one_mistake_that_two_builds_call_by_other_names_is_one_finding() -> None:
    race = Finding("races", "race: load reads s", "error", "k.cu", 5, buffer="s")
    unset = Finding("poison", "s[3] is uninitialised", "error", "k.cu", 5, buffer="s")
    elsewhere = Finding("poison", "t[3] is uninitialised", "error", "k.cu", 5, buffer="t")

    merged = joined(Verdict("k", "wrong", findings=(race,)), Verdict("k", "wrong", findings=(unset, elsewhere)))

    assert [(finding.message, finding.builds) for finding in merged.findings] == [
        ("race: load reads s", ("optimised", "unoptimised")),
        ("t[3] is uninitialised", ("unoptimised",)),
    ]
