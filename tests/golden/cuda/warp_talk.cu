// warp_talk for sm_80, made by tilewright.
// Launch: warp_talk<<<dim3(1, 1, 1), 32>>>(a, h, out, bits)
// Floating point: one rounding per operation: compile with --fmad=false.

__device__ __forceinline__ unsigned short tw_fma_f16(unsigned short a, unsigned short b, unsigned short c) {
  unsigned short d;
  asm("fma.rn.f16 %0, %1, %2, %3;" : "=h"(d) : "h"(a), "h"(b), "h"(c));
  return d;
}

__device__ __forceinline__ float float32_from_float16(unsigned short a) {
  float d;
  asm("cvt.f32.f16 %0, %1;" : "=f"(d) : "h"(a));
  return d;
}

extern "C" __global__ void __launch_bounds__(32)
warp_talk(const float* a, const unsigned short* h, float* out, unsigned int* bits) {
  const int tid = (int)threadIdx.x;
  float x = expf(a[tid]);
  unsigned short y = tw_fma_f16(h[tid], h[tid], h[0]);
  x = x + (float)__shfl_xor_sync(0xffffffffu, x, 16, 32);
  y = (unsigned short)__shfl_down_sync(0xffffffffu, y, 1, 32);
  bits[tid] = __ballot_sync(0xffffffffu, x > 1.0f);
  atomicAdd((float*)(out), (float)(x));
  out[tid + 1] = sqrtf(float32_from_float16(y));
  __threadfence();
}
