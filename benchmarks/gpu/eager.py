"""What a call of a public kernel costs on the host, beside torch's operator; and products that are called one after the
other, whose GPU has less to do than their host.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.gpu.measure import Claim, Table, host_microseconds, medians

CALLS, ROUNDS = 50, 40  # so few calls at a time that the queue never fills
ROWS, COLUMNS = 64, 1024
PRODUCTS = ((2048, 2048, 2048), (4096, 4096, 4096), (8192, 8192, 8192), (32, 7168, 2048), (1024, 24576, 1536))
Call = Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Eager:
    """A kernel of ours and torch's operator for it. leaves: the tensors that get gradients, if any."""

    ours: Call
    torchs: Call
    leaves: tuple[Any, ...] = ()


def cases(*, graded: bool) -> dict[str, Eager]:
    """By name. graded: do the arguments want gradients?"""
    import torch
    import torch.nn.functional as F

    from tilewright import kernels

    def tensor(*shape: int) -> Any:
        return torch.randn(*shape, device="cuda", dtype=torch.bfloat16).requires_grad_(graded)

    x, y, v, w = tensor(ROWS, COLUMNS), tensor(ROWS, COLUMNS), tensor(COLUMNS), tensor(COLUMNS)
    a, b, square = tensor(256, 512), tensor(512, 256), tensor(256, 256)
    bias = tensor(256)
    logits, targets = tensor(ROWS, COLUMNS), torch.randint(COLUMNS, (ROWS,), device="cuda")

    def quantized() -> Any:
        scale = x.abs().amax(-1, keepdim=True) / 127
        return (x / scale).round().to(torch.int8), scale

    with_gradient = {
        "softmax": Eager(lambda: kernels.softmax(x), lambda: F.softmax(x, -1), (x,)),
        "rms_norm": Eager(lambda: kernels.rms_norm(x, v), lambda: F.rms_norm(x, (COLUMNS,), v, 1e-6), (x, v)),
        "layer_norm": Eager(lambda: kernels.layer_norm(x, v, w), lambda: F.layer_norm(x, (COLUMNS,), v, w), (x, v, w)),
        "add_rms_norm": Eager(
            lambda: kernels.add_rms_norm(x, y, v), lambda: (F.rms_norm(x + y, (COLUMNS,), v, 1e-6), x), (x, y, v)
        ),
        "silu_mul": Eager(lambda: kernels.silu_mul(x, y), lambda: F.silu(x) * y, (x, y)),
        "cross_entropy": Eager(
            lambda: kernels.cross_entropy(logits, targets),
            lambda: F.cross_entropy(logits, targets, reduction="none"),
            (logits,),
        ),
        "transpose": Eager(lambda: kernels.transpose(x), lambda: x.t().contiguous(), (x,)),
        "matmul": Eager(lambda: kernels.matmul(a, b), lambda: torch.matmul(a, b), (a, b)),
        "matmul, bias": Eager(lambda: kernels.matmul(a, b, bias=bias), lambda: torch.addmm(bias, a, b), (a, b, bias)),
        "matmul, gelu, residual": Eager(
            lambda: kernels.matmul(a, b, activation="gelu", residual=square),
            lambda: F.gelu(torch.matmul(a, b)) + square,
            (a, b, square),
        ),
    }
    if graded:
        return with_gradient
    return {
        **with_gradient,
        "column_sum": Eager(lambda: kernels.column_sum(x), lambda: x.sum(0)),
        "row_sum": Eager(lambda: kernels.row_sum(x), lambda: x.sum(-1)),
        "row_argmax": Eager(lambda: kernels.row_argmax(x), lambda: x.argmax(-1)),
        "quantize": Eager(lambda: kernels.quantize(x), quantized),
    }


def with_backward(call: Call, leaves: tuple[Any, ...]) -> Call:
    """The call, and the gradients of its leaves."""
    import torch

    first = call()
    first = first[0] if isinstance(first, tuple) else first
    slope = torch.ones_like(first)

    def both() -> Any:
        found = call()
        return torch.autograd.grad(found[0] if isinstance(found, tuple) else found, leaves, slope)

    return both


def host_rows(
    kind: str, pairs: dict[str, Eager], *, most: float, limit: float | None
) -> tuple[list[tuple[str, ...]], list[Claim]]:
    """The rows of a table, and what they claim. limit: microseconds."""
    times = host_microseconds({
        **{f"ours {name}": pair.ours for name, pair in pairs.items()},
        **{f"torch {name}": pair.torchs for name, pair in pairs.items()},
    }, each=CALLS, rounds=ROUNDS)  # fmt: skip
    rows: list[tuple[str, ...]] = []
    claims = []
    for name in pairs:
        ours, theirs = times[f"ours {name}"], times[f"torch {name}"]
        rows.append((name, kind, f"{ours:.1f}", f"{theirs:.1f}", f"{ours / theirs:.2f}"))
        claims.append(Claim(f"{name}, {kind}: time on the host, of torch's", ours / theirs, most, most=True))
        if limit is not None:
            claims.append(Claim(f"{name}, {kind}: microseconds on the host", ours, limit, most=True))
    return rows, claims


def products() -> tuple[list[tuple[str, ...]], list[Claim]]:
    """Products that are called one after the other."""
    import torch

    from tilewright import kernels

    rows: list[tuple[str, ...]] = []
    claims = []
    for m, n, k in PRODUCTS:
        a = torch.randn(m, k, device="cuda", dtype=torch.bfloat16)
        b = torch.randn(n, k, device="cuda", dtype=torch.bfloat16).t()
        calls = {"ours": lambda a=a, b=b: kernels.matmul(a, b), "torch": lambda a=a, b=b: torch.matmul(a, b)}
        found = medians(calls, launches=20, rounds=15)
        ratio = found["torch"] / found["ours"]
        rows.append((f"matmul {m}x{n}x{k}", "one after the other", f"{found['ours'] * 1e6:.1f}",
                     f"{found['torch'] * 1e6:.1f}", f"{1 / ratio:.2f}"))  # fmt: skip
        claims.append(Claim(f"matmul {m}x{n}x{k}, called one after the other: speed, of torch's", ratio, 0.98))
    return rows, claims


def run() -> Table:
    plain, graded = cases(graded=False), cases(graded=True)
    backward = {
        name: Eager(with_backward(pair.ours, pair.leaves), with_backward(pair.torchs, pair.leaves))
        for name, pair in graded.items()
    }
    parts = (
        host_rows("forward", plain, most=1.3, limit=15.0),
        host_rows("forward with autograd", graded, most=2.0, limit=None),
        host_rows("forward and backward", backward, most=2.0, limit=None),
        products(),
    )
    rows = [row for found, _ in parts for row in found]
    claims = [claim for _, found in parts for claim in found]
    head = ("call", "what", "tilewright, us", "torch, us", "ours / torch")
    return Table("Eager calls", head, tuple(rows), tuple(claims))
