"""Kernels with one tile call, written as IR, for the tests of this room."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tilewright import ir
from tilewright.dtypes import HANDLE, dtype
from tilewright.errors import Span
from tilewright.ir import (
    AllocBuffer,
    Argument,
    Body,
    Buffer,
    DeclBuffer,
    DeviceEntry,
    Expr,
    If,
    Kernel,
    Load,
    Region,
    ScopeId,
    Stmt,
    Var,
    as_expr,
    binary,
    row_major,
)
from tilewright.ir.expr import Value
from tilewright.layout import Layout, S, laneid

AT = Span("stage.py", 21, 4, 12)
LANE, WARP, TID = Var("lane_id"), Var("warp_id"), Var("thread_id")
BX = Var("bx")


def buffer(
    name: str,
    space: str,
    shape: tuple[Value, ...],
    layout: Layout | None = None,
    kind: str = "float16",
    *,
    align: int = 0,
) -> Buffer:
    """A buffer, row major unless a layout is given; a global one is bound to a parameter."""
    data = Var(f"{name}_ptr", HANDLE) if space == "global" else None
    return Buffer(name, dtype(kind), shape, space, layout or row_major(shape), data=data, align=align)


TENSOR_ADDRESS = buffer("tmem_addr", "shared", (1,), kind="uint32")


def tensor(name: str, shape: tuple[int, ...], layout: Layout, kind: str = "uint8") -> Buffer:
    """A buffer in tensor memory, at the address that an allocation has left in shared memory."""
    return replace(buffer(name, "tmem", shape, layout, kind), allocated_addr=Load(TENSOR_ADDRESS, (as_expr(0),)))


def _introduced(made: Buffer) -> Stmt:
    return DeclBuffer(made) if made.space == "tmem" else AllocBuffer(made)


def by_one_thread(call: ir.TileCallStmt) -> If:
    """The call under ``if thread_id == 0``."""
    return If(binary("==", TID, 0), (call,), at=AT)


def whole(buffer: Buffer | Region) -> Region:
    return buffer if isinstance(buffer, Region) else buffer.region()


def whole_number(value: Argument) -> int:
    """A value that is a constant where the test knows it: an extent, a modifier."""
    assert isinstance(value, int | np.integer)
    return int(value)


def extents(buffer: Buffer) -> tuple[int, ...]:
    """The shape, where the test knows it to be constant."""
    return tuple(map(whole_number, buffer.shape))


def tile_call(
    primitive: str, scope: str, args: tuple[Buffer | Region | Expr, ...], **config: Argument
) -> ir.TileCallStmt:
    """``Tx.<scope>.<primitive>(*args, **config)``, where the variant may be among the keywords, as `dispatch`."""
    dispatch = config.pop("dispatch", None)
    assert dispatch is None or isinstance(dispatch, str)
    operands = tuple(whole(arg) if isinstance(arg, Buffer) else arg for arg in args)
    return ir.TileCallStmt(primitive, scope, operands, dispatch, tuple(config.items()), at=AT)


def copy(dst: Buffer | Region, src: Buffer | Region, *, scope: str = "warp", **config: Argument) -> ir.TileCallStmt:
    return tile_call("copy", scope, (dst, src), **config)


def copy_async(
    dst: Buffer | Region, src: Buffer | Region, *, scope: str = "thread", **config: Argument
) -> ir.TileCallStmt:
    return tile_call("copy_async", scope, (dst, src), **config)


def scope_ids(threads: int, grid: int = 1) -> Body:
    """The head of a kernel: its ids of CTAs, threads, warps and lanes."""
    ids: Body = (
        DeviceEntry(),
        ScopeId("cta_id", (BX,), (grid,)),
        ScopeId("thread_id", (TID,), (threads,)),
        ScopeId("warp_id", (WARP,), (None,)),
    )
    return (*ids, ScopeId("lane_id", (LANE,), (32,))) if threads >= 32 else ids


def kernel(*statements: Stmt, threads: int = 32, symbols: tuple[Var, ...] = (), grid: int = 4) -> Kernel:
    """A kernel of these statements: scope ids are declared, buffers that calls name are allocated or parameters."""
    used = {b.name: b for stmt in ir.statements(statements) for b in _buffers(stmt)}
    params = tuple(b for b in used.values() if b.space == "global")
    allocs = tuple(_introduced(b) for b in used.values() if b.data is None)
    if any(b.space == "tmem" for b in used.values()):
        allocs = (AllocBuffer(TENSOR_ADDRESS), *allocs)
    handles = tuple(b.data for b in params if isinstance(b.data, Var))
    return Kernel("k", handles, params, (*scope_ids(threads, grid), *allocs, *statements), symbols)


def misaligned_fragment() -> Kernel:
    """A forced ldstmatrix whose rows start 40 bytes apart."""
    fragment = S[(2, 8, 2, 4, 2) : (4, 4 @ laneid, 2, 1 @ laneid, 1)]
    rows = Region(buffer("A", "shared", (32, 16), S[(32, 16) : (20, 1)]), ((0, 16), (0, 16)))
    return kernel(copy(buffer("R", "local", (16, 16), fragment), rows, dispatch="ldstmatrix"))


def _buffers(stmt: Stmt) -> list[Buffer]:
    return [arg.buffer for arg in stmt.args if isinstance(arg, Region)] if isinstance(stmt, ir.TileCallStmt) else []
