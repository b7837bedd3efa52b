"""Assignments: what a name on the left means.

A value of run time makes a scalar, or changes the one of that name. A buffer, a view, a fresh scope id or symbolic
extent, and any other Python value is bound to the name as it is.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tilewright import ir
from tilewright.dtypes import dtype
from tilewright.errors import KernelError, described
from tilewright.ir import as_expr
from tilewright.isa import written
from tilewright.lang.builder import ArrayType, KernelBuilder, LetType, TypeName
from tilewright.lang.expressions import registers_instead
from tilewright.lang.memory import new_buffer
from tilewright.lang.meta import is_meta, name_fields
from tilewright.lang.parser import NameEntry, Parser, computed, statement
from tilewright.lang.tile_assignments import assign_tile, hold, is_single, region_of
from tilewright.lang.values import MetaValue

FLOAT32 = dtype("float32")

_KINDS = {
    "let": "a T.let",
    "loop": "a loop counter",
    "scope": "a scope id",
    "symbol": "a symbolic extent",
    "parameter": "a parameter",
    "buffer": "a buffer",
    "python": "a Python value",
}


def is_scalar(value: object) -> bool:
    """Is it a value of run time, or a number that can be one?"""
    return isinstance(value, (ir.Expr, bool, int, float, np.generic))


@statement(ast.Assign)
def assign(parser: Parser, node: ast.Assign) -> None:
    if len(node.targets) == 1 and _pairs(node.targets[0], node.value):
        _assign_pairs(parser, node.targets[0].elts, node.value.elts)  # type: ignore[attr-defined]  # both are displays
        return
    value = _evaluated(parser, node.targets[0], node.value)
    for target in node.targets:
        assigned(parser, target, value)


def _pairs(target: ast.expr, value: ast.expr) -> bool:
    """``a, b = x, y``: displays of equal length, nothing starred."""
    displays = (ast.Tuple, ast.List)
    if not isinstance(target, displays) or not isinstance(value, displays) or len(target.elts) != len(value.elts):
        return False
    return not any(isinstance(part, ast.Starred) for part in (*target.elts, *value.elts))


def _assign_pairs(parser: Parser, targets: Sequence[ast.expr], nodes: Sequence[ast.expr]) -> None:
    """All values first, as Python does."""
    values = [_evaluated(parser, target, node) for target, node in zip(targets, nodes, strict=True)]
    for target, value in zip(targets, values, strict=True):
        assigned(parser, target, value)


def _evaluated(parser: Parser, target: ast.expr, node: ast.expr) -> object:
    """The value for a target; what it defines takes the target's name."""
    parts = target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]
    if isinstance(node, (ast.Call, ast.IfExp, ast.ListComp)):
        parser.builder.hints = tuple(part.id for part in parts if isinstance(part, ast.Name))
    parser.keeps_meta = node
    value = parser.eval(node)
    parser.builder.hints = ()
    if isinstance(value, ir.Expr) and value.dtype == "void":
        raise KernelError(f"`{ast.unparse(node)}` has no value", at=parser.source.span(node))
    return value


def assigned(parser: Parser, target: ast.expr, value: object) -> None:
    """Give ``value`` to a target: a name, an element, a component, or a tuple of them."""
    meta = isinstance(value, MetaValue)
    plain = value.value if isinstance(value, MetaValue) else value
    if isinstance(target, ast.Name):
        _assign_name(parser, target.id, plain, meta=meta)
    elif isinstance(target, (ast.Tuple, ast.List)):
        for part, item in zip(target.elts, _unpacked(target.elts, plain), strict=True):
            assigned(parser, part, MetaValue(item) if meta else item)
    elif isinstance(target, ast.Starred):
        assigned(parser, target.value, MetaValue(plain))
    elif isinstance(target, (ast.Subscript, ast.Attribute)) and (vector := _vector_of(parser, target)) is not None:
        _change_component(parser, target, vector, plain)
    elif isinstance(target, ast.Subscript):
        store(parser, target, plain)
    elif isinstance(target, ast.Attribute) and is_meta(owner := parser.eval(target.value)):
        setattr(owner, target.attr, plain)
    else:
        raise KernelError(
            f"`{ast.unparse(target)}` cannot be assigned in a kernel",
            allowed="a name, an element of a buffer, or a tuple of them",
            at=parser.source.span(target),
        )


