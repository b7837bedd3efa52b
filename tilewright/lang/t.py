"""``T``: the kernel language. Its names are those of `tilewright.lang.names`, the special registers and the dtypes."""

from __future__ import annotations

from typing import Any

from tilewright import dtypes
from tilewright.errors import KernelError, choices
from tilewright.ir import SPECIALS, special
from tilewright.lang.types import TypeName, UnknownName

__all__ = ["T"]


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
        from tilewright.lang import names  # slow to import: with the first name that is asked for

        if name in names.NAMES:
            return names.NAMES[name]
        if found := names.instructions_at(name):
            return found
        if name in SPECIALS:
            return special(name)
        if any(row.startswith(f"{name}.") for row in SPECIALS):
            return SpecialNamespace(name)
        try:
            return TypeName(dtypes.dtype(name))
        except KernelError:
            return None

    def __dir__(self) -> list[str]:
        from tilewright.lang import names

        registers = {name.partition(".")[0] for name in SPECIALS}
        return sorted({*names.NAMES, *names.instruction_names(), *registers, *dtypes.NAMES})

    def __repr__(self) -> str:
        return "T"


def _near(name: str) -> str:
    """The nearest names only: all of them would fill the screen."""
    names = choices(name, dir(T))
    return names.rpartition("(")[2].rstrip(")") if names.endswith("?)") else "see dir(T)"


T = KernelLanguage()
