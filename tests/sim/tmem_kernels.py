"""Helpers of the tests of tensor memory and m-barriers: parts of kernels, and readers of errors.

A line of a kernel that a test wants to find in a message ends in a comment, and `line` finds it by that.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import numpy as np

from tests.sim import running
from tilewright import T
from tilewright.layout import R, S, TCol, TileLayout, TLane

TARGET = "sm_100a"
simulate, refusal = partial(running.simulate, target=TARGET), partial(running.refusal, target=TARGET)
IN_EVERY_QUARTER = TileLayout(S[(32, 16) : (1 @ TLane, 1 @ TCol)] + R[4 : 32 @ TLane])  # of uint8: four columns
TILE = np.arange(512, dtype=np.uint32).astype(np.uint8).reshape(32, 16)


@T.inline
def meet():
    """All threads of the CTA meet, with the fences of tensor memory."""
    T.ptx.tcgen05.fence.before_thread_sync()
    T.cuda.cta_sync()
    T.ptx.tcgen05.fence.after_thread_sync()


@T.inline
def take(addr, warp_id, columns=32):
    """Warp 0 takes columns, for all warps."""
    if warp_id == 0:
        T.ptx.tcgen05.alloc(T.address_of(addr), n_cols=columns, cta_group=1)
    meet()


@T.inline
def give_back(addr, warp_id, columns=32):
    """Once all warps are done, warp 0 gives them back."""
    meet()
    if warp_id == 0:
        T.ptx.tcgen05.dealloc(addr[0], n_cols=columns, cta_group=1)


@T.inline
def bring_back(c, addr, done, warp_id, tid, columns, taken=32):
    """Once the product is done, each lane brings its row of float32 to c; then the columns are given back."""
    word = T.alloc_local((columns,), "uint32")
    T.ptx.mbarrier.try_wait(done.ptr_to([0]), 0)
    T.ptx.tcgen05.fence.after_thread_sync()
    T.ptx.tcgen05.ld(addr[0], word, shape="32x32b", num=columns, row=warp_id * 32)
    T.ptx.tcgen05.wait.ld()
    for j in T.unroll(columns):
        c[tid, j] = T.reinterpret("float32", word[j])
    give_back(addr, warp_id, taken)


def line(mark: str) -> str:
    """``file.py:12``: where the calling test file says ``# mark``."""
    path = Path(sys._getframe(1).f_code.co_filename)
    found = [n for n, text in enumerate(path.read_text().splitlines(), start=1) if text.endswith(f"# {mark}")]
    assert len(found) == 1, f"{mark!r} is in lines {found}"
    return f"{path.name}:{found[0]}"