def _unpacked(targets: Sequence[ast.expr], value: object) -> list[object]:
    """The items for the targets of a tuple, with a list for a starred one."""
    if isinstance(value, (ir.Expr, ir.Buffer)) or not hasattr(value, "__iter__"):
        shown = "one value" if isinstance(value, ir.Expr) else described(value)
        raise KernelError(f"`{value}` does not unpack", given=shown, allowed=f"{len(targets)} values")
    items = list(value)
    star = next((k for k, target in enumerate(targets) if isinstance(target, ast.Starred)), None)
    if star is not None and len(items) >= len(targets) - 1:
        after = len(targets) - star - 1
        stop = len(items) - after
        return [*items[:star], items[star:stop], *items[stop:]]
    if len(items) != len(targets):
        raise KernelError("too few or too many values to unpack", given=f"{len(items)}", allowed=f"{len(targets)}")
    return items


def _assign_name(parser: Parser, name: str, value: object, *, meta: bool = False) -> None:
    builder, env = parser.builder, parser.env
    entry = env.find(name)
    if isinstance(value, (ir.Computed, ir.Reduced)) and not meta:
        _check_place(parser, name, entry, value)
        value = hold(value, name).buffer
    if not meta and is_scalar(value) and not _is_fresh(builder, value):
        if entry is not None and entry.kind in ("scalar", "place"):
            _change(builder, name, entry, value)
            return
        if entry is not None and isinstance(entry.value, ir.Buffer) and entry.value.shape == (1,):
            builder.write(ir.Load(entry.value, (as_expr(0),)), value)  # type: ignore[arg-type]  # is_scalar says so
            return
        _check_assignable(parser, name, entry)
        define_scalar(parser, name, as_expr(value))  # type: ignore[arg-type]  # is_scalar says so
        return
    _check_assignable(parser, name, entry)
    name_fields(builder, name, value)
    env.define(name, value, _kind(builder, value, meta=meta))


def _check_place(parser: Parser, name: str, entry: NameEntry | None, value: object) -> None:
    """Refuse to bind a name from outside of the block to another tile: only the elements of its tile can change."""
    if entry is not None and isinstance(entry.value, ir.Tiled) and parser.env.is_outside(name):
        raise KernelError(f"{name} is a tile from outside of this block", given=f"{name} = {value}",
                          allowed="another name, or its elements", hint=f"{name}[:] = ...")  # fmt: skip
    _check_assignable(parser, name, entry)


def _is_fresh(builder: KernelBuilder, value: object) -> bool:
    """Was it defined by this statement: a scope id, a symbolic extent, a scalar in memory?"""
    names = (value.name,) if isinstance(value, ir.Var) else (value.buffer.name,) if isinstance(value, ir.Load) else ()
    return any(name in builder.fresh for name in names)


def _kind(builder: KernelBuilder, value: object, *, meta: bool) -> str:
    if isinstance(value, ir.Load) and _is_fresh(builder, value):
        return "place"
    if isinstance(value, ir.Var) and _is_fresh(builder, value):
        return "symbol" if any(value.name == symbol.name for symbol in builder.symbols) else "scope"
    return "buffer" if isinstance(value, ir.Buffer) and not meta else "python"


