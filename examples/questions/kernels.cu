// Kernels with one mistake each, as people have asked about them; docs/howto/questions.md has what is said of each.

__global__ void table(float* out) {
    __shared__ float tile[32];
    if (threadIdx.x < 32) tile[threadIdx.x] = threadIdx.x;
    out[threadIdx.x] = tile[threadIdx.x % 32];
}

__global__ void exchange(float* out) {
    __shared__ float tile[32];
    tile[threadIdx.x] = threadIdx.x;
    if (threadIdx.x % 2 == 0) {
        float a = tile[threadIdx.x];
        __syncthreads();
        tile[threadIdx.x ^ 1] = a;
    }
    out[threadIdx.x] = tile[threadIdx.x];
}

__global__ void transpose(const float* in, float* out) {
    __shared__ float tile[32 * (32 + 1)];  // padded, but no index knows it
    tile[threadIdx.y * 32 + threadIdx.x] = in[threadIdx.y * 32 + threadIdx.x];
    __syncthreads();
    out[threadIdx.y * 32 + threadIdx.x] = tile[threadIdx.x * 32 + threadIdx.y];
}

__global__ void copy16(const float2* in, float2* out) {
    *(int4*)(out + threadIdx.x) = *(const int4*)(in + threadIdx.x);
}

__global__ void gather(const int* values, const int* bins, int* out, int n, int stride) {
    int i = threadIdx.x;
    if (i < n) out[i] = values[i] + bins[i * stride];
}
