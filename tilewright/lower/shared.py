"""The shared-memory plan: one arena per CTA, an offset in it for every shared buffer.

Both back ends use these offsets, so that bank counts, swizzles on address bits and matrix descriptors agree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.errors import KernelError
from tilewright.ir import AllocBuffer, Body, Buffer, Stmt, map_body, statements
from tilewright.layout import ComposeLayout, Layout
from tilewright.records import replace

if TYPE_CHECKING:
    from tilewright.errors import Span

MOST_SHARED_BYTES = 227 * 1024  # of a CTA on sm_90 and sm_100; the target's own limit is checked when it is known
LEAST_ALIGNMENT = 16  # bytes: a row of ldmatrix, a 128-bit vector


def _swizzle_period(layout: Layout | None) -> int:
    """Elements after which a swizzle repeats: its pattern must start at a multiple of that."""
    return layout.swizzle.period if isinstance(layout, ComposeLayout) else 1


def shared_alignment(buffer: Buffer) -> int:
    """Bytes: the largest of what was declared, the swizzle's period, and 16."""
    period = _swizzle_period(buffer.layout) * buffer.dtype.bits // 8
    return max(buffer.align, period, LEAST_ALIGNMENT)


def plan_shared(body: Body) -> tuple[dict[str, int], int]:
    """Offsets in bytes by buffer name, in order of allocation, and the size of the arena.

    An allocation that has an offset already (of a pool) keeps it; those that lie with each other have one place.
    Raises KernelError where the arena outgrows every GPU.
    """
    offsets: dict[str, int] = {}
    together: dict[str, int] = {}
    end, at = 0, None
    shared = [stmt for stmt in statements(body) if isinstance(stmt, AllocBuffer) and stmt.buffer.is_shared]
    for stmt in sorted(shared, key=_own_places_first):
        alignment = shared_alignment(stmt.buffer)
        offset = stmt.offset if stmt.offset is not None else -(-end // alignment) * alignment
        if stmt.lies_with:
            offset = together.setdefault(stmt.lies_with, offset)
        if offset % alignment:
            raise KernelError(
                f"{stmt.buffer.name} is not aligned in shared memory",
                given=f"offset {offset} bytes",
                allowed=f"a multiple of {alignment} bytes: what was declared, the swizzle's period, {LEAST_ALIGNMENT}",
                at=stmt.at,
            )
        offsets[stmt.buffer.name] = offset
        end, at = max(end, offset + stmt.buffer.storage_bytes()), stmt.at
    _check_size(end, at)
    return offsets, end


def _own_places_first(stmt: AllocBuffer) -> tuple[str, int]:
    """Buffers of one place come one after the other, the most aligned first; those of their own before them."""
    return stmt.lies_with, -shared_alignment(stmt.buffer) if stmt.lies_with else 0


def _check_size(size: int, at: Span | None) -> None:
    if size > MOST_SHARED_BYTES:
        raise KernelError(
            "the kernel needs more shared memory than a CTA can have",
            given=f"{size} bytes",
            allowed=f"{MOST_SHARED_BYTES} bytes",
            at=at,
        )


def place(body: Body, offsets: dict[str, int]) -> Body:
    """Each shared allocation with its offset."""

    def placed(stmt: Stmt) -> Body | None:
        if isinstance(stmt, AllocBuffer) and stmt.buffer.is_shared:
            return (replace(stmt, offset=offsets[stmt.buffer.name], lies_with=""),)
        return None

    return map_body(body, placed)
