"""What host code says of an array that it allocates elsewhere: in a loop, a function, a class; and of numbers that CUDA
tells it.
"""

from __future__ import annotations

import pytest

from tilewright.load.cu_launches import LaunchShape, launched
from tilewright.load.cu_life import filled_with

HEAD = """
#define CHECK(x) do { if ((x) != cudaSuccess) exit(1); } while (0)
__global__ void k(float* x, int n) {}
float* make(int count) { float* p = nullptr; CHECK(cudaMalloc(&p, count * sizeof(float))); return p; }
template <typename T> T* make_of(size_t count) { T* p; cudaMalloc((void**)&p, count * sizeof(T)); return p; }
void fill_in(float** p, int count) { CHECK(cudaMalloc(p, count * sizeof(float))); }
template <typename T> void fill_of(T** p, size_t count) { cudaMalloc((void**)p, sizeof(T) * count); }
template <typename T> class Buffer {
  public:
    explicit Buffer(size_t count) : count_(count) { CHECK(cudaMalloc(&data_, count * sizeof(T))); }
    T* get() { return data_; }
  private:
    T* data_;
    size_t count_;
};
struct Config { int n = 100; int threads = 32; };
struct Pair { int first, second; };
"""


def shape(body: str) -> LaunchShape:
    (launch,) = launched(f"{HEAD}int main() {{\n{body}\n}}\n", "k")
    return launch


@pytest.mark.parametrize(
    ("body", "word"),
    [
        ("float *x, *y; for (auto p : {&x, &y}) cudaMalloc(p, 400); k<<<1, 32>>>(y, 100);", "y"),
        ("float* d[2]; for (int i = 0; i < 2; ++i) cudaMalloc(&d[i], 400); k<<<1, 32>>>(d[1], 100);", "d[1]"),
        ("float* x = make(100); k<<<1, 32>>>(x, 100);", "x"),
        ("const int n = 100; auto* x = make_of<float>(n); k<<<1, 32>>>(x, n);", "x"),
        ("float* x; x = make(50 * 2); k<<<1, 32>>>(x, 100);", "x"),
        ("float* x; fill_in(&x, 100); k<<<1, 32>>>(x, 100);", "x"),
        ("float* x; fill_of(&x, 100); k<<<1, 32>>>(x, 100);", "x"),
        ("Buffer<float> x(100); k<<<1, 32>>>(x.get(), 100);", "x.get()"),
        ("struct { float* x; } s; cudaMalloc(&s.x, 400); k<<<1, 32>>>(s.x, 100);", "s.x"),
        ("std::vector<float> h(100); float* x; cudaMalloc(&x, h.size() * sizeof(h[0])); k<<<1, 32>>>(x, 100);", "x"),
    ],
)
def test_an_array_that_is_allocated_elsewhere_has_its_size(body: str, word: str) -> None:
    assert shape(body).allocated == {word: 400}


@pytest.mark.parametrize(
    "body",
    [
        "float *x, *y; for (auto p : {&y}) cudaMalloc(p, 400); k<<<1, 32>>>(x, 100);",
        "float* d[2]; cudaMalloc(&d[0], 400); k<<<1, 32>>>(d[1], 100);",
        "float* x = taken(100); k<<<1, 32>>>(x, 100);",
        "float* x; float* y; fill_in(&y, 100); k<<<1, 32>>>(x, 100);",
    ],
)
def test_an_array_of_which_the_text_does_not_tell_has_none(body: str) -> None:
    assert shape(body).allocated == {}


@pytest.mark.parametrize(
    ("body", "grid", "block"),
    [
        ("dim3 b(64); dim3 g((1000 + b.x - 1) / b.x); k<<<g, b>>>(0, 1);", (16,), (64,)),
        ("dim3 b(8, 4), g(2); k<<<g.y, b.y>>>(0, 1);", (1,), (4,)),
        ("Config c; k<<<c.n / 50, c.threads>>>(0, c.n);", (2,), (32,)),
        ("Config c{300}; k<<<c.n / 50, c.threads>>>(0, c.n);", (6,), (32,)),
        ("Config c = {.n = 100, .threads = 64}; c.n = 200; k<<<c.n / 50, c.threads>>>(0, c.n);", (4,), (64,)),
        ("Pair p{7}; k<<<p.first, p.second + 32>>>(0, 1);", (7,), (32,)),
        ("auto run = [&](int t) { k<<<4, t>>>(0, 1); }; run(96); run(128);", (4,), (96,)),
        ("int m; cudaDeviceGetAttribute(&m, cudaDevAttrMultiProcessorCount, 0); k<<<m, 32>>>(0, 1);", (4,), (32,)),
        ("cudaDeviceProp p; cudaGetDeviceProperties(&p, 0); k<<<p.multiProcessorCount, 32>>>(0, 1);", (4,), (32,)),
        ("int m = 0; cudaOccupancyMaxActiveBlocksPerMultiprocessor(&m, k, 32, 0); k<<<m, 32>>>(0, 1);", (1,), (32,)),
        ("int g, b; cudaOccupancyMaxPotentialBlockSize(&g, &b, k, 0, 0); k<<<g, b>>>(0, 1);", (4,), (256,)),
    ],
)
def test_numbers_are_what_structures_and_cuda_say(body: str, grid: tuple[int, ...], block: tuple[int, ...]) -> None:
    assert (shape(body).grid, shape(body).block, shape(body).lacks) == (grid, block, ())


def test_arguments_whose_addresses_are_put_one_by_one_are_read() -> None:
    body = """int n = 100; float* x; cudaMalloc(&x, 400); void* list[2]; list[0] = &x; list[1] = (void*)&n;
    cudaLaunchCooperativeKernel((void*)k, dim3(2), dim3(32), list, 0, 0);"""

    assert shape(body).words == ("x", "n")
    assert shape(body).allocated == {"x": 400}


def test_rows_of_a_pitch_are_as_long_as_it_says() -> None:
    body = """float* x; size_t pitch; cudaMallocPitch((void**)&x, &pitch, 100 * sizeof(float), 60);
    cudaMemset2D(x, pitch, 7, 400, 60); k<<<1, 32>>>(x, pitch / sizeof(float));"""

    launch = shape(body)

    assert launch.allocated == {"x": 512 * 60}
    assert launch.host is not None
    assert launch.host.number("pitch / sizeof(float)") == 128
    assert filled_with(launch.host, "x") == 7
