"""Kernels of libraries, end to end: a persistent product of CUTLASS's builders, and FlashInfer's attention for Hopper.

Their parameters are structures of some kilobytes with tensor maps in them, which the libraries' own code makes. Run as
``CUTLASS_SITE=... FLASHINFER=... python benchmarks/cutlass_kernels.py gemm``: the folder where nvidia-cutlass 4.2 is
unpacked, and `flashinfer/data/include` of flashinfer-python.

The product is clean but for a warning: all lanes of a warp begin each store of its epilogue. The attention (0.7.2) is
not: its threads arrive at the epilogue's barrier and then meet there, by the count of those that meet, so that one
warpgroup alone may end the meeting.
"""

from __future__ import annotations

import os
import sys
from time import monotonic
from typing import Any

import numpy as np

import tilewright as tw

STANDARD = "".join(
    f"#include <{name}>\n" for name in ("type_traits", "limits", "utility", "tuple", "array", "functional")
)
GEMM = """
#include <cutlass/cutlass.h>
#include <cute/tensor.hpp>
#include <cutlass/epilogue/collective/collective_builder.hpp>
#include <cutlass/gemm/collective/collective_builder.hpp>
#include <cutlass/gemm/dispatch_policy.hpp>
#include <cutlass/gemm/kernel/gemm_universal.hpp>
#include <cutlass/device_kernel.h>
using namespace cute;
using Half = cutlass::half_t;
using Blocks = Shape<_128, _128, _64>;
using Rows = cutlass::layout::RowMajor;
using Epilogue = cutlass::epilogue::collective::CollectiveBuilder<
    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Blocks, Shape<_1, _1, _1>,
    cutlass::epilogue::collective::EpilogueTileAuto, float, float, float, Rows, 4, float, Rows, 4,
    cutlass::epilogue::TmaWarpSpecializedCooperative>::CollectiveOp;
using Mainloop = cutlass::gemm::collective::CollectiveBuilder<
    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Half, Rows, 8, Half, cutlass::layout::ColumnMajor, 8, float,
    Blocks, Shape<_1, _1, _1>,
    cutlass::gemm::collective::StageCountAutoCarveout<static_cast<int>(sizeof(Epilogue::SharedStorage))>,
    cutlass::gemm::KernelTmaWarpSpecializedCooperative>::CollectiveOp;
using Gemm = cutlass::gemm::kernel::GemmUniversal<Shape<int, int, int, int>, Mainloop, Epilogue,
                                                  cutlass::gemm::PersistentScheduler>;
__global__ void arguments(Gemm::Params* params, const Half* a, const Half* b, float* d, int m, int n, int k,
                          int* size) {
  Gemm::Arguments made{cutlass::gemm::GemmUniversalMode::kGemm, {m, n, k, 1},
                       {a, Gemm::StrideA{k, {}, 0}, b, Gemm::StrideB{k, {}, 0}},
                       {{1.f, 0.f}, d, Gemm::StrideC{n, {}, 0}, d, Gemm::StrideD{n, {}, 0}}};
  made.hw_info.sm_count = 1;
  *params = Gemm::to_underlying_arguments(made, nullptr);
  size[0] = Gemm::SharedStorageSize;
  size[1] = Gemm::MaxThreadsPerBlock;
}
"""
ATTENTION = """
#define FLASHINFER_CUTLASS_UTILS_CUH_
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cute/tensor.hpp>
#include <cutlass/cutlass.h>
#include <cutlass/fast_math.h>
#include <cutlass/numeric_types.h>
namespace flashinfer {
template <class T> struct cutlass_dtype { using type = T; };
template <> struct cutlass_dtype<half> { using type = cutlass::half_t; };
template <> struct cutlass_dtype<nv_bfloat16> { using type = cutlass::bfloat16_t; };
template <class T> using cutlass_dtype_t = typename cutlass_dtype<T>::type;
}
#include <flashinfer/attention/hopper/prefill_sm90.cuh>
#include <flashinfer/attention/hopper/default_params.cuh>
#include <flashinfer/attention/hopper/variants.cuh>
using namespace flashinfer;
using Half = cutlass::half_t;
using Given = SinglePrefillParams<Half, Half, Half>;
using Traits = AttentionKernelTraits<true, 128, 128, 128, 128, 2, Half, Half, Half, int, StandardAttention>;
using Mainloop = CollectiveMainloop<Given::AdditionalParams, Traits, true>;
using Epilogue = CollectiveEpilogue<Traits>;
using Scheduler = SingleTileScheduler;
template <class T> __device__ void made(T* to, const T& from) { memcpy(to, &from, sizeof(T)); }
__global__ void arguments(Mainloop::Params* mainloop, Epilogue::Params* epilogue, Scheduler::Params* scheduler,
                          const Half* q, const Half* k, const Half* v, Half* o, float* lse, int rows, float scale,
                          int* size) {
  auto layout = get_gmem_layout(rows, 1, 128, 128, 128);
  made(mainloop, Mainloop::to_underlying_arguments({q, layout, k, layout, v, layout, -1,
                                                    {0.f, scale, nullptr, nullptr, nullptr}}));
  made(epilogue, Epilogue::to_underlying_arguments({o, layout, lse, get_lse_gmem_layout(rows, 1)}));
  made(scheduler, Scheduler::to_underlying_arguments({cutlass::ceil_div(rows, Traits::CTA_Q), 1, rows, rows,
                                                      cutlass::FastDivmod(1)}));
  size[0] = sizeof(Traits::SharedStorage);
  size[1] = Traits::NUM_WARPS * 32;
}
"""


