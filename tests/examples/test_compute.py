"""The examples that compute: right under every check of the simulator, short, and assembled for two architectures."""

from __future__ import annotations

from typing import Any

import pytest

import tilewright as tw
from tests.examples.compute import COMPUTE, EXAMPLES, kernels, module


@pytest.mark.parametrize("name", COMPUTE)
def test_an_example_is_right_under_every_check(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    def run(kernel: Any, *arrays: object) -> None:
        assert tw.simulate(kernel, *arrays, check="all").warnings == []

    module(name).main(run)

    assert "/" in capsys.readouterr().out  # the report of a call: primitive/variant


@pytest.mark.parametrize("name", COMPUTE)
def test_an_example_has_fewer_than_60_lines(name: str) -> None:
    assert len((EXAMPLES / f"{name}.py").read_text(encoding="utf-8").splitlines()) < 60


@pytest.mark.every(3)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("name", COMPUTE)
def test_an_example_assembles(name: str, arch: str) -> None:
    for kernel in kernels(name):
        assert tw.compile(kernel, target=arch).cubin


@pytest.mark.parametrize("name", COMPUTE)
def test_no_call_of_an_example_goes_element_by_element(name: str) -> None:
    entries = [entry for kernel in kernels(name) for entry in tw.compile(kernel, target="sm_90a").report.entries]

    assert entries
    assert {entry.variant for entry in entries} & {"fallback"} == set()
