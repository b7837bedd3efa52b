"""A compiler for GPU tile primitives: declare where every element of a tile lives, and write `copy`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.errors import TilewrightError, TilewrightWarning
from tilewright.lang import T, Tx

if TYPE_CHECKING:
    from tilewright.compiler import Executable, compile, simulate

__version__ = "0.1.0"

__all__ = ["Executable", "T", "TilewrightError", "TilewrightWarning", "Tx", "compile", "simulate"]


def __getattr__(name: str) -> object:
    """The compiler is imported when it is first asked for, so that ``import tilewright`` is quick."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from tilewright import compiler

    found: object = getattr(compiler, name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
