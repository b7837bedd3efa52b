"""What host code says of its launches: extents, arguments, allocations; and what it does not say, by name."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tilewright.load import cu_launches
from tilewright.load.cu_host import chosen
from tilewright.load.cu_launches import LaunchShape, instances, launched, launches, made_functions
from tilewright.load.cu_tree import parameters, pieces, template_names

HEAD = """
#define CEIL_DIV(a, b) (((a) + (b) - 1) / (b))
#define BLOCK 128
constexpr int kRows = 6;
static int padded(int n) { int m = 1; while (m < n) { m <<= 1; } return m; }
inline int blocks_for(int n) { return CEIL_DIV(n, BLOCK); }
template <typename T> __global__ void k(const T* in, T* out, int n);
__global__ void plain(float* x, int n);
"""


def shape(body: str, head: str = "int main(int argc, char** argv)", /, **given: int) -> LaunchShape:
    (found,) = launched(f"{HEAD}{head} {{\n{body}\n}}\n", "plain", given=given)
    return found


@pytest.mark.parametrize(
    ("body", "grid"),
    [
        ("int n = 1000; plain<<<(n + BLOCK - 1) / BLOCK, BLOCK>>>(x, n);", (8,)),
        ("int n = argc > 1 ? atoi(argv[1]) : 1 << 10; plain<<<blocks_for(n), BLOCK>>>(x, n);", (8,)),
        ("int n = 512; if (argc > 1) n = atoi(argv[1]); plain<<<n / BLOCK, BLOCK>>>(x, n);", (4,)),
        ("int n = 512; if (argc == 1) { n = 256; } plain<<<n / BLOCK, BLOCK>>>(x, n);", (2,)),
        ("dim3 g, b(32, 4); g.x = 3; g.y = kRows; plain<<<g, b>>>(x, 1);", (3, 6)),
        ("for (int s = 4; s > 0; s >>= 1) { plain<<<s, 64>>>(x, s); }", (4,)),
        ("size_t n = 3; plain<<<static_cast<int>(n) * 2, 64>>>(x, n);", (6,)),
        ("auto g = std::min(64, 9); plain<<<g, 64>>>(x, 1);", (9,)),
        ("std::vector<float> h(40); plain<<<h.size() / 4, 64>>>(x, 1);", (10,)),
        ("int n = 4; plain<<<n++, 64>>>(x, n);", (4,)),
        ("int n = 4; plain<<<--n, 64>>>(x, n);", (3,)),
        ("int n = 4; n++; plain<<<n, 64>>>(x, 1);", (5,)),
        ("int n = 1; while (n < 60) n *= 2; plain<<<n, 64>>>(x, 1);", (64,)),
        ("plain<<<padded(60), 64>>>(x, 1);", (64,)),
        ("int n = 8; cudaMemcpy(x, &n, 4, cudaMemcpyHostToDevice); plain<<<n, 64>>>(x, 1);", (8,)),
        ("plain<<<at::ceil_div(1000, BLOCK), THCCeilDiv(1000, 64)>>>(x, round_up(5, 4));", (8,)),
        ("plain<<<ceil(1000.0 / 256), 64>>>(x, 1);", (4,)),
    ],
)
def test_extents_are_what_the_code_before_says(body: str, grid: tuple[int, ...]) -> None:
    assert (shape(body).grid, shape(body).lacks) == (grid, ())


@pytest.mark.parametrize(
    ("body", "lacks"),
    [
        ("plain<<<blocks, 64>>>(x, 1);", ("blocks",)),
        ("int rows = t.size(0); plain<<<rows, 64>>>(x, 1);", ("t.size(0)",)),
        ("int n = 4; while (more()) n = n * 2; plain<<<n, 64>>>(x, 1);", ("n",)),
        ("int n = 4; n = more(n); plain<<<n, 64>>>(x, 1);", ("n",)),
        ("{ int m = 4; } plain<<<m, 64>>>(x, 1);", ("m",)),
        ("int n = 0; cudaMemcpy(&n, x, 4, cudaMemcpyDeviceToHost); plain<<<n, 64>>>(x, 1);", ("n",)),
        ('int n = 4; scanf("%d", &n); plain<<<n, 64>>>(x, 1);', ("n",)),
        ("int rows = more(), b = (rows + 3) / 4; if (b > 8) b = 8; plain<<<b, 64>>>(x, 1);", ("rows",)),
        ("int b = 1; if (rows > 8) b = more(rows); plain<<<b, 64>>>(x, 1);", ("rows",)),
    ],
)
def test_what_it_does_not_say_is_named(body: str, lacks: tuple[str, ...]) -> None:
    assert shape(body).lacks == lacks
    assert shape(body, **dict[str, Any].fromkeys(lacks, 5)).lacks == ()


def test_names_of_another_function_say_nothing() -> None:
    text = f"{HEAD}void f() {{ int n = 64; }}\nvoid run(float* x, int n) {{ plain<<<n, 64>>>(x, n); }}\n"

    (found,) = launched(text, "plain")

    assert found.lacks == ("n",)


def test_arrays_have_the_sizes_of_their_allocations() -> None:
    body = """float *d_x; int n = 100;
    CHECK(cudaMalloc((void**)&d_x, n * sizeof(*d_x)));
    plain<<<1, 64>>>(d_x, n);"""

    assert shape(body).allocated == {"d_x": 400}
    assert shape("thrust::device_vector<double> d(50); plain<<<1, 64>>>(thrust::raw_pointer_cast(d.data()), 1);"
                 ).allocated == {"thrust::raw_pointer_cast(d.data())": 400}  # fmt: skip
    assert shape("float* p; cudaMalloc(&p, 4 * rows); plain<<<1, 64>>>(p, 1);").needs["p"] == ("rows",)


@pytest.mark.parametrize(("rows", "blocks"), [(20, 5), (100, 8)])
def test_a_limit_of_a_number_that_is_not_known_holds_once_it_is(rows: int, blocks: int) -> None:
    body = "int b = (rows + 3) / 4; if (b > 8) { b = 8; } plain<<<b, 64>>>(x, 1);"

    assert shape(body, rows=rows).grid == (blocks,)


@pytest.mark.parametrize("named", ["typedef double real;", "using real = double;"])
def test_other_names_of_numbers_have_a_size(named: str) -> None:
    text = f"{named}\n{HEAD}void run(float* x) {{ size_t bytes = 4 * sizeof(real); plain<<<1, 64, bytes>>>(x, 1); }}\n"

    (found,) = launched(text, "plain")

    assert found.shared_bytes == 32


@pytest.mark.parametrize(
    "launch",
    [
        "void* args[] = {&d_x, (void*)&n}; cudaLaunchKernel((void*)plain, dim3(2), dim3(64), args, 16, 0);",
        "cudaLaunchConfig_t c = {0}; c.gridDim = 2; c.blockDim = dim3(64); c.dynamicSmemBytes = 16; "
        "cudaLaunchKernelEx(&c, plain, d_x, n);",
        "cudaLaunchConfig_t c{dim3(2), 64, 16, stream, attrs, 1}; cudaLaunchKernelEx(&c, plain, d_x, n);",
        "cudaLaunchConfig_t c = {.gridDim = 2, .blockDim = 64, .dynamicSmemBytes = 16}; "
        "CHECK(cudaLaunchKernelEx(&c, &plain, d_x, n));",
        "auto f = plain; f<<<2, 64, 16>>>(d_x, n);",
    ],
)
def test_launches_have_several_forms(launch: str) -> None:
    found = shape(f"float* d_x; int n = 7; {launch}")

    assert (found.grid, found.block, found.shared_bytes) == ((2,), (64,), 16)
    assert found.arguments == ("d_x", 7)


@pytest.mark.parametrize(("value", "pdl"), [("1", True), ("0", False), ("enabled", True)])
def test_the_attribute_of_dependent_launch_is_read(value: str, pdl: bool) -> None:
    body = f"""cudaLaunchConfig_t c = {{}}; c.gridDim = 2; c.blockDim = 64;
    cudaLaunchAttribute a[2];
    a[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    a[0].val.programmaticStreamSerializationAllowed = {value};
    a[1].id = cudaLaunchAttributeClusterDimension;
    a[1].val.clusterDim.x = 2; a[1].val.clusterDim.y = 1; a[1].val.clusterDim.z = 1;
    c.attrs = a; c.numAttrs = 2;
    cudaLaunchKernelEx(&c, plain, x, 1);"""

    assert (shape(body).pdl, shape(body).cluster) == (pdl, (2, 1, 1))


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ("float *a, *b; k<<<1, 64>>>(a, b, 4);", "k<float>"),
        ("const half* a; half* b; k<<<1, 64>>>(a, b, 4);", "k<half>"),
        ("auto f = k<int>; cudaFuncSetAttribute(f, attribute, 1); f<<<1, 64>>>(a, b, 4);", "k<int>"),
    ],
)
def test_instances_are_those_that_the_arguments_decide(body: str, name: str) -> None:
    assert instances(f"{HEAD}int main() {{ {body} }}") == [name]


def test_templates_of_host_functions_are_followed_to_their_calls() -> None:
    text = f"""{HEAD}
template <typename T, int N> __global__ void tile(T* x);
template <typename T> void run(T* x) {{ constexpr int kTile = 4 * 8; tile<T, kTile><<<1, kTile>>>(x); }}
template void run<double>(double*);
void all(float* x) {{ run<float>(x); }}
"""
    assert instances(text) == ["tile<double, 32>", "tile<float, 32>"]


def test_a_template_that_launches_does_so_for_each_instance_with_what_that_is_passed() -> None:
    text = f"""{HEAD}
template <typename T> void run(int n) {{ T *x, *y; cudaMalloc(&x, n * sizeof(T)); k<T><<<n / 32, 32>>>(x, y, n); }}
int main() {{ run<float>(64); run<double>(96); }}
"""
    made = launched(text, "k")

    assert [(shape.kernel, shape.grid, shape.allocated["x"]) for shape in made] == [
        ("k<float>", (2,), 256),
        ("k<double>", (3,), 768),
    ]
    assert launched(text, "k<double>") == made[1:]


@pytest.mark.parametrize(
    ("conditions", "defines", "grid"),
    [
        ("#define SMALL 1\n#if SMALL\nGRID(2)\n#else\nGRID(4)\n#endif", {}, (2,)),
        ("#define SMALL 0\n#if SMALL\nGRID(2)\n#else\nGRID(4)\n#endif", {}, (4,)),
        ("#ifdef SMALL\nGRID(2)\n#else\nGRID(4)\n#endif", {"SMALL": None}, (2,)),
        (
            "#if !defined(SMALL) && WAY == 2\nGRID(2)\n#elif WAY > 2\nGRID(3)\n#else\nGRID(4)\n#endif",
            {"WAY": "3"},
            (3,),
        ),
        ("#if A\n#if B\nGRID(2)\n#else\nGRID(3)\n#endif\n#else\nGRID(4)\n#endif", {"A": "1", "B": "0"}, (3,)),
        ("#ifndef SMALL\nGRID(2)\n#undef SMALL\n#else\nGRID(4)\n#endif", {"SMALL": "0"}, (4,)),
    ],
)
def test_what_the_preprocessor_leaves_out_is_not_read(
    conditions: str, defines: dict[str, str | None], grid: tuple[int, ...]
) -> None:
    body = re.sub(r"GRID\((\d)\)", r"int blocks = \1;", conditions)
    text = f"{HEAD}int main() {{\n{body}\nplain<<<blocks, 32>>>(x, n);\n}}\n"

    (read,) = chosen([text], defines)

    assert read.count("\n") == text.count("\n")
    assert launched(read, "plain")[0].grid == grid


@pytest.mark.parametrize("name", ["__CUDA_ARCH__", "CUDART_VERSION", "ELSEWHERE"])
def test_both_branches_stay_where_other_headers_have_a_say(name: str) -> None:
    text = f"#ifdef {name}\nint a;\n#else\nint b;\n#endif\n"

    assert chosen([text, "#define ELSEWHERE\n"], {})[0] == text


CALLED = """
template <typename T> void run(int repeat, int rows, const int width, T* out) {
    T scales[3] = {0.5, 2, 4}, *d_more;
    cudaMalloc(&d_more, rows * sizeof(T));
    for (int i = 0; i < 3; ++i) plain<<<rows, width * warps()>>>(out, scales[i]);
}
int main(int argc, char** argv) {
    if (argc != 2) return 1;
    const int repeat = atoi(argv[1]), rows = 6;
#ifdef SMALL
    const int width = 32;
#else
    const int width = 64;
#endif
    double* d_x;
    cudaMalloc(&d_x, rows * sizeof(double));
    run<float>(repeat, 3, width, nullptr);
    run<double>(repeat, rows, width, d_x);
}
"""


def test_parameters_of_a_function_are_what_its_first_call_passes() -> None:
    text = f"int warps() {{ return props.warpSize / 16; }}\n{CALLED}".replace("run<float>(repeat, 3", "walk(3")
    (found,) = launched(f"{HEAD}{text}", "plain")
    assert (found.grid, found.block, found.arguments, found.lacks) == ((6,), (128,), ("out", 0.5), ())
    (more,) = launched(f"{HEAD}{text}".replace("(out, ", "(d_more, "), "plain")
    assert more.allocated == {"d_more": 48}
    assert found.allocated == {"out": 48}


def test_a_call_with_other_arguments_of_the_template_passes_nothing_to_this_instance() -> None:
    text = CALLED.replace("run<double>(repeat, rows, width, d_x);", "")
    (found,) = launched(f"{HEAD}int warps() {{ return 2; }}\n{text}", "plain")
    assert (found.grid, found.allocated) == ((3,), {})


@pytest.mark.parametrize(
    ("body", "size"),
    [
        ("int h[5] = {1}; cudaMalloc(&x, sizeof(h));", 20),
        ("int n = 4; int h[n + 1], g[2]; cudaMalloc(&x, sizeof h);", 20),
        ("const short h[] = {1, 2, 3}; cudaMalloc(&x, sizeof(h));", 6),
        ("float4 h[2][3]; cudaMalloc(&x, sizeof(h));", 96),
        ("int h[7]; cudaMalloc(&x, 8 * (sizeof(h) / sizeof(h[0])));", 56),
        ("int h[7]; cudaMalloc(&x, 8 * (sizeof(h) / sizeof(*h)));", 56),
        ("int* h[7]; cudaMalloc(&x, sizeof(h) + sizeof(h[0]));", 64),
        ("int* h; cudaMalloc(&x, sizeof(h) + sizeof(*h));", 12),
    ],
)
def test_an_array_has_the_size_of_all_its_elements(body: str, size: int) -> None:
    assert shape(f"float* x; {body} plain<<<1, 64>>>(x, 1);").allocated == {"x": size}


@pytest.mark.parametrize("size", ["sizeof(Slot)", "sizeof(struct Slot)", "sizeof(*x)", "sizeof(slots) / 2"])
def test_a_structure_has_the_size_of_its_fields(size: str) -> None:
    text = f"""{HEAD}
struct Slot {{ double weight; int key; }};
int main() {{ Slot *x, slots[2]; cudaMalloc(&x, 10 * ({size})); plain<<<1, 64>>>(x, 1); }}
"""
    assert launched(text, "plain")[0].allocated == {"x": 160}


def test_the_size_of_an_array_of_unknown_extent_is_asked_for() -> None:
    found = shape("float* x; int h[rows]; cudaMalloc(&x, sizeof(h)); plain<<<1, 64>>>(x, 1);")

    assert (found.allocated, found.needs["x"]) == ({}, ("rows",))


def test_an_instance_has_the_arrays_of_the_call_whose_arguments_decide_it() -> None:
    text = f"""{HEAD}
template <typename T> void run(const T* in, T* out, int n) {{ k<T><<<1, 32>>>(in, out, n); }}
int main() {{
    float *a, *b;
    double *c, *d;
    cudaMalloc(&a, 64 * sizeof(*a)); cudaMalloc(&b, 64 * sizeof(*b));
    cudaMalloc(&c, 96 * sizeof(*c)); cudaMalloc(&d, 96 * sizeof(*d));
    run(a, b, 64);
    run(c, d, 96);
}}
"""
    arrays = {shape.kernel: shape.allocated for shape in launched(text, "k")}

    assert arrays == {"k<float>": {"in": 256, "out": 256}, "k<double>": {"in": 768, "out": 768}}


MACROS = """
#define CHECKED(call) do { call; if (cudaGetLastError() != cudaSuccess) abort(); } while (0)
#define RUN(kernel, grid, block, smem, args...) \\
    CHECKED((kernel<<<grid, block, smem>>>(args)))
#define LAUNCH(kernel, grid, block, ...) kernel<<<grid, block>>>(0, ##__VA_ARGS__)
"""
CALLS = """
#define THREADS 64
template <int N> __global__ void many(int, const float* a, float* b) { }
__global__ void one(float* b) { }
void host(float* a, float* b) {
    LAUNCH((many<2 * 4>), 3, THREADS, a, b);
    RUN(one, dim3(2, 5), THREADS / 2, 16, b);
}
"""


def test_a_launch_inside_of_a_macro_is_the_calls() -> None:
    shapes = launched(CALLS, around=(CALLS, MACROS))

    assert [(each.kernel, each.grid, each.block, each.shared_bytes, each.line) for each in shapes] == [
        ("many<2 * 4>", (3,), (64,), 0, 6), ("one", (2, 5), (32,), 16, 7),
    ]  # fmt: skip
    assert [each.words for each in shapes] == [("0", "a", "b"), ("b",)]
    assert instances(CALLS, (CALLS, MACROS)) == ["many<2 * 4>"]


def test_a_macro_that_is_given_one_that_launches_calls_it() -> None:
    text = """
#define STORE(T, CACHE) store<T, CACHE><<<grid, block>>>((const T*)in.data_ptr(), out.data_ptr(), stride);
template <typename T, typename C> __global__ void store(const T* in, C* out, int stride) { }
void host(Tensor in, Tensor out, int stride) {
    dim3 grid(7), block(std::min(stride, 512));
    BY_TYPE(in.dtype(), STORE);
    BY_TYPE(in.dtype(), [&] { other<<<1, 32>>>(); });
}
"""
    header = """
#define BY_TYPE(KIND, FN) \\
    if (KIND == Float) { FN(float, float); } else { FN(float, unsigned char); }
"""

    shapes = launched(text, given={"stride": 48}, around=(text, header))

    assert [(each.kernel, each.grid, each.block, each.line) for each in shapes] == [
        ("store<float, float>", (7,), (48,), 6), ("store<float, unsigned char>", (7,), (48,), 6),
        ("other", (1,), (32,), 7),
    ]  # fmt: skip


def test_a_kernel_that_a_macro_makes_has_its_parameters() -> None:
    text = """
#define MAKE(name, T, op) \\
    __global__ void name##_kernel(T* x, const T* y, int n) { \\
        if (threadIdx.x < n) x[threadIdx.x] = x[threadIdx.x] op y[threadIdx.x]; \\
    }
