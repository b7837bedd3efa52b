"""Calls: what a kernel calls runs in Python while the kernel is parsed, be it ``T`` or the user's own code."""

from __future__ import annotations

import ast
import builtins
import inspect
from collections.abc import Callable, Sequence
from types import BuiltinFunctionType

from tilewright.errors import KernelError, choices
from tilewright.ir import Buffer, Expr, Load, Tiled
from tilewright.lang.loops import run_time_range
from tilewright.lang.parser import Parser
from tilewright.lang.settings import evaluate
from tilewright.lang.tile_functions import EXPORTS as TILE_FUNCTIONS
from tilewright.lang.values import absolute

_WITH_EXPRESSIONS: dict[int, object] = {  # Python's builtins that have a meaning at run time too
    id(builtins.range): run_time_range,
    id(builtins.min): TILE_FUNCTIONS["min"],
    id(builtins.max): TILE_FUNCTIONS["max"],
    id(builtins.abs): absolute,
}


def call(parser: Parser, node: ast.Call) -> object:
    """The result of a call. A view without a name that comes out of it is declared before the statement."""
    builder = parser.builder
    hints, builder.hints = builder.hints, ()
    function = parser.eval(node.func)
    evaluates = getattr(function, "__wrapped__", None) is evaluate  # it takes a call without a value
    args = elements(parser, node.args, may_be_void=evaluates)
    kwargs: dict[str, object] = {}
    for keyword in node.keywords:
        value = parser.eval(keyword.value)
        kwargs.update({keyword.arg: value} if keyword.arg else value)  # type: ignore[call-overload]
    builder.hints = hints
    if id(function) in _WITH_EXPRESSIONS and any(isinstance(value, (Expr, Tiled)) for value in args):
        function = _WITH_EXPRESSIONS[id(function)]
    result = _called(parser, function, args, kwargs)
    if isinstance(result, Buffer):
        result = builder.declared(result)
    elif isinstance(result, Load) and builder.known.get(result.buffer.name) is not result.buffer:
        builder.foreign = True  # an element of a view that a method has made
    builder.hints = ()
    return result


def elements(parser: Parser, nodes: Sequence[ast.expr], *, may_be_void: bool = False) -> list[object]:
    """The values of a display or of positional arguments, starred ones spread out."""
    values: list[object] = []
    for node in nodes:
        if isinstance(node, ast.Starred):
            values += parser.eval(node.value)  # type: ignore[arg-type]  # Python's own error is the right one
        else:
            values.append(parser.eval(node, may_be_void=may_be_void))
    return values


def _called(parser: Parser, function: object, args: list[object], kwargs: dict[str, object]) -> object:
    """Call a function of this project, or the user's own."""
    if _is_ours(function):
        return _checked(function, args, kwargs)  # type: ignore[arg-type]  # Python's own error is the right one
    parser.builder.foreign = True  # its values may hold views that are not declared
    return function(*args, **kwargs)  # type: ignore[operator]  # Python's own error is the right one


def _checked(function: Callable[..., object], args: list[object], kwargs: dict[str, object]) -> object:
    """Call a function of this project. Raises KernelError with its parameters where the arguments do not fit."""
    try:
        return function(*args, **kwargs)
    except TypeError:
        _check_arguments(function, args, kwargs)
        raise


def _check_arguments(function: Callable[..., object], args: list[object], kwargs: dict[str, object]) -> None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # a builtin, or no function at all
        return
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        unknown = next((name for name in kwargs if name not in signature.parameters), "")
        raise KernelError(
            f"{getattr(function, '__name__', function)}: {error}",
            given=unknown or f"{len(args)} positional, {', '.join(kwargs) or 'no'} keywords",
            allowed=choices(unknown, signature.parameters),
        ) from None


def _is_ours(function: object) -> bool:
    if isinstance(function, (type, BuiltinFunctionType)) and getattr(function, "__module__", "") == "builtins":
        return True
    home = getattr(function, "__module__", None) or type(function).__module__
    return home == "tilewright" or home.startswith("tilewright.")
