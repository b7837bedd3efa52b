"""Expressions of a kernel, evaluated while it is parsed: calls, elements of buffers, what each kind of Python
expression means, and choices.

Values that Python knows stay Python values and follow Python's rules; with an IR expression among the operands the
result is an IR expression.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from math import inf
from types import BuiltinFunctionType

import numpy as np

from tilewright import ir
from tilewright.dtypes import BOOL
from tilewright.errors import KernelError, TilewrightError, choices
from tilewright.ir.operators import OPERATORS, SYMBOLS
from tilewright.lang.builder import KernelBuilder
from tilewright.lang.instructions import formula_for, hint_for, hint_for_attribute
from tilewright.lang.moments import OpenBlock
from tilewright.lang.parser import Parser, computed, expression
from tilewright.lang.scopes import evaluate, run_time_range
from tilewright.lang.tile_assignments import hold
from tilewright.lang.values import REDUCTION_FUNCTIONS, MetaValue, absolute

# Calls: what a kernel calls runs in Python while the kernel is parsed, be it ``T`` or the user's own code.


_WITH_EXPRESSIONS: dict[int, object] = {  # Python's builtins that have a meaning at run time too
    id(builtins.range): run_time_range,
    id(builtins.min): REDUCTION_FUNCTIONS["min"],
    id(builtins.max): REDUCTION_FUNCTIONS["max"],
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
    if id(function) in _WITH_EXPRESSIONS and any(isinstance(value, (ir.Expr, ir.Tiled)) for value in args):
        function = _WITH_EXPRESSIONS[id(function)]
    if not _is_ours(function, "tilewright.lang"):  # what it makes on its way is not its result
        builder.hints, builder.awaited = (), hints
    result = _called(parser, function, args, kwargs)
    builder.hints, builder.awaited = hints, ()
    if isinstance(result, ir.Buffer):
        result = builder.declared(result)
    elif isinstance(result, ir.Load) and builder.known.get(result.buffer.name) is not result.buffer:
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
        params = signature.parameters.values()
        names = [param.name + "=" * (param.kind is param.KEYWORD_ONLY) for param in params]
        raise KernelError(
            f"{getattr(function, '__name__', function)}: {error}",
            given=unknown or f"{len(args)} positional, {', '.join(kwargs) or 'no'} keywords",
            allowed=choices(unknown, names),
        ) from None


def _is_ours(function: object, room: str = "tilewright") -> bool:
    if isinstance(function, (type, BuiltinFunctionType)) and getattr(function, "__module__", "") == "builtins":
        return True
    home = getattr(function, "__module__", None) or type(function).__module__
    return home == room or home.startswith(f"{room}.")


# ``buf[i, a:b]`` in the text of a kernel: an element or a region, with what is known about the index checked.


def element(builder: KernelBuilder, buffer: ir.Buffer, index: object) -> ir.Load | ir.Region:
    """``buffer[index]``: an element or a region, with what is known about the index checked."""
    indices = index if isinstance(index, tuple) else (index,)
    if listed := next((part for part in indices if isinstance(part, (tuple, list))), None):
        shown = ", ".join(map(str, listed))
        raise KernelError(
            f"an index of {buffer.name} is one value", given=shown, hint="one of them, by its number: t[0]"
        )
    place = buffer[indices]
    if isinstance(place, ir.Region) and place.buffer is not buffer:  # of a view, that None and steps make
        place = replace(place, buffer=builder.declared(place.buffer))
    places = [part for part in ir.whole_indices(indices, len(buffer.shape)) if part is not None]
    for dim, (part, extent) in enumerate(zip(places, buffer.shape, strict=False)):  # the rest is whole
        for value, past in _bounds(part):
            _check_index(buffer, dim, value, extent, past=past)
    return place


def _bounds(part: object) -> Iterator[tuple[object, float]]:
    """The numbers of an index; with each, how far past the end it may be: a region may end anywhere, as a tile call
    may leave out what is outside.
    """
    if isinstance(part, slice):
        before = _number(part.start) < 0 < _number(part.stop)  # the call says whether its region may begin there
        ends = ((part.stop, inf),) if before else ((part.start, 1), (part.stop, inf))
        yield from ((value, past) for value, past in ends if value is not None)
    else:
        yield part, 0


def _number(value: object) -> float:
    """The number that Python knows, 0 where there is none."""
    number = ir.const_value(value)
    return number if isinstance(number, (int, float)) else 0


def _check_index(buffer: ir.Buffer, dim: int, value: object, extent: object, *, past: float) -> None:
    if isinstance(value, ir.Expr) and not value.dtype.is_integer:
        raise KernelError(f"an index of {buffer.name} is an integer", given=f"`{value}` of {value.dtype}")
    number = value.value if isinstance(value, ir.Const) else value
    if isinstance(number, ir.Expr) or not isinstance(extent, int):
        return
    if not hasattr(number, "__index__") or isinstance(number, bool):
        raise KernelError(f"an index of {buffer.name} is an integer", given=f"{value!r}")
    if not 0 <= (place := operator.index(number)) < extent + past:
        shape = ", ".join(map(str, buffer.shape))
        raise KernelError(
            f"index {number} is outside {buffer.name}",
            given=f"{number} in dimension {dim} of ({shape})",
            allowed=f"0 to {extent if past else extent - 1}",
            hint=f"{extent + place}, which counts from the end" if -extent <= place < 0 else None,
        )


# What each kind of Python expression means in a kernel.


_UNARY: dict[type[ast.unaryop], tuple[str, Callable[..., object]]] = {
    ast.USub: ("-", operator.neg),
    ast.Invert: ("~", operator.invert),
    ast.Not: ("not", operator.not_),
    ast.UAdd: ("+", operator.pos),
}
_IDENTITY: dict[type[ast.cmpop], Callable[..., object]] = {ast.Is: operator.is_, ast.IsNot: operator.is_not}

_CONVERSIONS: dict[str, Callable[[object], str]] = {"r": repr, "s": str, "a": ascii}

_BUFFER_ATTRIBUTES: dict[str, Callable[[ir.Buffer], object]] = {
    "data": lambda buffer: buffer.pointer,
    "allocated_addr": lambda buffer: () if buffer.allocated_addr is None else (buffer.allocated_addr,),
}


def known_truth(parser: Parser, value: object) -> bool | None:
    """The truth of a condition that Python knows, None where run time decides (always, in a printed script)."""
    if isinstance(value, ir.Const):
        return None if parser.builder.exact else bool(value.value)
    if isinstance(value, ir.Expr) or (parser.builder.exact and isinstance(value, bool)):
        return None
    try:
        return bool(value)
    except TilewrightError:
        raise
    except Exception as error:  # an array of several elements, or an object of the user's own
        raise KernelError(
            "this value is neither true nor false", given=f"{type(value).__name__}: {error}", allowed="one condition"
        ) from error


@expression(ast.Constant)
def constant(parser: Parser, node: ast.Constant) -> object:
    return node.value


@expression(ast.Name)
def name(parser: Parser, node: ast.Name) -> object:
    """The value of a name; a scalar that changes is read at this point."""
    entry = parser.env.find(node.id)
    if entry is not None and entry.kind in ("scalar", "place"):
        return parser.builder.read(replace(entry.value))  # type: ignore[type-var, arg-type]  # a Var or a Load
    return parser.env.lookup(node.id)


@expression(ast.Attribute)
def attribute(parser: Parser, node: ast.Attribute) -> object:
    try:
        value = parser.eval(node.value)
    except KernelError as error:  # perhaps a name of another language: tl.load
        error.hint = error.hint or hint_for(ast.unparse(node))
        raise
    if isinstance(value, ir.Buffer) and node.attr in _BUFFER_ATTRIBUTES:
        return _BUFFER_ATTRIBUTES[node.attr](value)
    try:
        return getattr(value, node.attr)
    except TilewrightError:
        raise
    except AttributeError:
        pass
    if isinstance(value, ir.Load):  # an element, or a scalar that lives in memory
        return getattr(value.buffer, node.attr) if node.attr in ("ptr_to", "scope") else _no_attribute(value, node)
    return _no_attribute(value, node)


def _no_attribute(value: object, node: ast.Attribute) -> object:
    names = [name for name in dir(value) if not name.startswith("_")]
    text = ast.unparse(node.value)
    hint = formula_for(node.attr, text) if isinstance(value, ir.Expr) else None
    if isinstance(value, ir.Buffer | ir.Region):
        hint = hint_for_attribute(node.attr, (value.buffer if isinstance(value, ir.Region) else value).name)
    raise KernelError(f"`{text}` has no {node.attr!r}", given=type(value).__name__,
                      allowed=None if hint else choices(node.attr, names) or None, hint=hint)  # fmt: skip


@expression(ast.Call)
def called(parser: Parser, node: ast.Call) -> object:
    value = call(parser, node)
    return value.value if isinstance(value, MetaValue) and parser.keeps_meta is not node else value


@expression(ast.BinOp)
def arithmetic(parser: Parser, node: ast.BinOp) -> object:
    """The operands from left to right; a long sum, nested to the left, takes no level of Python's for each term."""
    chain = [node]
    while isinstance(chain[-1].left, ast.BinOp):
        chain.append(chain[-1].left)
    value = parser.eval(chain[-1].left)
    for step in reversed(chain):
        right = parser.eval(step.right)
        ids = isinstance(value, tuple) and len(value) > 1 and all(isinstance(part, ir.Var) for part in value)
        if ids and (error := several(ast.unparse(step), value, right)):  # Python would repeat the tuple
            raise error.located(parser.source.span(step))
        try:
            value = computed(step.op, value, right)
        except TilewrightError as error:
            raise error.located(parser.source.span(step)) from None
        except Exception as fault:  # an operator that the values lack
            raise several(ast.unparse(step), value, right) or parser.failed(step, fault) from fault
    return value


