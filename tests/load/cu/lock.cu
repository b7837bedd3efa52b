// A spin lock around a plain counter.
__device__ int lock_word;
__global__ void locked(int* counter) {
    if (threadIdx.x == 0) {
        while (atomicCAS(&lock_word, 0, 1) != 0) {}
        __threadfence();
        *counter += 1;
#ifndef BUG
        __threadfence();
#endif
        atomicExch(&lock_word, 0);
    }
}
