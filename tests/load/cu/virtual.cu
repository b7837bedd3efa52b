// Calls through pointers: a table of functions, and a virtual method.
struct Shape { int side; __device__ Shape(int s) : side(s) {} __device__ virtual int area() const { return 0; } };
struct Square : Shape { __device__ Square(int s) : Shape(s) {} __device__ int area() const override { return side * side; } };
struct Line : Shape { __device__ Line(int s) : Shape(s) {} __device__ int area() const override { return side; } };
typedef int (*Op)(int, int);
__device__ __noinline__ int plus_(int a, int b) { return a + b; }
__device__ __noinline__ int times_(int a, int b) { return a * b; }
__device__ Op ops[2] = {plus_, times_};
__global__ void shapes(int* out, int n) {
    int t = threadIdx.x;
    Square square(t);
    Line line(t);
    Shape* shape = (t % 2) ? (Shape*)&square : (Shape*)&line;
    int v = ops[(t / 2) % 2](shape->area(), t);
#ifdef BUG
    out[v] = v;
#else
    out[t] = v;
#endif
}
