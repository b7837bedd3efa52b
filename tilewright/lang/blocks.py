"""``with``: a context manager of Python's around statements of the kernel, and ``T.If``, which makes branches of them.

Helpers that Python runs while a kernel is parsed have no ``if`` of run time: ``with T.If(c): with T.Then(): ...`` is.
"""

from __future__ import annotations

import ast
from contextlib import AbstractContextManager, ExitStack
from types import TracebackType

from tilewright.dtypes import BOOL
from tilewright.errors import KernelError
from tilewright.ir import Expr, If, Value, Var, cast
from tilewright.lang.assignments import assigned
from tilewright.lang.builder import current
from tilewright.lang.moments import OpenBlock
from tilewright.lang.parser import Parser, statement

__all__ = ["EXPORTS"]


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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._builder.branches.pop()
        self._stack.close()
        if kind is not None:
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
            given = f"a second T.{word}" if isinstance(around, OpenBranch) else f"T.{word} outside"
            raise KernelError(f"T.{word} stands directly in a T.If, once", given=given, allowed="with T.If(cond): ...")
        self._word, self._branch, self._stack = word, around, ExitStack()

    def __enter__(self) -> None:
        self._stack.enter_context(self._builder.parser.frame(ast.Pass()))
        self._branch.arms[self._word] = self._stack.enter_context(self._builder.block())
        self._builder.branches.append(None)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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


EXPORTS: dict[str, object] = {"If": OpenBranch, "Then": then, "Else": otherwise}
"""The names of ``T`` that this file defines, with what they stand for."""
