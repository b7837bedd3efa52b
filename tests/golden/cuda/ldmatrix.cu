// ldmatrix_tile for sm_75, made by tilewright.
// Launch: ldmatrix_tile<<<dim3(1, 1, 1), 32>>>(A, B)
// Shared memory: 256 bytes.
// Floating point: one rounding per operation: compile with --fmad=false.
// Nothing that is written overlaps what is __restrict__: a call where it does gets a text without that.

// A warp loads 1, 2 or 4 matrices from shared memory; each lane gives a row's address and gets its fragment.
__device__ __forceinline__ void ldmatrix_m8n8_x2_trans_b16(unsigned int& r0, unsigned int& r1, unsigned int p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
               : "=r"(r0), "=r"(r1) : "r"(p) : "memory");
}

// Where a pointer points in the shared memory of the CTA: the 32-bit address that instructions take.
__device__ __forceinline__ unsigned int shared_address(const void* pointer) {
  return (unsigned int)__cvta_generic_to_shared(pointer);
}

extern "C" __global__ void __launch_bounds__(32)
ldmatrix_tile(const unsigned short* __restrict__ A, unsigned short* B) {
  const int laneid = (int)(threadIdx.x % 32);
  __shared__ __align__(1024) unsigned char smem[256];
  unsigned short* A_smem = (unsigned short*)smem;
  alignas(16) unsigned short R[4];
  if (laneid < 16) {
    *(uint4*)(&A_smem[laneid * 8]) = *(const uint4*)(&A[laneid * 8]);
  }
  __syncthreads();
  // copy/ldstmatrix: stage.py:21
  void* smem_ptr = &A_smem[laneid % 16 * 8];
  #pragma unroll
  for (int outer = 0; outer < 1; ++outer) {
    ldmatrix_m8n8_x2_trans_b16((unsigned int&)R[outer * 2 * 2], (unsigned int&)R[outer * 2 * 2 + 2], shared_address(smem_ptr));
  }
  #pragma unroll
  for (int i = 0; i < 4; ++i) {
    B[laneid * 4 + i] = R[i];
  }
}
