"""How warps and grids share the machine: registers that are reallocated, grids that begin before others end.

Sources: PTX ISA, "Miscellaneous Instructions: setmaxnreg", "Parallel Synchronization and Communication Instructions:
griddepcontrol".
"""

from __future__ import annotations

from tilewright.isa.arch import only, since
from tilewright.isa.machine import Lanes, Machine
from tilewright.isa.registers import constant
from tilewright.isa.table import WHOLE_WARP, Meaning, Ptx, reads, single

GRIDS = 'PTX ISA, "Parallel Synchronization and Communication Instructions: griddepcontrol"'
COUNTS = range(24, 257, 8)


def of_warpgroup(machine: Machine, registers: Lanes) -> None:
    """No effect on values, but the four warps of a warpgroup do it, each with the same number."""
    machine.done_by_warpgroup(registers)


single(
    "ptx.setmaxnreg",
    Ptx("setmaxnreg{inc}.sync.aligned.u32", {"inc": {True: ".inc", False: ".dec"}}),
    only("sm_90a", "sm_100a", "sm_103a", "sm_110a", "sm_120a", "sm_121a", "sm_121f"),
    'PTX ISA, "Miscellaneous Instructions: setmaxnreg"',
    Meaning(of_warpgroup, on="machine"),
    params=("inc", "n"),
    operands=(reads("n", "imm"),),
    lanes=WHOLE_WARP,
    check=constant("n", COUNTS.__contains__, f"multiples of 8, {COUNTS[0]} to {COUNTS[-1]}", pattern="{} registers"),
    doc="The warps of a warpgroup take registers of the CTA's pool (``inc``), or give some back, to have ``n`` each.",
)


def waits_for_grids(machine: Machine) -> None:
    """No effect on values: what the grids before have written is there already."""
    machine.depends("wait")


def lets_grids_begin(machine: Machine) -> None:
    """No effect on values."""
    machine.depends("launch")


for _name, _does, _doc in (
    ("wait", waits_for_grids, "Waits until the grids that this one depends on have ended, and sees what they wrote."),
    ("launch_dependents", lets_grids_begin, "The grids that depend on this one may begin."),
):
    single(
        f"ptx.griddepcontrol.{_name}",
        Ptx(f"griddepcontrol.{_name}"),
        since("sm_90"),
        GRIDS,
        Meaning(_does, on="machine"),
        doc=_doc,
    )
