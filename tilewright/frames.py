"""Shorter tracebacks: the user's own frames, and the kernel's line at the end; none of tilewright's.

Public functions are an *edge*: an error that leaves them for other code loses the frames inside. Pytest and notebooks
hide the edge, too. A warning of what goes stands at the user's line, too.
"""

from __future__ import annotations

import ast
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import wraps
from os import sep
from pathlib import Path
from types import CodeType, FrameType, TracebackType
from typing import Any, TypeVar, cast

from tilewright.errors import Span, TilewrightError

F = TypeVar("F", bound=Callable[..., Any])
OURS = str(Path(__file__).parent)
GENERATED = "<segments of "
INSIDE = tuple(f"{OURS}{sep}{room}{sep}" for room in ("layout", "ir", "tile", "lower", "cuda", "sim", "ptx"))


def at_the_edge(function: F) -> F:
    """Decorator: errors leave the function without the frames behind it, unless its caller is ours."""

    @wraps(function)
    def edge(*args: Any, **named: Any) -> Any:
        __tracebackhide__ = True
        try:
            return function(*args, **named)
        except TilewrightError as error:
            if not from_outside(sys._getframe(1)):
                raise
            raise shortened(error) from error.__cause__

    return cast("F", edge)


def from_outside(caller: FrameType) -> bool:
    """Is the caller other code than tilewright's?"""
    return not _is_ours(caller)


def from_inside(caller: FrameType) -> bool:
    """Is the caller in a room of the compiler or the simulator, whose arguments are no user's? The parser's are."""
    return caller.f_code.co_filename.startswith(INSIDE)


def shortened(error: TilewrightError) -> TilewrightError:
    """The error, whose traceback has the frames of users only, and ends with the kernel's line."""
    last = _line_of(error.at) if error.at is not None else None
    if error.__cause__ is not None:  # an error that the user's own code raised
        error.__cause__.__traceback__ = _own(error.__cause__.__traceback__, None)
    else:
        error.__suppress_context__ = True
    return error.with_traceback(_own(error.__traceback__, last))


def _own(traceback: TracebackType | None, last: TracebackType | None) -> TracebackType | None:
    """The frames of users, followed by ``last``."""
    kept = list(_kept(traceback))
    if last is not None and not (kept and (kept[-1][0].f_code.co_filename, kept[-1][1]) == _place(last)):
        kept.append((last.tb_frame, last.tb_lineno, last.tb_lasti))
    shorter: TracebackType | None = None
    for frame, line, instruction in reversed(kept):
        shorter = TracebackType(shorter, frame, instruction, line)
    return shorter


def _kept(traceback: TracebackType | None) -> Iterator[tuple[FrameType, int, int]]:
    while traceback is not None:
        if not _is_ours(traceback.tb_frame) and not _is_torchs(traceback.tb_frame):
            yield traceback.tb_frame, traceback.tb_lineno, traceback.tb_lasti
        traceback = traceback.tb_next


def _place(traceback: TracebackType) -> tuple[str, int]:
    return traceback.tb_frame.f_code.co_filename, traceback.tb_lineno


def _is_ours(frame: FrameType) -> bool:
    name = frame.f_code.co_filename
    return name.startswith((OURS, GENERATED))


def _is_torchs(frame: FrameType) -> bool:
    """Is it between ours, where torch carries out an operator of ours?"""
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] == "torch"


def _line_of(at: Span) -> TracebackType | None:
    """A frame that stands at a line of a kernel, which Python never runs; None where there is no such line."""
    if not at.excerpt():
        return None
    try:
        exec(_raising(at), {"error": TilewrightError("at a line of a kernel")})
    except TilewrightError as raised:
        return raised.__traceback__.tb_next if raised.__traceback__ is not None else None
    return None


def _raising(at: Span) -> CodeType:
    """``raise error`` at that line, and at its columns."""
    tree = ast.parse("raise error")
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt | ast.expr):
            node.lineno = node.end_lineno = at.line
            node.col_offset, node.end_col_offset = at.column, max(at.end_column, at.column + 1)
    return compile(tree, at.file, "exec").replace(co_name="kernel")


def deprecated(what: str, *, since: str, gone: str, instead: str) -> None:
    """Warn of the use of something that goes, at the line of the user who calls it.

    what: as users write it, "simulate(..., trace=)"; since, gone: versions; instead: what to write. The warning is a
    DeprecationWarning, which Python shows in a user's own program and pytest in its tests.

    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as told:
    ...     warnings.simplefilter("always")
    ...     deprecated("simulate(trace=)", since="0.2", gone="0.3", instead="simulate(record=)")
    >>> print(told[0].message)
    simulate(trace=) is deprecated since tilewright 0.2 and goes with 0.3: write simulate(record=)
    """
    level, caller = 2, sys._getframe(1)
    while not from_outside(caller) and caller.f_back is not None:
        level, caller = level + 1, caller.f_back
    text = f"{what} is deprecated since tilewright {since} and goes with {gone}: write {instead}"
    warnings.warn(text, DeprecationWarning, stacklevel=level)
