"""How a kernel runs without a GPU: the lowered IR of a whole grid, executed exactly with NumPy.

program = Program(lowered_kernel, parse_checks("all"))
run = program.run({"a_ptr": a}, {"n": 4})
print(run.counts)

In the order in which to read:

    run         a kernel compiled once; one run of it, with its waves of CTAs, its limits and its progress
    codegen     a lowered kernel is cut where threads may wait, and each segment becomes a Python function
    machine     lanes, addresses, memories, what an instruction sees, operations that go on by themselves
    fast        many small products or loads done as one: the same values in less time
    record      a run that is kept to be looked at
    checks      the mistakes that are looked for meanwhile
    order       the check of races: which accesses are ordered, and advice on what would order them

Each room may import those that come after it in run, order, codegen, record, checks, fast, machine; types included.
"""

import tilewright.sim.order.engine  # noqa: F401  # the check of races, which is a room of its own
from tilewright.sim.checks import CHECKS, parse_checks
from tilewright.sim.machine import Counts, Line
from tilewright.sim.record import Recording, RecordingOptions
from tilewright.sim.run.execution import Run
from tilewright.sim.run.program import Program

__all__ = ["CHECKS", "Counts", "Line", "Program", "Recording", "RecordingOptions", "Run", "parse_checks"]
