"""What records have in common: `dataclasses.replace`, faster, what a notebook shows of those that print as text, and
tables of them that are files.
"""

from __future__ import annotations

import sys
from dataclasses import fields
from functools import cache
from pathlib import Path
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


def read_tables(module: str, name: str) -> dict[str, Any]:
    """The tables of a TOML file beside a module, which is given by its ``__file__``. `Any`: their values."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    return tomllib.loads(Path(module).with_name(name).read_text(encoding="utf-8"))


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
