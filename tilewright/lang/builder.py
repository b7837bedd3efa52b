"""The builder of a kernel, to which the functions of ``T`` and ``Tx`` add their statements.

Expressions that are too deep or too large for one statement are taken apart before; the types that a kernel writes are
below.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

from tilewright import ir
from tilewright.dtypes import HANDLE, VOID, DType, dtype
from tilewright.errors import InstructionError, KernelError, Span, choices
from tilewright.ir import parts
from tilewright.ir.convert import converted
from tilewright.ir.intervals import Interval, strided
from tilewright.ir.ranges import RangeFacts
from tilewright.ir.tensor_map import MapOf
from tilewright.ir.walk import with_symbols_named
from tilewright.lang.moments import Moments, OpenBlock, inside
from tilewright.lang.public import export

if TYPE_CHECKING:
    from tilewright.lang.parser import Parser
    from tilewright.layout import Layout

# Expressions of any depth: what is nested deeper than a few dozen levels is computed in steps, each bound to a name.
#
# Python, C++ compilers and our own passes recurse into an expression, and each has a limit.


DEEPEST = 40  # levels; Python takes 200 brackets, and a level may need several
FEW = 7  # nodes that cannot be nested so deep, however often each is used
DOUBLED = 15  # nodes of a part that is used twice by one expression
LARGEST = 250  # nodes, each counted as often as it occurs: a value that a helper uses twice doubles
MOST_WAYS = 4  # ways to one part, each by conditions of its own
_MAY_FAIL = ("//", "%", "/", "truncdiv", "truncmod")


def in_steps(node: object, bind: Callable[[ir.Expr], ir.Expr], renewed: Callable[[object, object], None]) -> object:
    """``node`` with every part that is too deep bound to a name; ``renewed`` is called with each rebuilt node."""
    nodes = ir.walk(node) if isinstance(node, (ir.Expr, tuple)) else ir.expressions(node)  # type: ignore[arg-type]  # a Stmt
    if len(nodes) < FEW or ir.is_small(node, DEEPEST):
        return node
    names: dict[int, ir.Expr] = {}
    extents: dict[int, ExprSize] = {}
    guards: Guards | None = None  # where each part is evaluated, once a part is too deep
    todo: list[tuple[object, object, bool]] = [(node, None, False)]
    while todo:
        part, choice, complete = todo.pop()
        inner = inside(part, None, False)
        if not complete and id(part) not in extents:
            todo.append((part, choice, True))
            todo += [(child, around if choice is None else choice, False) for child, around, _ in inner]
        elif complete:
            extent = ExprSize.of(
                part, [(id(child), extents[id(child)]) for child, _, _ in inner if id(child) in extents]
            )
            if extent.is_large and isinstance(part, ir.Expr) and part is not node and part.dtype != VOID:
                renamed = ir.substituted(part, names, renewed)
                value: ir.Expr | None = renamed
                if choice is not None and extent.may_fail:  # a part that only some arm of a choice evaluates
                    guards = Guards(node) if guards is None else guards
                    value = guards.guarded(part, renamed, lambda cond: bind(ir.substituted(cond, names, renewed)))
                if value is not None:
                    names[id(part)] = bind(value)
                    extent = ExprSize(0, 1, extent.may_fail)
            extents[id(part)] = extent
    return ir.substituted(node, names, renewed) if names else node


Way: TypeAlias = tuple[tuple[int, bool], ...]  # ids of conditions, and whether they hold, the outermost first


class Guards:
    """Under which conditions the parts of a node are evaluated: the ways to each part, None where there are many."""

    def __init__(self, node: object) -> None:
        self._ways: dict[int, list[Way] | None] = {id(node): [()]}
        self._conditions: dict[int, ir.Expr] = {}
        self._holding: dict[Way, ir.Expr] = {}
        for part in reversed(_inner_first(node)):
            mine = self._ways[id(part)]
            for child, condition in _conditional(part):
                old = self._ways.get(id(child), [])
                if condition is not None:
                    self._conditions[id(condition[0])] = condition[0]
                step = () if condition is None else ((id(condition[0]), condition[1]),)
                both_known = old is not None and mine is not None
                self._ways[id(child)] = (
                    _ways_joined([*(old or ()), *(way + step for way in mine or ())]) if both_known else None
                )

    def guarded(self, part: ir.Expr, value: ir.Expr, bind: Callable[[ir.Expr], ir.Expr]) -> ir.Expr | None:
        """The value of a part where the node evaluates it, 0 elsewhere; None where the conditions are not known."""
        ways = self._ways[id(part)]
        if ways == [()]:
            return value
        if ways is None or part.dtype.lanes > 1 or part.dtype == HANDLE or not all(map(self._may_repeat, ways)):
            return None
        asked = [self._all_hold(way, bind) for way in ways]
        return ir.select(reduce(partial(ir.binary, "or"), asked), value, ir.cast(0, part.dtype))

    def _may_repeat(self, way: Way) -> bool:
        return not any(isinstance(part, ir.Call) for cond, _ in way for part in ir.walk(self._conditions[cond]))

    def _all_hold(self, way: Way, bind: Callable[[ir.Expr], ir.Expr]) -> ir.Expr:
        """The conditions of a way, each bound once, and evaluated only where those before it hold."""
        joined: ir.Expr | None = None
        for end, (cond, holds) in enumerate(way, 1):
            if (holding := self._holding.get(way[:end])) is None:
                test = self._conditions[cond] if holds else ir.unary("not", self._conditions[cond])
                holding = self._holding[way[:end]] = bind(test if joined is None else ir.binary("and", joined, test))
            joined = holding
        assert joined is not None
        return joined


def _inner_first(node: object) -> list[object]:
    """Every part once, after those in it."""
    parts: list[object] = []
    seen: set[int] = set()
    todo: list[tuple[object, bool]] = [(node, False)]
    while todo:
        part, complete = todo.pop()
        if complete:
            parts.append(part)
        elif id(part) not in seen:
            seen.add(id(part))
            todo.append((part, True))
            todo += [(child, False) for child, _ in _conditional(part)]
    return parts


def _conditional(part: object) -> list[tuple[object, tuple[ir.Expr, bool] | None]]:
    """The parts of a part, each with the condition under which it is evaluated."""
    if isinstance(part, ir.Select):
        return [(part.cond, None), (part.a, (part.cond, True)), (part.b, (part.cond, False))]
    if isinstance(part, ir.Binary) and part.op in ir.Binary.LOGIC:
        return [(part.a, None), (part.b, (part.a, part.op == "and"))]
    return [(child, None) for child in parts(part)]


def _ways_joined(ways: list[Way]) -> list[Way] | None:
    """Ways without those that others include; two that differ only in whether a condition holds become one."""
    kept: list[Way] = []
    todo = list(dict.fromkeys(ways))
    while todo:
        way = todo.pop()
        for other in kept:
            shorter = _one_of(way, other)
            if shorter is not None:
                kept.remove(other)
                todo.append(shorter)
                break
        else:
            kept.append(way)
    return kept if len(kept) <= MOST_WAYS else None


def _one_of(a: Way, b: Way) -> Way | None:
    """The way that stands for two: the wider one, or what they share where one condition alone tells them apart."""
    mine, theirs = set(a), set(b)
    if mine <= theirs or theirs <= mine:
        return a if mine <= theirs else b
    apart = mine ^ theirs
    if len(apart) == 2 and len({cond for cond, _ in apart}) == 1:
        return tuple(step for step in a if step in theirs)
    return None


class ExprSize(NamedTuple):
    """The size of an expression: its levels, its nodes, and whether evaluating it where it is not needed may fail."""

    levels: int
    nodes: int
    may_fail: bool
    twice: bool = False  # it contains a large part twice: using it twice again would double that

    @staticmethod
    def of(part: object, parts: list[tuple[int, ExprSize]]) -> ExprSize:
        """The extent of a node, from those of its parts; each comes with the part's id."""
        inner = [extent for _, extent in parts]
        twice = len(dict(parts)) < len(parts) and any(size.nodes > DOUBLED for size in inner)
        fails = isinstance(part, (ir.Load, ir.Call)) or (isinstance(part, ir.Binary) and part.op in _MAY_FAIL)
        return ExprSize(
            1 + max((size.levels for size in inner), default=0),
            1 + sum(size.nodes for size in inner),
            fails or any(size.may_fail for size in inner),
            twice,
        )

    @property
    def is_large(self) -> bool:
        """Is the part so large that it is bound to a name?"""
        return self.levels > DEEPEST or self.nodes > LARGEST or self.twice


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
        self.awaited: tuple[str, ...] = ()  # the names of what a helper that runs gives back
        self.nameless: set[str] = set()  # the buffers that no assignment has named so far
        self.renamed: dict[str, str] = {}
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
        self._names = ir.FreshNames(ir.SCRIPT_NAMES)
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
        self._names.taken.update(names)

    def unique(self, name: str) -> str:
        """``name``, or ``name_1``, ``name_2`` ... where it is taken."""
        return self._names.new(name)

    def named(self, default: str) -> str:
        """A unique name for what is defined now: the one its assignment asks for, else ``default``."""
        hint, *rest = self.hints or (default,)
        name = self.unique(hint)
        if not self.hints:
            self.nameless.add(name)
        self.hints = tuple(rest)
        return name

    def named_argument(self, parameter: str) -> str:
        """A unique name for an array of the caller: that of the assignment, also one of what a helper gives back."""
        self.hints, self.awaited = self.hints or self.awaited, ()
        return self.named(parameter)

    def rename(self, nameless: str, name: str) -> None:
        """Give a buffer, or a symbol, that no assignment has named the name that it has in the finished kernel."""
        self.nameless.remove(nameless)
        self.renamed[nameless] = self.unique(name)

    def symbol(self, kind: DType) -> ir.Var:
        """A symbolic extent, bound from the arguments of a call."""
        var = ir.Var(self.named("n"), kind)
        self.symbols.append(var)
        self.fresh.add(var.name)
        return var

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
            with self.aside() as block:
                yield block
        finally:
            self.known = outside
            self._views.pop()

    @contextmanager
    def aside(self) -> Iterator[OpenBlock]:
        """A block for statements that may turn out to belong to the current one."""
        block = OpenBlock()
        self._blocks.append(block)
        try:
            yield block
        finally:
            self._blocks.pop()
            self.moments.merged(block)

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
        facts = RangeFacts(self.ranges)
        first, last = (facts.interval(ir.as_expr(end)) for end in ((start, stop) if step > 0 else (stop, start)))
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
        if not self.hints and (view := self._same_view(buffer)) is not None:
            return view
        view = replace(buffer, name=self.named(buffer.name))
        if _is_constant(buffer):
            self._views[-1][replace(buffer, name="")] = view
        self._blocks[-1].append(ir.DeclBuffer(self.register(view), at=self.at))
        return view

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
        final = {buffer.name: buffer for buffer in (finish() for finish in self.late)}

        def finished(buffer: ir.Buffer) -> ir.Buffer:
            new = final.get(buffer.name, buffer)
            return replace(new, name=self.renamed[new.name]) if new.name in self.renamed else new

        if final or self.renamed:
            body = ir.map_buffers(body, finished)
        kernel = ir.Kernel(
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
        names = {var.name: self.renamed[var.name] for var in self.symbols if var.name in self.renamed}
        return with_symbols_named(kernel, names) if names else kernel


def _is_constant(view: ir.Buffer) -> bool:
    """Does the view mean the same wherever it is written? Then it is declared once."""
    numbers = (*view.shape, view.elem_offset)
    start = view.data.indices if isinstance(view.data, ir.AddressOf) else ()
    return all(isinstance(number, int) for number in numbers) and all(ir.const_value(at) is not None for at in start)


# Types as a kernel writes them: ``T.float16``, ``T.float32[8]``, ``T.let``, ``T.constexpr``, ``T.Buffer(...)``.


_NOTHING = object()
WRITTEN = ("inf", "-inf", "nan")  # the numbers that Python has no literal for


class UnknownName(KernelError, AttributeError):
    """A name that ``T`` or ``Tx`` lacks. Also an AttributeError, so that hasattr and getattr with a default work."""


class UnknownInstruction(InstructionError, AttributeError):
    """A name that ``T.ptx``, ``T.cuda`` or another namespace of instructions lacks."""


class TypeName(DType):
    """``T.float16``: a dtype that also builds values of it, ``T.float16(x)``, and array types, ``T.float16[8]``.

    A vector, ``T.float32x4(a, b, c, d)``, takes its components, or one value for all of them.

    ``n = T.int32()`` without a value is a symbolic extent of the arguments.
    """

    def __call__(self, value: object = _NOTHING, *more: object) -> ir.Expr:
        kind = dtype(str(self))
        if more:
            return ir.vector((value, *more), kind)  # type: ignore[arg-type]  # cast refuses what is no value
        if value is _NOTHING:
            return current(f"T.{self}()").symbol(kind)
        if isinstance(value, ir.Tiled):
            return ir.Computed("cast", (value,), (), str(kind))  # type: ignore[return-value]  # a tile's elements
        if isinstance(value, str):
            if kind == HANDLE:
                return PointerType(value)  # type: ignore[return-value]  # ``T.handle("tensormap")``, an annotation
            if value not in WRITTEN:
                raise KernelError(f"T.{self} of a string", given=repr(value), allowed=choices(value, WRITTEN))
            value = float(value)
        return ir.cast(value, kind)  # type: ignore[arg-type]  # cast refuses what is no value

    def __getitem__(self, shape: object) -> ArrayType:  # type: ignore[override]  # a dtype's letters are of no use
        return ArrayType(dtype(str(self)), shape if isinstance(shape, tuple) else (shape,))

    def __repr__(self) -> str:
        return f"T.{self}"


@dataclass(frozen=True, slots=True)
class ArrayType:
    """``v: T.float32[8]``: a local array."""

    dtype: DType
    shape: tuple[object, ...]


@dataclass(frozen=True, slots=True)
class PointerType:
    """``T.PointerType(T.PrimType("uint64"))``: the type of a pointer, whose dtype is handle."""

    to: object
    scope: str = ""


@dataclass(frozen=True, slots=True)
class VarType:
    """``T.Var(name="p", dtype="int32")``: what a ``T.let`` may be declared as. Its name is that of the target."""

    name: str
    dtype: DType


def prim_type(kind: str) -> TypeName:
    """``T.PrimType("uint64")``: the dtype."""
    return TypeName(_dtype(kind, "T.PrimType"))


def var_type(name: str = "", dtype: object = None, ty: object = None) -> VarType:
    """A variable with a dtype, or with a type that is a pointer: the annotation of a ``T.let``."""
    kind = ty if dtype is None else dtype
    return VarType(name, HANDLE if isinstance(kind, PointerType) else _dtype(kind, f"the variable {name}"))


def constant(kind: str, value: float) -> ir.Expr:
    """``T.FloatImm("float32", 1.0)``, ``T.IntImm("int32", 1)``: a constant of a dtype."""
    number = ir.cast(value, _dtype(kind, "a constant"))
    if ir.const_value(number) is None:
        raise KernelError("a constant has a number", given=f"`{value}`", allowed="a Python number", hint=f"T.{kind}(x)")
    return number


def _dtype(kind: object, what: str) -> DType:
    if not isinstance(kind, str):
        raise KernelError(f"{what} has a dtype", given=f"`{kind}`", allowed='a name such as "uint64", or T.uint64')
    return dtype(str(kind))


@dataclass(frozen=True, slots=True)
class LetType:
    """``y: T.let = value`` is never assigned again; ``T.let[T.int64]`` converts the value first.

    ``T.let[T.Var("y", "int64")]`` says the same.
    """

    dtype: DType | None = None

    def __getitem__(self, kind: object) -> LetType:
        if isinstance(kind, PointerType):
            return LetType(HANDLE)
        return LetType(kind.dtype if isinstance(kind, VarType) else _dtype(kind, "T.let"))


@dataclass(frozen=True, slots=True)
class Marker:
    """``N: T.constexpr``, keyword-only under ``@T.jit``: a Python value, given by ``.specialize(N=64)``."""

    name: str


@dataclass(frozen=True, slots=True)
class MapType:
    """``m: T.TensorMap``, also called without arguments: a parameter that is a tensor map."""

    def __call__(self) -> MapType:
        return self


TensorMap = MapType()
ALIASES = {
    f"{letter}{bits}": f"{word}{bits}" for letter, word in (("i", "int"), ("u", "uint")) for bits in (8, 16, 32, 64)
}
ALIASES |= {"f16": "float16", "f32": "float32", "f64": "float64", "bf16": "bfloat16"}
"""Short names of dtypes on ``T``."""

let = LetType()
constexpr = Marker("T.constexpr")


@dataclass(frozen=True, slots=True, init=False)
class BufferType:
    """``A: T.Buffer((128, 64), "float16")``: a parameter that is an array in global memory."""

    shape: tuple[object, ...]
    dtype: str
    layout: Layout | None
    strides: tuple[object, ...] | None
    scope: str
    align: int

    def __init__(
        self,
        shape: object,
        dtype: str = "float32",
        *,
        layout: Layout | None = None,
        strides: object = None,
        scope: str = "global",
        align: int = 0,
        data: None = None,
    ) -> None:
        if not isinstance(shape, (tuple, list)):
            shape = (shape,)
        values = {"shape": tuple(shape), "dtype": dtype, "layout": layout, "scope": scope, "align": align}
        if strides is not None and not isinstance(strides, (tuple, list)):
            strides = (strides,)
        values["strides"] = None if strides is None else tuple(strides)
        for name, value in values.items():
            object.__setattr__(self, name, value)


export(
    "Types",
    let=let,
    TensorMap=TensorMap,
    constexpr=constexpr,
    PointerType=PointerType,
    PrimType=prim_type,
    Var=var_type,
    FloatImm=constant,
    IntImm=constant,
)
