"""One value in memory, read and assigned by its name: ``s = T.local_scalar("int32")``, then ``s += 1``."""

from __future__ import annotations

from tilewright.errors import KernelError
from tilewright.ir import Buffer, Expr, Load, Value, as_expr
from tilewright.lang.builder import current
from tilewright.lang.memory import alloc_buffer, decl_buffer

__all__ = ["EXPORTS"]


def alloc_scalar(dtype: str = "float32", scope: str = "local") -> Load:
    """One value in memory of its own, in registers or shared: a name for it reads and assigns that value."""
    return _scalar(alloc_buffer((1,), dtype, scope=scope))


def shared_scalar(dtype: str = "float32") -> Load:
    """`alloc_scalar` in shared memory."""
    return alloc_scalar(dtype, "shared")


def local_scalar(dtype: str = "float32") -> Load:
    """`alloc_scalar` in registers."""
    return alloc_scalar(dtype)


def decl_scalar(
    dtype: str | None = None,
    data: Expr | Buffer | None = None,
    scope: str | None = None,
    elem_offset: Value = 0,
    byte_offset: Value | None = None,
) -> Load:
    """One value in memory that exists: a name for it reads and assigns that value."""
    if data is None:
        raise KernelError("T.decl_scalar names memory that exists", given="no data", hint="T.alloc_scalar")
    return _scalar(decl_buffer((1,), dtype, data, None, elem_offset, byte_offset, scope))


def _scalar(storage: Buffer) -> Load:
    current("a scalar").fresh.add(storage.name)
    return Load(storage, (as_expr(0),))


EXPORTS: dict[str, object] = {
    "alloc_scalar": alloc_scalar,
    "shared_scalar": shared_scalar,
    "local_scalar": local_scalar,
    "decl_scalar": decl_scalar,
}
"""The names of ``T`` that this file defines, with what they stand for."""
