"""Triton's interpreter (TRITON_INTERPRET=1) on CPU tensors."""

import json

from benchmarks.measure import median_ms
from benchmarks.triton_interpreter import RMS_NORM, ROW_SUM, SCALE, SOFTMAX, TRANSPOSE, TRITON

NAMES = tuple(f"{kernel}: {TRITON}" for kernel in (TRANSPOSE, SCALE, SOFTMAX, RMS_NORM, ROW_SUM))


def main():
    try:
        import torch

        from benchmarks.peers.triton_kernels import rms_norm, row_sum, scale, softmax, transpose
    except ImportError:
        return dict.fromkeys(NAMES)
    a = torch.randn(1024, 1024).half()
    b = torch.empty_like(a)
    x = torch.randn(1 << 20)
    y, b32 = torch.empty_like(x), torch.empty_like(x)
    times = (
        median_ms(lambda: transpose[(16, 16)](a, b, 1024, BLOCK=64), repeats=3),
        median_ms(lambda: scale[(4096,)](x, y, 3.0, BLOCK=256), repeats=3),
    )
    assert torch.equal(b, a.T)
    assert torch.equal(y, x * 3)
    rows, weight, sums = x.reshape(1024, 1024), torch.ones(1024), torch.empty(1024)
    times += (
        median_ms(lambda: softmax[(1024,)](x, y, BLOCK=1024), repeats=3),
        median_ms(lambda: rms_norm[(1024,)](x, weight, b32, BLOCK=1024), repeats=3),
        median_ms(lambda: row_sum[(1024,)](x, sums, BLOCK=1024), repeats=3),
    )
    assert torch.allclose(y.reshape(1024, 1024), rows.softmax(1), atol=1e-6)
    assert torch.allclose(sums, rows.sum(1), atol=1e-3)
    return dict(zip(NAMES, times, strict=True))


if __name__ == "__main__":
    print(json.dumps(main()))
