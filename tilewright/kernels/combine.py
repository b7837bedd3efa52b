"""Sums of parts of K become a matrix product: they are added up part after part, the same bits every time.

Any CTA of `matmul` may have multiplied a part; its sums are in global memory, in float32.
"""

from __future__ import annotations

from functools import cache

import tilewright as tw
from tilewright.dtypes import dtype
from tilewright.lang import T, Tx
from tilewright.layout import S, TileLayout, laneid, tx

HIGH, WIDE, VECTOR = 8, 128, 4  # rows and columns that a CTA adds up; elements of an access


@cache
def combine(count: int, kind: str, bias_kind: str = "") -> tw.Executable:
    """C is the sum of so many parts, and a bias for each column if there is one."""
    lanes = S[(HIGH, WIDE // VECTOR, VECTOR) : (32 @ tx, 1 @ tx, 1)]
    line = S[(WIDE // VECTOR, VECTOR) : (1 @ laneid, 1)]

    @T.prim_func
    def matmul_combine(parts: T.handle, bias: T.handle, c: T.handle):
        m, n, many, pitch, c_pitch = T.int32(), T.int32(), T.int64(), T.int32(), T.int32()
        PARTS = T.match_buffer(parts, (count, m, n), "float32", strides=(many, pitch, 1))
        C = T.match_buffer(c, (m, n), kind, strides=(c_pitch, 1))
        BIAS = T.match_buffer(bias, (n,), bias_kind, align=dtype(bias_kind).bits // 8) if bias_kind else None
        for step in (many, pitch, c_pitch):
            T.assume(step % VECTOR == 0)
        right, below = T.cta_id([T.ceildiv(n, WIDE), T.ceildiv(m, HIGH)])
        T.warp_id([HIGH])
        T.lane_id([32])
        columns = T.meta_var(slice(right * WIDE, right * WIDE + WIDE))
        rows = T.meta_var(slice(below * HIGH, below * HIGH + HIGH))
        sums = T.meta_var([T.alloc_local((HIGH, WIDE), "float32", layout=TileLayout(lanes)) for _ in range(count)])
        T.ptx.griddepcontrol.launch_dependents()
        T.ptx.griddepcontrol.wait()
        for part in tuple(range(count)):
            Tx.cta.copy(sums[part], PARTS[part, rows, columns], fill=0)
        for part in tuple(range(1, count)):
            sums[0][:] = sums[0] + sums[part]
        if bias_kind:
            more = T.alloc_local((WIDE,), bias_kind, layout=TileLayout(line))
            Tx.warp.copy(more, BIAS[columns], fill=0)
            Tx.add(sums[0].local(), sums[0].local(), more.local())
        results = T.alloc_local((HIGH, WIDE), kind, layout=TileLayout(lanes))
        results[:] = sums[0]
        Tx.cta.copy(C[rows, columns], results, clip=True)

    return tw.compile(matmul_combine, target="sm_90a")
