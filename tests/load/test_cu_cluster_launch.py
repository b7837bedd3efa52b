"""A .cu file whose CTAs take over the work of others by clusterlaunchcontrol: each tile is done once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tilewright.errors import TilewrightError

CODE = """
extern "C" __global__ void k(int* done, int* by) {
  __shared__ alignas(16) uint4 answer;
  __shared__ unsigned long long bar;
  unsigned a = __cvta_generic_to_shared(&answer), b = __cvta_generic_to_shared(&bar);
  if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: "r"(b));
  asm volatile("fence.mbarrier_init.release.cluster;");
  __syncthreads();
  int tile = blockIdx.x;
  for (unsigned turn = 0;; turn ^= 1) {
    if (threadIdx.x == 0) {
      done[tile] += 1;
      by[blockIdx.x] += 1;
      asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], 16;" :: "r"(b));
      asm volatile("clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%0], [%1];"
        :: "r"(a), "r"(b) : "memory");
    }
    unsigned there = 0;
    while (!there)
      asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
        : "=r"(there) : "r"(b), "r"(turn) : "memory");
    unsigned taken, x, y, z;
    asm volatile("{ .reg .b128 r; .reg .pred p; ld.shared.b128 r, [%4];"
      " clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 p, r; selp.u32 %0, 1, 0, p; FIRST }"
      : "=r"(taken), "=r"(x), "=r"(y), "=r"(z) : "r"(a) : "memory");
    if (!taken) return;
    tile = x + y + z;
    asm volatile("fence.proxy.async.shared::cta;");
    __syncthreads();
  }
}
"""
ONE_BY_ONE = " ".join(
    f"@p clusterlaunchcontrol.query_cancel.get_first_ctaid::{dim}.b32.b128 %{n}, r;" for n, dim in enumerate("xyz", 1)
)
TOGETHER = "@p clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%1, %2, %3, _}, r;"


@pytest.mark.parametrize("first", [ONE_BY_ONE, TOGETHER])
def test_each_tile_is_done_once(first: str, tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(CODE.replace("FIRST", first))
    done, by = np.zeros((2, 9), np.int32)

    tw.load_cu(tmp_path / "k.cu", target="sm_100a")["k"].simulate(done, by, grid=9, block=64, check="all")

    assert done.tolist() == [1] * 9
    assert by.max() > 1


def test_before_blackwell_there_is_no_such_request(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(CODE.replace("FIRST", TOGETHER))

    with pytest.raises(TilewrightError, match="clusterlaunchcontrol"):
        tw.load_cu(tmp_path / "k.cu", target="sm_90a")["k"].simulate(*np.zeros((2, 9), np.int32), grid=9, block=64)
