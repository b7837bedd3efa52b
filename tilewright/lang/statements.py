"""Statements: control flow of run time and of parse time, calls, and what is defined inside a kernel."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack

from tilewright import ir
from tilewright.dtypes import BOOL
from tilewright.errors import KernelError
from tilewright.ir import Expr, If, Value, Var, as_expr, cast, common_dtype, const_value, unary
from tilewright.ir.verify import MOST_UNROLLED
from tilewright.lang.assignments import assigned
from tilewright.lang.builder import current
from tilewright.lang.expressions import condition, define, known_truth
from tilewright.lang.functions import Inline, inline
from tilewright.lang.moments import OpenBlock
from tilewright.lang.parser import LoopSignal, Parser, Return, statement
from tilewright.lang.public import export
from tilewright.lang.scopes import Binding, LoopRange, loops_of

# ``with``: a context manager of Python's around statements of the kernel, and ``T.If``, which makes branches of them.
#
# Helpers that Python runs while a kernel is parsed have no ``if`` of run time: ``with T.If(c): with T.Then(): ...`` is.


class OpenBranch:
    """``with T.If(cond):`` around ``T.Then`` and ``T.Else``; mutable while it is open."""

    def __init__(self, cond: Value) -> None:
        self._builder = current("T.If")
        self._at = self._builder.at
        self._cond = self._builder.settled(cast(cond, BOOL))
        self._stack = ExitStack()
        self.arms: dict[str, OpenBlock] = {}

    def __enter__(self) -> None:
        self._between = self._stack.enter_context(self._builder.aside())
        self._builder.branches.append(self)

    def __exit__(self, *error: object) -> None:
        self._builder.branches.pop()
        self._stack.close()
        if error[0] is not None:
            return
        if self._between or not self.arms:
            raise KernelError(
                "T.If holds T.Then and T.Else, nothing else",
                given="no T.Then" if not self.arms else "a statement outside of both",
                allowed="with T.If(cond): with T.Then(): ...",
                at=self._at,
            )
        then, orelse = (tuple(self.arms.get(word, ())) for word in ("Then", "Else"))
        self._builder.emit(If(self._cond, then, orelse, at=self._at))


class Arm:
    """``with T.Then():`` or ``with T.Else():``: what one side of a branch does; mutable while it is open."""

    def __init__(self, word: str) -> None:
        self._builder = current(f"T.{word}")
        around = self._builder.branches[-1] if self._builder.branches else None
        if not isinstance(around, OpenBranch) or word in around.arms:
            place = f"a second T.{word}" if isinstance(around, OpenBranch) else f"T.{word} outside"
            raise KernelError(f"T.{word} stands directly in a T.If, once", given=place, allowed="with T.If(cond): ...")
        self._word, self._branch, self._stack = word, around, ExitStack()

    def __enter__(self) -> None:
        self._stack.enter_context(self._builder.parser.frame(ast.Pass()))
        self._branch.arms[self._word] = self._stack.enter_context(self._builder.block())
        self._builder.branches.append(None)

    def __exit__(self, *error: object) -> None:
        self._builder.branches.pop()
        self._stack.close()


def then() -> Arm:
    """What happens where the condition of the ``T.If`` around it holds."""
    return Arm("Then")


def otherwise() -> Arm:
    """What happens where the condition of the ``T.If`` around it does not hold."""
    return Arm("Else")


@statement(ast.With)
def with_block(parser: Parser, node: ast.With) -> None:
    """Python's context managers around statements; a scope id of ``T.launch_thread`` is bound by ``as``."""
    with ExitStack() as stack:
        for item in node.items:
            if isinstance(item.optional_vars, ast.Name):
                parser.builder.hints = (item.optional_vars.id,)
            value = parser.eval(item.context_expr)
            parser.builder.hints = ()
            if isinstance(value, AbstractContextManager):
                value = stack.enter_context(value)
            elif not isinstance(value, Var) or value.name not in parser.builder.fresh:
                raise KernelError(
                    f"`{ast.unparse(item.context_expr)}` is no context manager",
                    given=f"`{value}`" if isinstance(value, Expr) else type(value).__name__,
                    allowed="T.If(cond), T.Then(), T.Else(), T.hint(...), T.launch_thread(...), or one of Python's",
                    at=parser.source.span(item.context_expr),
                )
            if item.optional_vars is not None:
                assigned(parser, item.optional_vars, value)
        parser.run(node.body)