MAKE(add, float, +)
MAKE(mul, double, *);
"""
    made = parameters("\n".join(made_functions([text])))

    assert {name: [(param.name, param.element) for param in params] for name, params in made.items()} == {
        "add_kernel": [("x", "float32"), ("y", "float32"), ("n", "")],
        "mul_kernel": [("x", "float64"), ("y", "float64"), ("n", "")],
    }


def test_a_kernel_whose_macro_has_an_operator_by_another_macro_has_its_parameters() -> None:
    text = """
#define MAKE(name, op) \\
    __global__ void name(TAKES, int n) { \\
        int i = threadIdx.x; \\
        if (i WHERE n) x[i] = x[i] op y[i]; }
#define WHERE <=
#define TAKES float* x, const float* y
MAKE(add, +)
"""
    made = parameters("\n".join(made_functions([text])))

    assert [(param.name, param.element) for param in made["add"]] == [("x", "float32"), ("y", "float32"), ("n", "")]


def test_a_kernel_that_an_old_header_declares_otherwise_has_the_parameters_of_its_definition() -> None:
    text = """
__global__ void halved(float* x, int rows);
__global__ void halved(float* x, int rows, int columns) { if (threadIdx.x < columns) x[threadIdx.x] /= 2; }
__global__ void doubled(float* x);
"""
    declared = parameters(text)

    assert [(param.name, param.type) for param in declared["halved"]] == [
        ("x", "float*"), ("rows", "int"), ("columns", "int")]  # fmt: skip
    assert [param.name for param in declared["doubled"]] == ["x"]


@pytest.mark.parametrize("branches", ["#if A\n1\n#else\n2\n#endif", "#if A\n1\n#else\n\n#endif"])
def test_a_branch_of_the_preprocessor_among_the_arguments_of_a_call_ends_with_it(branches: str) -> None:
    asm = 'asm volatile("st [%0], %1;" ::"r"(s(x)), "l"(x + 1 / 2 * 64),\nBRANCHES\n                 : "memory");'
    text = f"__global__ void k(float* x) {{\n{asm}\n{asm}\n}}\nint main() {{ cudaMalloc(&x, 4); k<<<2, 32>>>(x); }}\n"
    text = text.replace("BRANCHES", branches.replace("1", '"h"((short)1)').replace("2", '"h"((short)3)'))

    kernel, main = pieces(text)

    assert kernel.device
    assert main.is_host
    assert launched(text, "k")[0].grid == (2,)


def test_a_comment_among_the_parameters_of_a_template_is_none_of_them() -> None:
    assert template_names("template <int N, /* words */ class T> __global__ void k(T* x) { }") == {"k": ("N", "T")}


def test_a_macro_that_launches_takes_types() -> None:
    text = """
