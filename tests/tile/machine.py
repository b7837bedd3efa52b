"""A small machine that executes the code of variants, for all threads of one CTA, with NumPy.

Memory holds one int64 *tag* per element, so that a copy is right exactly if the right tags arrive. It knows the few
instructions that copies use, each written after the manual's words. Accesses must lie inside their buffer, and start at
a multiple of their size.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product

import numpy as np
from numpy.typing import NDArray

from tests.isa.matrix_oracles import dealt
from tests.tile.kernels import whole_number
from tilewright import isa
from tilewright.ir import (
    AddressOf,
    AllocBuffer,
    Assign,
    Assume,
    Attr,
    Binary,
    Bind,
    Body,
    Buffer,
    Call,
    Cast,
    Const,
    DeviceEntry,
    Evaluate,
    Expr,
    For,
    If,
    Kernel,
    Load,
    ScopeId,
    Select,
    Special,
    Stmt,
    Store,
    Unary,
    Var,
)
from tilewright.ir.launch import launch_of, scope_id_exprs

Ints = NDArray[np.int64]

OPERATORS: dict[str, Callable[..., object]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "//": np.floor_divide, "%": np.mod, "^": operator.xor,
    "&": operator.and_, "|": operator.or_, "<<": np.left_shift, ">>": np.right_shift, "==": operator.eq,
    "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "and": np.logical_and, "or": np.logical_or, "min": np.minimum, "max": np.maximum,
}  # fmt: skip


@dataclass
class Pointer:
    """An element offset in a buffer, per thread."""

    buffer: Buffer
    offset: Ints


@dataclass
class Machine:
    """Runs the body of a kernel. memory: the tags of each buffer by name, (size,) or (threads, size) for registers.

    scalars: values of parameters and block ids by name. executed: how often each instruction was executed by a thread.
    """

    kernel: Kernel
    memory: dict[str, Ints]
    scalars: dict[str, int] = field(default_factory=dict)
    executed: dict[str, int] = field(default_factory=dict)
    rows: list[Ints] = field(default_factory=list)  # what lanes supplied as addresses to ldmatrix and stmatrix

    def __post_init__(self) -> None:
        self.constants: dict[tuple[type, float], Ints] = {}
        self.threads = launch_of(self.kernel).threads
        tid = np.arange(self.threads)
        self.specials = {"tid": tid, "laneid": tid % 32, "warpid": tid // 32, "ctaid.x": tid * 0}
        self.values: dict[str, Ints | Pointer] = {
            name: self.value(expr) for name, expr in scope_id_exprs(self.kernel).items()
        }
        self.values.update({name: np.full(self.threads, value) for name, value in self.scalars.items()})

    def run(self) -> Machine:
        self.body(self.kernel.body, np.ones(self.threads, np.bool_))
        return self

    # Expressions

    def number(self, expr: Expr) -> Ints:
        value = self.value(expr)
        assert not isinstance(value, Pointer)
        return value

    def pointer(self, expr: Expr) -> Pointer:
        value = self.value(expr)
        assert isinstance(value, Pointer)
        return value

    def value(self, expr: object) -> Ints | Pointer:
        if isinstance(expr, Const):
            return self.constant(expr.value)
        if isinstance(expr, Var):
            return self.values[expr.name]
        if isinstance(expr, Special):
            return self.specials[expr.name]
        if isinstance(expr, Binary):
            return np.asarray(OPERATORS[expr.op](self.value(expr.a), self.value(expr.b)))
        if isinstance(expr, Unary):
            return np.asarray({"not": np.logical_not, "-": np.negative}[expr.op](self.number(expr.a)))
        if isinstance(expr, Select):
            return np.where(self.number(expr.cond), self.number(expr.a), self.number(expr.b))
        if isinstance(expr, Cast):
            return self.value(expr.a)
        if isinstance(expr, AddressOf):
            offset = self.value(expr.indices[0]) if expr.indices else np.zeros(self.threads, np.int64)
            return Pointer(expr.buffer, np.asarray(offset))
        raise NotImplementedError(type(expr))

    def constant(self, number: float) -> Ints:
        """The same number for all threads; made once, as unrolled code is full of them."""
        key = (type(number), number)
        if key not in self.constants:
            self.constants[key] = np.full(self.threads, number)
        return self.constants[key]

    # Statements

    def body(self, body: Body, active: NDArray[np.bool_]) -> None:
        for stmt in body:
            if active.any():
                self.statement(stmt, active)

    def statement(self, stmt: Stmt, active: NDArray[np.bool_]) -> None:
        if isinstance(stmt, (Bind, Assign)):
            self.values[stmt.var.name] = self.value(stmt.value)
        elif isinstance(stmt, If):
            cond = np.broadcast_to(np.asarray(self.value(stmt.cond), np.bool_), (self.threads,))
            self.body(stmt.then, active & cond)
            self.body(stmt.orelse, active & ~cond)
        elif isinstance(stmt, For):
            for step in range(int(np.max(self.number(stmt.start))), int(np.max(self.number(stmt.stop))), stmt.step):
                self.values[stmt.var.name] = np.full(self.threads, step)
                self.body(stmt.body, active)
        elif isinstance(stmt, Store):
            self.store(stmt.place, stmt.value, active)
        elif isinstance(stmt, Evaluate):
            self.instruction(stmt.value, active)
        elif isinstance(stmt, AllocBuffer):
            size = (self.threads, stmt.buffer.storage_size())
            self.memory.setdefault(stmt.buffer.name, np.full(size, -1))
        else:
            assert isinstance(stmt, (DeviceEntry, ScopeId, Assume, Attr)), type(stmt)

    def store(self, place: Load, value: Expr, active: NDArray[np.bool_]) -> None:
        there = Pointer(place.buffer, np.asarray(self.value(place.indices[0])))
        if isinstance(value, Load):
            source = Pointer(value.buffer, np.asarray(self.value(value.indices[0])))
            tags = {thread: self.read(source, thread, 1) for thread in np.flatnonzero(active).tolist()}
        else:
            tags = {thread: np.asarray(self.value(value))[[thread]] for thread in np.flatnonzero(active).tolist()}
        for thread, tag in tags.items():
            self.write(there, thread, tag)

    def instruction(self, call: object, active: NDArray[np.bool_]) -> None:
        assert isinstance(call, Call)
        bound = isa.bind(call)
        self.executed[call.op] = self.executed.get(call.op, 0) + int(active.sum())
        operands = {name: [self.pointer(part) for part in parts] for name, parts in bound.operands.items()}
        if call.op == "cuda.copy_bytes":
            self.copy_bytes(operands["dst"][0], operands["src"][0], whole_number(bound.mods["nbytes"]), active)
        else:
            self.matrices(call.op, operands, bound.mods, active)

    def copy_bytes(self, dst: Pointer, src: Pointer, nbytes: int, active: NDArray[np.bool_]) -> None:
        count = nbytes * 8 // dst.buffer.dtype.bits
        assert count * dst.buffer.dtype.bits == nbytes * 8
        tags = {thread: self.read(src, thread, count) for thread in np.flatnonzero(active).tolist()}
        for thread, values in tags.items():
            self.write(dst, thread, values)

    def matrices(self, op: str, operands: dict[str, list[Pointer]], mods: isa.Mods, active: NDArray[np.bool_]) -> None:
        (address,) = operands["p"]
        shape, num = str(mods["shape"]), whole_number(mods["num"])
        bits = address.buffer.dtype.bits
        cells = list(dealt(shape, bool(mods["trans"]), bits))
        height, each = (16, 2) if shape == "m16n16" else (8, 1)
        for first in range(0, self.threads, 32):
            assert active[first : first + 32].all() or not active[first : first + 32].any(), "a warp is split"
            if not active[first]:
                continue
            self.rows.append(address.offset[first : first + 32])
            for lane in range(first, first + 32):
                self.read(address, lane, 128 // bits)  # every lane supplies a valid address
            for matrix, (lane, register, slot, row, column) in product(range(num), cells):
                start = address.offset[first + height * matrix + row]
                cell = Pointer(address.buffer, np.full(self.threads, start + column))
                place = operands["r"][each * matrix + register]
                assert (place.offset * bits % 32 == 0).all(), "a register begins at a multiple of 32 bits"
                here = Pointer(place.buffer, place.offset + slot)
                dst, src = (here, cell) if op == "ptx.ldmatrix" else (cell, here)
                self.write(dst, first + lane, self.read(src, first + lane, 1))

    # Memory

    def place(self, pointer: Pointer, thread: int, count: int) -> tuple[Ints, int]:
        tags = self.memory[pointer.buffer.name]
        tags = tags[thread] if tags.ndim == 2 else tags
        start = int(pointer.offset[thread])
        assert 0 <= start <= len(tags) - count, f"{pointer.buffer.name}[{start}:{start + count}] of {len(tags)}"
        assert start % count == 0, f"{pointer.buffer.name}[{start}] is not aligned to {count} elements"
        return tags, start

    def read(self, pointer: Pointer, thread: int, count: int) -> Ints:
        tags, start = self.place(pointer, thread, count)
        return tags[start : start + count].copy()

    def write(self, pointer: Pointer, thread: int, values: Ints) -> None:
        tags, start = self.place(pointer, thread, len(values))
        tags[start : start + len(values)] = values