@statement(ast.Expr)
def expression_statement(parser: Parser, node: ast.Expr) -> None:
    value = parser.eval(node.value, may_be_void=True)
    if isinstance(value, ir.Call):
        if value.dtype != "void":  # a call without a value is a statement since it was made
            parser.builder.emit(ir.Evaluate(value, at=parser.builder.at))
    elif isinstance(value, ir.Expr) and not isinstance(node.value, ast.Call):
        raise KernelError(f"the value of `{value}` is not used", hint="assign it, or T.evaluate it")


@statement(ast.Pass)
def nothing(parser: Parser, node: ast.Pass) -> None:
    pass


@statement(ast.Assert)
def check(parser: Parser, node: ast.Assert) -> None:
    truth = known_truth(parser, parser.eval(node.test))
    if truth is None:
        raise KernelError(
            "`assert` checks while the kernel is parsed",
            given=f"`{ast.unparse(node.test)}`, known at run time only",
            hint=f"T.cuda.device_assert({ast.unparse(node.test)}), or T.assume for a fact about the arguments",
        )
    if not truth:
        message = "" if node.msg is None else f": {parser.eval(node.msg)}"
        raise KernelError(f"`assert {ast.unparse(node.test)}` fails{message}")


@statement(ast.If)
def branch(parser: Parser, node: ast.If) -> None:
    """An ``if``: a Python value decides now, in the same block; a value of run time makes an `ir.If`."""
    cond = condition(parser, node.test)
    truth = known_truth(parser, cond)
    if truth is not None:
        parser.run(node.body if truth else node.orelse)
        return
    builder = parser.builder
    at, test = builder.at, builder.settled(cast(cond, BOOL))  # type: ignore[arg-type]  # an expression, or a bool
    with parser.block(node) as then:
        parser.run(node.body)
    with parser.block(node) as orelse:
        parser.run(node.orelse)
    builder.emit(ir.If(test, tuple(then), tuple(orelse), at=at))


@statement(ast.While)
def loop_while(parser: Parser, node: ast.While) -> None:
    _no_else(parser, node.orelse, "while")
    builder = parser.builder
    at = builder.at
    with builder.moments.loop(), parser.block(node) as body:
        cond = condition(parser, node.test)  # evaluated again in each round
        if known_truth(parser, cond) is False and not body:
            return
        test = builder.settled(cast(cond if isinstance(cond, ir.Expr) else bool(cond), BOOL))
        if body or body.has_bindings:
            builder.emit(ir.If(unary("not", test), (ir.Break(at=at),), at=at))
            test = as_expr(True)
        with parser.loop("run"):
            parser.run(node.body)
    builder.emit(ir.While(test, tuple(body), at=at))


@statement(ast.For)
def loop(parser: Parser, node: ast.For) -> None:
    """A ``for``: over ``range`` and loops of ``T`` a loop of run time; over Python values a round for each, now."""
    _no_else(parser, node.orelse, "for")
    values = parser.eval(node.iter)
    if isinstance(values, Binding):
        _bound_thread(parser, node, values)
        return
    loops = loops_of(values)
    if loops is None:
        _go_through(parser, node, values)
        return
    targets = node.target.elts if isinstance(node.target, (ast.Tuple, ast.List)) else [node.target]
    names = [target.id for target in targets if isinstance(target, ast.Name)]
    if len(names) != len(loops):
        raise KernelError(
            "a loop has one counter for each extent",
            given=ast.unparse(node.target),
            allowed=f"{len(loops)} names",
            at=parser.source.span(node.target),
        )
    _nest(parser, list(zip(names, loops, strict=True)), node.body)


def _bound_thread(parser: Parser, node: ast.For, binding: Binding) -> None:
    """A ``for`` over `T.thread_binding` is no loop: each thread runs the body once, with its own number."""
    if not isinstance(node.target, ast.Name):
        raise KernelError("a thread binding has one name", given=ast.unparse(node.target), allowed="for tx in ...")
    parser.builder.hints = (node.target.id,)
    parser.env.define(node.target.id, binding.launched(), "scope")
    with parser.loop("binding"):
        parser.run(node.body)


def _nest(parser: Parser, loops: list[tuple[str, LoopRange]], body: Sequence[ast.stmt], kind: str = "run") -> None:
    """The loops, the first outermost, around the body."""
    builder = parser.builder
    (name, first), *rest = loops
    at = builder.at
    with builder.moments.loop():
        start, stop = map(builder.settled, _bounds(first))  # evaluated once: each round compares with the same stop
        var = builder.counts(ir.Var(builder.unique(name), start.dtype), start, stop, first.step)
        with parser.block(body[0]) as inner:
            parser.env.define(name, var, "loop")
            if rest:
                _nest(parser, rest, body, kind="grid")
            else:
                with parser.loop(kind):
                    parser.run(body)
    builder.emit(ir.For(var, start, stop, tuple(inner), first.kind, first.step, first.annotations, at=at))


