"""What CUDA, Triton, CuTe and NumPy call things, and what they are here: for hints, and for a page of the docs."""

from __future__ import annotations

import ast

__all__ = ["NAMES", "PAGES", "hint_for", "hint_for_keyword", "hint_for_python"]

_SCAN = 'Tx.cta.scan(dst, src, axis=-1, op="sum")'
_GEMM = "Tx.warp.gemm(D, A, B, C), or one instruction: T.ptx.mma(...)"
_COPY_ASYNC = "Tx.cta.copy_async(shared, A[a:b]), or one copy: T.ptx.cp_async(dst, src, nbytes)"
_COMMIT, _WAIT = "T.ptx.cp_async.commit_group()", "T.ptx.cp_async.wait_group(n), then T.cuda.cta_sync()"
_GRID_SYNC = "the end of the kernel: CTAs of one launch have no barrier"
_EXTENT = "the extent given to T."

CUDA = {
    "syncthreads": "T.cuda.cta_sync()",
    "syncwarp": "T.cuda.warp_sync()",
    "threadfence": "T.cuda.thread_fence()",
    "threadfence_block": "T.cuda.thread_fence_block()",
    "threadfence_system": "T.cuda.thread_fence_system()",
    "ldg": "A[i]",
    "ldcg": 'T.ptx.ld(A.ptr_to([i]), sem="relaxed", scope="gpu")',
    "ldcs": "A[i]",
    "stcg": "A[i] = value",
    "stcs": "A[i] = value",
    "shfl": "T.cuda.shfl_sync(mask, value, lane)",
    "shfl_up": "T.cuda.shfl_up_sync(mask, value, delta)",
    "shfl_down": "T.cuda.shfl_down_sync(mask, value, delta)",
    "shfl_xor": "T.cuda.shfl_xor_sync(mask, value, lane_mask)",
    "ballot": "T.cuda.ballot_sync(mask, cond)",
    "activemask": "T.cuda.activemask()",
    "reduce_add": "T.cuda.reduce_add_sync(mask, value)",
    "atomicAdd": "T.cuda.atomic_add(A.ptr_to([i]), value)",
    "atomicSub": "T.cuda.atomic_sub(A.ptr_to([i]), value)",
    "atomicCAS": "T.cuda.atomic_cas(A.ptr_to([i]), compare, value)",
    "atomicExch": "T.cuda.atomic_exch(A.ptr_to([i]), value)",
    "atomicMax": "T.cuda.atomic_max(A.ptr_to([i]), value)",
    "atomicMin": "T.cuda.atomic_min(A.ptr_to([i]), value)",
    "atomicAnd": "T.cuda.atomic_and(A.ptr_to([i]), value)",
    "atomicOr": "T.cuda.atomic_or(A.ptr_to([i]), value)",
    "atomicXor": "T.cuda.atomic_xor(A.ptr_to([i]), value)",
    "atomicInc": "T.ptx.atom.inc(A.ptr_to([i]), value)",
    "threadIdx": "T.thread_id([x, y, z])",
    "blockIdx": "T.cta_id([x, y, z])",
    "blockDim": f"{_EXTENT}thread_id",
    "gridDim": f"{_EXTENT}cta_id",
    "warpSize": "32",
    "shared": "T.alloc_shared(shape, dtype)",
    "cvta": "T.cuda.cast_smem_ptr_to_uint(ptr)",
    "cp_async": _COPY_ASYNC,
    "cp_async_commit_group": _COMMIT,
    "cp_async_wait_group": _WAIT,
    "cp_async_bulk": "T.ptx.cp_async_bulk_g2s_cta(dst, src, nbytes, bar)",
    "memcpy_async": _COPY_ASYNC,
    "pipeline_memcpy_async": _COPY_ASYNC,
    "pipeline_commit": _COMMIT,
    "pipeline_wait_prior": _WAIT,
    "memcpy": "T.cuda.copy_bytes(dst, src, nbytes), or Tx.copy(dst, src)",
    "grid_sync": _GRID_SYNC,
    "this_grid": _GRID_SYNC,
    "mma_sync": _GEMM,
    "load_matrix_sync": "Tx.warp.copy(fragment, A[a:b, c:d])",
    "store_matrix_sync": "Tx.warp.copy(A[a:b, c:d], fragment)",
    "fill_fragment": "Tx.warp.fill(fragment, value)",
    "expf": "T.exp(x)",
    "exp2f": "T.exp2(x)",
    "logf": "T.log(x)",
    "log2f": "T.log2(x)",
    "sqrtf": "T.sqrt(x)",
    "rsqrtf": "T.rsqrt(x)",
    "sinf": "T.sin(x)",
    "cosf": "T.cos(x)",
    "tanhf": "T.tanh(x)",
    "erff": "T.erf(x)",
    "powf": "T.pow(x, y)",
    "fabsf": "T.fabs(x)",
    "floorf": "T.floor(x)",
    "ceilf": "T.ceil(x)",
    "fmaxf": "T.fmax(a, b)",
    "fminf": "T.fmin(a, b)",
    "fmaf": "T.fma(a, b, c)",
    "fdividef": "a / b",
    "popc": "T.popcount(x)",
    "clock64": "T.cuda.clock()",
    "float2half": 'T.cast(x, "float16")',
    "half2float": 'T.cast(x, "float32")',
    "float2bfloat16": 'T.cast(x, "bfloat16")',
    "float_as_int": 'T.reinterpret("int32", x)',
    "int_as_float": 'T.reinterpret("float32", x)',
    "float_as_uint": 'T.reinterpret("uint32", x)',
    "make_float4": "T.float32x4(a, b, c, d)",
    "dim3": "a list: [x, y, z]",
}
TRITON = {
    "tl.program_id": "T.cta_id([n])",
    "tl.num_programs": f"{_EXTENT}cta_id",
    "tl.arange": "T.thread_id([n]), or a region A[a:b]",
    "tl.load": "A[i], or Tx.cta.copy(registers, A[a:b], fill=0), which needs no mask",
    "tl.store": "A[i] = value, or Tx.cta.copy(A[a:b], registers, clip=True), which needs no mask",
    "tl.zeros": 'T.alloc_buffer(shape, dtype, scope="local", layout=) and Tx.cta.zero(tile)',
    "tl.full": 'T.alloc_buffer(shape, dtype, scope="local", layout=) and Tx.cta.fill(tile, value)',
    "tl.dot": _GEMM,
    "tl.sum": "T.sum(x, axis=1), or Tx.cta.sum(dst, src, axes=1)",
    "tl.max": "T.max(x, axis=1), or Tx.cta.max(dst, src, axes=1)",
    "tl.min": "T.min(x, axis=1), or Tx.cta.min(dst, src, axes=1)",
    "tl.argmax": "T.argmax(x, axis=1), or Tx.cta.argmax(dst, src, axes=1)",
    "tl.argmin": "T.argmin(x, axis=1), or Tx.cta.argmin(dst, src, axes=1)",
    "tl.reduce": "T.sum, T.prod, T.max, T.min, T.any, T.all, T.argmax, T.argmin",
    "tl.cumsum": _SCAN,
    "tl.cumprod": 'Tx.cta.scan(dst, src, axis=-1, op="prod")',
    "tl.associative_scan": _SCAN,
    "tl.softmax": "T.exp(x - m[:, None]) and T.sum, see docs/elementwise.md; tilewright.kernels.softmax",
    "tl.exp": "T.exp(x)",
    "tl.sigmoid": "T.sigmoid(x)",
    "tl.where": "T.select(cond, a, b)",
    "tl.maximum": "T.maximum(a, b)",
    "tl.minimum": "T.minimum(a, b)",
    "tl.trans": "A.permute(1, 0)",
    "tl.reshape": "A.view(*shape)",
    "tl.broadcast_to": "x[:, None], which broadcasts",
    "tl.expand_dims": "x[:, None]",
    "tl.constexpr": "T.constexpr, under @T.jit",
    "tl.atomic_add": "T.cuda.atomic_add(A.ptr_to([i]), value)",
    "tl.atomic_max": "T.cuda.atomic_max(A.ptr_to([i]), value)",
    "tl.atomic_cas": "T.cuda.atomic_cas(A.ptr_to([i]), compare, value)",
    "tl.debug_barrier": "T.cuda.cta_sync()",
    "tl.static_range": "T.unroll(n)",
    "tl.range": "range(n)",
    "tl.static_assert": "assert, on Python values",
    "tl.device_assert": "T.cuda.device_assert(cond)",
    "tl.device_print": "T.printf(format, values)",
    "tl.multiple_of": "T.assume(n % 8 == 0)",
    "tl.make_block_ptr": "a region, A[a:b, c:d]",
    "tl.advance": "a region with another start, A[a + n:b + n]",
    "tl.cdiv": "T.ceildiv(a, b)",
    "triton.jit": "@T.prim_func, or @T.jit with T.constexpr parameters",
}
CUTE = {
    "cute.make_layout": "S[extents : strides]",
    "cute.make_tensor": "T.alloc_buffer(shape, dtype, scope=, layout=)",
    "cute.make_rmem_tensor": "T.alloc_local(shape, dtype)",
    "cute.make_fragment": 'T.alloc_buffer(shape, dtype, scope="local", layout=)',
    "cute.copy": "Tx.warp.copy(dst, src)",
    "cute.autovec_copy": "Tx.copy(dst, src)",
    "cute.gemm": _GEMM,
    "cute.local_tile": "a region, A[a:b, c:d]",
    "cute.local_partition": "a region, A[a:b, c:d], shared out by the layout of the registers",
    "cute.zipped_divide": "a region, A[a:b, c:d]",
    "cute.composition": "layout.tile(...), ComposeLayout(swizzle, layout)",
    "cute.make_swizzle": "SwizzleLayout(per_element, swizzle_len, atom_len)",
    "cute.make_tiled_copy": "Tx.cta.copy(dst, src), which shares out the elements",
    "cute.make_tiled_mma": _GEMM,
    "cute.make_identity_tensor": "regions that leave their buffer: clip=True, fill=0",
    "cute.elem_less": "clip=True, fill=0",
    "cute.size": "the extents of A.shape, multiplied",
    "cute.ceil_div": "T.ceildiv(a, b)",
    "cute.printf": "T.printf(format, values)",
    "cute.kernel": "@T.prim_func",
    "cute.jit": "@T.inline, or a Python function",
    "cute.arch.thread_idx": "T.thread_id([n])",
    "cute.arch.block_idx": "T.cta_id([n])",
    "cute.arch.lane_idx": "T.lane_id([32])",
    "cute.arch.warp_idx": "T.warp_id([n])",
    "cute.arch.block_dim": f"{_EXTENT}thread_id",
    "cute.arch.grid_dim": f"{_EXTENT}cta_id",
    "cute.arch.sync_threads": "T.cuda.cta_sync()",
    "cute.arch.sync_warp": "T.cuda.warp_sync()",
    "cute.arch.barrier": "T.cuda.cta_sync()",
    "cute.arch.cp_async_commit_group": _COMMIT,
    "cute.arch.cp_async_wait_group": _WAIT,
    "cute.arch.elect_one": "if T.ptx.elect_sync():",
    "cute.arch.mbarrier_init": "T.ptx.mbarrier.init(bar, count)",
    "cute.arch.mbarrier_wait": "T.ptx.mbarrier.try_wait(bar, phase)",
    "cute.arch.mbarrier_arrive": "T.ptx.mbarrier.arrive(bar)",
}
NUMPY = {
    "mean": "T.sum(x, axis=1) * (1 / n)",
    "var": "m[:] = T.sum(x, axis=1) * (1 / n), then T.sum((x - m[:, None]) ** 2, axis=1) * (1 / n)",
    "std": "T.sqrt of the variance",
    "scan": _SCAN,
    "cumsum": _SCAN,
    "cumprod": 'Tx.cta.scan(dst, src, axis=-1, op="prod")',
    "softmax": "T.exp(x - m[:, None]) and T.sum; tilewright.kernels.softmax",
    "matmul": _GEMM,
    "dot": _GEMM,
    "zeros": "T.alloc_local(shape, dtype) and Tx.fill(tile, 0)",
    "zeros_like": "T.alloc_local(shape, dtype) and Tx.fill(tile, 0)",
    "empty": "T.alloc_local(shape, dtype)",
    "where": "T.select(cond, a, b)",
    "load": "A[i], or Tx.cta.copy(registers, A[a:b], fill=0), which needs no mask",
    "store": "A[i] = value, or Tx.cta.copy(A[a:b], registers, clip=True), which needs no mask",
    "arange": "T.thread_id([n]), or a region A[a:b]",
    "program_id": "T.cta_id([n])",
    "cdiv": "T.ceildiv(a, b)",
    "clamp": "T.min(T.max(x, low), high)",
    "clip": "T.min(T.max(x, low), high); of regions, the keyword clip=True",
    "square": "x * x",
    "astype": 'T.cast(x, "float16")',
    "transpose": "A.permute(1, 0)",
    "reshape": "A.view(*shape)",
    "amax": "T.max(x, axis=1)",
    "parallel": "T.thread_id([n])",
    "Parallel": "T.thread_id([n]), or Tx.cta.copy and its kin, which share out the elements",
    "Pipelined": "T.PipelineState(depth) and Tx.cta.copy_async(...)",
    "alloc_fragment": 'T.alloc_buffer(shape, dtype, scope="local", layout=)',
    "copy": "Tx.copy(dst, src), Tx.cta.copy(dst, src)",
    "gemm": _GEMM,
    "clear": "Tx.cta.zero(tile)",
}
PAGES = {"CUDA": CUDA, "Triton": TRITON, "CuTe": CUTE, "NumPy, torch, TileLang": NUMPY}
"""The tables of names by their origin; CUDA's names are without leading underscores."""
NAMES = {name: here for names in PAGES.values() for name, here in names.items()}

