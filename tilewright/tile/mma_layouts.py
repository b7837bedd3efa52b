"""The layouts of mma operands that a buffer in shared memory may have: the proposals of a report."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.errors import LayoutError
from tilewright.ir import Buffer
from tilewright.ir.ranges import RangeFacts
from tilewright.layout import Layout, SwizzleMode, mma_shared_layout

__all__ = ["mma_layouts"]


def mma_layouts(buffer: Buffer, facts: RangeFacts) -> Iterator[tuple[str, Layout, SwizzleMode]]:
    """Each with the keyword that asks for it, the widest swizzle first."""
    for mode in reversed(SwizzleMode):
        try:
            layout = mma_shared_layout(buffer.dtype, mode, buffer.shape, facts)
        except LayoutError:
            continue
        yield f'layout=mma_shared_layout("{buffer.dtype}", SwizzleMode.{mode.name}, {buffer.shape})', layout, mode
