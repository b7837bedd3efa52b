"""How a kernel is written: the T and Tx namespaces, the parser, execution scopes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.lang.t import T
from tilewright.lang.tx import Tx

if TYPE_CHECKING:
    from tilewright.lang.functions import Inline, JitKernel
    from tilewright.lang.script import parse_script

__all__ = ["Inline", "JitKernel", "T", "Tx", "parse_script"]


def __getattr__(name: str) -> object:
    """The parser is imported with the first kernel, so that ``import tilewright`` is quick."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from tilewright.lang import functions, script

    return getattr(script if name == "parse_script" else functions, name)
