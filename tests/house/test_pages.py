"""The reference page shows the instruction table as it is."""

from __future__ import annotations

from tilewright.isa.table import INSTRUCTIONS
from tools.docs import PAGE, page


def test_the_reference_page_is_the_one_that_the_table_makes() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run make docs, and read what changed"


def test_every_instruction_and_form_is_on_the_page() -> None:
    text = page()

    assert [name for name in INSTRUCTIONS if f"## T.{name}(" not in text] == []
    assert text.count("\n- `") == sum(len(row.forms) for row in INSTRUCTIONS.values())
