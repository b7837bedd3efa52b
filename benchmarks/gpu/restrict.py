"""What ``__restrict__`` changes: ``python -m benchmarks.gpu.restrict``; --sass looks at the machine code alone.

Each kernel is assembled from the text for arguments that do not overlap and from the text for those that may; the table
has the time of both (the median of interleaved rounds) and how many loads of each kind, and instructions, they have.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any

import tilewright as tw
from tilewright import T
from tilewright.cuda import emit
from tilewright.cuda.nvrtc import assemble, sass

N = 1 << 24
STEPS = 64  # of the inner loops


@T.prim_func
def scale(X: T.Buffer((N,), "float32"), Y: T.Buffer((N,), "float32")):
    bx = T.cta_id([N // 256])
    i = bx * 256 + T.thread_id([256])
    Y[i] = X[i] * 2.0


@T.prim_func
def stencil(X: T.Buffer((N,), "float32"), Y: T.Buffer((N,), "float32")):
    """Stores between loads of the same elements: without the word each store may change what is loaded next."""
    bx = T.cta_id([N // 1024])
    first = bx * 1024 + T.thread_id([256]) * 4
    for k in T.unroll(4):
        i = first + k
        before = T.select(i > 0, X[T.max(i - 1, 0)], 0.0)
        after = T.select(i < N - 1, X[T.min(i + 1, N - 1)], 0.0)
        Y[i] = before + X[i] * 2.0 + after


@T.prim_func
def table(X: T.Buffer((N,), "float32"), W: T.Buffer((64,), "float32"), Y: T.Buffer((N,), "float32")):
    """Weights that all threads read again after each store."""
    bx = T.cta_id([N // (256 * STEPS)])
    first = bx * 256 * STEPS + T.thread_id([256])
    for k in T.serial(STEPS, unroll=8):
        Y[first + k * 256] = X[first + k * 256] * W[0] + W[1]


@T.prim_func
def products(X: T.Buffer((N,), "uint32"), W: T.Buffer((N,), "uint32"), Y: T.Buffer((N,), "float32")):
    """A loop of matrix products whose operands come from global memory."""
    bx = T.cta_id([1024])
    lane = T.lane_id([32])
    a = T.alloc_local((4,), "uint32")
    b = T.alloc_local((2,), "uint32")
    d = T.alloc_local((4,), "float32")
    for k in T.unroll(4):
        d[k] = 0.0
    for step in T.serial(STEPS, unroll=4):
        for k in T.unroll(4):
            a[k] = X[(bx * STEPS + step) * 128 + k * 32 + lane] & 0x3FFF3FFF
        for k in T.unroll(2):
            b[k] = W[step * 64 + k * 32 + lane] & 0x3FFF3FFF
        registers = [d[0], d[1], d[2], d[3]]
        T.ptx.mma("m16n8k16", "f32.f16.f16.f32", registers, [a[0], a[1], a[2], a[3]], [b[0], b[1]], registers)
        Y[(bx * STEPS + step) * 32 + lane] = d[0]


KERNELS = (scale, stencil, table, products)
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
    import torch

    from benchmarks.gpu.measure import medians

    exe = tw.compile(kernel, "sm_90a")
    kinds = {"float32": torch.float32, "uint32": torch.int32}
    sizes = [buffer.shape[0] for buffer in exe.kernel.buffers]
    pool = [torch.ones(size, dtype=kinds[str(b.dtype)], device="cuda") for b, size in zip(exe.kernel.buffers, sizes)]
    pool = [one.view(torch.uint32) if b.dtype == "uint32" else one for b, one in zip(exe.kernel.buffers, pool)]
    return medians({word: _launch(exe, pool, may_alias=word == "without") for word in ("with", "without")})


def _launch(exe: tw.Executable, pool: list[Any], *, may_alias: bool) -> Callable[[], object]:
    from tilewright.cuda import driver
    from tilewright.cuda.launch import Launcher
    from tilewright.cuda.tensors import inspected

    launcher = Launcher(exe.lowered, exe.signature, exe.target, lambda **_: exe._cubin(may_alias=may_alias))
    found = [inspected(one, 0) for one in pool]
    plan = launcher.plan(found, driver.device(0))
    values = plan.exact(found)
    import torch

    return lambda: plan.launch(values, torch.cuda.current_stream().cuda_stream)


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
