"""The CTA that takes the last number at a counter reads what all have left: which fences it needs."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright.errors import SimulationError

SUM = """
__device__ unsigned taken = 0;
__global__ void sum(const int* in, int* part, int* out) {
    __shared__ bool last;
    int own = __reduce_add_sync(~0u, in[blockIdx.x * 32 + threadIdx.x]);
    if (threadIdx.x == 0) part[blockIdx.x] = own;
    BEFORE;
    if (threadIdx.x == 0) {
        unsigned number = atomicInc(&taken, gridDim.x - 1);
        last = LAST;
        BEHIND;
    }
    __syncthreads();
    if (last) {
        int all = __reduce_add_sync(~0u, threadIdx.x < gridDim.x ? part[threadIdx.x] : 0);
        if (threadIdx.x == 0) AFTERWARDS = all;
    }
}
"""
FENCE, BLOCK, LAST = "__threadfence()", "__threadfence_block()", "number == gridDim.x - 1"


def warnings(before: str, behind: str = "", last: str = LAST, afterwards: str = "*out") -> list[str]:
    text = SUM.replace("BEFORE", before).replace("BEHIND", behind).replace("LAST", last)
    out, part = np.zeros(1, np.int32), np.zeros(4, np.int32)
    kernel = tw.load_cu(text.replace("AFTERWARDS", afterwards), target="sm_80")["sum"]
    found = kernel.simulate(np.arange(128, dtype=np.int32), part, out, grid=4, block=32).warnings
    assert [out[0], part[0]].count(128 * 127 // 2) == 1
    return found


def test_fences_before_and_behind_the_atomic_are_right() -> None:
    assert warnings(FENCE, FENCE) == []


@pytest.mark.parametrize("afterwards", ["*out", "part[0]"])
def test_fences_before_the_atomics_alone_are_a_warning(afterwards: str) -> None:
    found = warnings(FENCE, afterwards=afterwards)

    assert found
    assert all("a fence belongs behind that atomic, too" in each for each in found)


@pytest.mark.parametrize(
    ("before", "behind", "last"),
    [("", FENCE, LAST), ("", "", LAST), (BLOCK, BLOCK, LAST), (FENCE, "", "true"), (FENCE, "", "number >= 2")],
    ids=["none_before", "none", "of_the_block", "no_number_compared", "before_all_have_come"],
)
def test_everything_less_is_a_race(before: str, behind: str, last: str) -> None:
    with pytest.raises(SimulationError, match=r"race: (load reads|store writes) element"):
        warnings(before, behind, last)
