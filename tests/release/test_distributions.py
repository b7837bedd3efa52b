"""The wheel and the source distribution: what is in them, and that the wheel works where nothing else is installed."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import venv
import zipfile
from email import message_from_bytes
from importlib.metadata import distribution, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import tilewright
from tools.size import ROOT

PTX = """\
.version 8.0
.target sm_80
.address_size 64
.visible .entry twice(.param .u64 data)
{
.reg .u64 place; .reg .u32 lane, value;
ld.param.u64 place, [data];
mov.u32 lane, %tid.x;
mad.wide.u32 place, lane, 4, place;
ld.global.u32 value, [place];
add.u32 value, value, value;
st.global.u32 [place], value;
ret;
}
"""
KERNEL = """\
import numpy as np
import tilewright as tw
from tilewright import T

@tw.T.prim_func
def twice(A: T.Buffer((32,), "int32")):
    T.cta_id([1])
    lane = T.lane_id([32])
    A[lane] = A[lane] * 2

a = np.arange(32, dtype=np.int32)
tw.simulate(twice, a, check="all")
assert (a == 2 * np.arange(32)).all()
print(tw.compile(twice, "sm_90a").source("cuda").count("__global__"))
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with both distributions, built without a network."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", folder], cwd=ROOT, check=True, capture_output=True
    )
    return folder


def test_the_wheel_has_the_package_its_types_and_its_licence_and_no_tests(built: Path) -> None:
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        names = wheel.namelist()
        about = message_from_bytes(wheel.read(next(name for name in names if name.endswith("/METADATA"))))

    assert about["Version"] == tilewright.__version__
    assert {"tilewright/py.typed", "tilewright/lang/t.pyi", "tilewright/lang/tx.pyi"} <= set(names)
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"tilewright"}


def test_the_source_distribution_holds_the_tests_and_no_results(built: Path) -> None:
    with tarfile.open(next(built.glob("*.tar.gz"))) as source:
        names = [name.partition("/")[2] for name in source.getnames()]

    assert {"pyproject.toml", "tests/release/test_distributions.py", "tools/size.py", "CHANGELOG.md"} <= set(names)
    assert not [name for name in names if name.startswith((".venv", "benchmarks/results/", ".git/"))]


def test_the_wheel_works_without_extras(built: Path, tmp_path: Path) -> None:
    python = _environment(next(built.glob("*.whl")), tmp_path)
    (tmp_path / "twice.ptx").write_text(PTX)
    (tmp_path / "twice.py").write_text(KERNEL)

    checked = _run(tmp_path, python, "-m", "tilewright", "check", "twice.ptx", "--block", "32", "--arg", "data:u32[32]")
    ran = _run(tmp_path, python, "twice.py")

    assert (checked.stdout.splitlines()[:1], checked.returncode) == (["twice: clean"], 0), checked.stderr
    assert ran.stdout == "1\n", ran.stderr


def _run(folder: Path, python: str, *words: str) -> subprocess.CompletedProcess[str]:
    """A program that sees nothing of this tree: -I leaves PYTHONPATH and the folder out."""
    return subprocess.run([python, "-I", *words], cwd=folder, capture_output=True, text=True)


def _environment(wheel: Path, folder: Path) -> str:
    """A Python that sees the wheel and what it requires, and nothing else of this environment."""
    venv.create(folder / "env", with_pip=False)
    packages = next((folder / "env" / "lib").glob("python*/site-packages"))
    with zipfile.ZipFile(wheel) as unpacked:
        unpacked.extractall(packages)
    for name in _required("tilewright", set()):
        for top in {file.parts[0] for file in distribution(name).files or () if file.parts[0] != ".."}:
            if not (packages / top).exists():
                (packages / top).symlink_to(Path(str(distribution(name).locate_file(top))))
    return str(folder / "env" / "bin" / "python")


def _required(name: str, known: set[str]) -> set[str]:
    """The distributions that one requires without extras, and what those require."""
    for text in requires(name) or ():
        needed = Requirement(text)
        if (needed.marker is None or needed.marker.evaluate({"extra": ""})) and needed.name not in known:
            known.add(needed.name)
            _required(needed.name, known)
    return known
