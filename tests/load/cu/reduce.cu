// A sum by each CTA in shared memory, and one atomic to the total.
__global__ void reduce(const float* in, float* out, int n) {
    __shared__ float part[256];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    part[threadIdx.x] = i < n ? in[i] : 0.0f;
    __syncthreads();
    for (int step = blockDim.x / 2; step > 0; step /= 2) {
        if (threadIdx.x < step) part[threadIdx.x] += part[threadIdx.x + step];
#ifndef BUG
        __syncthreads();
#endif
    }
    if (threadIdx.x == 0) atomicAdd(out, part[0]);
}
