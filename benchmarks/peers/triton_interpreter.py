"""Triton's interpreter (TRITON_INTERPRET=1) on CPU tensors."""

import json

from benchmarks.measure import median_ms
from benchmarks.triton_interpreter import SCALE, TRANSPOSE, TRITON

NAMES = tuple(f"{kernel}: {TRITON}" for kernel in (TRANSPOSE, SCALE))


def main():
    try:
        import torch

        from benchmarks.peers.triton_kernels import scale, transpose
    except ImportError:
        return dict.fromkeys(NAMES)
    a = torch.randn(1024, 1024).half()
    b = torch.empty_like(a)
    x = torch.randn(1 << 20)
    y = torch.empty_like(x)
    times = (
        median_ms(lambda: transpose[(16, 16)](a, b, 1024, BLOCK=64), repeats=3),
        median_ms(lambda: scale[(4096,)](x, y, 3.0, BLOCK=256), repeats=3),
    )
    assert torch.equal(b, a.T)
    assert torch.equal(y, x * 3)
    return dict(zip(NAMES, times, strict=True))


if __name__ == "__main__":
    print(json.dumps(main()))
