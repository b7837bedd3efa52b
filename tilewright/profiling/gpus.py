"""Peak rates of GPUs, from datasheets and programming guides: no kernel runs faster.

Clocks are the highest that the board boosts to. Tensor-core rates are dense flops of an SM in a cycle.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tilewright.errors import ArgumentError, choices
from tilewright.isa import ARCHS, GPU_ARCHS, Arch, gpu_named

__all__ = ["GPUS", "Gpu", "gpu"]

SECTOR_RATE = 64
"""Bytes that an SM exchanges with the second-level cache in a cycle (A100 whitepaper: 5120 bytes a cycle for 80 slices;
an SM's own port takes 64)."""


@dataclass(frozen=True)
class Gpu:
    """hbm: bytes a second. tensor: flops of an SM in a cycle, by the bits of an operand. source: of these figures."""

    name: str
    sms: int
    clock: float
    hbm: float
    l2_bytes: int
    tensor: Mapping[int, int] = field(default_factory=dict)
    source: str = ""
    issue: int = 4
    """Instructions of warps that an SM issues in a cycle: one for each of its four schedulers."""

    @property
    def arch(self) -> Arch:
        """Its architecture, which says what an SM has room for."""
        return ARCHS[GPU_ARCHS[self.name]]


MIB = 1 << 20
HOPPER = {8: 8192, 16: 4096, 32: 2048, 64: 128 * 2}
GEFORCE = {4: 4096, 8: 2048, 16: 1024, 32: 256}
GPUS = {
    each.name: each
    for each in (
        Gpu("T4", 40, 1.59e9, 0.32e12, 4 * MIB, {4: 4096, 8: 2048, 16: 1024},
            "NVIDIA T4 datasheet: 65 TFLOP/s f16, 130 TOP/s int8, 260 int4, 320 GB/s; Turing whitepaper: 40 SMs"),
        Gpu("A100", 108, 1.41e9, 2.039e12, 40 * MIB, {8: 4096, 16: 2048, 32: 1024, 64: 128},
            "NVIDIA A100 80GB SXM datasheet: 312 TFLOP/s f16, 156 tf32, 624 TOP/s int8, 2039 GB/s; 108 SMs"),
        Gpu("A10", 72, 1.695e9, 0.6e12, 6 * MIB, {4: 4096, 8: 2048, 16: 1024, 32: 512},
            "NVIDIA A10 datasheet: 125 TFLOP/s f16, 62.5 tf32, 250 TOP/s int8, 500 int4, 600 GB/s; 72 SMs"),
        Gpu("RTX 3090", 82, 1.695e9, 0.936e12, 6 * MIB, GEFORCE,
            "NVIDIA GA102 whitepaper: 142 TFLOP/s f16 (sums in f16), 35.6 tf32, 284 TOP/s int8, 936 GB/s; 82 SMs"),
        Gpu("L40S", 142, 2.52e9, 0.864e12, 96 * MIB, {8: 2048, 16: 1024, 32: 512},
            "NVIDIA L40S datasheet: 362 TFLOP/s f16, 183 tf32, 733 fp8, 864 GB/s; 142 SMs"),
        Gpu("L4", 58, 2.04e9, 0.3e12, 48 * MIB, {8: 2048, 16: 1024, 32: 512},
            "NVIDIA L4 datasheet: 242 TFLOP/s f16 and 120 tf32 with sparsity, half of it dense, 300 GB/s; 7424 cores"),
        Gpu("RTX 4090", 128, 2.52e9, 1.008e12, 72 * MIB, GEFORCE,
            "NVIDIA Ada whitepaper: 330 TFLOP/s f16 (sums in f16), 82.6 tf32, 661 fp8, 1008 GB/s; 128 SMs"),
        Gpu("H100", 132, 1.98e9, 3.35e12, 50 * MIB, HOPPER,
            "NVIDIA H100 SXM datasheet: 989 TFLOP/s f16, 1979 fp8, 494 tf32, 3.35 TB/s; Hopper whitepaper: 132 SMs"),
        Gpu("H200", 132, 1.98e9, 4.8e12, 60 * MIB, HOPPER,
            "NVIDIA H200 SXM datasheet: 989 TFLOP/s f16, 1979 fp8, 494 tf32, 4.8 TB/s; 60 MB of L2 as torch reports"),
        Gpu("B200", 148, 1.965e9, 8.0e12, 126 * MIB, {4: 32768, 8: 16384, 16: 8192, 32: 4096},
            "NVIDIA B200 datasheet: 2250 TFLOP/s f16, 4500 fp8, 9000 fp4, 1125 tf32, 8 TB/s; 148 SMs as torch reports"),
        Gpu("RTX 5090", 170, 2.407e9, 1.792e12, 96 * MIB, GEFORCE,
            "NVIDIA RTX Blackwell whitepaper: 419 TFLOP/s f16 (sums in f16), 104.8 tf32, 838 fp8, 1676 fp4, 1792 GB/s"),
    )
}  # fmt: skip


def gpu(name: str) -> Gpu:
    """The GPU of that name. Raises ArgumentError with the names."""
    found = GPUS.get(gpu_named(name) or "")
    if found is None:
        raise ArgumentError(f"unknown GPU {name!r}", given=name, allowed=choices(name, GPUS))
    return found