def _bounds(loop: LoopRange) -> tuple[ir.Expr, ir.Expr]:
    """Start and stop as expressions of one integer dtype, which is the counter's."""
    start, stop = as_expr(loop.start), as_expr(loop.stop)
    for bound in (start, stop):
        if not bound.dtype.is_integer:
            raise KernelError("the bounds of a loop are integers", given=f"`{bound}` of {bound.dtype}")
    if const_value(start) is not None:
        kind = stop.dtype
    else:
        kind = start.dtype if const_value(stop) is not None else common_dtype(start.dtype, stop.dtype)
    return cast(start, kind), cast(stop, kind)


def _go_through(parser: Parser, node: ast.For, values: object) -> None:
    """The body once for each Python value."""
    if isinstance(values, (ir.Expr, ir.Buffer)) or not hasattr(values, "__iter__"):
        raise KernelError(
            f"`{ast.unparse(node.iter)}` is nothing to loop over",
            given=type(values).__name__,
            allowed="range, T.serial, T.unroll, T.vectorized, T.grid, or a Python list or tuple",
            at=parser.source.span(node.iter),
        )
    with parser.loop("python"):
        for rounds, value in enumerate(values):
            if rounds == MOST_UNROLLED:
                raise KernelError(
                    "a loop over Python values is written out too often",
                    given=f"more than {MOST_UNROLLED:,} rounds",
                    allowed=f"{MOST_UNROLLED:,} rounds",
                    hint="range(...), which loops at run time",
                    at=parser.source.span(node.iter),
                )
            define(parser, node.target, value)
            try:
                parser.run(node.body)
            except LoopSignal as signal:
                if signal.ends:
                    break


def _no_else(parser: Parser, orelse: Sequence[ast.stmt], word: str) -> None:
    if orelse:
        raise KernelError(f"a kernel has no `else` of `{word}`", at=parser.source.span(orelse[0]))


@statement(ast.Break, ast.Continue)
def leave(parser: Parser, node: ast.Break | ast.Continue) -> None:
    word = "break" if isinstance(node, ast.Break) else "continue"
    if not parser.loops:
        raise KernelError(f"`{word}` outside a loop")
    kind, depth = parser.loops[-1]
    if kind == "binding":
        raise KernelError(f"`{word}` in a thread binding, which is no loop", hint="if/else around what follows")
    if kind == "python":
        if parser.builder.depth != depth:
            raise KernelError(
                f"`{word}` under a condition of run time, in a loop over Python values",
                allowed=f"`{word}` under a condition on Python values",
                hint="range or T.unroll makes a loop of run time",
            )
        raise LoopSignal(ends=word == "break")
    if kind == "grid" and word == "break":
        raise KernelError("`break` leaves one loop, T.grid makes several", hint="nested `for ... in range(...)`")
    builder = parser.builder
    builder.emit(ir.Break(at=builder.at) if word == "break" else ir.Continue(at=builder.at))


@statement(ast.Return)
def give_back(parser: Parser, node: ast.Return) -> None:
    """A ``return``: ends the parse of an inline function, or of the kernel, as kernels have no jumps."""
    if parser.builder.depth != parser.calls[-1]:
        value = parser.eval(node.value) if node.value is not None else None
        plain = "int32" if isinstance(value, int) else "float32"
        kind = f"T.{value.dtype if isinstance(value, ir.Expr) else plain}"
        raise KernelError(
            "`return` of a value under run-time control flow",
            given=ast.unparse(node),
            allowed="as the last statement; a bare `return` anywhere",
            hint=f"`result: {kind} = 0` first, `result = ...` in each arm, `return result` as the last statement; "
            "or a value that chooses: T.select(cond, a, b)",
        )
    raise Return(None if node.value is None else parser.eval(node.value, may_be_void=True))


@statement(ast.FunctionDef)
def inner_function(parser: Parser, node: ast.FunctionDef) -> None:
    """``@T.inline`` inside a kernel: sees the kernel's names."""
    if [parser.eval(decorator) for decorator in node.decorator_list] != [inline]:
        raise KernelError(
            f"{node.name} is a function inside a kernel", allowed="@T.inline", hint="or a Python function outside"
        )
    parser.env.define(node.name, Inline.inside(parser, node), "python")


export("Loops and branches", If=OpenBranch, Then=then, Else=otherwise)
