"""Graphs lose blocks that others go on with anyway, and nothing else."""

from __future__ import annotations

import numpy as np

import tilewright as tw
from tilewright.ir import Branch, Jump
from tilewright.load import straight
from tilewright.load.module import LoadedKernel

LOOP = """
__device__ int next(int x) { return x & 1 ? 3 * x + 1 : x / 2; }
__global__ void k(const int* x, int* out) {
    int n = 0;
    for (int v = x[threadIdx.x]; v != 1; v = next(v)) n++;
    out[threadIdx.x] = n;
}
"""


def kernel() -> LoadedKernel:
    return tw.load_cu(LOOP, options=["-G"])["k"]


def test_no_block_is_left_that_one_other_alone_goes_on_with() -> None:
    x, out = np.arange(1, 33, dtype=np.int32), np.zeros(32, np.int32)

    graph = kernel().lowered(x, out, grid=1, block=32).graph
    assert graph is not None
    ends = [block.end for block in graph.blocks]
    coming = [sum(end.targets.count(number) for end in ends) for number in range(len(ends))]

    assert any(isinstance(end, Branch) for end in ends)
    assert not [end for end in ends if isinstance(end, Jump) and coming[end.to] == 1]


def test_a_straightened_kernel_gives_the_same_as_one_that_is_not(monkeypatch: object) -> None:
    found = []
    for joined in (straight._joined, lambda graph: graph):
        monkeypatch.setattr(straight, "_joined", joined)  # type: ignore[attr-defined]  # pytest's
        x, out = np.arange(1, 33, dtype=np.int32), np.zeros(32, np.int32)
        kernel().simulate(x, out, grid=1, block=32)
        found.append(out.tolist())

    assert found[0] == found[1]
    assert found[0][26] == 111  # of 27
