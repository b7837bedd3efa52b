"""Mutants of the kernels: each barrier, fence, wait, commit, count, phase and proxy fence removed, moved or weakened.

``python -m tests.model.mutants`` judges all of them by the oracle and by the simulator, and rewrites the two files of
data: verdicts.json, a letter for each mutant in the order of `mutants`, and survivors.json, the mutants on which the
simulator differs.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path

from tests.model.kernels import KERNELS
from tests.model.oracle import Verdict, explore
from tests.model.printing import simulated
from tests.model.program import WHOLE_WARP, Op, Program

HERE = Path(__file__).parent
VERDICTS, SURVIVORS = HERE / "verdicts.json", HERE / "survivors.json"
CLEAN, UNDECIDED = ".", "?"
KINDS = {
    "R": "race",
    "E": "protocol",
    "D": "deadlock",
    "P": "proxy fence",
    "T": "fence of tensor memory",
    "V": "values",
}
SAYS = {
    CLEAN: "not found",
    "X": "refused",
    "P": "warned of",
    "T": "warned of",
    "W": "warned of",
    "U": "found, but not what is missing",
}
# (kernel, the oracle's letter) -> why the simulator's verdict on such mutants differs.
WHY: dict[tuple[str, str], str] = {}
STEPS = (
    "F",
    "fpa",
    "arr",
    "wait",
    "commit",
    "init",
    "cpcom",
    "cpwait",
    "cparr",
    *(kind for kind in WHOLE_WARP if kind not in ("shfl", "tld", "tst", "use")),
)
WEAKER = {"release": ("relaxed",), "acquire": ("relaxed",), "acq_rel": ("acquire", "release"), "sc": ("acq_rel",)}
ORDERED = ("W", "R", "cas", "add", "red", "F", "arr", "wait", "carr")


@dataclass(frozen=True)
class Mutant:
    """kernel: the original's name. what: the change."""

    kernel: Program
    program: Program
    what: str


def is_step(op: Op) -> bool:
    """Does the operation order something? Polls are waits, too."""
    return op.kind in STEPS or (op.kind == "R" and bool(op.value))


Change = tuple[str, tuple[Op, ...]]


def _moved(ops: tuple[Op, ...], at: int) -> Iterator[Change]:
    op = ops[at]
    rest = (*ops[:at], *ops[at + 1 :])
    if is_step(op):
        yield "removed", rest
        for where, to in (("earlier", at - 1), ("later", at + 1), ("first", 0), ("last", len(rest))):
            if 0 <= to <= len(rest):
                yield where, (*rest[:to], op, *rest[to:])


def _changed(ops: tuple[Op, ...], at: int) -> Iterator[Change]:
    op = ops[at]
    others: list[tuple[str, Op]] = []
    if op.kind in ORDERED and op.sem in WEAKER:
        others += [(weaker, replace(op, sem=weaker)) for weaker in WEAKER[op.sem]]
    is_remote_arrival = op.kind == "arr" and "@" in op.place  # which has no such scope
    if op.kind in ORDERED and op.scope in ("gpu", "cluster") and op.kind != "carr" and not is_remote_arrival:
        others.append(("cta", replace(op, scope="cta")))
    if op.kind == "wait":
        others.append(("other phase", replace(op, value=str(1 - int(op.value)))))
    if op.kind in ("bar", "bararr"):
        others.append(("other barrier", replace(op, place="7")))
    if op.kind == "init":
        others.append(("count", replace(op, value=str(int(op.value) + 1))))
    if op.kind == "fpa":
        others.append(("other space", replace(op, kind="fpag")))
    yield from ((what, (*ops[:at], other, *ops[at + 1 :])) for what, other in others)


def _of_warp(ops: tuple[Op, ...]) -> Iterator[Change]:
    for at in range(len(ops)):
        for change in (_moved, _changed):
            for what, then in change(ops, at):
                yield f"{at} {what}", then


