"""The pass that aligns shared memory to what the copy engine asks of it: the period of a swizzle.

A greater alignment than a kernel asks for changes nothing that it computes, so that nobody needs to write it down.
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.ir import Buffer, Kernel, Region, TileCallStmt, map_buffers, statements
from tilewright.isa import shared_alignment
from tilewright.layout import SwizzleMode
from tilewright.tile.smem_descriptors import mode_of

__all__ = ["aligned"]


def aligned(kernel: Kernel) -> Kernel:
    """The kernel with the memory of each shared tile that one thread copies to or from an array so aligned.

    Before: tile calls are nodes. After: `storage_start` of these tiles, and of what lies in the same memory, gives a
    multiple of the alignment, unless the kernel says where in that memory they begin.
    """
    asked: dict[str, int] = {}
    for stmt in statements(kernel.body):
        if isinstance(stmt, TileCallStmt) and stmt.primitive == "copy_async" and stmt.scope == "thread":
            tiles = [part.buffer for part in stmt.args if isinstance(part, Region)]
            shared = [buffer for buffer in tiles if buffer.is_shared]
            if len(shared) == 1 and any(buffer.space == "global" for buffer in tiles):
                root, needed = shared[0].root, _alignment(shared[0], asked_for=stmt.dispatch == "tma")
                asked[root.name] = max(asked.get(root.name, root.align), needed)

    def raised(buffer: Buffer) -> Buffer:
        wanted = asked.get(buffer.name, 0) if buffer.data is None else 0
        return replace(buffer, align=wanted) if wanted > buffer.align else buffer

    return replace(kernel, body=map_buffers(kernel.body, raised)) if asked else kernel


def _alignment(tile: Buffer, *, asked_for: bool) -> int:
    """Of a tile with a swizzle; of another one where the call asks for the copy engine."""
    swizzle, _ = tile.layout.parted(tile.shape) if tile.layout is not None else (None, None)
    mode = mode_of(swizzle, tile.dtype.bits) if swizzle is not None else None
    return shared_alignment(int(mode or SwizzleMode.SWIZZLE_NONE)) if mode or asked_for else 0
