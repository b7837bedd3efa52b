"""Which checks there are, and how they are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.errors import ArgumentError
from tilewright.sim import CHECKS, parse_checks


def test_every_check_says_what_it_finds() -> None:
    assert {"bounds", "alignment", "poison", "races", "deadlock", "divergence", "livelock", "leaks"} <= set(CHECKS)
    assert all(CHECKS.values())


def test_every_check_is_in_the_page_of_the_simulator() -> None:
    page = (Path(__file__).parents[2] / "docs/simulator.md").read_text(encoding="utf-8")

    assert [name for name in CHECKS if f"`{name}`" not in page] == []


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ("all", set(CHECKS)),
        ("none", set()),
        ("default", {"bounds", "alignment", "deadlock"}),
        ("bounds, races", {"bounds", "races"}),
        (["poison", "default"], {"poison", "bounds", "alignment", "deadlock"}),
    ],
)
def test_checks_are_named_in_groups_lists_and_with_commas(given: object, names: set[str]) -> None:
    assert parse_checks(given) == names  # type: ignore[arg-type]  # a str or a list of them


def test_an_unknown_check_is_refused_with_the_choices() -> None:
    with pytest.raises(ArgumentError, match="unknown check 'bound'") as raised:
        parse_checks("bound")

    assert "did you mean 'bounds'" in str(raised.value)
