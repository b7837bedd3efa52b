"""The lower bound by the simulator's counts beside the measured time, which no bound may exceed.

    python -m benchmarks.gpu.bounds            # on an H200; --gpu H100 on that

Kernels over rows or over one long array are counted on a part of it and scaled to what is measured; of products their
tiles give the bound.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import tilewright as tw
from benchmarks.gpu.restrict import launches
from benchmarks.gpu.restrict_kernels import N, products, scale, stencil, table
from benchmarks.gpu.tune_rows import BYTES, EXTRA, KINDS, arguments, made, usual
from tilewright.profiling import Gpu, gpu, profile
from tilewright.profiling.gpus import SECTOR_RATE

COUNTED_ROWS = 64
COUNTED = 1 << 18  # elements of a long array
LENGTHS = (1024, 4096, 16384)
SHAPES = [(size, size, size) for size in (2048, 4096, 8192)]
SHAPES += [(m, n, k) for m in (16, 128, 512) for n, k in ((4096, 4096), (14336, 4096), (4096, 14336))]
"""M, N, K of products: thin ones wait for the memory of B."""
LONG: tuple[Callable[[int], Any], ...] = (scale, stencil, table, products)
"""Kernels over one long array, by the number of its elements."""


def counted(name: str, columns: int, kind: str, on: Gpu) -> tuple[float, str]:
    """Seconds at least, and the unit, of as many rows as are measured."""
    from tilewright.dtypes import dtype

    exe = made(name, usual(name, columns, KINDS[kind]), kind)
    x = np.random.default_rng(0).standard_normal((COUNTED_ROWS, columns)).astype(dtype(kind).numpy)
    if name == "cross_entropy":
        args: tuple[Any, ...] = (x, np.zeros(COUNTED_ROWS, np.int64), np.zeros(COUNTED_ROWS, np.float32))
    else:
        weights = tuple(x[0].copy() for _ in EXTRA[name])
        args = (x, *weights, np.empty_like(x), *((1e-6,) if weights else ()))
    rows = BYTES // KINDS[kind] // columns
    found = profile(exe, args, on, {}, 0).scaled(rows / COUNTED_ROWS)
    return found.bound, found.unit


def row(what: str, bound: float, unit: str, measured: float) -> bool:
    """Print a row; is the bound at most the measured time?"""
    verdict = "" if bound <= measured else "  ABOVE"
    print(f"{what:<32}{bound * 1e6:10.1f}{measured * 1e6:10.1f}{bound / measured:8.2f}  {unit}{verdict}", flush=True)
    return bound <= measured


def rows_table(on: Gpu) -> bool:
    from benchmarks.gpu.memory_bound import Captured, cold

    fine = True
    for name in EXTRA:
        for kind in KINDS:
            for columns in LENGTHS:
                args = arguments(name, columns, kind)
                call = Captured(partial(made(name, usual(name, columns, KINDS[kind]), kind), *args))
                measured = cold({"ours": call}, rounds=7)["ours"]
                fine &= row(f"{name} {kind} {columns}", *counted(name, columns, kind, on), measured)
    return fine


def product_bounds(m: int, n: int, k: int, on: Gpu) -> dict[str, float]:
    """Seconds of a product of 16-bit elements, by unit: an SM that has the most tiles does whole ones."""
    from tilewright.kernels.forms import ROW_BYTES
    from tilewright.kernels.products import chosen

    steps = k * 2 // ROW_BYTES
    tiles, turned = chosen(m, n, steps, on.sms)
    parts = tiles.parts
    down, across = (n, m) if turned else (m, n)
    ctas = -(-down // (tiles.m * tiles.cluster)) * tiles.cluster * -(-across // tiles.n) * parts
    most = -(-ctas // on.sms)
    loaded = (tiles.m + tiles.n / tiles.cluster) * ROW_BYTES * steps / parts
    return {
        "tensor cores": most * 2 * tiles.m * tiles.n * k / parts / (on.tensor[16] * on.clock),
        "L2": most * loaded / (SECTOR_RATE * on.clock),
        "HBM": 2 * (m * k + k * n + max(0, m * n - on.l2_bytes // 2)) / on.hbm,
    }


def products_table(on: Gpu) -> bool:
    import torch

    from benchmarks.gpu.memory_bound import Captured, cold
    from tilewright import kernels

    fine = True
    for m, n, k in SHAPES:
        a, b = (torch.randn(*shape, device="cuda", dtype=torch.bfloat16) for shape in ((m, k), (k, n)))
        measured = cold({"ours": Captured(partial(kernels.matmul, a, b))}, rounds=7)["ours"]
        units = product_bounds(m, n, k, on)
        unit = max(units, key=lambda name: units[name])
        fine &= row(f"matmul bfloat16 {m} x {n} x {k}", units[unit], unit, measured)
    return fine


def moves_table(on: Gpu) -> bool:
    """Reductions and moves of an array that is read once: memory alone bounds them."""
    import torch

    from benchmarks.gpu.memory_bound import Captured, cold
    from tilewright import kernels

    x = torch.randn(BYTES // 4 // 4096, 4096, device="cuda")
    calls: dict[str, tuple[Any, int, int]] = {  # the call, arrays of that size that it reads and writes
        "row_sum": (partial(kernels.row_sum, x), 1, 0),
        "column_sum": (partial(kernels.column_sum, x), 1, 0),
        "row_argmax": (partial(kernels.row_argmax, x), 1, 0),
        "transpose": (partial(kernels.transpose, x), 1, 1),
        "silu_mul": (partial(kernels.silu_mul, x, x.clone()), 2, 1),
    }
    fine = True
    for name, (call, read, written) in calls.items():
        measured = cold({"ours": Captured(call)}, rounds=7)["ours"]
        bound = (read * BYTES + max(0, written * BYTES - on.l2_bytes)) / on.hbm
        fine &= row(f"{name} float32 4096", bound, "HBM", measured)
    return fine


def long_bound(make: Callable[[int], Any], on: Gpu) -> tuple[float, str]:
    """Seconds at least, and the unit, of a kernel over `N` elements."""
    exe: Any = tw.compile(make(COUNTED), "sm_90a")
    args = tuple(np.ones(int(buffer.shape[0]), str(buffer.dtype)) for buffer in exe.kernel.buffers)
    found = profile(exe, args, on, {}, 0).scaled(N // COUNTED)
    return found.bound, found.unit


def long_table(on: Gpu) -> bool:
    """Kernels over one long array, among them a stencil."""
    from benchmarks.gpu.memory_bound import Captured, cold

    fine = True
    for make in LONG:
        measured = cold({"ours": Captured(launches(make(N))["with"])}, rounds=7)["ours"]
        fine &= row(f"{make.__name__} of {N}", *long_bound(make, on), measured)
    return fine


def main() -> None:
    on = gpu(sys.argv[2] if sys.argv[1:2] == ["--gpu"] else "H200")
    print(f"{'us on ' + on.name:<32}{'at least':>10}{'measured':>10}{'ratio':>8}  bound by")
    fine = [rows_table(on), moves_table(on), long_table(on), products_table(on)]
    raise SystemExit(0 if all(fine) else 1)


if __name__ == "__main__":
    main()
