"""The text of tiny programs, the oracle's verdicts on them, and their kernels."""

from __future__ import annotations

import pytest

from tests.model.oracle import explore
from tests.model.printing import Printer, simulated
from tests.model.program import Op, Program, parsed, program


def test_an_operation_is_read_with_all_that_it_says() -> None:
    assert parsed("1:?r=2 cas.acq.cta l=0>1") == Op("cas", "l", "acquire", "cta", "0>1", 1, guard=("r", 2))
    assert parsed("R.vol.b64 x->r") == Op("R", "x", "volatile", "sys", into="r", nbytes=8)
    assert parsed("bararr 1/2") == Op("bararr", "1", value="2", lane=None)
    assert parsed("cp t s") == Op("cp", "t", source="s")


def test_what_is_no_operation_is_refused() -> None:
    with pytest.raises(AssertionError, match="is no operation"):
        parsed("W x = = 1")


def ctas(*texts: str) -> Program:
    return program("p", {f"{i}.0": text for i, text in enumerate(texts)})


def test_all_interleavings_of_strong_accesses_are_walked() -> None:
    found = explore(ctas("W.rlx.gpu x=1", "W.rlx.gpu x=2", "R.rlx.gpu x"))

    assert {dict(outcome)[("x", -1)] for outcome in found.outcomes} == {1, 2}
    assert len(found.outcomes) == 6  # each value that was read, with each that was last
    assert not found.kinds


def test_a_poll_that_nobody_answers_is_a_deadlock() -> None:
    assert explore(ctas("R.acq.gpu f=1")).kinds == {"D"}


def test_locks_in_opposite_order_are_a_deadlock_of_some_interleavings() -> None:
    one, other = "cas.acq.gpu {0}=0>1; cas.acq.gpu {1}=0>1; W.rel.gpu {1}=0; W.rel.gpu {0}=0".format, ("l", "k")

    found = explore(ctas(one(*other), one(*other[::-1])))

    assert found.kinds == {"D"}
    assert found.outcomes


def test_a_program_beyond_the_bound_is_undecided() -> None:
    text = "; ".join(["add.rlx.gpu x"] * 6)

    assert not explore(ctas(text, text, text), most=100).is_complete


def test_lanes_that_act_together_are_printed_together() -> None:
    text = Printer(program("p", {"0.0": "W s; 1:W sa; ws; 1:R s"})).text()

    assert text.count("if lane == 1:") == 2
    assert "            T.cuda.warp_sync()\n" in text


def test_values_of_the_oracle_are_those_of_the_simulator() -> None:
    made = ctas("W x=3; W.rel.gpu f", "R.acq.gpu f=1; R x->r; W y=r+4")

    said, _, values = simulated(made)

    assert said == "ok"
    assert values == {"f": 1, "x": 3, "y": 7}
    (outcome,) = explore(made).outcomes
    named = {place[0]: value for place, value in outcome if isinstance(place, tuple) and isinstance(place[0], str)}
    assert named == values
