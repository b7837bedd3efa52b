"""Each barrier, wait and fence of ten Triton kernels removed, one at a time: is it reported?

    python -m benchmarks.triton_mutants [kernel ...]      # needs Triton and torch; writes results/triton_mutants.json

Those that are not reported were examined one by one: `REASONS` says why the kernel is right without each. As a further
test all that are not reported are removed together.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.measure import machine
from tilewright.errors import SimulationError
from tilewright.load.triton import load_triton

RESULT = Path(__file__).parent / "results" / "triton_mutants.json"
TARGETS = ("sm_80", "sm_90a")
STEPS = re.compile(
    r"^\s*(?:@!?%\w+\s+)?((?:bar|barrier)(?:\.warp)?\.sync|cp\.async\.wait_\w+|cp\.async\.bulk\.wait_group(?:\.read)?"
    r"|mbarrier\.(?:try|test)_wait[\w.]*|fence[\w.:]*|membar[\w.]*|wgmma\.(?:fence|wait_group))\b.*?;"
)
LIMIT_S = 60.0
TOGETHER = -1
WHY = {
    "other": "another barrier stands on the same way, before or after it",
    "same": "the same wait stands before it, and nothing was issued in between",
    "end": "no access of shared memory follows, and global memory is only added to",
    "one": "one thread does what comes before and what comes after, or an m-barrier counts it",
    "own": "each thread has itself waited for the m-barrier",
    "fence": "the fence before it came after these copies already",
}
REASONS: dict[tuple[str, str], dict[int, str]] = {
    ("matmul", "sm_80"): {2: "same", 3: "other", 5: "same", 6: "same"},
    ("matmul TMA", "sm_90a"): {0: "other", **dict.fromkeys((1, 2, 3, 4, 5, 12), "one"), 7: "own",
                               **dict.fromkeys((10, 11, 14, 15), "other"), 19: "end"},
    ("attention", "sm_90a"): {5: "fence"},
    ("reductions", "sm_80"): {12: "other", 14: "end", 15: "end"},
    ("reductions", "sm_90a"): {12: "other", 16: "end", 17: "end"},
    **{("histogram", target): dict.fromkeys((2, 3), "end") for target in TARGETS},
    **{("atomics", target): {**dict.fromkeys((1, 2, 4, 5, 6, 7, 10), "other"), 12: "one", 13: "one", 14: "end"}
       for target in TARGETS},
}  # fmt: skip
"""The reason why each needless step is needless (Triton 3.9)."""


@dataclass(frozen=True)
class Mutant:
    """The result of a kernel without a step. step: its opcode, the line in the PTX; number: which one of the kernel.

    told: the error or the warning; why: the reason, where it is silent and right.
    """

    kernel: str
    target: str
    step: str
    number: int
    line: int
    outcome: str
    told: str
    why: str = ""


def steps(text: str) -> list[tuple[int, str]]:
    """Line and opcode of each barrier, wait and fence."""
    found = ((number, STEPS.match(line)) for number, line in enumerate(text.split("\n")))
    return [(number, step[1]) for number, step in found if step]


def without(text: str, gone: list[tuple[int, str]]) -> str:
    """The text without steps; tests of m-barriers give true."""
    lines = text.split("\n")
    for number, step in gone:
        lines[number] = "mov.pred complete, -1;" if step.startswith("mbarrier") else ""
    return "\n".join(lines)


def outcome_of(make: Any, target: str, ptx: str) -> tuple[str, str]:
    """Run a text in the place of a kernel's own."""
    case = make()
    loaded = load_triton(case.kernel, *case.args, target=target, **case.options)
    try:
        run = loaded.simulate(case.grid, ptx=ptx, limit_s=LIMIT_S)
    except SimulationError as error:
        return "error", error.what
    if run.warnings:
        return "warning", run.warnings[0]
    return ("silent", "") if case.right() else ("wrong and silent", "")


def mutants(name: str, make: Any) -> Iterator[Mutant]:
    for target in TARGETS:
        case, silent = make(), []
        text = load_triton(case.kernel, *case.args, target=target, **case.options).ptx
        for number, (line, step) in enumerate(steps(text)):
            outcome, told = outcome_of(make, target, without(text, [(line, step)]))
            silent += [(line, step)] if outcome == "silent" else []
            reason = REASONS.get((name, target), {}).get(number, "")
            why = WHY.get(reason, "NOT LOOKED AT") if outcome == "silent" else ""
            yield Mutant(name, target, step, number, line + 1, outcome, told, why)
        if len(silent) > 1:
            yield Mutant(
                name, target, f"all {len(silent)}", TOGETHER, 0, *outcome_of(make, target, without(text, silent))
            )


def main(wanted: list[str]) -> None:
    cases = import_module("benchmarks.peers.triton_ten").CASES
    found: list[Mutant] = []
    for name in wanted or cases:
        for one in mutants(name, cases[name]):
            print(f"{name}, {one.target}, {one.step}, line {one.line}: {one.outcome} {one.told}{one.why}", flush=True)
            found.append(one)
    alone = [one for one in found if one.number != TOGETHER]
    told = [one for one in alone if one.outcome in ("error", "warning")]
    print(f"{len(told)} of {len(alone)} are reported; silent and wrong: "
          f"{sum(one.outcome == 'wrong and silent' for one in alone)}")  # fmt: skip
    if not wanted:
        result = {**machine(), "reported": len(told), "of": len(alone), "mutants": [asdict(one) for one in found]}
        RESULT.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
