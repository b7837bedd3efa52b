"""Kernels that `memory_bound` measures beside `tilewright.kernels`: a sum of two arrays, and a reader in CUDA."""

from collections.abc import Callable
from functools import cache

import tilewright as tw
from benchmarks.gpu.measure import HandWritten
from tilewright.kernels.arrays import kind_of, like
from tilewright.kernels.rows import blocks
from tilewright.lang import T, Tx


@cache
def adding(rows, kind):
    @T.prim_func
    def add(a: T.handle, b: T.handle, y: T.handle):
        m, n, a_pitch, b_pitch, y_pitch = T.int32(), T.int32(), T.int32(), T.int32(), T.int32()
        A = rows.matrix(a, (m, n), kind, a_pitch)
        B = rows.matrix(b, (m, n), kind, b_pitch)
        Y = rows.matrix(y, (m, n), kind, y_pitch)
        row, part = rows.block(m, n)
        here, there = rows.at(row), rows.columns(part)
        Tx.cta.add(Y[here, there], A[here, there], B[here, there])

    return tw.compile(add)


def add(a, b):
    y = like(a)
    rows, arrays = blocks(a, b, y)
    adding(rows, kind_of(a))(*arrays)
    return y


# As a person would write it who only needs the bytes: eight loads of 16 bytes on their way, and one sum that is stored
# only if it is a number that no data gives.
READER = """
extern "C" __global__ void __launch_bounds__(256) reader(const float4* __restrict__ x, float* y) {
  const float4* at = x + (long long)blockIdx.x * 2048 + threadIdx.x;
  float sum = 0;
  float4 run[8];
  #pragma unroll
  for (int i = 0; i < 8; ++i) run[i] = at[i * 256];
  #pragma unroll
  for (int i = 0; i < 8; ++i) sum += run[i].x + run[i].y + run[i].z + run[i].w;
  if (sum == 1.2345e30f) y[0] = sum;
}
"""


def reading(x: object) -> Callable[[], None]:
    """A call that reads all of x."""
    y = like(x, (1,))
    reader = HandWritten(READER, "reader", 256)
    return lambda: reader(x.nbytes // 32768, x, y)
