"""What a tile call becomes: the dispatcher, and the variants of each primitive.

Its concepts: a *call* has *sides*, the tiles, and a *scope*, the threads. A *variant* answers with a *plan*, or
declines with changes that would help. *Places* are a side's addresses as tables, *owners* the threads that hold its
registers; an *offset* is the way back to code. A *distribution* says which thread takes which elements: by tables, or
by arithmetic on coordinates, which number *runs*, and *lines* where elements are joined, whose *partial results* meet.
*Matrices* are what instructions of a warp take, *boxes* what the copy engine takes. *Steps* are calls inside of a
call; the *builder* writes.

In the order in which to read:

    resolve, dispatch
                      the pass over a kernel and its report, after passes that settle what the copy engine asks of
                      shared memory, and registers; how a variant is chosen, and what it may answer
    call, scope       a call as variants see it: the tiles, and the threads that execute it, their scratch and barriers
    conditions        conditions of variants, and changes that might help
    elementwise       the variants of copies, fills and computations alike, and those of fills
    copy, copy_async, tmem_copies, reduce, scan, permute_layout, gemm, gemm_async
                      the others, by the primitive, and where a file would be too long by the instruction
    walks, partition  tables of addresses, in tensor memory of cells, and the way back from a table to an expression
    owners, elements  which thread holds which register, and which elements are inside of their buffer; the formula of
                      an elementwise call
    distribution, runs, round_loops
                      how threads divide the elements of a call, also with extents of the run; and the loops
    matrices          what the variants with ldmatrix and stmatrix share; the layouts of operands that reports propose
    boxes             how a tile is boxes of an array, or stretches of bytes; arrays that are spread over several GPUs
    smem_descriptors  where the tensor cores find matrices in shared memory, and scales in tensor memory; the changes
                      with which they would take a product
    reductions        arithmetic and partial results of reductions and scans
    staging           products: which registers hold what; operands from memory
    steps             writing the statements; calls inside of a call, with scratch between them, or of boxes
"""

import importlib
import pkgutil

from tilewright.tile.resolve import DispatchReport, Entry, check_registers, promised, resolve, with_swizzles

__all__ = ["DispatchReport", "Entry", "check_registers", "promised", "resolve", "with_swizzles"]

for _module in sorted(info.name for info in pkgutil.iter_modules(__path__, f"{__name__}.")):
    importlib.import_module(_module)
