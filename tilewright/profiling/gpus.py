"""Peak rates of GPUs, from datasheets and programming guides: no kernel runs faster.

Clocks are the highest that the board boosts to. Tensor-core rates are dense flops of an SM in a cycle.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tilewright.errors import ArgumentError, choices

__all__ = ["GPUS", "Gpu", "gpu"]

SECTOR_RATE = 64
"""Bytes that an SM exchanges with the second-level cache in a cycle (A100 whitepaper: 5120 bytes a cycle for 80 slices;
an SM's own port takes 64)."""


@dataclass(frozen=True)
class Gpu:
    """hbm: bytes a second. tensor: flops of an SM in a cycle, by the bits of an operand. source: of these figures."""

    name: str
    arch: str
    sms: int
    clock: float
    hbm: float
    l2_bytes: int
    shared_bytes: int
    tensor: Mapping[int, int] = field(default_factory=dict)
    source: str = ""
    threads: int = 2048
    registers: int = 65536
    ctas: int = 32
    issue: int = 4
    """Instructions of warps that an SM issues in a cycle: one for each of its four schedulers."""


MIB = 1 << 20
HOPPER = {8: 8192, 16: 4096, 32: 2048, 64: 128 * 2}
GPUS = {
    each.name: each
    for each in (
        Gpu("A100", "sm_80", 108, 1.41e9, 2.039e12, 40 * MIB, 164 << 10, {8: 4096, 16: 2048, 32: 1024, 64: 128},
            "NVIDIA A100 80GB SXM datasheet: 312 TFLOP/s f16, 156 tf32, 624 TOP/s int8, 2039 GB/s; 108 SMs"),
        Gpu("L40S", "sm_89", 142, 2.52e9, 0.864e12, 96 * MIB, 100 << 10, {8: 2048, 16: 1024, 32: 512},
            "NVIDIA L40S datasheet: 362 TFLOP/s f16, 183 tf32, 733 fp8, 864 GB/s; 142 SMs", threads=1536,
            ctas=24),
        Gpu("H100", "sm_90a", 132, 1.98e9, 3.35e12, 50 * MIB, 228 << 10, HOPPER,
            "NVIDIA H100 SXM datasheet: 989 TFLOP/s f16, 1979 fp8, 494 tf32, 3.35 TB/s; Hopper whitepaper: 132 SMs"),
        Gpu("H200", "sm_90a", 132, 1.98e9, 4.8e12, 60 * MIB, 228 << 10, HOPPER,
            "NVIDIA H200 SXM datasheet: 989 TFLOP/s f16, 1979 fp8, 494 tf32, 4.8 TB/s; 60 MB of L2 as torch reports"),
        Gpu("B200", "sm_100a", 148, 1.965e9, 8.0e12, 126 * MIB, 228 << 10, {4: 32768, 8: 16384, 16: 8192, 32: 4096},
            "NVIDIA B200 datasheet: 2250 TFLOP/s f16, 4500 fp8, 9000 fp4, 1125 tf32, 8 TB/s; 148 SMs as torch reports"),
    )
}  # fmt: skip


def gpu(name: str) -> Gpu:
    """The GPU of that name. Raises ArgumentError with the names."""
    if name not in GPUS:
        raise ArgumentError(f"unknown GPU {name!r}", given=name, allowed=choices(name, GPUS))
    return GPUS[name]
