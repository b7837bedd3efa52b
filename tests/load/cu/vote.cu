// Positions of the elements that pass, found by ballots.
__global__ void compact(const int* in, int* out, int* count, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    bool keep = i < n && in[i] > 0;
    unsigned mask = __ballot_sync(0xffffffff, keep);
    int lane = threadIdx.x & 31, base = 0;
    if (lane == 0 && mask) base = atomicAdd(count, __popc(mask));
#ifdef BUG
    if (keep) base = __shfl_sync(0xffffffff, base, 0);
#else
    base = __shfl_sync(0xffffffff, base, 0);
#endif
    if (keep) out[base + __popc(mask & ((1u << lane) - 1))] = in[i];
}
