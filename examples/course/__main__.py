"""The course's steps, and their exercises: ``python -m examples.course 3``, ``python -m examples.course 3 'the line'``.

Without a line the step's kernel runs under every check. With one, it stands in the place of the line that the step
marks as its exercise; with "" that line is missing, and the report says what then goes wrong.
"""

from __future__ import annotations

import importlib.util
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import tilewright as tw

HERE = Path(__file__).parent
STEPS = sorted(int(path.stem[-2:]) for path in HERE.glob("step_*.py"))
MARK = re.compile(r"^( *)\S.*  # exercise$", re.MULTILINE)


def step(number: int, line: str | None = None, folder: Path | None = None) -> Any:
    """A step's module; with ``line`` in the place of its exercise, from a file in the folder."""
    path = HERE / f"step_{number:02}.py"
    if line is not None:
        text = MARK.sub(lambda found: found[1] + (line or "pass"), path.read_text(encoding="utf-8"))
        assert folder is not None
        path = folder / path.name
        path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def verdict(module: Any) -> tw.Verdict:
    """The verdict on a step's kernel: every check, and the product."""
    a, b = module.arguments()
    c = np.zeros((len(a), len(b)), np.float32)
    return tw.check(
        module.kernel, a, b, c, target="sm_100a", expect={"C": a.astype(np.float32) @ b.astype(np.float32).T}
    )


def main(arguments: list[str]) -> int:
    if not arguments or arguments[0] not in map(str, STEPS) or len(arguments) > 2:
        print(f"python -m examples.course STEP [LINE], with a step of {STEPS[0]} to {STEPS[-1]}")
        return 2
    with tempfile.TemporaryDirectory() as folder:
        try:
            module = step(int(arguments[0]), *arguments[1:], folder=Path(folder))
        except (tw.TilewrightError, SyntaxError) as error:  # the line is none of the language
            print(error)
            return 1
        print(module.__doc__ if len(arguments) == 1 else "", end="")
        found = verdict(module)
        print(found)
    return 1 if found.findings or not found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
