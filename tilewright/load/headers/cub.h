// Names that CUB had before CCCL 3, for files that still use them.
#pragma once
#include <cuda/std/version>
#if CCCL_MAJOR_VERSION >= 3
namespace cub {
#define TILEWRIGHT_OPERATOR(name, result) \
  struct name { \
    template <class T, class U> __host__ __device__ constexpr auto operator()(const T& a, const U& b) const { return result; } \
  };
TILEWRIGHT_OPERATOR(Sum, a + b)
TILEWRIGHT_OPERATOR(Difference, a - b)
TILEWRIGHT_OPERATOR(Division, a / b)
TILEWRIGHT_OPERATOR(Max, a < b ? b : a)
TILEWRIGHT_OPERATOR(Min, b < a ? b : a)
TILEWRIGHT_OPERATOR(Equality, a == b)
TILEWRIGHT_OPERATOR(Inequality, a != b)
#undef TILEWRIGHT_OPERATOR
template <int N> struct Int2Type { enum { VALUE = N }; };
__device__ inline unsigned LaneId() { unsigned id; asm("mov.u32 %0, %%laneid;" : "=r"(id)); return id; }
__device__ inline unsigned WarpId() { unsigned id; asm("mov.u32 %0, %%warpid;" : "=r"(id)); return id; }
__device__ inline void CTA_SYNC() { __syncthreads(); }
__device__ inline int CTA_SYNC_AND(int p) { return __syncthreads_and(p); }
__device__ inline int CTA_SYNC_OR(int p) { return __syncthreads_or(p); }
__device__ inline void WARP_SYNC(unsigned mask) { __syncwarp(mask); }
__device__ inline int WARP_ANY(int p, unsigned mask) { return __any_sync(mask, p); }
__device__ inline int WARP_ALL(int p, unsigned mask) { return __all_sync(mask, p); }
__device__ inline int WARP_BALLOT(int p, unsigned mask) { return __ballot_sync(mask, p); }
}  // namespace cub
#endif
