"""Each litmus row has the verdict that the manual's rules give it: by the oracle, and by the simulator."""

from __future__ import annotations

import pytest

from tests.model.litmus import LITMUS, Litmus
from tests.model.mutants import CLEAN, heard
from tests.model.oracle import explore

HEARD = {
    "X": "RE",
    "P": "P",
    CLEAN: "O",
    "T": "T",
    "W": "W",
}  # what the simulator said -> the verdicts that this can mean


def named(row: Litmus) -> str:
    return row.program.name


@pytest.mark.parametrize("row", LITMUS, ids=named)
def test_the_oracle_gives_each_row_its_verdict(row: Litmus) -> None:
    found = explore(row.program, cut="R")

    assert found.is_complete
    assert (found.kind or "O") == row.verdict.replace("W", "R"), row.rule


@pytest.mark.parametrize("row", LITMUS, ids=named)
def test_the_simulator_gives_each_row_its_verdict(row: Litmus) -> None:
    assert row.verdict in HEARD[heard(row.program)], row.rule


def test_each_row_has_a_name_of_its_own() -> None:
    assert len({row.program.name for row in LITMUS}) == len(LITMUS)
