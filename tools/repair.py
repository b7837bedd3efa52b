"""A kernel mended by its findings alone: what a remedy says is written where it says so, and judged again.

    python -m tools.repair kernel.py > mended.py

This is what an agent can do without understanding a kernel. It reads the fields of a remedy (`code`, `where`), never a
sentence. `tests/explain/test_repair.py` counts how many seeded mistakes it mends.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tilewright.explain import Finding, Remedy
from tilewright.verdict import report_from

__all__ = ["mended"]

Judge = Callable[[str], Sequence[Finding]]
MOST_ROUNDS = 4  # steps that are added to one kernel
MOST_PLACES = 8  # tried for one step


def mended(text: str, judge: Judge) -> str | None:
    """The text with the missing steps, once nothing is found any more; None where the remedies do not lead there.

    judge: the findings of a text, in which a text that is no kernel has one.
    """
    findings = judge(text)
    for _ in range(MOST_ROUNDS):
        if not findings:
            return text
        tried = [(judge(changed), changed) for changed in _changes(text, findings)]
        better = [(found, changed) for found, changed in tried if _key(found) < _key(findings)]
        if not better:
            return None
        findings, text = min(better, key=lambda each: _key(each[0]))
    return None if findings else text


def _key(findings: Sequence[Finding]) -> tuple[bool, int, int]:
    """How far a text is from clean: does it fail to be a kernel, how many findings, how many errors of a run."""
    unfit = any(each.kind in ("kernel", "dispatch", "instruction", "argument", "deadlock") for each in findings)
    return unfit, len(findings), sum(each.severity == "error" for each in findings)


def _changes(text: str, findings: Sequence[Finding]) -> Iterator[str]:
    """Texts with the step of a remedy, at each place that it may mean."""
    seen = {text}
    for remedy in (each.remedy for each in findings):
        if remedy is None or not remedy.code or not remedy.where or "..." in remedy.code:
            continue
        for changed in _with_step(text, remedy):
            if changed not in seen and len(seen) <= MOST_PLACES:
                seen.add(changed)
                yield changed


def _with_step(text: str, remedy: Remedy) -> Iterator[str]:
    """The step before each line that it may stand before, as deep as it or as the one above; the last one first."""
    lines = text.splitlines()
    first, last = (remedy.where[0] + 1, remedy.where[-1]) if len(remedy.where) > 1 else (remedy.where[0],) * 2
    if first > last:  # around a loop: behind the later line
        first, last = first, min(first + 1, len(lines) + 1)
    for number in range(min(last, len(lines) + 1), max(first, 1) - 1, -1):
        around = [lines[at] for at in (number - 1, number - 2) if 0 <= at < len(lines) and lines[at].strip()]
        for indent in dict.fromkeys(len(line) - len(line.lstrip()) for line in around):
            changed = "\n".join([*lines[: number - 1], " " * indent + (remedy.code or ""), *lines[number - 1 :]]) + "\n"
            if _parses(changed):
                yield changed


def _parses(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


def _checked(text: str) -> Sequence[Finding]:
    """What `tilewright check --json` finds in a text."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernel.py"
        file.write_text(text, encoding="utf-8")
        command = [sys.executable, "-m", "tilewright", "check", str(file), "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    report = report_from(json.loads(done.stdout))
    return [finding for verdict in report.verdicts for finding in verdict.findings]


def main() -> int:
    """Mend the file that is named; its text goes to standard output. Exit code 1 where it cannot be mended."""
    found = mended(Path(sys.argv[1]).read_text(encoding="utf-8"), _checked)
    if found is None:
        return 1
    sys.stdout.write(found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
