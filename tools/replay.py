"""Process replay: what all examples do, as text, to be compared before and after a change that should change nothing.

    python -m tools.replay before.json      # in the tree before
    python -m tools.replay after.json before.json

Each example runs as a program. Of its runs the counts, line by line, the findings, what is printed and the bytes of the
arrays are kept, and of its kernels the CUDA text. Exit code 1 where something differs.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import runpy
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import tilewright as tw
from tilewright.errors import TilewrightError
from tilewright.ir import Kernel
from tilewright.sim.run.program import Program
from tools.size import ROOT

__all__ = ["replayed"]

TARGETS = ("sm_90a", "sm_100a", "sm_80")  # a kernel's text is that of the first that takes it
Row = list[Any]


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


@contextlib.contextmanager
def _kept(rows: list[Row]) -> Any:
    """Meanwhile each run leaves a row."""
    original = Program.run

    def run(self: Program, arrays: Any, *args: Any, **keywords: Any) -> Any:
        try:
            found = original(self, arrays, *args, **keywords)
        except TilewrightError as error:
            rows.append([self._lowered.name, "error", str(error)])
            raise
        lines, findings = map(repr, found.counts.lines), map(repr, found.findings)
        data = {name: _digest(np.ascontiguousarray(each).tobytes()) for name, each in arrays.items()}
        rows.append([self._lowered.name, str(found.counts), *lines, *findings, *found.warnings, found.output, data])
        return found

    Program.run = run  # type: ignore[method-assign]  # while the examples run
    try:
        yield
    finally:
        Program.run = original  # type: ignore[method-assign]


def _text(kernel: Kernel) -> str:
    for target in TARGETS:
        with contextlib.suppress(TilewrightError):
            return f"{target} {_digest(tw.compile(kernel, target).source('cuda').encode())}"
    return "none"


def replayed() -> list[Row]:
    """A row for each run of the examples, for each of their kernels, and for what they print."""
    rows: list[Row] = []
    for path in sorted((ROOT / "examples").glob("*.py")):
        out = io.StringIO()
        with _kept(rows), contextlib.redirect_stdout(out), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            sys.argv = [str(path)]
            names = runpy.run_path(str(path), run_name="__main__")
        rows.append([path.stem, _digest(out.getvalue().encode())])
        rows += [[path.stem, name, _text(each)] for name, each in names.items() if isinstance(each, Kernel)]
    return rows


def main(after: str, before: str | None) -> int:
    """Write the rows, and print those that differ from the earlier ones."""
    rows = json.loads(json.dumps(replayed()).replace(str(ROOT), ""))
    Path(after).write_text(json.dumps(rows, indent=1), encoding="utf-8")
    if before is None:
        return 0
    others = json.loads(Path(before).read_text(encoding="utf-8"))
    differ = [(was, now) for was, now in zip(others, rows, strict=False) if was != now]
    for was, now in differ:
        print(f"- {was}\n+ {now}")
    print(f"{len(rows)} rows, {len(differ) + abs(len(rows) - len(others))} differ")
    return int(bool(differ) or len(rows) != len(others))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None))
