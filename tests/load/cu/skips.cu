// Barriers that threads do not come to: right_* return before, wrong_* skip them and go on.

extern "C" __global__ void right_lanes(int* o){
  if (threadIdx.x % 32 >= 20) return;
  __syncthreads(); o[threadIdx.x] = 1;
}

extern "C" __global__ void right_warp(int* o){
  if (threadIdx.x >= 32) return;
  __syncthreads(); o[threadIdx.x] = 1;
}

extern "C" __global__ void right_warp_work(int* o){
  if (threadIdx.x >= 32) { o[threadIdx.x] = 5; return; }
  __syncthreads(); o[threadIdx.x] = 1;
}

extern "C" __global__ void right_loop(int* o){
  for (int i = 0; i < 70; i++) { if (i > threadIdx.x) return; __syncthreads(); o[threadIdx.x] = i; }
  o[threadIdx.x] = 70; }

extern "C" __global__ void right_loop_warps(int* o){
  for (int i = 0; i < 7; i++) { if (i > threadIdx.x / 32) return; __syncthreads(); o[threadIdx.x] = i; __syncthreads(); }
  o[threadIdx.x] = 70; }

extern "C" __global__ void right_some_turns(int* o){
  for (int i = 0; i < 7; i++) { if (o[64 + i]) __syncthreads(); o[threadIdx.x] = i; if (i > threadIdx.x / 8) return; } }

extern "C" __global__ void right_or(int* o){
  if (threadIdx.x >= 32) return;
  o[threadIdx.x] = __syncthreads_or(threadIdx.x == 3); }

extern "C" __global__ void right_both(int* o){
  if (threadIdx.x < 32) { o[threadIdx.x] = 2; __syncthreads(); } else { o[threadIdx.x] = 3; __syncthreads(); }
  o[threadIdx.x] += 4; }

extern "C" __global__ void wrong_skip(int* o){
  if (threadIdx.x < 32)
    __syncthreads();
  o[threadIdx.x] = 1;
}

extern "C" __global__ void wrong_lanes(int* o){
  if (threadIdx.x % 32 < 20)
    __syncthreads();
  o[threadIdx.x] = 1;
}

extern "C" __global__ void wrong_pairs(int* o){
  if (threadIdx.x < 32)
    __syncthreads();
  o[threadIdx.x] = 1;
  __syncthreads();
  o[threadIdx.x]+= 1; }

extern "C" __global__ void wrong_pairs2(int* o){
  o[threadIdx.x] = 1;
  __syncthreads();
  if (threadIdx.x >= 32)
    __syncthreads();
  __syncthreads(); }

extern "C" __global__ void wrong_loop(int* o){
  for (int i = 0; i < threadIdx.x / 32 + 1; i++) {
    o[threadIdx.x] = 1;
    __syncthreads(); }
  o[threadIdx.x]+= 1; }

extern "C" __global__ void wrong_turn(int* o){
  for (int i = 0; i < 4; i++) {
    o[threadIdx.x] = 1;
    if (i != 2 || threadIdx.x < 32)
      __syncthreads();
    o[threadIdx.x]+= 1; } }

extern "C" __global__ void wrong_else(int* o){
  if (threadIdx.x >= 32) { o[threadIdx.x] = 1;
}
  else {
    __syncthreads(); }
  o[threadIdx.x]+= 1; }

extern "C" __global__ void wrong_or(int* o){
  int n = 0;
  if (threadIdx.x < 32)
    n = __syncthreads_or(threadIdx.x == 3);
  o[threadIdx.x] = n; }


extern "C" __global__ void right_loop_work(int* o){
  int sum = 0;
  for (int i = 0; i < 7; i++) {
    if (i > threadIdx.x / 32) {
       o[threadIdx.x] = sum;
       return; }
    __syncthreads();
    sum += o[threadIdx.x ^ 32];
    __syncthreads(); }
  o[threadIdx.x] = 70; }

extern "C" __global__ void right_while_work(int* o){
  int sum = 0, i = 0;
  while (true) {
    if (i > threadIdx.x / 32) {
       o[threadIdx.x] = sum;
       return; }
    __syncthreads();
    sum += i++; } }

extern "C" __global__ void wrong_stride(int* o){
  int sum = 0;
  for (int i = threadIdx.x; i < 96; i += 64) {
    sum += i;
    __syncthreads();
  }
  o[threadIdx.x] = sum; }

extern "C" __global__ void wrong_stride_lanes(int* o){
  int sum = 0;
  for (int i = threadIdx.x; i < 100; i += 64) {
    sum += i;
    __syncthreads();
  }
  o[threadIdx.x] = sum; }

extern "C" __global__ void wrong_use(int* o){
  __shared__ int s[64];
  if (threadIdx.x < 32) {
    s[threadIdx.x] = threadIdx.x;
    __syncthreads();
  }
  o[threadIdx.x] = s[threadIdx.x & 31]; }

// One thread goes on behind the join: the others that skipped the barrier end there, and did come to it.
extern "C" __global__ void wrong_only_one_goes_on(int* out) {
    __shared__ int s[64];
    if (threadIdx.x < 48) {
        s[threadIdx.x] = out[threadIdx.x];
        __syncthreads();
    }
    if (threadIdx.x == 0) out[0] = s[1];
}

extern "C" __global__ void wrong_last_turn(int* out) {
    __shared__ int s[64];
    s[threadIdx.x] = 0;
    __syncthreads();
    for (int b = 0; b < 2; ++b) {
        int i = 64 * b + threadIdx.x;
        if (i < 112) {
            s[threadIdx.x] += out[i];
            __syncthreads();
        }
    }
    if (threadIdx.x == 0) {
        for (int i = 0; i < 64; ++i) out[0] += s[i];
    }
}

// The same, but they return: in the last turn, and before what one thread does.
extern "C" __global__ void right_returns_in_the_last_turn(int* out) {
    __shared__ int s[64];
    s[threadIdx.x] = 0;
    __syncthreads();
    for (int b = 0; b < 2; ++b) {
        int i = 64 * b + threadIdx.x;
        if (i >= 112) return;
        s[threadIdx.x] += out[i];
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        for (int i = 0; i < 48; ++i) out[0] += s[i];
    }
}

extern "C" __global__ void right_nothing_behind(int* out) {
    __shared__ int s[64];
    if (threadIdx.x < 48) {
        s[threadIdx.x] = out[threadIdx.x];
        __syncthreads();
        out[threadIdx.x] = s[47 - threadIdx.x];
    }
}
