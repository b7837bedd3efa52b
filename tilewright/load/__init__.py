"""Kernels that others wrote, loaded and run: PTX texts, .cu files, and what Triton compiles.

In the order in which to read: declared, arguments, tensors, module, reach; of .cu files cu, cu_tree, cu_cut, cu_needed,
cu_dialect, cu_headers, cu_kept, cu_compile, cu_process, unoptimised, cu_structures, cu_variables, cu_advice, cu_guards,
strides; of their host code cu_numbers, cu_tensors, cu_host, cu_returned, cu_statics, cu_choices, cu_allocations,
cu_launches, cu_launcher, cu_conditions, cu_life, cu_arrays, cu_functions, cu_tensor_maps, cu_textures, cu_contents;
made_arguments, on_gpu, triton, numba.
"""

from tilewright.load.cu import load_cu
from tilewright.load.module import LoadedKernel, LoadedModule, load_ptx
from tilewright.load.numba import check_numba
from tilewright.load.triton import check_triton

__all__ = ["LoadedKernel", "LoadedModule", "check_numba", "check_triton", "load_cu", "load_ptx"]
