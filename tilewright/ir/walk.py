"""Walking and rewriting: every pass goes over expressions and statements through here, so that none lists all nodes;
and a kernel for one value of some of its parameters.
"""

from __future__ import annotations

import operator
import sys
from contextlib import contextmanager
from dataclasses import fields
from functools import cache, partial
from typing import TYPE_CHECKING, TypeVar, get_args

from tilewright.errors import KernelError, choices, described
from tilewright.ir.buffer import Buffer, Region
from tilewright.ir.expr import Const, Expr, Value, Var, Within, const_value
from tilewright.ir.stmt import AllocBuffer, Assign, Bind, Body, DeclBuffer, For, If, Kernel, ScopeId, Stmt, While
from tilewright.layout import ComposeLayout, Layout, TileLayout
from tilewright.records import replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

__all__ = [
    "FreshNames", "assigned", "bodies", "deep_recursion", "defined", "expressions", "introduced", "is_small",
    "map_body", "map_buffers", "names_in", "parts", "rewrite", "rewrite_values", "statements", "substituted", "walk",
    "with_bodies",
]  # fmt: skip

Node = TypeVar("Node")

LEVELS = 30_000  # of Python calls: a chain of a thousand `elif` is a nest of as many branches

_PLAIN = frozenset({str, int, float, bool, type(None)})
_NOTHING: tuple[object, ...] = ()  # nothing to go into; one object, as the default of a field
_STATEMENTS = frozenset(get_args(Stmt))
_NODES = (Expr, Region, Buffer, Within, *_STATEMENTS)
_BODIES = frozenset({"body", "then", "orelse"})

# Declared types of fields that never hold an expression.
_NO_NODES = frozenset(
    {"str", "str | None", "int", "int | None", "bool", "Number", "DType", "Span | None", "Layout | None"}
)
_NAMES: dict[type, tuple[str, ...]] = {}


def _fields(kind: type) -> tuple[str, ...]:
    """The fields that may hold expressions, none of what is no node; looked up once for each kind of node."""
    names = _NAMES.get(kind)
    if names is None:
        is_node = issubclass(kind, _NODES)
        names = _NAMES[kind] = tuple(f.name for f in fields(kind) if f.type not in _NO_NODES) if is_node else ()
    return names


@cache
def _backwards(kind: type) -> Callable[[object], tuple[object, ...]] | None:
    """What gives the parts of a tuple or node, last to first; None for what has none."""
    if kind is tuple:
        return lambda parts: parts[::-1]  # type: ignore[index]  # a tuple
    names = _fields(kind)[::-1]
    if len(names) == 1:
        return lambda node: (getattr(node, names[0]),)
    return operator.attrgetter(*names) if names else None


