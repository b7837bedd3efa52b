"""No bound is above what was measured on an H200: the stored results of the benchmarks, held to the bounds of today."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from benchmarks.gpu import restrict_kernels
from benchmarks.gpu.__main__ import SCRIPTS
from benchmarks.gpu.bounds import counted, long_bound, product_bounds
from tilewright.profiling import gpu

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
ON = gpu("H200")
FEW = ("softmax, rows of 4096, float32", "rms_norm, rows of 1024, bfloat16", "cross_entropy, rows of 16384, bfloat16")


def rows(name: str) -> list[list[str]]:
    found: dict[str, Any] = json.loads((RESULTS / f"gpu_{name}.json").read_text(encoding="utf-8"))
    return list(found["rows"])


SECONDS = {what: float(copy) * 1e-6 / float(ratio) for what, copy, ratio, *_ in rows("memory_bound")}
"""Of each kernel at the speed of memory: the table has the time of a copy, and its ratio to the kernel's."""
OF_ROWS = [what for what in SECONDS if ", rows of " in what and int(what.split(", ")[1].split()[-1]) <= 16384]


def check_rows(what: str) -> None:
    name, columns, kind = what.split(", ")

    bound, unit = counted(name, int(columns.split()[-1]), kind, ON)

    assert SECONDS[what] / 2 <= bound <= SECONDS[what], unit  # at least half, as these are bound by memory


@pytest.mark.parametrize("what", FEW)
def test_the_bound_of_rows_is_between_half_and_all_of_the_measured_time(what: str) -> None:
    check_rows(what)


@pytest.mark.long
@pytest.mark.parametrize("what", OF_ROWS)
def test_the_bound_of_all_rows_is_between_half_and_all_of_the_measured_time(what: str) -> None:
    check_rows(what)


@pytest.mark.parametrize("what", [what for what in SECONDS if "1 GiB of float32" in what])
def test_the_bound_of_a_reduction_of_memory_is_between_half_and_all_of_the_measured_time(what: str) -> None:
    assert SECONDS[what] / 2 <= 2**30 / ON.hbm <= SECONDS[what]


@pytest.mark.parametrize(("what", "shape", "rate"), [row[:3] for row in rows("matmul") if row[0].endswith("float16")])
def test_the_bound_of_a_product_is_below_the_measured_time(what: str, shape: str, rate: str) -> None:
    if " x " not in shape:
        shape = "4096 x 4096 x 4096"  # in the majors that the row names
    m, n, k = map(int, shape.split(" x "))
    seconds = 2 * m * n * k / (float(rate) * 1e12)

    bounds = product_bounds(m, n, k, ON)

    assert max(bounds.values()) <= seconds
    if m >= 2048:
        assert max(bounds.values()) >= seconds / 2


LONG = re.findall(
    r"^\| (\w+) \| with \|.* ([\d.]+) \|$", (RESULTS.parent / "RESULTS.md").read_text("utf-8"), re.MULTILINE
)


@pytest.mark.parametrize(("name", "microseconds"), LONG)
def test_the_bound_of_a_kernel_over_a_long_array_is_below_the_measured_time(name: str, microseconds: str) -> None:
    bound, _ = long_bound(getattr(restrict_kernels, name), ON)

    assert bound <= float(microseconds) * 1e-6


@pytest.mark.parametrize("row", rows("shared"), ids=lambda row: row[0])
def test_a_pass_of_shared_memory_in_a_cycle_is_never_exceeded(row: list[str]) -> None:
    assert 64 <= float(row[1]) <= 128


def test_what_pages_and_figures_name_as_a_benchmark_is_one() -> None:
    root = Path(__file__).parents[2]
    texts = [*(root / "docs").glob("**/*.md"), *(root / "tilewright" / "profiling").glob("*.py"), root / "README.md"]
    read = " ".join(" ".join(text.read_text(encoding="utf-8").split()) for text in texts)
    named = set(re.findall(r"python -m benchmarks\.gpu ([a-z_]+)", read))

    assert "figures" in named
    assert named <= set(SCRIPTS)
