"""What of docs/ is made from the code shows the code as it is."""

from __future__ import annotations

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
