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


def volatile_warnings(before: str) -> list[str]:
    """Of the same, where the last block reads by volatile loads what was stored plainly."""
    text = SUM.replace("? part[threadIdx.x]", "? ((volatile int*)part)[threadIdx.x]").replace("BEFORE", before)
    text = text.replace("BEHIND", "").replace("LAST", LAST).replace("AFTERWARDS", "*out")
    args = np.arange(128, dtype=np.int32), np.zeros(4, np.int32), np.zeros(1, np.int32)
    return tw.load_cu(text, target="sm_80")["sum"].simulate(*args, grid=4, block=32).warnings


def test_volatile_reads_behind_a_number_need_no_fence_of_their_own() -> None:
    assert volatile_warnings(FENCE) == []

    with pytest.raises(SimulationError, match="race: volatile load reads element"):
        volatile_warnings("")


@pytest.mark.parametrize(
    ("before", "behind", "last"),
    [("", FENCE, LAST), ("", "", LAST), (BLOCK, BLOCK, LAST), (FENCE, "", "true"), (FENCE, "", "number >= 2")],
    ids=["none_before", "none", "of_the_block", "no_number_compared", "before_all_have_come"],
)
def test_everything_less_is_a_race(before: str, behind: str, last: str) -> None:
    with pytest.raises(SimulationError, match=r"race: (load reads|store writes) element"):
        warnings(before, behind, last)


WARPS = """
__device__ unsigned taken = 0;
__global__ void sum(int* part, int* out) {
    __shared__ bool last;
    unsigned t = threadIdx.x;
    EARLY;
    part[blockIdx.x * 64 + t] = t;
    BEFORE;
    if (t == 0) {
        FIRST;
        last = atomicAdd(&taken, 1) == gridDim.x - 1;
        SECOND;
    }
    __syncthreads();
    BEHIND;
    if (last) for (int k = 0; k < gridDim.x; k++) atomicAdd(out, part[k * 64 + t]);
}
"""
BAR, RELEASE = "__syncthreads()", "__nv_atomic_thread_fence(__NV_ATOMIC_ACQ_REL, __NV_THREAD_SCOPE_DEVICE)"


def warnings_of_warps(**fences: str) -> list[str]:
    text = WARPS
    for place in ("EARLY", "BEFORE", "FIRST", "SECOND", "BEHIND"):
        text = text.replace(place, fences.get(place.lower(), ""))
    out, part = np.zeros(1, np.int32), np.zeros(256, np.int32)
    found = tw.load_cu(text, target="sm_80")["sum"].simulate(part, out, grid=4, block=64).warnings
    assert out[0] == 4 * 64 * 63 // 2
    return found


@pytest.mark.parametrize(
    "fences",
    [{"before": f"{FENCE}; {BAR}"}, {"before": BAR, "first": FENCE}, {"before": BAR, "first": RELEASE}],
    ids=["by_each_writer", "by_the_taker_behind_a_barrier", "of_a_weaker_kind_by_the_taker"],
)
def test_a_write_counts_with_a_fence_behind_it_and_the_number_behind_that(fences: dict[str, str]) -> None:
    assert any("that atomic, too, of kind sc: __threadfence()" in each for each in warnings_of_warps(**fences))
    assert warnings_of_warps(**fences, second=FENCE) == []


@pytest.mark.parametrize(
    "fences",
    [
        {"first": FENCE},
        {"before": FENCE},
        {"early": FENCE, "before": BAR},
        {"early": FENCE, "before": BAR, "behind": FENCE},
        {"before": f"{RELEASE}; {BAR}"},
        {"before": f"{BAR}; if (t == 32) {BLOCK}; {BAR}", "early": FENCE},
    ],
    ids=[
        "writers_that_no_barrier_orders",
        "fences_that_no_barrier_orders",
        "fence_before_the_write",
        "fence_before_the_write_and_behind_the_number",
        "weaker_fence_by_another_than_the_taker",
        "fence_of_the_block",
    ],
)
def test_a_write_with_no_fence_between_it_and_the_number_is_a_race(fences: dict[str, str]) -> None:
    with pytest.raises(SimulationError, match=r"race: load reads element"):
        warnings_of_warps(**fences)


def test_a_weaker_fence_behind_the_number_leaves_the_warning() -> None:
    found = warnings_of_warps(before=f"{FENCE}; {BAR}", behind=RELEASE)

    assert found
    assert all("of kind sc" in each for each in found)


def test_a_last_block_without_its_own_fence_is_a_warning_of_both_builds() -> None:
    """In code that is not optimised the number goes through calls and local variables until it is compared."""
    text = SUM.replace("BEFORE", FENCE).replace("BEHIND", "").replace("LAST", LAST).replace("AFTERWARDS", "*out")
    kernel = tw.load_cu(text, target="sm_80")["sum"]

    verdict = tw.check(kernel, np.arange(128, dtype=np.int32), np.zeros(4, np.int32), np.zeros(1, np.int32), grid=4,
                       block=32)  # fmt: skip

    (finding,) = verdict.findings
    assert (verdict.status, finding.idiom, finding.severity) == ("clean", "last-block", "warning")
    assert finding.builds == ("optimised", "unoptimised")
