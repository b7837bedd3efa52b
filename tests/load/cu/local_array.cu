// A small sort in local memory, indexed by what only the run knows.
__global__ void sort8(const int* in, int* out) {
    int t = threadIdx.x, v[8];
    for (int k = 0; k < 8; ++k) v[(k * 5 + t) % 8] = in[t * 8 + k];
    for (int a = 1; a < 8; ++a) {
        int key = v[a], b = a - 1;
#ifdef BUG
        while (v[b] > key) { v[b + 1] = v[b]; --b; }
#else
        while (b >= 0 && v[b] > key) { v[b + 1] = v[b]; --b; }
#endif
        v[b + 1] = key;
    }
    for (int k = 0; k < 8; ++k) out[t * 8 + k] = v[k];
}
