"""How a kernel runs without a GPU: the lowered IR of a whole grid, executed exactly with NumPy.

program = Program(lowered_kernel, parse_checks("all"))
run = program.run({"a_ptr": a}, {"n": 4})
print(run.counts)

In the order in which to read:

    program, execution      a kernel compiled once; one run of it, with its limits and its progress
    prepare, loops, segments
                            the kernel is cut where threads may wait
    axes, places            over what each value varies; where each buffer lives, with overlaps of arguments
    codegen                 a segment becomes a Python function, with emitter, source, expressions, addressing and calls
    arithmetic, convert, floats, nibbles
                            what those functions compute with
    batch, masks, wave      the lanes that are at one segment; which of them are active; the CTAs that run together
    schedule, sync          who runs next; where threads meet, with turns and stuck for those who never get on
    sites, address          a place of the kernel that touches memory, and the addresses of its lanes
    memory, registers, tmem, remote
                            what is touched
    instructions, facets    a row of the instruction table, run on the machine that it asks for, by gathered lanes
    pending, bulk           operations that go on by themselves
    counts, printed         what was counted, and what the kernel printed
    checks, order           what is looked for meanwhile; which accesses are in order, and advice on what would do that
    fusing, products, loads, uniform
                            many small products or loads done as one: nothing new, only faster
"""

from tilewright.sim.checks import CHECKS, parse_checks
from tilewright.sim.counts import Counts, Line
from tilewright.sim.execution import Run
from tilewright.sim.program import Program

__all__ = ["CHECKS", "Counts", "Line", "Program", "Run", "parse_checks"]
