"""Runs the benchmarks that are named, or all; keeps each as JSON; writes the tables of benchmarks/RESULTS.md."""

from __future__ import annotations

import importlib
import json
import platform
import subprocess
import sys
from dataclasses import asdict
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path

from benchmarks.gpu.measure import Claim, Table

SCRIPTS = ("shared", "copies", "launch", "eager", "cold", "counters", "lanes", "memory_bound", "row_lengths", "bounds",
           "mma", "matmul", "shapes", "several", "estimate", "learners", "attention", "figures")  # fmt: skip
ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "RESULTS.md"
BEGIN, END = "<!-- made by make bench-gpu: {} -->", "<!-- end of {} -->"
PACKAGES = ("torch", "triton", "cupy-cuda13x", "cuda-core", "cuda-bindings", "nvidia-cuda-nvrtc", "numpy")


def machine() -> dict[str, str]:
    from tilewright.cuda import driver, nvrtc

    return {
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d"),
        "GPU": driver.device(0).name,
        "driver": _driver_version(),
        "NVRTC": nvrtc.version().removeprefix("NVRTC "),
        "Python": platform.python_version(),
        **{name: version for name in PACKAGES if (version := _version(name))},
    }


def _driver_version() -> str:
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        return "unknown"


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def save(name: str, table: Table, made_on: dict[str, str]) -> Path:
    path = ROOT / "results" / f"gpu_{name}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"machine": made_on, **asdict(table)}, indent=2) + "\n", encoding="utf-8")
    return path


def load(name: str) -> tuple[Table, dict[str, str]] | None:
    path = ROOT / "results" / f"gpu_{name}.json"
    if not path.exists():
        return None
    kept = json.loads(path.read_text(encoding="utf-8"))
    made_on = kept.pop("machine")
    rows, claims = tuple(map(tuple, kept.pop("rows"))), tuple(Claim(**claim) for claim in kept.pop("claims"))
    return Table(kept["title"], tuple(kept["head"]), rows, claims, tuple(kept["notes"])), made_on


def rewrite() -> None:
    """Write each table between its marks, from the JSON files; the sentences around them stay."""
    text = RESULTS.read_text(encoding="utf-8")
    for name in SCRIPTS:
        found = load(name)
        if found is None:
            continue
        table, made_on = found
        begin, end = BEGIN.format(name), END.format(name)
        where = ", ".join(f"{key} {value}" for key, value in made_on.items())
        made = f"{begin}\n{table.markdown()}\n\n`python -m benchmarks.gpu {name}`: {where}.\n{end}"
        before, _, rest = text.partition(begin)
        text = before + made + rest.partition(end)[2]
    RESULTS.write_text(text, encoding="utf-8")


def main(wanted: list[str]) -> int:
    if "--beside" in wanted:  # and a path, which `matmul` reads
        del wanted[(at := wanted.index("--beside")) : at + 2]
    if unknown := set(wanted) - set(SCRIPTS):
        print(f"no benchmark {', '.join(sorted(unknown))}; there are {', '.join(SCRIPTS)}", file=sys.stderr)
        return 2
    missed = 0
    for name in wanted or SCRIPTS:
        table = importlib.import_module(f"benchmarks.gpu.{name}").run()
        print(f"\n{table.markdown()}\n  written to {save(name, table, machine())}", flush=True)
        missed += sum(not claim.met for claim in table.claims)
    rewrite()
    print(f"\n{missed} claims missed" if missed else "\nall claims met")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
