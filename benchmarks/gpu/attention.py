"""Attention: ours beside cuDNN's and FlashAttention-3's, in tensor operations a second.

    python -m benchmarks.gpu.attention                 # everything
    python -m benchmarks.gpu.attention forward errors  # parts

Data are normal numbers; calls take turns, round by round; a batch has 16k queries, and 2048 elements over all heads. A
causal product counts half. FlashAttention-3 was measured once beside the same cuDNN: its figure is cuDNN's of this run
times that ratio.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.gpu.measure import Claim, Table, host_microseconds, medians
from tilewright import kernels

ROUNDS, TOKENS, ELEMENTS, TURN_SECONDS = 20, 16384, 2048, 3e-3
LENGTHS = (512, 1024, 2048, 4096, 8192, 16384)
PEAK = 5e14  # operations a second, from which the number of calls in a turn is estimated

# FlashAttention-3 (0251105, CUTLASS 4.3.4, nvcc 13.0) over cuDNN 9.19, both on one H200 in one run, by length.
FA3 = {
    (64, False): (0.843, 0.874, 1.106, 1.125, 1.215, 1.219),
    (64, True): (0.858, 0.902, 1.102, 1.149, 1.221, 1.230),
    (128, False): (0.989, 1.047, 1.071, 1.092, 1.117, 1.117),
    (128, True): (0.979, 1.161, 1.287, 1.355, 1.358, 1.316),
    (256, False): (1.017, 1.122, 1.160, 1.138, 1.139, 1.157),
    (256, True): (1.000, 1.108, 1.271, 1.374, 1.381, 1.399),
}


def inputs(width: int, length: int, heads_kv: int = 0) -> list[Any]:
    """Queries, keys and values."""
    import torch

    heads = ELEMENTS // width
    shapes = [(TOKENS // length, many, length, width) for many in (heads, heads_kv or heads, heads_kv or heads)]
    return [torch.randn(shape, device="cuda", dtype=torch.bfloat16) for shape in shapes]


def operations(width: int, length: int, *, causal: bool) -> float:
    return 4.0 * TOKENS * ELEMENTS * length / (2 if causal else 1)


def cudnn(q: Any, k: Any, v: Any, *, causal: bool) -> Any:
    """Torch's attention by cuDNN."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)


def captured(call: Callable[[], Any], count: int) -> Callable[[], Any]:
    """A CUDA graph of so many calls."""
    import torch

    call()
    torch.cuda.synchronize()
    graph: Any = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(count):
            call()
    replay: Callable[[], Any] = graph.replay
    return replay


def seconds(q: Any, k: Any, v: Any, *, causal: bool, count: int) -> dict[str, float]:
    """Of one call: eager, and by a graph."""
    ours = partial(kernels.attention, q, k, v, causal=causal)
    theirs = partial(cudnn, q, k, v, causal=causal)
    eager = medians({"ours": ours, "cuDNN": theirs}, launches=count, rounds=ROUNDS)
    graphs = {"graph": captured(ours, count), "cuDNN's graph": captured(theirs, count)}
    whole = medians(graphs, launches=1, rounds=ROUNDS)
    return eager | {name: found / count for name, found in whole.items()}


def forward() -> Table:
    rows, ratios = [], []
    for (width, causal), others in FA3.items():
        for length, other in zip(LENGTHS, others, strict=True):
            work = operations(width, length, causal=causal)
            count = max(2, min(20, round(TURN_SECONDS * PEAK / work)))
            found = seconds(*inputs(width, length), causal=causal, count=count)
            rate = {name: work / each / 1e12 for name, each in found.items()}
            ratio = rate["graph"] / (rate["cuDNN's graph"] * max(1.0, other))
            ratios.append(ratio)
            rows.append((f"{width} {'causal' if causal else 'full'}", str(length),
                         *(f"{each:.0f}" for each in rate.values()), f"{ratio * max(1.0, other):.3f}",
                         f"{other:.3f}", f"{ratio:.3f}"))  # fmt: skip
            print(*rows[-1], flush=True)
    head = ("D, mask", "S", "eager", "cuDNN", "graph", "cuDNN's graph", "of cuDNN", "FA3 of cuDNN", "of the better")
    claims = (Claim("least of the better", min(ratios), 0.97),
              Claim("geometric mean", statistics.geometric_mean(ratios), 1.0))  # fmt: skip
    return Table("Attention forward, TFLOP/s", head, tuple(rows), claims)


def errors() -> Table:
    """Beside torch's own bfloat16 result, both against float64."""
    import torch

    rows, worst = [], 0.0
    for width, causal in FA3:
        q, k, v = (x[:1, :4] for x in inputs(width, 1024))
        wide = [x.double() for x in (q, k, v)]
        scores = wide[0] @ wide[1].transpose(2, 3) * width**-0.5
        if causal:
            scores = scores.masked_fill(torch.ones_like(scores[0, 0]).triu(1).bool(), float("-inf"))
        wanted = torch.softmax(scores, -1) @ wide[2]
        mine, theirs = (float((each.double() - wanted).abs().max()) for each in (
            kernels.attention(q, k, v, causal=causal),
            torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)))  # fmt: skip
        worst = max(worst, mine / theirs)
        rows.append((f"{width} {'causal' if causal else 'full'}", f"{mine:.2e}", f"{theirs:.2e}"))
    claim = Claim("largest error over torch's", worst, 1.5, most=True)
    return Table("Errors against float64", ("D, mask", "ours", "torch"), tuple(rows), (claim,))


def host() -> Table:
    """Microseconds of the host for an eager call."""
    import torch

    q, k, v = (torch.randn(1, 8, 128, 128, device="cuda", dtype=torch.bfloat16) for _ in "qkv")
    calls = {name: partial(kernels.attention, q, k, v, causal=causal)
             for name, causal in (("full", False), ("causal", True))}  # fmt: skip
    found = host_microseconds(calls, each=50, rounds=ROUNDS)
    claim = Claim("microseconds of the host", max(found.values()), 15, most=True)
    return Table("Eager calls", ("call", "us"), tuple((name, f"{us:.1f}") for name, us in found.items()), (claim,))


PARTS: dict[str, Callable[[], Table]] = {"errors": errors, "host": host, "forward": forward}


def main(words: list[str]) -> int:
    for name in words or list(PARTS):
        print(PARTS[name]().markdown(), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
