// Kernels as people publish them, each with two bugs. A line that a report has to name ends in a mark.

__global__ void transpose(float* out, const float* in) {  // 32 x 32 threads, n = 32
    __shared__ float tile[32][33];
    int x = threadIdx.x, y = threadIdx.y;
    tile[y][x] = in[y * 32 + x + 1];  // bug: one element too far
    out[y * 32 + x] = tile[x][y];     // bug: no barrier
}

__global__ void block_sum(float* total, const float* in) {
    __shared__ float part[64];
    int t = threadIdx.x;
    part[t] = in[blockIdx.x * 64 + t];
    __syncthreads();
    for (int half = 32; half > 0; half /= 2)
        if (t < half) part[t] += part[t + half];  // bug: no barrier between turns
    __syncthreads();
    if (t == 0) *total += part[0];  // bug: a sum of several blocks without an atomic
}

__global__ void histogram(int* counts, const int* keys) {
    __shared__ int own[32];
    int t = threadIdx.x;
    if (t < 16) own[t] = 0;
    __syncthreads();
    atomicAdd(&own[keys[t] & 31], 1);  // bug: half of the counters was never set
    __syncthreads();
    if (t < 16) counts[t & 7] += own[t];  // bug: two threads a counter
}

__global__ void stencil(float* out, const float* in) {
    __shared__ float s[66];
    int t = threadIdx.x;
    s[t + 1] = in[t];
    if (t == 0) s[0] = in[64];  // bug: there are 64
    if (t == 63) s[65] = in[63];
    out[t] = s[t] + s[t + 1] + s[t + 2];  // bug: no barrier
}

__global__ void handover(float* data, int* flag, float* out, const float* in) {
    if (blockIdx.x == 0) {
        data[threadIdx.x] = in[threadIdx.x + 1];  // bug: one element too far
        __syncthreads();
        if (threadIdx.x == 0) atomicExch(flag, 1);
    } else {
        if (threadIdx.x == 0) while (atomicAdd(flag, 0) == 0) {}
        __syncthreads();
        out[threadIdx.x] = data[threadIdx.x];  // bug: no fences beside the flag
    }
}

__global__ void scan(int* out, const int* in) {
    __shared__ int s[64];
    int t = threadIdx.x;
    s[t] = in[t];
    __syncthreads();
    for (int d = 1; d < 64; d *= 2) {
        int v = t >= d ? s[t - d] : 0;
        s[t] += v;  // bug: no barrier behind the read
        __syncthreads();
    }
    out[t] = s[t] + in[t + 1];  // bug: one element too far
}

__global__ void softmax(float* out, const float* in) {
    __shared__ float most[2], sums[2];
    int t = threadIdx.x;
    float x = in[t], m = x;
    for (int k = 16; k; k /= 2) m = fmaxf(m, __shfl_xor_sync(~0u, m, k));
    if (t % 32 == 0) most[t / 32] = m;
    m = fmaxf(most[0], most[1]);  // bug: no barrier
    float e = expf(x - m), sum = e;
    for (int k = 16; k; k /= 2) sum += __shfl_xor_sync(~0u, sum, k);
    if (t % 32 == 0) sums[t / 32] = sum;
    out[t] = e / (sums[0] + sums[1]);  // bug: no barrier
}

__global__ void product(float* c, const float* a, const float* b) {  // 16 x 16 threads, n = 32
    __shared__ float x[16][16], y[16][16];
    int i = threadIdx.y, j = threadIdx.x;
    float sum = 0;
    for (int k = 0; k < 32; k += 16) {
        __syncthreads();
        x[i][j] = a[i * 32 + k + j + 1];  // bug: one element too far
        y[i][j] = b[(k + i) * 16 + j];
        for (int n = 0; n < 16; n++) sum += x[i][n] * y[n][j];  // bug: no barrier in front
    }
    c[i * 16 + j] = sum;
}

__global__ void last_block(float* parts, unsigned* count, float* out) {
    __shared__ bool last;
    if (threadIdx.x == 0) {
        parts[blockIdx.x] = blockIdx.x;
        last = atomicAdd(count, 1) == gridDim.x - 1;
    }
    if (last && threadIdx.x < 2) out[threadIdx.x] = parts[threadIdx.x];  // bug: no barrier; bug: no fence
}

__global__ void counters(int* odd, int* even, const int* keys) {
    int k = keys[threadIdx.x];
    if (k & 1) *odd = *odd + 1;  // bug: no atomic
    else *even = *even + 1;      // bug: no atomic
}
