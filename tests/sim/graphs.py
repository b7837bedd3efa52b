"""Kernels as graphs: structured ones taken apart, random ones, and blocks written by hand."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np

from tests.sim.build import FILE, Lowered, cta, get, tid
from tilewright.errors import Span
from tilewright.ir import (
    AllocBuffer,
    Assign,
    Blocks,
    Branch,
    DeclBuffer,
    Ending,
    Evaluate,
    Exit,
    Expr,
    Jump,
    Kernel,
    Var,
    as_expr,
    cast,
    graph_of,
)
from tilewright.ir.structure import body_of
from tilewright.isa import call
from tilewright.sim import Program, Run, parse_checks


def taken_apart(kernel: Kernel) -> Kernel:
    """The kernel with a graph for its code."""
    declarations = tuple(stmt for stmt in kernel.body if isinstance(stmt, (AllocBuffer, DeclBuffer)))
    return replace(kernel, body=(*declarations, *body_of(graph_of(kernel))), compiled=True)


class ByHand(Lowered):
    """Collects blocks, under names: statements stand in the block that was named last; ends are written by hand."""

    def __init__(self, **shape: Any) -> None:
        super().__init__(**shape)
        self.blocks = Blocks()
        self.numbers: dict[str, int] = {}

    def number(self, label: str) -> int:
        if label not in self.numbers:
            self.numbers[label] = self.blocks.new() if self.numbers else 0
        return self.numbers[label]

    def block(self, label: str) -> None:
        self.blocks.open = self.number(label)
        self.bodies.append([])

    def _end(self, end: Ending) -> None:
        self.line += 1
        self.blocks.statements = self.bodies.pop()
        self.blocks.end(replace(end, at=Span(FILE, self.line)))

    def jump(self, to: str) -> None:
        self._end(Jump(self.number(to)))

    def branch(self, cond: Expr, then: str, orelse: str) -> None:
        self._end(Branch(cond, self.number(then), self.number(orelse)))

    def exit(self) -> None:
        self._end(Exit())

    def let(self, var: Var, value: Any) -> None:
        self.add(Assign(var, value if isinstance(value, Expr) else cast(as_expr(value, var.dtype), var.dtype)))

    def call(self, name: str, *args: Any, **kwargs: Any) -> None:
        self.add(Evaluate(call(name, *args, **kwargs)))

    def kernel(self) -> Kernel:
        kernel = super().kernel()
        return replace(kernel, body=(*kernel.body, *body_of(self.blocks.graph())), compiled=True)


def both(kernel: Kernel, check: str = "all", **given: Any) -> list[tuple[Run, dict[str, np.ndarray]]]:
    """The results of the kernel as it is, and taken apart."""
    found = []
    for one in (kernel, taken_apart(kernel)):
        arrays = {f"{name}_ptr": value.copy() for name, value in given.items() if isinstance(value, np.ndarray)}
        scalars = {name: value for name, value in given.items() if not isinstance(value, np.ndarray)}
        found.append((Program(one, parse_checks(check)).run(arrays, scalars), arrays))
    return found


class Random:
    """A random kernel: nested branches and loops that lanes leave apart, with barriers where all threads come."""

    def __init__(self, seed: int) -> None:
        self.r = random.Random(seed)
        self.k = k = Lowered(threads=64, grid=2)
        out = k.array("out", "int32", 128)
        self.n = k.scalar("n")
        self.shared = k.shared("shared", "int32", 64)
        self.loops = 0
        self.vars = [k.bind(f"x{q}", self.r.choice([q, tid + q, cta * 3, self.n])) for q in range(4)]
        self.body(0, in_loop=False, together=True)
        total: Expr = self.vars[0]
        for var in self.vars[1:]:
            total = total * 31 + var
        k.store(out, cta * 64 + tid, total)

    def value(self) -> Expr:
        a, b, number = self.r.choice(self.vars), self.r.choice(self.vars), self.r.randint(-5, 5)
        return self.r.choice([a + b, a * number + tid, a ^ b, self.n + number, a + number])

    def cond(self) -> Expr:
        value, modulus = self.r.choice([*self.vars, tid, tid, self.n, cta]), self.r.randint(2, 5)
        return self.r.choice([value % modulus == self.r.randint(0, modulus - 1), value < self.r.randint(-10, 40)])

    def body(self, depth: int, *, in_loop: bool, together: bool) -> None:
        ways = [self.assign, self.assign, self.branch, self.branch, self.loop]
        ways += [self.leave] if in_loop else [self.exchange] if together else []
        for _ in range(self.r.randint(1, 4)):
            self.r.choice(ways if depth < 4 else [self.assign])(depth, in_loop, together)

    def assign(self, depth: int, in_loop: bool, together: bool) -> None:
        self.k.assign(self.r.choice(self.vars), self.value())

    def branch(self, depth: int, in_loop: bool, together: bool) -> None:
        with self.k.when(self.cond()):
            self.body(depth + 1, in_loop=in_loop, together=False)
        if self.r.random() < 0.5:
            with self.k.otherwise():
                self.body(depth + 1, in_loop=in_loop, together=False)

    def loop(self, depth: int, in_loop: bool, together: bool) -> None:
        self.loops += 1
        stop = self.r.choice([3, self.n % 4, tid % 5, cta + 1])
        with self.k.loop(f"j{self.loops}", 0, stop) as j:
            self.k.assign(self.r.choice(self.vars), self.r.choice(self.vars) + j)
            self.body(depth + 1, in_loop=True, together=False)

    def leave(self, depth: int, in_loop: bool, together: bool) -> None:
        with self.k.when(self.cond()):
            self.k.leave(loop=self.r.random() < 0.5)

    def exchange(self, depth: int, in_loop: bool, together: bool) -> None:
        self.k.store(self.shared, tid, self.r.choice(self.vars))
        self.k.do("cuda.cta_sync")
        self.k.assign(self.r.choice(self.vars), get(self.shared, 63 - tid))
        self.k.do("cuda.cta_sync")
