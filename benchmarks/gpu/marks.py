"""What `T.trace` costs on a Hopper GPU in matmul and attention, and whether marks come in the simulator's order."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import tilewright as tw
from benchmarks.gpu.measure import Claim, Table, medians
from tilewright.ir import as_expr
from tilewright.ir.numbers import evaluate
from tilewright.kernels import attention_calls, products
from tilewright.sim import RecordingOptions
from tilewright.tracing import Trace, traced

__all__ = ["table"]

SIZES = ((2048, 2048, 2048), (4096, 4096, 4096), (8192, 8192, 2048))
MOST = 1.02
MARKS = 2048
OPEN = (-1, -1, True)  # no window, not causal
HEAD = ("kernel", "without marks, us", "with marks, us", "ratio", "marks", "order as in the simulator")


Launched = tuple[tw.Executable, tuple[Any, ...]]


def product(a: Any, b: Any) -> Launched:
    """The kernel of ``kernels.matmul(a, b)`` and its arguments, launched once."""
    found: list[Launched] = []
    products.FORWARD.direct(a, b, *[None] * 4, "", "", launch=partial(_launched, found))
    return found[-1]


def attend(q: Any, k: Any, v: Any) -> Launched:
    """That of ``kernels.attention(q, k, v)``."""
    found: list[Launched] = []
    args = (q, k, v, *[None] * 6, "bhsd", 0, *OPEN, float(q.shape[-1] ** -0.5), 0.0, False)
    attention_calls.FORWARD.direct(*args, launch=partial(_launched, found))
    return found[-1]


def _launched(found: list[Launched], exe: tw.Executable, args: tuple[Any, ...]) -> None:
    found.append((exe, args))
    exe(*args)


def cost(exe: tw.Executable, args: tuple[Any, ...]) -> tuple[float, float]:
    """Seconds without and with marks."""
    import torch

    made, _ = traced(exe, MARKS)
    (extent,) = made.signature.buffers["trace_words_ptr"].shape
    count = int(evaluate(as_expr(extent), exe.bind(*args).values))
    words = torch.zeros(count, dtype=torch.int64, device="cuda")
    times = medians({"without": lambda: exe(*args), "with": lambda: made(*args, words)})
    return times["without"], times["with"]


def on_host(args: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(np.ascontiguousarray(each.cpu().numpy()) if hasattr(each, "cpu") else each for each in args)


def order(exe: tw.Executable, args: tuple[Any, ...]) -> tuple[Trace, tuple[str, ...]]:
    """The marks of a small call, and the warps for which the simulator has another order."""
    found = exe.trace(*args, marks=MARKS)
    run = exe.simulate(*on_host(args), check="none", record=RecordingOptions(ctas=64, stepped=0))
    assert run.recording is not None
    return found, found.differs_from(run.recording)


def cases() -> dict[str, tuple[Callable[[], Launched], Callable[[], Launched]]]:
    """By name: a large call to be timed, a small one whose marks are compared."""
    import torch

    def made(*shapes: tuple[int, ...]) -> list[Any]:
        return [torch.randn(shape, device="cuda", dtype=torch.float16) for shape in shapes]

    def large(m: int, n: int, k: int) -> Launched:
        return product(*made((m, k), (k, n)))

    def small() -> Launched:
        return product(*made((512, 512), (512, 512)))

    def heads(count: int, length: int) -> Launched:
        return attend(*made(*[(1, count, length, 128)] * 3))

    found = {f"matmul {m} x {n} x {k}": (partial(large, m, n, k), small) for m, n, k in SIZES}
    return {**found, "attention 16 heads of 4096 x 128": (partial(heads, 16, 4096), partial(heads, 2, 512))}


def table(*, orders: bool = True) -> Table:
    """One row for each case; a case that fails says how, and the rest goes on. orders: are marks compared, too?"""
    rows, claims, notes = [], [], []
    for name, (large, small) in cases().items():
        try:
            without, with_ = cost(*large())
            cells = name, f"{without * 1e6:.1f}", f"{with_ * 1e6:.1f}", f"{with_ / without:.4f}"
            if name.startswith("matmul"):
                claims.append(Claim(f"{name}, with one mark a stage", with_ / without, MOST, most=True))
            rows.append((*cells, "", ""))
            if not orders:
                continue
            found, differs = order(*small())
            rows[-1] = *cells, f"{len(found.marks):,}", "; ".join(differs[:2]) or "yes"
            claims.append(Claim(f"{name}: warps with another order", float(len(differs)), 0.0, most=True))
            if (out := os.environ.get("OUT")) is not None:
                Path(out, f"{name.replace(' ', '_')}.json").write_text(json.dumps(found.events()), encoding="utf-8")
            notes.append(str(found).replace("\n", "\n    "))
        except Exception:  # the other cases are still to be measured
            rows.append((name, "failed", traceback.format_exc().splitlines()[-1], "", "", ""))
            traceback.print_exc()
    return Table("Marks", HEAD, tuple(rows), tuple(claims), tuple(notes))


if __name__ == "__main__":
    print(table(orders="quick" not in sys.argv).markdown())
