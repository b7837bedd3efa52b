"""The examples and a few copies under each tool of compute-sanitizer: ``python -m tests.gpu.sanitize``.

Prints a line for each tool and program, keeps them in benchmarks/results/sanitizer.json and writes their table into
benchmarks/RESULTS.md. The exit status is 1 where a tool found something, 0 where it did not or where the machine has no
compute-sanitizer.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime, timezone
from functools import partial
from pathlib import Path

import numpy as np

from tests.examples.compute import COMPUTE

ROOT = Path(__file__).parents[2]
TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")
FOUND = 86  # the exit code that the sanitizer is given for findings
FALLBACKS = ("/usr/local/cuda/bin/compute-sanitizer", "/opt/nvidia/nsight-compute/compute-sanitizer")


def run_transpose() -> None:
    import tilewright as tw
    from examples import transpose

    for kernel in (transpose.transpose, transpose.plain):
        a = np.random.default_rng(0).standard_normal((256, 256)).astype(np.float16)
        b = np.zeros_like(a)
        tw.compile(kernel, target="sm_90a")(a, b, on="gpu")
        assert (b == a.T).all()


def run_stage_tile() -> None:
    import tilewright as tw
    from examples import stage_tile

    for num in (1, 2, 4):
        for row_major in (True, False):
            a = np.random.default_rng(0).standard_normal((8, 8 * num)).astype(np.float16)
            b = np.zeros_like(a)
            tw.compile(stage_tile.make(num, row_major), target="sm_90a")(a, b, on="gpu")
            assert (b == a).all()


def run_row_per_lane() -> None:
    import tilewright as tw
    from examples import row_per_lane

    a = np.random.default_rng(0).standard_normal((32, 8)).astype(np.float32)
    b = np.zeros_like(a)
    tw.compile(row_per_lane.row_per_lane, target="sm_90a")(a, b, on="gpu")
    assert (b == a[::-1]).all()


def run_ldmatrix_by_hand() -> None:
    import tilewright as tw
    from examples import ldmatrix_by_hand

    for name in ("load_x1", "load_x2", "load_x4", "store_x1", "store_x2", "store_x4"):
        tw.compile(getattr(ldmatrix_by_hand, name), target="sm_90a")(on="gpu")


def run_compute(name: str) -> None:
    import tilewright as tw
    from tests.examples.compute import module

    module(name).main(lambda kernel, *arrays: tw.compile(kernel, target="sm_90a")(*arrays, on="gpu"))


PROGRAMS: dict[str, Callable[[], None]] = {
    "transpose": run_transpose,
    "stage_tile": run_stage_tile,
    "row_per_lane": run_row_per_lane,
    "ldmatrix_by_hand": run_ldmatrix_by_hand,
    **{name: partial(run_compute, name) for name in COMPUTE},
}


def sanitizer() -> str | None:
    """The path of compute-sanitizer, if the machine has one."""
    found = shutil.which("compute-sanitizer")
    return found or next((path for path in FALLBACKS if Path(path).is_file()), None)


def examine(path: str, tool: str, program: str) -> dict[str, object]:
    """One program under one tool: what came of it."""
    python = [sys.executable, "-m", "tests.gpu.sanitize", program]
    command = [path, "--tool", tool, "--error-exitcode", str(FOUND), *python]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    summary = [line for line in done.stdout.splitlines() if "SUMMARY" in line]
    clean = done.returncode == 0
    print(f"{tool:<10} {program:<18} {'clean' if clean else 'FOUND SOMETHING'}  {' '.join(summary)}", flush=True)
    if not clean:
        print(done.stdout[-4000:], done.stderr[-2000:], sep="\n")
    said = " ".join(line.strip("= ") for line in summary)
    return {"tool": tool, "program": program, "clean": clean, "summary": said}


def keep(path: str, runs: list[dict[str, object]]) -> None:
    """Write what came of all runs, and where, for the page of results."""
    from benchmarks import page
    from tilewright.cuda import driver

    version = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout
    found = {
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d"),
        "gpu": driver.device(0).name,
        "sanitizer": (version.splitlines() or ["compute-sanitizer"])[-1].strip(),
        "runs": runs,
    }
    kept = ROOT / "benchmarks" / "results" / f"{page.SANITIZER}.json"
    kept.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    page.rewrite()


def main(args: list[str]) -> int:
    if args:
        PROGRAMS[args[0]]()
        return 0
    path = sanitizer()
    if path is None:
        print("this machine has no compute-sanitizer: nothing examined")
        return 0
    results = [examine(path, tool, program) for tool in TOOLS for program in PROGRAMS]
    keep(path, results)
    return 0 if all(result["clean"] for result in results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
