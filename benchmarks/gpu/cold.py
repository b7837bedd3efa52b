"""From Python source to the end of the first launch, in a fresh process with empty caches, against Triton.

torch is imported and the GPU in use before the clock starts; `benchmarks.gpu.start` is one start.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile

from benchmarks.gpu.measure import Claim, Table

STARTS = 7


def median_start(which: str, *, warm: bool = False) -> dict[str, float]:
    found = []
    with tempfile.TemporaryDirectory() as kept:
        for _ in range(STARTS + warm):
            with tempfile.TemporaryDirectory() as fresh:
                at = kept if warm else fresh
                places = {"TILEWRIGHT_CACHE_DIR": at, "TRITON_CACHE_DIR": at, "CUDA_CACHE_PATH": at}
                command = [sys.executable, "-m", "benchmarks.gpu.start", which]
                done = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, **places})
                found.append(json.loads(done.stdout.splitlines()[-1]))
    return {key: statistics.median(one[key] for one in found[warm:]) for key in found[0]}


def run() -> Table:
    times = {
        "tilewright": median_start("tilewright"),
        "Triton": median_start("triton"),
        "tilewright, cubin on disk": median_start("tilewright", warm=True),
        "Triton, cubin on disk": median_start("triton", warm=True),
    }
    rows = [(name, *(f"{time * 1e3:.1f}" for time in of.values()), f"{sum(of.values()) * 1e3:.1f}")
            for name, of in times.items()]  # fmt: skip
    mine, theirs = times["tilewright"], times["Triton"]
    claims = (
        Claim("source to first launch, of Triton's", mine["first launch"] / theirs["first launch"], 0.5, most=True),
        Claim("the same with the imports", sum(mine.values()) / sum(theirs.values()), 0.5, most=True),
    )
    return Table("Cold start", ("with", "import, ms", "first launch, ms", "both, ms"), tuple(rows), claims)
