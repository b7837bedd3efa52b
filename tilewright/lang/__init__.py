"""How a kernel is written: the T and Tx namespaces, the parser, execution scopes."""

from tilewright.lang import (
    assignments,  # noqa: F401  they fill the parser's tables
    statements,  # noqa: F401
)
from tilewright.lang.functions import Inline, JitKernel
from tilewright.lang.script import parse_script
from tilewright.lang.t import T
from tilewright.lang.tx import Tx

__all__ = ["Inline", "JitKernel", "T", "Tx", "parse_script"]
