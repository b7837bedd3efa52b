"""PTX that others wrote: read, printed, and made a lowered kernel that the simulator runs.

In the order in which to read: tree, lexer, operands, declarations, bodies, parser, printer.
"""

from tilewright.ptx.parser import parse
from tilewright.ptx.printer import script

__all__ = ["parse", "script"]