def several(text: str, *values: object) -> KernelError | None:
    """The error for several values of run time where one is meant, as of ``t = T.thread_id([32, 8])``."""
    group = next((v for v in values if isinstance(v, (tuple, list)) and any(isinstance(p, ir.Expr) for p in v)), None)
    if group is None or all(isinstance(value, (tuple, list)) for value in values):
        return None
    return KernelError(
        f"`{text}` is about one value, and this is a {type(group).__name__} of {len(group)}",
        given=", ".join(map(str, group)),
        allowed="one of them",
        hint=f"a name for each: {', '.join('xyzw'[: len(group)])} = ... where they are made; or one of them, t[0]",
    )


@expression(ast.UnaryOp)
def negation(parser: Parser, node: ast.UnaryOp) -> object:
    symbol, python = _UNARY[type(node.op)]
    value = parser.eval(node.operand)
    if isinstance(value, ir.Tiled) and symbol == "not":
        raise KernelError(f"tiles have no operator {symbol}", given=ast.unparse(node), hint="~x of bools; x == 0")
    if not isinstance(value, ir.Expr):
        return python(value)
    return value if symbol == "+" else ir.unary(symbol, value)


def compared(op: ast.cmpop, left: object, right: object) -> object:
    """One comparison of two values."""
    if isinstance(op, (ast.In, ast.NotIn)):
        return _member(left, right, inside=isinstance(op, ast.In))
    if type(op) in _IDENTITY:
        return _IDENTITY[type(op)](left, right)
    symbol, values = SYMBOLS[type(op)], (left, right)
    if None not in values and (error := several(f"a {symbol} b", *values)):
        raise error
    if any(isinstance(value, ir.Tiled) for value in values) and None not in values:
        return ir.Computed.of(symbol, left, right)
    if any(isinstance(v, ir.Expr) for v in values) and all(isinstance(v, (ir.Expr, int, float)) for v in values):
        return ir.binary(symbol, left, right)  # type: ignore[arg-type]
    return OPERATORS[symbol].number(left, right)