#define RUN(T, N) k<T, N><<<1, N>>>((T*)x);
template <typename T, int N> __global__ void k(T* x) { }
void host(void* x, int n) {
    switch (n) {
        case 4: RUN(float, 4); break;
        case 5: RUN(const __half*, 32) break;
    }
    RUN(double, (n < 4 ? 8 : 16));
}
"""
    found = [(each.kernel, each.words, each.line) for each in launches(text)]

    assert found == [
        ("k<float, 4>", ("1", "4"), 6), ("k<const __half*, 32>", ("1", "32"), 7),
        ("k<double, (n < 4 ? 8 : 16)>", ("1", "(n < 4 ? 8 : 16)"), 9),
    ]  # fmt: skip


CHOOSES = """
#define CASE(TYPE, NAME, ...) \\
  case TYPE: { using scalar_t = NAME; __VA_ARGS__; break; }
#define CHOOSE(TYPE, \\
               LABEL, ...) \\
  switch (TYPE) { CASE(0, at::Half, __VA_ARGS__) CASE(1, float, __VA_ARGS__) }
#define BOTH(FLAG, ...) \\
  if (FLAG) { constexpr bool wide = true; __VA_ARGS__ } else { const bool wide = false; __VA_ARGS__ }
#define RUN(N) CHOOSE(t, "run", k<scalar_t, N><<<1, 32>>>(x, y, 4);)
"""


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ("void f(float* x) { CHOOSE(t, \"f\", k<scalar_t, 4><<<1, 32>>>(x, x, 4);) }", "k<float, 4>"),
        ("void f(float* x) { CHOOSE(t, \"f\", ([&] { k<scalar_t, 4><<<1, 32>>>(x, x, 4); })) }", "k<float, 4>"),
        ("void f(float* x) { BOTH(x, CHOOSE(t, \"f\", k<scalar_t, wide><<<1, 32>>>(x, x, 4);)) }", "k<float, true>"),
        ("void f(float* x, float* y) { RUN(8) }", "k<float, 8>"),
        ("void f(T x) { AT_DISPATCH_INTEGRAL_TYPES(x.type(), \"f\", [&] { k<scalar_t, 4><<<1, 32>>>(p, p, 4); }); }",
         "k<int, 4>"),
        ("void f(T x) { AT_DISPATCH_SWITCH(x.type(), \"f\", AT_DISPATCH_CASE(at::ScalarType::BFloat16, [&] {"
         " k<scalar_t, 4><<<1, 32>>>(p, p, 4); })); }", "k<at::BFloat16, 4>"),
        ("template <typename T> void f(T* x) { k<T, 2><<<1, 32>>>(x, x, 4); }\n"
         "void g(Tensor x) { CHOOSE(t, \"g\", f<scalar_t>(x.data_ptr<scalar_t>());) }", "k<float, 2>"),
        ("template <typename T> void f(T* x) { k<T, 2><<<1, 32>>>(x, x, 4); }\n"
         "void g(Tensor x) { CHOOSE(t, \"g\", f(x.data_ptr<scalar_t>());) }", "k<float, 2>"),
        ("template <typename T> void f(T* x) { k<T, 2><<<1, 32>>>(x, x, 4); }\n"
         "void g(Tensor* x) { f((const __half *) x->data); }", "k<__half, 2>"),
        ("template <typename K, typename... A> void go(K kernel, A... a) { kernel<<<1, 32>>>(a...); }\n"
         "template <typename T> void f(T* x) { go(k<T, 2>, x, x, 4); }\n"
         "void g(void* x) { f(static_cast<double*>(x)); }", "k<double, 2>"),
        ("template <typename T, int N = 3> void f(T* x) { k<T, N><<<1, 32>>>(x, x, 4); }\n"
         "#define MAKE(T) template void f<T>(T*);\nMAKE(double)", "k<double, 3>"),
        ("template <typename T, int N> void f(T* x) { k<T, N><<<1, 32>>>(x, x, 4); }\n"
         "template <typename T> void g(T* x) { f<T, 6>(x); }\nvoid h(half2* x) { g<half2>(x); }", "k<half2, 6>"),
    ],
)  # fmt: skip
def test_names_that_macros_and_callers_choose_are_followed(body: str, name: str) -> None:
    text = f"{CHOOSES}template <typename T, int N> __global__ void k(T* x, T* y, int n);\n{body}\n"

    assert instances(text) == [name]


def test_negative_numbers_are_numbers() -> None:
    (shape,) = launched("__global__ void k(int a, float b, int c);\nvoid f() { k<<<1, 32>>>(-1, -2.5f, -0x10); }\n")

    assert shape.arguments == (-1, -2.5, -16)


HANDED = """
template <typename T, int N> __global__ void k(const T* x, T* y, int n);
struct Shape {
    dim3 grid; dim3 block; size_t bytes;
    Shape(dim3 a, dim3 b, size_t c) : grid(a), block(b), bytes(c) {}
};
template <typename K, typename... A>
void with_config(K kernel, dim3 grid, dim3 block, size_t bytes, A&&... args) {
    cudaLaunchConfig_t c = {};
    c.gridDim = grid;
    c.blockDim = block;
    c.dynamicSmemBytes = bytes;
    cudaLaunchAttribute at[1];
    at[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    at[0].val.programmaticStreamSerializationAllowed = 1;
    c.attrs = at;
    c.numAttrs = 1;
    cudaLaunchKernelEx(&c, kernel, std::forward<A>(args)...);
}
template <typename K, typename... A>
void with_angles(K kernel, const Shape& shape, A... args) {
    kernel<<<shape.grid, shape.block, shape.bytes>>>(args...);
}
template <typename K> void never_called(K kernel) { kernel<<<1, 32>>>(1); }
void run() {
    float *x, *y;
    int n = 640;
    cudaMalloc(&x, n * 4);
    cudaMalloc(&y, n * 4);
    with_config(k<float, 4>, dim3(n / 64, 2), 64, 128, x, y, n);
    with_config(k<float, 8>, n / 128, dim3(128), 0, x, y, 320);
    const dim3 block(32, 2);
    const Shape shape = Shape(5, block, 16);
    with_angles(k<float, 2>, shape, x, y, n + 1);
}
"""


def test_a_function_that_is_handed_its_kernel_launches_it_for_each_call() -> None:
    shapes = [shape for shape in launched(HANDED) if "<" in shape.kernel]

    assert [(each.kernel, each.grid, each.block, each.shared_bytes, each.pdl) for each in shapes] == [
        ("k<float, 4>", (10, 2), (64,), 128, True),
        ("k<float, 8>", (5,), (128,), 0, True),
        ("k<float, 2>", (5,), (32, 2), 16, False),
    ]
    assert [each.arguments for each in shapes] == [("x", "y", 640), ("x", "y", 320), ("x", "y", 641)]
    assert all(dict(each.allocated) == {"x": 2560, "y": 2560} for each in shapes)
    assert instances(HANDED) == ["k<float, 4>", "k<float, 8>", "k<float, 2>"]


def test_a_name_that_is_made_of_itself_is_made_of_what_it_was() -> None:
    text = (
        "#define MOST 256\n__global__ void k(int n);\n"
        "void f(int rows) { int block = 7 * 64; block = std::min(block, MOST);\n"
        "block = block / 2; rows = rows + 1; k<<<rows, block>>>(block); }\n"
    )

    (shape,) = launched(text, "k", given={"rows": 4})
    (lacking,) = launched(text, "k")

    assert (shape.block, shape.arguments) == ((128,), (128,))
    assert lacking.lacks == ("rows",)
    assert lacking.of_block == frozenset()


def test_a_launch_in_a_method_has_what_its_object_is_called_with() -> None:
    text = f"{HEAD}class Scaler {{ public: void run(int n) {{ plain<<<n / 64, 64>>>(x, n); }} }};\n"

    (launch,) = launched(text + "int main() { Scaler s; s.run(640); }", "plain")

    assert (launch.grid, launch.arguments[1], launch.lacks) == ((10,), 640, ())


HELPERS = """
#include <torch/extension.h>
inline int blocks_for(int many, int threads = 512) {
    int blocks = (many + threads - 1) / threads;
    int most = 4096;
    return min(blocks, most);
}
inline int rounded_up(int many, int by = 256) { return (many + by - 1) / by; }
__global__ void first(float* x, int n) {}
__global__ void second(float* x, int n) {}
void host(torch::Tensor x) {
    int n = x.numel();
    first<<<blocks_for(n), 512>>>(x.data_ptr<float>(), n);
    second<<<rounded_up(n), 256>>>(x.data_ptr<float>(), n);
    first<<<blocks_for(n, 100), 100>>>(x.data_ptr<float>(), n);
}
"""


def test_functions_have_values_for_what_they_are_not_passed_and_numbers_of_tensors_are_known_in_them() -> None:
    shapes = launched(HELPERS, given={"x.size(0)": 1000}, around=(HELPERS,))

    assert [shape.grid for shape in shapes] == [(2,), (4,), (10,)]


def test_a_number_that_a_launch_is_passed_is_the_same_behind_it() -> None:
    shapes = launched(HELPERS.replace("x.numel()", "1000"), around=(HELPERS,))

    assert [shape.grid for shape in shapes] == [(2,), (4,), (10,)]


def test_the_launch_of_a_kernel_is_read_without_those_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "".join(f"__global__ void k{i}(int* x) {{ *x = {i}; }}\n" for i in range(3))
    text += "void run(int* x, int n) { k0<<<n, 32>>>(x); k1<<<n, 64>>>(x); auto last = k2; last<<<n, 96>>>(x); }\n"
    read, in_numbers = list[str](), cu_launches._in_numbers

    def counted(placed: cu_launches._Placed) -> LaunchShape:
        read.append(placed.name)
        return in_numbers(placed)

    monkeypatch.setattr(cu_launches, "_in_numbers", counted)

    shapes = {name: cu_launches.launched(text, name, given={"n": 4})[0].block for name in ("k0", "k2")}

    assert shapes == {"k0": (32,), "k2": (96,)}
    assert read == ["k0", "k2"]
