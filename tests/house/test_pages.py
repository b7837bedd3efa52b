"""Text about the code matches the code: pages made from it, and the reading orders of rooms."""

from __future__ import annotations

import re
from importlib import import_module
from pkgutil import iter_modules

import pytest

import tilewright.sim.order
from tilewright.isa.atoms import ATOMS
from tilewright.isa.table import INSTRUCTIONS
from tilewright.lang import T
from tools.docs import PICTURES, TENSOR_PAGE, made
from tools.instructions import FOLDER, INDEX, family_of, instruction_files, instruction_names
from tools.names import names_page


def test_pages_and_pictures_are_those_that_the_code_makes() -> None:
    for path, text in made().items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name}: run make docs, and read what changed"


def test_the_pictures_of_tensor_memory_show_every_lane() -> None:
    files = made()
    for name, *_ in PICTURES:
        assert f"](pictures/{name}.svg)" in files[TENSOR_PAGE]
        assert files[TENSOR_PAGE.parent / "pictures" / f"{name}.svg"].count(">31,0..3<") == 4
    assert files[TENSOR_PAGE].count("\n127  ") == len(PICTURES)


def test_every_instruction_is_in_the_index_and_on_the_page_of_its_family() -> None:
    files = instruction_files()

    for name in instruction_names():
        text = files[FOLDER / f"{family_of(name).file}.md"]
        assert f"| [`T.{name}`](instructions/{family_of(name).file}.md" in files[INDEX]
        row = INSTRUCTIONS.get(name)
        assert f"## T.{name}\n" in text or (row and f"| `T.{name}({', '.join(row.params)})` | {row.doc} |" in text)


def test_every_text_and_value_of_a_form_is_in_the_section_of_its_instruction() -> None:
    files = instruction_files()

    for name, row in INSTRUCTIONS.items():
        page = files[FOLDER / f"{family_of(name).file}.md"]
        if f"## T.{name}\n" not in page:
            continue
        section = page.partition(f"## T.{name}\n")[2].partition("\n## ")[0]
        for form in row.forms:
            template = form.wording.template.replace("{{", "{").replace("}}", "}")
            assert f"- `{template}`: {form.arch}" in section.replace("`` ", "`")
            for modifier, spellings in form.wording.modifiers.items():
                shown = section.partition(f"| `{modifier}` | ")[2].partition(" |\n")[0]
                by_ends = re.search(r", \.\.\. to \d+$", shown)
                alone = not shown and list(spellings) == [row.keywords.get(modifier)]
                told = [value for value in spellings if f"`{value!r}`" in shown]
                assert by_ends or alone or row.operand(modifier) or told == list(spellings)


def test_every_copy_atom_stands_with_its_instruction() -> None:
    text = instruction_files()[FOLDER / "matrices.md"]

    for atom in ATOMS.values():
        section = text.partition(f"## T.{atom.instruction.name}\n")[2].partition("\n## ")[0]
        assert f"| `{atom.name}` | `{atom.mnemonic}` | `{atom.source_cute}` |" in section


def test_every_name_of_the_language_is_on_a_page() -> None:
    page = names_page() + instruction_files()[INDEX]

    for space in ("ptx", "cuda"):
        assert [name for name in dir(getattr(T, space)) if f"[`T.{space}.{name}" not in page] == []
    own = {"S", "R", "TileLayout", "SwizzleLayout", "ComposeLayout", "SwizzleMode", "Iter", "Axis"}  # layouts.md
    spaces = {name for name in dir(T) if f"`T.{name}." in page}
    assert [name for name in dir(T) if not re.search(rf"`T\.{name}\b", page) and name not in own | spaces] == []


FOLDERS_OF_ORDER = [f"sim.order.{info.name}" for info in iter_modules(tilewright.sim.order.__path__) if info.ispkg]
ROOMS = ["sim", "sim.codegen", "sim.fast", "sim.machine", "sim.order", *FOLDERS_OF_ORDER, "sim.run", "tile",
         "advise", "cuda", "ir", "layout", "lower", "view", "view.look"]  # fmt: skip


# Instructions and checks are found by discovery: an addition touches no other file.
@pytest.mark.parametrize("room", ROOMS)
def test_every_module_has_its_place_in_the_reading_order_of_its_room(room: str) -> None:
    package = import_module(f"tilewright.{room}")
    listed = set(re.findall(r"\w+", package.__doc__ or ""))

    assert [info.name for info in iter_modules(package.__path__) if info.name not in listed] == []
