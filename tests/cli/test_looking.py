"""`tilewright look` writes the page of a run, `tilewright needed` says which lines a kernel needs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.commands import ran

ROOT = Path(__file__).parents[2]
RING = ROOT / "examples" / "ring.py"
SUMS = """
__global__ void sums(const float* x, float* y, int n) {
  __shared__ float s[64];
  int t = threadIdx.x;
  s[t] = t < n ? x[t] : 0.f;
  __syncthreads();
  if (t == 0) { float a = 0.f; for (int i = 0; i < 64; ++i) a += s[i]; y[0] = a; }
  __syncthreads();
}
"""
ARGS = ["--grid", "1", "--block", "64", "--arg", "x:f32[50]=ones", "--arg", "y:f32[1]", "--arg", "n=50"]


def test_look_writes_a_page_and_a_trace(tmp_path: Path) -> None:
    page, trace = tmp_path / "run.html", tmp_path / "trace.json"
    code, out, _ = ran("look", RING, "-o", page, "--trace", trace, "--needed")

    assert code == 0
    assert "loads" in out
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    said = json.loads(trace.read_text())["otherData"]
    assert (said["schema"], said["kernel"]) == ("tilewright.trace/1", "ring")


def test_a_run_that_a_finding_ends_is_shown_up_to_there(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.py"
    wrong.write_text(RING.read_text(encoding="utf-8").replace("    T.cuda.cta_sync()\n", ""), encoding="utf-8")
    code, _, err = ran("look", wrong, "-o", tmp_path / "run.html")

    assert code == 1
    assert "may not have been initialised" in err
    assert (tmp_path / "run.html").exists()


def test_files_of_cuda_are_looked_at_too(tmp_path: Path) -> None:
    file = tmp_path / "sums.cu"
    file.write_text(SUMS)
    code, out, _ = ran("look", file, *ARGS, "-o", tmp_path / "run.html")
    assert (code, "barrier 0" in out) == (0, True)

    file.write_text(SUMS.replace("__syncthreads();", ""))
    code, out, _ = ran("look", file, *ARGS, "-o", tmp_path / "wrong.html")
    assert (code, out.split(":")[0]) == (1, "<Recording of sums")  # not the mangled name

    file.write_text(SUMS)
    code, out, _ = ran("needed", file, *ARGS, "--json")
    assert code == 0
    assert [(row["line"], row["needed"]) for row in json.loads(out)] == [(6, True), (8, False)]


@pytest.mark.parametrize("command", ["look", "needed"])
def test_options_of_the_other_kind_of_file_are_refused(tmp_path: Path, command: str) -> None:
    code, _, err = ran(command, RING, "--grid", "4")
    assert code != 0
    assert "is Python, where a kernel has its launch itself" in err
    assert "--grid" in err

    (tmp_path / "sums.cu").write_text(SUMS)
    code, _, err = ran(command, tmp_path / "sums.cu", *ARGS, "--size", "m=4")
    assert code != 0
    assert "is not Python" in err
    assert "--size" in err


def test_a_page_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    code, _, err = ran("look", RING, "-o", tmp_path / "none" / "run.html")
    assert code != 0
    assert "no file can be written there: no such file or directory" in err


def test_needed_prints_each_line_and_what_follows() -> None:
    code, out, _ = ran("needed", RING)

    assert code == 0
    assert "ring.py:26: T.ptx.fence.mbarrier_init()\n  redundant: nothing is found without it" in out
    assert out.splitlines()[-1] == "5 lines order something, 1 of them redundant for these arguments"


def test_needed_tells_of_one_line_in_the_singular(tmp_path: Path) -> None:
    (tmp_path / "sums.cu").write_text(SUMS.replace("  __syncthreads();\n}", "}"))
    (tmp_path / "none.cu").write_text("__global__ void sums(const float* x, float* y, int n) { y[0] = x[0]; }\n")

    _, out, _ = ran("needed", tmp_path / "sums.cu", *ARGS)
    _, alone, _ = ran("needed", tmp_path / "none.cu", *ARGS)

    assert out.splitlines()[-1] == "1 line orders something, and is needed for these arguments"
    assert alone.strip() == "no barrier, wait or fence is in it"
