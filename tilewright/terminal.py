"""The output of commands: colours and tables on a terminal, plain text in a pipe, progress on standard error.

A terminal shows the words that a pipe gets, coloured: a report reads the same in both.
"""

from __future__ import annotations

import sys
from functools import cache
from threading import Timer
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

    from tilewright.view import Grid

Result = TypeVar("Result")
PATIENCE = 1.0  # seconds that work may take before it shows a bar

# Highlights of reports, counts and errors: a style, and the words that have it.
STYLES = {
    "place": ("cyan", r"^(warning: )?\S+\.py:\d+"),
    "chosen": ("bold green", r"^  \w+/\w+(?=:)"),
    "declined": ("dim", r"^  not \w+: .*$"),
    "field": ("bold", r"^ +(given|allowed|try):"),
    "caret": ("bold red", r"^ +\^+$"),
    "head": ("bold", r"^(instruction|memory|line) {2,}.*$"),
    "conflicts": ("bold red", r"(?<=[\d,])( +[\d,]+){2} +[1-9][\d,]*$"),
    "fine": ("green", r"^ok "),
    "missing": ("yellow", r"^-- "),
}


def is_terminal() -> bool:
    """Does a person read standard output?"""
    return sys.stdout.isatty()


@cache
def _console(*, stderr: bool = False) -> Console:
    from rich.console import Console

    return Console(stderr=stderr, highlight=False)


def _styled(text: str, *, stderr: bool) -> None:
    """Print text with its colours; lines keep their ends, so that what is copied is what was printed."""
    from rich.text import Text

    words = Text(text)
    for style, pattern in STYLES.values():
        words.highlight_regex(f"(?m){pattern}", style)
    _console(stderr=stderr).print(words, soft_wrap=True)


def say(text: str = "") -> None:
    """Text as it is; on a terminal with the places, choices and conflicts in it coloured."""
    if is_terminal() and text:
        _styled(text, stderr=False)
    else:
        print(text)


def complain(text: str) -> None:
    """An error or a warning, on standard error."""
    if sys.stderr.isatty():
        _styled(text, stderr=True)
    else:
        print(text, file=sys.stderr)


def heading(text: str) -> None:
    """The title of a step."""
    if is_terminal():
        from rich.text import Text

        _console().print()
        _console().rule(Text(text, style="bold"), align="left", style="cyan")
    else:
        say(f"\n== {text}")


def code(text: str, language: str) -> None:
    """Source text; coloured on a terminal."""
    if is_terminal():
        from rich.syntax import Syntax

        _console().print(Syntax(text, language, theme="ansi_dark", background_color="default", word_wrap=True))
    else:
        say(text)


def grid(picture: Grid) -> None:
    """A table of cells; on a terminal coloured by key, in pieces where it is too narrow for all columns."""
    from tilewright.view import fitting, plain, rich_table

    if not is_terminal():
        say(plain(picture))
        return
    from rich.text import Text

    _console().print(Text(picture.title, style="bold"), soft_wrap=True)
    for index, piece in enumerate(fitting(picture, _console().width)):
        if index:
            _console().print()
        _console().print(rich_table(piece))


def with_progress(label: str, work: Callable[[Callable[[int, int], None]], Result]) -> Result:
    """Do ``work``, which may report (done, total); a bar on the terminal once it takes more than a second."""
    if not sys.stderr.isatty():
        return work(lambda done, total: None)
    from rich.progress import Progress

    bar = Progress(console=_console(stderr=True), transient=True)
    task = bar.add_task(label, total=None)
    late = Timer(PATIENCE, bar.start)
    late.daemon = True
    late.start()
    try:
        return work(lambda done, total: bar.update(task, completed=done, total=total))
    finally:
        late.cancel()
        late.join()
        bar.stop()
