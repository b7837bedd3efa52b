"""How often a loop may be written out, in the program that NVRTC gets or while a kernel is parsed."""

from __future__ import annotations

from tilewright.errors import KernelError
from tilewright.ir.expr import const_value
from tilewright.ir.stmt import For

MOST_UNROLLED = 16_384


def rounds_written_out(loop: For, around: int) -> int:
    """The times that the body of a loop stands in the program, in loops that are written out ``around`` times.

    Raises KernelError for more than `MOST_UNROLLED`.
    """
    start, stop = const_value(loop.start), const_value(loop.stop)
    if loop.kind == "serial" or start is None or stop is None:
        return around
    rounds = around * max(1, len(range(int(start), int(stop), loop.step)))
    if rounds > MOST_UNROLLED:
        raise KernelError(
            f"the loop over {loop.var.name} is written out too often",
            given=f"{rounds:,} rounds, with those of the loops around it",
            allowed=f"{MOST_UNROLLED:,} rounds",
            hint=f"range({loop.start}, {loop.stop}, {loop.step})",
            at=loop.at,
        )
    return rounds
