"""Is this tree slower than another one? Both run the same small jobs by turns, and the ratios have a limit.

    python -m benchmarks.gate v0.1.0        # a tag, a branch, a commit; left out, the last tag

Exit code 1 where a job takes more than `MOST` times what it takes there. Turns interleave, so that a busy machine slows
both; each job's time is the least of its turns, and processor time, children included.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
MOST = 1.10
TURNS = 7
ARRAYS = "import numpy as np; from tilewright import kernels; random = np.random.default_rng(0).random;"
JOBS = {  # name -> set-up, and what is timed
    "import": ("import subprocess, sys", "subprocess.run([sys.executable, '-c', 'import tilewright'], check=True)"),
    "source to CUDA text": (
        "import tilewright as tw; from tilewright.cli.kernels import kernel_named",
        "tw.compile(kernel_named('examples/stage_tile.py', [])).source('cuda')",
    ),
    "transpose 512 x 512, all checks": (
        ARRAYS + "a = random((512, 512), np.float32)",
        "kernels.transpose(a)",
    ),
    "softmax 256 x 1024, all checks": (
        ARRAYS + "a = random((256, 1024), np.float32)",
        "kernels.softmax(a)",
    ),
    "matmul 256 x 256 x 256, all checks": (
        ARRAYS + "import ml_dtypes; a = random((256, 256)).astype(ml_dtypes.bfloat16)",
        "kernels.matmul(a, a)",
    ),
}
TIMED = """
import os
{setup}
def job():
    {job}
job()
start = sum(os.times()[:4])
for _ in range(3):
    job()
print(sum(os.times()[:4]) - start)
"""


def seconds(tree: Path, name: str) -> float:
    """One turn of a job in a tree: processor time of three runs, after a first one, in a process of their own."""
    setup, job = JOBS[name]
    code = TIMED.format(setup=setup, job=job)
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=tree, env=environment, capture_output=True, text=True, check=True
    )
    return float(ran.stdout.split()[-1])


def ratio(ours: Path, theirs: Path, name: str) -> float:
    """How many times as long a job takes here."""
    times: dict[Path, list[float]] = {ours: [], theirs: []}
    for turn in range(TURNS):
        for tree in (ours, theirs)[:: 1 if turn % 2 else -1]:
            times[tree].append(seconds(tree, name))
    return min(times[ours]) / min(times[theirs])


def main(against: str | None) -> int:
    """Print the ratio of each job. Exit code 1 where one is above `MOST`."""
    git = ["git", "-C", str(ROOT)]
    last = subprocess.run([*git, "describe", "--tags", "--abbrev=0"], capture_output=True, text=True, check=False)
    ref = against or last.stdout.strip() or "HEAD"
    slower = 0
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([*git, "worktree", "add", "--quiet", "--detach", folder, ref], check=True)
        try:
            for name in JOBS:
                found = ratio(ROOT, Path(folder), name)
                slower += found > MOST
                print(f"{name}: {found:.2f} of {ref}{'  SLOWER' if found > MOST else ''}", flush=True)
        finally:
            subprocess.run([*git, "worktree", "remove", "--force", folder], check=True)
    return int(slower > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else None))
