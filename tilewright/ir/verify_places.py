"""Are the places that a kernel names with numbers inside of their buffers?"""

from __future__ import annotations

from tilewright.errors import KernelError
from tilewright.ir.buffer import Buffer, Region
from tilewright.ir.expr import Expr, Value, const_value
from tilewright.ir.stmt import Stmt, TileCallStmt

__all__ = ["check_index", "check_regions"]


def check_regions(stmt: TileCallStmt) -> None:
    """Raises KernelError for a region of a call that is empty, or lies outside and may not leave its buffer."""
    for region, role in stmt.tiles:
        keywords = dict(stmt.config)
        _check_box(region, stmt, leaves=role.may_leave(keywords), asked=role.is_asked(keywords), hint=role.asking)
    for _, value in stmt.config:
        if isinstance(value, Region):
            _check_box(value, stmt, leaves=False, asked=False, hint=None)


def _check_box(region: Region, stmt: Stmt, *, leaves: bool, asked: bool, hint: str | None) -> None:
    """leaves: the region may leave its buffer in some runs; asked: also where numbers say that it always does."""
    buffer = region.buffer
    for axis, ((start, extent), size) in enumerate(zip(region.box, buffer.shape, strict=True)):
        first, count, limit = const_value(start), const_value(extent), const_value(size)
        stop = None if first is None or count is None else first + count
        always = not asked and stop is not None and limit is not None and stop > limit
        beyond = always or (limit is not None and not leaves and count is not None and count > limit)
        if beyond or (first is not None and first < 0) or (count is not None and count <= 0):
            raise KernelError(
                f"the region {region} lies outside of {buffer.name}",
                given=f"{start}:{start + extent} in dimension {axis}",
                allowed=f"within 0:{size}, not empty",
                hint=hint if beyond else None,
                at=stmt.at,
            )


def check_index(buffer: Buffer, axis: int, index: Expr, extent: Value, stmt: Stmt, *, past: bool) -> None:
    """Raises KernelError for an index that is no integer, or is known to be outside."""
    if not index.dtype.is_integer or index.dtype.lanes != 1:
        raise KernelError(f"an index of {buffer.name} is an integer", given=f"{index.dtype}: {index}", at=stmt.at)
    number, limit = const_value(index), const_value(extent)
    if number is None or (number >= 0 and (limit is None or number < limit + past)):
        return
    raise KernelError(
        f"index {number} is outside of {buffer.name}",
        given=f"{number} in dimension {axis}",
        allowed=f"0 to {extent - 1}",
        hint=f"{extent} - {-int(number)}, which counts from the end" if number < 0 else None,
        at=stmt.at,
    )
