"""Loops in one another, deeper than Python's own text and stack may be."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ptx.texts import module
from tilewright.errors import KernelError
from tilewright.load import LoadedKernel, load_cu, load_ptx


def nested(depth: int) -> LoadedKernel:
    """So many loops of ``n`` turns in one another; the innermost counts how often it comes by."""
    heads = [f"mov.u32 r{k}, 0; L{k}:" for k in range(depth)]
    ends = [f"add.u32 r{k}, r{k}, 1; setp.lt.u32 p, r{k}, turns; @p bra L{k};" for k in reversed(range(depth))]
    declared = f".reg .b32 r<{depth}>, turns, s; .reg .pred p; .reg .b64 at;"
    begin, end = "ld.param.u64 at, [a]; ld.param.u32 turns, [n]; mov.u32 s, 0;", "st.global.u32 [at], s; ret;"
    body = [declared, begin, *heads, "add.u32 s, s, 1;", *ends, end]
    return load_ptx(module("\n".join(body)))["k"]


@pytest.mark.parametrize("depth", [3, pytest.param(200, marks=pytest.mark.long)])
def test_nested_loops_run(depth: int) -> None:
    out = np.zeros(1, np.int32)

    nested(depth).simulate(out, 2 if depth < 10 else 1, block=1, check="all")

    assert out[0] == (2**depth if depth < 10 else 1)


def test_loops_in_too_many_others_are_refused_at_the_line_of_the_innermost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilewright.sim.codegen.cut.MOST_LOOPS", 3)
    nested(3).simulate(np.zeros(1, np.int32), 1, block=1)

    with pytest.raises(KernelError, match="nested too deeply") as refused:
        nested(4).simulate(np.zeros(1, np.int32), 1, block=1)
    assert (refused.value.given, refused.value.allowed) == ("4 loops in one another", "3")
    assert refused.value.at is not None


TILES = """
__global__ void product(const float* a, const float* b, float* c, int m, int n, int k) {
    __shared__ float left[16][16], right[16][16];
    int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
    float sum = 0;
    for (int t = 0; t < (k + 15) / 16; ++t) {
        left[threadIdx.y][threadIdx.x] = row < m && t * 16 + threadIdx.x < k ? a[row * k + t * 16 + threadIdx.x] : 0;
        right[threadIdx.y][threadIdx.x] =
            column < n && t * 16 + threadIdx.y < k ? b[(t * 16 + threadIdx.y) * n + column] : 0;
        __syncthreads();
        for (int i = 0; i < 16; ++i) sum += left[threadIdx.y][i] * right[i][threadIdx.x];
        __syncthreads();
    }
    if (row < m && column < n) c[row * n + column] = sum;
}
"""


def test_an_index_that_goes_on_keeps_what_another_one_was_when_it_began() -> None:
    random = np.random.default_rng(0)
    a, b = (random.standard_normal(shape).astype(np.float32) for shape in ((40, 50), (50, 36)))
    c = np.zeros((40, 36), np.float32)

    load_cu(TILES)["product"].simulate(a, b, c, 40, 36, 50, grid=(3, 3), block=(16, 16))

    assert np.allclose(c, a @ b, atol=1e-4)
