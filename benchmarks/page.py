"""The tables of benchmarks/RESULTS.md that need no GPU to be written: from the JSON in benchmarks/results."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.measure import PACKAGES

ROOT = Path(__file__).parent
RESULTS = ROOT / "RESULTS.md"
BEGIN, END = "<!-- made by {} -->", "<!-- end of {} -->"
MEASURED = ("date", "processor", "system", *PACKAGES)

CPU = {
    "import_time": "Import",
    "tirx_compile": "Compiling, beside TIRx",
    "cute_compile": "Compiling to a cubin, beside CuTe's DSL",
    "matmul_compile": "A matrix product to a cubin, beside CuTe's DSL and Triton",
    "growth": "Growth of time and memory",
    "synchronised": "Threads that count, lock and wait",
    "semantics": "The meaning of each instruction, beside a NumPy gather",
    "gemm_simulated": "A simulated matrix product",
    "triton_interpreter": "Simulating, beside Triton's interpreter and Numba",
    "triton_checked": "Triton's kernels under every check",
    "loaded": "Kernels from their CUDA text, beside the same in our language",
    "serving": "Submissions to a judge that serves",
}
"""The results of `make bench` and the title of each one's table, in the order in which they are shown."""

MIXED = (
    "growth",
    "synchronised",
    "triton_interpreter",
    "triton_checked",
    "serving",
)  # several things to measure: the targets below say what is compared with what
SANITIZER = "sanitizer"


def rewrite() -> None:
    """Write each table between its marks, new ones at the end; the sentences around them stay."""
    text = RESULTS.read_text(encoding="utf-8")
    for name, made_by, body in tables():
        begin, end = BEGIN.format(f"{made_by}: {name}"), END.format(name)
        if begin not in text:
            text = f"{text.rstrip()}\n\n{begin}\n{end}\n"
        before, _, rest = text.partition(begin)
        text = f"{before}{begin}\n{body}\n{end}{rest.partition(end)[2]}"
    RESULTS.write_text(text, encoding="utf-8")


def tables() -> Iterator[tuple[str, str, str]]:
    """(name, the command that measures it, Markdown) of every table."""
    for name, title in CPU.items():
        if (found := _load(name)) is not None:
            yield name, "make bench", f"## {title}\n\n{cpu_table(name, found)}"
    yield SANITIZER, "make sanitize", f"## compute-sanitizer\n\n{sanitizer_table(_load(SANITIZER))}"


def _load(name: str) -> dict[str, Any] | None:
    path = ROOT / "results" / f"{name}.json"
    if not path.exists():
        return None
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def cpu_table(name: str, found: Mapping[str, Any]) -> str:
    """The table that `benchmarks.measure.save` wrote."""
    ratios, columns = found["ratios"], 2 if name in MIXED else 3
    head = f"{found['title'][0].upper()}{found['title'][1:]}."
    rows = [
        (what, _number(took, ".2f"), _number(ratios.get(what)))[:columns]
        for what, took in found["milliseconds"].items()
    ]
    targets = [
        f"- {target['what']}: {_number(target['measured'])} (wanted <= {target['limit']:.3g} {target['unit']}): "
        + {True: "met", False: "MISSED", None: "not measured"}[target["met"]]
        for target in found["targets"]
    ]
    machine = ", ".join(f"{key} {found[key]}" for key in MEASURED if key in found)
    parts = [head, _grid(("what", "ms", _ratio_head(found))[:columns], rows), "\n".join(targets)]
    return "\n\n".join([part for part in parts if part] + [f"`python -m benchmarks {name}`: {machine}."])


def _ratio_head(found: Mapping[str, Any]) -> str:
    first = next(iter(found["milliseconds"]))
    return "of its yardstick" if first in found["ratios"] else "the first row over this one"


def _number(value: float | None, how: str = ".3g") -> str:
    """None: not installed, or set against nothing."""
    return "-" if value is None else format(value, how)


def sanitizer_table(found: Mapping[str, Any] | None) -> str:
    """The table that ``python -m tests.gpu.sanitize`` wrote; a line that says so where it has not run yet."""
    if found is None:
        return "Not run yet: `make sanitize` on a machine with a GPU and compute-sanitizer."
    rows = [
        (row["tool"], row["program"], "clean" if row["clean"] else "FOUND", row["summary"]) for row in found["runs"]
    ]
    table = _grid(("tool", "program", "result", "what it said"), rows)
    return f"{table}\n\n`make sanitize`: date {found['date']}, GPU {found['gpu']}, {found['sanitizer']}."


def _grid(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ("---",) * len(head), *rows))


if __name__ == "__main__":
    rewrite()
