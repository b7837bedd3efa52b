"""Helpers of the language's tests: the body of a kernel as text, and the check that a script reads back."""

from __future__ import annotations

from textwrap import dedent
from typing import TypeVar

from tilewright.errors import Span, TilewrightError
from tilewright.ir import Kernel
from tilewright.lang import parse_script

Kind = TypeVar("Kind")


def reads_back(kernel: Kernel) -> bool:
    """Is the kernel that its script describes the same one, and does that one print the same script?"""
    again = parse_script(kernel.script())
    return again == kernel and again.script() == kernel.script()


def body(kernel: Kernel) -> str:
    """The printed statements of a kernel whose script reads back, without the lines of its parameters."""
    assert reads_back(kernel)
    lines = kernel.script().splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("def "))
    return "\n".join(line[4:] for line in lines[first + 1 :] if "T.match_buffer" not in line)


def statement(kernel: Kernel, place: int, kind: type[Kind]) -> Kind:
    """One of its statements, of this class."""
    stmt = kernel.body[place]
    assert isinstance(stmt, kind)
    return stmt


def line_of(error: TilewrightError) -> Span:
    """Where the error stands."""
    assert error.at is not None
    return error.at


def text(expected: str) -> str:
    """An expected body, as it stands indented in a test."""
    return dedent(expected).strip()
