"""What CUDA, Triton and CuTe call things, and what they are here: hints of unknown names, and a page of the docs."""

from __future__ import annotations

__all__ = ["NAMES", "hint_for"]

CUDA = {
    "syncthreads": "T.cuda.cta_sync()",
    "syncwarp": "T.cuda.warp_sync()",
    "threadfence": "T.cuda.thread_fence()",
    "threadfence_block": "T.cuda.thread_fence_block()",
    "threadfence_system": "T.cuda.thread_fence_system()",
    "ldg": "A[i]",
    "ldcg": 'T.ptx.ld(A.ptr_to([i]), sem="relaxed", scope="gpu")',
    "shfl_down": "T.cuda.shfl_down_sync(mask, value, delta)",
    "shfl_xor": "T.cuda.shfl_xor_sync(mask, value, lane_mask)",
    "ballot": "T.cuda.ballot_sync(mask, cond)",
    "atomicAdd": "T.cuda.atomic_add(A.ptr_to([i]), value)",
    "atomicCAS": "T.cuda.atomic_cas(A.ptr_to([i]), compare, value)",
    "atomicMax": "T.cuda.atomic_max(A.ptr_to([i]), value)",
    "threadIdx": "T.thread_id([x, y, z])",
    "blockIdx": "T.cta_id([x, y, z])",
    "blockDim": "the extent given to T.thread_id",
    "gridDim": "the extent given to T.cta_id",
    "warpSize": "32",
    "cvta": "T.cuda.cast_smem_ptr_to_uint(ptr)",
    "expf": "T.exp(x)",
    "fmaf": "T.fma(a, b, c)",
}
TRITON = {
    "tl.program_id": "T.cta_id([n])",
    "tl.num_programs": "the extent given to T.cta_id",
    "tl.arange": "T.thread_id([n]), or a region A[a:b]",
    "tl.load": "A[i], or Tx.cta.copy(registers, A[a:b])",
    "tl.store": "A[i] = value, or Tx.cta.copy(A[a:b], registers)",
    "tl.zeros": "T.alloc_local(shape) and Tx.cta.zero(tile)",
    "tl.dot": "T.ptx.mma(...)",
    "tl.where": "T.select(cond, a, b)",
    "tl.constexpr": "T.constexpr, under @T.jit",
    "tl.atomic_add": "T.cuda.atomic_add(A.ptr_to([i]), value)",
    "tl.debug_barrier": "T.cuda.cta_sync()",
    "tl.static_range": "T.unroll(n)",
    "tl.cdiv": "T.ceildiv(a, b)",
}
CUTE = {
    "cute.make_layout": "S[extents : strides]",
    "cute.make_tensor": "T.alloc_buffer(shape, dtype, scope=, layout=)",
    "cute.copy": "Tx.warp.copy(dst, src)",
    "cute.gemm": "T.ptx.mma(...)",
    "cute.local_tile": "a region, A[a:b, c:d]",
    "cute.make_swizzle": "SwizzleLayout(per_element, swizzle_len, atom_len)",
    "cute.arch.thread_idx": "T.thread_id([n])",
    "cute.arch.block_idx": "T.cta_id([n])",
    "cute.arch.sync_threads": "T.cuda.cta_sync()",
    "cute.arch.barrier": "T.cuda.cta_sync()",
}
NAMES = {**CUDA, **TRITON, **CUTE}
"""By their name, CUDA's without leading underscores."""


def hint_for(name: str) -> str | None:
    """What a name of theirs is here, for a hint: "T.cuda.syncwarp" is looked up whole, then by its last part."""
    last = name.rpartition(".")[2].lstrip("_")
    return NAMES.get(name) or NAMES.get(last) or NAMES.get(last.removesuffix("_sync"))
