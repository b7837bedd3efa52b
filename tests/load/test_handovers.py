"""Queues, locks and barriers built from memory are clean, and each step that is done wrong is a race."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tests.load.handovers import PATTERNS, PREAMBLE, Pattern
from tilewright.errors import SimulationError
from tilewright.load import LoadedModule

ROWS = [(pattern, *row) for pattern in PATTERNS for row in pattern.rows()]


@pytest.fixture(scope="module")
def kernels() -> LoadedModule:
    """All rows in one file, which is compiled once."""
    heads = "__global__ void k{}(u32* a, u32* b, u32* c, u32* out) {{ u32 t = threadIdx.x, cta = blockIdx.x; {} }}\n"
    return tw.load_cu(PREAMBLE + "".join(heads.format(k, row[2]) for k, row in enumerate(ROWS)), target="sm_90a")


@pytest.mark.every(3)
@pytest.mark.parametrize("number", range(len(ROWS)), ids=[row[1] for row in ROWS])
def test_a_handover_is_right_or_a_race(kernels: LoadedModule, number: int) -> None:
    pattern, _, _, is_right = ROWS[number]
    if is_right:
        out = ran(kernels, number, pattern)
        assert out[: len(pattern.wanted)].tolist() == list(pattern.wanted)
    else:
        with pytest.raises(SimulationError, match="race: "):
            ran(kernels, number, pattern)


def ran(kernels: LoadedModule, number: int, pattern: Pattern) -> np.ndarray:
    a, b, c, out = (np.zeros(256, np.uint32) for _ in range(4))
    a[: len(pattern.first)] = pattern.first
    cluster = pattern.ctas if pattern.is_cluster else None
    run = kernels[f"k{number}"].simulate(a, b, c, out, grid=pattern.ctas, block=pattern.threads, cluster=cluster)
    assert run.warnings == []
    return out
