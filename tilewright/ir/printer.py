"""Kernels as text: a script in the kernel language, of either stage, which parses back to an equal kernel."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tilewright import ir
from tilewright import layout as layouts
from tilewright.dtypes import INT32
from tilewright.ir.numbers import rounded
from tilewright.ir.operators import OPERATORS, SHIFTS, UNARY
from tilewright.ir.tensor_map import MapOf
from tilewright.layout import Layout
from tilewright.primitives import PRIMITIVES

if TYPE_CHECKING:
    from tilewright.dtypes import DType

# Expressions as text: the kernel language itself, which parses back to an equal expression.
#
# The text of an expression comes with a precedence, so that brackets stand where Python needs them and nowhere else.


class Text(NamedTuple):
    """An expression's text and how tightly its outermost operator binds."""

    text: str
    precedence: int


ATOM = 20
_LIKE_THE_LEFT = 1  # operators of equal precedence group to the left: the right operand needs brackets


def show(node: object) -> str:
    """One expression, region or plain value, as a kernel writes it.

    >>> from tilewright.ir.expr import Var
    >>> i = Var("i")
    >>> show((i + 1) * 4 % 8)
    '(i + 1) * 4 % 8'
    """
    return _text(node).text


def _text(node: object) -> Text:
    rule = _RULES.get(type(node))
    return rule(node) if rule is not None else Text(str(node) if isinstance(node, (int, float)) else repr(node), ATOM)


def _inside(node: object, precedence: int) -> str:
    """The text of an operand, in brackets if its operator binds less tightly."""
    text = _text(node)
    return text.text if text.precedence >= precedence else f"({text.text})"


def _operand(node: ir.Expr, other: ir.Expr, precedence: int) -> str:
    """An operand next to ``other``: a constant takes its dtype from there, and needs no word for its own."""
    if isinstance(node, ir.Const) and not isinstance(other, ir.Const) and node.dtype == other.dtype:
        return _inside_literal(node, precedence)
    return _inside(node, precedence)


def _inside_literal(node: ir.Const, precedence: int) -> str:
    text = literal(node, node.dtype)
    return f"({text})" if text.startswith("-") and precedence > UNARY["-"].precedence else text


def literal(node: ir.Const, expected: DType) -> str:
    """A constant where a number is brought to the dtype ``expected``."""
    finite = not isinstance(node.value, float) or math.isfinite(node.value)
    return _number(node) if node.dtype == expected and finite else _const(node).text


def _number(node: ir.Const) -> str:
    """The shortest decimal that is this number in its dtype: 0.1, not 0.10000000149011612."""
    if isinstance(node.value, float) and node.dtype.is_float:
        short = str(np.asarray(node.value).astype(node.dtype.numpy))
        if rounded(float(short), node.dtype) == node.value:
            return short
    return repr(node.value)


def _const(node: ir.Const) -> Text:
    """A constant on its own: ints are int32 and floats float32, as in Python text; others say what they are."""
    number: object = node.value
    if isinstance(number, float) and not math.isfinite(number):
        return Text(f'T.{node.dtype}("{number}")', ATOM)
    if node.dtype in ("int32", "float32", "bool"):
        return Text(_number(node), ATOM if not _number(node).startswith("-") else UNARY["-"].precedence)
    return Text(f"T.{node.dtype}({_number(node)})", ATOM)


def _binary(node: ir.Binary) -> Text:
    if _folds(node):
        return _exactly(node.op, node.a, node.b)
    precedence = OPERATORS[node.op].precedence
    if not precedence:
        name = f"T.{node.op}"
        return Text(f"{name}({_operand(node.a, node.b, 0)}, {_operand(node.b, node.a, 0)})", ATOM)
    compares = node.op in ir.Binary.COMPARISONS  # a < b < c would be a chain
    shifts = node.op in SHIFTS
    left = precedence + compares
    a = _inside(node.a, left) if shifts else _operand(node.a, node.b, left)
    return Text(f"{a} {node.op} {_operand(node.b, node.a, precedence + _LIKE_THE_LEFT)}", precedence)