@contextmanager
def deep_recursion() -> Iterator[None]:
    """While kernels are parsed or compiled, which goes into nested branches level by level."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, LEVELS))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def parts(node: object) -> list[object]:
    """What a node, statement or tuple is made of: its parts that may hold expressions, last to first.

    The expressions of a buffer include ``data`` and ``elem_offset``: a view depends on what it views.
    """
    backwards = _backwards(type(node))  # type: ignore[arg-type]  # a class is hashable
    inner = () if backwards is None else backwards(node)
    return [part for part in inner if part is not _NOTHING and type(part) not in _PLAIN]


def is_small(node: object, most: int) -> bool:
    """Has a node fewer than ``most`` expressions below it, each counted as often as it occurs?"""
    todo = parts(node)
    count = 0
    while todo:
        part = todo.pop()
        is_expr, inner = _WAYS[type(part)]
        count += is_expr
        if count >= most:
            return False
        if inner is not None:
            todo += inner(part)
    return True


def walk(node: object) -> tuple[Expr, ...]:
    """Every expression in ``node`` (an expression, region, buffer or tuple of them), once, each before its parts.

    Nodes are frozen: what was found in an expression or a buffer is remembered there.
    """
    kind = type(node)
    if kind in _STATEMENTS:
        return ()
    if kind is tuple or not issubclass(kind, (Expr, Buffer)):
        return _found([node])
    nodes: tuple[Expr, ...] | None = getattr(node, "_walked", None)
    if nodes is None:
        nodes = _found([node] if kind is not Buffer else [*_backwards(Buffer)(node)])  # type: ignore[misc]  # it has parts
        object.__setattr__(node, "_walked", nodes)
    return nodes


def names_in(node: object) -> set[str]:
    """The names of the variables in ``node``, of the kinds that `walk` takes."""
    return {part.name for part in walk(node) if isinstance(part, Var)}


def _found(todo: list[object]) -> tuple[Expr, ...]:
    """The expressions in these nodes, the last of which comes first."""
    nodes: dict[int, Expr] = {}
    while todo:
        part = todo.pop()
        is_expr, inner = _WAYS[type(part)]
        if is_expr:
            if id(part) in nodes:
                continue
            nodes[id(part)] = part  # type: ignore[assignment]  # as was just seen
        if inner is not None:
            todo += inner(part)
    return tuple(nodes.values())


class _Ways(dict[type, tuple[bool, "Callable[[object], tuple[object, ...]] | None"]]):
    """By type of node: is it an expression, and what gives its parts, last to first."""

    def __missing__(self, kind: type) -> tuple[bool, Callable[[object], tuple[object, ...]] | None]:
        inner = None if kind in _STATEMENTS else _backwards(kind)
        self[kind] = issubclass(kind, Expr), (lambda buffer: walk(buffer)[::-1]) if kind is Buffer else inner
        return self[kind]


_WAYS = _Ways()


def substituted(
    node: Node, by: Mapping[int, Expr], renewed: Callable[[object, object], None] = lambda old, new: None
) -> Node:
    """``node`` with other expressions in place of those whose ``id`` is a key of ``by``, outermost first.

    renewed: is called with every node that is rebuilt for that, and its new version.
    """
    return _inside_out(node, lambda part: part, dict(by), renewed)


def rewrite(node: Node, change: Callable[[Expr], Expr | None], of: type[Expr] | tuple[type[Expr], ...] = Expr) -> Node:
    """``node`` with every expression ``of`` these kinds replaced by ``change`` of it, inside out; None keeps it.

    Parts are rewritten first, once each; a node whose parts did not change is returned as it is.
    """

    def changed(part: object) -> object:
        new = change(part) if isinstance(part, of) else None
        return part if new is None else new

    return _inside_out(node, changed, {})


def _inside_out(
    node: Node,
    change: Callable[[object], object],
    done: dict[int, object],
    renewed: Callable[[object, object], None] = lambda old, new: None,
) -> Node:
    """``node`` with each part replaced by ``change`` of it, after the parts of that. done: by ``id``, what is known."""

    def visit(part: object) -> object:
        new = done.get(id(part))
        if new is None:
            rebuilt = _rebuilding(type(part))  # type: ignore[arg-type]  # a class is hashable
            new = done[id(part)] = change(part if rebuilt is None else rebuilt(part, visit))
            if new is not part:
                renewed(part, new)
        return new

    return visit(node)  # type: ignore[return-value]  # an Expr for an Expr


@cache
def _rebuilding(kind: type) -> Callable[[object, Callable[[object], object]], object] | None:
    """What gives a tuple or node over its parts as another function gives them; None for what has none."""
    names = _fields(kind)
    return _tuple_over if kind is tuple else partial(_node_over, names) if names else None  # type: ignore[return-value]


def _tuple_over(parts: tuple[object, ...], change: Callable[[object], object]) -> tuple[object, ...]:
    new = tuple([part if type(part) in _PLAIN else change(part) for part in parts])
    return new if any(map(operator.is_not, new, parts)) else parts


def _node_over(names: tuple[str, ...], node: Node, change: Callable[[object], object]) -> Node:
    changed = {}
    for name in names:
        part = getattr(node, name)
        if part is not _NOTHING and type(part) not in _PLAIN and (new := change(part)) is not part:
            changed[name] = new
    return replace(node, **changed) if changed else node


def map_buffers(
    node: Node, change: Callable[[Buffer], Buffer], renewed: Callable[[object, object], None] = lambda old, new: None
) -> Node:
    """``node`` (an expression, a statement, a body) with every buffer in it replaced by ``change`` of it.

    A view is changed after the buffer that it views. renewed: as of `substituted`.
    """
    return _inside_out(node, lambda part: change(part) if isinstance(part, Buffer) else part, {}, renewed)


def statements(body: Body) -> list[Stmt]:
    """Every statement of ``body``, each before those inside it."""
    stmts: list[Stmt] = []
    _collect(body, stmts)
    return stmts


def _collect(body: Body, stmts: list[Stmt]) -> None:
    for stmt in body:
        stmts.append(stmt)
        kind = type(stmt)
        if kind is If:
            _collect(stmt.then, stmts)  # type: ignore[union-attr]  # an If
            _collect(stmt.orelse, stmts)  # type: ignore[union-attr]
        elif kind is For or kind is While:
            _collect(stmt.body, stmts)  # type: ignore[union-attr]


def bodies(stmt: Stmt) -> tuple[Body, ...]:
    """What stands inside a statement: the body of a loop, the two branches of an ``if``."""
    if isinstance(stmt, If):
        return stmt.then, stmt.orelse
    return (stmt.body,) if isinstance(stmt, (For, While)) else ()


def with_bodies(stmt: Stmt, new: Sequence[Body]) -> Stmt:
    """The statement with these in place of what `bodies` gives."""
    if isinstance(stmt, If):
        return replace(stmt, then=new[0], orelse=new[1])
    return replace(stmt, body=new[0]) if isinstance(stmt, (For, While)) else stmt


def assigned(body: Body) -> frozenset[str]:
    """The scalars that some statement assigns again: every other one keeps the value it was bound to."""
    return frozenset(stmt.var.name for stmt in statements(body) if isinstance(stmt, Assign))


def introduced(stmt: Stmt) -> tuple[str, ...]:
    """The names that a statement introduces."""
    if isinstance(stmt, ScopeId):
        return tuple(var.name for var in stmt.vars)
    if isinstance(stmt, (Bind, For)):
        return (stmt.var.name,)
    return (stmt.buffer.name,) if isinstance(stmt, (AllocBuffer, DeclBuffer)) else ()


def defined(kernel: Kernel) -> Iterator[str]:
    """The names that a kernel defines."""
    yield from (var.name for var in (*kernel.params, *kernel.symbols))
    yield from (buffer.name for buffer in kernel.buffers)
    for stmt in statements(kernel.body):
        yield from introduced(stmt)


class FreshNames:
    """Hands out names that nothing else has: ``f``, ``f_1``, ... (Mutable.)"""

    def __init__(self, taken: Iterable[str]) -> None:
        self.taken = set(taken)
        self._next: dict[str, int] = {}

    def new(self, name: str) -> str:
        """``name``, with the first free number behind it where it is taken."""
        number = self._next.get(name, 0)
        label = name if not number else f"{name}_{number}"
        while label in self.taken:
            number += 1
            label = f"{name}_{number}"
        self._next[name] = number + 1
        self.taken.add(label)
        return label


def expressions(stmt: Stmt) -> tuple[Expr, ...]:
    """Every expression of one statement, once, without those of statements inside it."""
    nodes: tuple[Expr, ...] | None = getattr(stmt, "_walked", None)
    if nodes is None:
        nodes = _found([getattr(stmt, name) for name in _fields(type(stmt))[::-1] if name not in _BODIES])
        object.__setattr__(stmt, "_walked", nodes)
    return nodes


def rewrite_values(stmt: Stmt, change: Callable[[Expr], Expr | None]) -> Stmt:
    """One statement with its own expressions rewritten; statements inside it are left alone."""
    names = tuple(name for name in _fields(type(stmt)) if name not in _BODIES)
    return _node_over(names, stmt, lambda part: rewrite(part, change))


def map_body(body: Body, change: Callable[[Stmt], Body | None]) -> Body:
    """``body`` with each statement replaced by the statements that ``change`` gives; None goes on into its bodies."""
    result: list[Stmt] = []
    for stmt in body:
        new = change(stmt)
        if new is not None:
            result += new
        else:
            inner = bodies(stmt)
            result.append(with_bodies(stmt, [map_body(part, change) for part in inner]) if inner else stmt)
    return tuple(result)


# Kernels for one value of some of their parameters.


def specialized(kernel: Kernel, values: Mapping[str, Value]) -> Kernel:
    """The kernel with numbers in place of scalars that a call passes, and of symbolic extents, which it then lacks.

    Raises KernelError for a name that is none of these, and for what is no number.
    """
    pointers = {buffer.data for buffer in kernel.buffers}
    open_ = {var.name: var for var in (*kernel.params, *kernel.symbols) if var not in pointers}
    for name, value in values.items():
        if name not in open_ or const_value(value) is None:
            what = "a number" if name in open_ else choices(name, open_) or "none: all parameters are arrays"
            raise KernelError(f"{kernel.name}.specialize({name}=...)", given=described(value), allowed=what)

    def number(part: Expr) -> Expr | None:
        if isinstance(part, Var) and part.name in values and part.dtype == open_[part.name].dtype:
            return Const(const_value(values[part.name]), part.dtype)  # type: ignore[arg-type]  # checked above
        return None

    params, symbols = (tuple(v for v in part if v.name not in values) for part in (kernel.params, kernel.symbols))
    return replace(_with_values(kernel, number), params=params, symbols=symbols)


def with_symbols_named(kernel: Kernel, names: Mapping[str, str]) -> Kernel:
    """The kernel with other names of symbolic extents and strides."""

    def other(part: Expr) -> Expr | None:
        return Var(names[part.name], part.dtype) if isinstance(part, Var) and part.name in names else None

    return replace(_with_values(kernel, other), symbols=rewrite(kernel.symbols, other))


def _with_values(kernel: Kernel, change: Callable[[Expr], Expr | None]) -> Kernel:
    """The kernel with other values for some names, in the layouts of its buffers, too."""

    def relaid(buffer: Buffer) -> Buffer:
        return buffer if buffer.layout is None else replace(buffer, layout=_in_layout(buffer.layout, change))

    buffers = map_buffers(rewrite(kernel.buffers, change), relaid)
    body = map_buffers(rewrite(kernel.body, change), relaid)
    maps = tuple(
        replace(
            tensor_map, **{name: rewrite(getattr(tensor_map, name), change) for name in ("dims", "strides", "offset")}
        )
        for tensor_map in kernel.maps
    )
    return replace(kernel, buffers=buffers, body=body, maps=maps, launch=rewrite(kernel.launch, change))


def _in_layout(layout: Layout, number: Callable[[Expr], Expr | None]) -> Layout:
    """A layout with numbers in place of names in its extents, strides and offsets."""
    if isinstance(layout, ComposeLayout):
        return replace(layout, tile=_in_tile(layout.tile, number))
    return _in_tile(layout, number) if isinstance(layout, TileLayout) else layout


def _in_tile(layout: TileLayout, number: Callable[[Expr], Expr | None]) -> TileLayout:

    def numbered(value: Value) -> Value:
        new = rewrite(value, number) if isinstance(value, Expr) else value
        return new if const_value(new) is None else const_value(new)  # type: ignore[return-value]  # a number

    shard, replica = (
        tuple(replace(it, extent=numbered(it.extent), stride=numbered(it.stride)) for it in part)
        for part in (layout.shard, layout.replica)
    )
    return replace(layout, shard=shard, replica=replica)
