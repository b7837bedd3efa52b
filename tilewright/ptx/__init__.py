"""PTX that others wrote: read, printed, and made a lowered kernel that the simulator runs.

In the order in which to read:

    tree, mangled     a text as frozen values, and back; the names of C++ in it
    text, parser      its tokens and operands; from text to tree
    names, state      what a name means in its scope; the state of a lowering, special registers, the author's lines
    declare, values   variables as buffers; operands as expressions
    strict            what an assembler refuses
    flow              branches and calls, recursive ones too
    plain, wmma       loads, stores and moves; matrices: what is no row of the table
    instructions      any other instruction as a call of its row
    lower             a kernel, and what is found out about its registers
"""

from tilewright.ptx.declare import initial_bytes
from tilewright.ptx.lower import Lowered, lower
from tilewright.ptx.parser import parse
from tilewright.ptx.state import STAND_INS, Machine
from tilewright.ptx.tree import script

__all__ = ["STAND_INS", "Lowered", "Machine", "initial_bytes", "lower", "parse", "script"]
