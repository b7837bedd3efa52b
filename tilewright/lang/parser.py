"""The parser: walks the syntax tree of a kernel, evaluates what Python knows, and builds IR from the rest.

Each kind of syntax node has a handler in one of the two tables here, filled by `expressions`, `statements` and
`assignments`. An expression's handler returns a Python value: an IR expression, a buffer, or anything else that Python
code may hold while it runs.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from tilewright.dtypes import VOID
from tilewright.errors import KernelError, TilewrightError
from tilewright.ir import Expr
from tilewright.lang.arithmetic import MOST_STEPS, too_many_steps
from tilewright.lang.builder import KernelBuilder
from tilewright.lang.elsewhere import hint_for_python
from tilewright.lang.environment import Environment
from tilewright.lang.moments import OpenBlock
from tilewright.lang.source import Source

__all__ = ["EXPRESSIONS", "STATEMENTS", "LoopSignal", "Parser", "Return", "expression", "statement"]

EXPRESSIONS: dict[type[ast.AST], Callable[[Parser, ast.expr], object]] = {}
STATEMENTS: dict[type[ast.AST], Callable[[Parser, ast.stmt], None]] = {}
_ALLOWED_STATEMENTS = "assignments, for, while, if, break, continue, pass, assert, calls, @T.inline functions"
_ALLOWED_EXPRESSIONS = (
    "operators, comparisons, `a if c else b`, calls, indices, tuples, lists, dicts, comprehensions, lambda"
)

_DEEPEST = 64

Handler = TypeVar("Handler", bound="Callable[..., object]")


def _handlers(table: dict[type[ast.AST], Any]) -> Callable[..., Callable[[Handler], Handler]]:
    """The decorator that registers the handler of some kinds of nodes in a table."""

    def of(*kinds: type[ast.AST]) -> Callable[[Handler], Handler]:
        def register(handler: Handler) -> Handler:
            table.update(dict.fromkeys(kinds, handler))
            return handler

        return register

    return of


expression, statement = _handlers(EXPRESSIONS), _handlers(STATEMENTS)


class Return(BaseException):
    """``return`` on its way to the function that it ends; never leaves this room."""

    def __init__(self, value: object) -> None:
        self.value = value


class LoopSignal(BaseException):
    """``break`` (``ends``) or ``continue`` on its way to a loop that is gone through while parsing."""

    def __init__(self, *, ends: bool) -> None:
        self.ends = ends


class Parser:
    """One kernel being parsed; mutable. source and env change while an inline function is parsed at its call."""

    def __init__(self, source: Source, env: Environment, *, stage: str = "tile", exact: bool = False) -> None:
        self.source = source
        self.env = env
        self.builder = KernelBuilder(self, stage, exact=exact)
        self.loops: list[tuple[str, int]] = []  # of each loop at work: its kind, and the depth of its body
        self.keeps_meta: ast.expr | None = None  # the call whose T.meta_var an assignment wants to see
        self.calls: list[int] = [1]  # the depth of each function at work
        self.steps = 0

    def eval(self, node: ast.expr, *, may_be_void: bool = False) -> object:
        """The value of an expression; an error gets the place of the innermost expression that caused it.

        may_be_void: its statement does without a value.
        """
        try:
            value = EXPRESSIONS.get(type(node), _refuse_expression)(self, node)
        except TilewrightError as error:
            error.located(self.source.span(node))
            raise
        except Exception as error:  # raised by the user's own Python code, or by an operator on its values
            raise self.failed(node, error) from error
        if not may_be_void and isinstance(value, Expr) and value.dtype is VOID:
            raise KernelError(
                f"`{ast.unparse(node)}` has no value",
                given="a call without a result",
                allowed="a statement of its own",
                at=self.source.span(node),
            )
        return value

    def failed(self, node: ast.AST, error: Exception) -> KernelError:
        """The error for an exception of Python's own, with what raised it."""
        text = ast.unparse(node).partition("\n")[0]
        hint = hint_for_python(node) if isinstance(error, TypeError | ValueError) else None
        return KernelError(f"`{text}` fails: {error}", given=type(error).__name__, hint=hint, at=self.source.span(node))

    def step(self) -> None:
        """One more statement or round. Raises KernelError beyond `MOST_STEPS`."""
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise too_many_steps()

    def run(self, body: Sequence[ast.stmt]) -> None:
        """Parse statements into the current block."""
        builder = self.builder
        for node in body:
            builder.at = self.source.span(node)
            builder.hints = ()
            builder.fresh.clear()
            try:
                self.step()
                STATEMENTS.get(type(node), _refuse_statement)(self, node)
            except TilewrightError as error:
                error.located(self.source.span(node))
                raise
            except Exception as error:  # a Python value that does not do what the statement asks of it
                raise self.failed(node, error) from error

    @contextmanager
    def block(self, start: ast.AST) -> Iterator[OpenBlock]:
        """A block of run-time control flow: statements of its own, and names that end with it."""
        with self.frame(start), self.builder.block() as made:
            yield made

    @contextmanager
    def frame(self, start: ast.AST) -> Iterator[None]:
        """A frame of names."""
        env = self.env
        env.frames.append({})
        try:
            yield
        finally:
            env.leave(getattr(start, "lineno", 0) + self.source.offset)

    @contextmanager
    def loop(self, kind: str) -> Iterator[None]:
        """While the body of a loop is parsed. kind: run, grid (one of several at once) or python."""
        self.loops.append((kind, self.builder.depth))
        try:
            yield
        finally:
            self.loops.pop()

    @contextmanager
    def inside(self, source: Source, env: Environment) -> Iterator[None]:
        """While the text of another function is parsed into this kernel."""
        builder = self.builder
        if len(self.calls) > _DEEPEST:
            raise KernelError("inline functions call each other without end", given=f"{_DEEPEST} calls deep")
        saved = self.source, self.env, self.loops, builder.at, builder.hints, builder.fresh
        self.source, self.env, self.loops, builder.fresh = source, env, [], set()
        self.calls.append(builder.depth)
        try:
            yield
        finally:
            self.calls.pop()
            fresh = builder.fresh
            self.source, self.env, self.loops, builder.at, builder.hints, builder.fresh = saved
            builder.fresh |= fresh

    def function(self, body: Sequence[ast.stmt]) -> object:
        """Parse the body of a function; what it returns."""
        try:
            self.run(body)
        except Return as result:
            return result.value
        return None


def _refuse_expression(parser: Parser, node: ast.expr) -> object:
    raise KernelError(
        f"a kernel has no {_words(node)} expression",
        given=ast.unparse(node),
        allowed=_ALLOWED_EXPRESSIONS,
        hint=f"{ast.unparse(node.target)} = {ast.unparse(node.value)} as a statement of its own"
        if isinstance(node, ast.NamedExpr)
        else None,
    )


def _refuse_statement(parser: Parser, node: ast.stmt) -> None:
    raise KernelError(
        f"a kernel has no `{_words(node)}` statement",
        given=ast.unparse(node).splitlines()[0],
        allowed=_ALLOWED_STATEMENTS,
    )


def _words(node: ast.AST) -> str:
    """What Python calls a node: ``With`` is "with", ``NamedExpr`` is "named"."""
    return type(node).__name__.removesuffix("Expr").lower()
