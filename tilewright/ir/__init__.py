"""What a kernel is: expressions, buffers, statements, and the walks over them.

In the order in which to read:

    expr, buffer, stmt
                      the nodes of a kernel, and the kernel; tiles: what operators make of tiles
    operators, intervals, numbers, build
                      what each operator means, on numbers and ranges; what a dtype holds; what an operator builds
    walk, printer     going over nodes and rewriting them; a kernel as text
    launch            grid, CTAs and threads; over which of these a value varies
    ranges, conditions, rules
                      what is known of integers, what a condition teaches, and the simpler forms that follow
    convert, debts    a value as the type of its place; what an access owes, how wide its offset is, and what a
                      pointer of run time may point into; the buffers from whose addresses a register is made
    verify            is a kernel well formed?
    arguments, tensor_map
                      what a call passes: arrays, numbers, descriptions for the copy engine and the texture unit
    flow, structure   a kernel as a graph of blocks, and back
"""

from tilewright.ir.buffer import *  # noqa: F403  # the room's public names are its modules' __all__
from tilewright.ir.build import *  # noqa: F403
from tilewright.ir.expr import *  # noqa: F403
from tilewright.ir.flow import *  # noqa: F403
from tilewright.ir.launch import *  # noqa: F403
from tilewright.ir.stmt import *  # noqa: F403
from tilewright.ir.tiles import *  # noqa: F403
from tilewright.ir.walk import *  # noqa: F403