def mutants(kernel: Program) -> list[Mutant]:
    """All mutants that differ from the kernel."""
    found: dict[object, Mutant] = {}
    for warp, ops in kernel.warps.items():
        for what, then in _of_warp(ops):
            if then != ops:
                made = kernel.with_warp(warp, then, f"{kernel.name}, {warp[0]}.{warp[1]}:{what}")
                found.setdefault((warp, then), Mutant(kernel, made, f"{warp[0]}.{warp[1]}:{what}"))
    for name, count in kernel.counts.items():
        for other in {count + 1, max(1, count - 1)} - {count}:
            made = replace(kernel, name=f"{kernel.name}, {name} counts {other}", counts={**kernel.counts, name: other})
            found[name, other] = Mutant(kernel, made, f"{name} counts {other}")
    return list(found.values())


EVERY = [mutant for kernel in KERNELS for mutant in mutants(kernel)]


def judged(mutant: Mutant, clean: Verdict) -> str:
    """The oracle's letter: a key of `KINDS`, `CLEAN` or `UNDECIDED`."""
    verdict = explore(mutant.program)
    if verdict.kind:
        return verdict.kind
    if not verdict.is_complete:
        return UNDECIDED
    return CLEAN if verdict.outcomes <= clean.outcomes else "V"


def heard(program: Program) -> str:
    """The simulator's letter: X an error, U one that does not say what is missing, P a warning of a proxy fence, T
    one of the fences of tensor memory, W another one, `CLEAN`.
    """
    said, words, _ = simulated(program)
    if said == "warned":
        return "P" if "proxy" in words else "T" if "tensor memory that" in words else "W"
    if said == "error":
        return "X" if any(field in words for field in ("  try:", "  allowed:", "livelock: ")) else "U"
    return CLEAN


def agrees(verdict: str, said: str) -> bool:
    """Do the two agree: harm is reported, what only lacks fences of tensor memory is warned of, and a clean
    program is not reported?"""
    alike = (verdict == CLEAN) == (said == CLEAN) and (verdict == "T") == (said == "T")
    return verdict == UNDECIDED or (said != "U" and alike)


def reason(mutant: Mutant, verdict: str, said: str) -> str:
    """Why the oracle and the simulator differ, as far as that is known."""
    why = WHY.get((mutant.kernel.name, verdict), "not known")
    return f"{KINDS.get(verdict, 'clean')} {SAYS[said]}: {why}"


def verdicts() -> dict[str, str]:
    """For each kernel the letters of its mutants, as they are in the repository."""
    found: dict[str, str] = json.loads(VERDICTS.read_text())["mutants"]
    return found


def survivors() -> dict[str, str]:
    """Names of mutants, and the simulator's verdict on each."""
    found: dict[str, str] = json.loads(SURVIVORS.read_text())["mutants"]
    return found


def _written(path: Path, counts: Counter[str], mutants: dict[str, str]) -> None:
    data = {"counts": {KINDS.get(kind, kind): n for kind, n in sorted(counts.items())}, "mutants": mutants}
    path.write_text(json.dumps(data, indent=0) + "\n")


def asked(kernel: Program) -> tuple[str, dict[str, str]]:
    """The oracle's letters for the mutants of a kernel, and the mutants on which the simulator differs."""
    clean = explore(kernel)
    assert clean.is_complete
    assert not clean.kinds, f"{kernel.name} is not clean: {clean.kinds}"
    letters, missed = "", {}
    for mutant in mutants(kernel):
        letter, said = judged(mutant, clean), heard(mutant.program)
        letters += letter
        if not agrees(letter, said):
            missed[mutant.program.name] = reason(mutant, letter, said)
    return letters, missed


def main(say: Callable[[str], None] = print) -> None:
    letters: dict[str, str] = {}
    missed: dict[str, str] = {}
    counts: Counter[str] = Counter()
    misses: Counter[str] = Counter()
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        for kernel, (found, why) in zip(KERNELS, pool.map(asked, KERNELS), strict=True):
            letters[kernel.name] = found
            counts.update(found)
            missed |= why
            misses.update(why.values())
            say(f"{kernel.name}: {found}")
    counts.update({"all": sum(counts.values()), "kernels": len(KERNELS)})
    _written(VERDICTS, counts, letters)
    _written(SURVIVORS, misses, missed)
    say(f"{dict(counts)} {dict(misses)}")


if __name__ == "__main__":
    main()
