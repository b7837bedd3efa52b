"""What the hardware does: one file per instruction family; a row has its spelling, its rules and its exact meaning.

In the order in which to read:

    ldmatrix            one family as an example
    table, forms, operands, effects
                        what a row is; its forms: how they are written, what they mean; its operands; its effects
    declared            what a row says of itself, checked where it is declared: words and names; what goes together
    agreed              what the functions of a row take and give, checked as they run
    arch, machine       where a form exists; what a meaning may ask of the machine
    residency, banks    how many CTAs a GPU runs at once, which launches none takes; the passes of shared memory
    calls, spelling     from ``T.ptx.name(...)`` to the row and back; from a PTX mnemonic to the row
    stmatrix, movmatrix, mma, mma_families, mma_sparse
                        matrices in registers, with fragments, products, widen, and by CuTe's names: atoms, majorness
    copy, shared_addresses, cluster, atomics
                        memory, and the windows that addresses point into
    atom_red            atomic accesses, with an order and a scope; places: which memory, which scopes, for these and
                        for the loads and stores of scalar/memory
    sync, fences, warp  threads that meet, order and tell each other; mbarrier: phases, by the bits of mbarrier_state
    tcgen05_alloc, tcgen05_ldst, tcgen05_cp, tcgen05_sync
                        tensor memory; descriptors and descriptor_rows: how it finds matrices in shared memory
    tcgen05_mma, tcgen05_mma_places, tcgen05_mma_values
                        products into tensor memory; instruction_descriptors: which product one computes
    wgmma, wgmma_values, wgmma_atoms
                        products of a warpgroup, on matrices of shared memory
    operations, units   what asynchronous families have in common; what carries operations out
    math, fma, bits, randoms, arith, convert, saturating, casts, extremes, rounded, linear
                        numbers of one thread
    printing            ``printf``, and ways to stop
"""

import importlib
import pkgutil

from tilewright.isa import declared
from tilewright.isa.arch import *  # noqa: F403  # the room's public names are its modules' __all__
from tilewright.isa.atoms import *  # noqa: F403
from tilewright.isa.boxes import *  # noqa: F403
from tilewright.isa.calls import *  # noqa: F403
from tilewright.isa.descriptors import *  # noqa: F403
from tilewright.isa.instruction_descriptors import *  # noqa: F403
from tilewright.isa.machine import *  # noqa: F403
from tilewright.isa.majorness import *  # noqa: F403
from tilewright.isa.mbarrier_state import *  # noqa: F403
from tilewright.isa.products import *  # noqa: F403
from tilewright.isa.residency import *  # noqa: F403
from tilewright.isa.spelling import *  # noqa: F403
from tilewright.isa.table import *  # noqa: F403  # noqa: F403
from tilewright.isa.tcgen05_alloc import *  # noqa: F403
from tilewright.isa.tcgen05_cp import *  # noqa: F403
from tilewright.isa.tcgen05_ldst import *  # noqa: F403
from tilewright.isa.tcgen05_mma import *  # noqa: F403
from tilewright.isa.units import *  # noqa: F403
from tilewright.isa.warp import *  # noqa: F403
from tilewright.isa.wgmma import *  # noqa: F403
from tilewright.isa.wgmma_atoms import *  # noqa: F403

for _module in sorted(info.name for info in pkgutil.iter_modules(__path__)):  # noqa: F405  # Python's own
    importlib.import_module(f"{__name__}.{_module}")

declared.at_once = True  # from here on rows are those of others
