"""The builder of a kernel, to which the functions of ``T`` and ``Tx`` add their statements."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from tilewright import ir
from tilewright.dtypes import DType
from tilewright.errors import KernelError, Span
from tilewright.ir.convert import converted
from tilewright.ir.intervals import Interval, strided
from tilewright.ir.ranges import RangeFacts
from tilewright.ir.tensor_map import MapOf
from tilewright.lang.depth import in_steps
from tilewright.lang.moments import Moments, OpenBlock

if TYPE_CHECKING:
    from tilewright.lang.parser import Parser

__all__ = ["RESERVED", "KernelBuilder", "building", "current"]

RESERVED = frozenset({"T", "Tx", "range", "slice"})
"""Names that a printed script uses itself, so that no value of a kernel may have them."""

Node = TypeVar("Node", ir.Stmt, ir.Expr)

_active: ContextVar[KernelBuilder | None] = ContextVar("active_builder", default=None)


def building() -> KernelBuilder | None:
    """The builder at work, if a kernel is being parsed."""
    return _active.get()


def current(what: str) -> KernelBuilder:
    """The builder at work. Raises KernelError where no kernel is being parsed, which ``what`` needs."""
    builder = _active.get()
    if builder is None:
        raise KernelError(
            f"{what} belongs in a kernel", allowed="inside a function with @T.prim_func, @T.jit or @T.inline"
        )
    return builder


class KernelBuilder:
    """A kernel that is being built; mutable. exact: expressions stay as written, nothing is folded (printed scripts).

    at: the source line of the current statement. hints: names that its targets ask for. fresh: the scope ids, symbolic
    extents and scalars in memory that it has defined so far: an assignment binds them, and makes no scalar of them.
    """

    def __init__(self, parser: Parser, stage: str, *, exact: bool) -> None:
        self.parser = parser
        self.stage = stage
        self.exact = exact
        self.at: Span | None = None
        self.hints: tuple[str, ...] = ()
        self.fresh: set[str] = set()
        self.params: list[ir.Var] = []
        self.hidden: list[ir.Var] = []  # the parameters after those, which callers do not name
        self.buffers: list[ir.Buffer] = []
        self.maps: list[MapOf] = []
        self.symbols: list[ir.Var] = []
        self.attrs: dict[str, ir.Argument] = {}
        self.launch: ir.Launch | None = None
        self.known: dict[str, ir.Buffer] = {}  # every buffer that is declared, by its name
        self.late: list[Callable[[], ir.Buffer]] = []  # buffers whose size is known at the end only
        self.foreign = False  # a Python helper ran: its values may hold undeclared views
        self.tile_scopes: list[tuple[str, str]] = []  # of the enclosing `with Tx.cta:`, as in IR and as written
        self.branches: list[object] = []  # the open T.If, innermost last; None inside of their arms
        self._views: list[dict[ir.Buffer, ir.Buffer]] = [{}]  # views without a name, by block
        self._blocks = [OpenBlock()]
        self._taken = set(RESERVED)
        self._numbers: dict[str, int] = {}
        self.moments = Moments(self.unique)
        self.ranges: dict[str, Interval] = {}  # of the names whose range is written where they are defined
        self.varying: set[str] = set()  # the scalars that may be assigned again
        self.first: dict[str, ir.Expr] = {}  # what each scalar began as

    @contextmanager
    def active(self) -> Iterator[None]:
        """While this builder is the one at work; a Python helper cannot ask an expression for its truth then."""
        token, hearing, storing = _active.set(self), ir.reader.set(self.read), ir.writer.set(self.write)
        try:
            with ir.truth_is_an_error(), ir.deep_recursion():
                yield
        finally:
            ir.writer.reset(storing)
            ir.reader.reset(hearing)
            _active.reset(token)

    # Names.

    def reserve(self, names: Iterable[str]) -> None:
        """Keep names free for what will be defined later."""
        self._taken.update(names)

    def unique(self, name: str) -> str:
        """``name``, or ``name_1``, ``name_2`` ... where it is taken."""
        chosen = name
        while chosen in self._taken:
            self._numbers[name] = self._numbers.get(name, 0) + 1
            chosen = f"{name}_{self._numbers[name]}"
        self._taken.add(chosen)
        return chosen

    def named(self, default: str) -> str:
        """A unique name for what is defined now: the one its assignment asks for, else ``default``."""
        hint, *rest = self.hints or (default,)
        self.hints = tuple(rest)
        return self.unique(hint)

    def symbol(self, kind: DType) -> ir.Var:
        """A symbolic extent, bound from the arguments of a call."""
        made = ir.Var(self.named("n"), kind)
        self.symbols.append(made)
        self.fresh.add(made.name)
        return made

    # Statements.

    @property
    def depth(self) -> int:
        """How many blocks of run-time control flow are around the current statement."""
        return len(self._blocks)

    def emit(self, stmt: ir.Stmt) -> None:
        """Add a statement to the current block, after declarations of the undeclared views that it uses.

        A statement of control flow is settled when it begins, since what its blocks declare ends with them.
        """
        if not isinstance(stmt, (ir.For, ir.If, ir.While)):
            stmt = self.settled(stmt)
            self.moments.done(stmt)
        self._blocks[-1].append(stmt)

    @contextmanager
    def block(self) -> Iterator[OpenBlock]:
        """A block of statements inside the current one."""
        outside = dict(self.known)
        self._views.append({})
        try:
            with self.aside() as made:
                yield made
        finally:
            self.known = outside
            self._views.pop()

    @contextmanager
    def aside(self) -> Iterator[OpenBlock]:
        """A block for statements that may turn out to belong to the current one."""
        made = OpenBlock()
        self._blocks.append(made)
        try:
            yield made
        finally:
            self._blocks.pop()
            self.moments.merged(made)

    def settled(self, node: Node) -> Node:
        """``node``, about to be a part of the current block: every value as it was read, every view declared."""
        if self.exact:
            return node
        node = in_steps(node, self._step, self.moments.rebuilt)  # type: ignore[assignment]  # the same kind of node
        return self._judged(node)

    def _judged(self, node: Node) -> Node:
        self.moments.settle(node, self._blocks[-1])
        if not self.foreign:
            return node
        return ir.map_buffers(node, self.declared, self.moments.rebuilt)

    def _step(self, value: ir.Expr) -> ir.Var:
        """A part of a deep expression, computed before the statement that it belongs to."""
        var = ir.Var(self.unique("part"), value.dtype)
        self._blocks[-1].append(self._judged(ir.Bind(var, value, False, at=self.at)))
        return var

    def tried(self, value: ir.Expr) -> ir.Expr:
        """Settle a value that a choice may not evaluate, in the block that its evaluation has made.

        Declarations, and values that need no statement, belong to the block around it.
        """
        if self.exact:
            return value
        value = in_steps((value,), self._step, self.moments.rebuilt)[0]  # type: ignore[index]  # a tuple for a tuple
        block = self._blocks[-1]
        self.moments.settle(value, block)
        for read in block.reads:
            read.uses = 0
        if not block.has_bindings and all(
            isinstance(stmt, (ir.DeclBuffer, ir.AllocBuffer, ir.ScopeId)) for stmt in block
        ):
            block.dissolve(self._blocks[-2])
        return value

    def chose(self, choice: ir.Expr, arm: OpenBlock) -> None:
        """Take note of a choice one of whose arms was evaluated in a block of its own."""
        if arm.home is not None:
            self.moments.chosen(choice, arm.tried, self._blocks[-1], self.at)

    def converted(self, value: ir.Value, kind: DType, place: str, hint: str | None = None) -> ir.Expr:
        """``value`` as ``kind``, the type of ``place``, by what is known of the names in it; unchanged in a script."""
        return ir.cast(value, kind) if self.exact else converted(value, kind, place, hint, self.ranges)

    def counts(self, var: ir.Var, start: ir.Value, stop: ir.Value, step: int = 1) -> ir.Var:
        """``var``, a new name that goes from ``start`` towards ``stop``, which it does not reach."""
        known = RangeFacts(self.ranges)
        first, last = (known.interval(ir.as_expr(end)) for end in ((start, stop) if step > 0 else (stop, start)))
        low, high = (first.low, last.high - 1) if step > 0 else (first.low + 1, last.high)
        if low <= high:
            self.ranges[var.name] = strided(low, high)
        return var

    def bind(self, name: str, value: ir.Expr, *, mutable: bool = False) -> ir.Var:
        """A new scalar that begins as ``value``, under this name or one like it."""
        var = ir.Var(self.unique(name), value.dtype)
        self.emit(ir.Bind(var, value, mutable, at=self.at))
        if mutable:
            self.varying.add(var.name)
        return var

    def read(self, value: ir.Expr) -> ir.Expr:
        """Take note of an element or a scalar that is read now."""
        return value if self.exact else self.moments.read(value, self._blocks[-1], self.at)

    def write(self, place: ir.Load, value: ir.Value) -> None:
        """Store a value, converted to the dtype of the element."""
        if self.known.get(place.buffer.name) is not place.buffer:
            self.foreign = True  # a view that a method has made
        new = self.converted(value, place.dtype, f"an element of {place.buffer.name}")
        self.emit(ir.Store(place, new, at=self.at))

    def declared(self, buffer: ir.Buffer) -> ir.Buffer:
        """``buffer`` under its name in the kernel; an undeclared view is declared here."""
        if buffer.data is None or self.known.get(buffer.name) is buffer or buffer in self.buffers:
            return buffer
        if self.known.get(buffer.name) == buffer:
            return self.known[buffer.name]
        if not self.hints and (found := self._same_view(buffer)) is not None:
            return found
        made = replace(buffer, name=self.named(buffer.name))
        if _is_constant(buffer):
            self._views[-1][replace(buffer, name="")] = made
        self._blocks[-1].append(ir.DeclBuffer(self.register(made), at=self.at))
        return made

    def _same_view(self, buffer: ir.Buffer) -> ir.Buffer | None:
        key = replace(buffer, name="")
        return next((views[key] for views in self._views if key in views), None)

    def register(self, buffer: ir.Buffer) -> ir.Buffer:
        """Remember a buffer that a statement of the kernel declares."""
        self.known[buffer.name] = buffer
        return buffer

    def allocate(self, buffer: ir.Buffer, offset: int | None = None) -> ir.Buffer:
        """Storage of its own for ``buffer``."""
        self.emit(ir.AllocBuffer(self.register(buffer), offset, at=self.at))
        return buffer

    def declare(self, view: ir.Buffer) -> ir.Buffer:
        """A view of memory that exists, under the name it has."""
        self.emit(ir.DeclBuffer(self.register(view), at=self.at))
        return view

    def made(self, call: ir.Call, *, has_effect: bool) -> None:
        """Take note of an instruction: one without a value is a statement at once."""
        if call.dtype == "void":
            self.emit(ir.Evaluate(call, at=self.at))
        elif not self.exact:
            self.moments.called(call, self._blocks[-1], self.at, effect=has_effect)

    # The result.

    def kernel(self, name: str, at: Span) -> ir.Kernel:
        """The finished kernel."""
        self.moments.merged(self._blocks[0])
        body = self.moments.resolved(tuple(self._blocks[0]))
        if self.late:
            final = {buffer.name: buffer for buffer in (finish() for finish in self.late)}
            body = ir.map_buffers(body, lambda buffer: final.get(buffer.name, buffer))
        return ir.Kernel(
            name,
            (*self.params, *self.hidden),
            tuple(self.buffers),
            body,
            tuple(self.symbols),
            self.stage,
            self.launch,
            tuple(self.attrs.items()),
            maps=tuple(self.maps),
            at=at,
        )


def _is_constant(view: ir.Buffer) -> bool:
    """Does the view mean the same wherever it is written? Then it is declared once."""
    numbers = (*view.shape, view.elem_offset)
    start = view.data.indices if isinstance(view.data, ir.AddressOf) else ()
    return all(isinstance(number, int) for number in numbers) and all(ir.const_value(at) is not None for at in start)
