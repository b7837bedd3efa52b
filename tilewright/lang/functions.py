"""Functions that are parsed: kernels, what is inlined into them, and what they return."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import FunctionType, MethodType
from typing import TypeVar

from tilewright.dtypes import HANDLE, dtype
from tilewright.errors import KernelError, TilewrightError, choices, described
from tilewright.ir import Break, Call, Expr, Kernel, Var, as_expr, names_in, walk
from tilewright.ir.arguments import strides_of
from tilewright.ir.tensor_map import MapOf
from tilewright.lang.assignments import assigned, define_scalar, is_scalar
from tilewright.lang.builder import BufferType, MapType, Marker, TypeName, constexpr, current
from tilewright.lang.memory import (
    SymmetricType,
    bind_map,
    bind_parameter,
    bind_symmetric,
    check_argument,
    new_buffer,
    strided,
)
from tilewright.lang.parser import Environment, Outer, Parser, Source, around, read, statement
from tilewright.lang.public import DECORATORS, export
from tilewright.public import at_the_edge, shortened

# Early ``return``: kernels have no jumps, so the statements that follow are put under a branch for the threads that
# have not returned.
#
# Where one arm of an ``if`` always returns, the rest goes into the other arm. Otherwise, in loops above all, a scalar
# of each thread is set when it returns, and its loops end.


Placed = TypeVar("Placed", bound=ast.AST)
FLAG = "return"  # the flag's name in the kernel, which no Python name can be


class _Returned(ast.stmt):
    """The thread has returned."""


class _Unless(ast.stmt):
    """``body`` for the threads that have not returned. is_head: it is all of a loop's body."""

    def __init__(self, body: Sequence[ast.stmt], *, is_head: bool = False) -> None:
        super().__init__()
        self.body, self.is_head = list(body), is_head


def without_early_returns(parser: Parser, body: Sequence[ast.stmt]) -> Sequence[ast.stmt]:
    """The statements of a function without ``return`` in front of others. One with a value stays where it is."""
    returns = [part for stmt in body for part in ast.walk(stmt) if isinstance(part, ast.Return)]
    if not returns or any(part.value is not None for part in returns) or returns == [body[-1]]:
        return body
    parted = _sequence(body, marked=False)
    if any(isinstance(part, _Returned) for stmt in parted for part in _walk(stmt)):
        flag = parser.builder.bind("returned", as_expr(False), mutable=True)
        parser.builder.first[flag.name] = as_expr(False)
        parser.env.define(FLAG, flag, "scalar")
    return parted


def _walk(stmt: ast.AST) -> list[ast.AST]:
    inner = [*ast.iter_child_nodes(stmt), *(stmt.body if isinstance(stmt, _Unless) else ())]
    return [stmt, *(part for child in inner for part in _walk(child))]


def _sequence(body: Sequence[ast.stmt], *, marked: bool) -> list[ast.stmt]:
    """Statements, each for the threads that have not returned before it. marked: must a return set the flag?"""
    for number, stmt in enumerate(body):
        if isinstance(stmt, ast.Return):
            return [*body[:number], *([ast.copy_location(_Returned(), stmt)] if marked else ())]
        if _returns(stmt):
            return [*body[:number], *_statement(stmt, body[number + 1 :], marked=marked)]
    return list(body)


def _statement(stmt: ast.stmt, rest: Sequence[ast.stmt], *, marked: bool) -> list[ast.stmt]:
    """A statement that may return, and then what follows it."""
    if isinstance(stmt, ast.If) and (_always(stmt.body) or _always(stmt.orelse)):
        return [_parted(stmt, *(_sequence([*arm, *rest], marked=marked) for arm in (stmt.body, stmt.orelse)))]
    if isinstance(stmt, ast.If):
        parted: ast.stmt = _parted(stmt, *(_sequence(arm, marked=True) for arm in (stmt.body, stmt.orelse)))
    elif isinstance(stmt, ast.While):
        test = ast.BoolOp(ast.And(), [ast.UnaryOp(ast.Not(), ast.Name(FLAG, ast.Load())), stmt.test])
        parted = ast.While(_placed(test, stmt.test), _sequence(stmt.body, marked=True), stmt.orelse)
    elif isinstance(stmt, ast.For):
        head = ast.copy_location(_Unless(_sequence(stmt.body, marked=True), is_head=True), stmt.body[0])
        parted = ast.For(stmt.target, stmt.iter, [head], stmt.orelse)
    else:
        assert isinstance(stmt, ast.With), "these have statements"
        parted = ast.With(stmt.items, _sequence(stmt.body, marked=True))
    tail = _Unless(_sequence(rest, marked=marked))
    return [ast.copy_location(parted, stmt), ast.copy_location(tail, rest[0] if rest else stmt)]