def _folds(node: ir.Binary) -> bool:
    """Would building the node again simplify it away? Then it must be written as it is."""
    if isinstance(node.a, ir.Const) == isinstance(node.b, ir.Const):
        return isinstance(node.a, ir.Const)  # two constants: Python would compute them
    again = ir.build.binary(node.op, node.a, node.b)
    return not (isinstance(again, ir.Binary) and again.a is node.a and again.b is node.b)


def _exactly(op: str, *operands: ir.Expr, kind: str | None = None) -> Text:
    words = [f'"{op}"', *map(show, operands), *([f'kind="{kind}"'] if kind else [])]
    return Text(f"T.exactly({', '.join(words)})", ATOM)


def _unary(node: ir.Unary) -> Text:
    if isinstance(node.a, ir.Const):
        return _exactly(node.op, node.a)
    space, precedence = " " if node.op == "not" else "", UNARY[node.op].precedence
    return Text(f"{node.op}{space}{_inside(node.a, precedence)}", precedence)


def _select(node: ir.Select) -> Text:
    if isinstance(node.cond, ir.Const):
        return _exactly("select", node.cond, node.a, node.b)
    return Text(f"T.select({show(node.cond)}, {_operand(node.a, node.b, 0)}, {_operand(node.b, node.a, 0)})", ATOM)


def _cast(node: ir.Cast) -> Text:
    if isinstance(node.a, ir.Const) or node.a.dtype == node.dtype:
        return _exactly("cast", node.a, kind=str(node.dtype))
    return Text(f'T.cast({show(node.a)}, "{node.dtype}")', ATOM)


def _reinterpret(node: ir.Reinterpret) -> Text:
    return Text(f'T.reinterpret("{node.dtype}", {show(node.a)})', ATOM)


def _vector(node: ir.Vector) -> Text:
    return Text(f"T.{node.dtype}({', '.join(value(part, node.dtype.element) for part in node.parts)})", ATOM)


def _component(node: ir.Component) -> Text:
    return Text(f"{_inside(node.a, ATOM)}[{node.index}]", ATOM)


def _element(buffer: ir.Buffer, indices: tuple[ir.Expr, ...]) -> str:
    """``A[i, j]``."""
    return f"{buffer.name}[{', '.join(map(show, indices))}]"


def _load(node: ir.Load) -> Text:
    return Text(_element(node.buffer, node.indices) if node.indices else node.buffer.name, ATOM)


def _address(node: ir.AddressOf) -> Text:
    if not node.indices:
        return Text(f"{node.buffer.name}.data", ATOM)
    return Text(f"T.address_of({_element(node.buffer, node.indices)})", ATOM)


def _call(node: ir.Call) -> Text:
    words = [_modifier(part) for part in node.args]
    words += [f"{key}={argument(part)}" for key, part in node.attrs]
    return Text(f"T.{node.op}({', '.join(words)})", ATOM)


def _modifier(part: object) -> str:
    """A positional argument of an instruction: flags as the language writes them, ``T.bool(False)``."""
    if isinstance(part, ir.Const) and part.dtype == "bool":
        part = part.value
    return f"T.bool({part})" if isinstance(part, bool) else argument(part)


def argument(part: object) -> str:
    """A setting: an expression, a plain Python value, or a tuple of them."""
    if isinstance(part, tuple):
        return f"({', '.join(map(argument, part))}{',' if len(part) == 1 else ''})"
    return _quoted(part) if isinstance(part, str) else show(part)


def _quoted(text: str) -> str:
    """A string in double quotes, as kernels write them, where it has none itself."""
    plain = repr(text)
    return f'"{plain[1:-1]}"' if plain[0] == "'" and '"' not in plain else plain


def _region(node: ir.Region) -> Text:
    """``A[a:b, :]``; the box itself where slices would not give the same one."""
    slices = tuple(slice(start, start + extent) for start, extent in node.box)
    if ir.Region.of(node.buffer, slices) == node:
        words = (f"{show(part.start)}:{show(part.stop)}" for part in slices)
        return Text(f"{node.buffer.name}[{', '.join(words)}]", ATOM)
    box = (f"({show(start)}, {show(extent)})" for start, extent in node.box)
    return Text(f"T.region({node.buffer.name}, {', '.join(box)})", ATOM)


