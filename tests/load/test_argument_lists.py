"""Whatever a kernel is called with, it runs, or one of our errors says why not: see `tests.load.argument_lists`."""

from __future__ import annotations

import pytest

from tests.load.argument_lists import complaint


@pytest.mark.parametrize("first", [0, *(pytest.param(n, marks=pytest.mark.long) for n in range(200, 10_000, 200))])
def test_a_list_of_arguments_ends_in_a_run_or_in_an_error_of_ours(first: int) -> None:
    assert {number: said for number in range(first, first + 200) if (said := complaint(number))} == {}
