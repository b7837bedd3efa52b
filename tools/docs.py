"""Files that ``make docs`` makes from the code: the reference pages, the stub of ``Tx``, and pictures."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from math import prod
from pathlib import Path

from examples import block_scales, tensor_copy
from tilewright.dtypes import dtype
from tilewright.isa import CopyAtom, MmaAtom, WgmmaAtom, mma_atom, wgmma_atom
from tilewright.isa.atoms import ATOMS
from tilewright.isa.table import INSTRUCTIONS, REQUIRED, Form, Instruction, Ptx
from tilewright.lang.elsewhere import PAGES
from tilewright.layout import Layout
from tilewright.ptx.flow import FLOW
from tilewright.ptx.instructions import OWN
from tilewright.view import atom_grids, memory_grid, mma_grids, plain, svg
from tools.primitives import PRIMITIVES_PAGE, STUB, primitives_page, stub
from tools.size import ROOT

DOCS = ROOT / "docs"
PAGE = DOCS / "instructions.md"
ELSEWHERE_PAGE = DOCS / "coming_from.md"
CUDA_PAGE = DOCS / "check_cuda.md"
TENSOR_PAGE = DOCS / "tensor_memory.md"

# Of uint8 tiles in tensor memory: name of the picture, what it shows, layout, shape.
PICTURES: tuple[tuple[str, str, Layout, tuple[int, int]], ...] = (
    (
        "tensor_copy",
        "the 32 x 16 tile in all four quarters",
        tensor_copy.IN_EVERY_QUARTER,
        (tensor_copy.ROWS, tensor_copy.COLUMNS),
    ),
    (
        "block_scales",
        "the 128 x 16 scales, each in all four quarters",
        block_scales.IN_TENSOR,
        (block_scales.ROWS, block_scales.SCALES),
    ),
)
PICTURE = """\
![{shows}](pictures/{name}.svg)

<details><summary>as text</summary>

```text
{text}
```

</details>"""
PRODUCTS = (
    mma_atom("SM80_16x8x16_F32F16F16F32_TN"),
    wgmma_atom("SM90_64x8x16_F32F16F16_SS"),
    wgmma_atom("SM90_64x8x16_F32F16F16_RS"),
)
BEGIN, END = "<!-- made by make docs: {} -->", "<!-- end of {} -->"

_ELSEWHERE = """\
# Coming from CUDA, Triton, CuTe, NumPy

A kernel that uses one of these names gets an error that says what it is here. This page is made by `make docs` from
`tilewright/lang/elsewhere.py`.
"""
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
    yield from _atoms(row)
    yield from _drawn(row)


def _atoms(row: Instruction) -> Iterator[str]:
    """The names that CuTe has for copies by this instruction."""
    atoms = [atom for atom in ATOMS.values() if atom.instruction is row]
    if atoms:
        yield from ("CuTe's names, and its layouts, (thread, value) to bit:", "")
        yield from ("| atom | PTX | source | destination |", "| --- | --- | --- | --- |")
        for atom in atoms:
            yield f"| `{atom.name}` | `{atom.mnemonic}` | `{atom.source_cute}` | `{atom.destination_cute}` |"
        yield ""


def _drawn(row: Instruction) -> Iterator[str]:
    """Which lane has what, folded, of the smallest form that has a name in CuTe; `tilewright atom` draws the others."""
    atoms: tuple[CopyAtom | MmaAtom | WgmmaAtom, ...] = (*ATOMS.values(), *PRODUCTS)
    found = next((atom for atom in atoms if atom.instruction is row), None)
    if found is None:
        return
    grids = atom_grids(found) if isinstance(found, CopyAtom) else mma_grids(found)
    yield f"<details><summary>which lane holds what: <code>tilewright atom {found.name}</code></summary>"
    yield from ("", "```text", "\n".join(plain(grid).rstrip() for grid in grids), "```", "", "</details>", "")


def _form(row: Instruction, form: Form) -> Iterator[str]:
    yield f"- `{form.wording.template.replace('{{', '{').replace('}}', '}')}`: {form.arch}. {form.source}."
    if meaning := _meaning(form):
        yield f"  {meaning}"
    for modifier, spellings in form.wording.modifiers.items():
        if row.operand(modifier):  # an operand that may be left out
            yield f"  - {modifier}: {'left out' if None in spellings else 'given'}"
            continue
        choices = ", ".join(f"{value!r} `{text or 'nothing'}`" for value, text in spellings.items())
        yield f"  - {modifier}: {choices}"


def _meaning(form: Form) -> str:
    """The first paragraph of the docstring of a form's meaning, where that is a function of this project."""
    if not inspect.isfunction(form.meaning.execute):
        return ""
    first, *_ = (inspect.getdoc(form.meaning.execute) or "").split("\n\n")
    return " ".join(first.split())


def elsewhere_page() -> str:
    """The names of other projects, a table for each."""
    lines = [_ELSEWHERE]
    for title, names in PAGES.items():
        lines += [f"## {title}", "", "| there | here |", "| --- | --- |"]
        lines += [f"| `{name}` | {here} |" for name, here in names.items()] + [""]
    return "\n".join(lines)


def made() -> Mapping[Path, str]:
    """Every file that is made, with its text; of the page on tensor memory the parts between marks are."""
    files = {PAGE: page(), PRIMITIVES_PAGE: primitives_page(), STUB: stub(), ELSEWHERE_PAGE: elsewhere_page()}
    text = TENSOR_PAGE.read_text(encoding="utf-8")
    for name, shows, layout, shape in PICTURES:
        grid = memory_grid(layout, shape, dtype("uint8"))
        files[DOCS / "pictures" / f"{name}.svg"] = svg(grid) + "\n"
        text = _between(text, name, PICTURE.format(name=name, shows=shows, text=plain(grid)))
    return {
        **files,
        TENSOR_PAGE: text,
        CUDA_PAGE: _between(CUDA_PAGE.read_text(encoding="utf-8"), "opcodes", _opcodes()),
    }


def _between(text: str, name: str, made: str) -> str:
    """The text with what is made between the marks of that name."""
    before, begin, rest = text.partition(BEGIN.format(name))
    _, end, behind = rest.partition(END.format(name))
    return f"{before}{begin}\n{made}\n{end}{behind}"


def _opcodes() -> str:
    """PTX's opcodes by their first letter, with the number of spellings that the table has of each."""
    counts: dict[str, int] = dict.fromkeys((*OWN, *FLOW), 0)
    for row in INSTRUCTIONS.values():
        for form in row.forms:
            if isinstance(form.wording, Ptx):
                name = re.split(r"[.{\s]", form.wording.template)[0]
                counts[name] = counts.get(name, 0) + prod(len(values) for values in form.wording.modifiers.values())
    rows = [f"| `{name}` | {number or 'all'} |" for name, number in sorted(counts.items()) if name]
    return "\n".join(["| opcode | spellings |", "| --- | --- |", *rows])


if __name__ == "__main__":
    for path, text in made().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        print(f"wrote {path.relative_to(ROOT)}")
