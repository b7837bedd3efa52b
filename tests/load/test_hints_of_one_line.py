"""Hints where a barrier or a fence between two lines does not help: one line, parts of one array, sums of CTAs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import tilewright as tw
from tilewright.errors import SimulationError

FLAG = """
__global__ void k(float* data, int* flag, float* out) {
    if (threadIdx.x > 0) return;
    if (blockIdx.x == 0) {
        data[0] = 3;TELL atomicExch(flag, 1);
    } else {
        while (atomicAdd(flag, 0) == 0) {}HEAR out[0] = data[0];
    }
}
"""
FENCE = " __threadfence();"
PARTS = """
__global__ void k(const float* q, float* out, int d) {
    extern __shared__ float room[];
    float* query = room;
    float* score = room + BEHIND;
    query[threadIdx.x] = q[threadIdx.x];
    __syncthreads();
    float a = 0;
    for (int i = 0; i < d; i++) a += query[i];
    score[threadIdx.x] = a;
    __syncthreads();
    out[threadIdx.x] = score[(threadIdx.x + 1) % d];
}
"""
SHARE = """
__global__ void k(float* x, float* total, float* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(total, x[i]);
    __syncthreads();
    out[i] = x[i] / *total;
}
"""


def hint(text: str, *args: object, **launch: Any) -> str:
    with pytest.raises(SimulationError) as error:
        tw.load_cu(text)["k"].simulate(*args, **launch)
    return str(error.value.hint)


def floats(many: int) -> NDArray[np.float32]:
    return np.ones(many, np.float32)


@pytest.mark.parametrize(
    ("tell", "hear", "said"),
    [
        ("", FENCE, "between the access and what tells of it, both in line 5"),
        (FENCE, "", "between what hears of it and the access, both in line 7"),
    ],
)
def test_a_fence_that_lacks_within_a_line_is_put_there(tell: str, hear: str, said: str) -> None:
    arrays = floats(1), np.zeros(1, np.int32), floats(1)
    text = FLAG.replace("TELL", tell).replace("HEAR", hear)

    assert said in hint(text, *arrays, grid=2, block=1)


def test_fences_within_lines_are_enough() -> None:
    text = FLAG.replace("TELL", FENCE).replace("HEAR", FENCE)
    tw.load_cu(text)["k"].simulate(floats(1), np.zeros(1, np.int32), floats(1), grid=2, block=1)


def test_parts_of_dynamic_shared_memory_that_overlap_are_named() -> None:
    arrays = floats(64), floats(64), 64
    launch: dict[str, Any] = {"grid": 1, "block": 64, "shared_bytes": 512}

    said = hint(PARTS.replace("BEHIND", "d / 2"), *arrays, **launch)

    assert "where query and score are not to share it, another place in room for one of them" in said
    tw.load_cu(PARTS.replace("BEHIND", "d"))["k"].simulate(*arrays, **launch)


def test_parts_that_one_line_declares_are_named_too() -> None:
    text = PARTS.replace("BEHIND", "d / 2").replace("query = room;\n   ", "query = room;")

    said = hint(text, floats(64), floats(64), 64, grid=1, block=64, shared_bytes=512)

    assert "where query and score are not to share it, another place in room for one of them" in said


def test_a_part_that_lacks_its_own_barrier_is_not_moved() -> None:
    text = PARTS.replace("BEHIND", "d").replace("    __syncthreads();\n    float a", "    float a")

    assert "another place" not in hint(text, floats(64), floats(64), 64, grid=1, block=64, shared_bytes=512)


def test_no_barrier_waits_for_what_other_ctas_still_add() -> None:
    assert "no barrier orders CTAs" in hint(SHARE, floats(64), floats(1), floats(64), grid=2, block=32)
