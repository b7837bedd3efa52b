"""The threads that hold the elements of wgmma's operands, by the manual's formulas. Shares no code with the table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

DENSE = {f"ptx.wgmma.{name}" for name in ("mma_async.ss", "mma_async.rs", "noop_barrier")}
SPARSE = {"ptx.wgmma.mma_async.sp.ss", "ptx.wgmma.mma_async.sp.rs"}
COVERED = DENSE | SPARSE
SPELLED = {"float16": "f16", "bfloat16": "bf16", "tf32": "tf32", "float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2",
           "int8": "s8", "uint8": "u8"}  # fmt: skip


def place_of_d(thread: int, i: int) -> tuple[int, int]:
    """Row and column of element i of a thread's part of D, the low bits of register 0 first."""
    w, g, t = thread // 32, thread % 32 // 4, thread % 4
    return 16 * w + g + 8 * (i // 2 % 2), 8 * (i // 4) + 2 * t + i % 2


def place_of_a(thread: int, byte: int) -> tuple[int, int]:
    """Row, and byte along K, of a byte of a thread's four registers of A."""
    w, g, t = thread // 32, thread % 32 // 4, thread % 4
    register = byte // 4
    return 16 * w + g + 8 * (register % 2), 4 * t + byte % 4 + 16 * (register // 2)


def held_rows(octets: NDArray[np.uint8], place: Callable[[int, int], tuple[int, int]]) -> list[NDArray[Any]]:
    """The four registers of A, (1, 128) each, of a matrix (64, 32 bytes)."""
    held = np.zeros((128, 16), np.uint8)
    for thread in range(128):
        for byte in range(16):
            held[thread, byte] = octets[place(thread, byte)]
    words = held.view(np.uint32)
    return [words[:, i][None] for i in range(4)]