def _member(item: object, values: object, *, inside: bool) -> object:
    """``item in values``: with an expression as the item, the run-time question whether it equals any of them."""
    if not isinstance(item, ir.Expr) or not isinstance(values, (tuple, list)):
        return (item in values) is inside  # type: ignore[operator]  # Python's own error is the right one
    equal: ir.Expr | bool = False
    for value in values:
        equal = ir.binary("or", equal, item == value)
    return equal if inside else ir.unary("not", equal)


@expression(ast.Subscript)
def subscript(parser: Parser, node: ast.Subscript) -> object:
    value, index = parser.eval(node.value), parser.eval(node.slice)
    if isinstance(value, (ir.Computed, ir.Reduced)):
        value = hold(value).buffer
    if isinstance(value, ir.Buffer):
        return element(parser.builder, value, index)
    if isinstance(value, ir.Region):
        return value.part(index, partial(element, parser.builder, value.buffer))
    if isinstance(value, ir.Expr) and value.dtype.lanes > 1:
        return ir.component(value, index)
    if isinstance(value, ir.Load):
        if index in (0, (0,)):  # a scalar that lives in memory is an array of one
            return value
        raise KernelError(f"`{value}` is an element, it has no index", given=f"[{ast.unparse(node.slice)}]")
    if isinstance(value, (tuple, list)) and isinstance(index, ir.Expr):
        raise _picked_at_run_time(node, value, index)
    return value[index]  # type: ignore[index]  # Python's own error is the right one


