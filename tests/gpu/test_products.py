"""Matrix products over generated types, layouts, memories, scopes and scalings: hardware, simulator and NumPy agree."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

import tilewright as tw
from tests.gpu.hardware import Bench
from tests.tile.products import Call, integers, meant
from tests.tile.test_gemm import calls
from tilewright.errors import TilewrightWarning

pytestmark = pytest.mark.gpu

PARTS = 8
DRAWN = settings(max_examples=24, phases=[Phase.generate], database=None, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("part", range(PARTS))
def test_a_product_on_hardware_is_what_numpy_says(part: int, bench: Bench) -> None:
    @seed(part)
    @DRAWN
    @given(calls())
    def multiply(call: Call) -> None:
        arrays = integers(call, part)
        given_ = {name: array.copy() for name, array in arrays.items()}
        made = call.kernel()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TilewrightWarning)
            exe = tw.compile(made, target="sm_90a")
            exe(*[given_[buffer.name.removesuffix("_global")] for buffer in made.buffers], on="gpu")
        bench.tally["kernels"] += 1
        bench.judge("D", np.ascontiguousarray(given_["D"]), np.ascontiguousarray(meant(call, arrays)))

    multiply()
