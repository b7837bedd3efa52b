// The CTA that comes last adds up what all have left.
__device__ unsigned int arrived = 0;
__global__ void last_block(const float* in, float* partial, float* out) {
    __shared__ bool is_last;
    float v = in[blockIdx.x * 32 + threadIdx.x];
    for (int d = 16; d > 0; d /= 2) v += __shfl_down_sync(0xffffffff, v, d);
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = v;
#ifndef BUG
        __threadfence();
#endif
        is_last = atomicInc(&arrived, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (is_last && threadIdx.x == 0) {
        __threadfence();
        float sum = 0.0f;
        for (int b = 0; b < gridDim.x; ++b) sum += partial[b];
        *out = sum;
    }
}
