"""The examples that compute, on hardware: the same arrays and the same NumPy as on the simulator."""

from __future__ import annotations

import pytest

import tilewright as tw
from tests.examples.compute import COMPUTE, module
from tests.gpu.hardware import Bench
from tilewright.ir import Kernel

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("name", COMPUTE)
def test_an_example_is_right_on_hardware(name: str, bench: Bench) -> None:
    def run(kernel: Kernel, *arrays: object) -> None:
        bench.tally["kernels"] += 1
        tw.compile(kernel, target="sm_90a")(*arrays, on="gpu")

    module(name).main(run)
