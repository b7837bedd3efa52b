"""Matrix products of shapes that nobody tuned for: ours beside torch.matmul, bfloat16.

    python -m benchmarks.gpu shapes
    python -m benchmarks.gpu.shapes 3                 # other shapes: a seed

80 shapes: M, N and K drawn evenly on a scale of logarithms from 64 to 16384, in turns multiples of 64 and odd multiples
of 8, and layers of models for drawn numbers of tokens; and some that are named. B lies as the weights of a layer do, K
contiguous, or, of every third shape, N contiguous. Each product is checked first. Times are those of CUDA graphs of
several launches, back to back, each on other inputs, more of them than the second-level cache holds; calls take turns.
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

from benchmarks.gpu.matmul import (
    CACHED_BYTES,
    CUBLAS,
    OURS,
    Shape,
    checked_on,
    geometric,
    inputs,
    race,
    torch_matmul,
)
from benchmarks.gpu.measure import Claim, Table
from tilewright import kernels
from tilewright.kernels.forms import MatmulKind, Tiles
from tilewright.kernels.product_tiles import Lies, chosen
from tilewright.kernels.products import MOST_TRIED, has_registers

Job = tuple[Shape, bool]
LEAST, MOST, DRAWN, LAYERS, ROUNDS = 64, 16384, 60, 20, 9
NAMED: tuple[Shape, ...] = (
    (192, 2048, 6144), (5000, 5000, 5000), (1000, 1000, 1000), (2304, 2304, 2304), (640, 10240, 8192),
    (1536, 8960, 1536), (2048, 2048, 2048), (4096, 4096, 4096), (8192, 8192, 8192), (32, 7168, 2048),
    (1024, 24576, 1536),
)  # fmt: skip
# N x K of the layers of models: GPT-2, Llama 3 (8 and 70 billion parameters), Qwen 2.5 (7 billion), DeepSeek V3.
WEIGHTS = ((2304, 768), (768, 3072), (6144, 4096), (28672, 4096), (4096, 14336), (10240, 8192), (8192, 28672),
           (3584, 3584), (37888, 3584), (3584, 18944), (24576, 1536), (7168, 2048))  # fmt: skip
TOKENS = (64, 96, 128, 200, 384, 512, 1000, 1024, 2048, 3000, 4096, 8192)


def drawn_shapes(seed: int, count: int, least: int = LEAST, most: int = MOST) -> list[Shape]:
    """M, N and K, in turns multiples of 64 and odd multiples of 8."""
    rng = random.Random(seed)

    def extent(odd: bool) -> int:
        size = int(math.exp(rng.uniform(math.log(least), math.log(most))))
        return max(least, size // 16 * 16 + 8 if odd else size // 64 * 64)

    return [(extent(i % 2 == 1), extent(i % 2 == 1), extent(i % 2 == 1)) for i in range(count)]


def layers(seed: int, count: int) -> list[Shape]:
    """Layers of models."""
    rng = random.Random(seed)
    return [(tokens, *weights) for tokens, weights in rng.sample([(t, w) for t in TOKENS for w in WEIGHTS], count)]


def jobs_of(seed: int) -> list[Job]:
    """The drawn shapes of a seed, and whether rows of B run along N."""
    shapes = [*drawn_shapes(seed, DRAWN), *layers(seed, LAYERS)]
    return [(shape, number % 3 == 2) for number, shape in enumerate(shapes)]


def plan(job: Job) -> tuple[Tiles, MatmulKind]:
    """The kernel that a product takes, assembled."""
    from tilewright.cuda import driver

    (m, n, k), across = job
    lie = Lies(k % 16 == 0), Lies((n if across else k) % 16 == 0, across)
    best = chosen(m, n, -(-k // 64), driver.device(0).multiprocessors, lie=lie, most=MOST_TRIED)
    forms = [
        (tiles, MatmulKind("bfloat16", "bfloat16", "bfloat16", (across and turned, across and not turned, turned)))
        for tiles, turned in best
    ]
    return next((each for each in forms if has_registers(*each)), forms[-1])


def measured(shape: Shape, across: bool) -> tuple[float, float]:
    """Seconds of our product and of torch's."""
    import torch

    m, n, k = shape
    pairs: list[Any] = inputs(shape, "bfloat16", max(1, min(8, -(-CACHED_BYTES // (2 * k * (m + n))))))
    if across:
        pairs = [(a, b.contiguous()) for a, b in pairs]
    checked_on(pairs[0], kernels.matmul)
    times = race(shape, "bfloat16", {OURS: kernels.matmul, CUBLAS: torch_matmul}, rounds=ROUNDS, pairs=pairs)
    torch.cuda.empty_cache()
    return times[OURS].warm, times[CUBLAS].warm


def rows(plans: dict[Job, tuple[Tiles, MatmulKind]], jobs: list[Job]) -> Iterator[tuple[tuple[str, ...], float]]:
    for shape, across in jobs:
        try:
            ours, theirs = measured(shape, across)
        except Exception as error:  # of any kind: the other shapes are measured nevertheless
            print(shape, f"{type(error).__name__}: {str(error)[:300]}", flush=True)
            yield (" x ".join(map(str, shape)), "NN" if across else "NT", type(error).__name__, "-", "-", "-"), 0.0
            continue
        tiles, form = plans[shape, across]
        ctas = f", {tiles.cluster} x {tiles.beside} CTAs" if tiles.cluster * tiles.beside > 1 else ""
        parts = f", K in {tiles.parts}" if tiles.parts > 1 else ""
        apart = f", K in {tiles.apart} anywhere" if tiles.apart > 1 else ""
        turns = ", in turns" if tiles.pingpong else ""
        text = f"{tiles.m} x {tiles.n}{ctas}{parts}{apart}{', turned' if form.turned[2] else ''}{turns}"
        cells = (" x ".join(map(str, shape)), "NN" if across else "NT", text, f"{ours * 1e6:.1f}",
                 f"{theirs * 1e6:.1f}", f"{theirs / ours:.3f}")  # fmt: skip
        print(*cells, sep=" | ", flush=True)
        yield cells, theirs / ours


def run(seed: int = 0) -> Table:
    jobs = jobs_of(seed)
    named = [(shape, False) for shape in NAMED]
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        plans = dict(zip([*named, *jobs], pool.map(plan, [*named, *jobs]), strict=True))
    at_names, drawn = list(rows(plans, named)), list(rows(plans, jobs))
    ratios = [max(ratio, 1e-3) for _, ratio in drawn]
    claims = (
        Claim(f"{len(ratios)} drawn shapes: geometric mean of the time of {CUBLAS} by ours", geometric(ratios), 1.0),
        Claim(f"{len(ratios)} drawn shapes: least of the time of {CUBLAS} by ours", min(ratios), 0.93),
        Claim(f"named shapes: least of the time of {CUBLAS} by ours", min(ratio for _, ratio in at_names), 0.93),
    )
    head = ("M x N x K", "lie", "tiles", f"{OURS}, us", f"{CUBLAS}, us", "ratio")
    return Table("Products of drawn shapes, bfloat16", head, tuple(cells for cells, _ in at_names + drawn), claims)


if __name__ == "__main__":
    print(run(*map(int, sys.argv[1:])).markdown())