def _parted(stmt: ast.If, body: list[ast.stmt], orelse: list[ast.stmt]) -> ast.If:
    return ast.copy_location(ast.If(stmt.test, body or [ast.copy_location(ast.Pass(), stmt)], orelse), stmt)


def _placed(node: Placed, old: ast.AST) -> Placed:
    """A new node, and the new parts in it, where an old one is."""
    return ast.fix_missing_locations(ast.copy_location(node, old))


def _returns(stmt: ast.stmt) -> bool:
    inside = (ast.If, ast.For, ast.While, ast.With)
    return isinstance(stmt, inside) and any(isinstance(part, ast.Return) for part in ast.walk(stmt))


def _always(body: Sequence[ast.stmt]) -> bool:
    """Does every way through it return?"""
    return any(
        isinstance(stmt, ast.Return) or (isinstance(stmt, ast.If) and _always(stmt.body) and _always(stmt.orelse))
        for stmt in body
    )


@statement(_Returned)
def returned(parser: Parser, node: _Returned) -> None:
    """The flag is set; a loop of run time ends here."""
    assigned(parser, ast.copy_location(ast.Name(FLAG, ast.Store()), node), True)
    if parser.loops and parser.loops[-1][0] == "run":
        parser.builder.emit(Break(at=parser.builder.at))


@statement(_Unless)
def unless(parser: Parser, node: _Unless) -> None:
    """A branch on the flag; a loop of run time, which a return ends, is left instead."""
    in_loop = bool(parser.loops) and parser.loops[-1][0] == "run"
    if not (in_loop and node.is_head):
        has_returned = ast.Name(FLAG, ast.Load())
        if in_loop:
            parser.run([_placed(ast.If(has_returned, [ast.Break()], []), node)])
        elif node.body:
            parser.run([_placed(ast.If(ast.UnaryOp(ast.Not(), has_returned), node.body, []), node)])
            return
    parser.run(node.body)


# The decorators: ``@T.prim_func`` and ``@T.jit`` make kernels, ``@T.inline`` a function parsed at its calls.


def prim_func(
    function: FunctionType | None = None,
    *,
    check_well_formed: bool = True,
    private: bool = False,
    persistent: bool = False,
    stage: str = "tile",
) -> Kernel | Callable[[FunctionType], Kernel]:
    """A Python function, parsed at once into a `Kernel`, which takes its name.

    check_well_formed, private and persistent are accepted and change nothing. stage: "lowered" in printed scripts of
    that stage.
    """
    frame = sys._getframe(1).f_locals

    @at_the_edge
    def parse_it(function: FunctionType) -> Kernel:
        source = read(function)
        return parse(source, around(function, frame), {}, stage=stage)

    if function is None:
        return parse_it
    __tracebackhide__ = True
    try:
        return parse_it(function)
    except TilewrightError as error:
        raise shortened(error) from error.__cause__


@dataclass(frozen=True, slots=True)
class JitKernel:
    """A kernel with parameters of compile time: ``.specialize(N=64)`` gives the `Kernel` for a value of each."""

    source: Source
    outer: Outer
    defaults: Mapping[str, object]

    @property
    def __name__(self) -> str:
        return self.source.function.name

    @property
    def constants(self) -> tuple[str, ...]:
        """The names of the parameters of compile time."""
        return tuple(arg.arg for arg in self.source.function.args.kwonlyargs)

    @at_the_edge
    def specialize(self, **constants: object) -> Kernel:
        """The kernel for these values. Raises KernelError where one is missing or unknown."""
        values = {**self.defaults, **constants}
        unknown = [name for name in constants if name not in self.constants]
        missing = [name for name in self.constants if name not in values]
        if unknown or missing:
            wrong = f"has no constant {unknown[0]!r}" if unknown else f"lacks a value for {', '.join(missing)}"
            raise KernelError(
                f"{self.__name__}.specialize takes a value for each constant, and {wrong}",
                given=", ".join(f"{key}={described(value)}" for key, value in constants.items()) or "none",
                allowed=choices(unknown[0], self.constants) if unknown else ", ".join(self.constants),
                hint=f"{self.__name__}.specialize({', '.join(f'{name}=...' for name in missing)})" if missing else None,
                at=self.source.span(self.source.function),
            )
        return parse(self.source, self.outer, values)

    def __call__(self, *args: object, **kwargs: object) -> object:
        values = ", ".join(f"{name}=..." for name in self.constants)
        raise KernelError(f"{self.__name__} is not specialized", hint=f"{self.__name__}.specialize({values})")


