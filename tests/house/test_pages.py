"""Text about the code matches the code: pages made from it, and the reading orders of rooms."""

from __future__ import annotations

import re
from importlib import import_module
from pkgutil import iter_modules

import pytest

from tilewright.isa.atoms import ATOMS
from tilewright.isa.table import INSTRUCTIONS
from tools.docs import PICTURES, TENSOR_PAGE, made, page


def test_pages_and_pictures_are_those_that_the_code_makes() -> None:
    for path, text in made().items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name}: run make docs, and read what changed"


def test_the_pictures_of_tensor_memory_show_every_lane() -> None:
    files = made()
    pictures = [text for path, text in files.items() if path.suffix == ".svg"]

    assert len(pictures) == len(PICTURES)
    for number, (name, *_) in enumerate(PICTURES):
        assert f"](pictures/{name}.svg)" in files[TENSOR_PAGE]
        assert pictures[number].count(">31,0..3<") == 4
    assert files[TENSOR_PAGE].count("\n127  ") == len(PICTURES)


def test_every_instruction_and_form_is_on_the_page() -> None:
    text = page()

    assert [name for name in INSTRUCTIONS if f"## T.{name}(" not in text] == []
    assert text.count("\n- `") == sum(len(row.forms) for row in INSTRUCTIONS.values())


def test_every_copy_atom_stands_with_its_instruction() -> None:
    text = page()

    for atom in ATOMS.values():
        section = text.partition(f"## T.{atom.instruction.name}(")[2].partition("\n## ")[0]
        assert f"| `{atom.name}` | `{atom.mnemonic}` | `{atom.source_cute}` |" in section


# Instructions and checks are found by discovery: an addition touches no other file.
@pytest.mark.parametrize("room", ["sim", "sim.codegen", "sim.fast", "sim.machine", "sim.order", "sim.run", "tile"])
def test_every_module_has_its_place_in_the_reading_order_of_its_room(room: str) -> None:
    package = import_module(f"tilewright.{room}")
    listed = set(re.findall(r"\w+", package.__doc__ or ""))

    assert [info.name for info in iter_modules(package.__path__) if info.name not in listed] == []
