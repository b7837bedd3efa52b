#include <cuda_fp16.h>
__global__ void axpy(const __half2* x, __half2* y, __half a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
#ifdef BUG
    y[i] = __hfma2(__half2half2(a), x[i], y[i]);
#else
    if (i < n) y[i] = __hfma2(__half2half2(a), x[i], y[i]);
#endif
}
