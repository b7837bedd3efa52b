"""What the hardware does: one file per instruction family; a row has its spelling, its rules and its exact meaning.

In the order in which to read:

    ldmatrix            one family as an example: the copies of matrices between shared memory and registers
    forms, table        what a form is: its operands, how it is written, what it means, its effects; what a row is
    declared            what a row says of itself, checked where it is declared, and what its functions take and give,
                        checked as they run
    arch, machine       where a form exists, and how many CTAs a GPU runs at once; what a meaning may ask of the
                        machine, also of the units that carry out what is asynchronous
    places              operands that are registers or addresses, and the windows that addresses point into
    calls               from ``T.ptx.name(...)`` to the row and back, and from a PTX mnemonic
    mma                 products of matrices in registers, and by CuTe's names: atoms
    scalar              instructions of one thread on registers, with its loads and stores: a room of its own
    atomics             atomic accesses, with an order and a scope
    texture             texels, by coordinates that need not be inside
    sync, warp          threads that meet, order and tell each other, also in a cluster; mbarrier: phases
    cp_async, tma       asynchronous copies; boxes: which bytes a map of an array moves
    tcgen05             tensor memory; descriptors: how it finds matrices in shared memory, and which product is meant
    tcgen05_mma, wgmma  products into tensor memory; those of a warpgroup, on matrices of shared memory
    arith               numbers of one thread, and the scalar rows that operators and casts are
    printing            ``printf``, functions of the run time and of others, and ways to stop
"""

import importlib
import pkgutil

from tilewright.isa import declared
from tilewright.isa.arch import *  # noqa: F403  # the room's public names are its modules' __all__
from tilewright.isa.atoms import *  # noqa: F403
from tilewright.isa.boxes import *  # noqa: F403
from tilewright.isa.calls import *  # noqa: F403
from tilewright.isa.descriptors import *  # noqa: F403
from tilewright.isa.forms import *  # noqa: F403
from tilewright.isa.machine import *  # noqa: F403
from tilewright.isa.mbarrier import *  # noqa: F403
from tilewright.isa.mma import *  # noqa: F403
from tilewright.isa.table import *  # noqa: F403
from tilewright.isa.tcgen05 import *  # noqa: F403
from tilewright.isa.tcgen05_mma import *  # noqa: F403
from tilewright.isa.warp import *  # noqa: F403
from tilewright.isa.wgmma import *  # noqa: F403

for _module in sorted(info.name for info in pkgutil.iter_modules(__path__)):  # noqa: F405  # Python's own
    importlib.import_module(f"{__name__}.{_module}")

declared.at_once = True  # from here on rows are those of others
