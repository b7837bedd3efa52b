// C = A * B^T, 128 x 64 x 64 in bfloat16, by the tensor cores of a Blackwell: one thread issues, each thread stores a row.
typedef unsigned long long u64;
__device__ unsigned shared_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }

// Groups of 8 rows of 16 bytes, without a swizzle; `rows` of them for each 16 bytes along K.
__device__ u64 descriptor(unsigned start, unsigned rows) {
    return (u64)(start >> 4) | (u64)rows << 16 | (u64)(128 >> 4) << 32 | 1ull << 46;
}
__device__ void multiply(unsigned d, u64 a, u64 b, unsigned idesc, unsigned accumulate) {
    asm volatile(
        "{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %4, 0;\n\t"
        "tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, {%5, %5, %5, %5}, p;\n\t}\n" ::"r"(d),
        "l"(a), "l"(b), "r"(idesc), "r"(accumulate), "r"(0)
        : "memory");
}
__device__ void wait(unsigned bar, unsigned parity) {
    asm volatile(
        "{\n\t.reg .pred p;\n\tagain:\n\t"
        "mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n\t@!p bra again;\n\t}\n" ::"r"(bar),
        "r"(parity)
        : "memory");
}
__device__ void fence_before() { asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory"); }
__device__ void fence_after() { asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory"); }

__global__ void product(const uint4* a, const uint4* b, float* c) {
    __shared__ alignas(128) uint4 tile_a[8][128];
    __shared__ alignas(128) uint4 tile_b[8][64];
    __shared__ unsigned columns;
    __shared__ u64 done;
    int t = threadIdx.x;
    for (int u = 0; u < 8; ++u) {
        tile_a[u][t] = a[t * 8 + u];
        if (t < 64) tile_b[u][t] = b[t * 8 + u];
    }
    if (t < 32)
        asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 64;" ::"r"(shared_address(&columns)) : "memory");
    if (t == 0) asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(shared_address(&done)) : "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    fence_before();
    __syncthreads();
    fence_after();
    unsigned d = columns;
    if (t == 0) {
        unsigned idesc = 1 << 4 | 1 << 7 | 1 << 10 | (64 / 8) << 17 | (128 / 16) << 24;
        for (int k = 0; k < 4; ++k)
            multiply(d, descriptor(shared_address(tile_a[2 * k]), 128), descriptor(shared_address(tile_b[2 * k]), 64), idesc, k > 0);
        asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(shared_address(&done)) : "memory");
    }
#ifndef BUG
    wait(shared_address(&done), 0);
#endif
    fence_after();
    for (int j = 0; j < 64; j += 4) {
        unsigned x, y, z, w;
        asm volatile("tcgen05.ld.sync.aligned.32x32b.x4.b32 {%0, %1, %2, %3}, [%4];" : "=r"(x), "=r"(y), "=r"(z), "=r"(w) : "r"(d + (t / 32 * 32 << 16) + j));
        asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
        float* row = c + t * 64 + j;
        row[0] = __uint_as_float(x), row[1] = __uint_as_float(y), row[2] = __uint_as_float(z), row[3] = __uint_as_float(w);
    }
    fence_before();
    __syncthreads();
    fence_after();
    if (t < 32) asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, 64;" ::"r"(d) : "memory");
}
