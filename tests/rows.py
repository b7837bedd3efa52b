"""Many rows of a table in one test: a test of its own for each takes longer than most rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

Row = TypeVar("Row")


@contextmanager
def in_row(name: object) -> Iterator[None]:
    """An error inside of it names the row."""
    try:
        yield
    except Exception as error:
        raise AssertionError(f"row {name}: {error}") from error


def by(key: Callable[[Row], str], rows: Iterable[Row]) -> dict[str, list[Row]]:
    """The rows that have a key in common, a test each."""
    groups: dict[str, list[Row]] = {}
    for one in rows:
        groups.setdefault(key(one), []).append(one)
    return groups
