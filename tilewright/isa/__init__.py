"""What the hardware does: one file per instruction family; a row has its spelling, its rules and its exact meaning.

In the order in which to read:

    ldmatrix            one family as an example: the copies of matrices between shared memory and registers
    table, forms, operands, registers, effects
                        what a row is; its forms: how they are written, what they mean; its operands; its effects
    declared            what a row says of itself, checked where it is declared: words and names; what goes together
    agreed              what the functions of a row take and give, checked as they run
    arch, machine       where a form exists, and how many CTAs a GPU runs at once; what a meaning may ask of the
                        machine; the passes of shared memory
    calls               from ``T.ptx.name(...)`` to the row and back, and from a PTX mnemonic
    mma                 products of matrices in registers, with products, and by CuTe's names: atoms
    copy, cluster, places, atomics, multimem
                        memory, and the windows that addresses point into; atomic accesses, with an order and a scope
    sync, warp          threads that meet, order and tell each other; mbarrier: phases
    cp_async, bulk, tma asynchronous copies; boxes: which bytes a map of an array moves
    tcgen05             tensor memory; descriptors and descriptor_rows: how it finds matrices in shared memory
    tcgen05_mma, tcgen05_mma_values
                        products into tensor memory; instruction_descriptors: which product one computes
    wgmma               products of a warpgroup, on matrices of shared memory
    units               what asynchronous families have in common, and what carries them out
    math, arith         numbers of one thread, and the scalar rows that operators and casts are
    printing            ``printf``, functions of the run time and of others, and ways to stop
"""

import importlib
import pkgutil

from tilewright.isa import declared
from tilewright.isa.arch import *  # noqa: F403  # the room's public names are its modules' __all__  # noqa: F403
from tilewright.isa.atoms import *  # noqa: F403
from tilewright.isa.boxes import *  # noqa: F403
from tilewright.isa.calls import *  # noqa: F403
from tilewright.isa.descriptors import *  # noqa: F403
from tilewright.isa.instruction_descriptors import *  # noqa: F403
from tilewright.isa.machine import *  # noqa: F403
from tilewright.isa.mbarrier import *  # noqa: F403
from tilewright.isa.products import *  # noqa: F403
from tilewright.isa.table import *  # noqa: F403
from tilewright.isa.tcgen05 import *  # noqa: F403
from tilewright.isa.tcgen05_mma import *  # noqa: F403
from tilewright.isa.units import *  # noqa: F403
from tilewright.isa.warp import *  # noqa: F403
from tilewright.isa.wgmma import *  # noqa: F403

for _module in sorted(info.name for info in pkgutil.iter_modules(__path__)):  # noqa: F405  # Python's own
    importlib.import_module(f"{__name__}.{_module}")

declared.at_once = True  # from here on rows are those of others
