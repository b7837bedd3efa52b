"""Architectures and what a form asks of one."""

from __future__ import annotations

import pytest

from tilewright import isa
from tilewright.errors import TargetError


def test_since_admits_later_numbers_with_any_suffix() -> None:
    admitted = {str(row) for row in isa.since("sm_90").archs()}

    assert {"sm_90", "sm_90a", "sm_100", "sm_120f"} <= admitted
    assert "sm_89" not in admitted


def test_only_admits_what_it_names() -> None:
    requirement = isa.only("sm_100a", "sm_120a")

    assert [str(row) for row in requirement.archs()] == ["sm_100a", "sm_120a"]
    assert not requirement.admits(isa.arch("sm_100"))


def test_the_default_is_sm_90a_where_it_will_do() -> None:
    assert str(isa.default_arch(())) == "sm_90a"
    assert str(isa.default_arch((isa.since("sm_100"),))) == "sm_100"
    assert str(isa.default_arch((isa.only("sm_100a", "sm_103a"), isa.since("sm_103")))) == "sm_103a"


def test_no_default_where_two_forms_exclude_each_other() -> None:
    with pytest.raises(TargetError, match="no architecture has every instruction"):
        isa.default_arch((isa.only("sm_90a"), isa.since("sm_100")))


@pytest.mark.parametrize("name", ["sm_91", "90a", "sm_90A", "SM_90", "sm_75a"])
def test_an_unknown_architecture_is_refused_with_the_known_ones(name: str) -> None:
    with pytest.raises(TargetError, match="unknown architecture") as raised:
        isa.arch(name)
    assert "sm_90a" in str(raised.value.allowed)
