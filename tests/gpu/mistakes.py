"""Seeded mistakes of pipelines on hardware: the simulator's report on each, and the GPU's results.

    python -m tests.gpu.mistakes [benchmarks/results/gpu_mistakes.json]

Each runs in a process of its own under a time limit, since many of them wait for ever. The GPU need not show a mistake:
a race may come out right for years. Every line of the table says both.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import tilewright as tw
from tests.sim.tma_pipelines import COLS, ROWS, casting, ring, storing
from tests.sim.wgmma_kernels import product
from tilewright.errors import TilewrightError

SECONDS = 10  # for one mistake, the start of a process included
ROUNDS = 20  # launches of each

Arrays = list[NDArray[Any]]


class Case(NamedTuple):
    """kernel: with a mistake, or right for "". inputs, and which of them is written. mistakes: to be tried."""

    kernel: Callable[[str], Any]
    inputs: Callable[[], Arrays]
    written: int
    mistakes: tuple[str, ...]


def _floats(*shapes: tuple[int, ...]) -> Callable[[], Arrays]:
    def made() -> Arrays:
        rng = np.random.default_rng(0)
        return [rng.integers(0, 9, shape).astype(np.float32) for shape in shapes]

    return made


def _matrices() -> Arrays:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-2, 3, (64, 128)).astype("bfloat16") for _ in range(2))
    return [a, b, np.zeros((64, 64), np.float32)]


CASES = {
    "ring": Case(
        ring,
        _floats((5 * ROWS, COLS), (ROWS, COLS)),
        1,
        ("", "few bytes", "no bytes", "producer's phase", "consumer's phase", "no arrival", "empty count 1",
         "arrives before it reads", "no fence of readers", "no barrier after init"),
    ),
    "storing": Case(
        storing, _floats((3 * ROWS, COLS), (ROWS, COLS)), 0, ("", "no proxy fence", "no wait", "written to the end")
    ),
    "casting": Case(
        casting, _floats((ROWS, COLS), (2, ROWS, COLS)), 1, ("", "mask without the peer", "peer not ready", "both cast")
    ),
    "product": Case(
        lambda wrong: product(wrong), _matrices, 2,
        ("", "proxy fence", "wait", "barrier", "swizzle of the descriptor", "stride", "fence"),
    ),
}  # fmt: skip


def simulated(case: Case, mistake: str) -> str:
    """The report of all checks."""
    try:
        warnings = tw.simulate(case.kernel(mistake), *case.inputs(), target="sm_90a", check="all").warnings
    except TilewrightError as error:
        return f"{error.what}; try {error.hint}" if error.hint else error.what
    return warnings[0].splitlines()[0] if warnings else "nothing"


def on_hardware(family: str, mistake: str) -> str:
    """The results of a process of its own, or that it did not end."""
    command = [sys.executable, "-m", "tests.gpu.mistakes", "--one", family, mistake]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return f"did not end in {SECONDS} s"
    said = done.stdout.strip().splitlines()
    return said[-1] if said else (done.stderr.strip().splitlines() or ["died without a word"])[-1]


def tried(family: str, mistake: str) -> str:
    """Launch it some times, and compare with the results of the right kernel on the simulator."""
    case = CASES[family]
    expected = case.inputs()
    tw.simulate(case.kernel(""), *expected, target="sm_90a")
    try:
        exe = tw.compile(case.kernel(mistake), target="sm_90a")
        wrong = 0
        for _ in range(ROUNDS):
            args = case.inputs()
            exe(*args, on="gpu")
            wrong += not np.array_equal(args[case.written], expected[case.written])
    except TilewrightError as error:
        return f"refused: {error.what}"
    return f"wrong values in {wrong} of {ROUNDS} launches" if wrong else f"right values in {ROUNDS} launches"


def main(words: list[str]) -> int:
    if words[:1] == ["--one"]:
        print(tried(*words[1:]))
        return 0
    rows = []
    for family, case in CASES.items():
        for mistake in case.mistakes:
            row = {"pipeline": family, "mistake": mistake or "none", "simulator": simulated(case, mistake),
                   "hardware": on_hardware(family, mistake)}  # fmt: skip
            print(" | ".join(row.values()), flush=True)
            rows.append(row)
    if words:
        Path(words[0]).write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    right = [row for row in rows if row["mistake"] == "none"]
    return int(any(not row["hardware"].startswith("right") or row["simulator"] != "nothing" for row in right))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
