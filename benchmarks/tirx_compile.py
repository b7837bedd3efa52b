"""From Python source to CUDA text: an ldmatrix copy of one 8x16 float16 tile, against Apache TVM's TIRx."""

from __future__ import annotations

import tilewright as tw
from benchmarks.kernels.tile_copy import build
from benchmarks.measure import Table, Target, Times, alternately, median_ms, peer_times

OURS = "tilewright, parse and compile"


def cuda_text() -> Times:
    parsed = build()
    return {
        OURS: median_ms(lambda: tw.compile(build(), "sm_90a").source("cuda"), repeats=15),
        "tilewright, compile only": median_ms(lambda: tw.compile(parsed, "sm_90a").source("cuda"), repeats=15),
    }


def run() -> Table:
    ours, peers = alternately(cuda_text, lambda: peer_times("tirx"))
    targets = (Target(OURS, 1 / 5, of=peers[0].name),)
    return Table("Python source to CUDA text, one ldmatrix copy, warm", ours, peers, targets)
