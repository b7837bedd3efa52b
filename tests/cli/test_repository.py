"""`tilewright ci`: the kernels of files and folders."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tilewright.cli import main

KERNEL = """
import tilewright as tw
from tilewright import T


@T.prim_func
def reverse(A: T.Buffer((64,), "float32")):
    T.cta_id([1])
    tid = T.thread_id([64])
    row = T.alloc_shared((64,), "float32")
    row[tid] = A[tid]
    T.cuda.cta_sync()
    A[tid] = row[63 - tid]
"""


def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], *args: object) -> tuple[int, str, str]:
    monkeypatch.setattr("sys.argv", ["tilewright", "ci", *map(str, args)])
    with pytest.raises(SystemExit) as left:
        main()
    return int(left.value.code or 0), *capfd.readouterr()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "right.py").write_text(KERNEL)
    (tmp_path / "wrong.py").write_text(KERNEL.replace("    T.cuda.cta_sync()\n", ""))
    (tmp_path / "other.py").write_text("raise SystemExit('nobody runs this')\n")
    (tmp_path / "no_launch.ptx").write_text(".version 8.0\n")
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "wrong.py").write_text("import tilewright  # prim_func\n1 / 0\n")
    return tmp_path


def test_a_folder_is_as_wrong_as_its_worst_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    code, out, err = run(monkeypatch, capfd, ".", "--sarif", "found.sarif")
    assert code == 1
    assert "right.py: reverse: clean" in out
    assert "wrong.py: reverse: wrong" in out
    assert out.endswith("2 files, 2 kernels\n")
    assert "other.py: left out, it has no kernel of tilewright" in err
    assert "no_launch.ptx: left out, nothing says how to launch it" in err
    (result,) = json.loads((folder / "found.sarif").read_text())["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"] == {"uri": "wrong.py"}


def test_named_files_that_are_right_leave_with_code_0(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(monkeypatch, capfd, folder / "right.py")
    assert code == 0
    assert out.endswith("\n1 file, 1 kernel\n")


def test_a_file_without_a_kernel_is_named_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "broken.py").write_text("import tilewright  # prim_func\n1 / 0\n")
    monkeypatch.chdir(tmp_path)
    assert run(monkeypatch, capfd, "broken.py")[1].startswith("broken.py: refused\n")


def test_a_path_that_is_not_there_is_refused_and_not_passed_over(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(monkeypatch, capfd, folder / "right.py", folder / "kernals")
    assert (code, out) == (2, "")
    assert err.startswith(f"nothing is there to check\n  given:   {folder / 'kernals'}\n")


def test_strict_makes_an_error_of_a_kernel_that_nobody_can_run_and_of_nothing_else(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, capfd, "--strict", folder / "other.py", folder / "right.py")[0] == 0
    assert run(monkeypatch, capfd, "--strict", folder / "no_launch.ptx")[0] == 2
    assert run(monkeypatch, capfd, folder / "no_launch.ptx")[0] == 0


def test_a_mistake_in_a_toml_file_is_refused_and_not_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "one.cu").write_text("__global__ void one(int* out) { *out = 1; }\n")
    (tmp_path / "one.toml").write_text('[[check]]\nkernel = "one"\nblok = 1\nargs = ["out:i32[1]"]\n')
    code, out, err = run(monkeypatch, capfd, tmp_path)
    assert code == 2
    assert "unknown key blok" in out + err


def test_a_file_that_does_not_compile_is_no_file_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "broken.py").write_text(KERNEL.replace("row[63 - tid]", "rows[63 - tid]"))
    monkeypatch.chdir(tmp_path)
    code, out, err = run(monkeypatch, capfd, ".")
    assert code == 2
    assert "rows is not defined" in out
    assert "left out" not in err
