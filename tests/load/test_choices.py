"""What a run may choose: a mistake that some choice shows is told with its name, and that choice shows it again."""

from __future__ import annotations

import re
from typing import Any

import pytest

import tilewright as tw
from tests.load.choices import CHOICES, LOCKED, STALE
from tests.load.shipped import Shipped, ints
from tilewright.errors import ArgumentError
from tilewright.sim.machine.precedence import NEVER, Late, Precedence
from tilewright.verdict import Verdict

BY_NAME = pytest.mark.parametrize("case", CHOICES, ids=lambda case: case.name)


def verdict(case: Shipped, *, right: bool, **options: Any) -> Verdict:
    kernel = tw.load_cu(case.version(right=right))[case.kernel]
    return tw.check(kernel, *case.args(), **case.launch, both=False, **options)


@BY_NAME
def test_a_mistake_is_found_and_replayed_by_the_choice_that_it_names(case: Shipped) -> None:
    found = verdict(case, right=False)
    told = [each for each in found.findings if re.search(case.told, each.message)]

    assert told
    again = verdict(case, right=False, replay=told[0].choice or "forwards")
    assert [each.message for each in again.findings] == [each.message for each in found.findings]


@BY_NAME
def test_a_fix_is_clean_however_much_is_explored(case: Shipped) -> None:
    found = verdict(case, right=True, explore=8)

    assert (found.status, found.findings) == ("clean", ())
    assert "forwards" in found.orders


def test_a_verdict_says_in_which_orders_its_kernel_ran() -> None:
    case = Shipped("", LOCKED, ints(1, 1), "", launch={"grid": 2, "block": 1})

    assert verdict(case, right=True, explore=2).orders[-2:] == ("seed:0", "seed:1")
    assert not any("seed" in order for order in verdict(case, right=True, explore=0).orders)


def test_waits_that_go_to_the_same_wait_again_alone_refuse_nothing() -> None:
    case = next(each for each in CHOICES if each.text is STALE)
    plain = case.version(right=True).replace("if (!tried(full + s, i / 2 & 1)) ", "")
    kernel = tw.load_cu(plain)["k"]

    assert "refuse:1" in verdict(case, right=True).orders
    assert "refuse:1" not in tw.check(kernel, *case.args(), **case.launch, both=False).orders


@pytest.mark.parametrize(
    "choice",
    [Precedence(), Precedence(backwards=True), Precedence(patient=True), Precedence(refuses=2), Precedence(seed=7),
     Precedence(late=Late(33, 32, 4)), Precedence(late=Late(0, 1, NEVER))],
    ids=str,
)  # fmt: skip
def test_the_name_of_a_choice_makes_it_again(choice: Precedence) -> None:
    assert Precedence.of(str(choice)) == choice


def test_what_is_no_name_of_a_choice_is_refused() -> None:
    with pytest.raises(ArgumentError, match="names no choice"):
        Precedence.of("sideways:3")
