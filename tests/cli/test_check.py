"""`tilewright check`: a kernel of a .cu or PTX file, on made arguments, with a verdict."""

from __future__ import annotations

import json
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import numpy as np
import pytest

from tilewright.cli import main
from tilewright.cli.checking import made_argument
from tilewright.errors import ArgumentError
from tilewright.verdict import SCHEMA, report_from

VADD = """
__global__ void vadd(const float* a, const float* b, float* c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < LIMIT) c[i] = a[i] + b[i];
}
"""
ARGS = ["--grid", "4", "--block", "32", "--arg", "a:f32[100]=random", "--arg", "b:f32[100]=ramp", "--arg", "c:f32[100]",
        "--arg", "n=100"]  # fmt: skip


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "vadd.cu"
    path.write_text(VADD)
    return path


def run(monkeypatch: pytest.MonkeyPatch, *args: object) -> tuple[int, str, str]:
    """The exit code, standard output, and standard error."""
    monkeypatch.setattr("sys.argv", ["tilewright", "check", *map(str, args)])
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as left:
        main()
    return int(left.value.code or 0), out.getvalue(), err.getvalue()


def test_a_clean_kernel_leaves_with_code_0(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, _ = run(monkeypatch, file, *ARGS, "-D", "LIMIT=n")

    assert (code, out.splitlines()[0]) == (0, "vadd: clean")


def test_a_mistake_is_told_at_its_line_with_code_1(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, _, err = run(monkeypatch, file, *ARGS, "-D", "LIMIT=n+1")

    assert code == 1
    assert "vadd.cu:4: load reads outside of b" in err


def test_programs_get_the_verdict_as_json(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, _ = run(monkeypatch, file, *ARGS, "-D", "LIMIT=n+1", "--json")

    report = report_from(json.loads(out))
    (verdict,) = report.verdicts
    (finding,) = verdict.findings
    assert json.loads(out)["schema"] == SCHEMA
    assert (code, report.status, verdict.kernel, verdict.target) == (1, "wrong", "vadd", "sm_90a")
    assert (finding.kind, finding.line, finding.buffer) == ("bounds", 4, "b")


def test_what_cannot_be_run_is_part_of_the_json(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, _ = run(monkeypatch, file, "--block", "32", "-D", "LIMIT=n", "--json")

    (verdict,) = report_from(json.loads(out)).verdicts
    assert (code, verdict.status, verdict.findings[0].kind) == (2, "refused", "argument")


def test_ptx_has_the_same_report_and_a_limit_stops_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "spin.ptx"
    path.write_text(".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry spin()\n"
                    "{ .reg .u64 t; L: mov.u64 t, %clock64; bra L; }\n")  # fmt: skip

    code, out, _ = run(monkeypatch, path, "--block", "32", "--limit", "100steps", "--json")

    report = report_from(json.loads(out))
    assert (code, report.status, report.verdicts[0].findings[0].kind) == (3, "stopped", "limit")


def test_a_toml_file_beside_it_says_what_is_run(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tomllib")
    args = [text for text in ARGS if ":" in text or "=" in text]
    file.with_suffix(".toml").write_text(f"[[check]]\ngrid = 4\nblock = 32\nargs = {json.dumps(args)}\n")

    code, out, _ = run(monkeypatch, file, "-D", "LIMIT=n")

    assert (code, out.splitlines()[0]) == (0, "vadd: clean")


def test_a_missing_argument_and_an_unknown_kernel_leave_with_code_2(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, _, err = run(monkeypatch, file, "--block", "32", "-D", "LIMIT=n")
    assert code == 2
    assert "try:     --arg a:f32[1024]=random" in err

    code, _, err = run(monkeypatch, file, "--kernel", "vad", *ARGS, "-D", "LIMIT=n")
    assert code == 2
    assert "did you mean 'vadd'" in err


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("x:f32[2,2]=ones", "x", np.ones((2, 2), np.float32)),
        ("x:i8[3]", "x", np.zeros(3, np.int8)),
        ("u16[4]=7", None, np.full(4, 7, np.uint16)),
        ("n=0x10", "n", 16),
        ("s:f32=-1.5", "s", -1.5),
        ("3", None, 3),
    ],
)
def test_arguments_are_read_as_they_are_written(text: str, name: str | None, value: object) -> None:
    found, made = made_argument(text, np.random.default_rng(0))

    assert found == name
    assert np.array_equal(made, value)  # type: ignore[arg-type]
    assert np.asarray(made).dtype == np.asarray(value).dtype


@pytest.mark.parametrize("text", ["x:f33[2]", "x:f32[2]=many", "x=word", "x=absent.npy"])
def test_what_is_no_argument_is_refused(text: str) -> None:
    with pytest.raises(ArgumentError):
        made_argument(text, np.random.default_rng(0))


@pytest.mark.parametrize("name", [".", "/", "", "no/such/folder/kernel"])
def test_what_is_no_file_is_refused_in_words(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    code, _, err = run(monkeypatch, name)

    assert code == 2
    assert "there is no file" in err
    assert "allowed: FILE.py, FILE.cu or FILE.ptx" in err


KERNELS = """
from tilewright import T


@T.prim_func
def scaled(x: T.handle):
    rows = T.int32()
    X = T.match_buffer(x, (rows, 32), "float32")
    row = T.cta_id([rows])
    lane = T.thread_id([32])
    X[row, lane] = X[row, lane] * 2.0


@T.prim_func
def plain(A: T.Buffer((32,), "float32")):
    T.cta_id([1])
    lane = T.thread_id([32])
    A[lane] = 1.0
"""


@pytest.mark.parametrize(
    ("sizes", "statuses"),
    [
        ([], {"scaled": "refused", "plain": "clean"}),
        (["--size", "rows=3"], {"scaled": "clean", "plain": "clean"}),
        (["--size", "colums=3"], {"scaled": "refused", "plain": "refused"}),
    ],
)
def test_each_kernel_of_a_file_has_a_verdict(
    sizes: list[str], statuses: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "kernels.py"
    path.write_text(KERNELS)

    _, out, _ = run(monkeypatch, path, "--json", *sizes)

    assert {each["kernel"]: each["status"] for each in json.loads(out)["verdicts"]} == statuses
