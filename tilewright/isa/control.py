"""How warps and grids share the machine: registers that are reallocated, grids that begin before others end.

Sources: PTX ISA, "Miscellaneous Instructions: setmaxnreg", "Parallel Synchronization and Communication Instructions:
griddepcontrol".
"""

from __future__ import annotations

from tilewright.errors import InstructionError
from tilewright.ir import const_value
from tilewright.isa.arch import only, since
from tilewright.isa.machine import Lanes, Machine
from tilewright.isa.table import WHOLE_WARP, Bound, Meaning, Ptx, reads, single

GRIDS = 'PTX ISA, "Parallel Synchronization and Communication Instructions: griddepcontrol"'
COUNTS = range(24, 257, 8)


def _check_count(bound: Bound) -> None:
    known = const_value(bound.operands["n"][0])
    if known not in COUNTS:
        allowed = f"multiples of {COUNTS.step} from {COUNTS.start} to {COUNTS[-1]}"
        raise InstructionError(f"T.{bound.instruction.name}: n", given=f"{known} registers", allowed=allowed)


def unseen(machine: Machine, *registers: Lanes) -> None:
    """No effect on values: registers have names here, and the simulator runs one grid after the other."""


single(
    "ptx.setmaxnreg",
    Ptx("setmaxnreg{inc}.sync.aligned.u32", {"inc": {True: ".inc", False: ".dec"}}),
    only("sm_90a", "sm_100a", "sm_103a", "sm_110a", "sm_120a", "sm_121a", "sm_121f"),
    'PTX ISA, "Miscellaneous Instructions: setmaxnreg"',
    Meaning(unseen, on="machine"),
    params=("inc", "n"),
    operands=(reads("n", "imm"),),
    lanes=WHOLE_WARP,
    check=_check_count,
    doc="The warps of a warpgroup take registers of the CTA's pool (``inc``), or give some back, to have ``n`` each.",
)
for _name, _doc in (
    ("wait", "Waits until the grids that this one depends on have ended, and sees what they wrote."),
    ("launch_dependents", "The grids that depend on this one may begin."),
):
    single(
        f"ptx.griddepcontrol.{_name}",
        Ptx(f"griddepcontrol.{_name}"),
        since("sm_90"),
        GRIDS,
        Meaning(unseen, on="machine"),
        doc=_doc,
    )
