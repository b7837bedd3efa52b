"""The copies of `tests/sim/test_element_types.py` on hardware."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tests.sim.element_types import KINDS, copying, filled, same_bits
from tilewright.dtypes import DType

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("kind", KINDS)
def test_a_copy_through_every_memory_keeps_every_element(kind: DType) -> None:
    exe = tw.compile(copying(kind), "sm_90a")
    for lanes_inside in {False, kind.lanes > 1}:
        a = filled(kind, lanes_inside=lanes_inside)
        b = np.zeros_like(a)

        exe(a, b, on="gpu")

        assert same_bits(a, b)
