"""The hint of a race report helps: litmus rows that lack a step are right once it is pasted in."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.model.litmus import LITMUS, Litmus
from tests.model.printing import Printer, simulated

MOST_STEPS = 4  # that one report after the other may name
Lines = list[str]


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _worded(lines: Lines, word: str, value: str, number: str) -> None:
    """A keyword of the last call in a line gets a value."""
    at = int(number) - 1
    given = f'{word}="{value}"'
    if re.search(rf'{word}="[a-z_]+"', lines[at]):
        lines[at] = re.sub(rf'{word}="[a-z_]+"', given, lines[at])
    else:
        lines[at] = re.sub(r"\)([^)]*)$", rf", {given})\1", lines[at])


def _fence_scope(lines: Lines, scope: str, number: str) -> None:
    at = int(number) - 1
    lines[at] = re.sub(r'"[a-z]+"\)$', f'"{scope}")', lines[at])


def _before(lines: Lines, call: str, number: str) -> None:
    at = int(number) - 1
    lines.insert(at, " " * _indent(lines[at]) + call)


def _after(lines: Lines, call: str, number: str) -> None:
    at = int(number) - 1
    end = at + 1
    while end < len(lines) and _indent(lines[end]) > _indent(lines[at]):
        end += 1
    lines.insert(end, " " * _indent(lines[at]) + call)


def _between(lines: Lines, call: str, first: str, then: str) -> None:
    """Where the condition of the later line begins."""
    at = int(then) - 1
    while not lines[at].lstrip().startswith("if lane"):
        at -= 1
        if at < int(first):
            at = int(then) - 1
            break
    lines.insert(at, " " * _indent(lines[at]) + call)


def _strong(lines: Lines, name: str, sem: str, scope: str, number: str) -> None:
    at = int(number) - 1
    order = f'sem="{sem}", scope="{scope}"'
    if name == "st":
        lines[at] = re.sub(r"(\w+)\[0\] = (\w+)$", rf"T.ptx.st(\1.ptr_to([0]), T.uint32(\2), {order})", lines[at])
    else:
        lines[at] = re.sub(r"\b([a-z])\[0\]", rf"T.ptx.ld(\1.ptr_to([0]), {order})", lines[at])


PASTED: tuple[tuple[str, Callable[..., None]], ...] = (
    (r"(sem|scope)='(\w+)' at line (\d+)", _worded),
    (r"scope '(\w+)' of the fence at line (\d+)", _fence_scope),
    (r"(T\.ptx\.fence\(.*\)) before line (\d+)", _before),
    (r"(T\.ptx\.fence\(.*\)) after line (\d+)", _after),
    (r"(T\.cuda\.warp_sync\(\)) between line (\d+) and line (\d+)", _between),
    (r"T\.ptx\.(st|ld)\(\.\.\., sem='(\w+)', scope='(\w+)'\), or stronger, at line (\d+)", _strong),
)


def pasted(text: str, hint: str) -> str:
    """The kernel with the step of the hint; the last line first, so that line numbers stay valid."""
    lines = text.splitlines()
    by_line = sorted(hint.split("; "), key=lambda one: -int(re.findall(r"line (\d+)", one)[-1]))
    for one in by_line:
        paste, words = next((do, match.groups()) for form, do in PASTED if (match := re.fullmatch(form, one)))
        paste(lines, *words)
    return "\n".join(lines) + "\n"


def hinted(words: str) -> str:
    """The hint of the report."""
    found = re.search(r"  try: +(.*)", words)
    return found[1] if found else ""


def is_of_handovers(hint: str) -> bool:
    return bool(hint) and all(any(re.search(form, one) for form, _ in PASTED) for one in hint.split("; "))


ROWS = [row for row in LITMUS if row.verdict == "R"]
BARRIER = "sc-bar: of the CTA before, "  # one of the CTA helps these
WITHOUT = {  # no order, no fence and no scope would help these
    *(
        "mp-store",
        "mp-red",
        "mp-none",
        "mp-fence: a weak flag",
        "mp-fence: no flag",
        "sb-sc",
        "mixed-size",
        "cas-write",
    ),
    *(
        row.program.name
        for row in ROWS
        if row.program.name.startswith(
            ("tc-", "bar", "cpa", "px-", "tma-", "sync_restrict", "mb-gap", "mb-init", "mb-remote: after", BARRIER)
        )
    ),
}


@pytest.mark.parametrize(
    "row", [row for row in ROWS if row.program.name not in WITHOUT], ids=lambda row: row.program.name
)
def test_a_kernel_is_right_with_the_advice_that_it_got(row: Litmus) -> None:
    text = Printer(row.program).text()
    for _ in range(MOST_STEPS):
        said, words, _ = simulated(row.program, text)
        if said == "ok":
            break
        assert is_of_handovers(hinted(words)), words
        text = pasted(text, hinted(words))

    assert said == "ok", words
