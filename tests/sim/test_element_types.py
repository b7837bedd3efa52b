"""A copy copies: the whole table of element types and vector widths, on the simulator and through NVRTC."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tests.sim.element_types import KINDS, copying, filled, same_bits
from tilewright.cuda.nvrtc import assemble
from tilewright.dtypes import DType


@pytest.mark.parametrize("kind", KINDS)
def test_a_copy_through_every_memory_keeps_every_element(kind: DType) -> None:
    exe = tw.compile(copying(kind), "sm_90a")
    for lanes_inside in {False, kind.lanes > 1}:
        for check in ("all", "default", "none"):
            a = filled(kind, lanes_inside=lanes_inside)
            b = np.zeros_like(a)

            exe.simulate(a, b, check=check)

            assert same_bits(a, b), (check, a, b)


@pytest.mark.every(3)
@pytest.mark.parametrize("kind", KINDS)
def test_a_copy_of_every_type_assembles(kind: DType) -> None:
    assert assemble(tw.compile(copying(kind), "sm_90a").source("cuda"), "sm_90a").cubin
