"""Sparse products of a warpgroup, by inline PTX, on both sides: A in shared memory or in registers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import tilewright as tw
from tests.gpu.hardware import Bench
from tilewright.dtypes import dtype
from tilewright.load.on_gpu import launch

pytestmark = pytest.mark.gpu

# K, D, A, B, the tail of the instruction, and what four bits of metadata may say: two of four places, or one of two.
TWO_OF_FOUR, ONE_OF_TWO = (4, 8, 9, 12, 13, 14), (4, 14)
KINDS = {
    "f16": (32, "f32", "f16", "f16", "1, 1, 0, 0", TWO_OF_FOUR),
    "f16 sums": (32, "f16", "f16", "f16", "1, 1, 0, 0", TWO_OF_FOUR),
    "bf16": (32, "f32", "bf16", "bf16", "1, 1, 0, 0", TWO_OF_FOUR),
    "tf32": (16, "f32", "tf32", "tf32", "1, 1", ONE_OF_TWO),
    "float8": (64, "f32", "e4m3", "e5m2", "1, 1", TWO_OF_FOUR),
    "int8": (64, "s32", "s8", "u8", "", TWO_OF_FOUR),
}
NUMPY = {"f16": "float16", "bf16": "bfloat16", "tf32": "float32", "e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2",
         "s8": "int8", "u8": "uint8"}  # fmt: skip
SOURCE = """
__device__ unsigned long long described(void* p, unsigned rows_of_8) {{
  unsigned at = (unsigned)__cvta_generic_to_shared(p);
  return at >> 4 | 8ull << 16 | (unsigned long long)(rows_of_8 >> 4) << 32;
}}
extern "C" __global__ void sparse(const uint4* a, const uint4* b, const unsigned* meta, unsigned* out) {{
  __shared__ __align__(1024) uint4 A[128], B[32];
  int t = threadIdx.x;
  A[t] = a[t];
  if (t < 32) B[t] = b[t];
  uint4 held = a[t];
  unsigned d[{registers}] = {{}};
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  asm volatile("{{ .reg .pred p; setp.ne.b32 p, 1, 0; wgmma.mma_async.sp.sync.aligned.m64n8k{k}.{d}.{a}.{b} "
    "{{{sums}}}, {left}, %{b_at}, %{meta_at}, {selector}, p{tail}; }}"
    : {outputs} : {inputs}, "l"(described(B, 512)), "r"(meta[t]) : "memory");
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  for (int i = 0; i < {registers}; ++i) out[t * {registers} + i] = d[i];
}}
"""


def source(kind: str, selector: int, *, in_registers: bool) -> str:
    k, d, a, b, tail, _ = KINDS[kind]
    n = 2 if d == "f16" else 4
    fields = "xyzw"
    tail = tail.replace(", 0, 0", ", 0") if in_registers else tail
    return SOURCE.format(
        k=k, d=d, a=a, b=b, registers=n, selector=selector, tail=f", {tail}" if tail else "",
        sums=", ".join(f"%{i}" for i in range(n)), outputs=", ".join(f'"+{"f" if d == "f32" else "r"}"'
        f'({"(float&)" if d == "f32" else ""}d[{i}])' for i in range(n)),
        left="{" + ", ".join(f"%{n + i}" for i in range(4)) + "}" if in_registers else f"%{n}",
        inputs=", ".join(f'"r"(held.{one})' for one in fields) if in_registers else '"l"(described(A, 256))',
        b_at=n + (4 if in_registers else 1), meta_at=n + (5 if in_registers else 2),
    )  # fmt: skip


def small(kind: str, nbytes: int, rng: np.random.Generator) -> NDArray[np.uint32]:
    """Whole numbers whose sums are exact."""
    made = dtype(NUMPY[kind]).numpy
    values = rng.integers(0 if kind == "u8" else -3, 4, nbytes // np.dtype(made).itemsize)
    return values.astype(np.float32).astype(made).view(np.uint32)


@pytest.mark.parametrize("in_registers", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_sparse_product_is_equal_bit_for_bit(kind: str, in_registers: bool, bench: Bench) -> None:
    k, d, a, b, _, nibbles = KINDS[kind]
    rng = np.random.default_rng(k)
    for selector in (0,) if k == 64 else (0, 1):
        kernel = tw.load_cu(source(kind, selector, in_registers=in_registers), target="sm_90a")["sparse"]
        said = rng.choice(nibbles, (128, 8)).astype(np.uint32) << np.arange(0, 32, 4, dtype=np.uint32)
        inputs: list[Any] = [small(a, 2048, rng), small(b, 512, rng), said.sum(1, dtype=np.uint32)]
        ours, theirs = (np.zeros(128 * (2 if d == "f16" else 4), np.uint32) for _ in range(2))

        launch(kernel, [*inputs, ours], grid=(1, 1, 1), block=(128, 1, 1))
        kernel.simulate(*inputs, theirs, grid=1, block=128, check="default")

        assert theirs.any()
        bench.judge(f"wgmma.sp {kind}, selector {selector}", ours, theirs)