def _check_assignable(parser: Parser, name: str, entry: NameEntry | None) -> None:
    """A let never changes; anything else that is no scalar may get a new meaning in its own block only."""
    if entry is None or (entry.kind != "let" and not parser.env.is_outside(name)):
        return
    if entry.kind in ("scalar", "place"):
        raise KernelError(f"{name} is a scalar: a buffer or Python value cannot take its place in this block")
    raise KernelError(
        f"{name} is {_KINDS[entry.kind]}: it cannot be assigned here",
        allowed="scalars: x = value, x: T.int32 = value",
        hint=f"{name}: T.{entry.value.dtype} = 0"  # type: ignore[attr-defined]  # a Var
        if entry.kind == "symbol"
        else f"another name, or a scalar that begins as a copy of {name}",
    )


def define_scalar(parser: Parser, name: str, value: ir.Expr, *, mutable: bool = True) -> None:
    """A new scalar, initialised here; lives to the end of the block."""
    var = parser.builder.bind(name, value, mutable=mutable)
    parser.builder.first[var.name] = value
    parser.env.define(name, var, "scalar" if mutable else "let")


def _change(builder: KernelBuilder, name: str, entry: NameEntry, value: object) -> None:
    """Assign to a scalar, whose dtype is that of its first value."""
    target = entry.value
    if isinstance(target, ir.Load):
        builder.write(target, value)  # type: ignore[arg-type]  # it is a scalar
    elif isinstance(target, ir.Var):
        wider = value.dtype if isinstance(value, ir.Expr) else FLOAT32
        first = builder.first.get(target.name, target)
        begin = f"T.{wider}({first.value})" if isinstance(first, ir.Const) else f'T.cast({first}, "{wider}")'
        hint = f"{name} = {begin}"
        new = builder.converted(value, target.dtype, name, hint)  # type: ignore[arg-type]  # it refuses the rest
        builder.emit(ir.Assign(target, new, at=builder.at))


def _vector_of(parser: Parser, target: ast.Subscript | ast.Attribute) -> ir.Expr | None:
    """The vector that a target names a component of."""
    value = parser.eval(target.value)
    return value if isinstance(value, ir.Expr) and value.dtype.lanes > 1 else None


def _change_component(parser: Parser, target: ast.Subscript | ast.Attribute, vector: ir.Expr, value: object) -> None:
    """``v[1] = value``, ``v.x = value``: the scalar ``v`` with one component changed."""
    entry = parser.env.find(target.value.id) if isinstance(target.value, ast.Name) else None
    place = parser.eval(target)
    if entry is None or entry.kind not in ("scalar", "place") or not isinstance(place, ir.Component):
        name = ast.unparse(target.value)
        raise KernelError(
            f"a component of `{name}` cannot be assigned",
            given=ast.unparse(target),
            allowed="a component of a scalar",
            hint=f"v = {name}; change v; {name} = v" if isinstance(vector, ir.Load) else f"a scalar: v = {name}",
            at=parser.source.span(target),
        )
    new = parser.builder.converted(value, place.dtype, ast.unparse(target))  # type: ignore[arg-type]  # it refuses
    parts = [new if k == place.index else ir.Component(vector, k) for k in range(vector.dtype.lanes)]
    _change(parser.builder, ast.unparse(target.value), entry, ir.Vector(tuple(parts), vector.dtype))


def store(parser: Parser, target: ast.Subscript, value: object) -> None:
    """``buf[i, j] = value``, converted to the buffer's dtype."""
    _store(parser, target, parser.eval(target), value)


def _store(parser: Parser, target: ast.expr, place: object, value: object) -> None:
    if isinstance(place, ir.Region) or (isinstance(place, ir.Load) and is_single(value)):
        region = region_of(place)
        assert region is not None, "an element is a region of one"
        assign_tile(region, value)
        return
    if not isinstance(place, ir.Load):
        raise _no_element(parser, target)
    if not is_scalar(value):
        raise KernelError(f"an element of {place.buffer.name} is a number", given=written(value))
    parser.builder.write(place, value)  # type: ignore[arg-type]  # is_scalar says so


