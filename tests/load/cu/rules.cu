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

__global__ void counts_and_reads(int* count, int* data, int* out) {  // whoever counts does not look
    data[blockIdx.x] = 1;
    __threadfence();
    atomicAdd(count, 1);
    __threadfence();
    out[blockIdx.x] = data[1 - blockIdx.x];
}

__global__ void bins_without_barrier(const int* in, int* out) {
    __shared__ int bins[4];
    if (threadIdx.x < 4) bins[threadIdx.x] = 0;
    atomicAdd(&bins[in[threadIdx.x] & 3], 1);
    __syncthreads();
    if (threadIdx.x < 4) out[threadIdx.x] = bins[threadIdx.x];
}

// Every thread fences what it stored and what it reads; thread 0 alone counts, and tells the others by shared memory.
__device__ unsigned int arrived = 0;
__global__ void last_of_all(int* partial, int* out, int without) {
    __shared__ bool is_last;
    partial[blockIdx.x * blockDim.x + threadIdx.x] = threadIdx.x;
    if (without != 1) __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) is_last = atomicInc(&arrived, gridDim.x - 1) == gridDim.x - 1;
    __syncthreads();
    if (!is_last) return;
    if (without != 2) __threadfence();
    int sum = 0;
    for (int b = 0; b < gridDim.x; ++b) sum += partial[b * blockDim.x + threadIdx.x];
    out[threadIdx.x] = sum;
}

// Reads through the cache of constants, of what a thread has written, or its neighbour.
__global__ void cached(const int* __restrict__ in, int* out, int* next, int step) {
    int t = threadIdx.x;
    out[t] = 2 * in[t];
    __syncthreads();
    if (step) next[t] = in[(t + step) % 32];
}

// One lane ends an m-barrier at which another lane of its warp has arrived, as pipelines of libcu++ do.
__global__ void ended_by_another(int* out) {
    __shared__ unsigned long long place;
    unsigned bar = __cvta_generic_to_shared(&place);
    unsigned long long state;
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: "r"(bar) : "memory");
    __syncwarp();
    if (threadIdx.x == 1) asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(state) : "r"(bar) : "memory");
    if (__any_sync(~0u, 1) && threadIdx.x == 0) asm volatile("mbarrier.inval.shared.b64 [%0];" :: "r"(bar) : "memory");
    *out = 1;
}

// One lane ends it for all lanes of its warp, which have arrived together and met since.
__global__ void ended_for_all(int* out) {
    __shared__ unsigned long long place;
    unsigned bar = __cvta_generic_to_shared(&place);
    unsigned long long state;
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], 32;" :: "r"(bar) : "memory");
    __syncwarp();
    asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(state) : "r"(bar) : "memory");
    if (__any_sync(~0u, 1) && threadIdx.x == 0) asm volatile("mbarrier.inval.shared.b64 [%0];" :: "r"(bar) : "memory");
    *out = 1;
}
