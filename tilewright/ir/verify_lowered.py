"""What holds once a kernel is lowered: flat storage, special registers, a planned arena. The back ends rely on it."""

from __future__ import annotations

from itertools import pairwise

from tilewright.errors import KernelError
from tilewright.ir.expr import AddressOf, Load
from tilewright.ir.stmt import AllocBuffer, Attr, DeviceEntry, For, Kernel, Launch, ScopeId, Stmt, TileCallStmt
from tilewright.ir.walk import expressions, statements

__all__ = ["verify_lowered"]

GONE = {DeviceEntry: "T.device_entry", ScopeId: "a scope id", TileCallStmt: "a tile call"}
MOST_THREADS = 1024


def verify_lowered(kernel: Kernel) -> None:
    """Check the invariants of stage "lowered". Raises KernelError, at the kernel's line: a pass of ours is wrong."""
    launch = kernel.launch
    if launch is None or not 1 <= launch.threads <= MOST_THREADS:
        raise KernelError(
            f"{kernel.name} has no launch", given=str(launch), allowed="1 to 1024 threads per CTA", at=kernel.at
        )
    for stmt in statements(kernel.body):
        _check_statement(stmt)
        for node in expressions(stmt):
            if isinstance(node, (Load, AddressOf)):
                _check_flat(node, stmt)
    _check_arena(kernel, launch)


def _check_statement(stmt: Stmt) -> None:
    if type(stmt) in GONE:
        raise KernelError(f"{GONE[type(stmt)]} in a lowered kernel", given=type(stmt).__name__, at=stmt.at)
    if isinstance(stmt, Attr) and any(key not in ("comment", "trace") for key, _ in stmt.settings):
        raise KernelError(
            "an attribute in a lowered kernel", given=str(stmt.settings), allowed="comment, trace", at=stmt.at
        )
    if isinstance(stmt, For) and stmt.kind == "vectorized":
        raise KernelError(
            "a vectorized loop in a lowered kernel", given=stmt.var.name, allowed="serial, unroll", at=stmt.at
        )


def _check_flat(node: Load | AddressOf, stmt: Stmt) -> None:
    buffer = node.buffer
    count = len(node.indices)
    if buffer.layout is not None or len(buffer.shape) != 1 or count > 1 or (count == 0 and isinstance(node, Load)):
        raise KernelError(
            f"{buffer.name} is not flat in a lowered kernel",
            given=f"layout {buffer.layout}, shape {buffer.shape}, {count} indices",
            allowed="no layout, one dimension, one index",
            at=stmt.at,
        )


def _check_arena(kernel: Kernel, launch: Launch) -> None:
    """Shared buffers lie inside the arena, aligned, and none on top of another, unless they begin in one place."""
    placed: list[tuple[int, int, AllocBuffer]] = []
    for stmt in statements(kernel.body):
        if not isinstance(stmt, AllocBuffer) or not stmt.buffer.is_shared:
            continue
        buffer = stmt.buffer
        size = buffer.storage_bytes()
        start = -1 if stmt.offset is None else stmt.offset
        if start < 0 or start + size > launch.shared_bytes or start % max(buffer.align, 1):
            raise KernelError(
                f"{buffer.name} is not placed in shared memory",
                given=f"offset {stmt.offset}, {size} bytes, align={buffer.align}",
                allowed=f"inside {launch.shared_bytes} bytes, aligned",
                at=stmt.at,
            )
        placed.append((start, start + size, stmt))
    placed.sort(key=lambda place: place[:2])
    for (first, end, before), (start, _, stmt) in pairwise(placed):
        if first < start < end:
            raise KernelError(
                f"{stmt.buffer.name} overlaps {before.buffer.name} in shared memory",
                given=f"offset {start}",
                allowed=f"{end} or later",
                at=stmt.at,
            )
