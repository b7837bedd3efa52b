"""The builder of lowered kernels, which the parser and the lowering would make: from statements (`lowered`), or one
line after the other (`Lowered`):

k = Lowered("scale", threads=256, grid=4096)
a = k.array("a", "float32", 1 << 20)
k.store(a, i, k.load(a, i) * 2.0)
k.run(a=array)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from tilewright.dtypes import HANDLE, DType, dtype
from tilewright.errors import Span
from tilewright.host import Limits
from tilewright.ir import (
    AddressOf,
    AllocBuffer,
    Assign,
    Bind,
    Break,
    Buffer,
    Continue,
    DeclBuffer,
    Evaluate,
    Expr,
    For,
    If,
    Kernel,
    Launch,
    Load,
    Stmt,
    Store,
    Var,
    While,
    as_expr,
    cast,
    row_major,
    special,
)
from tilewright.isa import call
from tilewright.sim import Program, Run, parse_checks

FILE = "kernel.py"


def flat(name: str, kind: str | DType, size: Any, space: str, data: Expr | None = None) -> Buffer:
    """A buffer of the lowered stage."""
    return Buffer(name, dtype(kind), (size,), space, None, data)


def parameter(name: str, kind: str | DType, size: Any = 1024) -> Buffer:
    """A global buffer matched from the parameter ``<name>_ptr``."""
    return flat(name, kind, size, "global", Var(f"{name}_ptr", HANDLE))


def lowered(
    name: str,
    buffers: Iterable[Buffer],
    body: Iterable[Stmt],
    *,
    scalars: tuple[Var, ...] = (),
    launch: Launch | None = None,
    **fields: Any,
) -> Kernel:
    """A kernel of these statements: pointers first, then scalars."""
    buffers = tuple(buffers)
    handles = tuple(buffer.data for buffer in buffers if isinstance(buffer.data, Var))
    launch = launch or Launch((1, 1, 1), 32)
    return Kernel(name, (*handles, *scalars), buffers, tuple(body), stage="lowered", launch=launch, **fields)


def store(buffer: Buffer, index: Any, value: Any) -> Store:
    return Store(get(buffer, index), cast(as_expr(value, buffer.dtype), buffer.dtype))


def run(op: str, /, *args: Any, **modifiers: Any) -> Evaluate:
    """An instruction for its effect."""
    return Evaluate(call(op, *args, **modifiers))


class Lowered:
    """Collects statements; each gets the next line of an imaginary file."""

    def __init__(self, name: str = "kernel", *, threads: int = 32, grid: Any = 1, cluster: int = 1) -> None:
        self.name = name
        self.threads = threads
        self.grid = (grid, 1, 1) if not isinstance(grid, tuple) else grid
        self.cluster = (cluster, 1, 1)
        self.params: list[Var] = []
        self.symbols: list[Var] = []
        self.buffers: list[Buffer] = []
        self.authored: list[Buffer] = []
        self.shared_bytes = 0
        self.bodies: list[list[Stmt]] = [[]]
        self.line = 0

    # Declarations

    def array(self, name: str, kind: str, size: Any, shape: tuple[Any, ...] | None = None) -> Buffer:
        buffer = parameter(name, kind, size)
        assert isinstance(buffer.data, Var)
        self.params.append(buffer.data)
        self.buffers.append(buffer)
        self.authored.append(replace(buffer, shape=shape or (size,), layout=row_major(shape or (size,))))
        return buffer

    def scalar(self, name: str, kind: str = "int32") -> Var:
        self.params.append(Var(name, dtype(kind)))
        return self.params[-1]

    def shared(self, name: str, kind: str, size: int, shape: tuple[int, ...] | None = None) -> Buffer:
        offset = -(-self.shared_bytes // 128) * 128
        buffer = flat(name, kind, size, "shared")
        self.shared_bytes = offset + -(-size * buffer.dtype.bits // 8)
        self.authored.append(replace(buffer, shape=shape or (size,), layout=row_major(shape or (size,))))
        self.add(AllocBuffer(buffer, offset))
        return buffer

    def local(self, name: str, kind: str, size: int) -> Buffer:
        buffer = flat(name, kind, size, "local")
        self.add(AllocBuffer(buffer))
        return buffer

    def view(self, name: str, kind: str, size: int, data: Expr, space: str) -> Buffer:
        buffer = flat(name, kind, size, space, data)
        self.add(DeclBuffer(buffer))
        return buffer

    # Statements

    def add(self, stmt: Stmt) -> None:
        self.line += 1
        self.bodies[-1].append(replace(stmt, at=Span(FILE, self.line)))

    def bind(self, name: str, value: Any, kind: str = "int32", *, mutable: bool = True) -> Var:
        var = Var(name, dtype(kind))
        self.add(Bind(var, cast(as_expr(value, var.dtype), var.dtype), mutable))
        return var

    def assign(self, var: Var, value: Any) -> None:
        self.add(Assign(var, cast(as_expr(value, var.dtype), var.dtype)))

    def store(self, buffer: Buffer, index: Any, value: Any) -> None:
        self.add(store(buffer, index, value))

    def do(self, name: str, *args: Any, **kwargs: Any) -> None:
        self.add(run(name, *args, **kwargs))

    def leave(self, *, loop: bool) -> None:
        self.add(Break() if loop else Continue())

    @contextmanager
    def when(self, cond: Expr) -> Iterator[None]:
        """An `if`; follow it with `otherwise`."""
        line = self._open()
        yield
        then = tuple(self.bodies.pop())
        self.bodies[-1].append(If(cond, then, at=Span(FILE, line)))

    @contextmanager
    def otherwise(self) -> Iterator[None]:
        self.bodies.append([])
        yield
        orelse = tuple(self.bodies.pop())
        branch = self.bodies[-1][-1]
        assert isinstance(branch, If)
        self.bodies[-1][-1] = replace(branch, orelse=orelse)

    @contextmanager
    def loop(self, name: str, start: Any, stop: Any, step: int = 1) -> Iterator[Var]:
        line = self._open()
        var = Var(name)
        yield var
        body = tuple(self.bodies.pop())
        self.bodies[-1].append(For(var, as_expr(start), as_expr(stop), body, step=step, at=Span(FILE, line)))

    @contextmanager
    def repeat(self, cond: Expr) -> Iterator[None]:
        line = self._open()
        yield
        body = tuple(self.bodies.pop())
        self.bodies[-1].append(While(cond, body, at=Span(FILE, line)))

    def _open(self) -> int:
        self.line += 1
        self.bodies.append([])
        return self.line

    # The kernel

    def kernel(self) -> Kernel:
        launch = Launch(self.grid, self.threads, cluster=self.cluster, shared_bytes=self.shared_bytes)
        return Kernel(
            self.name,
            tuple(self.params),
            tuple(self.buffers),
            tuple(self.bodies[0]),
            symbols=tuple(self.symbols),
            stage="lowered",
            launch=launch,
            authored=tuple(self.authored),
        )

    def run(self, check: str = "all", /, **arguments: Any) -> Run:
        """Arrays by the buffer's name, scalars by theirs."""
        return self.limited(None, check, **arguments)

    def limited(self, limits: Limits | None, check: str, /, **arguments: Any) -> Run:
        """`run`, within these limits."""
        arrays = {f"{name}_ptr": value for name, value in arguments.items() if isinstance(value, np.ndarray)}
        scalars = {name: value for name, value in arguments.items() if not isinstance(value, np.ndarray)}
        return Program(self.kernel(), parse_checks(check)).run(arrays, scalars, limits=limits)


tid, lane, warp, cta = special("tid"), special("laneid"), special("warpid"), special("ctaid.x")


def at(buffer: Buffer, index: Any = 0) -> AddressOf:
    return AddressOf(buffer, (as_expr(index),))


def get(buffer: Buffer, index: Any) -> Load:
    return Load(buffer, (as_expr(index),))
