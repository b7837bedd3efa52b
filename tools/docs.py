"""Writes docs/instructions.md, the reference page of the instruction table: ``make docs``."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from tilewright.isa.table import INSTRUCTIONS, REQUIRED, Form, Instruction
from tools.size import ROOT

PAGE = ROOT / "docs" / "instructions.md"

_HEAD = """\
# Instructions

Every row of the instruction table, as kernels write it, with the forms that it takes, where each exists and what it
does. This page is made by `make docs` from `tilewright/isa/`.
"""


def page() -> str:
    """The whole page."""
    return "\n".join([_HEAD, *(line for name in sorted(INSTRUCTIONS) for line in _section(INSTRUCTIONS[name]))])


def _section(row: Instruction) -> Iterator[str]:
    keywords = (f"{key}" if default is REQUIRED else f"{key}={default!r}" for key, default in row.keywords.items())
    yield f"## T.{row.name}({', '.join([*row.params, *keywords])})"
    yield ""
    if row.doc:
        yield from (row.doc, "")
    yield f"Lanes: {row.lanes}."
    yield ""
    for name, (target, shift) in row.folds.items():
        yield from (f"{name}: added to `{target}`" + (f", {shift} bits up." if shift else "."), "")
    for form in row.forms:
        yield from _form(row, form)
    yield ""


def _form(row: Instruction, form: Form) -> Iterator[str]:
    yield f"- `{form.text.replace('{{', '{').replace('}}', '}')}`: {form.arch}. {form.source}."
    if meaning := _meaning(form):
        yield f"  {meaning}"
    for modifier, spellings in form.modifiers.items():
        if row.operand(modifier):  # an operand that may be left out
            yield f"  - {modifier}: {'left out' if None in spellings else 'given'}"
            continue
        choices = ", ".join(f"{value!r} `{text or 'nothing'}`" for value, text in spellings.items())
        yield f"  - {modifier}: {choices}"


def _meaning(form: Form) -> str:
    """The first paragraph of what the form's meaning says of itself, where the meaning is a function of ours."""
    if not inspect.isfunction(form.execute):
        return ""
    first, *_ = (inspect.getdoc(form.execute) or "").split("\n\n")
    return " ".join(first.split())


if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}")
