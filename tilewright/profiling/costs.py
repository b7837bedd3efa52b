"""What instructions cost on an SM: slots of a scheduler, turns of its units, passes of shared memory, latency.

A row is found by the first pattern that matches what a recording counts. Latencies and turns are those of an H200
(`python -m benchmarks.gpu figures`, 2026-11-28); other architectures have the same units in other widths
(`play.SmFigures`). A compiler moves and merges the arithmetic of indices: of that only a share counts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one instruction of a warp. slots: of its scheduler. unit: which one takes it: "fma", "alu", "mufu", "lsu",
    "tensor" or "". turns: cycles that this unit of a scheduler is taken; of the SM, for "lsu". latency: cycles until
    its result is there.
    """

    slots: float = 1.0
    unit: str = ""
    turns: float = 0.0
    latency: float = 4.0


NOTHING = Cost(0.0, "", 0.0, 0.0)
FMA, ALU = Cost(1, "fma", 1, 4), Cost(1, "alu", 2, 4)
INDEX = Cost(0.2, "alu", 0.25, 1)  # of the language's own indices, most of which the compiler merges or hoists
MUFU = Cost(2, "mufu", 8, 17)
LSU = Cost(1, "", 0, 0)  # an access; its passes come from the recording
TABLE: tuple[tuple[str, Cost], ...] = (
    (r"address", Cost(0.05, "alu", 0.05, 0.5)),
    (r"(load|store) (shared|global|param|const)|cuda\.atomic.*|ptx\.(atom|red)\b.*", LSU),
    (r"float32 [-+*]|float32 fma|float32 neg", FMA),
    (r"(float16|bfloat16) .*|float\S+ cast", Cost(1, "alu", 2, 6)),
    (r"float32 /", Cost(8, "mufu", 8, 40)),
    (r"float64 .*", Cost(1, "fma", 2, 8)),
    (r"float32 (max|min|abs)|fmax|fmin|fabs|.* (<|>|<=|>=|==|!=|select|max|min|and|or|not)", ALU),
    (r"u?int(8|16|32|64) cast", Cost(0.1, "alu", 0.1, 1)),
    (r"u?int32 (//|%|/)", Cost(0.5, "alu", 0.6, 4)),
    (r"u?int64 .*", Cost(0.3, "alu", 0.3, 2)),
    (r"u?int32 .*|bool .*", INDEX),
    (r"(exp2?|log2?|rsqrt|rcp|tanh|sin|cos|sqrt)\b.*", MUFU),
    (r"cuda\.shfl.*|ptx\.shfl.*", Cost(1, "lsu", 1, 24)),
    (r"cuda\.copy_bytes|ptx\.(ld|st)\b.*|ptx\.ldmatrix.*|ptx\.stmatrix.*|ptx\.cp_async\b.*", LSU),
    (r"ptx\.(ex2|lg2|rcp|rsqrt|sqrt|sin|cos|tanh)\b.*", Cost(1, "mufu", 8, 17)),
    (r"ptx\.(mov|reinterpret|pack|unpack|setmaxnreg|griddepcontrol|cvta)\b.*", NOTHING),
    (r"ptx\.(fma|mad|add|sub|mul)\b.*", FMA),
    (r"ptx\.cvt\b.*", Cost(1, "alu", 2, 6)),
    (r"ptx\.(div|rem)\b.*", Cost(12, "alu", 16, 60)),
    (r"ptx\.redux.*", Cost(1, "alu", 8, 44)),
    (r"ptx\.(elect\.sync|vote|match|activemask)\b.*", Cost(1, "alu", 4, 17)),
    (r"ptx\.mbarrier\..*", Cost(2, "lsu", 2, 20)),
    (r"ptx\.wgmma\.(mma_async|fence|commit|wait).*", Cost(2, "", 0, 4)),
    (r"smem_desc.*|ptx\.wgmma\.encode.*", Cost(1, "alu", 1, 2)),
    (r"ptx\.fence.*|cuda\.(fence|threadfence).*", Cost(2, "", 0, 20)),
)  # fmt: skip
COMPILED = tuple((re.compile(pattern), cost) for pattern, cost in TABLE)


@cache
def cost_of(name: str) -> Cost:
    """The cost of what a recording calls so."""
    return next((cost for pattern, cost in COMPILED if pattern.fullmatch(name)), ALU)


ADDRESS = Cost(0.5, "alu", 1, 4)  # of which ptxas puts many into the offsets of loads and stores


@cache
def compiled_cost(name: str, *, is_integer: bool) -> Cost:
    """The same in a PTX text: operators are those of addresses, which its loads and stores have in themselves."""
    if not name.startswith(("ptx.", "load ", "store ")):
        return NOTHING
    if name in ("ptx.add", "ptx.sub", "ptx.mul", "ptx.mad") and is_integer:
        return Cost(0.5, "fma", 1, 4) if name in ("ptx.mul", "ptx.mad") else ADDRESS
    return ADDRESS if name in ("ptx.shl", "ptx.shr", "ptx.and_", "ptx.or_") else cost_of(name)