def _picked_at_run_time(node: ast.Subscript, values: Sequence[object], index: ir.Expr) -> KernelError:
    """The error for ``acc[j]`` of a Python list: a loop of run time cannot pick Python values."""
    name, kind = ast.unparse(node.value), type(values).__name__
    return KernelError(
        f"`{ast.unparse(node)}` picks from a Python {kind}, while the kernel is parsed",
        given=f"`{index}`, known at run time only",
        allowed=f"a number, as in a loop over Python values: for j in {tuple(range(min(len(values), 4)))}",
        hint=registers_instead(name, values),
    )


def registers_instead(name: str, values: Sequence[object]) -> str:
    """What to write for a list of numbers that is to be picked from, or to change, at run time."""
    first = values[0] if values else 0.0
    kind = first.dtype if isinstance(first, ir.Expr) else "float32" if isinstance(first, float) else "int32"
    return f'{name} = T.alloc_local(({len(values)},), "{kind}"), and {name}[i] = ... for its first values'


@expression(ast.Slice)
def slices(parser: Parser, node: ast.Slice) -> slice:
    parts = (node.lower, node.upper, node.step)
    return slice(*(None if part is None else parser.eval(part) for part in parts))


@expression(ast.Tuple)
def tuples(parser: Parser, node: ast.Tuple) -> tuple[object, ...]:
    return tuple(elements(parser, node.elts))


@expression(ast.List)
def lists(parser: Parser, node: ast.List) -> list[object]:
    return elements(parser, node.elts)


@expression(ast.Set)
def sets(parser: Parser, node: ast.Set) -> set[object]:
    return set(elements(parser, node.elts))


@expression(ast.Dict)
def dicts(parser: Parser, node: ast.Dict) -> dict[object, object]:
    entries: dict[object, object] = {}
    for key, value in zip(node.keys, node.values, strict=True):
        if key is None:
            entries.update(parser.eval(value))  # type: ignore[call-overload]  # Python's own error is the right one
        else:
            entries[parser.eval(key)] = parser.eval(value)
    return entries


@expression(ast.JoinedStr)
def text(parser: Parser, node: ast.JoinedStr) -> str:
    return "".join(str(parser.eval(part)) for part in node.values)


@expression(ast.FormattedValue)
def formatted(parser: Parser, node: ast.FormattedValue) -> str:
    value = parser.eval(node.value)
    if node.conversion != -1:
        value = _CONVERSIONS[chr(node.conversion)](value)
    return format(value, str(parser.eval(node.format_spec)) if node.format_spec else "")


