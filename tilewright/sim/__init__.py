"""How a kernel runs without a GPU: the lowered IR of a whole grid, executed exactly with NumPy.

program = Program(lowered_kernel, parse_checks("all"))
run = program.run({"a_ptr": a}, {"n": 4})
print(run.counts)
"""

from tilewright.sim.checks import CHECKS, parse_checks
from tilewright.sim.counts import Counts, Line
from tilewright.sim.execution import Run
from tilewright.sim.program import Program

__all__ = ["CHECKS", "Counts", "Line", "Program", "Run", "parse_checks"]
