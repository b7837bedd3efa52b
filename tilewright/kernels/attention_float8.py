"""What attention to 8-bit floats needs beside its kernel: values whose columns are contiguous.

The tensor cores read 8-bit operands along what is summed over: here, along keys. A thread has the weights of keys 2 t,
2 t + 1, 2 t + 8 and 2 t + 9 of each 16 (t: its number among the four that share a row), and gives them as those of keys
4 t to 4 t + 3 of a left operand in registers; so `turn` deals the keys of the values out in that order. A sum has no
order, and no weight goes to another thread.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import tilewright as tw
from tilewright.lang import T, Tx
from tilewright.layout import S, TileLayout

FLOAT8 = "float8_e4m3fn"
TURNED_KEYS = 64  # of a CTA: turned values have a multiple of these
RUN = 16  # keys that change places among each other
ORDER = [key + pair + 8 * half for key in range(0, 8, 2) for half in range(2) for pair in range(2)]
"""The keys that stand at the places of a run."""


@T.inline
def as_float8(weights, scores):
    """The operand of a thread's weights: of each 16 keys four for either of its two rows, two by one instruction."""
    pairs, mine = T.meta_var((weights.local().view("uint16"), scores.local()))
    for run in T.unroll(pairs.shape[0] // 4):
        for row in T.unroll(2):
            for half in T.unroll(2):
                first = T.meta_var(8 * run + 4 * half + 2 * row)
                pairs[4 * run + 2 * row + half] = T.ptx.cvt.pair(
                    mine[first + 1], mine[first], "e4m3x2", "f32", "rn", finite=True
                )


def turned_start(start: Any, sequence: Any) -> Any:
    """Where a packed sequence's turned values begin: at a multiple, behind those of all sequences before."""
    return (start // TURNED_KEYS + sequence) * TURNED_KEYS


@cache
def turn(width: int, *, packed: bool = False) -> tw.Executable:
    """Values, (batch, heads, n, width), become (batch, heads, width, n) in the keys' new order, with zeros behind.

    Those of packed sequences, of a batch of one, begin where `turned_start` says.
    """
    threads = 128
    padded = TileLayout(S[(TURNED_KEYS, width) : (width + 16, 1)])

    @T.prim_func
    def attention_turn(values: T.handle, turned: T.handle, starts: T.handle):
        batch, heads, n, more = T.int32(), T.int32(), T.int32(), T.int32()
        steps = [T.int64() for _ in "bhn"]
        VALUES = T.match_buffer(values, (batch, heads, n, width), FLOAT8, strides=(*steps, 1))
        TURNED = T.match_buffer(turned, (batch, heads, width, more), FLOAT8)
        STARTS = T.match_buffer(starts, (T.int32(),), "int32") if packed else None
        for step in steps:
            T.assume(step % 16 == 0)
        T.assume(more % TURNED_KEYS == 0)
        part, head, b = T.cta_id([more // TURNED_KEYS, heads, batch])
        thread = T.thread_id([threads])
        near = T.alloc_shared((TURNED_KEYS, width), FLOAT8, layout=padded, align=16)
        T.ptx.griddepcontrol.wait()
        first: T.let = part * TURNED_KEYS
        if packed:
            which = T.local_scalar("int32")
            which = 0
            while (which < STARTS.shape[0] - 2) & (turned_start(STARTS[which + 1], which + 1) <= first):
                which = which + 1
            start: T.let = STARTS[which]
            many: T.let = STARTS[which + 1] - start
            rows = T.decl_buffer((many, width), FLOAT8, data=VALUES.ptr_to([0, head, start, 0]), strides=(steps[2], 1))
            row: T.let = first - turned_start(start, which)
            Tx.cta.copy(near, rows[row : row + TURNED_KEYS, :], fill=0)
        else:
            Tx.cta.copy(near, VALUES[b, head, first : first + TURNED_KEYS, :], fill=0)
        T.cuda.cta_sync()
        run = T.alloc_local((RUN,), FLOAT8)
        for turn in T.unroll(-(-width // threads)):
            column: T.let = turn * threads + thread
            if column < width:
                for key in T.unroll(0, TURNED_KEYS, RUN):
                    for place, offset in tuple(enumerate(ORDER)):
                        run[place] = near[key + offset, column]
                    Tx.copy(TURNED[b, head, column, first + key : first + key + RUN], run)

    return tw.compile(attention_turn)
