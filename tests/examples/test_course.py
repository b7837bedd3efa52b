"""The course: every step runs clean, and its exercise fails until the missing line is there."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

import tilewright as tw
from tests.examples.compute import EXAMPLES

course = import_module("examples.course.__main__")
SAID = {
    1: "without a proxy fence",
    2: "under way",
    3: "nobody there has announced",
    4: "deadlock",
    5: "without a fence between their threads",
    6: "may still not have read",
    7: "deadlock",
    8: "deadlock",
    9: "deadlock",
    10: "may still not have read",
}


def test_there_are_ten_steps() -> None:
    assert list(SAID) == course.STEPS == list(range(1, 11))


@pytest.mark.parametrize("number", SAID)
def test_a_step_is_right_and_no_check_speaks(number: int) -> None:
    found = course.verdict(course.step(number))

    assert found.status == "clean", str(found)
    assert found.findings == ()


@pytest.mark.parametrize("number", SAID)
def test_a_step_assembles(number: int) -> None:
    text = tw.compile(course.step(number).kernel, "sm_100a").source("ptx")

    assert f"tcgen05.mma.cta_group::{1 + (number >= 8)}.kind::f16" in text


@pytest.mark.parametrize("number", SAID)
def test_an_exercise_says_what_is_wrong_until_it_is_solved(number: int, tmp_path: Path) -> None:
    found = course.verdict(course.step(number, "", tmp_path))

    assert any(SAID[number] in str(each) for each in found.findings), str(found)


def test_the_solution_of_an_exercise_is_taken(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert course.main(["1", 'T.ptx.fence.proxy_async("shared::cta")']) == 0
    assert course.main(["1", ""]) == 1
    assert course.main(["11"]) == 2
    assert "kernel: clean" in capsys.readouterr().out


def test_each_step_marks_one_line() -> None:
    for path in EXAMPLES.glob("course/step_*.py"):
        assert len(course.MARK.findall(path.read_text("utf-8"))) == 1, path.name
        assert len(path.read_text("utf-8").splitlines()) < 125, path.name
