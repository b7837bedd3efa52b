"""Kernels of `pairs` that have constants to choose, and that no other file has."""

from __future__ import annotations

from functools import cache

import tilewright as tw
from tilewright.lang import T, Tx
from tilewright.layout import S, TileLayout, tx

BINS = 256


@cache
def transposed(side: int, threads: int, kind: str, pitch: int, wide: int) -> tw.Executable:
    """y[j, i] = x[i, j] by square tiles in shared memory, whose rows are ``pitch`` elements apart; 0: swizzled.

    wide: elements of an access to global memory.
    """
    across = side // wide
    rounds = side * across // threads
    held = TileLayout(S[(rounds, threads // across, across, wide) : (wide, across @ tx, 1 @ tx, 1)])
    padded = TileLayout(S[(side, side) : (pitch or side, 1)])

    @T.prim_func
    def transpose(x: T.handle, y: T.handle):
        m, n = T.int32(), T.int32()
        X, Y = T.match_buffer(x, (m, n), kind), T.match_buffer(y, (n, m), kind)
        T.assume(m % side == 0)
        T.assume(n % side == 0)
        right, down = T.cta_id([n // side, m // side])
        T.thread_id([threads])
        tile = T.alloc_buffer((side, side), kind, scope="shared", layout=padded)
        turned = T.alloc_buffer((side, side), kind, scope="local", layout=held)
        i: T.let = down * side
        j: T.let = right * side
        Tx.cta.copy(turned, X[i : i + side, j : j + side])
        Tx.cta.copy(tile, turned)
        T.cuda.cta_sync()
        Tx.cta.copy(turned, tile.permute(1, 0)[:, :])
        Tx.cta.copy(Y[j : j + side, i : i + side], turned)

    return tw.compile(transpose, "sm_90a")


@cache
def counted(part: int, threads: int, wide: int) -> tw.Executable:
    """How often each byte occurs; a CTA counts ``part`` of them, ``wide`` in an access, in shared memory."""
    steps = part // threads // wide

    @T.prim_func
    def histogram(x: T.handle, COUNT: T.Buffer((BINS,), "int32")):
        n = T.int32()
        X = T.match_buffer(x, (n,), "uint8")
        T.assume(n % part == 0)
        cta = T.cta_id([n // part])
        thread = T.thread_id([threads])
        bins = T.alloc_shared((BINS,), "int32")
        few = T.alloc_local((wide,), "uint8")
        with Tx.cta:
            bins[:] = 0
        T.cuda.cta_sync()
        for k in range(steps):
            i: T.let = cta * part + (k * threads + thread) * wide
            Tx.copy(few[:], X[i : i + wide])
            for e in T.unroll(wide):
                T.cuda.atomic_add(bins.ptr_to([T.int32(few[e])]), 1)
        T.cuda.cta_sync()
        for k in T.unroll(max(1, BINS // threads)):
            if thread < BINS:
                T.cuda.atomic_add(COUNT.ptr_to([k * threads + thread]), bins[k * threads + thread])

    return tw.compile(histogram, "sm_90a")


# CUDA, as courses and projects write it: each text begins with its constants.

SGEMM = """
extern "C" __global__ void __launch_bounds__((BM / TM) * (BN / TN)) sgemm(const float* a, const float* b, float* c,
                                                                           int n, int k) {
  __shared__ float as[BK][BM + PAD];
  __shared__ float bs[BK][BN];
  const int threads = (BM / TM) * (BN / TN), columns = BN / TN;
  int row = threadIdx.x / columns * TM, column = threadIdx.x % columns * TN;
  a += blockIdx.y * BM * k;
  b += blockIdx.x * BN;
  float sums[TM][TN] = {};
  for (int step = 0; step < k; step += BK) {
    for (int i = threadIdx.x; i < BM * BK; i += threads) as[i % BK][i / BK] = a[i / BK * k + step + i % BK];
    for (int i = threadIdx.x; i < BN * BK; i += threads) bs[i / BN][i % BN] = b[(step + i / BN) * n + i % BN];
    __syncthreads();
    #pragma unroll
    for (int e = 0; e < BK; ++e) {
      float left[TM], right[TN];
      #pragma unroll
      for (int i = 0; i < TM; ++i) left[i] = as[e][row + i];
      #pragma unroll
      for (int j = 0; j < TN; ++j) right[j] = bs[e][column + j];
      #pragma unroll
      for (int i = 0; i < TM; ++i)
        #pragma unroll
        for (int j = 0; j < TN; ++j) sums[i][j] += left[i] * right[j];
    }
    __syncthreads();
  }
  for (int i = 0; i < TM; ++i)
    for (int j = 0; j < TN; ++j) c[(blockIdx.y * BM + row + i) * n + blockIdx.x * BN + column + j] = sums[i][j];
}
"""

REDUCTION = """
extern "C" __global__ void __launch_bounds__(THREADS) reduce(const float4* x, float* y, int count) {
  __shared__ float warps[32];
  float sum = 0;
  int step = gridDim.x * THREADS;
  #pragma unroll MANY
  for (int i = blockIdx.x * THREADS + threadIdx.x; i < count; i += step) {
    float4 v = x[i];
    sum += (v.x + v.y) + (v.z + v.w);
  }
  for (int apart = 16; apart; apart /= 2) sum += __shfl_xor_sync(~0u, sum, apart);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x < 32) {
    sum = threadIdx.x < THREADS / 32 ? warps[threadIdx.x] : 0;
    for (int apart = 16; apart; apart /= 2) sum += __shfl_xor_sync(~0u, sum, apart);
    if (threadIdx.x == 0) atomicAdd(y, sum);
  }
}
"""

STENCIL = """
extern "C" __global__ void __launch_bounds__(BX * BY) stencil(const float* x, float* y, int n) {
  __shared__ float tile[BY * ROWS + 2][BX + 2];
  int left = blockIdx.x * BX - 1, top = blockIdx.y * BY * ROWS - 1, me = threadIdx.y * BX + threadIdx.x;
  for (int i = me; i < (BY * ROWS + 2) * (BX + 2); i += BX * BY) {
    int r = top + i / (BX + 2), c = left + i % (BX + 2);
    tile[i / (BX + 2)][i % (BX + 2)] = r >= 0 && r < n && c >= 0 && c < n ? x[r * n + c] : 0.0f;
  }
  __syncthreads();
  #pragma unroll
  for (int k = 0; k < ROWS; ++k) {
    int r = threadIdx.y + k * BY + 1, c = threadIdx.x + 1;
    float sum = tile[r][c] + tile[r - 1][c] + tile[r + 1][c] + tile[r][c - 1] + tile[r][c + 1];
    y[(top + r) * n + left + c] = 0.2f * sum;
  }
}
"""


def cuda_text(text: str, **constants: int) -> str:
    """A text behind the definitions of its constants."""
    return "".join(f"#define {name} {value}\n" for name, value in constants.items()) + text
