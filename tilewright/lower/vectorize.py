"""``T.vectorized``: rounds that run at once, so that neighbouring elements go by one access where the facts allow it.

Each load and store whose elements follow each other, at a place that is proven to be aligned, becomes an access to a
vector; what is computed between them stays as it is, component by component. A comment says what became of the loop.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

from tilewright import ir
from tilewright.dtypes import DType
from tilewright.ir.ranges import RangeFacts
from tilewright.isa import ANY_LANES, bind

Node = TypeVar("Node", bound=ir.Expr)

LANES = (8, 4, 2)
WIDEST_BYTES = 16


@dataclass(slots=True)
class _Names:
    """Names that the kernel does not have yet. Mutable."""

    taken: set[str]

    def fresh(self, wanted: str) -> str:
        name = wanted
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        return name


def vectorized(loop: ir.For, facts: RangeFacts, taken: set[str]) -> ir.Body:
    """What stands for a loop over a lowered body. taken: names of the kernel; new ones are added."""
    reason = _reason_against(loop)
    plain = replace(loop, kind="unroll")
    if reason:
        return (_comment(f"T.vectorized: element by element, as {reason}", loop), plain)
    plans = [_Group(loop, lanes, facts, _Names(taken)) for lanes in LANES if _rounds(loop) % lanes == 0]
    best = max(plans, key=lambda plan: len(plan.together), default=None)
    if best is None or not best.together:
        why = best.apart[0] if best and best.apart else f"{_rounds(loop)} rounds make no vectors"
        return (_comment(f"T.vectorized: element by element, as {why}", loop), plain)
    return best.body()


def _comment(text: str, loop: ir.For) -> ir.Attr:
    return ir.Attr((("comment", text),), at=loop.at)


def _rounds(loop: ir.For) -> int:
    start, stop = ir.const_value(loop.start), ir.const_value(loop.stop)
    return int(stop - start) if start is not None and stop is not None else 0


def _reason_against(loop: ir.For) -> str:
    """Why the rounds cannot be taken together at all; empty where they can."""
    if loop.step != 1:
        return f"it goes in steps of {loop.step}"
    if _rounds(loop) <= 0:
        return "the number of rounds is not constant"
    if any(not isinstance(stmt, (ir.Store, ir.Bind)) or getattr(stmt, "mutable", False) for stmt in loop.body):
        return "its body is more than stores"
    stores = [stmt.place for stmt in loop.body if isinstance(stmt, ir.Store)]
    stored = {place.buffer.root.name for place in stores}
    for stmt in loop.body:
        for node in ir.walk(stmt.value):  # type: ignore[union-attr]  # a Store or a Bind, as was just seen
            if isinstance(node, ir.Call) and not _only_computes(node):
                return f"`{node}` has an effect"
            if isinstance(node, ir.Load) and node.buffer.root.name in stored and stores != [node]:
                return f"it reads {node.buffer.root.name}, which it writes"
    return ""


def _only_computes(node: ir.Call) -> bool:
    form = bind(node).form
    return not form.does_more_than_compute and bind(node).instruction.lanes == ANY_LANES


def _unguarded(node: ir.Expr) -> Iterator[ir.Load]:
    """The loads that every lane makes."""
    if isinstance(node, ir.Load):
        yield node
    guarded = isinstance(node, ir.Select) or (isinstance(node, ir.Binary) and node.op in ir.Binary.LOGIC)
    parts = (node.cond,) if isinstance(node, ir.Select) else (node.a,) if guarded else _parts(node)  # type: ignore[attr-defined]
    for part in parts:
        yield from _unguarded(part)


def _parts(node: ir.Expr) -> tuple[ir.Expr, ...]:
    """The expressions that a node is made of."""
    if isinstance(node, ir.Call):
        return tuple(part for part in node.args if isinstance(part, ir.Expr))
    sides = (getattr(node, name, None) for name in ("a", "b"))
    return (*(part for part in sides if isinstance(part, ir.Expr)), *getattr(node, "parts", ()))


class _Group:
    """The loop with ``lanes`` rounds at a time. together: the accesses that become one; apart: why others do not."""

    def __init__(self, loop: ir.For, lanes: int, facts: RangeFacts, names: _Names) -> None:
        self.loop, self.lanes, self.names = loop, lanes, names
        self.counter = ir.Var(_Names(set(names.taken)).fresh(f"{loop.var.name}_group"), loop.var.dtype)
        self.groups = _rounds(loop) // lanes
        self.facts = facts.with_loop(self.counter, 0, self.groups) if self.groups > 1 else facts
        self.first: ir.Value = loop.start if self.groups == 1 else loop.start + self.counter * lanes
        self.bound = {stmt.var.name for stmt in loop.body if isinstance(stmt, ir.Bind)}
        self.word = "_of_"
        while any(self._of_lane(name, lane) in names.taken for name in self.bound for lane in range(lanes)):
            self.word += "_"
        self.together: dict[ir.Load, ir.Value] = {}  # where the first of them lies, in vectors
        self.apart: list[str] = []
        for stmt in loop.body:
            for node in self._accesses(stmt):
                self._look_at(node)

    def _accesses(self, stmt: ir.Stmt) -> Iterator[ir.Load]:
        if isinstance(stmt, ir.Store):
            yield stmt.place
        yield from _unguarded(stmt.value)  # type: ignore[union-attr]  # a Store or a Bind

    def _look_at(self, node: ir.Load) -> None:
        buffer, lanes = node.buffer, self.lanes
        if buffer.space == "local" or node in self.together or not self._varies(node):
            return
        shown = f"{buffer.root.name}[{node.indices[0]}]"
        nbytes = buffer.dtype.bits * lanes // 8
        start = self.facts.simplify(self.at(node.indices[0], 0))
        align = buffer.align or WIDEST_BYTES
        if (
            buffer.dtype.lanes > 1
            or not 1 < nbytes <= min(WIDEST_BYTES, align)
            or isinstance(buffer.data, ir.AddressOf)
        ):
            self.apart.append(f"{lanes} elements of {shown} make no vector of at most {min(WIDEST_BYTES, align)} bytes")
        elif not all(self.facts.equal(self.at(node.indices[0], k), start + k) for k in range(1, lanes)):
            self.apart.append(f"elements of {shown} do not follow each other")
        elif not self.facts.divides(lanes, start):
            self.apart.append(f"{shown} is not proven to begin at a multiple of {lanes} elements")
        else:
            self.together[node] = self.facts.simplify(ir.as_expr(start) // lanes)

    def _varies(self, node: ir.Load) -> bool:
        names = ir.names_in(node.indices)
        return self.loop.var.name in names and not names & self.bound

    def at(self, expr: Node, lane: int) -> Node:
        """An expression in the round of one lane."""
        counter = ir.as_expr(self.first + lane, self.loop.var.dtype)

        def change(node: ir.Expr) -> ir.Expr | None:
            if not isinstance(node, ir.Var):
                return None
            if node.name == self.loop.var.name:
                return counter
            return ir.Var(self._of_lane(node.name, lane), node.dtype) if node.name in self.bound else None

        return ir.rewrite(expr, change)

    def _of_lane(self, name: str, lane: int) -> str:
        return f"{name}{self.word}{lane}"

    # The loop's new body

    def body(self) -> ir.Body:
        loop, names = self.loop, self.names
        names.taken.update({self.counter.name, *(self._of_lane(n, k) for n in self.bound for k in range(self.lanes))})
        views: dict[str, ir.Buffer] = {}
        for node in self.together:
            kind = node.buffer.dtype.with_lanes(self.lanes)
            if node.buffer.name not in views:
                views[node.buffer.name] = self._view(node.buffer, kind)
        held = {node: ir.Var(names.fresh(f"{node.buffer.name}_{self.lanes}"), views[node.buffer.name].dtype)
                for node in self.together if not self._is_only_stored(node)}  # fmt: skip
        stmts: list[ir.Stmt] = [
            ir.Bind(var, self._place(node, views), mutable=False, at=loop.at) for node, var in held.items()
        ]
        for stmt in loop.body:
            stmts += self._grouped(stmt, held, views)
        names_of = dict.fromkeys(node.buffer.root.name for node in self.together)
        text = f"T.vectorized: {', '.join(names_of)} by {self.lanes} elements"
        told = (_comment("; ".join([text, *dict.fromkeys(self.apart)]), loop),)
        decls = tuple(ir.DeclBuffer(view, at=loop.at) for view in views.values())
        if self.groups == 1:
            return (*told, *decls, *stmts)
        zero, end = ir.as_expr(0, loop.var.dtype), ir.as_expr(self.groups, loop.var.dtype)
        return (*told, *decls, ir.For(self.counter, zero, end, tuple(stmts), "unroll", at=loop.at))

    def _view(self, buffer: ir.Buffer, kind: DType) -> ir.Buffer:
        extent = self.facts.simplify(ir.as_expr(buffer.shape[0]) // self.lanes)
        number = ir.const_value(extent)
        name = self.names.fresh(f"{buffer.name}_{kind}")
        shape: tuple[ir.Value, ...] = (extent if number is None else int(number),)
        return ir.Buffer(name, kind, shape, buffer.space, None, ir.AddressOf(buffer))

    def _is_only_stored(self, node: ir.Load) -> bool:
        reads = [load for stmt in self.loop.body for load in _unguarded(stmt.value)]  # type: ignore[union-attr]
        return node not in reads

    def _place(self, node: ir.Load, views: dict[str, ir.Buffer]) -> ir.Load:
        return ir.Load(views[node.buffer.name], (ir.as_expr(self.together[node]),), owed=tuple(self._owed(node)))

    def _owed(self, node: ir.Load) -> Iterator[ir.Within]:
        """The debts of an access that stands for several rounds."""
        for debt in node.owed:
            rounds = [self.at(debt.index, lane) for lane in range(self.lanes)]
            if all(self.facts.equal(index, rounds[0] + lane) for lane, index in enumerate(rounds)):
                yield replace(debt, index=rounds[0], span=self.lanes)
                continue
            for lane, index in enumerate(rounds):
                if lane == 0 or not self.facts.equal(index, rounds[0]):
                    yield replace(debt, index=index)

    def _grouped(self, stmt: ir.Stmt, held: dict[ir.Load, ir.Var], views: dict[str, ir.Buffer]) -> Iterator[ir.Stmt]:
        assert isinstance(stmt, (ir.Store, ir.Bind))

        def value(lane: int) -> ir.Expr:
            def loaded(node: ir.Expr) -> ir.Expr | None:
                return ir.Component(held[node], lane) if isinstance(node, ir.Load) and node in held else None

            return ir.as_expr(self.facts.simplify(self.at(ir.rewrite(stmt.value, loaded), lane)))

        if isinstance(stmt, ir.Store) and stmt.place in self.together:
            parts = tuple(value(lane) for lane in range(self.lanes))
            place = self._place(stmt.place, views)
            yield ir.Store(place, ir.as_expr(self.facts.simplify(ir.Vector(parts, place.dtype))), at=stmt.at)
            return
        for lane in range(self.lanes):
            if isinstance(stmt, ir.Bind):
                yield replace(stmt, var=ir.Var(self._of_lane(stmt.var.name, lane), stmt.var.dtype), value=value(lane))
            else:
                place = self.at(stmt.place, lane)
                index = ir.as_expr(self.facts.simplify(place.indices[0]))
                yield replace(stmt, place=replace(place, indices=(index,)), value=value(lane))
