"""``T``: the kernel language. Its names are those of the files around this one, the dtypes and the instructions."""

from __future__ import annotations

from types import FunctionType
from typing import Any

from tilewright import layout
from tilewright.dtypes import NAMES, dtype
from tilewright.errors import KernelError, choices
from tilewright.ir import SPECIALS, special
from tilewright.isa import INSTRUCTIONS
from tilewright.lang import functions, loops, memory, pool, scopes, settings, values
from tilewright.lang.instructions import instructions
from tilewright.lang.public import public
from tilewright.lang.types import TensorMap, TypeName, UnknownName, constexpr, let

__all__ = ["T"]

_NAMES: dict[str, object] = {"let": let, "constexpr": constexpr, "TensorMap": TensorMap, "Axis": layout.Axis}
_NAMES.update(functions.EXPORTS)  # decorators, which look at what they are called from
for _part in (loops, memory, pool, scopes, settings, values):
    _NAMES.update(
        {name: public(value) if isinstance(value, FunctionType) else value for name, value in _part.EXPORTS.items()}
    )
for _name in ("TileLayout", "SwizzleLayout", "ComposeLayout", "S", "R", "SwizzleMode", "Iter"):
    _NAMES[_name] = getattr(layout, _name)


class SpecialNamespace:
    """``T.ctaid``: special registers with a dotted name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> object:
        if f"{self._name}.{name}" not in SPECIALS:
            raise AttributeError(f"T.{self._name} has x, y and z, not {name}")
        return special(f"{self._name}.{name}")


class KernelLanguage:
    """The namespace ``T``. Its names are `Any` to a type checker: a kernel is parsed, not run by Python."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # Python's own protocols ask for these
            raise AttributeError(name)
        found = self._find(name)
        if found is None:
            raise UnknownName(f"T.{name} is not in the language", given=f"T.{name}", allowed=_near(name))
        setattr(self, name, found)  # found directly from now on
        return found

    def _find(self, name: str) -> object:
        if name in _NAMES:
            return _NAMES[name]
        if name in INSTRUCTIONS or any(row.startswith(f"{name}.") for row in INSTRUCTIONS):
            return instructions(name)
        if name in SPECIALS:
            return special(name)
        if any(row.startswith(f"{name}.") for row in SPECIALS):
            return SpecialNamespace(name)
        try:
            return TypeName(dtype(name))
        except KernelError:
            return None

    def __dir__(self) -> list[str]:
        return sorted({*_NAMES, *(name.partition(".")[0] for name in (*INSTRUCTIONS, *SPECIALS)), *NAMES})

    def __repr__(self) -> str:
        return "T"


def _near(name: str) -> str:
    """The nearest names only: all of them would fill the screen."""
    names = choices(name, dir(T))
    return names.rpartition("(")[2].rstrip(")") if names.endswith("?)") else "see dir(T)"


T = KernelLanguage()
