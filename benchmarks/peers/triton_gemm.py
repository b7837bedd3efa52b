"""Triton's interpreter (TRITON_INTERPRET=1) on a float16 matrix product."""

import json

from benchmarks.gemm_simulated import SIZE
from benchmarks.measure import median_ms

NAME = "Triton's interpreter"


def main():
    try:
        import torch

        from benchmarks.peers.triton_kernels import gemm
    except ImportError:
        return {NAME: None}
    a, b = (torch.randn(SIZE, SIZE).half() for _ in range(2))
    d = torch.empty_like(a)
    grid = (SIZE // 128, SIZE // 128)
    times = {NAME: median_ms(lambda: gemm[grid](a, b, d, SIZE, SIZE, M=128, N=128, K=32), repeats=1)}
    assert torch.allclose(d.float(), a.float() @ b.float().T, rtol=2e-3, atol=0.05)
    return times


if __name__ == "__main__":
    print(json.dumps(main()))