def jit(
    function: FunctionType | None = None,
    *,
    check_well_formed: bool = True,
    private: bool = False,
    persistent: bool = False,
) -> JitKernel | Callable[[FunctionType], JitKernel]:
    """A kernel with keyword-only parameters of compile time, ``N: T.constexpr``; parsed by ``.specialize(N=64)``."""
    frame = dict(sys._getframe(1).f_locals)

    def keep(function: FunctionType) -> JitKernel:
        return JitKernel(read(function), around(function, frame), function.__kwdefaults__ or {})

    return keep if function is None else keep(function)


def parse(
    source: Source, outer: Outer, constants: Mapping[str, object], *, stage: str = "tile", exact: bool = False
) -> Kernel:
    """The kernel that a function's text means, with names from ``outer`` and values for its constants."""
    function = source.function
    parser = Parser(source, Environment(outer), stage=stage, exact=exact)
    builder = parser.builder
    with builder.active():
        try:
            _parameters(parser, function.args, constants)
            returned = parser.function(without_early_returns(parser, function.body))
        except TilewrightError as error:
            error.located(source.span(function))
            raise
        at = source.span(function)
        if returned is not None:
            raise KernelError(
                f"{function.name} returns a value", hint="a kernel writes its results to its parameters", at=at
            )
        kernel = builder.kernel(function.name, at)
    if not exact:
        _check_symbols(kernel)
    return kernel


def _check_symbols(kernel: Kernel) -> None:
    used = names_in(tuple((buffer.shape, strides_of(buffer)) for buffer in kernel.buffers))
    for symbol in kernel.symbols:
        if symbol.name not in used:
            raise KernelError(
                f"the symbolic extent {symbol.name} takes its value from no argument",
                allowed="an extent or a stride in a T.match_buffer or T.Buffer",
                hint=f"{symbol.name}: T.{symbol.dtype} = 0 makes a scalar",
                at=kernel.at,
            )


def _parameters(parser: Parser, args: ast.arguments, constants: Mapping[str, object]) -> None:
    named = [*args.posonlyargs, *args.args, *args.kwonlyargs]
    for extra in (args.vararg, args.kwarg):
        if extra is not None:
            raise KernelError(f"a kernel has no *{extra.arg}", allowed="named parameters", at=parser.source.span(extra))
    if args.defaults or (args.kw_defaults and not constants and any(args.kw_defaults)):
        raise KernelError("the parameters of a kernel have no defaults")
    parser.builder.reserve(arg.arg for arg in named)
    for arg in sorted(named, key=lambda arg: arg.arg not in constants):  # extents may be constants
        _located_parameter(parser, arg, constants)


def _located_parameter(parser: Parser, arg: ast.arg, constants: Mapping[str, object]) -> None:
    try:
        _parameter(parser, arg, constants)
    except TilewrightError as error:
        error.located(parser.source.span(arg))
        raise


def _parameter(parser: Parser, arg: ast.arg, constants: Mapping[str, object]) -> None:
    builder, env, name = parser.builder, parser.env, arg.arg
    kind = None if arg.annotation is None else parser.eval(arg.annotation)
    if name in constants and kind == constexpr:
        env.define(name, constants[name], "python")
    elif isinstance(kind, TypeName):
        var = Var(name, dtype(str(kind)))
        builder.params.append(var)
        env.define(name, var, "parameter")
    elif isinstance(kind, BufferType):
        pointer = Var(builder.unique(f"{name}_ptr"), HANDLE)
        builder.params.append(pointer)
        check_argument(name, kind.scope)
        layout = strided(name, kind.shape, kind.strides, kind.layout)
        buffer = new_buffer(builder, name, kind.shape, kind.dtype, kind.scope, layout, data=pointer, align=kind.align)
        env.define(name, bind_parameter(builder, pointer, buffer), "buffer")
    elif isinstance(kind, SymmetricType):
        env.define(name, bind_symmetric(builder, name, kind), "buffer")
    elif isinstance(kind, MapType):
        pointer = Var(name, HANDLE)
        builder.params.append(pointer)
        env.define(name, bind_map(builder, pointer, MapOf(name)), "buffer")
    else:
        text = ast.unparse(arg)
        hint = "@T.jit with keyword-only constants" if isinstance(kind, Marker) else None
        allowed = 'T.handle, T.Buffer(shape, "float16"), T.SymmetricBuffer, T.TensorMap, a scalar such as T.float32'
        raise KernelError(f"parameter {name} needs a type", given=text, allowed=allowed, hint=hint)