@expression(ast.ListComp)
def comprehension(parser: Parser, node: ast.ListComp | ast.GeneratorExp) -> list[object]:
    """A comprehension. Buffers and ids that its calls define take the names that the list is assigned to, in order; the
    last name serves for the rest.
    """
    builder, values = parser.builder, list[object]()
    hints, builder.hints = builder.hints if isinstance(node.elt, ast.Call) else (), ()
    for number, _ in enumerate(_rounds(parser, node.generators)):
        builder.hints = hints[number : number + 1] or hints[-1:]
        values.append(parser.eval(node.elt))
    builder.hints = ()
    return values


@expression(ast.GeneratorExp)
def generator(parser: Parser, node: ast.GeneratorExp) -> Iterator[object]:
    return iter(comprehension(parser, node))


@expression(ast.SetComp)
def set_comprehension(parser: Parser, node: ast.SetComp) -> set[object]:
    return {parser.eval(node.elt) for _ in _rounds(parser, node.generators)}


@expression(ast.DictComp)
def dict_comprehension(parser: Parser, node: ast.DictComp) -> dict[object, object]:
    return {parser.eval(node.key): parser.eval(node.value) for _ in _rounds(parser, node.generators)}


def _rounds(parser: Parser, generators: Sequence[ast.comprehension]) -> Iterator[None]:
    """One round per element of a comprehension over Python values, its names defined in a frame of their own."""
    if not generators:
        yield
        return
    first, *rest = generators
    values = parser.eval(first.iter)
    for value in values:  # type: ignore[attr-defined]  # Python's own error is the right one
        with parser.frame(first.target):
            parser.step()
            define(parser, first.target, value)
            if all(_is_true(parser, test) for test in first.ifs):
                yield from _rounds(parser, rest)


def _is_true(parser: Parser, test: ast.expr) -> bool:
    truth = known_truth(parser, parser.eval(test))
    if truth is None:
        raise KernelError(
            "a comprehension chooses while the kernel is parsed",
            given=f"`{ast.unparse(test)}`, known at run time only",
            allowed="a condition on Python values",
            at=parser.source.span(test),
        )
    return truth


def define(parser: Parser, target: ast.expr, value: object) -> None:
    """Names of a comprehension or of a loop over Python values: always the value itself."""
    if isinstance(target, ast.Name):
        parser.env.define(target.id, value, "python")
        return
    if not isinstance(target, (ast.Tuple, ast.List)):
        raise KernelError(
            "a loop over Python values defines names", given=ast.unparse(target), at=parser.source.span(target)
        )
    for part, item in zip(target.elts, value, strict=True):  # type: ignore[call-overload]
        define(parser, part, item)


@expression(ast.Lambda)
def function(parser: Parser, node: ast.Lambda) -> Callable[..., object]:
    """A Python function of positional parameters, evaluated here when it is called."""
    names = [arg.arg for arg in node.args.args]
    source, env = parser.source, parser.env

    def call_lambda(*values: object) -> object:
        if len(values) != len(names):
            raise KernelError(
                "a lambda is called with too few or too many values", given=len(values), allowed=len(names)
            )
        with parser.inside(source, env), parser.frame(node):
            for key, value in zip(names, values, strict=True):
                env.define(key, value, "python")
            return parser.eval(node.body)

    call_lambda.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # what `inspect` looks for
        [inspect.Parameter(key, inspect.Parameter.POSITIONAL_ONLY) for key in names]
    )
    return call_lambda


# Choices: ``a if c else b``, ``and``, ``or`` and chains of comparisons, which may leave a part unevaluated.
#
# A part that needs statements gets a branch of its own; one that is an expression stays one.


@expression(ast.IfExp)
def conditional(parser: Parser, node: ast.IfExp) -> object:
    cond = condition(parser, node.test)
    truth = known_truth(parser, cond)
    if truth is not None:
        return parser.eval(node.body if truth else node.orelse)
    then, orelse = (_aside(parser, partial(parser.eval, part)) for part in (node.body, node.orelse))
    return _chosen(parser, cond, then, orelse)


