// register_copy for sm_90a, made by tilewright.
// Launch: register_copy<<<dim3(1, 1, 1), 32>>>(A, B)
// Shared memory: 1024 bytes.
// Floating point: one rounding per operation: compile with --fmad=false.
// Nothing that is written overlaps what is __restrict__: a call where it does gets a text without that.

extern "C" __global__ void __launch_bounds__(32)
register_copy(const float* __restrict__ A, float* B) {
  const int laneid = (int)(threadIdx.x % 32);
  __shared__ __align__(1024) unsigned char smem[1024];
  float* A_smem = (float*)smem;
  alignas(16) float R[8];
  for (int f = 0; f < 2; ++f) {
    *(uint4*)(&A_smem[laneid * 4 + f * 128]) = *(const uint4*)(&A[laneid * 4 + f * 128]);
  }
  __syncwarp();
  // copy/reg: reg.py:12
  #pragma unroll
  for (int g = 0; g < 2; ++g) {
    *(uint4*)(&R[g * 4]) = *(const uint4*)(&A_smem[laneid * 4 + g * 128]);
  }
  #pragma unroll
  for (int h = 0; h < 2; ++h) {
    *(uint4*)(&B[laneid * 4 + h * 128]) = *(const uint4*)(&R[h * 4]);
  }
}
