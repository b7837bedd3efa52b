#include <cstdio>
#include <cassert>
__global__ void printing(const int* in, int n) {
    int i = threadIdx.x;
    if (i < 2) printf("in[%d] = %d, %5.2f %s\n", i, in[i], in[i] / 2.0, "words");
#ifdef BUG
    assert(in[i] < n - 1);
#else
    assert(in[i] < n);
#endif
}
