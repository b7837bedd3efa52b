"""The examples run without a word from any check, and each of their barriers is needed."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tests.examples.compute import COMPUTE, EXAMPLES, module
from tests.examples.test_blackwell import RUN as BLACKWELL
from tilewright.errors import SimulationError
from tilewright.ir import Call, Evaluate, Kernel, Stmt, map_body, statements
from tilewright.isa import bind

KERNELS = {
    "transpose": ("transpose", (256, 256), np.float16),
    "plain": ("transpose", (256, 256), np.float16),
    "stage_tile": ("stage_tile", (8, 16), np.float16),
    "row_per_lane": ("row_per_lane", (32, 8), np.float32),
}
EXPECTED = {
    "transpose": lambda a: a.T,
    "plain": lambda a: a.T,
    "stage_tile": lambda a: a,
    "row_per_lane": lambda a: a[::-1],
}


def kernel(name: str) -> Kernel:
    found = getattr(module(KERNELS[name][0]), name)
    assert isinstance(found, Kernel)
    return found


def simulate(name: str, made: Kernel) -> tuple[np.ndarray, np.ndarray, list[str]]:
    _, shape, kind = KERNELS[name]
    a = np.random.default_rng(1).standard_normal(shape).astype(kind)
    b = np.zeros_like(a)
    run = tw.simulate(made, a, b, check="all")
    return a, b, run.warnings


def barriers(made: Kernel) -> list[Stmt]:
    return [s for s in statements(made.body) if isinstance(s, Evaluate) and _is_barrier(s.value)]


def _is_barrier(value: object) -> bool:
    return isinstance(value, Call) and bind(value).form.sync is not None


def without(made: Kernel, barrier: Stmt) -> Kernel:
    return replace(made, body=map_body(made.body, lambda stmt: () if stmt is barrier else None))


@pytest.mark.parametrize("name", KERNELS)
def test_an_example_passes_every_check_and_is_right(name: str) -> None:
    a, b, warnings = simulate(name, kernel(name))

    assert np.array_equal(b, EXPECTED[name](a))
    assert warnings == []


@pytest.mark.parametrize(("name", "index"), [(name, i) for name in KERNELS for i in range(len(barriers(kernel(name))))])
def test_a_missing_barrier_is_a_race(name: str, index: int) -> None:
    made = kernel(name)

    with pytest.raises(SimulationError, match="race"):
        simulate(name, without(made, barriers(made)[index]))


def test_every_example_has_its_barriers_counted() -> None:
    assert {name: len(barriers(kernel(name))) for name in KERNELS} == {
        "transpose": 2,
        "plain": 2,
        "stage_tile": 1,
        "row_per_lane": 3,
    }


# Those that compute run in `test_compute`, those for a Blackwell in `test_blackwell`.
ELSEWHERE = {*COMPUTE, *(example.__name__.removeprefix("examples.") for example in BLACKWELL)}
PROGRAMS = [path for path in sorted(EXAMPLES.glob("*.py")) if path.stem not in ELSEWHERE]


@pytest.mark.filterwarnings("default::tilewright.errors.TilewrightWarning")
@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_an_example_runs_as_a_program(
    path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here, where the package is imported: the time of a process each was as long again."""
    monkeypatch.setattr(sys, "argv", [str(path)])

    runpy.run_path(str(path), run_name="__main__")

    assert re.search(r"\S", capsys.readouterr().out)


def test_an_example_is_a_program_of_its_own() -> None:
    done = subprocess.run([sys.executable, str(EXAMPLES / "ring.py")], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert re.search(r"\S", done.stdout)
