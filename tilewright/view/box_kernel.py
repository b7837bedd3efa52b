"""The kernel whose one copy is drawn: it loads a tile from an array of the same size."""

from __future__ import annotations

from tilewright.ir import Kernel
from tilewright.lang import T, Tx
from tilewright.layout import Layout

__all__ = ["loading"]


def loading(layout: Layout, shape: tuple[int, ...], kind: str) -> Kernel:
    """A load by the copy engine of a tile with this layout."""

    @T.prim_func
    def load(A_ptr: T.handle):
        A = T.match_buffer(A_ptr, shape, kind)
        T.cta_id([1])
        T.thread_id([32])
        tile = T.alloc_shared(shape, kind, layout=layout, align=1024)
        bar = T.alloc_shared((1,), "uint64")
        if T.ptx.elect_sync():
            Tx.copy_async(tile, A, mbar=bar.ptr_to([0]), dispatch="tma")

    return load
