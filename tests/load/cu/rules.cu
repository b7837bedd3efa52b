// Small kernels, each about one rule of what is right and what is told.
__shared__ int outer[64];

__global__ void shared_of_the_file(int* out) {
    outer[threadIdx.x] = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = outer[63 - threadIdx.x];
}

__global__ void counted_by_block(unsigned* count) { atomicAdd_block(count, 1u); }

__device__ unsigned arrivals = 0;

__global__ void last_one_clears(volatile int* parts, int* out) {
    parts[blockIdx.x] = blockIdx.x;
    __threadfence();
    if (atomicInc(&arrivals, 1000u) == gridDim.x - 1) {
        int sum = 0;
        for (int b = 0; b < gridDim.x; ++b) sum += parts[b];
        *out = sum;
        arrivals = 0;
    }
}

__global__ void first_one_clears(unsigned* count) {
    if (atomicAdd(count, 1u) == 0) *count = 0;
}

__global__ void barrier_of_some_lanes(int* out) {
    if (threadIdx.x < 40) __syncthreads();
    out[threadIdx.x] = 1;
}

__global__ void barrier_of_the_first(int* out, int n) {
    if (threadIdx.x >= n) return;
    __syncwarp();
    __syncthreads();
    out[threadIdx.x] = 1;
}

__global__ void shuffle_from_ended(int* out, int n) {
    if (threadIdx.x >= n) return;
    out[threadIdx.x] = __shfl_xor_sync(0xffffffffu, out[threadIdx.x], 16);
}

__global__ void lockstep(int* out) {
    __shared__ int s[32];
    volatile int* v = s;
    int t = threadIdx.x;
    v[t] = t;
#pragma unroll 1
    for (int d = 16; d > 0; d /= 2)
        if (t < d) v[t] = v[t] + v[t + d];
    if (t == 0) *out = v[0];
}

__global__ void lane_tells_lane(int* out) {
    __shared__ volatile int flag;
    __shared__ int data;
    if (threadIdx.x == 0) flag = 0;
    __syncwarp();
    if (threadIdx.x == 0) {
        data = 7;
        __threadfence_block();
        flag = 1;
    } else if (threadIdx.x == 1) {
        while (flag == 0) {}
        __threadfence_block();
        *out = data;
    }
}

__global__ void largest(const float* in, float* out) {
    int* place = (int*)out;
    int old = *place, assumed;
    do {
        assumed = old;
        old = atomicCAS(place, assumed, __float_as_int(fmaxf(in[threadIdx.x], __int_as_float(assumed))));
    } while (old != assumed);
}

__global__ void peeks(int* count, int* out) {
    int seen = *count;
    atomicAdd(count, 1);
    if (seen == 3) *out = 1;
}

__global__ void halves(const int* in, int* sums, unsigned* votes) {
    unsigned mask = threadIdx.x < 16 ? 0xffffu : 0xffff0000u;
    sums[threadIdx.x] = __reduce_add_sync(mask, in[threadIdx.x]);
    votes[threadIdx.x] = __ballot_sync(mask, in[threadIdx.x] % 3 == 0);
}

__global__ void told_by_one_lane(int* count, int* out) {
    int base;
    if (threadIdx.x == 3) base = atomicAdd(count, 5);
    out[threadIdx.x] = __shfl_sync(0xffffffffu, base, 3) + threadIdx.x;
}

__global__ void asks_another_lane(int* out) {
    int base;
    if (threadIdx.x == 3) base = out[0];
    out[threadIdx.x] = __shfl_sync(0xffffffffu, base, 4);
}

__global__ void shifted(const int* a, int* b, int from, int to) {
    int i = threadIdx.x;
    b[i + to] = a[i + from];
}

__global__ void odd_ones(const int* values, int* sums) {  // the mask of the lanes that stay out names others
    int odd = values[threadIdx.x] & 1;
    unsigned mask = __ballot_sync(~0u, odd);
    mask = odd ? mask : ~mask;
    if (odd) sums[threadIdx.x] = __reduce_add_sync(mask, values[threadIdx.x]);
}