_INSIDE = "if cond: around a thread's own access; of regions fill=0 (loads) or clip=True (stores), which need no mask"
KEYWORDS = {
    "mask": _INSIDE,
    "other": "fill=0, the value of what is outside of a buffer",
    "boundary_check": _INSIDE,
    "padding_option": "fill=0, the value of what is outside of a buffer",
    "predicate": _INSIDE,
    "pred": _INSIDE,
    "axis": "axes=",
    "dim": "axes=",
}
"""Keywords of tile calls elsewhere."""


def hint_for(name: str) -> str | None:
    """What a name of theirs is here, for a hint: "T.cuda.syncwarp" is looked up whole, then by its last part."""
    bare = name.rpartition(".")[2].lstrip("_")
    for each in (name, bare, bare.removesuffix("_sync"), f"tl.{bare}", f"cute.{bare}", f"cute.arch.{bare}"):
        if each in NAMES:
            return NAMES[each]
    return None


def hint_for_keyword(name: str) -> str | None:
    """What a keyword of theirs is here."""
    return KEYWORDS.get(name)


PYTHON = {
    "pow": "T.pow(x, y); x * x for a square",
    "divmod": "x // y and x % y",
    "int": 'T.cast(x, "int32")',
    "float": 'T.cast(x, "float32")',
    "round": "T.round(x)",
    "reversed": "range(n - 1, -1, -1)",
    "sorted": "T.min(x, y) and T.max(x, y)",
    "sum": "Tx.cta.sum(dst, src), or a loop over range(n)",
    "len": "A.shape[0]",
}
"""Functions that Python has for numbers, but that cannot take values of run time."""
MATH = frozenset({"ceil", "cos", "erf", "exp", "exp2", "floor", "isinf", "isnan"}) | {
    "log", "log2", "pow", "sin", "sqrt", "tanh", "trunc"
}  # fmt: skip
"""Functions of `math` and NumPy that `T` has by the same name."""


def hint_for_python(node: ast.AST) -> str | None:
    """What does what Python's own function or operator was asked for."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        return PYTHON["pow"]
    if not isinstance(node, ast.Call):
        return None
    if isinstance(node.func, ast.Attribute):
        return f"T.{node.func.attr}" if node.func.attr in MATH else None
    return PYTHON.get(node.func.id) if isinstance(node.func, ast.Name) else None
