"""``T``: the kernel language. Its names are those of the files around this one, the dtypes and the instructions."""

from __future__ import annotations

from types import FunctionType
from typing import Any

from tilewright import layout
from tilewright.dtypes import NAMES, dtype
from tilewright.errors import KernelError, choices
from tilewright.ir import ELEMENT, SPECIALS, special
from tilewright.isa import INSTRUCTIONS
from tilewright.lang import forms, functions, roles, scopes, statements, values  # noqa: F401  they export names of T
from tilewright.lang.builder import ALIASES, TypeName, UnknownName
from tilewright.lang.instructions import FORMS, hint_for, is_name
from tilewright.lang.instructions import instructions as rows_of
from tilewright.lang.meta import is_meta
from tilewright.lang.public import DECORATORS, EXPORTED, public


def _checked(value: object) -> object:
    """A name of ``T`` whose arguments are looked at."""
    if isinstance(value, type) and is_meta(value):
        return public.methods(public.constructor(value))
    return public(value) if isinstance(value, FunctionType) else value


_NAMES: dict[str, object] = {"Axis": layout.Axis}
for _heading, _exported in EXPORTED.items():
    decorates = _heading == DECORATORS  # they look at what they are called from
    _NAMES.update({name: value if decorates else _checked(value) for name, value in _exported.items()})
for _name in ("TileLayout", "SwizzleLayout", "ComposeLayout", "S", "R", "SwizzleMode", "Iter"):
    _NAMES[_name] = getattr(layout, _name)


class SpecialNamespace:
    """``T.ctaid``: special registers with a dotted name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> object:
        if f"{self._name}.{name}" not in (*SPECIALS, *ELEMENT):
            raise AttributeError(f"T.{self._name} has x, y and z, not {name}")
        return special(f"{self._name}.{name}")


class KernelLanguage:
    """The namespace ``T``. Type checkers and editors read `t.pyi`, which `make docs` makes from the same tables."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):  # Python's own protocols ask for these
            raise AttributeError(name)
        member = self._find(name)
        if member is None:
            bare = name.removeprefix("__")
            hint = f"T.{bare}" if bare != name and self._find(bare) is not None else hint_for(name)
            allowed = None if hint or name.startswith("_") else _near(name)
            raise UnknownName(f"T.{name} is not in the language", given=f"T.{name}", allowed=allowed, hint=hint)
        setattr(self, name, member)  # found directly from now on
        return member

    def _find(self, name: str) -> object:
        if name in _NAMES:
            return _NAMES[name]
        if is_name(name):
            return rows_of(name)
        if name in SPECIALS:
            return special(name)
        if any(row.startswith(f"{name}.") for row in (*SPECIALS, *ELEMENT)):
            return SpecialNamespace(name)
        if name.startswith("_"):  # tools look for marks of their own: no type is called so
            return None
        try:
            return TypeName(dtype(ALIASES.get(name, name)))
        except KernelError:
            return None

    def __dir__(self) -> list[str]:
        return sorted(
            {*_NAMES, *(name.partition(".")[0] for name in (*INSTRUCTIONS, *FORMS, *SPECIALS)), *NAMES, *ALIASES}
        )

    def __repr__(self) -> str:
        return "T"


def _near(name: str) -> str:
    """The nearest names only, since all of them would fill the screen."""
    names = choices(name, dir(T))
    return names.rpartition("(")[2].rstrip(")") if names.endswith("?)") else "see dir(T)"


T = KernelLanguage()
