"""Five kernels as learners write them, and what became of them by following the advice: both on the GPU.

python -m benchmarks.gpu learners
python -m benchmarks.gpu.learners FOLDER     # learners.json there, too
"""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.gpu.measure import Claim, Table

SIZES = {"product": 2048, "transposition": 8192, "softmax": 65536, "sums": 1 << 26, "count": 1 << 26}
WANTED = 2.0


def seconds(name: str) -> tuple[float, float]:
    """Of the kernel before and after."""
    import torch

    import tilewright as tw
    from benchmarks.gpu.memory_bound import Captured, cold
    from examples import slow_and_fast

    def array(shape: tuple[int, ...], kind: str) -> Any:
        return torch.randn(shape, device="cuda") if kind == "float32" else torch.zeros(shape, device="cuda").int()

    args = slow_and_fast.arguments(name, SIZES[name], array)  # type: ignore[no-untyped-call]  # an example
    calls, results = {}, []
    for number, kernel in enumerate(slow_and_fast.PAIRS[name]):
        exe = tw.compile(kernel, "sm_90a")
        args[-1].zero_()
        exe(*args)
        results.append(args[-1].double().sum() if name == "sums" else args[-1].clone())
        torch.cuda.synchronize()  # before the same kernel runs on the stream of a capture
        calls[str(number)] = Captured(partial(exe, *args))
    assert torch.allclose(*(one.double() for one in results), rtol=1e-3, atol=1e-2), f"{name}: results differ"
    found = cold(calls, rounds=7)
    return found["0"], found["1"]


def run() -> Table:
    rows, claims = [], []
    for name in SIZES:
        try:
            before, after = seconds(name)
        except Exception as error:  # of one kernel: the others stay
            print(f"{name}: {type(error).__name__}: {error}", flush=True)
            continue
        rows.append((name, f"{before * 1e6:.1f}", f"{after * 1e6:.1f}", f"{before / after:.1f}"))
        claims.append(Claim(f"{name}, times as fast", before / after, WANTED))
    head = ("kernel", "before, us", "after, us", "times as fast")
    return Table("Kernels of learners, by the advice", head, tuple(rows), tuple(claims))


if __name__ == "__main__":
    table = run()
    print(table.markdown())
    if sys.argv[1:]:
        Path(sys.argv[1], "learners.json").write_text(json.dumps(table.rows, indent=1))
