"""The effect of ``__restrict__``: ``python -m benchmarks.gpu.restrict``; --sass looks at the machine code alone.

Each kernel is assembled from the text for arguments that do not overlap and from the text for those that may; the table
has the time of both (the median of interleaved rounds) and how many loads of each kind, and instructions, they have.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any

import tilewright as tw
from benchmarks.gpu.restrict_kernels import N, products, scale, stencil, table
from tilewright.cuda import emit
from tilewright.cuda.nvrtc import assemble, sass

MAKERS: tuple[Callable[[int], Any], ...] = (scale, stencil, table, products)
KERNELS = tuple(make(N) for make in MAKERS)
COUNTED = {"loads": r"\bLDG\.", "of them constant": r"\bLDG\.\S*CONSTANT", "instructions": r"^\s+/\*[0-9a-f]{4,}\*/"}


def texts(kernel: Any) -> dict[str, str]:
    """The CUDA text with the word and without."""
    exe = tw.compile(kernel, "sm_90a")
    return {"with": exe.source("cuda"), "without": emit(exe.lowered, exe.target, may_alias=True)}


def counts(text: str) -> list[int]:
    code = sass(assemble(text, "sm_90a").cubin)
    return [len(re.findall(pattern, code, re.MULTILINE)) for pattern in COUNTED.values()]


def seconds(kernel: Any) -> dict[str, float]:
    """The time of each text on the GPU; the one without the word is what a call gets whose arguments overlap."""
    from benchmarks.gpu.measure import medians

    return medians(launches(kernel))


def launches(kernel: Any) -> dict[str, Callable[[], object]]:
    """A launch of each text, on arrays of ones."""
    import torch

    exe = tw.compile(kernel, "sm_90a")
    kinds = {"float32": torch.float32, "uint32": torch.int32}
    pool = []
    for buffer in exe.kernel.buffers:
        made = torch.ones(buffer.shape[0], dtype=kinds[str(buffer.dtype)], device="cuda")
        pool.append(made.view(torch.uint32) if buffer.dtype == "uint32" else made)
    return {word: _launch(exe, pool, may_alias=word == "without") for word in ("with", "without")}


def _launch(exe: tw.Executable, pool: list[Any], *, may_alias: bool) -> Callable[[], object]:
    from tilewright.cuda import driver
    from tilewright.cuda.launch import Launcher
    from tilewright.cuda.tensors import inspected

    launcher = Launcher(exe.lowered, exe.signature, exe.target, lambda **_: exe._cubin(may_alias=may_alias))
    found = [inspected(one, 0) for one in pool]
    plan = launcher.plan(found, driver.device(0))
    values = plan.exact(found)
    import torch

    def launch(pool: list[Any] = pool) -> object:  # which keeps the arrays
        return plan.launch(values, torch.cuda.current_stream().cuda_stream)

    return launch


def main(words: list[str]) -> None:
    columns = ["kernel", "text", *COUNTED, *([] if "--sass" in words else ["microseconds"])]
    print(" | ".join(columns))
    for kernel in KERNELS:
        times = {} if "--sass" in words else seconds(kernel)
        for word, text in texts(kernel).items():
            cells = [kernel.name, word, *map(str, counts(text))]
            cells += [f"{times[word] * 1e6:.2f}"] if times else []
            print(" | ".join(cells))


if __name__ == "__main__":
    main(sys.argv[1:])
