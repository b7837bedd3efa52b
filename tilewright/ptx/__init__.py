"""PTX that others wrote: read, printed, and made a lowered kernel that the simulator runs.

In the order in which to read: tree, constants, parser; then names, state, declare, values, flow,
instructions, plain, lower.
"""

from tilewright.ptx.declare import initial_bytes
from tilewright.ptx.lines import STAND_INS
from tilewright.ptx.lower import Lowered, lower
from tilewright.ptx.parser import parse
from tilewright.ptx.special import Machine
from tilewright.ptx.tree import script

__all__ = ["STAND_INS", "Lowered", "Machine", "initial_bytes", "lower", "parse", "script"]
