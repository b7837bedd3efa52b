"""The tests that a change concerns most, for the minute between two edits: ``make check``.

Of what differs from ``main``, and of what is not committed: test files themselves; of a module the tests that import
it, or a name of its room's; and the house tests. It is a sample. ``make test`` has the last word.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parent.parent
MOST_FILES = 6  # of tests, the ones that name the change most often


def changed() -> list[Path]:
    """Files that differ from main, or are not committed."""
    base = _git("merge-base", "HEAD", "main") or ["HEAD"]
    names = {*_git("diff", "--name-only", base[0]), *_git("ls-files", "--others", "--exclude-standard")}
    return sorted(Path(name) for name in names if (ROOT / name).is_file())


def _git(*words: str) -> list[str]:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()


def concerned(files: Iterable[Path], tests: Iterable[Path]) -> list[Path]:
    """The test files that concern these files most, the closest first."""
    files, tests = list(files), list(tests)
    own = [file for file in files if file in tests]
    modules = [file for file in files if file.parts[0] == "tilewright" and file.suffix == ".py"]
    scores = {test: sum(_weight(test, module) for module in modules) for test in tests if test not in own}
    near = sorted((test for test in scores if scores[test]), key=lambda test: (-scores[test], str(test)))
    return [*own, *near[:MOST_FILES]]


def _weight(test: Path, module: Path) -> int:
    """How close a test is to a module: by its name, by an import of it, by an import of its room."""
    dotted = ".".join(module.with_suffix("").parts)
    text = (ROOT / test).read_text(encoding="utf-8")
    named = 4 * (test.stem == f"test_{module.stem}")
    return (
        named + 3 * bool(re.search(rf"\b{re.escape(dotted)}\b", text)) + (f"{dotted.rpartition('.')[0]} import" in text)
    )


def main() -> int:
    """Lint what has changed, then run its tests. Exit code 1 where something fails."""
    files = changed()
    python = [str(file) for file in files if file.suffix == ".py"]
    tests = [path.relative_to(ROOT) for path in sorted((ROOT / "tests").rglob("test_*.py")) if "gpu" not in path.parts]
    chosen = [str(test) for test in concerned(files, tests)]
    steps = [["ruff", "check", *python], ["ruff", "format", "--check", *python], ["mypy"]] if python else []
    steps.append(["pytest", "--quiet", "--maxfail=5", "tests/house", *chosen])
    bins = Path(sys.executable).parent
    for step in steps:
        print("$", *step[:3], "..." if len(step) > 3 else "", flush=True)
        if subprocess.run([str(bins / step[0]), *step[1:]], cwd=ROOT, check=False).returncode:
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
