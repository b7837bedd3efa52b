"""What records have in common: `dataclasses.replace`, faster, and what a notebook shows of those that print as text."""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from typing import Any, TypeVar

Record = TypeVar("Record")


class NotebookText:
    """What a notebook shows as text: as it prints, with the places and choices marked."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        from tilewright.view import preformatted  # upwards, and only when a notebook asks

        return preformatted(self._notebook_text())

    def _notebook_text(self) -> str:
        return str(self)


def replace(record: Record, /, **changes: Any) -> Record:  # `Any`: the constructor checks them
    """A dataclass with other values in some of its fields."""
    kind = type(record)
    for name in _names(kind):  # type: ignore[arg-type]  # a class is hashable
        if name not in changes:
            changes[name] = getattr(record, name)
    return kind(**changes)


@cache
def _names(kind: type) -> tuple[str, ...]:
    """The parameters of the constructor."""
    return tuple(field.name for field in fields(kind) if field.init)
