"""Addresses of 32 bits, which old texts have (``.address_size 32``): each memory has a range of them.

The simulator's own addresses have 64 bits, global buffers lie far apart. A range of 32 bits stands for each buffer that
the text can point to, with a gap behind it, and one for shared memory; an access looks up whose range it is in.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.ir import Buffer, Expr, binary, cast, const, select
from tilewright.ptx.bits import start_of
from tilewright.ptx.state import UINT32, UINT64, Lowering

SHARED = 0x01000000  # where the range of shared memory begins
FIRST, GAP = 0x10000000, 0x10000  # where the ranges of buffers begin, and the bytes behind each


def are_short(low: Lowering) -> bool:
    """Has the text addresses of 32 bits?"""
    return low.module.address_size == 32


def _ranges(low: Lowering) -> Iterator[tuple[Buffer, int, int]]:
    """Each buffer of the kernel, where its range begins, and its bytes with the gap behind it."""
    start = FIRST
    for buffer in low.buffers.values():
        size = -(-int(buffer.storage_size()) * buffer.dtype.bits // 8 // GAP) * GAP + GAP
        yield buffer, start, size
        start += size


def short_address(low: Lowering, buffer: Buffer) -> int:
    """The address of 32 bits at which a buffer begins."""
    return next(start for candidate, start, _ in _ranges(low) if candidate == buffer)


def widened(low: Lowering, address: Expr, shared: Expr | None) -> Expr:
    """The address that one of 32 bits stands for. shared: where the window of shared memory begins, if there is one."""
    low_bits = cast(address, UINT32)
    wide: Expr = cast(low_bits, UINT64)
    if shared is not None:
        inside = low_bits - const(SHARED, UINT32)
        wide = select(binary("<", inside, const(FIRST - SHARED, UINT32)), shared + cast(inside, UINT64), wide)
    for buffer, start, size in _ranges(low):
        inside = low_bits - const(start, UINT32)
        wide = select(binary("<", inside, const(size, UINT32)), start_of(buffer) + cast(inside, UINT64), wide)
    return wide
