"""The lower bound by the simulator's counts beside the measured time, which no bound may exceed.

    python -m benchmarks.gpu bounds

Kernels over rows or over one long array are counted on a part of it and scaled to what is measured; of products their
tiles give the bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import tilewright as tw
from benchmarks.gpu.measure import Claim, Table
from benchmarks.gpu.restrict import launches
from benchmarks.gpu.restrict_kernels import N, products, scale, stencil, table
from benchmarks.gpu.tune_rows import BYTES, EXTRA, KINDS, arguments, made, usual
from tilewright.cuda import driver
from tilewright.profiling import Gpu, gpu, profile
from tilewright.profiling.bounds import GPUS, SECTOR_RATE

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
        args: tuple[Any, ...] = (x, np.zeros(COUNTED_ROWS, np.int64), np.zeros(COUNTED_ROWS, np.float32), -100)
    else:
        weights = tuple(x[0].copy() for _ in EXTRA[name])
        args = (x, *weights, np.empty_like(x), *((1e-6,) if weights else ()))
    rows = BYTES // KINDS[kind] // columns
    found = profile(exe, args, on, {}, 0).scaled(rows / COUNTED_ROWS)
    return found.bound, found.unit


@dataclass(frozen=True, slots=True)
class Held:
    """A kernel, its bound in seconds by a unit, and its measured time in seconds."""

    what: str
    bound: float
    unit: str
    measured: float

    @property
    def cells(self) -> tuple[str, ...]:
        times = f"{self.bound * 1e6:.1f}", f"{self.measured * 1e6:.1f}"
        return self.what, *times, f"{self.bound / self.measured:.2f}", self.unit

    def claims(self) -> Iterator[Claim]:
        """No bound is above the time; one by bandwidth or tensor cores is at least half of it."""
        ratio = self.bound / self.measured
        yield Claim(f"{self.what}: bound of the measured time", ratio, 1, most=True)
        if self.unit in ("HBM", "tensor cores"):
            yield Claim(f"{self.what}: bound of the measured time", ratio, 0.5)


def rows_held(on: Gpu) -> Iterator[Held]:
    from benchmarks.gpu.memory_bound import Captured, cold

    for name in EXTRA:
        for kind in KINDS:
            for columns in LENGTHS:
                args = arguments(name, columns, kind)
                call = Captured(partial(made(name, usual(name, columns, KINDS[kind]), kind), *args))
                measured = cold({"ours": call}, rounds=7)["ours"]
                yield Held(f"{name} {kind} {columns}", *counted(name, columns, kind, on), measured)


def product_bounds(m: int, n: int, k: int, on: Gpu) -> dict[str, float]:
    """Seconds of a product of 16-bit elements, by unit: an SM that has the most tiles does whole ones."""
    from tilewright.kernels.forms import ROW_BYTES
    from tilewright.kernels.product_tiles import chosen

    steps = k * 2 // ROW_BYTES
    ((tiles, turned),) = chosen(m, n, steps, on.sms)
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


def products_held(on: Gpu) -> Iterator[Held]:
    import torch

    from benchmarks.gpu.memory_bound import Captured, cold
    from tilewright import kernels

    for m, n, k in SHAPES:
        a, b = (torch.randn(*shape, device="cuda", dtype=torch.bfloat16) for shape in ((m, k), (k, n)))
        measured = cold({"ours": Captured(partial(kernels.matmul, a, b))}, rounds=7)["ours"]
        units = product_bounds(m, n, k, on)
        unit = max(units, key=lambda name: units[name])
        yield Held(f"matmul bfloat16 {m} x {n} x {k}", units[unit], unit, measured)


def moves_held(on: Gpu) -> Iterator[Held]:
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
    for name, (call, read, written) in calls.items():
        measured = cold({"ours": Captured(call)}, rounds=7)["ours"]
        bound = (read * BYTES + max(0, written * BYTES - on.l2_bytes)) / on.hbm
        yield Held(f"{name} float32 4096", bound, "HBM", measured)


def long_bound(make: Callable[[int], Any], on: Gpu) -> tuple[float, str]:
    """Seconds at least, and the unit, of a kernel over `N` elements."""
    exe: Any = tw.compile(make(COUNTED), "sm_90a")
    args = tuple(np.ones(int(buffer.shape[0]), str(buffer.dtype)) for buffer in exe.kernel.buffers)
    found = profile(exe, args, on, {}, 0).scaled(N // COUNTED)
    return found.bound, found.unit


def long_held(on: Gpu) -> Iterator[Held]:
    """Kernels over one long array, among them a stencil."""
    from benchmarks.gpu.memory_bound import Captured, cold

    for make in LONG:
        measured = cold({"ours": Captured(launches(make(N))["with"])}, rounds=7)["ours"]
        yield Held(f"{make.__name__} of {N}", *long_bound(make, on), measured)


def run() -> Table:
    on = gpu(next(name for name in GPUS if name in driver.device(0).name))
    kinds = rows_held, moves_held, long_held, products_held
    held = [each for kind in kinds for each in kind(on)]
    return Table(
        "Least times by the simulator's counts",
        ("kernel", "at least, us", "measured, us", "ratio", "bound by"),
        tuple(each.cells for each in held),
        tuple(claim for each in held for claim in each.claims()),
    )
