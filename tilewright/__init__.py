"""A compiler for GPU tile primitives: declare where every element of a tile lives, and write `copy`."""

from tilewright.compiler import Executable, compile, simulate
from tilewright.errors import TilewrightError, TilewrightWarning
from tilewright.lang import T, Tx

__version__ = "0.1.0"

__all__ = ["Executable", "T", "TilewrightError", "TilewrightWarning", "Tx", "compile", "simulate"]
