"""A pointer of run time may lead each lane to another local variable of its thread; each has its own bounds."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw

LEAST = """
#include <algorithm>
__global__ void least(const float* x, float* out, int n) {
    float best = x[threadIdx.x], other;
    for (int i = 0; i < n; ++i) {
        other = x[(threadIdx.x + i) % 32] + i;
        best = std::min(best, other);
    }
    out[threadIdx.x] = best;
}
"""

CHOSEN = """
__global__ void chosen(const int* which, float* out) {
    float low[4], high[4];
    for (int i = 0; i < 4; ++i) { low[i] = i; high[i] = 10 + i; }
    float* p = which[threadIdx.x] ? high : low;
    out[threadIdx.x] = p[AT];
}
"""


@pytest.mark.parametrize("options", [(), ("-G",)], ids=["optimised", "as written"])
def test_a_reference_to_one_of_two_locals_reads_that_one(options: tuple[str, ...]) -> None:
    x, out = np.random.default_rng(0).random(32, np.float32), np.zeros(32, np.float32)
    tw.load_cu(LEAST, options=options)["least"].simulate(x, out, 5, grid=1, block=32, check="all")
    lanes = np.arange(32)
    assert np.array_equal(out, np.min([x, *(x[(lanes + i) % 32] + np.float32(i) for i in range(5))], axis=0))


def test_lanes_read_and_write_variables_of_their_own_choice() -> None:
    which, out = np.arange(32, dtype=np.int32) % 2, np.zeros(32, np.float32)
    tw.load_cu(CHOSEN, options=("-G",), defines={"AT": 3})["chosen"].simulate(which, out, grid=1, block=32, check="all")
    assert np.array_equal(out, np.where(which, 13, 3))


def test_an_index_past_the_chosen_variable_is_told() -> None:
    which, out = np.arange(32, dtype=np.int32) % 2, np.zeros(32, np.float32)
    kernel = tw.load_cu(CHOSEN, options=("-G",), defines={"AT": 5})["chosen"]
    with pytest.raises(tw.TilewrightError, match=r"outside of (low|high)"):
        kernel.simulate(which, out, grid=1, block=32, check="all")
