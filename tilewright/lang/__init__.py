"""How a kernel is written: the T and Tx namespaces, the parser, execution scopes."""

from tilewright.lang.functions import Inline, JitKernel
from tilewright.lang.script import parse_script
from tilewright.lang.t import T
from tilewright.lang.tx import Tx

__all__ = ["Inline", "JitKernel", "T", "Tx", "parse_script"]