def checked(text: str, name: str, args: tuple[Any, ...], grid: tuple[int, ...], include: list[str]) -> Any:
    """The verdict on one kernel whose arguments the text's own kernel makes; prints the seconds of each step."""
    size, began = np.zeros(2, np.int32), monotonic()
    module = tw.load_cu(STANDARD + text, include=include, kernels=["arguments", name], defines={"NDEBUG": "1"})
    print(f"loaded in {monotonic() - began:.1f} s", flush=True)
    made = module[name].arguments_by(module["arguments"], *args, size)
    launch: dict[str, Any] = {"grid": grid, "block": int(size[1]), "shared_bytes": int(size[0])}
    began = monotonic()
    verdict = tw.check(module[name], *made, both=False, **launch)  # NVRTC takes minutes for the unoptimised build
    print(
        f"{verdict}\nchecked in {monotonic() - began:.1f} s: {launch}; not covered: {verdict.not_covered}", flush=True
    )
    module[name].simulate(*made, check="none", **launch)
    return verdict


def gemm() -> float:
    """The largest difference from NumPy."""
    random, (m, n, k) = np.random.default_rng(0), (128, 256, 128)
    a, b = (random.standard_normal((rows, k)).astype(np.float16) for rows in (m, n))
    d = np.zeros((m, n), np.float32)
    checked(GEMM, "cutlass::device_kernel<Gemm>", (a, b, d, m, n, k), (1, 1, 1), [])
    return float(abs(d - a.astype(np.float32) @ b.astype(np.float32).T).max())


def attention() -> float:
    """The largest difference from NumPy."""
    random, rows = np.random.default_rng(0), 128
    q, k, v = (random.standard_normal((rows, 128)).astype(np.float16) for _ in range(3))
    o, lse, scale = np.zeros((rows, 128), np.float16), np.zeros(rows, np.float32), 128**-0.5
    name = "PrefillWithKVCacheKernel<Mainloop, Epilogue, Traits, false, true, Scheduler>"
    checked(ATTENTION, name, (q, k, v, o, lse, rows, scale), (1, 1, 1), [os.environ["FLASHINFER"]])
    scores = np.where(np.tri(rows, dtype=bool), q.astype(np.float32) @ k.astype(np.float32).T * scale, -np.inf)
    weights = np.exp(scores - scores.max(1, keepdims=True))
    return float(abs(o - weights / weights.sum(1, keepdims=True) @ v.astype(np.float32)).max())


if __name__ == "__main__":
    sys.path.append(os.environ["CUTLASS_SITE"])
    print("largest difference:", {"gemm": gemm, "attention": attention}[sys.argv[1]]())
