"""Other distributions of rows, so that the choice of `tilewright.kernels.rows` can be seen.

    python -m benchmarks.gpu.tune_rows                       # all kernels, all lengths
    python -m benchmarks.gpu.tune_rows softmax 4096,131072   # some of them

Each line: rate of `copy_` of the same bytes, threads of a CTA x runs x elements of an access, CTAs of a cluster (c),
rows that it takes (t) and that are ahead (a), whether weights are read early, CTAs that a multiprocessor must have room
for (r), registers. A star marks what is chosen. Ways that spill are left out.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from importlib import import_module
from itertools import product
from multiprocessing import get_context
from typing import Any

from tilewright.kernels.rows import Rows, chosen

KINDS = {"float32": 4, "bfloat16": 2}
LENGTHS = (1024, 4096, 16384, 131072)
MOST_HELD, LEAST_HELD = 64, 8  # elements of a thread
SHOWN = 8
SHARED_BYTES = 227 << 10
BYTES = 2**28
EPS = 1e-6
# The constants of a kernel beside the rows, and its arguments: x, weights, results, a number.
EXTRA = {"softmax": "", "rms_norm": "w", "layer_norm": "ww", "cross_entropy": "t"}
TABLE = {"": "plain", "w": "weighted", "ww": "biased", "t": "reduced"}


def usual(name: str, columns: int, item_bytes: int) -> Rows:
    """The distribution that the kernel chooses."""
    return chosen(columns, 16 // item_bytes, item_bytes, clusters=True, table=TABLE[EXTRA[name]], many=True)


def ways(columns: int, item_bytes: int) -> Iterator[Rows]:
    """Some distributions that may be good."""
    if columns > 16384:
        yield from shared_ways(columns, item_bytes)
        return
    vector = 16 // item_bytes
    for cluster in (1,) if columns <= 8192 else (1, 2):
        share = columns // cluster
        for threads in (32, 128, 256, 512, 1024):
            held = share // threads
            if not LEAST_HELD <= held <= MOST_HELD or held % vector or (threads == 32 and cluster > 1):
                continue
            full = 2048 // max(threads, 128)
            for resident in sorted({0, full, full * 3 // 4, full // 2} - {1}):
                if resident * max(threads, 128) * (held * item_bytes // 4 + 16) <= 65536:
                    yield Rows(threads, held // vector, vector, True, resident=resident, cluster=cluster, exact=True)
            if cluster == 1 and threads > 32:
                yield Rows(threads, held // vector, vector, True, turns=4, ahead=1, exact=True)
                yield Rows(threads, held // vector, vector, True, turns=4, ahead=2, exact=True)


def shared_ways(columns: int, item_bytes: int) -> Iterator[Rows]:
    """The same for rows that the CTAs of a cluster share."""
    vector = 16 // item_bytes
    for cluster, threads, (turns, ahead) in product((4, 8, 16), (128, 256, 512), ((1, 0), (2, 1), (4, 1))):
        share = columns // cluster
        held, stages = share // threads, share * item_bytes * ahead + 1024
        if not LEAST_HELD <= held <= MOST_HELD or held % vector or stages > SHARED_BYTES:
            continue
        for early in (False, True):
            yield Rows(threads, held // vector, vector, True, cluster=cluster, turns=turns, ahead=ahead, early=early,
                       exact=True)  # fmt: skip


def made(name: str, rows: Rows, kind: str) -> Any:
    """The kernel. `Any`: an `Executable`."""
    extra = {"": (), "w": (kind,), "ww": (kind,), "t": ("int64",)}[EXTRA[name]]
    return import_module(f"tilewright.kernels.{name}").forward(rows, kind, *extra)


def registers(name: str, rows: Rows, kind: str) -> int:
    """Registers of a thread; 0 where some are kept in memory. Leaves the cubin in the cache."""
    found = made(name, rows, kind).resources
    return 0 if found.local_bytes else found.registers


def arguments(name: str, columns: int, kind: str) -> tuple[Any, ...]:
    import torch

    dtype = getattr(torch, kind)
    x = torch.randn(BYTES // dtype.itemsize // columns, columns, device="cuda", dtype=dtype)
    if name == "cross_entropy":
        return x, torch.randint(columns, (len(x),), device="cuda"), torch.empty(len(x), device="cuda")
    weights = tuple(torch.randn(columns, device="cuda", dtype=dtype) for _ in EXTRA[name])
    return (x, *weights, torch.empty_like(x), *((EPS,) if weights else ()))


def measure(name: str, columns: int, kind: str, found: dict[Rows, int]) -> None:
    from benchmarks.gpu.memory_bound import Captured

    args = arguments(name, columns, kind)
    taken = usual(name, columns, KINDS[kind])
    calls = {}
    for rows, used in found.items():
        star = "*" if rows == taken else " "
        turns = f" t{rows.turns} a{rows.ahead}" if rows.turns > 1 else ""
        turns += " early" if rows.early else ""
        label = f"{star}{rows.threads}x{rows.runs}x{rows.vector} c{rows.cluster}{turns} r{rows.resident} {used} regs"
        calls[label] = Captured(partial(made(name, rows, kind), *args))
    show(f"{name}, {kind}, rows of {columns}", BYTES if name == "cross_entropy" else 2 * BYTES, calls)


def show(what: str, nbytes: int, calls: dict[str, Any]) -> None:
    from benchmarks.gpu.memory_bound import COPY, Captured, cold, copying

    times = cold({COPY: Captured(copying(nbytes)), **calls})
    copied = times.pop(COPY)
    ranked = sorted(times.items(), key=lambda item: item[1])
    shown = [item for k, item in enumerate(ranked) if k < SHOWN or item[0][0] == "*"]
    print(f"\n{what}: copy_ {nbytes / copied / 1e12:.2f} TB/s", flush=True)
    print("  " + " | ".join(f"{copied / time:.3f} {label}" for label, time in shown), flush=True)


def elementwise() -> None:
    """silu_mul, in parts of other sizes; and add_rms_norm beside `copy_` of several sizes."""
    import torch

    from benchmarks.gpu.memory_bound import Captured
    from tilewright import kernels

    silu_mul = import_module("tilewright.kernels.silu_mul")
    for kind, item_bytes in KINDS.items():
        dtype, vector = getattr(torch, kind), 16 // item_bytes
        gate, up = (torch.randn(BYTES // item_bytes, device="cuda", dtype=dtype) for _ in range(2))
        y, calls = torch.empty_like(gate), {}
        for threads in (128, 256, 512):
            for runs in (1, 2, 4):
                rows = Rows(threads, runs, vector, True, exact=True)
                views = [array.view(-1, rows.part) for array in (gate, up, y)]
                calls[f" {threads}x{runs}x{vector}"] = Captured(partial(silu_mul.forward(rows, kind), *views))
        show(f"silu_mul, {kind}", 3 * BYTES, calls)
        x, added, w = gate.view(-1, 4096), up.view(-1, 4096), torch.randn(4096, device="cuda", dtype=dtype)
        both = {" add_rms_norm": Captured(partial(kernels.add_rms_norm, x, added, w))}
        for times in (2, 3, 4):
            show(f"add_rms_norm, {kind}, beside copy_ of {times} x 256 MiB", times * BYTES, both)


def main(names: list[str], lengths: list[int]) -> None:
    jobs = []
    for name in names:
        for columns in lengths:
            for kind, item_bytes in KINDS.items():
                tried = dict.fromkeys((usual(name, columns, item_bytes), *ways(columns, item_bytes)))
                jobs += [(name, rows, kind, columns) for rows in tried]
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        used = list(pool.map(registers, *zip(*(job[:3] for job in jobs), strict=True), chunksize=2))
    groups: dict[tuple[str, int, str], dict[Rows, int]] = {}
    for (name, rows, kind, columns), count in zip(jobs, used, strict=True):
        group = groups.setdefault((name, columns, kind), {})
        alike = {(replace(one, resident=0), uses) for one, uses in group.items()}
        if count and (replace(rows, resident=0), count) not in alike:
            group[rows] = count
        elif not count and rows == usual(name, columns, KINDS[kind]):
            print(f"what is chosen for {name}, {kind}, rows of {columns} spills: {rows}")
    for key, found in groups.items():
        measure(*key, found)
    if len(lengths) > 1:
        elementwise()


if __name__ == "__main__":
    chosen_names = sys.argv[1].split(",") if len(sys.argv) > 1 else list(EXTRA)
    main(chosen_names, [int(n) for n in sys.argv[2].split(",")] if len(sys.argv) > 2 else list(LENGTHS))