class Inline:
    """A function that is parsed into the kernel at each call, with its parameters bound to the values of the call."""

    def __init__(self, source: Source, env: Environment, signature: inspect.Signature) -> None:
        self._source, self._env, self._signature = source, env, signature
        self.__name__ = source.function.name

    @classmethod
    def inside(cls, parser: Parser, node: ast.FunctionDef) -> Inline:
        """An inline function that is defined in a kernel and sees the kernel's names."""
        defaults = [parser.eval(value) for value in node.args.defaults]
        source = Source(parser.source.file, parser.source.offset, node)
        return cls(source, parser.env, _signature(node.args, defaults))

    @property
    def stored_attributes(self) -> set[str]:
        """The attributes that its text assigns."""
        nodes = (node for node in ast.walk(self._source.function) if isinstance(node, ast.Attribute))
        return {node.attr for node in nodes if isinstance(node.ctx, ast.Store)}

    def __get__(self, instance: object, owner: type) -> object:
        return self if instance is None else MethodType(self, instance)

    def __call__(self, *args: object, **kwargs: object) -> object:
        """Parse the function here; its result is what it returns."""
        builder = current(f"a call of {self.__name__}")
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as error:
            passed = f"{len(args)} positional, {', '.join(kwargs) or 'no'} keywords"
            raise KernelError(
                f"{self.__name__}: {error}", given=passed, allowed=f"{self.__name__}{self._signature}"
            ) from None
        bound.apply_defaults()
        parser = builder.parser
        values = {name: _once(parser, name, value) for name, value in bound.arguments.items()}
        env = Environment(self._env.outer, [*self._env.frames, {}])
        with parser.inside(self._source, env):
            changed = _changed_in_blocks(self._source.function)
            for name, value in values.items():
                if name in changed and is_scalar(value):
                    define_scalar(parser, name, as_expr(value))  # type: ignore[arg-type]  # is_scalar says so
                else:
                    env.define(name, value, "parameter")
            return parser.function(without_early_returns(parser, self._source.function.body))


@cache
def _changed_in_blocks(function: ast.FunctionDef) -> frozenset[str]:
    """The names that a function assigns to under control flow: a parameter of that kind is a scalar from the start."""
    blocks = (part for part in ast.walk(function) if isinstance(part, (ast.If, ast.For, ast.While, ast.With)))
    inside = (
        part for block in blocks for line in (*block.body, *getattr(block, "orelse", ())) for part in ast.walk(line)
    )
    return frozenset(part.id for part in inside if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store))


def _once(parser: Parser, name: str, value: object) -> object:
    """The value of a parameter; one that calls an instruction is computed once, before the call."""
    if not isinstance(value, Expr) or not any(isinstance(part, Call) for part in walk(value)):
        parser.builder.moments.name(value, name)
        return value
    return parser.builder.bind(name, value)


def _signature(args: ast.arguments, defaults: list[object]) -> inspect.Signature:
    """The signature of a function that Python has not made."""
    kinds = inspect.Parameter
    names = [*args.posonlyargs, *args.args]
    values = [inspect.Parameter.empty] * (len(names) - len(defaults)) + defaults
    return inspect.Signature(
        [
            *(
                kinds(arg.arg, kinds.POSITIONAL_OR_KEYWORD, default=value)
                for arg, value in zip(names, values, strict=True)
            ),
            *([kinds(args.vararg.arg, kinds.VAR_POSITIONAL)] if args.vararg else []),
            *(kinds(arg.arg, kinds.KEYWORD_ONLY) for arg in args.kwonlyargs),
            *([kinds(args.kwarg.arg, kinds.VAR_KEYWORD)] if args.kwarg else []),
        ]
    )


def inline(function: FunctionType) -> Inline:
    """A function that is parsed into the kernel at each call: its loops, branches and stores run on the device."""
    frame = dict(sys._getframe(1).f_locals)
    return Inline(read(function), Environment(around(function, frame), []), inspect.signature(function))


export(DECORATORS, prim_func, jit, inline)
