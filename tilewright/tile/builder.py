"""Writing the body of a tile call: statements that know their line, names that are new to the kernel."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar, cast

from tilewright import ir, isa
from tilewright.dtypes import HANDLE, INT32, dtype
from tilewright.errors import Span
from tilewright.ir.buffer import map_buffer
from tilewright.ir.tensor_map import MapOf
from tilewright.tile.call import TileCall
from tilewright.tile.scope import MeetingPlaces, in_workspace, which_of_its_kind
from tilewright.tile.walks import apart, plus, times

if TYPE_CHECKING:
    from tilewright.ir.ranges import RangeFacts
    from tilewright.tile.walks import Offset

Made = TypeVar("Made")


class FreshNames:
    """The names of a kernel's variables and buffers; hands out new ones: ``f``, ``f_1``, ... (Mutable.)"""

    def __init__(self, kernel: ir.Kernel) -> None:
        self._taken = {var.name for var in (*kernel.params, *kernel.symbols)} | {b.name for b in kernel.buffers}
        self._next: dict[str, int] = {}
        for stmt in ir.statements(kernel.body):
            if isinstance(stmt, (ir.AllocBuffer, ir.DeclBuffer)):
                self._taken.add(stmt.buffer.name)
            elif isinstance(stmt, (ir.Bind, ir.For)):
                self._taken.add(stmt.var.name)
            elif isinstance(stmt, ir.ScopeId):
                self._taken.update(var.name for var in stmt.vars)

    def new(self, name: str) -> str:
        """``name``, with the first free number behind it where it is taken."""
        number = self._next.get(name, 0)
        label = name if not number else f"{name}_{number}"
        while label in self._taken:
            number += 1
            label = f"{name}_{number}"
        self._next[name] = number + 1
        self._taken.add(label)
        return label


class Preparations:
    """Statements for tile calls right behind the declaration of a buffer, each once in a kernel. (Mutable.)"""

    def __init__(self) -> None:
        self._results: dict[tuple[str, Hashable], object] = {}
        self._written: dict[str, ir.Body] = {}
        self.maps: dict[MapOf, tuple[MapOf, ir.Buffer]] = {}

    def tensor_map(self, of: MapOf, names: FreshNames) -> ir.Buffer:
        """The tensor map with these fields, an argument that the kernel gets besides those that it names."""
        if of not in self.maps:
            named = replace(of, name=names.new(f"{of.of}_map"))
            self.maps[of] = named, map_buffer(named.name)
        return self.maps[of][1]

    def once(self, buffer: ir.Buffer, key: Hashable, out: Builder, write: Callable[[Builder], Made]) -> Made:
        """The result of ``write`` for this buffer and key; at the first time, ``out`` takes what it writes."""
        if (buffer.name, key) not in self._results:
            self._results[buffer.name, key] = write(out)
            self._written[buffer.name] = (*self._written.get(buffer.name, ()), *out.body)
        return cast(Made, self._results[buffer.name, key])

    def placed(self, body: ir.Body) -> ir.Body:
        """``body`` with everything behind the declaration it belongs to."""

        def followed(stmt: ir.Stmt) -> ir.Body | None:
            mine = (
                self._written.pop(stmt.buffer.name, None) if isinstance(stmt, (ir.AllocBuffer, ir.DeclBuffer)) else None
            )
            return None if mine is None else (stmt, *mine)

        done = ir.map_body(body, followed) if self._written else body
        assert not self._written, f"no declaration of {', '.join(self._written)}"
        return done


def _picked(values: list[ir.Value], index: ir.Value) -> ir.Value:
    """The value that an index chooses from a list of values."""
    *rest, total = values
    for position, value in reversed(list(enumerate(rest))):
        total = ir.select(ir.binary("==", index, position), value, total)
    return total


