"""A .cu file whose copy is in im2col mode, and its PTX: pixel i is the i-th one of the walk, moved by the offsets."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import tilewright as tw
from tests.isa.tma_oracles import pixels

CODE = """
#include <cuda.h>
extern "C" __global__ void k(const __grid_constant__ CUtensorMap m, float* out) {
  __shared__ alignas(128) float tile[16 * 8];
  __shared__ unsigned long long bar;
  unsigned b = __cvta_generic_to_shared(&bar), d = __cvta_generic_to_shared(tile);
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: "r"(b));
    asm volatile("fence.mbarrier_init.release.cluster;");
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], 512;" :: "r"(b));
    asm volatile("cp.async.bulk.prefetch.tensor.4d.L2.global.im2col [%0, {%1, %2, %3, %4}], {%5, %6};"
      :: "l"(&m), "r"(0), "r"(-1), "r"(-1), "r"(0), "h"((unsigned short)1), "h"((unsigned short)2));
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%2, %3, %4, %5}], [%6], {%7, %8};"
      :: "r"(d), "l"(&m), "r"(0), "r"(-1), "r"(-1), "r"(0), "r"(b), "h"((unsigned short)1), "h"((unsigned short)2)
      : "memory");
  }
  __syncthreads();
  unsigned done = 0;
  while (!done)
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
      : "=r"(done) : "r"(b) : "memory");
  out[threadIdx.x] = tile[threadIdx.x];
}
"""


def test_a_cu_file_reads_pixels_of_images(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(CODE)
    x = np.arange(2 * 5 * 6 * 8, dtype=np.float32).reshape(2, 5, 6, 8) + 1
    out = np.zeros(16 * 8, np.float32)
    made = tw.TensorMap.im2col(x, 16, 8, (-1, -1), (-1, -1))

    tw.load_cu(tmp_path / "k.cu", target="sm_90a")["k"].simulate(made, out, grid=1, block=128, check="all")

    walk = pixels((6, 5, 2), (-1, -1), (-1, -1), (1, 1), (-1, -1, 0), (1, 2), 16)
    wanted = [x[n, h, w] if 0 <= w < 6 and 0 <= h < 5 else np.zeros(8) for w, h, n in walk]
    assert np.array_equal(out.reshape(16, 8), wanted)
