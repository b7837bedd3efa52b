"""Each litmus row has the verdict that the manual's rules give it: by the oracle, and by the simulator."""

from __future__ import annotations

import pytest

from tests.model.litmus import LITMUS, Litmus
from tests.model.mutants import CLEAN, heard
from tests.model.oracle import explore

# Rows on which the simulator's verdict differs, and why.
KNOWN_WRONG: dict[str, str] = {
    "px-global-war: two loads": "of several loads of the same 16 bytes of global memory the last one is kept",
}

HEARD = {"X": "RE", "P": "P", CLEAN: "O", "W": "W"}  # what the simulator said -> the verdicts that this can mean


def named(row: Litmus) -> str:
    return row.program.name


@pytest.mark.parametrize("row", LITMUS, ids=named)
def test_the_oracle_gives_each_row_its_verdict(row: Litmus) -> None:
    found = explore(row.program, cut="R")

    assert found.is_complete
    assert (found.kind or "O") == row.verdict.replace("W", "R"), row.rule


@pytest.mark.parametrize("row", LITMUS, ids=named)
def test_the_simulator_gives_each_row_its_verdict(row: Litmus) -> None:
    is_right = row.verdict in HEARD[heard(row.program)]

    assert is_right == (row.program.name not in KNOWN_WRONG), row.rule


def test_rows_that_are_known_to_be_wrong_are_rows() -> None:
    assert set(KNOWN_WRONG) <= {row.program.name for row in LITMUS}
    assert len({row.program.name for row in LITMUS}) == len(LITMUS)
