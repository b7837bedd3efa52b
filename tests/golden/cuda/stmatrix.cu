// stmatrix_tile for sm_90a, made by tilewright.
// Launch: stmatrix_tile<<<dim3(1, 1, 1), 32>>>(A, B)
// Shared memory: 512 bytes.
// Floating point: one rounding per operation: compile with --fmad=false.
// Nothing that is written overlaps what is __restrict__: a call where it does gets a text without that.

// A warp stores 1, 2 or 4 matrices to shared memory; each lane gives a row's address and its fragment.
__device__ __forceinline__ void stmatrix_m8n8_x4_trans_b16(
    unsigned int p, unsigned int r0, unsigned int r1, unsigned int r2, unsigned int r3) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};"
               : : "r"(p), "r"(r0), "r"(r1), "r"(r2), "r"(r3) : "memory");
}

// Where a pointer points in the shared memory of the CTA: the 32-bit address that instructions take.
__device__ __forceinline__ unsigned int shared_address(const void* pointer) {
  return (unsigned int)__cvta_generic_to_shared(pointer);
}

extern "C" __global__ void __launch_bounds__(32)
stmatrix_tile(const unsigned short* __restrict__ A, unsigned short* B) {
  const int laneid = (int)(threadIdx.x % 32);
  __shared__ __align__(1024) unsigned char smem[512];
  unsigned short* B_smem = (unsigned short*)smem;
  alignas(16) unsigned short R[8];
  *(uint4*)(R) = *(const uint4*)(&A[laneid * 8]);
  // copy/ldstmatrix: stage.py:30
  stmatrix_m8n8_x4_trans_b16(shared_address(&B_smem[laneid % 32 * 8]), (unsigned int&)R[0], (unsigned int&)R[2], (unsigned int&)R[4], (unsigned int&)R[6]);
  __syncwarp();
  *(uint4*)(&B[laneid * 8]) = *(const uint4*)(&B_smem[laneid * 8]);
}