def value(node: ir.Expr, expected: DType) -> str:
    """What is assigned to a place of dtype ``expected``."""
    return literal(node, expected) if isinstance(node, ir.Const) else show(node)


_RULES: dict[type, Callable[..., Text]] = {
    ir.Const: _const,
    ir.Var: lambda node: Text(node.name, ATOM),
    ir.Special: lambda node: Text(f"T.{node.name}", ATOM),
    ir.Unary: _unary,
    ir.Binary: _binary,
    ir.Select: _select,
    ir.Cast: _cast,
    ir.Reinterpret: _reinterpret,
    ir.Vector: _vector,
    ir.Component: _component,
    ir.Load: _load,
    ir.AddressOf: _address,
    ir.Call: _call,
    ir.Region: _region,
    bool: lambda node: Text(repr(node), ATOM),
}


_INDENT = "    "
_LAYOUT_NAMES = frozenset(layouts.__all__)
_ON_T = frozenset({"S", "R", "TileLayout", "SwizzleLayout", "ComposeLayout"})
_WORD = re.compile(r"(@?)([A-Za-z_]\w*)")  # an axis stands behind the @ of a stride
_SCOPES = {"thread": "", "warpgroup": ".wg"}  # what stands after Tx; the others stand under their own names
_NO_LAUNCH = ir.Launch((1, 1, 1), 0)


def script(kernel: ir.Kernel) -> str:
    """The whole kernel; `tilewright.lang.parse_script` reads it back."""
    with ir.deep_recursion():
        return "\n".join(_Printer(kernel).lines()) + "\n"


def heads_of(kernel: ir.Kernel) -> Callable[[ir.Stmt], str]:
    """A function that gives the first line of a statement of the kernel, as `script` has it."""
    printer = _Printer(kernel)
    return lambda stmt: next(printer.body((stmt,)), "pass")


