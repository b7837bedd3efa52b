"""Every kind of call is a vector plan, or has a reason that the page on plans names."""

from __future__ import annotations

import random

import pytest

from tools.plans import CELLS, FORMS, PLANS_PAGE, Cell, Outcome, outcome, plans_page, reason

COPY = Cell("copy", ("shared", "global"), "cta", "static", "float32")


@pytest.mark.parametrize("form", FORMS)
def test_a_call_is_a_vector_plan_or_has_a_reason(form: str) -> None:
    cells = [cell for cell in CELLS if cell.form == form]
    for cell in random.Random(0).sample(cells, 40):
        found = outcome(cell)
        assert reason(cell, found), f"{cell} is {found}, and no reason accepts that"


def test_one_element_at_a_time_and_a_refusal_have_no_reason() -> None:
    assert reason(COPY, Outcome("gmem_smem", 16)) == "vector"
    assert not reason(COPY, Outcome("gmem_smem", 4))
    assert not reason(COPY, Outcome("fallback", 16))
    assert not reason(COPY, Outcome(refused="the dtypes differ"))


@pytest.mark.long
def test_the_page_on_plans_is_what_the_dispatcher_does() -> None:
    made = plans_page()
    assert PLANS_PAGE.read_text(encoding="utf-8") == made, "run make docs, and read what changed"
    assert "*open*" not in made
