"""Kernels with a seeded mistake as texts, each with the judge that a repair has to please.

A judge runs all checks, and compares what the kernel leaves behind with what the right one does.
``python -m tests.explain.seeded 11 60`` mends the pipelines, and every 11th mutant, by at most 60 trials each, which
takes ten minutes. With a file behind the numbers, which remembers what was tried, it goes on where it was ended.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

import tilewright as tw
from tests.gpu.mistakes import CASES, Case
from tests.model.mutants import CLEAN, EVERY, UNDECIDED, Mutant, mutants, verdicts
from tests.model.printing import Printer, kernel
from tests.model.program import Program
from tests.model.unit import UNITS
from tilewright.checking import check
from tilewright.errors import TilewrightError
from tilewright.explain import Finding
from tilewright.isa import INSTRUCTIONS
from tilewright.lang import parse_script
from tools.repair import MOST_TRIALS, mended

Arrays = list[NDArray[Any]]
MOST_FINDINGS = 5


@dataclass(frozen=True)
class Seeded:
    """made: the kernel of a text. inputs: what it is called with. right: the right kernel, and its own inputs,
    which has other shapes where a mistake has taken away a value that the kernel writes down.
    """

    name: str
    text: str
    made: Callable[[str], Any]
    inputs: Callable[[], Arrays]
    target: str
    right: Callable[[], tuple[Any, Arrays]]

    def judge(self) -> Callable[[str], Sequence[Finding]]:
        """What is found in a text, with wrong results."""
        with patch.dict(INSTRUCTIONS, UNITS):
            right, wanted = self.right()
            tw.compile(right, self.target).simulate(*wanted, check="none")

        def judge(text: str) -> Sequence[Finding]:
            found = self.inputs()
            with patch.dict(INSTRUCTIONS, UNITS):
                try:
                    made = self.made(text)
                except (TilewrightError, NameError, SyntaxError) as error:  # a step outside of the kernel is Python's
                    return (Finding("kernel", str(error)),)
                verdict = check(made, *found, target=self.target, max_findings=MOST_FINDINGS)
                if verdict.findings:
                    return verdict.findings
                tw.compile(made, self.target).simulate(*found, check="none")
            alike = all(np.array_equal(a, b) for a, b in zip(found, wanted, strict=True) if a.shape == b.shape)
            return () if alike else (Finding("results", "other results"),)

        return judge


def of_model(mutant: Mutant) -> Seeded:
    """A mutant of a small kernel of `tests.model`."""

    def inputs(program: Program = mutant.program) -> Arrays:
        printer = Printer(program)
        arrays = [np.zeros(printer.length(name), printer.kind(name)) for name in printer.globals]
        return [*arrays, np.zeros(max(1, printer.results), np.uint32)]

    name, target = mutant.program.name, "sm_100a" if mutant.program.has_tmem else "sm_90a"
    return Seeded(
        name, Printer(mutant.program).text(), lambda text: kernel(text, name), inputs, target,
        lambda: (kernel(Printer(mutant.kernel).text(), name), inputs(mutant.kernel)),
    )  # fmt: skip


def of_pipeline(name: str, case: Case, wrong: str) -> Seeded:
    """A mistake in a pipeline of TMA copies or wgmma."""
    text = case.kernel(wrong).script()
    return Seeded(
        f"{name}, {wrong}", text, parse_script, case.inputs, "sm_90a", lambda: (case.kernel(""), case.inputs())
    )


PIPELINES = [of_pipeline(name, case, wrong) for name, case in CASES.items() for wrong in case.mistakes if wrong]


def harmful() -> Iterator[Mutant]:
    """The mutants that the oracle calls wrong."""
    letters = {name: dict(zip((one.what for one in _each(name)), row, strict=True)) for name, row in verdicts().items()}
    return (one for one in EVERY if letters[one.kernel.name][one.what] not in (CLEAN, UNDECIDED))


def _each(name: str) -> list[Mutant]:
    return mutants(next(one.kernel for one in EVERY if one.kernel.name == name))


def reach(what: str, every: Iterable[Seeded], *, kept: Path | None = None, trials: int = MOST_TRIALS) -> float:
    """The share of mistakes that are mended, printed with the names of those that are not.

    kept: a file of JSON, where what was tried is added; it is of one tree, and of these limits.
    """
    tried = json.loads(kept.read_text(encoding="utf-8")) if kept and kept.exists() else {}
    limits = {"trials": trials}
    if tried.setdefault("limits", limits) != limits:
        raise SystemExit(f"{kept} is of {tried['limits']}, not of {limits}")
    outcomes = tried.setdefault(what, {})
    names = []
    for seeded in every:
        names.append(seeded.name)
        if seeded.name not in outcomes:
            outcomes[seeded.name] = mended(seeded.text, seeded.judge(), trials=trials) is not None
            if kept:
                kept.write_text(json.dumps(tried, indent=1), encoding="utf-8")
    left = [name for name in names if not outcomes[name]]
    print(f"{what}: {len(names) - len(left)} of {len(names)} are mended; not: {'; '.join(left)}", flush=True)
    return 1 - len(left) / len(names)


if __name__ == "__main__":
    step, trials = map(int, sys.argv[1:3])
    kept = Path(sys.argv[3]) if len(sys.argv) > 3 else None
    reach("pipelines", PIPELINES, kept=kept, trials=trials)
    reach("mutants", map(of_model, [*harmful()][2::step]), kept=kept, trials=trials)
