"""A kernel mended by its findings alone: what a remedy says is done to its text, and judged again.

    python -m tools.repair kernel.py > mended.py
    python -m tools.repair kernel.cu --grid 4 --block 64 --arg x:f32[256] > mended.cu

A .cu file's statements are inserted and moved; what changes an instruction needs a kernel of ours.

This is what an agent can do without understanding a kernel. It reads the changes of a remedy (`Edit`), never a
sentence. `tests/explain/test_repair.py` counts how many seeded mistakes it mends.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice, product
from pathlib import Path

from tilewright.explain import Edit, Finding, Way
from tilewright.isa import INSTRUCTIONS
from tilewright.verdict import report_from

__all__ = ["edited", "mended"]

Judge = Callable[[str], Sequence[Finding]]
Lines = list[str]
MOST_ROUNDS = 5  # steps that are added to one kernel
MOST_PLACES = 40  # tried for one way
MOST_TRIALS = 120
KEPT = 3  # texts of a round from which the next one goes on


def mended(text: str, judge: Judge, *, trials: int = MOST_TRIALS, python: bool = True) -> str | None:
    """The text with the missing steps, once nothing is found any more; None where the remedies do not lead there.

    judge: the findings of a text, in which a text that is no kernel has one. trials: texts that are judged at most.
    python: is it a text of ours? Else it is CUDA C++.
    """
    best = [(judge(text), text)]
    if not best[0][0]:
        return text
    seen = {text}
    for _ in range(MOST_ROUNDS):
        found: list[tuple[Sequence[Finding], str]] = []
        for findings, before in best:
            for changed in _changes(before, findings, python=python):
                if changed not in seen and len(seen) <= trials:
                    seen.add(changed)
                    if not (left := judge(changed)):
                        return changed
                    found.append((left, changed))
        best = sorted(found, key=lambda each: _key(each[0]))[:KEPT]
    return None


def _key(findings: Sequence[Finding]) -> tuple[bool, bool, int, int]:
    """How far a text is from clean: is it no kernel, does it come to no end, how many findings, how many errors."""
    unfit = any(each.kind in ("kernel", "dispatch", "instruction", "argument") for each in findings)
    hangs = any(each.kind in ("deadlock", "livelock", "divergence") for each in findings)
    return unfit, hangs, len(findings), sum(each.severity == "error" for each in findings)


def _changes(text: str, findings: Sequence[Finding], *, python: bool) -> Iterator[str]:
    """Texts with a remedy, in each of its ways and at each place that it may mean."""
    for finding in findings:
        for way in finding.remedy.ways if finding.remedy else ():
            if not any("..." in edit.text for edit in way):
                yield from islice(edited(text, way, python=python), MOST_PLACES)


def edited(text: str, way: Way, *, python: bool = True) -> Iterator[str]:
    """The texts that a way may mean: its changes belong together, each at one of its places, the last lines first."""
    lines = text.splitlines()
    if not python and any(edit.how != "insert" for edit in way):
        return
    for some in sorted(product(*(list(_places(lines, edit)) for edit in way)), key=_spread):
        changed = [*lines]
        for place in sorted(some, key=lambda each: -each[0]):
            changed[place[0] : place[1]] = place[2]
        made = "\n".join(changed) + "\n"
        if not python or _parses(made):
            yield made


Place = tuple[int, int, Lines]
"""Lines of a text, from one to before another, counted from 0, and what stands there instead."""


def _spread(some: Sequence[Place]) -> int:
    """How far apart the changes of a way are, where they may stand anywhere among the same lines."""
    return max(place[0] for place in some) - min(place[0] for place in some) if some else 0


def _places(lines: Lines, edit: Edit) -> Iterator[Place]:
    """What an edit may mean."""
    match edit.how:
        case "insert":
            last = edit.last or 0
            yield from _inserted(lines, [edit.text], *((edit.line, last) if edit.line else (1, len(lines) + 1)))
        case "move":
            yield from _moved(lines, edit)
        case "replace" if start_end := _statement(lines, edit.line):
            start, end = start_end
            yield start, end, [_indent(lines[start]) * " " + edit.text]
        case "atomic" if start_end := _statement(lines, edit.line):
            start, end = start_end
            if (code := _at_once(ast.parse("\n".join(line.strip() for line in lines[start:end])).body[0])) is not None:
                yield start, end, [_indent(lines[start]) * " " + code]
        case "keyword" | "operand" | "instruction":
            for node in _calls(lines, edit.line):
                if (changed := _with_argument(lines, node, edit)) is not None:
                    yield edit.line - 1, node.end_lineno or edit.line, changed


ATOMICS = {ast.Add: "add", ast.Sub: "sub", ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor"}


def _at_once(stmt: ast.stmt) -> str | None:
    """The atomic that does what ``x[i] = x[i] + y`` or ``x[i] += y`` does; None for any other statement."""
    match stmt:
        case ast.AugAssign(target=ast.Subscript() as place, op=op, value=other):
            pass
        case ast.Assign(targets=[ast.Subscript() as place], value=ast.BinOp(left=left, op=op, right=right)):
            own = ast.unparse(place)
            other = right if ast.unparse(left) == own else left
            if own not in (ast.unparse(left), ast.unparse(right)):
                return None
        case _:
            return None
    if type(op) not in ATOMICS:
        return None
    parts = place.slice.elts if isinstance(place.slice, ast.Tuple) else [place.slice]
    index = ", ".join(map(ast.unparse, parts))
    return f"T.cuda.atomic_{ATOMICS[type(op)]}({ast.unparse(place.value)}.ptr_to([{index}]), {ast.unparse(other)})"


def _inserted(lines: Lines, code: Lines, first: int, last: int) -> Iterator[Place]:
    """Code before each of these lines, as deep as that or as the one above; the last line first."""
    for number in range(min(last, len(lines) + 1), max(first, 1) - 1, -1):
        around = [lines[at] for at in (number - 1, number - 2) if 0 <= at < len(lines) and lines[at].strip()]
        for indent in dict.fromkeys(map(_indent, around)):
            yield number - 1, number - 1, [" " * indent + line for line in code]


def _moved(lines: Lines, edit: Edit) -> Iterator[Place]:
    """The whole text with a statement at another place: it is taken away, and its block keeps a `pass`."""
    if (found := _statement(lines, edit.line)) is None:
        return
    start, end = found
    depth = _indent(lines[start])
    taken = [line[depth:] for line in lines[start:end]]
    rest = [*lines[:start], *[""] * (end - start), *lines[end:]]
    if not _parses("\n".join(rest) + "\n"):
        rest[start] = " " * depth + "pass"
    first, last = (1, len(lines) + 1) if edit.first is None or edit.last is None else (edit.first, edit.last)
    for at, _, code in _inserted(rest, taken, first, last):
        if not start <= at <= end:
            yield 0, len(lines), [*rest[:at], *code, *rest[at:]]


def _statement(lines: Lines, number: int) -> tuple[int, int] | None:
    """The lines of the simple statement at a line, the first of them counted from 0."""
    nodes = (node for node in ast.walk(ast.parse("\n".join(lines) + "\n")) if isinstance(node, ast.stmt))
    found = next((node for node in nodes if node.lineno == number), None)
    if found is None:
        return None
    return number - 1, found.end_lineno or number


def _calls(lines: Lines, number: int) -> Iterator[ast.Call]:
    """The calls of instructions that begin at a line, the outer ones first."""
    for node in ast.walk(ast.parse("\n".join(lines) + "\n")):
        if isinstance(node, ast.Call) and node.lineno == number and _name(node) in INSTRUCTIONS:
            yield node


def _name(call: ast.Call) -> str:
    """``ptx.mbarrier.init`` of a call ``T.ptx.mbarrier.init(...)``."""
    return ast.unparse(call.func).removeprefix("T.")


def _with_argument(lines: Lines, call: ast.Call, edit: Edit) -> Lines | None:
    """The lines of a call with another argument; None where it has none of that name."""
    row = INSTRUCTIONS[_name(call)]
    made = ast.Call(call.func, [*call.args], [*call.keywords])
    positions = {name: at for at, name in enumerate(row.params)}
    at = positions.get(edit.name or "")
    had = made.args[at] if at is not None and at < len(made.args) else ast.Constant(None)
    value = _value(edit.text, had)
    if edit.how == "instruction":
        made.func = _value(f"T.{edit.name}", had)
        made.args += [value] * bool(edit.text)
    elif at is not None and at < len(made.args):
        made.args[at] = value
    elif edit.name in row.keywords or at is not None:
        made.keywords = [each for each in made.keywords if each.arg != edit.name] + [ast.keyword(edit.name, value)]
    else:
        return None
    first, last = lines[call.lineno - 1], lines[(call.end_lineno or call.lineno) - 1]
    return [first[: call.col_offset] + ast.unparse(made) + last[call.end_col_offset :]]


def _value(text: str, had: ast.expr) -> ast.expr:
    """A value as a node. had: what ``{}`` in it stands for."""
    if text == "1 - {}" and isinstance(had, ast.Constant) and isinstance(had.value, int):
        return ast.Constant(1 - had.value)
    return ast.parse(text.format(f"({ast.unparse(had)})") or "None", mode="eval").body


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _parses(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


def _checked(text: str, suffix: str, options: Sequence[str]) -> Sequence[Finding]:
    """What `tilewright check --json` finds in a text."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"kernel{suffix}"
        file.write_text(text, encoding="utf-8")
        command = [sys.executable, "-m", "tilewright", "check", str(file), "--json", *options]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    report = report_from(json.loads(done.stdout))
    return [finding for verdict in report.verdicts for finding in verdict.findings]


def main() -> int:
    """Mend the file that is named; its text goes to standard output. Exit code 1 where it cannot be mended."""
    file, *options = sys.argv[1:]
    suffix = Path(file).suffix
    judge = partial(_checked, suffix=suffix, options=options)
    found = mended(Path(file).read_text(encoding="utf-8"), judge, python=suffix == ".py")
    if found is None:
        return 1
    sys.stdout.write(found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