class _Printer:
    """One kernel being printed. taken: the names of the kernel that hide names of layouts."""

    def __init__(self, kernel: ir.Kernel) -> None:
        self.kernel = kernel
        self.taken = _LAYOUT_NAMES & set(ir.defined(kernel))

    def lines(self) -> Iterator[str]:
        kernel = self.kernel
        passed = {tensor_map.name for tensor_map in kernel.maps if not tensor_map.is_made}
        kinds = (f"{var.name}: T.{'TensorMap' if var.name in passed else var.dtype}" for var in kernel.params)
        params = ", ".join(kinds)
        yield "# from tilewright import T, Tx"
        yield "# from tilewright.layout import *"
        yield "@T.prim_func" if kernel.stage == "tile" else f'@T.prim_func(stage="{kernel.stage}")'
        yield f"def {kernel.name}({params}):"
        empty = True
        for line in self._inside():
            empty = False
            yield _INDENT + line
        if empty:
            yield _INDENT + "pass"

    def _inside(self) -> Iterator[str]:
        kernel = self.kernel
        if kernel.attrs:
            yield f"T.func_attr({_settings(kernel.attrs)})"
        for var in kernel.symbols:
            yield f"{var.name} = T.{var.dtype}()"
        maps = {tensor_map.name: tensor_map for tensor_map in kernel.maps}
        for buffer in kernel.buffers:
            if buffer.name in maps:
                yield from _map(maps[buffer.name])
                continue
            pointer = "None" if buffer.data is None else show(buffer.data)
            extra = self._extra(buffer, space="global")
            yield f'{buffer.name} = T.match_buffer({pointer}, {argument(buffer.shape)}, "{buffer.dtype}"{extra})'
        if kernel.launch is not None:
            yield f"T.launch({', '.join(_launch(kernel.launch))})"
        yield from self.body(kernel.body)

    def body(self, body: ir.Body) -> Iterator[str]:
        for stmt in body:
            yield from _STATEMENTS[type(stmt)](self, stmt)

    def indented(self, body: ir.Body) -> Iterator[str]:
        for line in self.body(body):
            yield _INDENT + line
        if not body:
            yield _INDENT + "pass"

    # Buffers.

    def buffer(self, call: str, buffer: ir.Buffer, **more: str) -> str:
        """``A = T.alloc_buffer((8, 8), "float16", scope="shared")``."""
        words = "".join(f", {key}={text}" for key, text in more.items())
        extra = self._extra(buffer, space="")
        return f'{buffer.name} = T.{call}({argument(buffer.shape)}, "{buffer.dtype}"{words}{extra})'

    def _extra(self, buffer: ir.Buffer, space: str) -> str:
        """What differs from the defaults, as keywords."""
        words = {
            "scope": f'"{buffer.space}"' if buffer.space != space else "",
            "layout": self._layout(buffer),
            "elem_offset": "" if ir.const_value(buffer.elem_offset) == 0 else show(buffer.elem_offset),
            "align": str(buffer.align) if buffer.align else "",
            "peers": str(buffer.peers) if buffer.peers else "",
            "allocated_addr": "" if buffer.allocated_addr is None else show(buffer.allocated_addr),
            "flat": "True" if buffer.layout is None and self.kernel.stage == "tile" else "",
        }
        return "".join(f", {key}={text}" for key, text in words.items() if text)

    def _layout(self, buffer: ir.Buffer) -> str:
        layout: Layout | None = buffer.layout
        if layout is None or (self.kernel.stage == "tile" and layout == ir.row_major(buffer.shape)):
            return ""
        return _WORD.sub(self._unhidden, str(layout)) if self.taken else str(layout)

    def _unhidden(self, word: re.Match[str]) -> str:
        """A name of the layout room, as an attribute of ``T`` where the kernel uses the name for something else."""
        on, name = word.groups()
        if name not in self.taken or not (on or name in _ON_T):
            return word[0]
        return f"{on}T.{name}" if name in _ON_T else f"{on}T.Axis.{name}"

    # Statements.

    def scope_id(self, stmt: ir.ScopeId) -> Iterator[str]:
        names = ", ".join(var.name for var in stmt.vars)
        unknown = all(extent is None for extent in stmt.extents)
        extents = "" if unknown and len(stmt.extents) == 1 else f"[{', '.join(map(show, stmt.extents))}]"
        yield f"{names} = T.{stmt.kind}({extents})"

    def alloc(self, stmt: ir.AllocBuffer) -> Iterator[str]:
        line = self.buffer("alloc_buffer", stmt.buffer)
        yield line if stmt.offset is None else f"{line[:-1]}, offset={stmt.offset})"

    def decl(self, stmt: ir.DeclBuffer) -> Iterator[str]:
        data = {} if stmt.buffer.data is None else {"data": show(stmt.buffer.data)}
        yield self.buffer("decl_buffer", stmt.buffer, **data)

    def bind(self, stmt: ir.Bind) -> Iterator[str]:
        var = stmt.var
        if stmt.mutable:
            yield f"{var.name}: T.{var.dtype} = {value(stmt.value, var.dtype)}"
        else:
            kind = "T.let" if var.dtype == stmt.value.dtype else f"T.let[T.{var.dtype}]"
            yield f"{var.name}: {kind} = {show(stmt.value)}"

    def assign(self, stmt: ir.Assign) -> Iterator[str]:
        yield f"{stmt.var.name} = {value(stmt.value, stmt.var.dtype)}"

    def store(self, stmt: ir.Store) -> Iterator[str]:
        yield f"{show(stmt.place)} = {value(stmt.value, stmt.place.dtype)}"

    def evaluate(self, stmt: ir.Evaluate) -> Iterator[str]:
        text = show(stmt.value)
        yield text if type(stmt.value).__name__ == "Call" else f"T.evaluate({text})"

    def tile_call(self, stmt: ir.TileCallStmt) -> Iterator[str]:
        words = [show(part) if isinstance(part, ir.Region) else value(part, part.dtype) for part in stmt.args]
        row = PRIMITIVES.get(stmt.primitive)
        for number, (name, place) in enumerate(zip(stmt.names, row.positional if row else (), strict=False)):
            if name != place and number < len(words):  # a keyword has this position
                words[number] = f"{name}={words[number]}"
        words += [f'dispatch="{stmt.dispatch}"'] if stmt.dispatch is not None else []
        words += [f"{key}={argument(part)}" for key, part in stmt.config]
        yield f"Tx{_SCOPES.get(stmt.scope, f'.{stmt.scope}')}.{stmt.primitive}({', '.join(words)})"

    def assume(self, stmt: ir.Assume) -> Iterator[str]:
        yield f"T.assume({show(stmt.cond)})"

    def attr(self, stmt: ir.Attr) -> Iterator[str]:
        text = dict(stmt.settings).get("comment") if len(stmt.settings) == 1 else None
        plain = isinstance(text, str) and text and text == text.strip() and text.isprintable()
        yield f"# {text}" if plain else f"T.attr({_settings(stmt.settings)})"

    def loop(self, stmt: ir.For) -> Iterator[str]:
        yield f"for {stmt.var.name} in {_bounds(stmt)}:"
        yield from self.indented(stmt.body)

    def while_(self, stmt: ir.While) -> Iterator[str]:
        yield f"while {show(stmt.cond)}:"
        yield from self.indented(stmt.body)

    def branch(self, stmt: ir.If, word: str = "if") -> Iterator[str]:
        yield f"{word} {show(stmt.cond)}:"
        yield from self.indented(stmt.then)
        if len(stmt.orelse) == 1 and isinstance(stmt.orelse[0], ir.If):
            yield from self.branch(stmt.orelse[0], "elif")
        elif stmt.orelse:
            yield "else:"
            yield from self.indented(stmt.orelse)