class Builder:
    """Collects the statements of one tile call, each at the call's line. (Mutable.)"""

    def __init__(
        self,
        names: FreshNames,
        at: Span | None,
        facts: RangeFacts,
        preparations: Preparations | None = None,
        meeting: MeetingPlaces | None = None,
    ) -> None:
        self.names = names
        self.at = at
        self.facts = facts
        self.preparations = preparations or Preparations()
        self._meeting = meeting
        self._scratches = self._workspace_bytes = 0
        self._bodies: list[list[ir.Stmt]] = [[]]

    @property
    def body(self) -> ir.Body:
        """What has been written so far."""
        return tuple(self._bodies[0])

    def add(self, stmt: ir.Stmt) -> None:
        """Write a statement at the current place."""
        self._bodies[-1].append(stmt)

    def comment(self, text: str) -> None:
        """A line for the reader of the emitted code."""
        self.add(ir.Attr((("comment", text),), at=self.at))

    def let(self, name: str, value: ir.Value) -> ir.Expr:
        """Name a value. A number stays one."""
        expr = ir.as_expr(value)
        var = ir.Var(self.names.new(name), HANDLE if expr.dtype == HANDLE else expr.dtype)
        self.add(ir.Bind(var, expr, mutable=False, at=self.at))
        return var

    def once_behind(self, buffer: ir.Buffer, key: Hashable, write: Callable[[Builder], Made]) -> Made:
        """Put what ``write`` writes right behind the declaration of ``buffer``, once for all calls with this key."""
        return self.preparations.once(buffer, key, Builder(self.names, self.at, self.facts, self.preparations), write)

    def tensor_map(self, of: MapOf) -> ir.Buffer:
        """The 128 bytes of a tensor map with these fields."""
        return self.preparations.tensor_map(of, self.names)

    def local(self, name: str, count: int, kind: str) -> ir.Buffer:
        """New registers: ``count`` elements of each thread."""
        buffer = ir.Buffer(self.names.new(name), dtype(kind), (count,), "local", ir.row_major((count,)))
        self.add(ir.AllocBuffer(buffer, at=self.at))
        return buffer

    def scratch(self, call: TileCall, name: str, count: int, kind: str, align: int = 0) -> tuple[ir.Buffer, ir.Value]:
        """Shared memory that only the threads of the call use until they leave it, and where their part begins.

        ``count`` elements. It may be written at once; a `meet` must be between the last access and the call's end.
        """
        assert self._meeting is not None
        turn, self._scratches = self._scratches, self._scratches + 1
        shape = (count * (call.scope.cta_threads // call.scope.threads),)
        buffer = ir.Buffer(self.names.new(name), dtype(kind), shape, "shared", ir.row_major(shape), align=align)
        if call.option("workspace"):
            buffer, self._workspace_bytes = in_workspace(call, buffer, self._workspace_bytes)
            self.add(ir.DeclBuffer(buffer, at=self.at))
        else:
            self._meeting.reserve(buffer, call.scope, turn, self.at)
        return buffer, times(which_of_its_kind(call.scope), count)

    def meet(self, call: TileCall) -> None:
        """The threads of the call wait for each other; their accesses are ordered. Not twice in a row."""
        scope = call.scope
        whole = scope.kind == "cta" or (scope.kind == "warpgroup" and scope.threads == scope.cta_threads)
        if scope.kind not in ("warp", "warpgroup", "cta"):
            return
        if scope.kind == "warp" or whole:
            sync = isa.call("cuda.cta_sync" if whole else "cuda.warp_sync")
        else:
            assert self._meeting is not None
            sync = isa.call("cuda.warpgroup_sync", self._meeting.barrier)
        last = next(reversed(self._bodies[-1]), None)
        if not (isinstance(last, ir.Evaluate) and ir.same(last.value, sync)):
            self.add(ir.Evaluate(sync, at=self.at))

    def call(self, op: str, *args: object, **modifiers: object) -> None:
        """Write an instruction of the table."""
        self.add(ir.Evaluate(isa.call(op, *args, **modifiers), at=self.at))

    def store(self, buffer: ir.Buffer, offset: ir.Value, value: ir.Expr) -> None:
        """Write an element of flat storage."""
        self.add(ir.Store(ir.Load(buffer, (ir.as_expr(offset),)), value, at=self.at))

    @contextmanager
    def loop(self, name: str, count: ir.Value, kind: str = "serial", *, always: bool = False) -> Iterator[ir.Value]:
        """What is written inside is the body of ``for name in range(count)``; of a single round if ``always``."""
        if ir.const_value(count) == 1 and not always:
            yield 0
            return
        var = ir.Var(self.names.new(name), INT32)
        self._bodies.append([])
        yield var
        body = tuple(self._bodies.pop())
        self.add(ir.For(var, ir.as_expr(0), ir.as_expr(count), body, kind, at=self.at))

    @contextmanager
    def when(self, cond: ir.Expr | None) -> Iterator[None]:
        """What is written inside happens where ``cond`` holds; always for None."""
        if cond is None:
            yield
            return
        self._bodies.append([])
        yield
        body = tuple(self._bodies.pop())
        self.add(ir.If(cond, body, at=self.at))

    def either(self, cond: ir.Expr | None, then: Callable[[], None], orelse: Callable[[], None]) -> None:
        """What ``then`` writes happens where ``cond`` holds, what ``orelse`` writes elsewhere; for None the first."""
        if cond is None:
            then()
            return
        parts: list[ir.Body] = []
        for write in (then, orelse):
            self._bodies.append([])
            write()
            parts.append(tuple(self._bodies.pop()))
        self.add(ir.If(cond, parts[0], parts[1], at=self.at))

    def offsets(self, offset: Offset, name: str) -> Callable[[ir.Value], ir.Value]:
        """Prepare an offset in front of its loop; the result gives it for a round."""
        if offset.rounds:
            rounds = [self.offsets(place, name) for place in offset.rounds]
            return lambda round: _picked([place(0) for place in rounds], round)
        if offset.through is not None:
            side = offset.through
            return lambda round: side.at(self.let(f"{name}_element", offset.joined(offset.fixed, round)), self.facts)
        if offset.swizzle is None:
            return lambda round: offset.joined(offset.fixed, round)
        address = offset.swizzle.address
        whole, low = apart(offset.fixed, offset.swizzle.period, self.facts)
        if offset.hoisted:
            start = self.let(f"{name}_start", plus(whole, address(self.let(f"{name}_linear", low))))
            return lambda round: offset.joined(start, round)
        return lambda round: plus(whole, address(self.let(f"{name}_linear", offset.joined(low, round))))

    def pointer(self, name: str, storage: ir.Buffer, offset: ir.Value) -> ir.Expr:
        """Name a pointer to an element of flat storage."""
        return self.let(name, ir.AddressOf(storage, (ir.as_expr(offset),)))
