"""Ten kernels in Triton's language, each with a call and its expected results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(out + at, tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside), mask=inside)


@triton.jit
def softmax(x, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    values = tl.load(x + row * columns + at, mask=inside, other=-float("inf"))
    powers = tl.exp(values - tl.max(values, axis=0))
    tl.store(out + row * columns + at, powers / tl.sum(powers, axis=0), mask=inside)


@triton.jit
def layer_norm(x, weight, bias, out, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    values = tl.load(x + row * columns + at, mask=inside, other=0.0).to(tl.float32)
    mean = tl.sum(values, axis=0) / columns
    centred = tl.where(inside, values - mean, 0.0)
    scale = 1 / tl.sqrt(tl.sum(centred * centred, axis=0) / columns + eps)
    w = tl.load(weight + at, mask=inside)
    b = tl.load(bias + at, mask=inside)
    tl.store(out + row * columns + at, centred * scale * w + b, mask=inside)


@triton.jit
def matmul(a, b, c, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rows = tl.program_id(0) * M + tl.arange(0, M)
    columns = tl.program_id(1) * N + tl.arange(0, N)
    along = tl.arange(0, K)
    left = a + rows[:, None] * k + along[None, :]
    right = b + along[:, None] * n + columns[None, :]
    sums = tl.zeros((M, N), dtype=tl.float32)
    for start in range(0, k, K):
        rest = k - start
        inside = (rows[:, None] < m) & (along[None, :] < rest)
        u = tl.load(left, mask=inside, other=0.0)
        v = tl.load(right, mask=(along[:, None] < rest) & (columns[None, :] < n), other=0.0)
        sums = tl.dot(u, v, sums)
        left += K
        right += K * n
    at = c + rows[:, None] * n + columns[None, :]
    tl.store(at, sums.to(tl.float16), mask=(rows[:, None] < m) & (columns[None, :] < n))


@triton.jit
def matmul_tma(a, b, c, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    row, column = tl.program_id(0) * M, tl.program_id(1) * N
    sums = tl.zeros((M, N), dtype=tl.float32)
    for start in range(0, k, K):
        sums = tl.dot(a.load([row, start]), b.load([start, column]), sums)
    c.store([row, column], sums.to(tl.float16))


@triton.jit
def attention(q, k, v, out, length, scale, M: tl.constexpr, N: tl.constexpr, D: tl.constexpr):
    rows = tl.program_id(0) * M + tl.arange(0, M)
    head = tl.program_id(1) * length * D
    depth = tl.arange(0, D)
    at = head + rows[:, None] * D + depth[None, :]
    query = tl.load(q + at)
    most = tl.full((M,), -float("inf"), dtype=tl.float32)
    total = tl.zeros((M,), dtype=tl.float32)
    sums = tl.zeros((M, D), dtype=tl.float32)
    for start in range(0, tl.program_id(0) * M + M, N):
        columns = start + tl.arange(0, N)
        key = tl.load(k + head + columns[None, :] * D + depth[:, None])
        scores = tl.dot(query, key) * scale
        scores = tl.where(rows[:, None] >= columns[None, :], scores, -float("inf"))
        higher = tl.maximum(most, tl.max(scores, 1))
        powers = tl.exp2(scores - higher[:, None])
        shrink = tl.exp2(most - higher)
        total = total * shrink + tl.sum(powers, 1)
        value = tl.load(v + head + columns[:, None] * D + depth[None, :])
        sums = tl.dot(powers.to(tl.float16), value, sums * shrink[:, None])
        most = higher
    tl.store(out + at, (sums / total[:, None]).to(tl.float16))


@triton.jit
def reductions(x, sums, most, where, n, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.arange(0, BLOCK)
    values = tl.load(x + rows[:, None] * n + columns[None, :], mask=columns[None, :] < n, other=-float("inf"))
    tl.store(most + rows, tl.max(values, axis=1))
    tl.store(where + rows, tl.argmax(values, axis=1))
    kept = tl.where(columns[None, :] < n, values, 0.0)
    tl.atomic_add(sums + columns, tl.sum(kept, axis=0), mask=columns < n)


@triton.jit
def histogram(x, counts, n, BINS: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    found = tl.histogram(tl.load(x + at, mask=inside, other=0), BINS, mask=inside)
    tl.atomic_add(counts + tl.arange(0, BINS), found)


@triton.jit
def atomics(x, total, most, lock, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + at)
    tl.atomic_add(total, tl.sum(values, axis=0))
    tl.atomic_max(most, tl.max(values, axis=0))
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.debug_barrier()
    found = tl.load(count)
    tl.debug_barrier()  # all threads load, one stores
    tl.store(count, found + 1)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@triton.jit
def scan(x, out, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    values = tl.load(x + row * n + at, mask=at < n, other=0.0)
    tl.store(out + row * n + at, tl.cumsum(values, axis=0), mask=at < n)


@dataclass
class Case:
    """A call of a kernel. args: of the call; wanted: float64 results by argument; within: absolute and relative."""

    kernel: Any
    grid: tuple[int, ...]
    args: tuple[Any, ...]
    wanted: dict[str, Any]
    within: tuple[float, float] = (0.0, 1e-6)
    options: dict[str, Any] = field(default_factory=dict)

    def right(self) -> bool:
        """Did the call compute the expected results?"""
        names = self.kernel.arg_names
        for name, exact in self.wanted.items():
            got = self.args[names.index(name)]
            got = np.asarray(getattr(got, "base", got) if isinstance(got, TensorDescriptor) else got)
            absolute, relative = self.within
            if not np.allclose(got.astype(np.float64), exact, atol=absolute, rtol=relative):
                return False
        return True


def _random(*shape: int, kind: str = "float32") -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(kind)


def _add() -> Case:
    x, y, out = _random(1000), _random(1000) * 2, np.zeros(1000, np.float32)
    return Case(add, (4,), (x, y, out, 1000), {"out": x.astype(float) + y}, options={"BLOCK": 256})


def _softmax() -> Case:
    x = _random(8, 1000)
    powers = np.exp(x.astype(float) - x.max(1, keepdims=True))
    wanted = powers / powers.sum(1, keepdims=True)
    return Case(softmax, (8,), (x, np.zeros_like(x), 1000), {"out": wanted}, (1e-7, 1e-5), {"BLOCK": 1024})


def _layer_norm() -> Case:
    x, weight, bias = _random(8, 1000), _random(1000), _random(1000) * 0.5
    exact = x.astype(float)
    centred = exact - exact.mean(1, keepdims=True)
    wanted = centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5) * weight + bias
    args = (x, weight, bias, np.zeros_like(x), 1000, 1e-5)
    return Case(layer_norm, (8,), args, {"out": wanted}, (1e-5, 1e-5), {"BLOCK": 1024})


def product(size: int, m: int, n: int, k: int) -> Case:
    """A square product in tiles of m x n x k."""
    a, b = _random(size, size, kind="float16"), _random(size, size, kind="float16")[::-1].copy()
    args = (a, b, np.zeros((size, size), np.float16), size, size, size)
    grid = (-(-size // m), -(-size // n))
    wanted = {"c": a.astype(float) @ b.astype(float)}
    return Case(matmul, grid, args, wanted, (0.05, 2e-3), {"M": m, "N": n, "K": k, "num_stages": 3})


def product_tma(shape: tuple[int, int, int], m: int, n: int, k: int) -> Case:
    """A product of rows x columns x depth in tiles of m x n x k, by the copy engine where there is one."""
    rows, columns, depth = shape
    a, b = (torch.from_numpy(_random(*each, kind="float16")) for each in ((rows, depth), (depth, columns)))
    c = torch.zeros(rows, columns, dtype=torch.float16)
    blocks = (a, [m, k]), (b, [k, n]), (c, [m, n])
    args = (*(TensorDescriptor.from_tensor(tensor, block) for tensor, block in blocks), depth)
    wanted = {"c": a.numpy().astype(float) @ b.numpy().astype(float)}
    return Case(matmul_tma, (rows // m, columns // n), args, wanted, (0.05, 2e-3), {"M": m, "N": n, "K": k})


def _attention() -> Case:
    q, k, v = (_random(2, 128, 64 + i, kind="float16")[..., :64].copy() for i in range(3))
    scores = q.astype(float) @ k.astype(float).swapaxes(1, 2) / 8
    scores[:, ~np.tri(128, dtype=bool)] = -np.inf
    powers = np.exp(scores - scores.max(2, keepdims=True))
    wanted = powers / powers.sum(2, keepdims=True) @ v.astype(float)
    args = (q, k, v, np.zeros_like(q), 128, float(1 / 8 / np.log(2)))
    return Case(attention, (2, 2), args, {"out": wanted}, (4e-3, 4e-3), {"M": 64, "N": 64, "D": 64})


def _reductions() -> Case:
    x = _random(64, 200)
    args = (x, np.zeros(200, np.float32), np.zeros(64, np.float32), np.zeros(64, np.int32), 200)
    wanted = {"sums": x.sum(0, dtype=float), "most": x.max(1), "where": x.argmax(1)}
    return Case(reductions, (4,), args, wanted, (1e-5, 1e-5), {"ROWS": 16, "BLOCK": 256})


def _histogram() -> Case:
    x = np.random.default_rng(1).integers(0, 64, 2000).astype(np.int32)
    wanted = {"counts": np.bincount(x, minlength=64)}
    return Case(histogram, (4,), (x, np.zeros(64, np.int32), 2000), wanted, options={"BINS": 64, "BLOCK": 512})


def _atomics() -> Case:
    x = _random(8 * 256)
    args = (x, np.zeros(1, np.float32), np.full(1, -9, np.float32), np.zeros(1, np.int32), np.zeros(1, np.int32))
    wanted = {"total": [x.sum(dtype=float)], "most": [x.max()], "count": [8]}
    return Case(atomics, (8,), args, wanted, (1e-3, 1e-5), {"BLOCK": 256})


def _scan() -> Case:
    x = _random(4, 1000)
    args = (x, np.zeros_like(x), 1000)
    return Case(scan, (4,), args, {"out": x.cumsum(1, dtype=float)}, (1e-4, 1e-5), {"BLOCK": 1024})


CASES: dict[str, Callable[[], Case]] = {
    "add": _add,
    "softmax": _softmax,
    "layer norm": _layer_norm,
    "matmul": lambda: product(128, 64, 64, 32),
    "matmul TMA": lambda: product_tma((128, 64, 320), 64, 64, 64),
    "attention": _attention,
    "reductions": _reductions,
    "histogram": _histogram,
    "atomics": _atomics,
    "scan": _scan,
}