@expression(ast.BoolOp)
def logic(parser: Parser, node: ast.BoolOp) -> object:
    """``and`` and ``or`` as values: the first operand that decides, else the last one."""
    return _logic(parser, node, parser.eval)


def condition(parser: Parser, node: ast.expr) -> object:
    """An expression whose truth alone is used: ``and`` and ``or`` of numbers are run-time logic here."""
    if not isinstance(node, ast.BoolOp):
        return parser.eval(node)

    def truth(part: ast.expr) -> object:
        value = condition(parser, part)
        return ir.cast(value, BOOL) if isinstance(value, ir.Expr) else value

    return _logic(parser, node, truth)


def _logic(parser: Parser, node: ast.BoolOp, value_of: Callable[[ast.expr], object]) -> object:
    goes_on = isinstance(node.op, ast.And)
    result = value_of(node.values[0])
    for part in node.values[1:]:
        truth = known_truth(parser, result)
        if truth is None:
            right, block = _aside(parser, partial(value_of, part))
            result = _joined(parser, "and" if goes_on else "or", result, right, block)
        elif truth == goes_on:
            result = value_of(part)
    return result


def _joined(parser: Parser, symbol: str, left: object, right: object, block: OpenBlock) -> object:
    """``left and right``: logic where both are conditions, else the operand that Python would give."""
    both = all(isinstance(v, (bool, np.bool_)) or (isinstance(v, ir.Expr) and v.dtype == BOOL) for v in (left, right))
    if both and not block and not block.has_bindings:
        condition = ir.binary(symbol, left, right)  # type: ignore[arg-type]  # both are conditions
        parser.builder.chose(condition, block)
        return condition
    nothing = OpenBlock()
    sides = ((right, block), (left, nothing)) if symbol == "and" else ((left, nothing), (right, block))
    return _chosen(parser, left, *sides)


def _aside(parser: Parser, make: Callable[[], object]) -> tuple[object, OpenBlock]:
    """A value that may not be evaluated, with the statements that it takes."""
    builder = parser.builder
    with builder.aside() as block:
        value = make()
        if isinstance(value, ir.Expr):
            value = builder.tried(value)
    return value, block


def _chosen(parser: Parser, cond: object, then: tuple[object, OpenBlock], orelse: tuple[object, OpenBlock]) -> object:
    """``then if cond else orelse``: an expression where that is enough, else a branch that sets a scalar."""
    builder, (a, before_a), (b, before_b) = parser.builder, then, orelse
    choice = ir.select(cond, a, b)  # type: ignore[arg-type]  # select refuses what is no value
    if not any(block or block.has_bindings for block in (before_a, before_b)):
        for block in (before_a, before_b):
            builder.chose(choice, block)
        return choice
    at, test = builder.at, builder.settled(ir.cast(cond, BOOL))  # type: ignore[arg-type]
    var = builder.bind("chosen", ir.cast(0, choice.dtype), mutable=True)
    yes, no = ((*block, ir.Assign(var, ir.cast(value, choice.dtype), at=at)) for value, block in (then, orelse))  # type: ignore[arg-type]
    builder.emit(ir.If(test, yes, no, at=at))
    return var


@expression(ast.Compare)
def comparison(parser: Parser, node: ast.Compare) -> object:
    """Comparisons; a chain ``a < b < c`` is ``a < b and b < c``, of tiles ``(a < b) & (b < c)``."""
    left = parser.eval(node.left)
    right = parser.eval(node.comparators[0])
    result = compared(node.ops[0], left, right)
    for op, part in zip(node.ops[1:], node.comparators[1:], strict=True):
        left = right
        if not isinstance(result, ir.Expr):
            right = parser.eval(part)
            if isinstance(result, ir.Computed):
                result = ir.Computed.of("&", result, compared(op, left, right))
            else:
                result = result and compared(op, left, right)
            continue
        right, block = _aside(parser, partial(parser.eval, part))
        result = _joined(parser, "and", result, compared(op, left, right), block)
    return result
