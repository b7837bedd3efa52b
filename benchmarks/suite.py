"""A public suite of kernels with and without planted mistakes, counted: what is found, missed, and told wrongly.

    python -m benchmarks.suite FOLDER --wrong 'Bug|_bad' [--limit 60s]

FOLDER is a checkout of the suite. Each .cu and .ptx file is run as `tilewright ci` does: as a TOML file beside it says,
or as its host code launches it. A path below FOLDER that fits ``--wrong`` has a mistake. Nothing of a suite is kept.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from pathlib import Path

from tilewright.cli.serving import files_of
from tilewright.cli.verdicts import judged_apart

__all__ = ["counted"]


OUTCOMES = {  # has it a mistake, and what was said of it
    (True, "wrong"): "found",
    (True, "clean"): "missed",
    (False, "wrong"): "false alarm",
    (False, "clean"): "right",
}


def counted(folder: Path, wrong: str, limit: str = "60s") -> tuple[Counter[str], list[str]]:
    """How many files of each outcome: found, missed, false alarm, right, not run; and a line for each that is not as
    its name says.
    """
    counts: Counter[str] = Counter()
    lines: list[str] = []
    for file in files_of([folder]):
        if file.suffix == ".py":
            continue
        report = judged_apart(str(file), (), [limit])
        is_wrong, status = bool(re.search(wrong, file.relative_to(folder).as_posix())), report.status
        outcome = OUTCOMES.get((is_wrong, status), "not run")
        counts[outcome] += 1
        if outcome in ("missed", "false alarm", "not run"):
            first = next((each.message for verdict in report.verdicts for each in verdict.findings), "")
            lines.append(f"{outcome}: {file.relative_to(folder)} {first}")
    return counts, lines


def main() -> None:
    """Print the lines, then the counts."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("folder", type=Path)
    asked.add_argument("--wrong", required=True, help="fits the paths of files with a mistake")
    asked.add_argument("--limit", default="60s")
    given = asked.parse_args()
    counts, lines = counted(given.folder, given.wrong, given.limit)
    print("\n".join([*lines, *(f"{count:6} {outcome}" for outcome, count in counts.most_common())]))


if __name__ == "__main__":
    main()
