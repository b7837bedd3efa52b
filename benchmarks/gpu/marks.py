"""What `T.trace` costs on a Hopper GPU in matmul and attention, and whether marks come in the simulator's order."""

from __future__ import annotations

import json
import os
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tilewright as tw
from benchmarks.gpu.measure import Claim, Table, medians
from tilewright import kernels
from tilewright.ir import as_expr
from tilewright.ir.evaluate import evaluate
from tilewright.tracing import Trace, traced

__all__ = ["table"]

SIZES = ((2048, 2048, 2048), (4096, 4096, 4096), (8192, 8192, 2048))
MOST = 1.02
MARKS = 2048
HEAD = ("kernel", "without marks, us", "with marks, us", "ratio", "marks", "order as in the simulator")


def caught(call: Callable[[], object]) -> tuple[tw.Executable, tuple[Any, ...]]:
    """The kernel and the arguments that a call of `tilewright.kernels` launches."""
    made: list[tuple[tw.Executable, tuple[Any, ...]]] = []
    called, prepared = tw.Executable.__call__, tw.Executable.prepared

    def keep(self: tw.Executable, *args: Any, **named: Any) -> None:
        made.append((self, args))
        called(self, *args, **named)

    def keep_prepared(self: tw.Executable, args: tuple[Any, ...]) -> Any:
        made.append((self, args))
        return prepared(self, args)

    tw.Executable.__call__ = keep  # type: ignore[method-assign]
    tw.Executable.prepared = keep_prepared  # type: ignore[method-assign]
    try:
        call()
    finally:
        tw.Executable.__call__ = called  # type: ignore[method-assign]
        tw.Executable.prepared = prepared  # type: ignore[method-assign]
    return made[-1]


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


def order(call: Callable[[], object]) -> tuple[Trace, tuple[str, ...]]:
    """The marks of a small call on the GPU, and the warps for which the simulator has another order."""
    exe, args = caught(call)
    found = exe.trace(*args, marks=MARKS)
    run = exe.simulate(*on_host(args), check="none", record=64)
    assert run.recording is not None
    return found, found.differs_from(run.recording)


def cases() -> dict[str, tuple[Callable[[], object], Callable[[], object]]]:
    """By name: a large call to be timed, a small one whose marks are compared."""
    import torch

    def product(m: int, n: int, k: int) -> Callable[[], object]:
        a, b = (torch.randn(shape, device="cuda", dtype=torch.float16) for shape in ((m, k), (k, n)))
        return lambda: kernels.matmul(a, b)

    def attend(heads: int, length: int) -> Callable[[], object]:
        q, k, v = (torch.randn((1, heads, length, 128), device="cuda", dtype=torch.float16) for _ in "qkv")
        return lambda: kernels.attention(q, k, v)

    made = {f"matmul {m} x {n} x {k}": (product(m, n, k), product(m // 8, 512, 512 + k // 16))
            for m, n, k in SIZES}  # fmt: skip  # a call like one before is remembered, and not caught
    return {**made, "attention 16 heads of 4096 x 128": (attend(16, 4096), attend(2, 512))}


def table() -> Table:
    """One row for each case; a case that fails says how, and the rest goes on."""
    rows, claims, notes = [], [], []
    for name, (large, small) in cases().items():
        try:
            without, with_ = cost(*caught(large))
            found, differs = order(small)
            rows.append((name, f"{without * 1e6:.1f}", f"{with_ * 1e6:.1f}", f"{with_ / without:.4f}",
                         f"{len(found.marks):,}", "; ".join(differs[:2]) or "yes"))  # fmt: skip
            if name.startswith("matmul"):
                claims.append(Claim(f"{name}, with one mark a stage", with_ / without, MOST, most=True))
            claims.append(Claim(f"{name}: warps with another order", float(len(differs)), 0.0, most=True))
            if (out := os.environ.get("OUT")) is not None:
                Path(out, f"{name.replace(' ', '_')}.json").write_text(json.dumps(found.events()), encoding="utf-8")
            notes.append(str(found).replace("\n", "\n    "))
        except Exception:  # noqa: PERF203  # the other cases are still to be measured
            rows.append((name, "failed", traceback.format_exc().splitlines()[-1], "", "", ""))
            traceback.print_exc()
    return Table("Marks", HEAD, tuple(rows), tuple(claims), tuple(notes))


if __name__ == "__main__":
    print(table().markdown())
