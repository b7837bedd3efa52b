"""What a tile call becomes: the dispatcher, and a folder per primitive with a file per variant.

In the order in which to read:

    resolve, dispatch
                      the pass over a kernel; how a variant is chosen, and what it may answer
    passes            what the copy engine asks of shared memory; scalars in registers that are variables before all
                      else; registers that setmaxnreg moves between warpgroups
    call, scope       a call as variants see it: the tiles, and the threads that execute it, their scratch and barriers
    conditions        conditions of variants, and changes that might help; report: the decisions
    runs, one_by_one  the variants of copies, fills and computations alike
    copy, copy_async, im2col_async, fill, elementwise, reduce, scan, permute_layout, gemm, gemm_async
                      the others
    walks, partition  tables of addresses, and the way back from a table to an expression
    inside, values    regions that may leave their buffer; the value of a fill
    owners, elements  which thread holds which register; the formula of an elementwise call
    distribution, flow, round_loops
                      how threads divide the elements of a call, also with extents of the run; and the loops
    matrices          what the variants with ldmatrix and stmatrix share; the layouts of operands that reports propose
    boxes             how a tile is boxes of an array, or stretches of bytes; arrays that are spread over several GPUs
    cells, tmem_copies
                      what those with tensor memory share
    smem_descriptors  where the tensor cores find matrices in shared memory, and scales in tensor memory
    reductions, deals
                      arithmetic, partial results, prefixes, and how threads divide a memory
    staging, scaling  products: which registers hold what; operands from memory; alpha and beta
    builder           writing the statements
    steps, pieces     calls inside of a call, with scratch between them; calls of boxes
"""

import importlib
import pkgutil

from tilewright.tile.passes import check_registers, promised, with_swizzles
from tilewright.tile.resolve import DispatchReport, Entry, resolve

__all__ = ["DispatchReport", "Entry", "check_registers", "promised", "resolve", "with_swizzles"]

for _module in sorted(info.name for info in pkgutil.walk_packages(__path__, f"{__name__}.")):
    importlib.import_module(_module)
