"""Where integer arithmetic has no value, the simulator without its check gives what the hardware gives."""

from __future__ import annotations

import pytest

from tests.gpu.hardware import Bench
from tests.gpu.undefined import DIVISIONS, KINDS, SHIFTS, measured
from tilewright.dtypes import DType

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("op", [*DIVISIONS, *SHIFTS])
def test_values_without_a_meaning_are_those_of_the_hardware(kind: DType, op: str, bench: Bench) -> None:
    measured(kind, op, bench, judged=True)
