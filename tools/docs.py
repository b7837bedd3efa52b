"""Files that ``make docs`` makes from the code: the reference pages, the stubs of ``T`` and ``Tx``, and pictures."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from math import prod
from pathlib import Path

from examples import block_scales, tensor_copy
from tilewright.dtypes import dtype
from tilewright.isa.forms import Ptx
from tilewright.isa.table import INSTRUCTIONS
from tilewright.lang.instructions import PAGES, tables
from tilewright.layout import Layout
from tilewright.ptx.flow import FLOW
from tilewright.ptx.instructions import OWN
from tilewright.view import memory_grid, plain, svg
from tools.api import api_files
from tools.course_pictures import course_pictures
from tools.instructions import instruction_files
from tools.language_stub import LANGUAGE_STUB, language_stub
from tools.names import NAMES_PAGE, names_page
from tools.pictures import step_pictures
from tools.plans import PLANS_PAGE, plans_page
from tools.primitives import PRIMITIVES_PAGE, STUB, primitives_page, stub
from tools.size import ROOT

DOCS = ROOT / "docs"
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
BEGIN, END = "<!-- made by make docs: {} -->", "<!-- end of {} -->"


def elsewhere_tables() -> str:
    """The names of other projects, a table for each."""
    lines = []
    for title, names in ((title, tables()[title]) for title in PAGES):
        lines += [f"## {title}", "", "| there | here |", "| --- | --- |"]
        lines += [f"| `{name}` | {_as_code(here)} |" for name, here in names.items()] + [""]
    return "\n".join(lines)


CODE = re.compile(r"\bTx?\.[\w.]+(?:\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))?")


def _as_code(here: str) -> str:
    """A text for a reader, with what is code in it marked as code."""
    try:
        ast.parse(here)
    except SyntaxError:
        return CODE.sub(r"`\g<0>`", here)
    return f"`{here}`"


def made() -> Mapping[Path, str]:
    """Every file that is made, with its text; of the page on tensor memory the parts between marks are."""
    files = {
        **api_files(),
        **instruction_files(),
        **step_pictures(),
        **course_pictures(),
        NAMES_PAGE: names_page(),
        PRIMITIVES_PAGE: primitives_page(),
        STUB: stub(),
        LANGUAGE_STUB: language_stub(),
    }
    text = TENSOR_PAGE.read_text(encoding="utf-8")
    for name, shows, layout, shape in PICTURES:
        grid = memory_grid(layout, shape, dtype("uint8"))
        files[DOCS / "pictures" / f"{name}.svg"] = svg(grid) + "\n"
        text = _between(text, name, PICTURE.format(name=name, shows=shows, text=plain(grid)))
    return {
        **files,
        TENSOR_PAGE: text,
        ELSEWHERE_PAGE: _between(ELSEWHERE_PAGE.read_text(encoding="utf-8"), "names", elsewhere_tables()),
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
                several = (len(set(texts.values())) for texts in form.wording.modifiers.values())
                counts[name] = counts.get(name, 0) + prod(several)
    rows = [f"| `{name}` | {number or 'all'} |" for name, number in sorted(counts.items()) if name]
    return "\n".join(["| opcode | spellings |", "| --- | --- |", *rows])


if __name__ == "__main__":
    for path, text in {**made(), PLANS_PAGE: plans_page()}.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        print(f"wrote {path.relative_to(ROOT)}")
