"""Arguments and results of this folder's .cu files: right as they are, each with a mistake under ``-DBUG``."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from tilewright.load.cu import DEFAULT

__all__ = ["FOLDER", "PROGRAMS", "Case"]

FOLDER = Path(__file__).parent / "cu"
Arrays = list[Any]


@dataclass(frozen=True)
class Case:
    """args: made again for each run. result: what the argument ``out`` must be in the end. bug: words of the report of
    the mistake, and a part of the line that it is at.
    """

    file: str
    kernel: str
    args: Callable[[], Arrays]
    grid: Any
    block: Any
    out: int
    result: Callable[[Arrays], Any]
    bug: tuple[str, str]
    shared_bytes: int = 0
    exact: bool = True
    headers: bool = False
    globals: dict[str, Any] = field(default_factory=dict)
    output: str = ""
    target: str = DEFAULT


def f32(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).integers(-8, 8, shape).astype(np.float32)


def bf16(*rows: int) -> list[Any]:
    """Matrices of small integers, 64 columns each."""
    rng = np.random.default_rng(2)
    return [rng.integers(-2, 3, (n, 64)).astype(ml_dtypes.bfloat16) for n in rows]


def i32(n: int, low: int = -9, high: int = 9, seed: int = 1) -> Any:
    return np.random.default_rng(seed).integers(low, high, n, dtype=np.int32)


def zeros(n: Any, kind: Any = np.float32) -> Any:
    return np.zeros(n, kind)


def softmax(a: Arrays) -> Any:
    e = np.exp(a[0] - a[0].max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def stencil(a: Arrays) -> Any:
    padded = np.pad(a[0], 3)
    return sum(padded[k : k + len(a[0])] * WEIGHTS[k] for k in range(7))


def pairs(a: Arrays) -> Any:
    out, (n, scale, bias, *added) = np.zeros_like(a[0]), struct.unpack("<if d3h2x", a[2][:24])
    i = np.arange(n)
    out[:n] = a[0][:n]
    steps = np.array(added)
    for column, at in ((0, i), (3, i + 1)):
        out[:n, column] = a[0][:n, column] * scale + bias + steps[at % 3]
    return out


def shapes(n: int) -> Any:
    t = np.arange(n)
    area = np.where(t % 2, t * t, t)
    return np.where(t // 2 % 2, area * t, area + t).astype(np.int32)


WEIGHTS = np.arange(1, 8, dtype=np.float32)
DATA = np.random.default_rng(3).integers(0, 256, 1000).astype(np.uint8)

PROGRAMS = [
    Case("reduce", "reduce", lambda: [f32(1000), zeros(1), 1000], 4, 256, 1, lambda a: [a[0].sum()],
         ("race", "part[threadIdx.x] +=")),
    Case("transpose", "transpose", lambda: [f32(40, 70), zeros((70, 40)), 70, 40], (3, 2), (32, 8), 1,
         lambda a: a[0].T, ("race: load reads tile", "tile[threadIdx.x][threadIdx.y")),
    Case("scan", "scan", lambda: [i32(64), zeros(64, np.int32), 64], 1, 64, 1, lambda a: np.cumsum(a[0]),
         ("race", "temp[pout"), shared_bytes=512),
    Case("histogram", "histogram", lambda: [DATA, zeros(64, np.uint32), 1000], 2, 128, 1,
         lambda a: np.bincount(DATA // 4, minlength=64), ("race", "local[data[i] / 4]++")),
    Case("softmax", "softmax", lambda: [f32(8, 100), zeros((8, 100)), 100], 2, 128, 1, softmax,
         ("outside of", "y[row"), exact=False),
    Case("matmul", "matmul<64>", lambda: [f32(32, 64), f32(64, 32), zeros((32, 32)), 32], (2, 2), (16, 16), 2,
         lambda a: a[0] @ a[1], (r"race: store writes As\[", "As[threadIdx.y][threadIdx.x] = A[row")),
    Case("stencil", "stencil", lambda: [f32(256), zeros(256), 256], 2, 128, 1, stencil,
         ("a value is uninitialised", "out[g] = sum"),
         globals={"weights": WEIGHTS}),
    Case("lock", "locked", lambda: [zeros(1, np.int32)], 4, 32, 0, lambda a: [4], ("race", "*counter")),
    Case("last_block", "last_block", lambda: [f32(128), zeros(4), zeros(1)], 4, 32, 2, lambda a: [a[0].sum()],
         ("race: load reads element 0 of partial", "sum += partial[b]")),
    Case("pairs", "pairs", lambda: [f32(100, 4), zeros((100, 4)), struct.pack("<if d3h2x", 100, 2.0, 0.5, 1, 2, 3)],
         1, 128, 1, pairs, ("outside of", "Pair p = in[i]")),
    Case("vote", "compact", lambda: [i32(100), zeros(100, np.int32), zeros(1, np.int32), 100], 1, 128, 2,
         lambda a: [(a[0] > 0).sum()],
         ("__shfl_sync: lanes that read from one that has ended", "if (keep) base = __shfl_sync(")),
    Case("warp_sync", "warp_sum", lambda: [f32(64), zeros(1)], 1, 32, 1, lambda a: [a[0].sum()], ("race", "s[t")),
    Case("divergent", "divergent", lambda: [f32(40), zeros(40), 40], 1, 64, 1, lambda a: a[0][::-1],
         ("divergence: a warp cannot meet, its lanes are apart", "        __syncthreads();")),
    Case("async_copy", "doubled", lambda: [f32(256, 4), zeros((256, 4)), 4], 1, 64, 1,
         lambda a: (2 * a[0]).reshape(4, 64, 4)[:, ::-1].reshape(256, 4),
         ("load reads shared memory that cp.async may still be writing", "tile[r % 2][63 - t]")),
    Case("misaligned", "copy4", lambda: [f32(132), zeros(128), 1], 1, 32, 1, lambda a: a[0][4:], ("align", "from[i]")),
    Case("local_array", "sort8", lambda: [i32(256), zeros(256, np.int32)], 1, 32, 1,
         lambda a: np.sort(a[0].reshape(32, 8)).reshape(-1), ("load through a pointer to nowhere", "while (v[b]")),
    Case("flag", "handover", lambda: [zeros(64, np.int32), zeros(1, np.int32), zeros(64, np.int32)], 2, 64, 2,
         lambda a: 3 * np.arange(64), ("race", "= data[threadIdx.x]")),
    Case("printing", "printing", lambda: [np.arange(32, dtype=np.int32), 32], 1, 32, 0, lambda a: np.arange(32),
         ("in\\[i\\] < n - 1", "assert"), output="in[0] = 0,  0.00 words\nin[1] = 1,  0.50 words\n"),
    Case("virtual", "shapes", lambda: [zeros(32, np.int32), 32], 1, 32, 0, lambda a: shapes(32),
         ("outside of", "out[v]")),
    Case("groups", "grid_sum", lambda: [f32(256), zeros(8), zeros(1)], 4, 64, 2, lambda a: [a[0].sum()],
         ("race", "partial[k]"), headers=True),
    Case("half", "axpy",
         lambda: [f32(100, 2).astype(np.float16), f32(100, 2, seed=5).astype(np.float16), np.float16(2), 100],
         1, 128, 1, lambda a: 2 * a[0] + f32(100, 2, seed=5).astype(np.float16),
         ("outside of", "y[i] ="), headers=True),
    Case("cluster", "exchanged", lambda: [i32(64), zeros(64, np.int32)], 2, 32, 1,
         lambda a: a[0].reshape(2, 32)[::-1, ::-1].reshape(-1),
         ("race: volatile load reads mine", "ld.shared::cluster")),
    Case("umma", "product", lambda: [*bf16(128, 64), zeros((128, 64))], 1, 128, 2,
         lambda a: a[0].astype(np.float32) @ a[1].astype(np.float32).T,
         ("tcgen05.ld touches tensor memory that tcgen05.mma may still not have written", "tcgen05.ld"),
         target="sm_100a"),
]  # fmt: skip
