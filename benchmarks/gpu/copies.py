"""1 GiB through shared memory and registers, and a transposition, against the copies of torch in the same run."""

from __future__ import annotations

from functools import partial

from benchmarks.gpu.kernels import COLUMNS, copying, transposing
from benchmarks.gpu.measure import Claim, Table, compiled, medians

COPY_ROWS = 2**23  # of 64 float16: 1 GiB
N = 8192
# The shapes that were tried, so that the choice can be seen; the claims are about the first.
COPIES: dict[str, dict[str, int]] = {
    "ours": {"rows": 32, "warps": 4},
    "ours, 64 rows a CTA": {"rows": 64, "warps": 4},
    "ours, 64 rows, 8 warps": {"rows": 64, "warps": 8},
    "ours, 16 rows, 2 warps": {"rows": 16, "warps": 2},
    "ours, 8 rows, 1 warp": {"rows": 8, "warps": 1},
}
TRANSPOSITIONS: dict[str, tuple[int, int, int, bool, bool]] = {  # rows, columns, warps, one buffer, downwards
    "ours": (128, 128, 16, True, True),
    "ours, CTAs across": (128, 128, 16, True, False),
    "ours, 8 warps": (128, 128, 8, True, True),
    "ours, 64 x 64, 8 warps": (64, 64, 8, True, True),
    "ours, 64 x 64, 4 warps": (64, 64, 4, True, True),
    "ours, 64 x 64, 4 warps, across": (64, 64, 4, True, False),
    "ours, 64 x 64, 4 warps, across, two buffers": (64, 64, 4, False, False),
}


def run() -> Table:
    import torch

    x = torch.randn(COPY_ROWS, COLUMNS, device="cuda", dtype=torch.half)
    y = torch.zeros_like(x)
    copies = {name: compiled(copying(COPY_ROWS, **how)) for name, how in COPIES.items()}
    calls = {name: partial(made, x, y) for name, made in copies.items()}
    large = medians({"torch copy_": lambda: y.copy_(x), **calls}, launches=4)
    for made in copies.values():
        y.zero_()
        made(x, y)
        assert torch.equal(x, y)

    a = x.view(-1)[: N * N].view(N, N)
    b = torch.zeros_like(a)
    turns = {
        name: compiled(transposing(N, rows=rows, columns=columns, warps=warps, one=one, down=down))
        for name, (rows, columns, warps, one, down) in TRANSPOSITIONS.items()
    }
    own = {name: partial(made, a, b) for name, made in turns.items()}
    theirs = {"torch copy_": lambda: b.copy_(a), "torch .t().contiguous()": lambda: a.t().contiguous()}
    square = medians({**theirs, **own}, launches=10)
    for made in turns.values():
        b.zero_()
        made(a, b)
        assert torch.equal(a.t(), b)

    rows = [("1 GiB", name, *cells(2 * x.nbytes, time, large["torch copy_"])) for name, time in large.items()]
    rows += [(f"{N} x {N} float16", name, *cells(2 * a.nbytes, time, square["torch copy_"]))
             for name, time in square.items()]  # fmt: skip
    claims = (
        Claim(
            "1 GiB through shared memory and registers: of torch's copy_", large["torch copy_"] / large["ours"], 0.97
        ),
        Claim("transposition: of torch's copy_", square["torch copy_"] / square["ours"], 0.9),
        Claim("transposition: times as fast as torch's", square["torch .t().contiguous()"] / square["ours"], 1),
    )
    return Table("Copies of global memory", ("what", "by", "ms", "TB/s", "of torch copy_"), tuple(rows), claims)


def cells(nbytes: int, seconds: float, yardstick: float) -> tuple[str, str, str]:
    """nbytes: read and written."""
    return f"{seconds * 1e3:.4f}", f"{nbytes / seconds / 1e12:.3f}", f"{yardstick / seconds:.3f}"
