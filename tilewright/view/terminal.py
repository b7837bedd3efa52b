"""How a command speaks: colours and tables on a terminal, plain text in a pipe, progress on standard error."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from tilewright.view import Grid

__all__ = ["code", "grid", "heading", "is_terminal", "say", "with_progress"]

Result = TypeVar("Result")


def is_terminal() -> bool:
    """Does a person read standard output?"""
    return sys.stdout.isatty()


def say(text: str = "") -> None:
    """A line of text, as it is."""
    print(text)


def heading(text: str) -> None:
    """The title of a step."""
    if is_terminal():
        from rich.console import Console

        Console().rule(f"[bold]{text}", align="left")
    else:
        say(f"== {text}")


def code(text: str, language: str) -> None:
    """Source text; coloured on a terminal."""
    if is_terminal():
        from rich.console import Console
        from rich.syntax import Syntax

        Console().print(Syntax(text, language, theme="ansi_dark", background_color="default", word_wrap=True))
    else:
        say(text)


def grid(picture: Grid) -> None:
    """A table of cells; coloured by key on a terminal."""
    from tilewright.view import plain, rich_table

    if is_terminal():
        from rich.console import Console

        Console().print(rich_table(picture))
    else:
        say(plain(picture))


def with_progress(label: str, work: Callable[[Callable[[int, int], None]], Result]) -> Result:
    """Do ``work``, which reports (done, total); a bar on the terminal once it takes more than a second."""
    if not sys.stderr.isatty():
        return work(lambda done, total: None)
    import time

    from rich.console import Console
    from rich.progress import Progress

    start = time.monotonic()
    with Progress(console=Console(stderr=True), transient=True, disable=False) as bar:
        task = bar.add_task(label, total=None, visible=False)

        def report(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total, visible=time.monotonic() - start > 1)

        return work(report)