def _no_element(parser: Parser, target: ast.expr) -> KernelError:
    """The error for a store to something else than a buffer, such as a Python list."""
    values = parser.eval(target.value) if isinstance(target, ast.Subscript) else None
    hint = registers_instead(ast.unparse(target.value), values) if isinstance(values, (list, tuple)) else None  # type: ignore[attr-defined]  # a Subscript
    at = parser.source.span(target)
    return KernelError(f"`{ast.unparse(target)}` is no element of a buffer", hint=hint, at=at)


def _joined(parser: Parser, node: ast.AugAssign, old: object) -> object:
    """What ``old op= value`` comes to."""
    value = parser.eval(node.value)
    try:
        return computed(node.op, old, value)
    except TypeError as error:  # an operator that the values lack
        raise parser.failed(node, error) from error


@statement(ast.AugAssign)
def augmented(parser: Parser, node: ast.AugAssign) -> None:
    target = node.target
    old = parser.eval(target)
    if isinstance(target, ast.Subscript) and isinstance(old, ir.Region):
        _store(parser, target, old, _joined(parser, node, old))
        return
    if not is_scalar(old) and not isinstance(target, ast.Name):
        raise _no_element(parser, target)
    if isinstance(old, ir.Buffer):
        has_operator = isinstance(node.op, (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow))
        hint = (
            f"{target.id}[{'0' if old.shape == (1,) else ':'}] {ast.unparse(node).partition(' ')[2]}"
            if isinstance(target, ast.Name) and (has_operator or old.shape == (1,))
            else None
        )
        raise KernelError(f"{old.name} is a buffer, which has no value", given=ast.unparse(node), hint=hint)
    new = _joined(parser, node, old)
    if isinstance(target, ast.Subscript) and isinstance(old, ir.Load):
        parser.builder.write(replace(old), new)  # type: ignore[arg-type]  # the same element: its index is evaluated once
        return
    entry = parser.env.find(target.id) if isinstance(target, ast.Name) else None
    meta = entry is not None and entry.kind == "python" and not isinstance(new, ir.Expr)
    assigned(parser, target, MetaValue(new) if meta else new)


@statement(ast.AnnAssign)
def annotated(parser: Parser, node: ast.AnnAssign) -> None:
    """``x: T.int32 = 0``, ``v: T.float32[8]``, ``y: T.let = value``."""
    if not isinstance(node.target, ast.Name):
        at = parser.source.span(node.target)
        raise KernelError(f"`{ast.unparse(node.target)}` has no type of its own", allowed="a name", at=at)
    name, kind = node.target.id, parser.eval(node.annotation)
    if isinstance(kind, TypeName):
        value = 0 if node.value is None else parser.eval(node.value)
        _check_number(name, value)
        define_scalar(parser, name, parser.builder.converted(value, dtype(str(kind)), name))  # type: ignore[arg-type]
    elif isinstance(kind, ArrayType) and node.value is None:
        buffer = new_buffer(parser.builder, parser.builder.unique(name), kind.shape, kind.dtype, "local", None)
        parser.env.define(name, parser.builder.allocate(buffer), "buffer")
    elif isinstance(kind, LetType) and node.value is not None:
        _let(parser, node.target, kind, node.value)
    else:
        raise KernelError(
            f"{name} cannot have this type",
            given=ast.unparse(node).strip(),
            allowed="T.int32 (any dtype), T.float32[8] without a value, T.let with one",
            at=parser.source.span(node.annotation),
        )


def _check_number(name: str, value: object) -> None:
    if not is_scalar(value):
        raise KernelError(f"{name} is a scalar", given=f"{value}", allowed="a number or an expression")


def _let(parser: Parser, target: ast.Name, kind: LetType, node: ast.expr) -> None:
    value = _evaluated(parser, target, node)
    if not is_scalar(value) or _is_fresh(parser.builder, value):
        _assign_name(parser, target.id, value)
        return
    builder, name = parser.builder, target.id
    expr = as_expr(value) if kind.dtype is None else builder.converted(value, kind.dtype, name)  # type: ignore[arg-type]
    define_scalar(parser, target.id, expr, mutable=False)