_STATEMENTS: dict[type[ir.Stmt], Callable[..., Iterator[str]]] = {
    ir.DeviceEntry: lambda printer, stmt: iter(["T.device_entry()"]),
    ir.ScopeId: _Printer.scope_id,
    ir.AllocBuffer: _Printer.alloc,
    ir.DeclBuffer: _Printer.decl,
    ir.Bind: _Printer.bind,
    ir.Assign: _Printer.assign,
    ir.Store: _Printer.store,
    ir.Evaluate: _Printer.evaluate,
    ir.TileCallStmt: _Printer.tile_call,
    ir.Assume: _Printer.assume,
    ir.Attr: _Printer.attr,
    ir.For: _Printer.loop,
    ir.While: _Printer.while_,
    ir.If: _Printer.branch,
    ir.Break: lambda printer, stmt: iter(["break"]),
    ir.Continue: lambda printer, stmt: iter(["continue"]),
}


def _bounds(stmt: ir.For) -> str:
    """``range(8)``, ``T.unroll(1, n)``, ``T.serial(8, annotations={...})``."""
    start, stop = show(stmt.start), show(stmt.stop)
    from_zero = isinstance(stmt.start, ir.Const) and stmt.start.value == 0 and stmt.step == 1
    words = [value(stmt.stop, INT32)] if from_zero else [start, stop]
    words += [str(stmt.step)] if stmt.step != 1 else []
    plain = stmt.kind == "serial" and not stmt.annotations
    words += [f"annotations={_settings(stmt.annotations)}"] if stmt.annotations else []
    return f"{'range' if plain else f'T.{stmt.kind}'}({', '.join(words)})"


def _settings(settings: tuple[tuple[str, ir.Argument], ...]) -> str:
    return "{" + ", ".join(f"{argument(key)}: {argument(part)}" for key, part in settings) + "}"


def _launch(launch: ir.Launch) -> Iterator[str]:
    """What `T.launch` says: grid and threads always, the rest where it is not the default."""
    for field in fields(launch):
        part = getattr(launch, field.name)
        if field.name in ("grid", "threads") or part != getattr(_NO_LAUNCH, field.name):
            yield f"{field.name}={argument(part)}"


def _map(tensor_map: MapOf) -> Iterator[str]:
    """``A_map = T.tensor_map(A, ...)``; a map that is an argument stands among the parameters."""
    if tensor_map.is_made:
        names = ("dtype", "dims", "strides", "box", "swizzle", "oob", "offset")
        words = [f"{name}={argument(getattr(tensor_map, name))}" for name in names]
        words += [f"steps={argument(tensor_map.steps)}"] if tensor_map.steps else []
        walk = tensor_map.im2col
        words += [f"im2col={argument((walk.lower, walk.upper, walk.wide))}"] if walk else []
        yield f"{tensor_map.name} = T.tensor_map({tensor_map.of}, {', '.join(words)})"
