"""How long ``import`` takes, in fresh processes, byte code written before."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys

from benchmarks.measure import Table, Target, Times, alternately

MODULES = ("tilewright", "numpy", "triton", "cutlass.cute", "tvm.tirx")
COMPILED = "import tilewright, and what a first kernel and its CUDA text import"
ROOMS = "tilewright.lang, tilewright.compiler, tilewright.cuda"
_PROGRAM = "import time; start = time.perf_counter(); import {module}; print((time.perf_counter() - start) * 1e3)"


def import_ms(module: str) -> float | None:
    """Milliseconds in one fresh process; None where it is not installed."""
    if importlib.util.find_spec(module.split(".")[0]) is None:
        return None
    command = [sys.executable, "-W", "ignore", "-c", _PROGRAM.format(module=module)]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return float(subprocess.run(command, env=environment, capture_output=True, check=True).stdout.splitlines()[-1])


def imports() -> Times:
    times: Times = {f"import {module}": import_ms(module) for module in MODULES}
    return {**times, COMPILED: import_ms(ROOMS)}


def run() -> Table:
    imports()  # writes the byte code
    (times,) = alternately(imports, rounds=7)
    ours, *peers = times
    return Table("import in a fresh process", (ours,), tuple(peers), (Target(ours.name, 150),))
